//! What is known about one answer, before it is judged.

use super::ErrorBody;

/// The facts that [`classify`](super::classify()) judges. Exactly one of `status` and `transport` is set, except when the
/// connection broke after the status line of a success: then both are.
#[derive(Debug, Clone, Copy)]
pub struct AnswerFacts<'a> {
    /// The HTTP status, when a status line arrived.
    pub status: Option<u16>,
    /// What went wrong below HTTP.
    pub transport: Option<TransportFailure>,
    /// What the body is.
    pub content: Content,
    /// The error object of the body, when there was a readable one.
    pub error: Option<&'a ErrorBody>,
    /// What the call was for.
    pub intent: Intent,
}

/// What a body is, told by its content type and its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A JSON document, complete or cut off.
    Json,
    /// No byte at all.
    Empty,
    /// Something else: HTML or text of a gateway that stands before HubSpot.
    Foreign,
}

/// What a call was for, and how many rows it carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intent {
    /// The kind of call.
    pub operation: Operation,
    /// The number of inputs. A refusal of a call with one row is the refusal of that row.
    pub rows: usize,
}

/// The kinds of calls that are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `contacts/batch/upsert`.
    UpsertContacts,
    /// `contacts/batch/update`.
    UpdateContacts,
    /// `contacts/batch/read`, and that of any other object type.
    ReadContacts,
    /// Subscription statuses, one or many, read.
    ReadStatuses,
    /// Subscription statuses, one or many, written.
    WriteStatuses,
    /// `contacts/gdpr-delete`.
    EraseContact,
    /// Records put into a list or taken out of it.
    ChangeMembership,
    /// Properties and property groups, read or created.
    ManageProperties,
    /// Usage and details of the account.
    ReadAccount,
}

impl Operation {
    /// Whether the inputs are rows that can be refused one by one.
    #[must_use]
    pub fn has_rows(self) -> bool {
        match self {
            Self::UpsertContacts
            | Self::UpdateContacts
            | Self::ReadContacts
            | Self::ReadStatuses
            | Self::WriteStatuses
            | Self::EraseContact
            | Self::ChangeMembership => true,
            Self::ManageProperties | Self::ReadAccount => false,
        }
    }

    /// Stable name in snake case, for logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UpsertContacts => "upsert_contacts",
            Self::UpdateContacts => "update_contacts",
            Self::ReadContacts => "read_contacts",
            Self::ReadStatuses => "read_statuses",
            Self::WriteStatuses => "write_statuses",
            Self::EraseContact => "erase_contact",
            Self::ChangeMembership => "change_membership",
            Self::ManageProperties => "manage_properties",
            Self::ReadAccount => "read_account",
        }
    }
}

/// What went wrong below HTTP. None of these says whether HubSpot acted on the call, except where noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransportFailure {
    /// The call's time limit ran out.
    Timeout,
    /// No connection came about, so HubSpot has not seen the call.
    Connect,
    /// The connection broke before the status line.
    ConnectionLost,
    /// The connection broke inside the body.
    BodyCut,
    /// The body went over the cap and was not read to its end.
    BodyTooLarge,
    /// The token cannot be a header value; nothing was sent.
    TokenMalformed,
    /// The request could not be built; nothing was sent.
    RequestInvalid,
}

impl TransportFailure {
    /// Stable code of a refusal by this failure.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Connect => "connect_failed",
            Self::ConnectionLost => "connection_lost",
            Self::BodyCut => "body_cut",
            Self::BodyTooLarge => "body_too_large",
            Self::TokenMalformed => "token_malformed",
            Self::RequestInvalid => "request_invalid",
        }
    }
}
