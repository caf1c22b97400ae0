//! Our own writes come back as changes, and call for nothing.

use std::time::{Duration, Instant};

use hubferry::flows::webhook::{LOCAL_PATH, SecretSource, Webhook, WebhookSettings};
use hubferry::model::hubspot_signature::{ClientSecrets, OldSignatures, WebhookApp};
use hubspot_simulator::WebhookConfig;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Desk, telling};
use crate::accepting::setting::FAR_TOO_LONG;
use crate::world::{request, with};

const SECRET: &str = "a-client-secret-that-only-tests-know";

/// A desk whose HubSpot reports every change, shuffled and some of them twice.
async fn reported(rules: Value) -> Desk {
    let desk = Desk::new(rules).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("http://{}{LOCAL_PATH}", listener.local_addr().unwrap());
    let secrets = ClientSecrets { current: SECRET.into(), next: None };
    let settings = WebhookSettings {
        url: target.clone(),
        secrets: SecretSource::Environment(vec![WebhookApp { app_id: None, portal_id: None, secrets }]),
        old_signatures: OldSignatures::default(),
    };
    let router = Webhook::new(desk.world.db.clone(), settings).router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    desk.world.hubspot.send_webhooks(Some(WebhookConfig { repeat_share: 0.2, ..WebhookConfig::new(target, SECRET) }));
    desk
}

impl Desk {
    /// Carries everything out until HubSpot has nothing to report any more.
    async fn come_to_rest(&self) {
        let rest = async {
            loop {
                self.settle().await;
                let stats = self.world.hubspot.webhook_stats();
                let open = self.count("webhook_events where state = 'received'").await;
                if (stats.pending, stats.waiting, stats.in_flight, open) == (0, 0, 0, 0) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(FAR_TOO_LONG, rest).await.unwrap();
    }

    fn record_of(&self, email: &str) -> i64 {
        let account = self.world.hubspot.account(self.world.portal.0.unsigned_abs());
        i64::try_from(account.contact_by_email(email).unwrap().id.0).unwrap()
    }
}

fn named(email: &str, first_name: &str) -> Value {
    with(request(email, "subscribed"), json!({"contact": {"email": email, "properties": {"firstname": first_name}}}))
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_write_is_an_echo_that_makes_no_effect_and_is_projected_all_the_same() {
    let desk = reported(json!([telling("named", "firstname"), telling("mailed", "email")])).await;
    desk.world.accept(vec![named("Ada@Example.test", "Ada"), named("bob@example.test", "Bob")]).await;
    desk.come_to_rest().await;
    assert_eq!(desk.effects().await, []);
    assert_eq!(desk.count("webhook_events where state = 'echo'").await, 4, "{:?}", desk.states().await);
    assert_eq!(desk.count("webhook_events where reason = 'near_echo'").await, 0);
    let known = desk.ask("select value from hubferry.crm_values where property = 'firstname' order by value").await;
    assert_eq!(known.iter().map(|row| row.get(0)).collect::<Vec<&str>>(), ["Ada", "Bob"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_value_than_we_wrote_is_a_near_echo_and_makes_its_effect() {
    let desk = reported(json!([telling("named", "firstname")])).await;
    desk.world.accept(vec![named("ada@example.test", "Ada")]).await;
    desk.come_to_rest().await;
    let record = desk.record_of("ada@example.test");
    desk.deliver(&[desk.change(("contact", record), "firstname", "Adah", 30)]).await;
    assert_eq!(desk.effects().await.len(), 1);
    assert_eq!(desk.count("webhook_events where state = 'applied' and reason = 'near_echo'").await, 1);
    // What we never wrote there is no echo of any kind.
    desk.deliver(&[desk.change(("contact", record + 1), "firstname", "Ada", 30)]).await;
    assert_eq!(desk.effects().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_after_our_write_the_same_value_is_somebody_s_change() {
    let desk = reported(json!([telling("named", "firstname")])).await;
    desk.world.accept(vec![named("ada@example.test", "Ada")]).await;
    desk.come_to_rest().await;
    desk.world.sql("update hubferry.written_values set written_at = written_at - interval '2 hours'").await;
    let record = desk.record_of("ada@example.test");
    desk.deliver(&[desk.change(("contact", record), "firstname", "Bob", 30)]).await;
    desk.deliver(&[desk.change(("contact", record), "firstname", "Ada", 31)]).await;
    assert_eq!(desk.effects().await.len(), 2);
    assert_eq!(desk.count("webhook_events where reason = 'near_echo'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_echo_stays_one_when_its_delivery_is_worked_again_long_after() {
    let desk = reported(json!([telling("named", "firstname")])).await;
    desk.world.accept(vec![named("ada@example.test", "Ada")]).await;
    desk.come_to_rest().await;
    desk.world.sql("delete from hubferry.written_values").await;
    desk.world.sql("update hubferry.outbox_events set status = 'retry', finished_at = null, next_attempt_at = clock_timestamp()
                    where lane = 'inbound'").await;
    desk.settle().await;
    assert_eq!(desk.effects().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_rules_wait_for_is_noted_and_it_is_forgotten_in_time() {
    let desk = Desk::new(json!([telling("named", "firstname")])).await;
    desk.world.accept(vec![named("ada@example.test", "Ada")]).await;
    desk.settle().await;
    let noted = desk.ask("select property, object_id from hubferry.written_values").await;
    let noted: Vec<(String, i64)> = noted.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(noted, [("firstname".to_owned(), desk.record_of("ada@example.test"))]);

    let reconcile = async || desk.world.reconciler.run(Instant::now() + Duration::from_mins(5)).await.unwrap();
    assert_eq!(reconcile().await.forgotten_writes, 0);
    desk.world.sql("update hubferry.written_values set written_at = written_at - interval '73 hours'").await;
    assert_eq!(reconcile().await.forgotten_writes, 1);
    assert_eq!(desk.count("written_values").await, 0);
}

/// Whoever carries out an effect by deciding something about its contact would go round for ever, were it not for the echo.
#[tokio::test(flavor = "multi_thread")]
async fn a_loop_of_write_change_rule_and_write_ends() {
    let mut again = telling("again", "firstname");
    // Every change is worth an effect: the dedupe key does not end the loop.
    again["dedupe_key"] = json!("{{ object_id }}:{{ occurred_at }}");
    let desk = reported(json!([again])).await;
    desk.world.accept(vec![named("ada@example.test", "Ada")]).await;
    desk.come_to_rest().await;
    let record = desk.record_of("ada@example.test");
    desk.deliver(&[desk.change(("contact", record), "firstname", "Adah", 0)]).await;

    let (mut carried_out, mut rounds) = (0, 0);
    loop {
        let effects = desk.effects().await;
        if effects.len() == carried_out {
            break;
        }
        rounds += 1;
        assert!(rounds < 5, "it goes round for ever: {effects:?}");
        // The handler writes the contact: each time another value, so that HubSpot has something to report.
        for number in carried_out..effects.len() {
            desk.world.accept(vec![named("ada@example.test", &format!("Ada {number}"))]).await;
        }
        carried_out = effects.len();
        desk.come_to_rest().await;
    }
    assert_eq!((carried_out, rounds), (1, 1));
    assert_eq!(desk.count("webhook_events where state = 'echo'").await, 2, "{:?}", desk.states().await);
}
