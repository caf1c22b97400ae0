//! What a notification is about, by its type.

/// Where the type stands. The documentation has both.
pub(super) const TYPE_FIELDS: [&str; 2] = ["subscriptionType", "eventType"];

/// Where a generic type says which objects it is about.
pub(super) const OBJECT_TYPE_FIELDS: [&str; 2] = ["objectTypeId", "fromObjectTypeId"];

/// The first part of types that name their objects in a field.
const GENERIC: &str = "object";

/// HubSpot's type ids of objects that have a type of their own, and its name.
const NAMED_TYPES: [(&str, &str); 6] = [
    ("0-1", "contact"),
    ("0-2", "company"),
    ("0-3", "deal"),
    ("0-5", "ticket"),
    ("0-7", "product"),
    ("0-8", "line_item"),
];

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotificationKind {
    /// A record was made.
    Creation,
    /// A property of a record changed.
    PropertyChange,
    /// A record was moved to the recycling bin.
    Deletion,
    /// A contact was erased for privacy.
    PrivacyDeletion,
    /// A record came back from the recycling bin.
    Restore,
    /// Records became one.
    Merge,
    /// Two records were connected or parted.
    AssociationChange,
    /// A type that we do not know.
    Other,
}

impl NotificationKind {
    /// Of a type such as `contact.propertyChange`.
    pub fn of(subscription_type: &str) -> Self {
        match subscription_type.split_once('.').map(|(_, action)| action) {
            Some("creation") => Self::Creation,
            Some("propertyChange") => Self::PropertyChange,
            Some("deletion") => Self::Deletion,
            Some("privacyDeletion") => Self::PrivacyDeletion,
            Some("restore") => Self::Restore,
            Some("merge") => Self::Merge,
            Some("associationChange") => Self::AssociationChange,
            _ => Self::Other,
        }
    }
}

/// The object type: by name where it has one, so that `object.creation` of `0-1` and `contact.creation` are about the same.
/// `None` where nothing stands before the point.
pub fn object_type(subscription_type: &str, type_id: Option<&str>) -> Option<String> {
    let (named, _) = subscription_type.split_once('.')?;
    if named != GENERIC {
        return Some(named.to_owned()).filter(|named| !named.is_empty());
    }
    let type_id = type_id?;
    let name = NAMED_TYPES.iter().find(|(id, _)| *id == type_id).map_or(type_id, |(_, name)| name);
    Some(name.to_owned())
}

/// HubSpot's type id of an object type, as the paths of its API take it: the other way round. Types without a name have it already.
pub fn type_id(object_type: &str) -> &str {
    NAMED_TYPES.iter().find(|(_, name)| *name == object_type).map_or(object_type, |(id, _)| id)
}
