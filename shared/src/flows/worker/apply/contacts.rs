//! Writes contacts' properties.

use std::collections::{BTreeMap, HashMap};

use futures::{StreamExt as _, stream};

use crate::adapters::hubspot::{Call, Class, ContactRecord, ContactUpdate, ContactUpsert, Row, UpsertedContact};
use crate::model::echo::ValueHash;
use crate::model::ids::{ContactKey, RecordId};
use crate::model::plan::{Flaw, ROWS_PER_CALL, Upsert};
use crate::model::property_value::differs_from_echo;

use super::super::calls::{Calls, NotCalled};
use super::super::verdict::{Done, Holding, OperationResult};
use super::isolation::Parts;
use super::{CALLS_AT_ONCE, Results, not_called, rows_of};

/// The property that every contact is found by.
pub(super) const EMAIL: &str = "email";

/// Times that a contact is written with fewer properties. HubSpot names all bad ones at once where it checks values, and one
/// at a time where it checks names.
const MOST_REDUCTIONS: u32 = 3;

/// What a contact is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// Its address; made if nobody has it.
    Email,
    /// Its key in the unique property; made if nobody has it.
    Key,
    /// Its record id.
    Record,
}

/// Writes the contacts of one portal.
#[derive(Clone, Copy)]
pub(super) struct Contacts<'a> {
    pub(super) calls: &'a Calls<'a>,
    pub(super) unique_property: &'a str,
}

impl Contacts<'_> {
    pub(super) async fn write_all(&self, by: By, upserts: &[Upsert]) -> Results {
        let chunks: Vec<_> = upserts.chunks(ROWS_PER_CALL).map(|chunk| self.write_chunk(by, chunk)).collect();
        stream::iter(chunks).buffer_unordered(CALLS_AT_ONCE).concat().await
    }

    /// Writes them, and once more without the properties that HubSpot refused: a bad value is its property's fault, and not
    /// that of the contact.
    async fn write_chunk(&self, by: By, chunk: &[Upsert]) -> Results {
        let mut results = self.write_parts(by, chunk).await;
        let mut flaws: HashMap<ContactKey, Vec<Flaw>> = HashMap::new();
        let mut written = chunk.to_vec();
        for _ in 0..MOST_REDUCTIONS {
            let reduced = self.reduced(&written, &mut results, &mut flaws);
            if reduced.is_empty() {
                break;
            }
            match self.calls.reserve_more(1).await {
                Ok(()) => results.extend(self.write_parts(by, &reduced).await),
                Err(reason) => {
                    results.extend(reduced.iter().map(|upsert| not_called(&upsert.operation, reason.clone())));
                }
            }
            written = reduced;
        }
        for (operation, result) in &mut results {
            if let OperationResult::Done(done) = result {
                done.flaws.extend(flaws.remove(&operation.contact_key).unwrap_or_default());
            }
        }
        results
    }

    async fn write_parts(&self, by: By, chunk: &[Upsert]) -> Results {
        let mut results = Results::new();
        let mut parts = Parts::of(self.calls, chunk, &mut results);
        while let Some(rows) = parts.next(self.calls, &mut results).await {
            let call = match self.write(by, &rows).await {
                Ok(call) => call,
                Err(reason) => {
                    results.extend(rows.iter().map(|upsert| not_called(&upsert.operation, reason.clone())));
                    continue;
                }
            };
            match &call.result {
                Ok(_) => parts.accepted(),
                Err(refusal) => {
                    let is_named = |upsert: &Upsert| {
                        refusal.named.ids.contains(&id(upsert, by).to_lowercase())
                            || refusal.named.trace_ids.contains(&upsert.operation.contact_key.0)
                    };
                    if parts.split(&rows, refusal, is_named, &mut results) {
                        continue;
                    }
                }
            }
            let answers = rows.iter().zip(rows_of(call, rows.len()));
            results.extend(answers.map(|(upsert, row)| (upsert.operation.clone(), self.result(upsert, row))));
        }
        results
    }

    /// Takes out of the results the contacts that were refused for properties they can do without, and returns them without
    /// those. What a contact is found by is none of them.
    fn reduced(
        &self,
        chunk: &[Upsert],
        results: &mut Results,
        flaws: &mut HashMap<ContactKey, Vec<Flaw>>,
    ) -> Vec<Upsert> {
        let upserts: HashMap<&ContactKey, &Upsert> =
            chunk.iter().map(|upsert| (&upsert.operation.contact_key, upsert)).collect();
        let mut reduced = Vec::new();
        results.retain(|(operation, result)| {
            let OperationResult::Refused(refusal) = result else { return true };
            let Some(upsert) = upserts.get(&operation.contact_key) else { return true };
            if !matches!(refusal.class, Class::Configuration | Class::RowInvalid) {
                return true;
            }
            let is_bad = |name: &String| refusal.named.properties.contains(name) && !self.is_identity(name);
            let (bad, good): (Vec<_>, Vec<_>) = upsert.properties.iter().partition(|(name, _)| is_bad(name));
            if bad.is_empty() {
                return true;
            }
            let of_contact = flaws.entry(operation.contact_key.clone()).or_default();
            of_contact.extend(bad.iter().map(|(name, _)| Flaw::refused(name, refusal)));
            let properties = good.into_iter().map(|(name, text)| (name.clone(), text.clone())).collect();
            reduced.push(Upsert { properties, ..(*upsert).clone() });
            false
        });
        reduced
    }

    fn is_identity(&self, property: &str) -> bool {
        property == EMAIL || property == self.unique_property
    }

    /// One call.
    pub(super) async fn write(&self, by: By, rows: &[&Upsert]) -> Result<Call<Vec<Row<Written>>>, NotCalled> {
        let account = self.calls.account;
        if by == By::Record {
            let inputs: Vec<ContactUpdate> = rows.iter().map(|upsert| update(upsert)).collect();
            let call = self.calls.make(account.update_contacts(&inputs)).await?;
            let written = |it: ContactRecord| Written::new(&it.record_id, it.properties);
            return Ok(call.map(|rows| rows.into_iter().map(|row| row.map(written)).collect()));
        }
        let id_property = if by == By::Key { self.unique_property } else { EMAIL };
        let inputs: Vec<ContactUpsert> = rows.iter().map(|upsert| input(upsert, by)).collect();
        let call = self.calls.make(account.upsert_contacts(id_property, &inputs)).await?;
        let written = |it: UpsertedContact| Written::new(&it.record_id, it.properties);
        Ok(call.map(|rows| rows.into_iter().map(|row| row.map(written)).collect()))
    }

    /// What a row's answer says. A guest that is no longer where it was a guest has no record that we know.
    pub(super) fn result(&self, upsert: &Upsert, row: Row<(Written, Option<String>)>) -> OperationResult {
        let sets_key = upsert.properties.contains_key(self.unique_property);
        match row {
            Row::Done((written, _)) if !sets_key && written.record_id != upsert.record_id => {
                OperationResult::RecordMissing
            }
            row => row
                .map(|(written, correlation_id)| Done {
                    record_id: written.record_id,
                    key: sets_key.then(|| upsert.owner.clone()),
                    correlation_id,
                    flaws: self.not_applied(upsert, &written),
                    written: Some(Box::new(holding(upsert, &written))),
                    ..Done::default()
                })
                .into(),
        }
    }

    /// The properties of which the answer repeats another value. Of those that it does not repeat nothing is known.
    fn not_applied(&self, upsert: &Upsert, written: &Written) -> Vec<Flaw> {
        let differs = |(name, text): &(&String, &String)| {
            let echoed = written.echoed.get(*name);
            echoed.is_some_and(|echoed| differs_from_echo(upsert.kinds.get(*name).copied(), text, echoed.as_deref()))
        };
        let ours = upsert.properties.iter().filter(|(name, _)| !self.is_identity(name));
        ours.filter(differs).map(|(name, _)| Flaw::not_applied(name)).collect()
    }
}

