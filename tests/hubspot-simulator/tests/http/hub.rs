//! A simulator and a client that speaks to it.

use std::time::Duration;

use hubspot_simulator::{AccountConfig, Simulator, SimulatorConfig};
use reqwest::{Client, Method, header::HeaderMap};
use serde_json::{Value, json};

pub(crate) struct Hub {
    pub(crate) simulator: Simulator,
    pub(crate) client: Client,
    pub(crate) token: &'static str,
}

/// An answer as the tests look at it.
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn results(&self) -> &Vec<Value> {
        self.json["results"].as_array().unwrap()
    }

    pub(crate) fn message(&self) -> &str {
        self.json["message"].as_str().unwrap()
    }
}

impl Hub {
    pub(crate) async fn start() -> Self {
        Self::with(AccountConfig::default()).await
    }

    pub(crate) async fn with(account: AccountConfig) -> Self {
        Self::configured(SimulatorConfig { accounts: vec![account], ..SimulatorConfig::default() }).await
    }

    pub(crate) async fn configured(config: SimulatorConfig) -> Self {
        let simulator = Simulator::start(config).await.unwrap();
        Self { simulator, client: client(), token: "simulator-token" }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> reqwest::Result<Seen> {
        let mut request = self.client.request(method, format!("{}{path}", self.simulator.base_url()));
        request = request.bearer_auth(self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Seen { status, headers, text, json })
    }

    pub(crate) async fn get(&self, path: &str) -> Seen {
        self.send(Method::GET, path, None).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Seen {
        self.send(Method::POST, path, Some(body)).await.unwrap()
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Seen {
        self.send(Method::PUT, path, Some(body)).await.unwrap()
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Seen {
        self.send(Method::PATCH, path, Some(body)).await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str) -> Seen {
        self.send(Method::DELETE, path, None).await.unwrap()
    }

    pub(crate) async fn upsert(&self, inputs: Value) -> Seen {
        self.post(UPSERT, json!({ "inputs": inputs })).await
    }

    /// Creates a contact with this address and gives its id.
    pub(crate) async fn contact(&self, email: &str) -> String {
        let seen = self.upsert(json!([by_email(email, json!({}))])).await;
        assert_eq!(seen.status, 200, "{}", seen.text);
        seen.results()[0]["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn create_unique_property(&self, name: &str) -> Seen {
        let body = json!({
            "name": name, "label": name, "groupName": "contactinformation",
            "type": "string", "fieldType": "text", "hasUniqueValue": true,
        });
        self.post("/crm/properties/2026-03/contacts", body).await
    }
}

/// No call of these tests takes long; a hanging one must fail its test.
const CALL_LIMIT: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "the one place of these tests that builds a client, with a time limit")]
pub(crate) fn client() -> Client {
    Client::builder().timeout(CALL_LIMIT).build().unwrap()
}

pub(crate) const UPSERT: &str = "/crm/objects/2026-03/contacts/batch/upsert";
pub(crate) const READ: &str = "/crm/objects/2026-03/contacts/batch/read";

/// An upsert row by address, without a trace id.
#[expect(clippy::needless_pass_by_value, reason = "callers write the properties in place")]
pub(crate) fn by_email(email: &str, properties: Value) -> Value {
    json!({ "id": email, "idProperty": "email", "properties": properties })
}

/// An upsert row by address with a trace id.
pub(crate) fn traced(trace_id: &str, email: &str, properties: Value) -> Value {
    let mut row = by_email(email, properties);
    row["objectWriteTraceId"] = trace_id.into();
    row
}
