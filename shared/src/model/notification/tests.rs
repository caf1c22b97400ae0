use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOW_MS: i64 = 1_790_000_002_000;

fn read_all(body: &str) -> Vec<Result<Notification, Quarantined>> {
    parse(body.as_bytes(), Sender::default(), NOW_MS).unwrap()
}

fn read_one(notification: &Value) -> Result<Notification, Quarantined> {
    read_all(&json!([notification]).to_string()).remove(0)
}

fn reason(notification: &Value) -> QuarantineReason {
    read_one(notification).unwrap_err().reason
}

/// A property change with some fields replaced; null takes one away.
fn change(replaced: &Value) -> Value {
    let mut notification = json!({
        "eventId": 880_001, "subscriptionId": 55_001, "portalId": 4711, "appId": 9001, "occurredAt": 1_790_000_000_000_i64,
        "subscriptionType": "contact.propertyChange", "attemptNumber": 0, "objectId": 90_210, "changeSource": "CRM_UI",
        "propertyName": "city", "propertyValue": "Utrecht",
    });
    for (name, value) in replaced.as_object().unwrap() {
        notification[name] = value.clone();
    }
    notification
}

#[test]
fn a_property_change_is_read_whole() {
    let found = read_one(&change(&json!({"sourceId": "userId:17", "isSensitive": false}))).unwrap();
    assert_eq!((found.portal_id, found.object_id, found.app_id), (4711, Some(90_210), Some(9001)));
    assert_eq!(found.subscription_type, "contact.propertyChange");
    assert_eq!(found.object_type.as_deref(), Some("contact"));
    assert_eq!((found.property_name.as_deref(), found.property_value.as_deref()), (Some("city"), Some("Utrecht")));
    assert_eq!(found.occurred_at.as_millisecond(), 1_790_000_000_000);
    assert_eq!((found.event_id.as_deref(), found.change_source.as_deref()), (Some("880001"), Some("CRM_UI")));
    assert_eq!(found.details, json!({"subscriptionId": 55_001, "sourceId": "userId:17", "isSensitive": false}));
}

#[test]
fn nothing_an_empty_list_null_and_a_single_object_are_ordinary() {
    for nothing in ["", "  \n", "null", "[]", " [ ] "] {
        assert_eq!(read_all(nothing), [], "{nothing:?}");
    }
    assert!(read_all(&change(&json!({})).to_string())[0].is_ok());
    assert_eq!(read_all("{}")[0].as_ref().unwrap_err().reason, QuarantineReason::NoType);
}

#[test]
fn a_body_that_is_no_list_is_named() {
    let unreadable = |body: &[u8]| parse(body, Sender::default(), NOW_MS).unwrap_err();
    assert_eq!(unreadable(b"\x1f\x8b\x08\x00"), UnreadableBody::NotText);
    assert_eq!(unreadable(b"[{\"portalId\":4711,"), UnreadableBody::NotJson);
    assert_eq!(unreadable(b"<html>"), UnreadableBody::NotJson);
    assert_eq!(unreadable(b"\"text\""), UnreadableBody::NotAList);
    assert_eq!(unreadable(b"17"), UnreadableBody::NotAList);
    let many = format!("[{}]", vec!["1"; MOST_NOTIFICATIONS + 1].join(","));
    assert_eq!(unreadable(many.as_bytes()), UnreadableBody::TooMany);
    let most = format!("[{}]", vec!["1"; MOST_NOTIFICATIONS].join(","));
    assert_eq!(read_all(&most).len(), MOST_NOTIFICATIONS);
}

#[test]
fn ids_are_exact_to_the_last_of_63_bits_as_numbers_and_as_text() {
    for id in ["2147483648", "9007199254740993", "\"9007199254740993\"", "9223372036854775807"] {
        let body = format!(
            r#"[{{"portalId":4711,"occurredAt":1790000000000,"subscriptionType":"contact.creation","objectId":{id}}}]"#
        );
        let found = read_all(&body).remove(0).unwrap();
        assert_eq!(found.object_id.unwrap().to_string(), id.trim_matches('"'));
    }
    for id in ["18446744073709551616", "9223372036854775808", "1.5", "1e3", "0", "-1", "\"x\"", "{}", "true"] {
        let body = format!(
            r#"[{{"portalId":4711,"occurredAt":1790000000000,"subscriptionType":"contact.creation","objectId":{id}}}]"#
        );
        let found = read_all(&body).remove(0).unwrap_err();
        assert_eq!((found.reason, found.portal_id), (QuarantineReason::BadObjectId, Some(4711)), "{id}");
        assert!(found.raw.contains(id));
    }
}

