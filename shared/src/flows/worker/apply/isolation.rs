//! Finds the row to blame when HubSpot refuses a batch as a whole: first by what the error names, else by halves. Every
//! further call is paid for.

use std::collections::BTreeMap;

use crate::adapters::hubspot::{Class, Refusal};
use crate::model::plan::Planned;

use super::super::calls::{Calls, NotCalled};
use super::super::verdict::OperationResult;
use super::{Results, is_ours, not_called};

/// Rows that still have to be sent, in parts.
pub(super) struct Parts<'a, T> {
    waiting: Vec<Vec<&'a T>>,
    sent_any: bool,
}

impl<'a, T: Planned> Parts<'a, T> {
    /// All rows in one part, without those that belong to somebody else by now.
    pub(super) fn of(calls: &Calls<'_>, rows: impl IntoIterator<Item = &'a T>, results: &mut Results) -> Self {
        let (ours, others): (Vec<&T>, Vec<&T>) = rows.into_iter().partition(|row| is_ours(calls, row.operation()));
        results.extend(others.iter().map(|row| not_called(row.operation(), NotCalled::NotOurs)));
        Self { waiting: vec![ours], sent_any: false }
    }

    /// The next part to send, its call paid for. The plan paid for the first one; a part that can't be paid for is given up.
    pub(super) async fn next(&mut self, calls: &Calls<'_>, results: &mut Results) -> Option<Vec<&'a T>> {
        loop {
            let rows = self.waiting.pop()?;
            if rows.is_empty() {
                continue;
            }
            if !std::mem::replace(&mut self.sent_any, true) {
                return Some(rows);
            }
            match calls.reserve_more(1).await {
                Ok(()) => return Some(rows),
                Err(reason) => results.extend(rows.iter().map(|row| not_called(row.operation(), reason.clone()))),
            }
        }
    }

    /// Cuts a refused part into smaller ones that wait. Returns false when the refusal is every row's own: then it stands.
    pub(super) fn split(
        &mut self,
        rows: &[&'a T],
        refusal: &Refusal,
        is_named: impl Fn(&T) -> bool,
        results: &mut Results,
    ) -> bool {
        if rows.len() < 2 {
            return false;
        }
        match refusal.class {
            Class::WholeBatchInvalid | Class::RowInvalid | Class::Conflict | Class::Gone | Class::OptedOut => {
                self.waiting.extend(smaller(rows, is_named));
                true
            }
            // A property that HubSpot does not know concerns only the rows that carry it; the others are sent again.
            Class::Configuration => match refusal.named.property.as_deref() {
                Some(property) => self.set_aside(rows, refusal, |row| row.carries(property), results),
                None => false,
            },
            _ => false,
        }
    }

    /// Cuts a refused part by what its rows share, for a refusal that is about that and not about a row. Returns false when
    /// all share it: then it stands for all, and no further call can tell more.
    pub(super) fn split_by<K: Ord>(&mut self, rows: &[&'a T], kind: impl Fn(&T) -> K) -> bool {
        let mut kinds: BTreeMap<K, Vec<&T>> = BTreeMap::new();
        for row in rows {
            kinds.entry(kind(row)).or_default().push(row);
        }
        let several = kinds.len() > 1;
        if several {
            self.waiting.extend(kinds.into_values());
        }
        several
    }

    fn set_aside(
        &mut self,
        rows: &[&'a T],
        refusal: &Refusal,
        is_to_blame: impl Fn(&T) -> bool,
        results: &mut Results,
    ) -> bool {
        let (to_blame, others): (Vec<&T>, Vec<&T>) = rows.iter().partition(|row| is_to_blame(row));
        if to_blame.is_empty() || others.is_empty() {
            return false;
        }
        results.extend(to_blame.iter().map(|row| (row.operation().clone(), OperationResult::Refused(refusal.clone()))));
        self.waiting.push(others);
        true
    }
}

/// The rows that the error names, one each, and the others together; halves when it names none, or all.
fn smaller<'a, T>(rows: &[&'a T], is_named: impl Fn(&T) -> bool) -> Vec<Vec<&'a T>> {
    let (named, others): (Vec<&T>, Vec<&T>) = rows.iter().partition(|row| is_named(row));
    if named.is_empty() || others.is_empty() {
        let (first, second) = rows.split_at(rows.len() / 2);
        return vec![second.to_vec(), first.to_vec()];
    }
    let mut parts: Vec<Vec<&T>> = named.into_iter().map(|row| vec![row]).collect();
    parts.push(others);
    parts
}
