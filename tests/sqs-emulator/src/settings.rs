//! The attributes of a queue: typed, with the ranges and defaults of SQS.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::SqsError;

/// Attributes as the protocol carries them: every value is text.
pub(crate) type AttributeMap = BTreeMap<String, String>;

/// Bytes of a message's body and attributes together, and of all messages of a batch (quota of SQS).
pub(crate) const MESSAGE_BYTES_MAX: usize = 1_048_576;

/// Account in queue URLs and ARNs.
pub(crate) const ACCOUNT: &str = "000000000000";
/// Region in ARNs.
pub(crate) const REGION: &str = "eu-west-1";

const VISIBILITY_SECONDS: std::ops::RangeInclusive<u64> = 0..=43_200;
const RETENTION_SECONDS: std::ops::RangeInclusive<u64> = 60..=1_209_600;
const DELAY_SECONDS: std::ops::RangeInclusive<u64> = 0..=900;
const RECEIVE_WAIT_SECONDS: std::ops::RangeInclusive<u64> = 0..=20;
const MESSAGE_BYTES: std::ops::RangeInclusive<u64> = 1_024..=1_048_576;
const MAX_RECEIVES: std::ops::RangeInclusive<u64> = 1..=1_000;
/// Attributes that are kept and shown, and change nothing here.
const CARRIED: [&str; 5] =
    ["Policy", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled", "RedriveAllowPolicy"];

/// The settings of one standard queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// 1 to 80 letters, digits, hyphens and underscores.
    pub name: String,
    /// How long a received message stays hidden; 0 s to 12 h.
    pub visibility_timeout: Duration,
    /// How long a message is kept, from its sending; 60 s to 14 days.
    pub retention: Duration,
    /// How long a new message stays hidden; 0 to 15 minutes.
    pub delay: Duration,
    /// How long a receive waits for a message unless it says otherwise; 0 to 20 s.
    pub receive_wait: Duration,
    /// Bytes of a message's body and attributes together; 1,024 to 1,048,576.
    pub maximum_message_size: usize,
    /// Where messages go that were received too often.
    pub dead_letter: Option<DeadLetter>,
    /// Attributes without an effect here (policy, encryption), as they were set.
    pub(crate) carried: AttributeMap,
}

/// Redrive policy of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Name of the dead-letter queue.
    pub queue: String,
    /// After so many receives the message goes to the dead-letter queue instead of to a receiver; 1 to 1,000.
    pub max_receives: u32,
}

impl QueueSettings {
    /// A queue with the defaults of SQS: 30 s visibility, 4 days retention, no delay, no wait, no dead-letter queue.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            visibility_timeout: Duration::from_secs(30),
            retention: Duration::from_hours(96),
            delay: Duration::ZERO,
            receive_wait: Duration::ZERO,
            maximum_message_size: MESSAGE_BYTES_MAX,
            dead_letter: None,
            carried: AttributeMap::new(),
        }
    }

    /// The same settings with another visibility timeout.
    #[must_use]
    pub fn visibility_timeout(mut self, timeout: Duration) -> Self {
        self.visibility_timeout = timeout;
        self
    }

    /// The same settings with a delay for new messages.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The same settings with a dead-letter queue, which takes a message after `max_receives` receives.
    #[must_use]
    pub fn dead_letter(mut self, queue: impl Into<String>, max_receives: u32) -> Self {
        self.dead_letter = Some(DeadLetter { queue: queue.into(), max_receives });
        self
    }

    /// The ARN of the queue.
    pub(crate) fn arn(&self) -> String {
        arn_of(&self.name)
    }

    /// Changes what `attributes` names. Nothing is changed when one of them is refused.
    pub(crate) fn apply(&mut self, attributes: &AttributeMap) -> Result<(), SqsError> {
        let mut changed = self.clone();
        for (name, value) in attributes {
            changed.apply_one(name, value)?;
        }
        *self = changed;
        Ok(())
    }

    fn apply_one(&mut self, name: &str, value: &str) -> Result<(), SqsError> {
        let seconds = |range| number(name, value, &range).map(Duration::from_secs);
        match name {
            "VisibilityTimeout" => self.visibility_timeout = seconds(VISIBILITY_SECONDS)?,
            "MessageRetentionPeriod" => self.retention = seconds(RETENTION_SECONDS)?,
            "DelaySeconds" => self.delay = seconds(DELAY_SECONDS)?,
            "ReceiveMessageWaitTimeSeconds" => self.receive_wait = seconds(RECEIVE_WAIT_SECONDS)?,
            "MaximumMessageSize" => {
                let bytes = number(name, value, &MESSAGE_BYTES)?;
                self.maximum_message_size = usize::try_from(bytes).unwrap_or(MESSAGE_BYTES_MAX);
            }
            "RedrivePolicy" => self.dead_letter = parse_redrive_policy(value)?,
            "FifoQueue" | "ContentBasedDeduplication" | "DeduplicationScope" | "FifoThroughputLimit" => {
                return Err(fifo_unsupported());
            }
            _ if CARRIED.contains(&name) => {
                self.carried.insert(name.to_owned(), value.to_owned());
            }
            _ => return Err(SqsError::unknown_attribute(name)),
        }
        Ok(())
    }

    /// All settings as attributes.
    pub(crate) fn to_attributes(&self) -> AttributeMap {
        let mut attributes = self.carried.clone();
        let numbers = [
            ("VisibilityTimeout", self.visibility_timeout.as_secs()),
            ("MessageRetentionPeriod", self.retention.as_secs()),
            ("DelaySeconds", self.delay.as_secs()),
            ("ReceiveMessageWaitTimeSeconds", self.receive_wait.as_secs()),
            ("MaximumMessageSize", self.maximum_message_size as u64),
        ];
        attributes.extend(numbers.map(|(name, value)| (name.to_owned(), value.to_string())));
        attributes.entry("SqsManagedSseEnabled".to_owned()).or_insert_with(|| "true".to_owned());
        if let Some(dead_letter) = &self.dead_letter {
            attributes.insert("RedrivePolicy".to_owned(), dead_letter.to_policy());
        }
        attributes
    }
}

