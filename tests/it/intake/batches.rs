//! Many requests in one call, each for itself.

use serde_json::{Value, json};

use super::{Answer, BATCH, Intaking, subscribing, unsubscribing, with};
use crate::accepting::accept;
use crate::accepting::setting::{OTHER_BRAND, keyed};

/// Requests in a batch, at most.
const MOST: usize = 500;

async fn send(intake: &Intaking, requests: &[Value]) -> Answer {
    let answer = intake.send_body(BATCH, json!({"requests": requests}).to_string()).await;
    if let Some(results) = answer.body["results"].as_array() {
        assert_eq!(results.len(), requests.len());
        for (index, result) in results.iter().enumerate() {
            assert_eq!(result["index"], index);
        }
    }
    answer
}

/// Sends a batch, and returns each result as its code, `accepted` or `replayed`, with its field or sequence.
async fn outcomes(intake: &Intaking, requests: &[Value]) -> Vec<(String, String)> {
    let answer = send(intake, requests).await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.body);
    let results = answer.body["results"].as_array().expect("results").iter();
    results
        .map(|result| match result["code"].as_str() {
            Some(code) => (code.to_owned(), result["field"].as_str().unwrap_or("-").to_owned()),
            None if result["replayed"] == true => ("replayed".to_owned(), result["sequence"].to_string()),
            None => ("accepted".to_owned(), result["sequence"].to_string()),
        })
        .collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(code, field)| ((*code).to_owned(), (*field).to_owned())).collect()
}

#[tokio::test]
async fn good_and_bad_requests_are_answered_each_at_its_place() {
    let intake = Intaking::new().await;
    let ada = || subscribing("ada@example.test");
    let requests = [
        json!(null),
        keyed("k1", ada()),
        keyed("k2", with(ada(), "/brand", json!(OTHER_BRAND))),
        keyed("k3", with(ada(), "/contact/properties", json!({"note": "a\u{0}b"}))),
        keyed("k4", with(ada(), "/contact/email", json!("nobody"))),
        keyed("k5", unsubscribing("ada@example.test")),
        json!("text"),
        ada(),
        keyed("two words", ada()),
        keyed("k6", with(ada(), "/product", json!("nothing"))),
        json!({}),
        keyed("k7", unsubscribing("grace@example.test")),
        keyed("k8", with(ada(), "/consent/given_at", json!("2026-05-04T09:30:00+99:00"))),
    ];
    let expected = [
        ("invalid_request", ""),
        ("accepted", "1"),
        ("foreign_brand", "brand"),
        ("invalid_request", "contact.properties.note"),
        ("invalid_email", "contact.email"),
        ("accepted", "2"),
        ("invalid_request", ""),
        ("invalid_field", "idempotency_key"),
        ("invalid_idempotency_key", "idempotency_key"),
        ("unknown_product", "product"),
        ("invalid_field", "idempotency_key"),
        ("accepted", "1"),
        ("invalid_consent", "consent.given_at"),
    ];
    assert_eq!(outcomes(&intake, &requests).await, pairs(&expected));
    let row = intake.setting.ask("select count(*), count(distinct stream_id) from hubferry.outbox_events").await;
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (3, 2));
}

#[tokio::test]
async fn a_batch_without_a_single_own_request_is_answered_without_the_database() {
    let intake = Intaking::new().await;
    let foreign = keyed("k", with(subscribing("ada@example.test"), "/brand", json!(OTHER_BRAND)));
    let expected = pairs(&[("foreign_brand", "brand"), ("foreign_brand", "brand")]);
    assert_eq!(outcomes(&intake, &[foreign.clone(), foreign]).await, expected);
}

#[tokio::test]
async fn a_batch_has_1_to_500_requests_and_nothing_else() {
    let intake = Intaking::new().await;
    let request = keyed("k", subscribing("ada@example.test"));
    send(&intake, &[]).await.expect_problem(422, "invalid_request", Some("requests"));
    send(&intake, &vec![request.clone(); MOST + 1]).await.expect_problem(422, "invalid_request", Some("requests"));
    for body in [json!({}), json!({"requests": null}), json!({"requests": {"0": request}}), json!({"requests": "all"})]
    {
        intake.send_body(BATCH, body.to_string()).await.expect_problem(422, "invalid_request", Some("requests"));
    }
    let more = json!({"requests": [request], "brand": "acme"});
    intake.send_body(BATCH, more.to_string()).await.expect_problem(422, "unknown_field", Some("brand"));
    assert!(intake.setting.rows().await.iter().all(|(_, rows)| *rows == 0));
}

