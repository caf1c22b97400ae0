//! HubSpot answers anything: every kind of answer through the real worker, and what the rows, HubSpot and the portal look
//! like afterwards.

mod accounted;
mod consents;
mod isolation;
mod lists;
mod locked;
mod paused;
mod portals;
mod records;
mod refused;
mod rows;
mod throttled;
mod values;
mod waits;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use hubferry::adapters::db::Accepted;
use hubferry::adapters::hubspot::{HubSpot, HubSpotConfig, NewProperty};
use hubferry::model::budget::{Bucket, Freeze};
use hubferry::model::ids::PortalId;
use hubferry::model::plan::WriteMode;
use hubspot_simulator::{
    AccountConfig, Action, BurstLimit, Fault, Response, Simulator, SimulatorConfig, SubscriptionState,
};
use serde_json::{Value, json};

use crate::world::{World, WorldConfig, request, with};

/// A limit that is never reached: these tests are about answers, not about pace.
const CALLS: u32 = 10_000;

/// Part of every address and name of these tests, so that they are found wherever they should not be.
const SECRET: &str = "zephyrine";

/// The endpoints that a subscription of a new contact calls, in their order.
const ENDPOINTS: [&str; 4] =
    ["contacts.batch_upsert", "preferences.batch_read", "preferences.batch_write", "lists.add_members"];

/// A world that is looked at after each answer.
struct Scene {
    world: World,
    bucket: Bucket,
}

/// What an event's row says.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    status: String,
    reason: Option<String>,
    attempts: i32,
    /// Seconds until it is due.
    due_in: f64,
}

impl Scene {
    async fn new() -> Self {
        Self::with(WorldConfig { call_limit: CALLS, hubspot_limit: CALLS, ..WorldConfig::default() }).await
    }

    /// Consent is written one address a call.
    async fn single() -> Self {
        let write_mode = WriteMode::Single;
        Self::with(WorldConfig { call_limit: CALLS, hubspot_limit: CALLS, write_mode, ..WorldConfig::default() }).await
    }

    async fn with(config: WorldConfig) -> Self {
        let (limit, window) = (config.call_limit, config.call_window);
        let world = World::with(config).await;
        let bucket = Bucket::calls(world.portal, limit, window);
        Self { world, bucket }
    }

    /// The same with an account of other settings, and with further accounts beside it.
    async fn in_account(change: impl FnOnce(&mut AccountConfig), others: Vec<AccountConfig>) -> Self {
        let mut scene = Self::new().await;
        let mut account = AccountConfig {
            burst: Some(BurstLimit { calls: CALLS, window_ms: 10_000 }),
            ..AccountConfig::new(scene.world.portal.0.unsigned_abs(), "simulator-token")
        };
        change(&mut account);
        let accounts = std::iter::once(account).chain(others).collect();
        let simulator = Simulator::start(SimulatorConfig { accounts, ..SimulatorConfig::default() }).await.unwrap();
        scene.world.worker.hubspot = HubSpot::new(HubSpotConfig::new(simulator.base_url().parse().unwrap())).unwrap();
        scene.world.hubspot = simulator;
        scene.create_unique_property(scene.world.portal).await;
        scene
    }

    async fn create_unique_property(&self, portal: PortalId) {
        let property = NewProperty {
            name: "hubferry_contact_key".into(),
            label: "Contact key".into(),
            group: "contactinformation".into(),
            description: "The contact's key".into(),
            unique: true,
        };
        let account = self.world.worker.hubspot.account(portal, self.world.worker.tokens.of(portal));
        account.create_property(&property).await.result.unwrap();
    }

    /// Accepts subscriptions to the newsletter.
    async fn subscribe(&self, emails: &[String]) -> Vec<Accepted> {
        self.world.accept(emails.iter().map(|email| subscription(email)).collect()).await
    }

    fn strike(&self, endpoint: &str, action: Action) {
        self.world.hubspot.add_fault(Fault::always(action).on_endpoint(endpoint));
    }

    async fn seen(&self, accepted: &Accepted) -> Seen {
        let connection = self.world.db.connection().await.unwrap();
        let sql = "select status, last_error_code, process_attempts,
                          extract(epoch from next_attempt_at - clock_timestamp())::double precision
                   from hubferry.outbox_events where event_id = $1";
        let row = connection.query_one(sql, &[&accepted.event_id]).await.unwrap();
        Seen { status: row.get(0), reason: row.get(1), attempts: row.get(2), due_in: row.get(3) }
    }

    async fn all_seen(&self, accepted: &[Accepted]) -> Vec<Seen> {
        let mut all = Vec::new();
        for accepted in accepted {
            all.push(self.seen(accepted).await);
        }
        all
    }

