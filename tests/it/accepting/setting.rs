//! A database with two brands, and the ways into it.

use std::time::Duration;

use hubferry::adapters::db::{self, Db, NewPortal};
use hubferry::model::ids::PortalId;
use hubferry::model::plan::WriteMode;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls, Row};

use crate::servers::{TestDatabase, fresh_database};

/// The portal of both brands.
pub(crate) const PORTAL: PortalId = PortalId(4711);

/// The brand that most tests act for, its product, and the address space of its contacts.
pub(crate) const BRAND: &str = "acme";
pub(crate) const PRODUCT: &str = "newsletter";

/// A product of the brand whose only mapping is a draft.
pub(crate) const UNMAPPED_PRODUCT: &str = "drafted";

/// Another tenant, with a product of the same name.
pub(crate) const OTHER_BRAND: &str = "globex";

/// Connections of the pool, as a function has them.
const POOL_CONNECTIONS: usize = 4;

/// A test that waits this long waits for ever.
pub(crate) const FAR_TOO_LONG: Duration = Duration::from_mins(1);

/// Every table that accepting may write to.
const WRITTEN_TABLES: [&str; 7] = [
    "contacts",
    "subscription_streams",
    "subscription_requests",
    "outbox_events",
    "contact_links",
    "applied_states",
    "operation_receipts",
];

/// A database of one test with its configuration in place.
pub(crate) struct Setting {
    /// A pool such as a function's.
    pub(crate) db: Db,
    database: TestDatabase,
}

impl Setting {
    /// Two brands of one portal, a product each with an active mapping, and one product without.
    pub(crate) async fn new() -> Self {
        let database = fresh_database().await;
        let db = Db::new(&SecretString::from(database.url.clone()), POOL_CONNECTIONS).expect("the URL of a database");
        let setting = Self { db, database };
        setting.configure().await;
        setting
    }

    async fn configure(&self) {
        let client = self.db.connection().await.expect("a connection");
        let portal = NewPortal {
            portal_id: PORTAL,
            name: "demo".into(),
            call_limit: 150,
            call_window: Duration::from_secs(10),
            write_mode: WriteMode::Batch,
            unique_property: "hubferry_contact_key".into(),
            api_version: None,
        };
        db::ensure_portal(&*client, &portal).await.expect("a portal");
        for (brand, product) in [(BRAND, PRODUCT), (OTHER_BRAND, PRODUCT), (BRAND, UNMAPPED_PRODUCT)] {
            db::ensure_product(&*client, PORTAL, brand, product).await.expect("a product");
            let targets = serde_json::from_value(json!({"subscription_type": 1001})).expect("targets");
            db::push_mapping(&*client, brand, product, &targets).await.expect("a mapping");
            if product == PRODUCT {
                db::activate_mapping(&*client, brand, product, None).await.expect("an active mapping");
            }
        }
    }

    /// Where to connect, password included.
    pub(crate) fn url(&self) -> &str {
        &self.database.url
    }

    /// A connection of an application of its own.
    pub(crate) async fn application(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(self.url(), NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client
    }

    /// A bearer token for these brands.
    pub(crate) async fn token(&self, brands: &[&str]) -> String {
        let token = format!("token-{:032x}", rand::random::<u128>());
        let brands: Vec<String> = brands.iter().map(|brand| (*brand).to_owned()).collect();
        let client = self.db.connection().await.expect("a connection");
        let stored = db::create_token(&*client, "test", &SecretString::from(token.clone()), &brands).await;
        stored.expect("the database answers").expect("a new token");
        token
    }

    /// Rows of every table that accepting may write to.
    pub(crate) async fn rows(&self) -> Vec<(&'static str, i64)> {
        let counts = WRITTEN_TABLES.map(|table| format!("(select count(*) from hubferry.{table})")).join(", ");
        let client = self.db.connection().await.expect("a connection");
        let row = client.query_one(&format!("select {counts}"), &[]).await.expect("the counts");
        WRITTEN_TABLES.into_iter().enumerate().map(|(column, table)| (table, row.get(column))).collect()
    }

    /// Returns once a session of this database waits for a lock.
    pub(crate) async fn until_blocked(&self) {
        let watcher = self.application().await;
        let sql = "select exists (select from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock')";
        let watch = async {
            while !watcher.query_one(sql, &[]).await.expect("an answer").get::<_, bool>(0) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(FAR_TOO_LONG, watch).await.expect("a session that waits for a lock");
    }

    /// The one answer to a question.
    pub(crate) async fn ask(&self, sql: &str) -> Row {
        self.application().await.query_one(sql, &[]).await.expect("one row")
    }
}

/// A request to subscribe, without its idempotency key.
pub(crate) fn subscribing(email: &str) -> Value {
    json!({
        "brand": BRAND,
        "product": PRODUCT,
        "contact": {"email": email},
        "desired_state": "subscribed",
        "consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "ticked the box of the sign-up form"},
    })
}

/// A request to unsubscribe, without its idempotency key.
pub(crate) fn unsubscribing(email: &str) -> Value {
    json!({"brand": BRAND, "product": PRODUCT, "contact": {"email": email}, "desired_state": "unsubscribed"})
}

/// The same request with another value at a path such as `/contact/email`.
pub(crate) fn with(mut request: Value, path: &str, value: Value) -> Value {
    let (parent, name) = path.rsplit_once('/').expect("a path begins with a slash");
    let parent = request.pointer_mut(parent).expect("the path leads somewhere");
    parent[name] = value;
    request
}

/// The same request under this key, as a batch and the database's door take it.
pub(crate) fn keyed(key: &str, request: Value) -> Value {
    with(request, "/idempotency_key", json!(key))
}
