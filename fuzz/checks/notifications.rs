//! What holds for any bytes whatsoever that are read as a delivery.

use hubferry::model::notification::{MOST_NOTIFICATIONS, Notification, NotificationKey, Quarantined, Sender, parse};

/// The instant at which all deliveries come in, ms since 1970.
const RECEIVED_MS: i64 = 1_790_000_000_000;

/// Who signs them.
const SENDERS: [Sender; 2] =
    [Sender { app_id: None, portal_id: None }, Sender { app_id: Some(9001), portal_id: Some(4711) }];

/// Longest type, property name and the like, characters.
const LONGEST_NAME: usize = 250;

/// Reads a body, for a sender who may speak for all and for one who may not.
pub(crate) fn check(body: &[u8]) {
    for sender in SENDERS {
        let read = parse(body, sender, RECEIVED_MS);
        assert_eq!(read, parse(body, sender, RECEIVED_MS), "read twice");
        let Ok(notifications) = read else { continue };
        assert!(std::str::from_utf8(body).is_ok());
        assert!(notifications.len() <= MOST_NOTIFICATIONS);
        for notification in &notifications {
            match notification {
                Ok(good) => check_good(good, sender),
                Err(bad) => check_quarantined(bad, sender),
            }
        }
    }
}

/// All that the tables demand, so that storing can't fail for what is in it.
fn check_good(good: &Notification, sender: Sender) {
    assert_ne!(good.key, NotificationKey::default());
    assert!(good.portal_id > 0 && sender.portal_id.is_none_or(|portal_id| portal_id == good.portal_id));
    assert!(good.object_id.is_none_or(|object_id| object_id > 0));
    assert!(good.occurred_at.as_millisecond() <= RECEIVED_MS + 86_400_000);
    let names = [&good.object_type, &good.property_name, &good.event_id, &good.change_source];
    for name in names.into_iter().flatten().chain([&good.subscription_type]) {
        assert!(!name.is_empty() && name.chars().count() <= LONGEST_NAME && !name.contains('\0'), "{name:?}");
    }
    assert!(!good.property_value.as_ref().is_some_and(|value| value.contains('\0')));
    let details = good.details.to_string();
    assert!(good.details.is_object() && !details.contains("\\u0000"), "{details}");
}

/// What is kept can be read again, with the same end.
fn check_quarantined(bad: &Quarantined, sender: Sender) {
    assert!(!bad.raw.contains('\0'));
    assert!(bad.portal_id.is_none_or(|portal_id| portal_id > 0));
    let alone = format!("[{}]", bad.raw);
    assert_eq!(parse(alone.as_bytes(), sender, RECEIVED_MS), Ok(vec![Err(bad.clone())]));
}
