//! What can be said about contacts.

use clap::Subcommand;

/// What `hubferry contacts erase --help` explains.
const ERASE: &str = "\
Erase a contact, here and in HubSpot

Address, properties and consents are wiped here at once, and what waits for the contact is stopped. Its record is then deleted \
for good in every portal that knows it, unless it is the record of another contact too. HubSpot refuses a deleted address from \
then on. An erasure that died is tried anew when the command is run again.

Without --yes, the command says what would happen.";

#[derive(Debug, Subcommand)]
pub(crate) enum ContactsCommand {
    /// Erase a contact, here and in HubSpot
    #[command(long_about = ERASE)]
    Erase {
        /// The contact's key
        #[arg(value_name = "CONTACT_KEY")]
        key: String,
        /// Do it; without this, it is only said what would happen
        #[arg(long)]
        yes: bool,
    },
}
