//! Clients that decide about people, by HTTP and by the database's door, and note what was accepted.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::join_all;
use rand::Rng as _;
use rand::rngs::StdRng;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::people::{Accepted, BRAND, PRODUCTS, Person, State, address};
use crate::place::{Place, connect};
use crate::scenario::Stream;
use crate::setting::API_TOKEN;

/// Clients at once. Each has people of its own, so that it knows in which order it decided about them.
pub(crate) const CLIENTS: usize = 4;

/// How long a client repeats a request that gets no answer.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Between two repeats.
pub(crate) const PAUSE: Duration = Duration::from_millis(150);

/// What the clients know in the end.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    pub(crate) people: Vec<Person>,
    pub(crate) accepted: Vec<Accepted>,
    pub(crate) offences: Vec<String>,
}

/// A request, ready to be repeated word for word.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    key: String,
    product: usize,
    state: State,
    body: Value,
    by_sql: bool,
    /// By SQL only: the first transaction is rolled back.
    rolled_back_first: bool,
}

impl Request {
    /// Whether it is about the contact of this key.
    pub(crate) fn is_about(&self, contact: &str) -> bool {
        self.body["contact"]["key"] == contact
    }
}

/// A client.
pub(crate) struct Visitor<'a> {
    pub(crate) place: &'a Place,
    number: usize,
    pub(crate) dice: StdRng,
    keys: u64,
    pub(crate) repeatable: Vec<(Request, Uuid)>,
    pub(crate) accounts: Accounts,
    /// Requests about contacts that were erased: none of them may make one anew.
    pub(crate) buried: Vec<Request>,
}

/// Runs all clients until their requests are accepted.
pub(crate) async fn run(place: &Place) -> anyhow::Result<Accounts> {
    let mut total = Accounts::default();
    for accounts in join_all((0..CLIENTS).map(|number| visit(place, number))).await {
        let accounts = accounts?;
        total.people.extend(accounts.people);
        total.accepted.extend(accounts.accepted);
        total.offences.extend(accounts.offences);
    }
    total.people.sort_by_key(|person| person.number);
    Ok(total)
}

