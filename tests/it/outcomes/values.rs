//! Values: each is sent as its type wants it, a bad one is left out by itself, and one that HubSpot does not apply is told.

use hubferry::adapters::db;
use hubspot_simulator::{Action, Fault, SubscriptionState};
use serde_json::{Value, json};

use super::{Scene, invalid_value, people, respond, subscription};
use crate::world::with;

/// Targets of the newsletter with these properties beside the name.
fn targets(properties: &Value) -> Value {
    let mut all = json!({"firstname": "firstname"});
    all.as_object_mut().unwrap().extend(properties.as_object().unwrap().clone());
    json!({
        "contact_properties": all,
        "subscription_type": 1001,
        "segments": {"subscribed": {"add": ["101"]}, "unsubscribed": {"remove": ["101"]}},
    })
}

fn carrying(email: &str, properties: &Value) -> Value {
    let mut all = json!({"firstname": "Zephyrine"});
    all.as_object_mut().unwrap().extend(properties.as_object().unwrap().clone());
    with(subscription(email), json!({"contact": {"email": email, "properties": all}}))
}

/// The property's value in HubSpot, empty as well as missing.
fn held(scene: &Scene, email: &str, property: &str) -> String {
    let contact = scene.world.hubspot.contact_by_email(email).expect("HubSpot knows the contact");
    contact.get(property).unwrap_or_default().to_owned()
}

fn upserts(scene: &Scene) -> u64 {
    scene.world.hubspot.stats().calls("contacts.batch_upsert")
}

