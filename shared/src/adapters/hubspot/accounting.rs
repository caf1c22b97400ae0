//! Accounts for every input of a batch: done, refused, or unknown.
//!
//! Answers are not in the order of the inputs and leave some out, so an input is found by what identifies it: its trace
//! id, else one of its ids exactly, else without regard to case, since HubSpot writes addresses in lower case.

use std::collections::HashMap;

use crate::model::outcome::{Class, ErrorBody, Named, Operation, Refusal, Row, classify_row};

/// What identifies an input, or a result.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys {
    pub(super) trace_id: Option<String>,
    pub(super) ids: Vec<String>,
}

/// Finds for every input what became of it, in the order of the inputs.
///
/// `ids_of` tells which ids an error names. An error that names no input is given to every row without an answer when it is
/// about the call and not about what is written; else to a row only when there is exactly one such error and exactly one
/// row without an answer; otherwise those rows stay unknown.
pub(super) fn account<R: Clone>(
    inputs: &[Keys],
    results: Vec<(Keys, R)>,
    errors: &[ErrorBody],
    operation: Operation,
    ids_of: impl Fn(&Named) -> Vec<String>,
) -> Vec<Row<R>> {
    let index = Index::of(inputs);
    let mut rows: Vec<Row<R>> = inputs.iter().map(|_| Row::Unknown).collect();
    for (keys, value) in results {
        for position in index.find(&keys) {
            rows[position] = Row::Done(value.clone());
        }
    }
    let mut homeless = Vec::new();
    for error in errors {
        let positions = index.named(&error.named(), &ids_of);
        if positions.is_empty() {
            homeless.push(error);
        }
        refuse(&mut rows, &positions, error, operation);
    }
    let unknown: Vec<usize> = (0..rows.len()).filter(|&position| matches!(rows[position], Row::Unknown)).collect();
    let only = match (homeless.as_slice(), unknown.as_slice()) {
        ([error], [_]) => Some(*error),
        _ => None,
    };
    if let Some(error) = homeless.iter().copied().find(|error| is_about_the_call(error, operation)).or(only) {
        refuse(&mut rows, &unknown, error, operation);
    }
    rows
}

/// A limit, a lock, a move or a token: the rows would be refused whatever they hold, so it must not count against them.
fn is_about_the_call(error: &ErrorBody, operation: Operation) -> bool {
    matches!(
        classify_row(error, operation),
        Class::RateLimited(_) | Class::Locked | Class::Migrating | Class::Credential(_)
    )
}

/// A row that has an answer keeps it: what HubSpot lists among the results was written.
fn refuse<R>(rows: &mut [Row<R>], positions: &[usize], error: &ErrorBody, operation: Operation) {
    for &position in positions {
        if matches!(rows[position], Row::Unknown) {
            rows[position] = Row::Refused(Refusal::of_row(error, operation));
        }
    }
}

/// The inputs by what identifies them. Two inputs may share an id.
struct Index {
    trace_ids: HashMap<String, Vec<usize>>,
    ids: HashMap<String, Vec<usize>>,
    lower_ids: HashMap<String, Vec<usize>>,
}

impl Index {
    fn of(inputs: &[Keys]) -> Self {
        let mut index = Self { trace_ids: HashMap::new(), ids: HashMap::new(), lower_ids: HashMap::new() };
        for (position, input) in inputs.iter().enumerate() {
            if let Some(trace_id) = &input.trace_id {
                index.trace_ids.entry(trace_id.clone()).or_default().push(position);
            }
            for id in &input.ids {
                index.ids.entry(id.clone()).or_default().push(position);
                index.lower_ids.entry(id.to_lowercase()).or_default().push(position);
            }
        }
        index
    }

    fn find(&self, keys: &Keys) -> Vec<usize> {
        let by_trace_id = keys.trace_id.as_ref().and_then(|trace_id| self.trace_ids.get(trace_id));
        by_trace_id
            .or_else(|| keys.ids.iter().find_map(|id| self.ids.get(id)))
            .or_else(|| keys.ids.iter().find_map(|id| self.lower_ids.get(&id.to_lowercase())))
            .cloned()
            .unwrap_or_default()
    }

