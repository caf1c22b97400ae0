//! 207: every row has an answer of its own.

use hubferry::adapters::db::Accepted;
use hubspot_simulator::{Action, Fault};
use serde_json::{Value, json};

use super::{Scene, people, respond};

/// Errors of one row: the status of its event, its reason, and the attempts it cost.
fn row_errors() -> Vec<(Value, (&'static str, &'static str, i32))> {
    let category = |category: &str| json!({"status": "error", "category": category, "message": "zephyrine"});
    let mut option = category("VALIDATION_ERROR");
    option["errors"] = json!([{"code": "INVALID_OPTION", "context": {"propertyName": ["hs_language"]}}]);
    vec![
        (category("VALIDATION_ERROR"), ("dead", "validation_error", 0)),
        (option, ("dead", "invalid_option", 0)),
        (category("CONFLICT"), ("retry", "conflict", 1)),
        (category("OBJECT_NOT_FOUND"), ("retry", "object_not_found", 1)),
        (category("SOMETHING_NEW"), ("retry", "something_new", 1)),
        (category("LOCKED"), ("retry", "locked", 0)),
        (category("RATE_LIMITS"), ("retry", "rate_limited", 0)),
    ]
}

/// An upsert's answer in which the first person is done and the second one is refused, as `named` tells.
async fn answer(scene: &Scene, emails: &[String], accepted: &[Accepted], mut error: Value, named: &str) -> Action {
    let connection = scene.world.db.connection().await.unwrap();
    let sql =
        "select s.contact_key from hubferry.outbox_events e join hubferry.subscription_streams s using (stream_id)
               where e.event_id = $1";
    let key: String = connection.query_one(sql, &[&accepted[1].event_id]).await.unwrap().get(0);
    error["context"] = match named {
        "trace id" => json!({"objectWriteTraceId": [key]}),
        "id" => json!({"ids": [emails[1].to_uppercase()]}),
        _ => json!({}),
    };
    let known = scene.world.hubspot.contact_by_email(&emails[0]).unwrap().id.to_string();
    let result = json!({"id": known, "properties": {"email": emails[0]}, "new": false});
    respond(207, &[], json!({"status": "COMPLETE", "numErrors": 1, "errors": [error], "results": [result]}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_s_error_is_its_own_however_it_is_named() {
    let scene = Scene::new().await;
    for (number, (error, expected)) in row_errors().into_iter().enumerate() {
        for (form, named) in ["trace id", "id", "nothing"].into_iter().enumerate() {
            let name = format!("{error}, named by {named}");
            let emails = people(&format!("row{number}x{form}x"), 2);
            scene.world.hubspot.seed_contact(&[("email", &emails[0]), ("firstname", "Zephyrine")]).unwrap();
            let accepted = scene.subscribe(&emails).await;
            let action = answer(&scene, &emails, &accepted, error.clone(), named).await;
            scene.world.hubspot.add_fault(Fault::next(1, action).on_endpoint("contacts.batch_upsert"));
            scene.world.step().await;
            let (mate, refused) = (scene.seen(&accepted[0]).await, scene.seen(&accepted[1]).await);
            assert_eq!((mate.status.as_str(), mate.attempts), ("synced", 0), "{name}: {mate:?}");
            let reason = refused.reason.as_deref().unwrap_or_default();
            assert_eq!((refused.status.as_str(), reason, refused.attempts), expected, "{name}");
            assert_eq!(scene.freeze().await.is_some(), expected.1 == "rate_limited", "{name}");
            scene.assert_discreet().await;
            scene.heal().await;
            let last =
                if refused.status == "dead" { scene.subscribe(&emails[1..]).await } else { accepted[1..].to_vec() };
            scene.world.drain().await;
            scene.converges(&emails[1..], &last).await;
        }
    }
}
