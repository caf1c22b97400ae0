//! 409, 404, merged and deleted records: a contact is found again, never made twice, and never given up at once.

use hubspot_simulator::{Action, Fault};
use serde_json::{Value, json};

use super::{Scene, people, respond, subscription};

fn conflict(message: &str) -> Value {
    json!({"status": "error", "category": "CONFLICT", "message": message})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_resolved_with_an_id_in_the_sentence_or_without_one() {
    let scene = Scene::new().await;
    for (number, message) in [
        "Contact already exists. Existing ID: 37765128953",
        "contact already exists. existing id:1.",
        "Contact already exists.",
    ]
    .into_iter()
    .enumerate()
    {
        let emails = people(&format!("conflict{number}x"), 1);
        scene.world.hubspot.seed_contact(&[("email", &emails[0]), ("firstname", "Zephyrine")]).unwrap();
        let refusal = respond(409, &[], conflict(&format!("{message} zephyrine@example.test")));
        scene.world.hubspot.add_fault(Fault::next(1, refusal).on_endpoint("contacts.batch_upsert"));
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        let seen = scene.seen(&accepted[0]).await;
        assert!(matches!(seen.status.as_str(), "retry" | "synced"), "{message}: {seen:?}");
        scene.assert_discreet().await;
        scene.converges(&emails, &accepted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_batch_only_its_first_conflict_is_told_and_nobody_is_given_up() {
    let scene = Scene::new().await;
    let emails = people("conflicts", 6);
    let refusal = respond(409, &[], conflict("Contact already exists. Existing ID: 37765128953"));
    // As long as two of these people are in one call.
    let fault = Fault::always(refusal).on_endpoint("contacts.batch_upsert");
    scene.world.hubspot.add_fault(Fault { body: Some(format!("{}.conflicts2@", super::SECRET)), ..fault });
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    for (number, seen) in scene.all_seen(&accepted).await.into_iter().enumerate() {
        let expected = if number == 2 { ("retry", 1) } else { ("synced", 0) };
        assert_eq!((seen.status.as_str(), seen.attempts), expected, "{number}: {seen:?}");
    }
    scene.assert_discreet().await;
    scene.converges(&emails, &accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_merged_away_is_followed() {
    let scene = Scene::new().await;
    let emails = people("merged", 2);
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    scene.converges(&emails, &accepted).await;
    let record = |email: &str| scene.world.hubspot.contact_by_email(email).unwrap().id;
    let other = scene.world.hubspot.seed_contact(&[("email", "zephyrine.other@example.test")]).unwrap();
    let survivor = scene.world.hubspot.merge(record(&emails[0]), other).unwrap();

    let again = scene.subscribe(&emails).await;
    scene.world.drain().await;
    scene.converges(&emails, &again).await;
    assert_eq!(record(&emails[0]), survivor);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_merged_or_deleted_between_contact_and_segment_is_found_again() {
    for merged in [true, false] {
        let scene = Scene::new().await;
        let emails = people("between", 2);
        scene.strike("lists.add_members", Action::Html(502));
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        let record = scene.world.hubspot.contact_by_email(&emails[0]).unwrap().id;
        if merged {
            let other = scene.world.hubspot.seed_contact(&[("email", "zephyrine.other@example.test")]).unwrap();
            scene.world.hubspot.merge(record, other).unwrap();
        } else {
            scene.world.hubspot.delete(record).unwrap();
        }
        scene.converges(&emails, &accepted).await;
        assert!(scene.all_seen(&accepted).await.iter().all(|seen| seen.attempts <= 2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_deleted_is_made_again_by_the_next_decision() {
    let scene = Scene::new().await;
    let emails = people("deleted", 2);
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    scene.converges(&emails, &accepted).await;
    scene.world.hubspot.delete(scene.world.hubspot.contact_by_email(&emails[0]).unwrap().id).unwrap();

    let again = scene.world.accept(emails.iter().map(|email| subscription(email)).collect()).await;
    scene.world.drain().await;
    scene.converges(&emails, &again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_follow_the_results_and_not_their_order() {
    let scene = Scene::new().await;
    let emails = people("shuffled", 60);
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    scene.converges(&emails, &accepted).await;
    let connection = scene.world.db.connection().await.unwrap();
    let sql = "select k.email, l.record_id from hubferry.contacts k join hubferry.contact_links l using (contact_key)";
    for row in connection.query(sql, &[]).await.unwrap() {
        let contact = scene.world.hubspot.contact_by_email(row.get(0)).unwrap();
        assert_eq!(contact.id.to_string(), row.get::<_, i64>(1).to_string());
    }
}
