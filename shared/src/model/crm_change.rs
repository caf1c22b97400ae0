//! A change of a property in HubSpot, as the projection found it.

use std::fmt;

use jiff::Timestamp;

use super::ids::{PortalId, RecordId};

/// The object type of contacts.
pub const CONTACT: &str = "contact";

/// A property that really changed: HubSpot reported it, nothing newer was known, and the value is another one than before.
///
/// Of several changes of a property that are applied together each is one, in the order in which they happened. A change is
/// handed out again when its event is worked again.
#[derive(Clone, PartialEq, Eq)]
pub struct CrmChange {
    /// Portal.
    pub portal_id: PortalId,
    /// Object type by name, such as `contact`, or by HubSpot's type id, such as `0-27`.
    pub object_type: String,
    /// Record. After a merge the surviving one.
    pub object_id: RecordId,
    /// Internal name of the property.
    pub property: String,
    /// The value that was known before; `None`: none was known.
    pub before: Option<String>,
    /// The value since.
    pub after: Option<String>,
    /// When it happened, by HubSpot's clock.
    pub occurred_at: Timestamp,
    /// The notification that told of it, or that asked for the read which told of it.
    pub notification_key: [u8; 32],
    /// What made the change, such as `CRM_UI`, where HubSpot says so.
    pub change_source: Option<String>,
}

impl fmt::Debug for CrmChange {
    // Values are personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrmChange")
            .field("portal_id", &self.portal_id)
            .field("object_type", &self.object_type)
            .field("object_id", &self.object_id)
            .field("property", &self.property)
            .field("occurred_at", &self.occurred_at)
            .finish_non_exhaustive()
    }
}
