//! Where a local stack lives: its folder, its configuration, and what it says at the start.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use hubferry::adapters::budget::Budget;
use hubferry::adapters::db::MigrationSummary;
use hubferry::config::Environment;
use hubferry::flows::webhook::LOCAL_PATH;
use hubferry::model::budget::Bucket;
use hubspot_simulator::WebhookConfig;
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::{UpArgs, components::Component, demo};

/// The folder of a local stack, below the folder that `hubferry up` is started in.
const FOLDER: &str = ".local";

/// Holds the key that seals envelopes here: the same for every process of the folder, and after a restart.
const KEY_FILE: &str = "signing-key";

/// A local stack's folder and configuration.
pub(super) struct Place {
    /// The folder, created if it was missing.
    pub(super) folder: PathBuf,
    /// The environment, complete.
    pub(super) environment: Environment,
    /// Whether it is known who may send webhooks. Beside a real HubSpot only where an operator said so.
    pub(super) takes_webhooks: bool,
    /// Where the simulator reports its changes to, as this folder's API expects them.
    pub(super) simulated_webhooks: Option<WebhookConfig>,
}

impl Place {
    /// Completes the environment for a stack on this machine. What is set already stays.
    pub(super) fn prepare(mut environment: Environment, args: &UpArgs, simulated: bool) -> anyhow::Result<Self> {
        let folder = std::env::current_dir().context("the current folder can't be read")?.join(FOLDER);
        fs::create_dir_all(&folder).with_context(|| format!("{} can't be created", folder.display()))?;
        let mut defaults = vec![("HUBFERRY_SIGNING_KEY".to_owned(), signing_key(&folder.join(KEY_FILE))?)];
        let urls = super::queue_urls(args);
        defaults.push(("HUBFERRY_QUEUE_INTERACTIVE_URL".into(), urls.interactive));
        defaults.push(("HUBFERRY_QUEUE_BULK_URL".into(), urls.bulk));
        defaults.push(("HUBFERRY_QUEUE_INBOUND_URL".into(), urls.inbound));
        if simulated {
            defaults.push(("HUBFERRY_HUBSPOT_URL".into(), format!("http://{}", args.simulator)));
            defaults.push(("HUBFERRY_HUBSPOT_TOKEN".into(), demo::HUBSPOT_TOKEN.into()));
        }
        let public_url = format!("http://{}{LOCAL_PATH}", args.api);
        let is_told = |name| environment.optional(name).is_some();
        let takes_told = is_told("HUBFERRY_WEBHOOK_SECRETS") || is_told("HUBFERRY_WEBHOOK_SECRETS_FILE");
        let reports = simulated && !takes_told && !is_told("HUBFERRY_WEBHOOK_URL") && !args.no_webhooks;
        let simulated_webhooks = reports.then(|| WebhookConfig::new(&public_url, demo::WEBHOOK_SECRET));
        if simulated && !takes_told {
            let secrets = format!(r#"[{{"current": "{}"}}]"#, demo::WEBHOOK_SECRET);
            defaults.push(("HUBFERRY_WEBHOOK_SECRETS".into(), secrets));
        }
        defaults.push(("HUBFERRY_WEBHOOK_URL".into(), public_url));
        environment.add_defaults(defaults);
        let mut check = environment.clone();
        check.database_url();
        check.redis_url();
        check.finish().context("start the servers with `make servers`, or name running ones")?;
        Ok(Self { folder, environment, takes_webhooks: simulated || takes_told, simulated_webhooks })
    }
}

/// Reads the key, or makes it. Of two processes that make it at once, one wins and both use its key.
fn signing_key(path: &Path) -> anyhow::Result<String> {
    let key = hubferry::model::envelope::new_key_text(rand::random());
    match write_private(path, &key) {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => fs::read_to_string(path)
            .map(|key| key.trim().to_owned())
            .with_context(|| format!("{} can't be read", path.display())),
        Err(error) => Err(error).with_context(|| format!("{} can't be written", path.display())),
    }
}

/// Writes a file that only its owner may read, whole or not at all, and never over another.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    linked
}

/// Says at the start that Redis is away, and where it was looked for. Later it may come and go.
pub(super) async fn check_redis(url: &SecretString) -> anyhow::Result<()> {
    let budget = Budget::connect(url.expose_secret())?;
    let bucket = Bucket::calls(demo::PORTAL, 1, Duration::from_secs(1));
    budget
        .inspect(&bucket)
        .await
        .with_context(|| format!("Redis at {} (HUBFERRY_REDIS_URL) can't be used", shown(url)))
        .map(drop)
}

/// A URL without user and password.
fn shown(url: &SecretString) -> String {
    match Url::parse(url.expose_secret()) {
        Ok(url) => {
            format!("{}:{}", url.host_str().unwrap_or("?"), url.port().map_or("?".into(), |port| port.to_string()))
        }
        Err(_) => "an unreadable URL".into(),
    }
}

/// What runs where, and the first thing to try.
pub(super) fn greet(args: &UpArgs, place: &Place, parts: &[Component], migrated: &MigrationSummary, simulated: bool) {
    let mut check = place.environment.clone();
    let (database, redis) = (check.database_url(), check.redis_url());
    let mut text = String::from("\nhubferry is up.\n\n");
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<11} {value}");
    };
    for part in parts {
        match part {
            Component::Intake => {
                line("API", format!("http://{}", args.api));
                if place.takes_webhooks {
                    let url = place.environment.optional("HUBFERRY_WEBHOOK_URL").unwrap_or_default();
                    line("webhooks", format!("http://{}{LOCAL_PATH}, signed for {url}", args.api));
                }
            }
            Component::Simulator if simulated => line(
                "HubSpot",
                format!("http://{}  (simulated: open it to see contacts, statuses and lists)", args.simulator),
            ),
            Component::Queues => line("SQS", format!("http://{}  (emulated)", args.queues)),
            Component::Dispatcher => line("dispatcher", "polls every second".into()),
            Component::Worker => line("worker", "waits for messages".into()),
            Component::Reconciler => line("reconciler", "runs every five minutes".into()),
            Component::Simulator => {}
        }
    }
    if !simulated {
        line("HubSpot", "the real one: HUBFERRY_HUBSPOT_TOKEN is set".into());
    }
    line("PostgreSQL", format!("{}  (schema version {})", shown(&database), migrated.version.unwrap_or_default()));
    line("Redis", shown(&redis));
    if simulated && parts.contains(&Component::Intake) {
        text.push_str(&demo::first_request(args.api));
    }
    text.push_str("\nCtrl-C stops everything; the next start continues with the same data.\n");
    crate::output::note(&text);
}