/// What an event's row says in words.
async fn summary(scene: &Scene, event: uuid::Uuid) -> String {
    let connection = scene.world.db.connection().await.unwrap();
    let sql = "select last_error_summary from hubferry.outbox_events where event_id = $1";
    connection.query_one(sql, &[&event]).await.unwrap().get::<_, Option<String>>(0).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_a_date_becomes_the_day_that_was_meant() {
    let scene = Scene::new().await;
    let birthday = json!({"property": "born", "type": "date", "zone": "Europe/Amsterdam"});
    scene.world.map("newsletter", targets(&json!({"birthday": birthday}))).await;
    let forms = [
        json!("954025200000"),
        json!(954_025_200_000_i64),
        json!(954_028_800),
        json!("2000-03-26T14:00:00Z"),
        json!("2000-03-26"),
        json!("2000-03-26\n"),
    ];
    let emails = people("born", forms.len());
    let requests = emails.iter().zip(&forms).map(|(email, form)| carrying(email, &json!({"born": form})));
    let accepted = scene.world.accept(requests.collect()).await;
    scene.world.step().await;
    for (email, form) in emails.iter().zip(&forms) {
        assert_eq!(held(&scene, email, "birthday"), "2000-03-26", "{form}");
    }
    assert_eq!(upserts(&scene), 1, "HubSpot had nothing to refuse");
    scene.converges(&emails, &accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_invisible_at_the_ends_is_taken_off_values_and_left_on_texts() {
    let scene = Scene::new().await;
    let typed = json!({
        "hs_language": {"property": "language", "type": "enumeration"},
        "numemployees": {"property": "seats", "type": "number"},
        "birthday": {"property": "renewal", "type": "date"},
        "city": {"property": "city", "type": "string"},
        "phone": {"property": "phone", "type": "phone_number"},
    });
    scene.world.map("newsletter", targets(&typed)).await;
    let emails = people("invisible", 1);
    let ragged = json!({
        "language": "\u{200b}nl\u{a0}", "seats": " 12", "renewal": "2026-01-01\n", "city": " Ede ", "phone": "\u{feff}06 12",
    });
    let accepted = scene.world.accept(vec![carrying(&emails[0], &ragged)]).await;
    scene.world.step().await;
    for (property, value) in [
        ("hs_language", "nl"),
        ("numemployees", "12"),
        ("birthday", "2026-01-01"),
        ("city", " Ede "),
        ("phone", "06 12"),
    ] {
        assert_eq!(held(&scene, &emails[0], property), value, "{property}");
    }
    assert_eq!(upserts(&scene), 1);
    scene.converges(&emails, &accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_none_of_its_type_is_not_sent_and_named_and_keeps_nothing_else_back() {
    let scene = Scene::new().await;
    let typed = json!({
        "birthday": {"property": "born", "type": "date"},
        "numemployees": {"property": "seats", "type": "number"},
        "city": "city",
    });
    scene.world.map("newsletter", targets(&typed)).await;
    let cases = [
        (json!({"born": "zephyrine"}), "invalid_date", "property `birthday` of type date"),
        (json!({"born": "954025200000"}), "date_needs_zone", "property `birthday` of type date"),
        (json!({"seats": "zephyrine"}), "invalid_number", "property `numemployees` of type number"),
        (json!({"city": "Ede"}), "value_too_long", "property `city`"),
    ];
    let emails = people("none", cases.len());
    let mate = people("nonemate", 1);
    let mut requests: Vec<_> =
        emails.iter().zip(&cases).map(|(email, (properties, ..))| carrying(email, properties)).collect();
    requests.push(carrying(&mate[0], &json!({"city": "x".repeat(65_536)})));
    let accepted = scene.world.accept(requests).await;
    // The door refuses such a value today; contacts from before may have one.
    let too_long =
        "update hubferry.contacts set properties = properties || jsonb_build_object('city', repeat('🦊', 32769))
                    where properties ->> 'city' = 'Ede'";
    scene.world.sql(too_long).await;
    scene.world.step().await;
    for ((email, event), (_, code, name)) in emails.iter().zip(&accepted).zip(&cases) {
        let seen = scene.seen(event).await;
        assert_eq!((seen.status.as_str(), seen.reason.as_deref(), seen.attempts), ("dead", Some(*code), 0));
        let summary = summary(&scene, event.event_id).await;
        assert_eq!(summary, format!("row_invalid: {code} ({name}); the rest was written"));
        scene.assert_subscribed(email);
    }
    assert_eq!(scene.seen(&accepted[cases.len()]).await.status, "synced", "as long as HubSpot takes is not too long");
    assert_eq!(held(&scene, &mate[0], "city").len(), 65_536);
    assert_eq!(upserts(&scene), 1, "nothing was sent that HubSpot had to refuse");
    scene.assert_discreet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_value_does_not_keep_anybody_subscribed() {
    let scene = Scene::new().await;
    scene.world.map("newsletter", targets(&json!({"birthday": {"property": "born", "type": "date"}}))).await;
    let emails = people("leaver", 1);
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    scene.converges(&emails, &accepted).await;

    let leave = with(carrying(&emails[0], &json!({"born": "zephyrine"})), json!({"desired_state": "unsubscribed"}));
    let left = scene.world.accept(vec![leave]).await;
    scene.world.step().await;
    assert_eq!(scene.seen(&left[0]).await.reason.as_deref(), Some("invalid_date"));
    assert_eq!(scene.world.hubspot.status_of(&emails[0], 1001), SubscriptionState::Unsubscribed);
    let connection = scene.world.db.connection().await.unwrap();
    let sql = "select applied_state from hubferry.applied_states where event_id = $1";
    let state: String = connection.query_one(sql, &[&left[0].event_id]).await.unwrap().get(0);
    assert_eq!(state, "unsubscribed", "what HubSpot holds is known, whatever became of the birthday");
    let shown = db::request_status(&*connection, left[0].request_id).await.unwrap().unwrap();
    assert_eq!((shown.status.as_str(), shown.applied), ("dead", true), "the decision was carried over all the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_comes_round_again_for_another_reason_still_tells_its_bad_value() {
    let scene = Scene::new().await;
    let typed = json!({"numemployees": {"property": "seats", "type": "number"}, "hs_language": "language"});
    scene.world.map("newsletter", targets(&typed)).await;
    let emails = people("again", 2);
    let requests = vec![
        carrying(&emails[0], &json!({"seats": "zephyrine"})),
        carrying(&emails[1], &json!({"language": "zephyrine"})),
    ];
    scene.strike("preferences.batch_write", Action::Html(502));
    let accepted = scene.world.accept(requests).await;
    scene.world.step().await;
    assert!(scene.all_seen(&accepted).await.iter().all(|seen| seen.status == "retry"));
    scene.heal().await;
    scene.world.drain().await;
    let seen = scene.all_seen(&accepted).await;
    let ends: Vec<_> = seen.iter().map(|seen| (seen.status.as_str(), seen.reason.as_deref().unwrap())).collect();
    assert_eq!(ends, [("dead", "invalid_number"), ("dead", "invalid_option")]);
    for email in &emails {
        scene.assert_subscribed(email);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lifecycle_stage_that_hubspot_keeps_is_told_once_and_not_written_again() {
    let scene = Scene::new().await;
    scene.world.map("newsletter", targets(&json!({"lifecyclestage": {"value": "lead"}}))).await;
    let emails = people("stage", 2);
    for (email, stage) in emails.iter().zip(["customer", "subscriber"]) {
        scene.world.hubspot.seed_contact(&[("email", email), ("lifecyclestage", stage)]).unwrap();
    }
    let accepted = scene.subscribe(&emails).await;
    scene.world.drain().await;
    let (kept, moved) = (scene.seen(&accepted[0]).await, scene.seen(&accepted[1]).await);
    assert_eq!((kept.status.as_str(), kept.reason.as_deref(), kept.attempts), ("synced", Some("not_applied"), 0));
    assert_eq!((moved.status.as_str(), moved.reason), ("synced", None));
    assert!(summary(&scene, accepted[0].event_id).await.contains("property `lifecyclestage`"));
    assert_eq!(
        [held(&scene, &emails[0], "lifecyclestage"), held(&scene, &emails[1], "lifecyclestage")],
        ["customer", "lead"]
    );
    assert_eq!(upserts(&scene), 1, "HubSpot would keep its value again");
    for email in &emails {
        scene.assert_subscribed(email);
    }
    scene.assert_discreet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_repeats_values_in_another_form_or_not_at_all_is_no_difference() {
    let scene = Scene::new().await;
    let untyped = json!({"birthday": "born", "numemployees": "seats", "city": "city"});
    scene.world.map("newsletter", targets(&untyped)).await;
    let emails = people("form", 2);
    let known = scene.world.hubspot.seed_contact(&[("email", &emails[1])]).unwrap().to_string();
    let requests: Vec<_> = emails
        .iter()
        .map(|email| carrying(email, &json!({"born": "954028800000", "seats": "12", "city": "Ede"})))
        .collect();
    let accepted = scene.world.accept(requests[..1].to_vec()).await;
    scene.world.step().await;
    scene.converges(&emails[..1], &accepted).await;

    let result = json!({"id": known, "properties": {"email": emails[1], "numemployees": "12.0"}, "new": false});
    let answer = respond(200, &[], json!({"status": "COMPLETE", "results": [result]}));
    scene.world.hubspot.add_fault(Fault::next(1, answer).on_endpoint("contacts.batch_upsert"));
    let accepted = scene.world.accept(requests[1..].to_vec()).await;
    scene.world.step().await;
    let seen = scene.seen(&accepted[0]).await;
    assert_eq!((seen.status.as_str(), seen.reason), ("synced", None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_all_rows_share_is_told_with_the_first_refusal() {
    let scene = Scene::new().await;
    scene.world.map("newsletter", targets(&json!({"hs_language": {"value": "xx"}}))).await;
    // Without a word on the row, as HubSpot answers to a batch as a whole.
    let refusal = respond(400, &[], invalid_value("INVALID_OPTION", "hs_language", "zephyrine"));
    scene.world.hubspot.add_fault(Fault::always(refusal).on_endpoint("contacts.batch_upsert").on_body("hs_language"));
    let emails = people("constant", 100);
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    assert_eq!(upserts(&scene), 2, "all of them, and all of them without the property");
    for (email, seen) in emails.iter().zip(scene.all_seen(&accepted).await) {
        assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("dead", Some("invalid_option")));
        scene.assert_subscribed(email);
    }
    assert!(
        summary(&scene, accepted[0].event_id).await.starts_with("configuration: "),
        "a repaired mapping releases it"
    );
    scene.assert_discreet().await;
}
