//! The connection: bounded in time, made when it is first needed, and renewed after every failure.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use redis::{
    Client, ErrorKind, FromRedisValue, RedisError, ServerErrorKind,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use tokio::time::timeout;

use super::{
    BudgetError, Unavailable,
    call::{Answer, Call},
};

/// Bound on a command with everything in it: connecting, sending the script where Redis does not know it, the answer.
/// Beyond it a visitor's sign-up is better off snoozed.
pub const COMMAND_TIMEOUT: Duration = Duration::from_millis(200);

/// Bound on one wait within a command; below [`COMMAND_TIMEOUT`], so that the client notices before it is cut off.
const STEP_TIMEOUT: Duration = Duration::from_millis(180);

/// A connection shared by all clones.
#[derive(Clone)]
pub(super) struct Connection {
    client: Client,
    manager: Arc<Mutex<Option<ConnectionManager>>>,
}

impl fmt::Debug for Connection {
    /// Shows nothing of the client, which knows the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Takes the URL apart; connects later.
    pub(super) fn new(url: &str) -> Result<Self, BudgetError> {
        let client = Client::open(url).map_err(|_| BudgetError::InvalidUrl)?;
        Ok(Self { client, manager: Arc::default() })
    }

    /// Runs a script within [`COMMAND_TIMEOUT`].
    ///
    /// A connection that was refused or had broken off is made anew and the script run once more in the same time: every
    /// script recognises a request that it has carried out already. After a timeout nothing is repeated.
    pub(super) async fn run<T: FromRedisValue>(&self, call: &Call) -> Result<Answer<T>, BudgetError> {
        let attempts = async {
            match self.attempt(call).await {
                Err(error) if error.is_connection_dropped() => {
                    self.renew();
                    self.attempt(call).await
                }
                answer => answer,
            }
        };
        let asked_at = Instant::now();
        let source = match timeout(COMMAND_TIMEOUT, attempts).await {
            // An answer that a busy runtime delivers late is none: its reservation counts on less than this bound.
            Ok(Ok(answer)) if asked_at.elapsed() <= COMMAND_TIMEOUT => return Ok(answer),
            Ok(Err(error)) if !error.is_timeout() => Unavailable::Redis(error),
            Ok(_) | Err(_) => Unavailable::Timeout,
        };
        self.renew();
        Err(BudgetError::Unavailable { source })
    }

    /// Only an explicit NOSCRIPT brings the script along: no other error says that nothing has been carried out.
    async fn attempt<T: FromRedisValue>(&self, call: &Call) -> Result<Answer<T>, RedisError> {
        let mut manager = self.manager()?;
        match call.by_hash().query_async(&mut manager).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                call.with_body().query_async(&mut manager).await
            }
            answer => answer,
        }
    }

    /// The manager in use; a new one does not connect before its first command.
    fn manager(&self) -> Result<ConnectionManager, RedisError> {
        let mut manager = self.manager.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(manager) = &*manager {
            return Ok(manager.clone());
        }
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(STEP_TIMEOUT))
            .set_response_timeout(Some(STEP_TIMEOUT));
        Ok(manager.insert(ConnectionManager::new_lazy_with_config(self.client.clone(), config)?).clone())
    }

    /// Forgets the connection. A server that has become a replica, or a network that has swallowed the connection, keeps
    /// an old one open for ever; only a new one asks DNS again.
    fn renew(&self) {
        *self.manager.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
