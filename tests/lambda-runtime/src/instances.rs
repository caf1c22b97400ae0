//! The sandboxes of one function: one more whenever an event comes while all are at work.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use crate::function::Function;
use crate::sandbox::{Outcome, Sandbox};

/// All instances of a function.
#[derive(Debug)]
pub struct Instances {
    function: Function,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    idle: Vec<Sandbox>,
    started: usize,
    /// Of those that have ended.
    lines: Vec<String>,
}

impl Instances {
    /// Of this function. None runs yet.
    pub fn of(function: Function) -> Self {
        Self { function, known: Mutex::default() }
    }

    /// Has an instance handle an event: the one that was used last, or a new one when all are at work.
    ///
    /// Dropping the returned future kills the instance. Errors: its process can't be started.
    pub async fn invoke(&self, event: &Value, time: Duration) -> anyhow::Result<Outcome> {
        let idle = self.known().idle.pop();
        let mut sandbox = if let Some(sandbox) = idle {
            sandbox
        } else {
            self.known().started += 1;
            Sandbox::start(&self.function).await?
        };
        let outcome = sandbox.invoke(event, time).await;
        if sandbox.has_ended() {
            let lines = sandbox.end().await;
            self.known().lines.extend(lines);
        } else {
            self.known().idle.push(sandbox);
        }
        Ok(outcome)
    }

    /// How many were started so far.
    pub fn started(&self) -> usize {
        self.known().started
    }

    /// Ends all; returns every line that any of them wrote.
    pub async fn end(&self) -> Vec<String> {
        let Known { idle, mut lines, .. } = std::mem::take(&mut *self.known());
        lines.extend(join_all(idle.into_iter().map(Sandbox::end)).await.into_iter().flatten());
        lines
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
