//! The argument `--queue name:visibility=60,dead-letter=x,max-receives=5`.

use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::settings::{DeadLetter, QueueSettings};

/// Receives before a message goes to the dead-letter queue, unless the argument says otherwise.
const DEFAULT_MAX_RECEIVES: u32 = 5;

/// Reads a queue from text: a name, then `visibility`, `retention`, `delay`, `wait` (all in seconds), `dead-letter` (a
/// queue's name) and `max-receives`. An error names the part that is not understood.
pub fn parse_queue_argument(text: &str) -> anyhow::Result<QueueSettings> {
    let (name, options) = text.split_once(':').unwrap_or((text, ""));
    let mut settings = QueueSettings::new(name);
    let mut max_receives = DEFAULT_MAX_RECEIVES;
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').with_context(|| format!("`{option}` is not `key=value`"))?;
        match key {
            "visibility" => settings.visibility_timeout = seconds(key, value)?,
            "retention" => settings.retention = seconds(key, value)?,
            "delay" => settings.delay = seconds(key, value)?,
            "wait" => settings.receive_wait = seconds(key, value)?,
            "dead-letter" => {
                settings.dead_letter = Some(DeadLetter { queue: value.to_owned(), max_receives });
            }
            "max-receives" => {
                max_receives = value.parse().with_context(|| format!("`{key}` is a number"))?;
            }
            _ => bail!("`{key}` is not a setting of a queue"),
        }
    }
    if let Some(dead_letter) = &mut settings.dead_letter {
        dead_letter.max_receives = max_receives;
    }
    Ok(settings)
}

fn seconds(key: &str, value: &str) -> anyhow::Result<Duration> {
    let seconds = value.parse().with_context(|| format!("`{key}` is a number of seconds"))?;
    Ok(Duration::from_secs(seconds))
}
