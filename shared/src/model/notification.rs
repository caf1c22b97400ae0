//! What a delivery holds: notifications, each read for itself and as leniently as HubSpot's own variety demands.
//!
//! A delivery is a JSON list of up to 100 notifications, or one object when a workflow sends it. Fields come and go with the
//! type, so only those are demanded without which a notification says nothing. Numbers are read from their text: record
//! ids do not fit a double. Source: HubSpot's webhooks guide (<https://developers.hubspot.com/docs/api-reference/webhooks>).

mod fields;
mod key;
mod kind;
mod reason;

use jiff::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

pub use key::NotificationKey;
pub use kind::{NotificationKind, object_type, type_id};
pub use reason::{QuarantineReason, UnreadableBody};

use fields::Fields;

/// HubSpot sends at most 100. This is as many as one statement stores well within the time for an answer.
pub const MOST_NOTIFICATIONS: usize = 10_000;

/// HubSpot had no webhooks earlier, ms since 1970: 2000-01-01.
const EARLIEST_MS: i64 = 946_684_800_000;

/// A change from further ahead than this would win against every true one for as long, ms.
const MOST_AHEAD_MS: i64 = 86_400_000;

/// Types and property names are shorter by far, characters.
const LONGEST_NAME: usize = 250;

/// Who a delivery comes from, by the secret that it was signed with: nobody speaks for another app or portal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sender {
    /// The app, where the secret is one app's.
    pub app_id: Option<i64>,
    /// The portal, where the secret is one portal's.
    pub portal_id: Option<i64>,
}

/// One notification.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// What makes it the same when it comes again.
    pub key: NotificationKey,
    /// Portal it is about.
    pub portal_id: i64,
    /// Type, as sent: `contact.propertyChange`, `object.creation`.
    pub subscription_type: String,
    /// Object type by name, such as `contact`, or by HubSpot's type id, such as `0-27`; `None` when the type names none.
    pub object_type: Option<String>,
    /// Record. Of a merge the primary one, of an association change none.
    pub object_id: Option<i64>,
    /// Property that changed.
    pub property_name: Option<String>,
    /// Its value, as text.
    pub property_value: Option<String>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// HubSpot's number of the event, as text. Not unique.
    pub event_id: Option<String>,
    /// App it was sent for.
    pub app_id: Option<i64>,
    /// What made the change, such as `CRM_UI`.
    pub change_source: Option<String>,
    /// Fields of some types only, by HubSpot's names.
    pub details: Value,
}

/// A notification that can't be used, kept with its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Quarantined {
    /// What makes it the same when it comes again.
    pub key: NotificationKey,
    /// Its portal, where that could be read.
    pub portal_id: Option<i64>,
    /// Its type, where that could be read.
    pub subscription_type: Option<String>,
    /// Why.
    pub reason: QuarantineReason,
    /// Its JSON, as it came.
    pub raw: String,
}

/// Reads the body of a delivery that came in at this instant (ms since 1970). Empty text, `null` and an empty list hold no
/// notification.
pub fn parse(
    body: &[u8],
    sender: Sender,
    received_ms: i64,
) -> Result<Vec<Result<Notification, Quarantined>>, UnreadableBody> {
    let text = std::str::from_utf8(body).map_err(|_| UnreadableBody::NotText)?.trim();
    let items: Vec<&RawValue> = match text.bytes().next() {
        None => Vec::new(),
        Some(b'[') => serde_json::from_str(text).map_err(|_| UnreadableBody::NotJson)?,
        Some(b'{') => vec![serde_json::from_str(text).map_err(|_| UnreadableBody::NotJson)?],
        Some(_) if text == "null" => Vec::new(),
        Some(_) => return Err(not_a_list(text)),
    };
    if items.len() > MOST_NOTIFICATIONS {
        return Err(UnreadableBody::TooMany);
    }
    Ok(items.into_iter().map(|item| read(item.get(), sender, received_ms)).collect())
}

fn not_a_list(text: &str) -> UnreadableBody {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => UnreadableBody::NotAList,
        Err(_) => UnreadableBody::NotJson,
    }
}

fn read(raw: &str, sender: Sender, received_ms: i64) -> Result<Notification, Quarantined> {
    let fields = Fields::of(raw);
    let read = fields.as_ref().map_or(Err(QuarantineReason::NotAnObject), |fields| {
        let notification = understand(fields, received_ms)?;
        check_sender(&notification, sender)?;
        Ok(notification)
    });
    read.map_err(|reason| Quarantined {
        key: fields.as_ref().map_or_else(|| NotificationKey::of_text(raw), NotificationKey::of_fields),
        portal_id: fields.as_ref().and_then(|fields| fields.id("portalId").ok().flatten()),
        subscription_type: fields.as_ref().and_then(|fields| fields.name(&kind::TYPE_FIELDS).ok().flatten()),
        reason,
        raw: raw.to_owned(),
    })
}