    /// Every input that an error names. Trace ids are ours and unambiguous, so ids count only without them.
    fn named(&self, named: &Named, ids_of: impl Fn(&Named) -> Vec<String>) -> Vec<usize> {
        let by_trace_id: Vec<usize> =
            named.trace_ids.iter().filter_map(|trace_id| self.trace_ids.get(trace_id)).flatten().copied().collect();
        if !by_trace_id.is_empty() {
            return by_trace_id;
        }
        ids_of(named).iter().filter_map(|id| self.lower_ids.get(&id.to_lowercase())).flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn input(trace_id: &str, id: &str) -> Keys {
        Keys { trace_id: Some(trace_id.to_owned()), ids: vec![id.to_owned()] }
    }

    fn result(trace_id: Option<&str>, id: &str) -> (Keys, u32) {
        (Keys { trace_id: trace_id.map(str::to_owned), ids: vec![id.to_owned()] }, 1)
    }

    fn error(value: &Value) -> ErrorBody {
        ErrorBody::from_object(value.as_object().unwrap())
    }

    fn accounted(inputs: &[Keys], results: Vec<(Keys, u32)>, errors: &[ErrorBody]) -> String {
        let rows =
            account(inputs, results, errors, Operation::UpsertContacts, |named| named.ids.iter().cloned().collect());
        let letter = |row: &Row<u32>| match row {
            Row::Done(_) => 'd',
            Row::Refused(_) => 'r',
            Row::Unknown => 'u',
        };
        rows.iter().map(letter).collect()
    }

    #[test]
    fn shuffled_results_find_their_inputs_by_trace_id() {
        let inputs = [input("e1", "a@example.test"), input("e2", "b@example.test"), input("e3", "c@example.test")];
        let errors = [error(&json!({"category": "VALIDATION_ERROR", "context": {"objectWriteTraceId": ["e2"]}}))];
        let results = vec![result(Some("e3"), "x"), result(Some("e1"), "y")];
        assert_eq!(accounted(&inputs, results, &errors), "drd");
    }

    #[test]
    fn without_trace_ids_a_lower_cased_address_is_enough() {
        let inputs = [input("1", "Ann@Example.test"), input("2", "bob@example.test")];
        assert_eq!(accounted(&inputs, vec![result(None, "ann@example.test")], &[]), "du");
    }

    #[test]
    fn ids_that_differ_in_case_only_are_told_apart_when_the_answer_does() {
        let inputs = [input("1", "Key"), input("2", "key")];
        assert_eq!(accounted(&inputs, vec![result(None, "key")], &[]), "ud");
    }

    #[test]
    fn an_error_that_names_several_rows_is_spread_over_them() {
        let inputs = [input("1", "10"), input("2", "11"), input("3", "12")];
        let errors = [error(&json!({"category": "OBJECT_NOT_FOUND", "context": {"ids": ["10", 12]}}))];
        assert_eq!(accounted(&inputs, vec![result(None, "11")], &errors), "rdr");
    }

    #[test]
    fn an_error_without_a_name_goes_to_the_only_row_it_can_concern() {
        let inputs = [input("1", "10"), input("2", "11")];
        let errors = [error(&json!({"category": "VALIDATION_ERROR", "message": "no"}))];
        assert_eq!(accounted(&inputs, vec![result(Some("1"), "10")], &errors), "dr");
        assert_eq!(accounted(&inputs, vec![], &errors), "uu");
        let two = [errors[0].clone(), errors[0].clone()];
        assert_eq!(accounted(&inputs, vec![result(Some("1"), "10")], &two), "du");
    }

    #[test]
    fn an_error_about_the_call_is_every_row_s_that_has_no_answer() {
        let inputs = [input("1", "10"), input("2", "11"), input("3", "12")];
        let errors = [error(&json!({"category": "RATE_LIMITS"})), error(&json!({"category": "VALIDATION_ERROR"}))];
        assert_eq!(accounted(&inputs, vec![result(Some("1"), "10")], &errors), "drr");
        assert_eq!(accounted(&inputs, vec![result(Some("1"), "10")], &errors[1..]), "duu");
    }

    #[test]
    fn a_row_among_the_results_stays_done_whatever_an_error_says() {
        let inputs = [input("1", "10")];
        let errors = [error(&json!({"category": "VALIDATION_ERROR", "context": {"ids": ["10"]}}))];
        assert_eq!(accounted(&inputs, vec![result(Some("1"), "10")], &errors), "d");
    }

    #[test]
    fn results_of_nobody_account_for_nobody() {
        let inputs = [input("1", "10")];
        assert_eq!(accounted(&inputs, vec![result(Some("9"), "99")], &[]), "u");
    }
}
