//! The numbers that HubSpot hands out, each with a type of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl std::str::FromStr for $name {
            type Err = std::num::ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

number_id!(
    /// The HubSpot account (portal, hub) that a token belongs to.
    PortalId
);
number_id!(
    /// A CRM record. HubSpot's ids outgrow 32 bits, so the simulator's begin above that.
    RecordId
);
number_id!(
    /// A subscription type, such as the newsletter.
    SubscriptionId
);
number_id!(
    /// A list (segment).
    ListId
);
