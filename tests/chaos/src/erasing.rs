//! Clients that erase a person now and then, by HTTP and by SQL, and never decide about them again.

use std::time::Instant;

use anyhow::Context as _;
use rand::Rng as _;
use reqwest::StatusCode;
use serde_json::Value;
use uuid::Uuid;

use crate::place::connect;
use crate::setting::API_TOKEN;
use crate::workload::{PATIENCE, PAUSE, Visitor};

/// How often a client erases somebody after a decision.
const ERASES: f64 = 0.05;

/// How often a request of an erased person comes again.
const REPEATS: f64 = 0.1;

impl Visitor<'_> {
    /// People that may be decided about, by their place.
    pub(crate) fn living(&self) -> Vec<usize> {
        let people = self.accounts.people.iter().enumerate();
        people.filter(|(_, person)| person.erased.is_none()).map(|(place, _)| place).collect()
    }

    /// Sometimes erases a person that has a key, so that somebody is left; and repeats what was accepted about the erased.
    pub(crate) async fn erase_some(&mut self) -> anyhow::Result<()> {
        if !self.place.scenario.erasures {
            return Ok(());
        }
        let (erases, by_sql, draw) =
            (self.dice.random_bool(ERASES), self.dice.random_bool(0.3), self.dice.random_range(0..usize::MAX));
        let people = &self.accounts.people;
        let candidates: Vec<usize> = self
            .living()
            .into_iter()
            .filter(|place| people[*place].key.is_some() && !people[*place].newest.is_empty())
            .collect();
        if erases && candidates.len() > 1 {
            self.erase(candidates[draw % candidates.len()], by_sql).await?;
        }
        self.repeat_buried().await
    }

    async fn erase(&mut self, chosen: usize, by_sql: bool) -> anyhow::Result<()> {
        let key = self.accounts.people[chosen].key.clone().context("only those with a key are erased")?;
        let events = if by_sql { self.erase_by_sql(&key).await? } else { self.erase_by_http(&key).await? };
        let [event] = events.as_array().map_or(&[][..], Vec::as_slice) else {
            anyhow::bail!("an erasure in one portal has other events: {events}");
        };
        let event: Uuid = event["event_id"].as_str().context("an erasure without an id")?.parse()?;
        self.accounts.people[chosen].erased = Some(event);
        let buried = self.repeatable.extract_if(.., |(request, _)| request.is_about(&key));
        self.buried.extend(buried.map(|(request, _)| request));
        Ok(())
    }

    /// Asks until there is an answer: the intake may die at any moment, also after it was done.
    async fn erase_by_http(&self, key: &str) -> anyhow::Result<Value> {
        let url = format!("http://127.0.0.1:{}/v1/contacts/{key}", self.place.api);
        let began = Instant::now();
        loop {
            let answer = self.place.http.delete(&url).bearer_auth(API_TOKEN).send().await;
            match answer {
                Ok(answer) if matches!(answer.status(), StatusCode::ACCEPTED | StatusCode::OK) => {
                    if let Ok(body) = answer.json::<Value>().await {
                        return Ok(body["events"].clone());
                    }
                }
                Ok(answer) if answer.status().is_client_error() => {
                    anyhow::bail!("an erasure is refused with {}", answer.status())
                }
                other if began.elapsed() > PATIENCE => anyhow::bail!("not erased for {PATIENCE:?}: {other:?}"),
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn erase_by_sql(&self, key: &str) -> anyhow::Result<Value> {
        let db = connect(&self.place.database_url).await?;
        let row = db.query_one("select events from hubferry.erase_contact($1)", &[&key]).await?;
        Ok(row.get(0))
    }

    /// A request from before an erasure is refused, and makes nobody anew.
    async fn repeat_buried(&mut self) -> anyhow::Result<()> {
        if self.buried.is_empty() || !self.dice.random_bool(REPEATS) {
            return Ok(());
        }
        let request = self.buried[self.dice.random_range(0..self.buried.len())].clone();
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            match self.post(&request).await {
                Ok((StatusCode::CONFLICT, _)) => return Ok(()),
                Ok((status, _)) if status.is_success() => break,
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
        self.accounts.offences.push("a request of an erased contact was taken again".into());
        Ok(())
    }
}
