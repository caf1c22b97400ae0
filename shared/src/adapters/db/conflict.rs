//! Once more, where two transactions waited for each other.

use std::time::Duration;

/// Tries of one statement. Somebody who takes locks in an order of its own can be in the way of the second try too.
const TRIES: u32 = 4;

/// The longest pause before a try. The other side, which was let on by our giving way, needs it to come to its end.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// What an attempt may fail with.
pub trait Conflicting {
    /// Two transactions waited for each other, or could not be put in an order: the same again may succeed.
    fn is_conflict(&self) -> bool;
}

/// The answer of a statement that is a transaction of its own: a rolled-back one left nothing behind, so that a conflict is
/// answered by the same again, up to four times in all.
///
/// # Errors
/// What the last attempt failed with.
pub async fn again_after_conflict<T, E, A>(attempt: impl Fn() -> A) -> Result<T, E>
where
    A: Future<Output = Result<T, E>>,
    E: Conflicting,
{
    for _ in 1..TRIES {
        match attempt().await {
            Err(failure) if failure.is_conflict() => {
                tokio::time::sleep(LONGEST_PAUSE.mul_f64(rand::random::<f64>())).await;
            }
            other => return other,
        }
    }
    attempt().await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::DbFailure;
    use super::*;

    fn refused(sqlstate: &str) -> DbFailure {
        DbFailure::Refused { statement: "a test", sqlstate: sqlstate.to_owned(), constraint: None }
    }

    /// How often a statement was tried that fails so many times before it succeeds, and what became of it.
    async fn tried(failures: u32, sqlstate: &str) -> (u32, bool) {
        let tries = Cell::new(0);
        let attempt = || {
            tries.set(tries.get() + 1);
            std::future::ready(if tries.get() <= failures { Err(refused(sqlstate)) } else { Ok(()) })
        };
        let end = again_after_conflict(attempt).await;
        (tries.get(), end.is_ok())
    }

    #[tokio::test]
    async fn a_conflict_is_tried_again_and_nothing_else_is() {
        assert_eq!(tried(0, "40P01").await, (1, true));
        assert_eq!(tried(2, "40P01").await, (3, true));
        assert_eq!(tried(9, "40001").await, (TRIES, false));
        assert_eq!(tried(9, "23505").await, (1, false));
    }
}
