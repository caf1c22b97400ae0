//! What went wrong in the database, without the values that went wrong.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::conflict::Conflicting;

/// A statement that did not succeed.
///
/// PostgreSQL's own messages quote the offending values, which may be personal data: this keeps the SQLSTATE and the name
/// of the constraint, and drops the rest.
#[derive(Debug, thiserror::Error)]
pub enum DbFailure {
    /// No connection, or it broke.
    #[error("PostgreSQL is not reachable for {statement}: {cause}")]
    Unreachable {
        /// What was to be done.
        statement: &'static str,
        /// In words.
        cause: String,
    },
    /// No answer in time. The statement may or may not have taken effect.
    #[error("PostgreSQL did not answer {statement} within {limit:?}")]
    TimedOut {
        /// What was to be done.
        statement: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// PostgreSQL refused the statement.
    #[error("PostgreSQL refused {statement}: SQLSTATE {sqlstate}{}", constraint.as_ref().map(|name| format!(", constraint {name}")).unwrap_or_default())]
    Refused {
        /// What was to be done.
        statement: &'static str,
        /// The SQLSTATE.
        sqlstate: String,
        /// The constraint that was violated.
        constraint: Option<String>,
    },
    /// An answer that does not have the expected form.
    #[error("PostgreSQL's answer to {statement} is not readable: {cause}")]
    Unreadable {
        /// What was asked.
        statement: &'static str,
        /// Which column, in words.
        cause: String,
    },
}

impl DbFailure {
    /// Takes what is safe to show from the driver's error.
    pub(crate) fn of(statement: &'static str, error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(db) => Self::Refused {
                statement,
                sqlstate: db.code().code().to_owned(),
                constraint: db.constraint().map(str::to_owned),
            },
            None if error.is_closed() => Self::Unreachable { statement, cause: "the connection is closed".into() },
            None => Self::Unreachable { statement, cause: chain(error) },
        }
    }
}

impl Conflicting for DbFailure {
    fn is_conflict(&self) -> bool {
        let conflicts = [SqlState::T_R_DEADLOCK_DETECTED.code(), SqlState::T_R_SERIALIZATION_FAILURE.code()];
        matches!(self, Self::Refused { sqlstate, .. } if conflicts.contains(&sqlstate.as_str()))
    }
}

/// An error that did not come from the server says what happened to the connection, and holds no values.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