#[test]
fn one_bad_notification_costs_only_itself() {
    let body = format!(
        "[{},17,{},\"x\",{}]",
        change(&json!({})),
        change(&json!({"occurredAt": "soon"})),
        change(&json!({"eventId": 2}))
    );
    let good: Vec<bool> = read_all(&body).iter().map(Result::is_ok).collect();
    assert_eq!(good, [true, false, false, false, true]);
}

#[test]
fn what_is_missing_or_impossible_is_the_reason() {
    for (replaced, expected) in [
        (json!({"subscriptionType": null}), QuarantineReason::NoType),
        (json!({"portalId": null}), QuarantineReason::NoPortal),
        (json!({"portalId": "x"}), QuarantineReason::NoPortal),
        (json!({"portalId": -4711}), QuarantineReason::NoPortal),
        (json!({"occurredAt": null}), QuarantineReason::NoOccurredAt),
        (json!({"occurredAt": "soon"}), QuarantineReason::NoOccurredAt),
        (json!({"occurredAt": 1_790_000_000}), QuarantineReason::OccurredAtOutOfRange),
        (json!({"occurredAt": NOW_MS + 86_400_001}), QuarantineReason::OccurredAtOutOfRange),
        (json!({"occurredAt": i64::MAX}), QuarantineReason::OccurredAtOutOfRange),
        (json!({"objectId": null}), QuarantineReason::NoObject),
        (json!({"propertyName": null}), QuarantineReason::NoProperty),
        (json!({"propertyName": ""}), QuarantineReason::NoProperty),
        (json!({"propertyName": "n".repeat(LONGEST_NAME + 1)}), QuarantineReason::NameTooLong),
        (json!({"propertyValue": "a\0b"}), QuarantineReason::UnstorableText),
        (json!({"sourceId": "a\0b"}), QuarantineReason::UnstorableText),
        (json!({"subscriptionType": "contact.associationChange", "fromObjectId": 1}), QuarantineReason::NoObject),
        (json!({"subscriptionType": "contact.merge", "mergedObjectIds": ["x"]}), QuarantineReason::BadObjectId),
    ] {
        assert_eq!(reason(&change(&replaced)), expected, "{replaced}");
    }
}

#[test]
fn half_of_a_surrogate_pair_is_quarantined_with_its_text_as_it_came() {
    let body = change(&json!({"propertyValue": "SURROGATE"})).to_string().replace("SURROGATE", r"\ud83e");
    let found = read_all(&body).remove(0).unwrap_err();
    assert_eq!(found.reason, QuarantineReason::UnstorableText);
    assert_eq!(found.raw, body);
    let elsewhere = change(&json!({"surprise": "SURROGATE"})).to_string().replace("SURROGATE", r"\ud83e");
    assert!(read_all(&elsewhere)[0].is_ok(), "what nobody reads can't be wrong");
}

#[test]
fn numbers_as_text_and_texts_as_numbers_are_read() {
    let found = read_one(&change(&json!({
        "portalId": "4711", "objectId": " 90210 ", "occurredAt": "1790000000000", "propertyValue": 12.50, "eventId": "880001",
    })));
    let found = found.unwrap();
    assert_eq!(found.key, read_one(&change(&json!({}))).unwrap().key);
    assert_eq!(found.property_value.as_deref(), Some("12.5"));
    assert_eq!(read_one(&change(&json!({"propertyValue": null}))).unwrap().property_value, None);
    assert_eq!(read_one(&change(&json!({"propertyValue": ""}))).unwrap().property_value.as_deref(), Some(""));
}

#[test]
fn the_older_name_of_the_type_counts_and_the_other_one_wins() {
    let older = change(&json!({"subscriptionType": null, "eventType": "contact.propertyChange"}));
    assert_eq!(read_one(&older).unwrap().key, read_one(&change(&json!({}))).unwrap().key);
    let both = change(&json!({"eventType": "contact.creation"}));
    assert_eq!(read_one(&both).unwrap().subscription_type, "contact.propertyChange");
}

#[test]
fn association_changes_name_two_records_and_no_object() {
    let association = json!({
        "eventId": 104, "portalId": 33, "occurredAt": 1_767_225_604_000_i64, "subscriptionType": "contact.associationChange",
        "associationType": "CONTACT_TO_COMPANY", "fromObjectId": 123, "toObjectId": 555, "associationRemoved": false,
        "isPrimaryAssociation": true,
    });
    let found = read_one(&association).unwrap();
    assert_eq!(found.object_id, None);
    assert_eq!(
        found.details,
        json!({
            "associationType": "CONTACT_TO_COMPANY", "fromObjectId": 123, "toObjectId": 555, "associationRemoved": false,
            "isPrimaryAssociation": true,
        })
    );
    let mut other = association;
    other["toObjectId"] = json!(556);
    assert_ne!(read_one(&other).unwrap().key, found.key);
}