impl DeadLetter {
    fn to_policy(&self) -> String {
        json!({ "deadLetterTargetArn": arn_of(&self.queue), "maxReceiveCount": self.max_receives }).to_string()
    }
}

/// Refuses a name that SQS refuses, and that of a FIFO queue.
pub(crate) fn validate_queue_name(name: &str) -> Result<(), SqsError> {
    if name.is_empty() {
        return Err(SqsError::missing_parameter("QueueName"));
    }
    if name.strip_suffix(".fifo").is_some() {
        return Err(fifo_unsupported());
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.len() > 80 || !name.bytes().all(allowed) {
        return Err(SqsError::invalid_parameter(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        ));
    }
    Ok(())
}

fn fifo_unsupported() -> SqsError {
    SqsError::unsupported("This emulator has standard queues only; FIFO queues are not supported.")
}

fn arn_of(queue: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}")
}

fn number(name: &str, value: &str, range: &std::ops::RangeInclusive<u64>) -> Result<u64, SqsError> {
    let number: u64 = value.parse().map_err(|_| SqsError::invalid_attribute_value(name))?;
    if range.contains(&number) { Ok(number) } else { Err(SqsError::invalid_attribute_value(name)) }
}

/// Reads a redrive policy; an empty one takes the dead-letter queue away. The count may be a number or text.
fn parse_redrive_policy(policy: &str) -> Result<Option<DeadLetter>, SqsError> {
    if policy.is_empty() {
        return Ok(None);
    }
    let refuse = |reason: &str| SqsError::invalid_value(policy, "RedrivePolicy", reason);
    let fields: serde_json::Map<String, Value> =
        serde_json::from_str(policy).map_err(|_| refuse("Redrive policy is not a valid JSON map."))?;
    if fields.is_empty() {
        return Ok(None);
    }
    let target = fields
        .get("deadLetterTargetArn")
        .and_then(Value::as_str)
        .ok_or_else(|| refuse("Redrive policy does not contain mandatory attribute: deadLetterTargetArn."))?;
    let count = fields
        .get("maxReceiveCount")
        .and_then(|count| count.as_u64().or_else(|| count.as_str()?.parse().ok()))
        .ok_or_else(|| refuse("Redrive policy does not contain mandatory attribute: maxReceiveCount."))?;
    if !MAX_RECEIVES.contains(&count) {
        return Err(refuse("Invalid value for maxReceiveCount: must be between 1 and 1000."));
    }
    let queue = target.rsplit(':').next().unwrap_or_default().to_owned();
    Ok(Some(DeadLetter { queue, max_receives: u32::try_from(count).unwrap_or(u32::MAX) }))
}