async fn visit(place: &Place, number: usize) -> anyhow::Result<Accounts> {
    let people = (0..place.scenario.people).filter(|person| person % CLIENTS == number).map(Person::new).collect();
    let mut visitor = Visitor {
        place,
        number,
        dice: place.scenario.dice(Stream::Client(number as u64)),
        keys: 0,
        repeatable: Vec::new(),
        accounts: Accounts { people, ..Accounts::default() },
        buried: Vec::new(),
    };
    while visitor.accounts.accepted.len() < place.scenario.rows / CLIENTS {
        visitor.decide().await?;
        visitor.erase_some().await?;
        let pause = visitor.dice.random_range(0..400);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    Ok(visitor.accounts)
}

impl Visitor<'_> {
    /// Decides about one person: one to three requests at once, all with the same address and properties.
    async fn decide(&mut self) -> anyhow::Result<()> {
        let living = self.living();
        let chosen = living[self.dice.random_range(0..living.len())];
        let moved = self.change(chosen);
        let mut decisions = Vec::new();
        if moved {
            // A status belongs to an address: whoever changes it says again what holds.
            decisions.extend(self.accounts.people[chosen].newest.values().map(|last| (last.product, last.state)));
        }
        for _ in 0..self.dice.random_range(1..=3) {
            let state = if self.dice.random_bool(0.55) { State::Subscribed } else { State::Unsubscribed };
            decisions.push((self.dice.random_range(0..PRODUCTS.len()), state));
        }
        let requests: Vec<Request> =
            decisions.into_iter().map(|(product, state)| self.request(chosen, product, state)).collect();
        let answers = join_all(requests.iter().map(|request| self.send(request))).await;
        for (request, answer) in requests.into_iter().zip(answers) {
            let accepted = answer?;
            self.repeatable.push((request, accepted.request_id));
            self.accounts.people[chosen].note(accepted.clone());
            self.accounts.accepted.push(accepted);
        }
        self.repeat_some().await
    }

    /// Sometimes another address or other properties. Answers whether the address changed.
    fn change(&mut self, chosen: usize) -> bool {
        let (moves, which) = (self.dice.random_bool(0.15), self.dice.random_range(0..3));
        let (renames, company) = (self.dice.random_bool(0.4), self.dice.random_range(0..1000));
        let person = &mut self.accounts.people[chosen];
        if renames {
            person.properties.insert("company", format!("Company {company}"));
        }
        let address = address(person.number, which);
        let moves = moves && self.place.scenario.moves && person.key.is_some() && person.email != address;
        if moves {
            person.email = address;
        }
        moves
    }

    fn request(&mut self, chosen: usize, product: usize, state: State) -> Request {
        self.keys += 1;
        let person = &self.accounts.people[chosen];
        let mut body = json!({
            "brand": BRAND, "product": PRODUCTS[product].name, "desired_state": state.name(),
            "contact": {"email": person.email, "properties": person.properties},
            "lane": if self.dice.random_bool(0.5) { "interactive" } else { "bulk" },
        });
        if let Some(key) = &person.key {
            body["contact"]["key"] = json!(key);
        }
        if state == State::Subscribed {
            body["consent"] = json!({"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "form"});
            if self.dice.random_bool(0.2) {
                body["consent"]["given_at"] = json!("2026-01-01T00:00:00Z");
            }
        }
        let key = format!("{}-{}", self.number, self.keys);
        let (by_sql, rolled_back_first) = (self.dice.random_bool(0.3), self.dice.random_bool(0.2));
        Request { key, product, state, body, by_sql, rolled_back_first }
    }

    async fn send(&self, request: &Request) -> anyhow::Result<Accepted> {
        let receipt = if request.by_sql { self.by_sql(request).await? } else { self.by_http(request).await? };
        let id = |name: &str| receipt[name].as_str().and_then(|id| id.parse().ok()).context("a receipt without an id");
        Ok(Accepted {
            product: request.product,
            state: request.state,
            sequence: receipt["sequence"].as_i64().context("a receipt without a sequence")?,
            request_id: id("request_id")?,
            event_id: id("event_id")?,
        })
    }

    /// Repeats under the same key until there is an answer: the intake may die at any moment.
    async fn by_http(&self, request: &Request) -> anyhow::Result<Value> {
        let began = Instant::now();
        loop {
            match self.post(request).await {
                Ok((StatusCode::ACCEPTED | StatusCode::OK, receipt)) => return Ok(receipt),
                Ok((status, body)) if status.is_client_error() => anyhow::bail!("refused with {status}: {body}"),
                other if began.elapsed() > PATIENCE => anyhow::bail!("not accepted for {PATIENCE:?}: {other:?}"),
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    pub(crate) async fn post(&self, request: &Request) -> anyhow::Result<(StatusCode, Value)> {
        let url = format!("http://127.0.0.1:{}/v1/subscriptions", self.place.api);
        let post = self.place.http.post(url).bearer_auth(API_TOKEN).header("Idempotency-Key", &request.key);
        let answer = post.json(&request.body).send().await?;
        Ok((answer.status(), answer.json().await?))
    }

    /// As an application does it: inside a transaction of its own, which may be rolled back.
    async fn by_sql(&self, request: &Request) -> anyhow::Result<Value> {
        // A session of its own, since requests of a burst run side by side.
        let mut db = connect(&self.place.database_url).await?;
        if request.rolled_back_first {
            let transaction = db.transaction().await?;
            accept(&transaction, request).await?;
            transaction.rollback().await?;
        }
        let transaction = db.transaction().await?;
        let receipt = accept(&transaction, request).await?;
        transaction.commit().await?;
        Ok(receipt)
    }

    /// A key that was used before: the same request gets the first receipt, another one is refused.
    async fn repeat_some(&mut self) -> anyhow::Result<()> {
        if !self.dice.random_bool(0.15) || self.repeatable.is_empty() {
            return Ok(());
        }
        let (mut request, first) = self.repeatable[self.dice.random_range(0..self.repeatable.len())].clone();
        if self.dice.random_bool(0.7) {
            let receipt = self.by_http(&request).await?;
            if receipt["request_id"].as_str() != Some(&first.to_string()) {
                self.accounts.offences.push(format!("key {} was accepted twice", request.key));
            }
            return Ok(());
        }
        request.body["contact"]["properties"]["lastname"] = json!("Another");
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            match self.post(&request).await {
                Ok((StatusCode::CONFLICT, _)) => return Ok(()),
                Ok((status, _)) if status.is_success() => break,
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
        self.accounts.offences.push(format!("key {} was taken for another request", request.key));
        Ok(())
    }
}

async fn accept(db: &tokio_postgres::Transaction<'_>, request: &Request) -> anyhow::Result<Value> {
    let sql = "select to_jsonb(r) from hubferry.accept_subscription($1, $2, $3, $4, $5, $6, $7) r";
    let text = |name: &str| request.body[name].as_str().unwrap_or_default();
    let (brand, product, state, lane) = (text("brand"), text("product"), text("desired_state"), text("lane"));
    let (contact, consent) = (&request.body["contact"], request.body.get("consent"));
    let row = db.query_one(sql, &[&brand, &product, &request.key, contact, &state, &consent, &lane]).await?;
    Ok(row.get(0))
}