/// A contact as HubSpot's answer shows it.
#[derive(Clone)]
pub(super) struct Written {
    record_id: Option<RecordId>,
    echoed: BTreeMap<String, Option<String>>,
}

impl Written {
    fn new(record_id: &str, echoed: BTreeMap<String, Option<String>>) -> Self {
        Self { record_id: record_id.parse().ok().map(RecordId), echoed }
    }
}

/// What HubSpot holds now, in its own words where it repeats them: so it will report it.
fn holding(upsert: &Upsert, written: &Written) -> Holding {
    let values = upsert.properties.iter().map(|(name, text)| {
        let echoed = written.echoed.get(name).map(|echoed| echoed.as_deref().unwrap_or_default());
        (name.clone(), ValueHash::of(echoed.unwrap_or(text)))
    });
    Holding(values.collect())
}

/// The text that a contact is found by.
fn id(upsert: &Upsert, by: By) -> String {
    match by {
        By::Email => upsert.email.clone(),
        By::Key => upsert.operation.contact_key.0.clone(),
        By::Record => upsert.record_id.map(|id| id.to_string()).unwrap_or_default(),
    }
}

fn input(upsert: &Upsert, by: By) -> ContactUpsert {
    ContactUpsert {
        trace_id: upsert.operation.contact_key.0.clone(),
        id: id(upsert, by),
        properties: upsert.properties.clone(),
    }
}

fn update(upsert: &Upsert) -> ContactUpdate {
    ContactUpdate {
        trace_id: upsert.operation.contact_key.0.clone(),
        record_id: id(upsert, By::Record),
        properties: upsert.properties.clone(),
    }
}
