//! Why a notification, or a whole delivery, can't be used.

use std::fmt;

/// Why a notification can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuarantineReason {
    /// Not an object, or one whose names are no text.
    NotAnObject,
    /// Neither `subscriptionType` nor `eventType`.
    NoType,
    /// `portalId` is missing, or no id.
    NoPortal,
    /// `occurredAt` is missing, or no number.
    NoOccurredAt,
    /// `occurredAt` is before HubSpot's time, or still to come.
    OccurredAtOutOfRange,
    /// The type is about a record and names none.
    NoObject,
    /// An id that is no number from 1 to 2^63 - 1.
    BadObjectId,
    /// A property change without its property.
    NoProperty,
    /// Text that PostgreSQL can't hold: NUL, or half of a surrogate pair.
    UnstorableText,
    /// A name far longer than any.
    NameTooLong,
    /// Signed with the secret of another portal.
    ForeignPortal,
    /// Signed with the secret of another app.
    ForeignApp,
}

/// Why nothing of a delivery can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadableBody {
    /// Not UTF-8.
    NotText,
    /// Not JSON, or cut off.
    NotJson,
    /// JSON, and neither a list nor an object.
    NotAList,
    /// More than [`MOST_NOTIFICATIONS`](super::MOST_NOTIFICATIONS).
    TooMany,
}

impl QuarantineReason {
    /// The stable word under which it is stored.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotAnObject => "not_an_object",
            Self::NoType => "no_type",
            Self::NoPortal => "no_portal",
            Self::NoOccurredAt => "no_occurred_at",
            Self::OccurredAtOutOfRange => "occurred_at_out_of_range",
            Self::NoObject => "no_object",
            Self::BadObjectId => "bad_object_id",
            Self::NoProperty => "no_property",
            Self::UnstorableText => "unstorable_text",
            Self::NameTooLong => "name_too_long",
            Self::ForeignPortal => "foreign_portal",
            Self::ForeignApp => "foreign_app",
        }
    }
}

impl UnreadableBody {
    /// The stable word under which it is stored.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotText => "not_text",
            Self::NotJson => "not_json",
            Self::NotAList => "not_a_list",
            Self::TooMany => "too_many",
        }
    }
}

impl fmt::Display for QuarantineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
