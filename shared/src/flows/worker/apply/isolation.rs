//! Finds the row to blame when HubSpot refuses a batch as a whole: first by what the error names, else by halves. Every
//! further call is paid for, and there is an end to them: when rows fail one by one and all alike, the cause is hardly theirs,
//! and those that were not tried alone wait instead of being blamed.

use std::collections::{BTreeMap, BTreeSet};

use crate::adapters::hubspot::{Class, Refusal};
use crate::model::plan::Planned;

use super::super::calls::{Calls, NotCalled};
use super::super::verdict::OperationResult;
use super::{Results, is_ours, not_called};

/// Rows refused alone, one after the other, for one reason and with no call accepted between them, after which the reason is
/// taken to be everybody's.
const ENOUGH_ALIKE: u32 = 3;

/// Calls beyond the first that one batch may take. By halves, a bad row of a hundred takes fifteen and three take forty; who
/// is still not told apart then comes round again in smaller batches, since retries are spread.
const MOST_EXTRA_CALLS: u32 = 40;

/// Rows that still have to be sent, in parts.
pub(super) struct Parts<'a, T> {
    waiting: Vec<Vec<&'a T>>,
    sent_any: bool,
    extra_calls: u32,
    /// The last refusal.
    last: Option<Refusal>,
    /// For which reason rows were refused alone last, and how many in a row.
    alike: (String, u32),
}

impl<'a, T: Planned> Parts<'a, T> {
    /// All rows in one part, without those that belong to somebody else by now.
    pub(super) fn of(calls: &Calls<'_>, rows: impl IntoIterator<Item = &'a T>, results: &mut Results) -> Self {
        let (ours, others): (Vec<&T>, Vec<&T>) = rows.into_iter().partition(|row| is_ours(calls, row.operation()));
        results.extend(others.iter().map(|row| not_called(row.operation(), NotCalled::NotOurs)));
        Self { waiting: vec![ours], sent_any: false, extra_calls: 0, last: None, alike: (String::new(), 0) }
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
            if let Some(refusal) = self.is_enough() {
                let not_tried = || OperationResult::NotTried(refusal.clone());
                results.extend(rows.iter().map(|row| (row.operation().clone(), not_tried())));
                continue;
            }
            self.extra_calls += 1;
            match calls.reserve_more(1).await {
                Ok(()) => return Some(rows),
                Err(reason) => results.extend(rows.iter().map(|row| not_called(row.operation(), reason.clone()))),
            }
        }
    }

    /// A part was accepted, so nothing is wrong with everybody.
    pub(super) fn accepted(&mut self) {
        self.alike.1 = 0;
    }

    /// Cuts a refused part into smaller ones that wait, or ends the rows that share the named cause. Returns false when the
    /// refusal is every row's own: then it stands.
    pub(super) fn split(
        &mut self,
        rows: &[&'a T],
        refusal: &Refusal,
        is_named: impl Fn(&T) -> bool,
        results: &mut Results,
    ) -> bool {
        if rows.len() < 2 {
            self.note_single(refusal);
            return false;
        }
        self.last = Some(refusal.clone());
        match refusal.class {
            Class::WholeBatchInvalid | Class::RowInvalid | Class::Conflict | Class::Gone | Class::OptedOut => {
                if !rows.iter().any(|row| is_named(row)) && self.set_aside_same_value(rows, refusal, results) {
                    return true;
                }
                self.waiting.extend(smaller(rows, is_named));
                true
            }
            // A property that HubSpot does not know concerns only the rows that carry it; the others are sent again.
            Class::Configuration => match refusal.named.property.as_deref() {
                Some(property) => {
                    self.set_aside(rows, refusal, |row| row.value(property).is_some(), results);
                    true
                }
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

    /// Ends the rows that carry the named property, if they all carry one value in it: no further call can tell them apart.
    fn set_aside_same_value(&mut self, rows: &[&'a T], refusal: &Refusal, results: &mut Results) -> bool {
        let Some(property) = refusal.named.property.as_deref() else { return false };
        let values: BTreeSet<&str> = rows.iter().filter_map(|row| row.value(property)).collect();
        let is_shared = values.len() == 1;
        if is_shared {
            self.set_aside(rows, &refusal.of_each_row(), |row| row.value(property).is_some(), results);
        }
        is_shared
    }

    fn set_aside(
        &mut self,
        rows: &[&'a T],
        refusal: &Refusal,
        is_to_blame: impl Fn(&T) -> bool,
        results: &mut Results,
    ) {
        let (mut to_blame, mut others): (Vec<&T>, Vec<&T>) = rows.iter().partition(|row| is_to_blame(row));
        if to_blame.is_empty() {
            // It names what nobody carries, so it stands for all.
            std::mem::swap(&mut to_blame, &mut others);
        }
        results.extend(to_blame.iter().map(|row| (row.operation().clone(), OperationResult::Refused(refusal.clone()))));
        self.waiting.push(others);
    }

    /// A row was refused alone. Conflicts, missing records and opt-outs are facts about a row; they never are everybody's.
    fn note_single(&mut self, refusal: &Refusal) {
        let (code, alike) = &mut self.alike;
        match refusal.class {
            Class::RowInvalid | Class::Configuration if *code == refusal.code => *alike += 1,
            Class::RowInvalid | Class::Configuration => (*code, *alike) = (refusal.code.clone(), 1),
            _ => *alike = 0,
        }
        self.last = Some(refusal.clone());
    }

    /// The refusal because of which no further call is made.
    fn is_enough(&self) -> Option<Refusal> {
        let is_enough = self.alike.1 >= ENOUGH_ALIKE || self.extra_calls >= MOST_EXTRA_CALLS;
        self.last.clone().filter(|_| is_enough)
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
