//! A batch through the database's door, and what to do when the database does not answer.

use std::time::Duration;

use hubferry::adapters::db::{self, AcceptAnswer, AcceptFault, Db, DbFailure};
use serde_json::Value;

use super::stop::Stop;
use crate::output;

/// Pauses before a batch is tried again: a failover or a restart of the database takes some seconds.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// SQLSTATE classes that time may heal: connection, rolled back, resources, not in the right state, operator, system.
const PASSING: [&str; 6] = ["08", "40", "53", "55", "57", "58"];

/// SQLSTATE classes that speak of a value: number of rows, data, integrity, limits.
const OF_A_VALUE: [&str; 4] = ["21", "22", "23", "54"];

/// The database, and who may interrupt the wait for it.
pub(super) struct Door {
    pub(super) db: Db,
    pub(super) stop: Stop,
}

/// What helps against a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// Time. Whether the batch was accepted or not, its keys make the repeat safe.
    TryAgain,
    /// Fewer rows at once, until the row stands alone that PostgreSQL can't take.
    Halve,
    /// A person.
    Stop,
}

impl Door {
    /// Accepts requests; one answer each, in their order. Errors: the database is away for long, or refuses the statement.
    pub(super) async fn accept(&self, requests: Vec<Value>) -> Result<Vec<AcceptAnswer>, DbFailure> {
        let mut answers = Vec::with_capacity(requests.len());
        let mut waiting = vec![requests];
        while let Some(part) = waiting.pop() {
            if part.is_empty() {
                continue;
            }
            let part = Value::Array(part);
            match self.accept_patiently(&part).await {
                Ok(more) => answers.extend(more),
                Err(failure) if remedy(&failure) == Remedy::Halve => match halves(part) {
                    Some((first, second)) => waiting.extend([second, first]),
                    None => answers.push(Err(refused(&failure))),
                },
                Err(failure) => return Err(failure),
            }
        }
        Ok(answers)
    }

    async fn accept_patiently(&self, requests: &Value) -> Result<Vec<AcceptAnswer>, DbFailure> {
        let mut pauses = PAUSES.iter();
        loop {
            let failure = match self.accept_once(requests).await {
                Err(failure) if remedy(&failure) == Remedy::TryAgain => failure,
                answer => return answer,
            };
            let Some(pause) = pauses.next() else { return Err(failure) };
            output::note(&format!("{failure}; trying again in {pause:?}"));
            tokio::select! {
                () = tokio::time::sleep(*pause) => {}
                () = self.stop.requested() => return Err(failure),
            }
        }
    }

    async fn accept_once(&self, requests: &Value) -> Result<Vec<AcceptAnswer>, DbFailure> {
        let connection = self.db.connection().await?;
        db::accept_subscriptions(&*connection, requests, None).await
    }
}

fn remedy(failure: &DbFailure) -> Remedy {
    match failure {
        DbFailure::Unreachable { .. } | DbFailure::TimedOut { .. } => Remedy::TryAgain,
        DbFailure::Refused { sqlstate, .. } => {
            let is_of = |classes: &[&str]| classes.iter().any(|class| sqlstate.starts_with(class));
            if is_of(&PASSING) {
                Remedy::TryAgain
            } else if is_of(&OF_A_VALUE) {
                Remedy::Halve
            } else {
                Remedy::Stop
            }
        }
        DbFailure::Unreadable { .. } => Remedy::Stop,
    }
}

/// Both halves in order; `None` for a single request.
fn halves(requests: Value) -> Option<(Vec<Value>, Vec<Value>)> {
    let Value::Array(mut first) = requests else { return None };
    if first.len() < 2 {
        return None;
    }
    let second = first.split_off(first.len() / 2);
    Some((first, second))
}

fn refused(failure: &DbFailure) -> AcceptFault {
    AcceptFault { code: "refused_by_database".into(), field: String::new(), detail: failure.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn remedy_of(sqlstate: &str) -> Remedy {
        remedy(&DbFailure::Refused { statement: "accept_subscriptions", sqlstate: sqlstate.into(), constraint: None })
    }

    #[test]
    fn only_what_time_may_heal_is_tried_again() {
        assert_eq!(["57P01", "40P01", "53300", "08006"].map(remedy_of), [Remedy::TryAgain; 4]);
        assert_eq!(["22021", "23514", "54000"].map(remedy_of), [Remedy::Halve; 3]);
        assert_eq!(["28P01", "42883", "3D000", "HF001"].map(remedy_of), [Remedy::Stop; 4]);
    }

    #[test]
    fn halves_keep_the_order_and_a_single_request_has_none() {
        assert_eq!(halves(json!([1, 2, 3])), Some((vec![json!(1)], vec![json!(2), json!(3)])));
        assert_eq!(halves(json!([1])), None);
    }
}