#[test]
fn a_merge_keeps_every_id() {
    let merge = json!({
        "eventId": 103, "portalId": 33, "occurredAt": 1_767_225_603_000_i64, "subscriptionType": "contact.merge",
        "primaryObjectId": 123, "mergedObjectIds": [456, "789"], "newObjectId": 999, "numberOfPropertiesMoved": 7,
    });
    let found = read_one(&merge).unwrap();
    assert_eq!(found.object_id, Some(123));
    let expected = json!({"primaryObjectId": 123, "mergedObjectIds": [456, 789], "newObjectId": 999, "numberOfPropertiesMoved": 7});
    assert_eq!(found.details, expected);
}

#[test]
fn generic_types_say_in_a_field_what_they_are_about_and_unknown_ones_are_kept() {
    for (subscription_type, type_id, expected) in [
        ("object.creation", Some("0-1"), Some("contact")),
        ("object.creation", Some("0-3"), Some("deal")),
        ("object.creation", Some("2-1234"), Some("2-1234")),
        ("object.creation", None, None),
        ("contact.somethingNew", None, Some("contact")),
        ("somethingElse", None, None),
    ] {
        let found = read_one(&change(&json!({"subscriptionType": subscription_type, "objectTypeId": type_id})));
        assert_eq!(found.unwrap().object_type.as_deref(), expected, "{subscription_type} {type_id:?}");
    }
    assert_eq!(NotificationKind::of("contact.somethingNew"), NotificationKind::Other);
    assert_eq!(NotificationKind::of("object.propertyChange"), NotificationKind::PropertyChange);
}

#[test]
fn the_key_is_what_happened_and_not_how_often_or_in_which_batch_it_was_sent() {
    let key = |replaced: Value| read_one(&change(&replaced)).unwrap().key;
    let first = key(json!({}));
    for same in [json!({"attemptNumber": 7}), json!({"changeFlag": "NEW"}), json!({"subscriptionId": 1})] {
        assert_eq!(key(same.clone()), first, "{same}");
    }
    for other in [
        json!({"portalId": 4712}),
        json!({"eventId": 880_002}),
        json!({"objectId": 90_211}),
        json!({"propertyName": "country"}),
        json!({"occurredAt": 1_790_000_000_001_i64}),
        json!({"subscriptionType": "object.propertyChange", "objectTypeId": "0-1"}),
    ] {
        assert_ne!(key(other.clone()), first, "{other}");
    }
}

#[test]
fn a_bad_notification_that_comes_again_is_the_same_one() {
    let bad = |attempt: u32| read_one(&change(&json!({"objectId": "x", "attemptNumber": attempt}))).unwrap_err().key;
    assert_eq!(bad(0), bad(3));
    assert_ne!(read_one(&change(&json!({"objectId": "y"}))).unwrap_err().key, bad(0));
}

#[test]
fn nobody_speaks_for_another_portal_or_app() {
    let as_sent_by = |sender| parse(change(&json!({})).to_string().as_bytes(), sender, NOW_MS).unwrap().remove(0);
    let reason = |sender| as_sent_by(sender).unwrap_err().reason;
    assert!(as_sent_by(Sender { portal_id: Some(4711), app_id: Some(9001) }).is_ok());
    assert_eq!(reason(Sender { portal_id: Some(1), app_id: None }), QuarantineReason::ForeignPortal);
    assert_eq!(reason(Sender { portal_id: None, app_id: Some(1) }), QuarantineReason::ForeignApp);
}

#[test]
fn a_type_that_names_no_objects_is_about_none() {
    for subscription_type in [".propertyChange", ".", "unheardOf", "object.creation"] {
        let found = read_one(&change(&json!({"subscriptionType": subscription_type}))).expect("a notification");
        assert_eq!(found.object_type, None, "{subscription_type}");
    }
}

#[test]
fn depth_costs_nothing() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let body = change(&json!({"surprise": "DEEP"})).to_string().replace("\"DEEP\"", &deep);
    assert!(read_all(&body)[0].is_ok());
    assert_eq!(read_all(&deep)[0].as_ref().unwrap_err().reason, QuarantineReason::NotAnObject);
}

proptest! {
    #[test]
    fn no_body_panics(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&body, Sender::default(), NOW_MS);
    }

    #[test]
    fn no_text_panics_and_what_is_read_can_be_stored(body in r#"[\[\]{}",:\\u0dD8a1-9a-z ]{0,80}"#, value in ".{0,40}") {
        let _ = parse(body.as_bytes(), Sender::default(), NOW_MS);
        match read_one(&change(&json!({"propertyValue": value}))) {
            Ok(found) => prop_assert_eq!(found.property_value.as_deref(), Some(value.as_str())),
            Err(found) => prop_assert!(found.reason == QuarantineReason::UnstorableText && value.contains('\0')),
        }
    }
}