    async fn freeze(&self) -> Option<Freeze> {
        self.world.worker.budget.inspect(&self.bucket).await.unwrap().frozen
    }

    /// Seconds that the portal is still paused, and why.
    async fn pause(&self) -> Option<(f64, String)> {
        let connection = self.world.db.connection().await.unwrap();
        let sql = "select extract(epoch from paused_until - clock_timestamp())::double precision, paused_reason
                   from hubferry.portals where portal_id = $1 and paused_until > clock_timestamp()";
        let row = connection.query_opt(sql, &[&self.world.portal.0]).await.unwrap();
        row.map(|row| (row.get(0), row.get(1)))
    }

    /// So much time passes for everything that waits: events, pauses, and the freeze if it ends by then.
    async fn time_passes(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.world
            .sql(&format!(
                "update hubferry.outbox_events set next_attempt_at = next_attempt_at - interval '{seconds} s';
                 update hubferry.portals set paused_until = paused_until - interval '{seconds} s'"
            ))
            .await;
        if self.freeze().await.is_some_and(|freeze| freeze.remaining <= time) {
            self.world.worker.budget.resume(&self.bucket).await.unwrap();
        }
    }

    /// The fault ends, and what it made wait has waited long enough.
    async fn heal(&self) {
        self.world.hubspot.clear_faults();
        self.time_passes(Duration::from_hours(48)).await;
    }

    /// The fault ends; then everything is worked off, and HubSpot agrees with every subscription.
    async fn converges(&self, emails: &[String], accepted: &[Accepted]) {
        self.heal().await;
        self.world.drain().await;
        for (email, accepted) in emails.iter().zip(accepted) {
            let seen = self.seen(accepted).await;
            assert_eq!((seen.status.as_str(), seen.reason), ("synced", None), "{:?}", self.world.statuses().await);
            self.assert_subscribed(email);
        }
        assert_eq!(self.contacts().len(), self.distinct_contacts(), "nobody is there twice");
    }

    fn assert_subscribed(&self, email: &str) {
        let contact = self.world.hubspot.contact_by_email(email).expect("HubSpot knows the contact");
        assert_eq!(contact.get("firstname"), Some("Zephyrine"));
        assert_eq!(self.world.hubspot.status_of(email, 1001), SubscriptionState::Subscribed);
        assert!(self.world.hubspot.list_members(101).contains(&contact.id), "the contact is in the segment");
    }

    fn contacts(&self) -> Vec<hubspot_simulator::ContactView> {
        self.world.hubspot.contacts()
    }

    fn distinct_contacts(&self) -> usize {
        self.contacts()
            .iter()
            .filter_map(|contact| contact.get("email").map(str::to_owned))
            .collect::<HashSet<_>>()
            .len()
    }

    /// Neither an error column nor a pause nor a freeze nor a message repeats an address or a name.
    async fn assert_discreet(&self) {
        let connection = self.world.db.connection().await.unwrap();
        let sql = "select concat_ws(' ', last_error_code, last_error_summary) from hubferry.outbox_events
                   union all select paused_reason from hubferry.portals where paused_reason is not null";
        let mut texts: Vec<String> =
            connection.query(sql, &[]).await.unwrap().iter().map(|row| row.get::<_, String>(0)).collect();
        texts.extend(self.freeze().await.map(|freeze| freeze.reason));
        for queue in ["interactive", "bulk", "inbound"] {
            texts.extend(self.world.queues.history(queue).iter().map(|message| format!("{message:?}")));
        }
        for text in texts {
            assert!(!text.to_lowercase().contains(SECRET), "personal data: {text}");
        }
    }
}

/// So many addresses that no other test of the scene uses.
fn people(tag: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{SECRET}.{tag}{n}@example.test")).collect()
}

fn subscription(email: &str) -> Value {
    let contact = json!({"email": email, "properties": {"firstname": "Zephyrine"}});
    with(request(email, "subscribed"), json!({"contact": contact}))
}

/// A subscription to the product `events`, which has a subscription type of its own and no segment.
fn other_product(email: &str) -> Value {
    with(subscription(email), json!({"product": "events"}))
}

/// An answer with headers; names that differ in case only are all sent.
fn respond(status: u16, headers: &[(&str, &str)], body: Value) -> Action {
    let headers: BTreeMap<_, _> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Action::Respond(Response { status, headers, body: Some(body), body_raw: None })
}

fn invalid(message: &str) -> Value {
    json!({"status": "error", "category": "VALIDATION_ERROR", "message": message})
}

/// HubSpot's sentence on a value, with the list inside it.
fn invalid_value(code: &str, property: &str, value: &str) -> Value {
    let list = json!([{"isValid": false, "message": format!("{value} was refused"), "error": code, "name": property}]);
    invalid(&format!("Property values were not valid: {list}"))
}
