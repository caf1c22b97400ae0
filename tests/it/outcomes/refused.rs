//! 403 and 400: what time does not heal ends with a named cause, and everything else goes on.

use hubspot_simulator::{Action, Fault, SubscriptionState};
use serde_json::{Value, json};

use super::{ENDPOINTS, Scene, invalid, invalid_value, other_product, people, respond, subscription};
use crate::world::with;

/// Targets of the newsletter with other properties.
fn properties(properties: &Value) -> Value {
    json!({
        "contact_properties": properties,
        "subscription_type": 1001,
        "segments": {"subscribed": {"add": ["101"]}},
    })
}

/// A subscription whose contact has a further property.
fn carrying(email: &str, property: &str, value: &Value) -> Value {
    let contact = json!({"email": email, "properties": {"firstname": "Zephyrine", property: value}});
    with(subscription(email), json!({"contact": contact}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_scope_ends_what_needs_it_with_a_name_and_the_rest_goes_on() {
    let scene = Scene::new().await;
    let body = json!({"status": "error", "category": "MISSING_SCOPES", "message": "zephyrine's app lacks scopes"});
    for (number, endpoint) in ENDPOINTS.into_iter().enumerate() {
        let tag = format!("scope{number}x");
        let emails = people(&tag, 2);
        let action = respond(403, &[], body.clone());
        // Only of calls about these people, so that the batch mates show whether they are served.
        let fault = Fault::always(action).on_endpoint(endpoint);
        scene.world.hubspot.add_fault(if endpoint.starts_with("lists") { fault } else { fault.on_body(&tag) });
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        for seen in scene.all_seen(&accepted).await {
            assert_eq!(
                (seen.status.as_str(), seen.reason.as_deref()),
                ("dead", Some("missing_scopes")),
                "{endpoint}: {seen:?}"
            );
        }
        assert_eq!((scene.pause().await, scene.freeze().await), (None, None), "{endpoint}: the portal goes on");
        let mate = people(&format!("mate{number}x"), 1);
        let served = scene.world.accept(vec![other_product(&mate[0])]).await;
        scene.world.step().await;
        assert_eq!(scene.seen(&served[0]).await.status, "synced", "{endpoint}");
        scene.assert_discreet().await;

        // Once the scope is there, the next decision of the same stream is carried out.
        scene.heal().await;
        let again = scene.subscribe(&emails).await;
        scene.world.step().await;
        scene.converges(&emails, &again).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_property_that_does_not_exist_ends_only_the_events_that_map_it_and_the_rest_of_them_is_written() {
    let scene = Scene::new().await;
    let bad = properties(&json!({"firstname": "firstname", "no_such_property": {"value": "x"}}));
    scene.world.map("newsletter", bad).await;
    // As HubSpot answers with trace ids, row by row, and as it answers to a batch as a whole.
    for whole in [false, true] {
        if whole {
            let refusal = respond(400, &[], invalid_value("PROPERTY_DOESNT_EXIST", "no_such_property", "zephyrine"));
            let fault = Fault::always(refusal).on_endpoint("contacts.batch_upsert").on_body("no_such_property");
            scene.world.hubspot.add_fault(fault);
        }
        scene.world.hubspot.reset_stats();
        let (emails, mates) = (people(&format!("prop{whole}"), 20), people(&format!("propmate{whole}"), 20));
        let requests =
            emails.iter().map(|email| subscription(email)).chain(mates.iter().map(|mate| other_product(mate)));
        let accepted = scene.world.accept(requests.collect()).await;
        scene.world.step().await;
        let (dead, served) = accepted.split_at(20);
        for seen in scene.all_seen(dead).await {
            assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("dead", Some("property_doesnt_exist")));
        }
        assert!(scene.all_seen(served).await.iter().all(|seen| seen.status == "synced"), "{whole}");
        let calls = scene.world.hubspot.stats().calls("contacts.batch_upsert");
        assert_eq!(
            calls,
            if whole { 3 } else { 2 },
            "all, without the property, and its mates if they were refused too"
        );
        for email in &emails {
            assert_eq!(scene.world.hubspot.contact_by_email(email).unwrap().get("firstname"), Some("Zephyrine"));
        }
        scene.assert_discreet().await;
    }
}

/// A bad value of each kind: the property, the value, the reason that the event shows.
fn bad_values() -> Vec<(&'static str, String, &'static str)> {
    vec![
        ("hs_language", "zephyrine".to_owned(), "invalid_option"),
        ("hs_language", "en\u{a0}".to_owned(), "leading_trailing_whitespace"),
        ("birthday", "954025200000".to_owned(), "invalid_date"),
        ("birthday", "2000-03-26T14:00:00Z".to_owned(), "invalid_date"),
        ("birthday", "zephyrine".to_owned(), "invalid_date"),
        ("numemployees", "zephyrine".to_owned(), "invalid_long"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_value_is_left_out_by_name_and_all_the_rest_is_written() {
    let scene = Scene::new().await;
    let names = ["firstname", "hs_language", "birthday", "numemployees"];
    let identity: serde_json::Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), json!(name))).collect();
    scene.world.map("newsletter", properties(&Value::Object(identity))).await;
    let (bad, mates) = (people("value", bad_values().len()), people("valuemate", 10));
    let mut requests: Vec<_> = mates.iter().map(|mate| subscription(mate)).collect();
    for (email, (property, value, _)) in bad.iter().zip(bad_values()) {
        requests.insert(requests.len() / 2, carrying(email, property, &json!(value)));
    }
    let accepted = scene.world.accept(requests.clone()).await;
    scene.world.step().await;
    for (request, accepted) in requests.iter().zip(&accepted) {
        let email = request["contact"]["email"].as_str().unwrap();
        let seen = scene.seen(accepted).await;
        if let Some(number) = bad.iter().position(|bad| bad == email) {
            let expected = bad_values()[number].2;
            assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("dead", Some(expected)));
        } else {
            assert_eq!(seen.status, "synced");
        }
        scene.assert_subscribed(email);
    }
    assert_eq!(scene.world.hubspot.stats().calls("contacts.batch_upsert"), 2, "once more without the bad values");
    scene.assert_discreet().await;

    // The stream goes on once the value is taken back.
    let corrections =
        bad.iter().zip(bad_values()).map(|(email, (property, ..))| carrying(email, property, &Value::Null));
    let corrected = scene.world.accept(corrections.collect()).await;
    scene.world.step().await;
    scene.converges(&bad, &corrected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_type_that_does_not_exist_ends_by_name_and_the_rest_goes_on() {
    let scene = Scene::new().await;
    scene
        .world
        .map("newsletter", json!({"contact_properties": {"firstname": "firstname"}, "subscription_type": 9999}))
        .await;
    // As HubSpot answers row by row, and as it answers to a batch as a whole.
    for whole in [false, true] {
        if whole {
            let refusal = invalid("Subscription definition with id 9999 does not exist");
            let fault = Fault::always(respond(400, &[], refusal)).on_endpoint("preferences.batch_write");
            scene.world.hubspot.add_fault(fault.on_body("9999"));
        }
        scene.world.hubspot.reset_stats();
        let (emails, mates) = (people(&format!("type{whole}"), 30), people(&format!("typemate{whole}"), 30));
        let requests =
            emails.iter().map(|email| subscription(email)).chain(mates.iter().map(|mate| other_product(mate)));
        let accepted = scene.world.accept(requests.collect()).await;
        scene.world.step().await;
        let (dead, served) = accepted.split_at(30);
        let writes = scene.world.hubspot.stats().calls("preferences.batch_write");
        assert_eq!(writes, if whole { 3 } else { 1 }, "the type is told from the other one, and nobody is looked for");
        for seen in scene.all_seen(dead).await {
            assert_eq!(
                (seen.status.as_str(), seen.reason.as_deref()),
                ("dead", Some("subscription_type_unknown")),
                "{whole}"
            );
        }
        assert!(scene.all_seen(served).await.iter().all(|seen| seen.status == "synced"), "{whole}");
        for mate in &mates {
            assert_eq!(scene.world.hubspot.status_of(mate, 1003), SubscriptionState::Subscribed);
        }
        assert!(scene.world.hubspot.contact_by_email(&emails[0]).is_some(), "its contact is written all the same");
        scene.assert_discreet().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_property_without_unique_values_ends_by_name() {
    let scene = Scene::new().await;
    let refusal = invalid("Unable to update or upsert by non-unique property 'email' of zephyrine");
    scene.strike("contacts.batch_upsert", respond(400, &[], refusal));
    let emails = people("unique", 3);
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    for seen in scene.all_seen(&accepted).await {
        assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("dead", Some("id_property_not_unique")));
    }
    assert_eq!(scene.world.hubspot.stats().calls("contacts.batch_upsert"), 1, "it is everybody's, so nobody is split");
    scene.assert_discreet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_of_a_wrong_call_end_and_those_of_gateways_are_tried_again() {
    let scene = Scene::new().await;
    let error = json!({"status": "error", "message": "no"});
    for (number, (action, expected)) in [
        (respond(402, &[], error.clone()), ("dead", "http_402")),
        (respond(405, &[], error.clone()), ("dead", "http_405")),
        (respond(414, &[], error.clone()), ("dead", "http_414")),
        (respond(451, &[], error.clone()), ("dead", "http_451")),
        (Action::Html(403), ("retry", "html_answer")),
        (Action::Html(404), ("retry", "html_answer")),
        (respond(301, &[("Location", "https://example.test/")], error.clone()), ("retry", "http_301")),
        (respond(408, &[], error.clone()), ("retry", "http_408")),
        (respond(425, &[], error.clone()), ("retry", "http_425")),
        (respond(500, &[], error.clone()), ("retry", "http_500")),
        (respond(599, &[], error.clone()), ("retry", "http_599")),
    ]
    .into_iter()
    .enumerate()
    {
        let emails = people(&format!("status{number}x"), 1);
        scene.strike("contacts.batch_upsert", action);
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        let seen = scene.seen(&accepted[0]).await;
        assert_eq!((seen.status.as_str(), seen.reason.as_deref()), (expected.0, Some(expected.1)));
        assert_eq!(seen.attempts, i32::from(expected.0 == "retry"), "{expected:?}");
        scene.heal().await;
        scene.world.drain().await;
    }
}
