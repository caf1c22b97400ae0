//! The client secrets, from one place, and changed there without a deployment.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::model::hubspot_signature::{WebhookApp, parse_apps};

/// A secret that was taken away is good for no longer than this.
const KNOWN_FOR: Duration = Duration::from_mins(1);

/// Signatures that fit nothing can be sent by anybody: they make the place be read no more often than this.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Largest document, bytes: fifty apps take a fifth of it. Secrets Manager takes 64 KB as well.
const MOST_BYTES: u64 = 64 * 1024;

/// Where the secrets are.
#[derive(Debug, Clone)]
pub enum SecretSource {
    /// In the environment, which stays as it is for the life of the process.
    Environment(Vec<WebhookApp>),
    /// In a file that is read anew.
    File(PathBuf),
}

/// The secrets as they were read last.
#[derive(Debug)]
pub struct Secrets {
    source: SecretSource,
    read: Mutex<Option<Reading>>,
}

#[derive(Debug)]
struct Reading {
    apps: Option<Arc<[WebhookApp]>>,
    at: Instant,
}

impl Secrets {
    /// Secrets that are read when they are first asked for.
    pub fn new(source: SecretSource) -> Self {
        Self { source, read: Mutex::new(None) }
    }

    /// The secrets, no older than a minute. `None` when there are none to be had.
    pub(super) async fn known(&self) -> Option<Arc<[WebhookApp]>> {
        self.no_older_than(KNOWN_FOR).await
    }

    /// The secrets as they are now. `None` when they were read a moment ago, or never change.
    pub(super) async fn read_again(&self) -> Option<Arc<[WebhookApp]>> {
        if matches!(self.source, SecretSource::Environment(_)) {
            return None;
        }
        let was_just_read = matches!(&*self.read.lock().await, Some(read) if read.at.elapsed() < READ_AGAIN_AFTER);
        if was_just_read { None } else { self.no_older_than(Duration::ZERO).await }
    }

    async fn no_older_than(&self, age: Duration) -> Option<Arc<[WebhookApp]>> {
        let mut read = self.read.lock().await;
        let known = match &*read {
            Some(reading) if reading.apps.is_some() && reading.at.elapsed() < age => return reading.apps.clone(),
            Some(reading) => reading.apps.clone(),
            None => None,
        };
        // A place that can't be read now is no reason to refuse what the last reading verifies.
        let apps = self.source.read().await.or(known);
        *read = Some(Reading { apps: apps.clone(), at: Instant::now() });
        apps
    }
}

impl SecretSource {
    async fn read(&self) -> Option<Arc<[WebhookApp]>> {
        match self {
            Self::Environment(apps) => Some(apps.as_slice().into()),
            Self::File(path) => match read_file(path).await {
                Ok(apps) => Some(apps.into()),
                Err(error) => {
                    tracing::error!(error = format!("{error:#}"), "The webhooks' secrets can't be read.");
                    None
                }
            },
        }
    }
}

async fn read_file(path: &PathBuf) -> anyhow::Result<Vec<WebhookApp>> {
    let size = tokio::fs::metadata(path).await?.len();
    anyhow::ensure!(size <= MOST_BYTES, "the file is larger than {MOST_BYTES} bytes");
    let text = tokio::fs::read_to_string(path).await?;
    parse_apps(&text).map_err(|error| anyhow::anyhow!("the file {error}"))
}