#[tokio::test]
async fn of_one_key_twice_in_a_batch_the_first_counts() {
    let intake = Intaking::new().await;
    let requests = [
        keyed("k", subscribing("ada@example.test")),
        keyed("k", subscribing("ADA@example.test")),
        keyed("k", unsubscribing("ada@example.test")),
        keyed("k", subscribing("grace@example.test")),
        keyed("l", unsubscribing("ada@example.test")),
        keyed("bad", with(subscribing("ada@example.test"), "/lane", json!("slow"))),
        keyed("bad", subscribing("ada@example.test")),
    ];
    let expected = [
        ("accepted", "1"),
        ("replayed", "1"),
        ("idempotency_conflict", "idempotency_key"),
        ("idempotency_conflict", "idempotency_key"),
        ("accepted", "2"),
        ("invalid_lane", "lane"),
        // What was refused used up no key.
        ("accepted", "3"),
    ];
    assert_eq!(outcomes(&intake, &requests).await, pairs(&expected));
    let row = intake.setting.ask("select count(*) from hubferry.contacts").await;
    assert_eq!(row.get::<_, i64>(0), 1, "a conflict makes no contact");
}

#[tokio::test]
async fn a_key_that_was_refused_for_an_erased_contact_is_refused_again_in_the_same_batch() {
    let intake = Intaking::new().await;
    let of = |key: &str| with(subscribing("ada@example.test"), "/contact/key", json!(key));
    outcomes(&intake, &[keyed("k0", of("erased"))]).await;
    let erase = "update hubferry.contacts set erased_at = now()";
    intake.setting.application().await.batch_execute(erase).await.expect("an update");
    let requests =
        [keyed("k", of("erased")), keyed("k", of("erased")), keyed("k", of("other")), keyed("l", of("other"))];
    let expected = [
        ("contact_erased", "contact.key"),
        ("contact_erased", "contact.key"),
        ("idempotency_conflict", "idempotency_key"),
        ("accepted", "1"),
    ];
    assert_eq!(outcomes(&intake, &requests).await, pairs(&expected));
}

#[tokio::test]
async fn a_full_batch_is_accepted_in_one_transaction_and_replayed_whole() {
    let intake = Intaking::new().await;
    // 100 contacts, five decisions each, in the order in which they were made.
    let requests: Vec<Value> = (0..MOST)
        .map(|number| {
            let email = format!("c{}@example.test", number % 100);
            let request = if number % 2 == 0 { subscribing(&email) } else { unsubscribing(&email) };
            keyed(&format!("row-{number}"), with(request, "/lane", json!("bulk")))
        })
        .collect();
    let first = outcomes(&intake, &requests).await;
    for (number, outcome) in first.iter().enumerate() {
        assert_eq!(*outcome, ("accepted".to_owned(), (number / 100 + 1).to_string()));
    }
    let row = intake.setting.ask(
        "select (select count(distinct xmin::text) from hubferry.outbox_events), (select count(*) from hubferry.outbox_events),
                (select count(*) from hubferry.contacts), (select min(last_sequence) from hubferry.subscription_streams),
                (select max(last_sequence) from hubferry.subscription_streams)",
    );
    let row = row.await;
    let numbers: Vec<i64> = (0..5).map(|column| row.get(column)).collect();
    assert_eq!(numbers, [1, 500, 100, 5, 5]);

    let again = outcomes(&intake, &requests).await;
    for (number, outcome) in again.iter().enumerate() {
        assert_eq!(*outcome, ("replayed".to_owned(), (number / 100 + 1).to_string()));
    }
}

/// Accepting twice in one transaction takes locks in an order of the application's own, so that even a batch, which takes
/// them in the order of the keys, can get into a deadlock with it.
#[tokio::test]
async fn a_batch_that_was_chosen_as_the_victim_of_a_deadlock_is_accepted_all_the_same() {
    let intake = Intaking::new().await;
    let of = |key: &str| with(unsubscribing(&format!("{key}@example.test")), "/contact/key", json!(key));
    outcomes(&intake, &[keyed("1", of("a")), keyed("2", of("z"))]).await;

    let mut application = intake.setting.application().await;
    let transaction = application.transaction().await.expect("a transaction");
    accept(&transaction, "3", &of("z")).await.expect("accepted");
    let crossing = async {
        intake.setting.until_blocked().await;
        let second = accept(&transaction, "4", &of("a")).await;
        // Whoever notices first gives way, which is not always the batch.
        if second.is_ok() { transaction.commit().await } else { transaction.rollback().await }.expect("an end");
    };
    let batch = [keyed("5", of("a")), keyed("6", of("z"))];
    let (outcomes, ()) = tokio::join!(outcomes(&intake, &batch), crossing);
    assert!(outcomes.iter().all(|(code, _)| code == "accepted"), "{outcomes:?}");
}