fn understand(fields: &Fields<'_>, received_ms: i64) -> Result<Notification, QuarantineReason> {
    let subscription_type = fields.name(&kind::TYPE_FIELDS)?.ok_or(QuarantineReason::NoType)?;
    let portal_id = fields.id("portalId").ok().flatten().ok_or(QuarantineReason::NoPortal)?;
    let occurred_ms = fields.integer("occurredAt").ok_or(QuarantineReason::NoOccurredAt)?;
    let occurred_at = instant(occurred_ms, received_ms).ok_or(QuarantineReason::OccurredAtOutOfRange)?;
    let kind = NotificationKind::of(&subscription_type);
    let mut notification = Notification {
        key: NotificationKey::default(),
        portal_id,
        object_type: object_type(&subscription_type, fields.name(&kind::OBJECT_TYPE_FIELDS)?.as_deref()),
        object_id: object_id(kind, fields)?,
        property_name: fields.name(&["propertyName"])?,
        property_value: fields.text("propertyValue")?,
        occurred_at,
        event_id: fields.name(&["eventId"])?,
        app_id: fields.integer("appId"),
        change_source: fields.name(&["changeSource"])?,
        details: details(fields)?,
        subscription_type,
    };
    if kind == NotificationKind::PropertyChange && notification.property_name.is_none() {
        return Err(QuarantineReason::NoProperty);
    }
    notification.key = NotificationKey::of(&notification);
    Ok(notification)
}

fn instant(occurred_ms: i64, received_ms: i64) -> Option<Timestamp> {
    let is_possible = (EARLIEST_MS..=received_ms.saturating_add(MOST_AHEAD_MS)).contains(&occurred_ms);
    Timestamp::from_millisecond(occurred_ms).ok().filter(|_| is_possible)
}

/// The record it is about. Types that we do not know may have none.
fn object_id(kind: NotificationKind, fields: &Fields<'_>) -> Result<Option<i64>, QuarantineReason> {
    let found = match (fields.id("objectId")?, kind) {
        (None, NotificationKind::Merge) => fields.id("primaryObjectId")?.or(fields.id("newObjectId")?),
        (found, _) => found,
    };
    let is_complete = match kind {
        NotificationKind::Other => true,
        NotificationKind::AssociationChange => {
            fields.id("fromObjectId")?.is_some() && fields.id("toObjectId")?.is_some()
        }
        _ => found.is_some(),
    };
    if is_complete { Ok(found) } else { Err(QuarantineReason::NoObject) }
}

fn details(fields: &Fields<'_>) -> Result<Value, QuarantineReason> {
    let mut details = Map::new();
    for name in ["fromObjectId", "toObjectId", "primaryObjectId", "newObjectId"] {
        details.extend(fields.id(name)?.map(|id| (name.to_owned(), json!(id))));
    }
    details.extend(fields.ids("mergedObjectIds")?.map(|ids| ("mergedObjectIds".to_owned(), json!(ids))));
    for name in ["subscriptionId", "associationTypeId", "numberOfPropertiesMoved"] {
        details.extend(fields.integer(name).map(|number| (name.to_owned(), json!(number))));
    }
    for name in ["associationRemoved", "isPrimaryAssociation", "isSensitive"] {
        details.extend(fields.flag(name).map(|flag| (name.to_owned(), json!(flag))));
    }
    for name in DETAIL_NAMES {
        details.extend(fields.name(&[name])?.map(|text| (name.to_owned(), json!(text))));
    }
    Ok(Value::Object(details))
}

/// Short texts of some types only.
const DETAIL_NAMES: [&str; 9] = [
    "associationCategory",
    "associationType",
    "changeFlag",
    "fromObjectTypeId",
    "messageId",
    "messageType",
    "objectTypeId",
    "sourceId",
    "toObjectTypeId",
];

fn check_sender(notification: &Notification, sender: Sender) -> Result<(), QuarantineReason> {
    if sender.portal_id.is_some_and(|portal_id| portal_id != notification.portal_id) {
        return Err(QuarantineReason::ForeignPortal);
    }
    match (sender.app_id, notification.app_id) {
        (Some(expected), Some(found)) if expected != found => Err(QuarantineReason::ForeignApp),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
