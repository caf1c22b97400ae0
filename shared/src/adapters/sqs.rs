//! Amazon SQS, for the one thing we send: sealed envelopes.

mod dead_letters;

use std::collections::BTreeMap;
use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchOutput;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use futures::{StreamExt as _, stream};

pub use dead_letters::DeadLetterQueue;

use crate::model::envelope::Sealed;
use crate::model::ids::EventId;
use crate::model::subscription::EventLane;

/// Entries that one request takes, by SQS' own limit. Ten envelopes are far below its limit on size.
const ENTRIES_PER_REQUEST: usize = 10;

/// Requests under way at once: enough to publish a thousand events in a second, few enough for one small sandbox.
const REQUESTS_AT_ONCE: usize = 8;

/// Longest wait for one attempt, and for a request with its repeats.
const ATTEMPT_TIME_LIMIT: Duration = Duration::from_secs(2);
const REQUEST_TIME_LIMIT: Duration = Duration::from_secs(6);

/// Queue URLs by lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueUrls {
    /// For visitors who wait.
    pub interactive: String,
    /// For imports and comparisons.
    pub bulk: String,
    /// For what HubSpot's webhooks report.
    pub inbound: String,
}

impl QueueUrls {
    /// The queue of a lane. Effects have none yet and are not published; one that came here would be a visitor's.
    fn of(&self, lane: EventLane) -> &str {
        match lane {
            EventLane::Interactive | EventLane::Effects => &self.interactive,
            EventLane::Bulk => &self.bulk,
            EventLane::Inbound => &self.inbound,
        }
    }
}

/// An envelope on its way to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingEnvelope {
    /// The event inside.
    pub event_id: EventId,
    /// Which queue.
    pub lane: EventLane,
    /// Message group: SQS shares its consumers fairly between groups.
    pub brand: String,
    /// The sealed envelope.
    pub sealed: Sealed,
    /// W3C trace context.
    pub traceparent: Option<String>,
}

/// What became of an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendOutcome {
    /// SQS has it, under this message id.
    Sent(String),
    /// SQS refused this one.
    Refused {
        /// SQS says that sending the same again is pointless.
        sender_fault: bool,
    },
    /// SQS said nothing about this one: it may have it or not.
    Unknown,
    /// The request itself failed: SQS can't be reached, or refuses us altogether.
    Unreachable,
}

/// The queues.
#[derive(Debug, Clone)]
pub struct Sqs {
    client: Client,
    urls: QueueUrls,
}

impl Sqs {
    /// Builds the client from the environment's AWS configuration, with time limits. Does not connect.
    pub async fn new(urls: QueueUrls) -> Self {
        let limits = TimeoutConfig::builder()
            .operation_attempt_timeout(ATTEMPT_TIME_LIMIT)
            .operation_timeout(REQUEST_TIME_LIMIT)
            .build();
        let config = aws_config::defaults(BehaviorVersion::v2026_01_12()).timeout_config(limits).load().await;
        Self::with_client(Client::new(&config), urls)
    }

    /// Uses a client that was built elsewhere, such as one for an emulator.
    pub fn with_client(client: Client, urls: QueueUrls) -> Self {
        Self { client, urls }
    }

    /// Sends envelopes, ten a request and several requests at once. One outcome an envelope, in no particular order.
    pub async fn send(&self, envelopes: Vec<OutgoingEnvelope>) -> Vec<(EventId, SendOutcome)> {
        let mut by_queue: BTreeMap<&str, Vec<OutgoingEnvelope>> = BTreeMap::new();
        for envelope in envelopes {
            by_queue.entry(self.urls.of(envelope.lane)).or_default().push(envelope);
        }
        let mut requests = Vec::new();
        for (url, envelopes) in by_queue {
            requests.extend(chunks(envelopes).into_iter().map(|chunk| self.send_request(url, chunk)));
        }
        stream::iter(requests).buffer_unordered(REQUESTS_AT_ONCE).concat().await
    }

    async fn send_request(&self, queue_url: &str, envelopes: Vec<OutgoingEnvelope>) -> Vec<(EventId, SendOutcome)> {
        let request = self.client.send_message_batch().queue_url(queue_url);
        let entries: Result<Vec<_>, _> =
            envelopes.iter().enumerate().map(|(index, envelope)| entry(index, envelope)).collect();
        let answer = match entries {
            Ok(entries) => request.set_entries(Some(entries)).send().await.map_err(anyhow::Error::from),
            Err(error) => Err(error.into()),
        };
        match answer {
            Ok(answer) => account(&envelopes, &answer),
            Err(error) => {
                let cause = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
                tracing::warn!(error = cause, entries = envelopes.len(), "SQS did not take a batch of messages.");
                envelopes.into_iter().map(|envelope| (envelope.event_id, SendOutcome::Unreachable)).collect()
            }
        }
    }
}

fn chunks(envelopes: Vec<OutgoingEnvelope>) -> Vec<Vec<OutgoingEnvelope>> {
    let mut chunks = Vec::with_capacity(envelopes.len().div_ceil(ENTRIES_PER_REQUEST));
    let mut rest = envelopes.into_iter().peekable();
    while rest.peek().is_some() {
        chunks.push(rest.by_ref().take(ENTRIES_PER_REQUEST).collect());
    }
    chunks
}

/// Ids within a request are places in it: unique, and of the characters that SQS allows.
fn entry(
    index: usize,
    envelope: &OutgoingEnvelope,
) -> Result<SendMessageBatchRequestEntry, aws_sdk_sqs::error::BuildError> {
    let sealed = &envelope.sealed;
    let mut entry = SendMessageBatchRequestEntry::builder()
        .id(index.to_string())
        .message_body(&sealed.body)
        .message_group_id(&envelope.brand)
        .message_attributes("webhook-id", text(&sealed.id)?)
        .message_attributes("webhook-timestamp", text(&sealed.timestamp)?)
        .message_attributes("webhook-signature", text(&sealed.signature)?);
    if let Some(traceparent) = &envelope.traceparent {
        entry = entry.message_attributes("traceparent", text(traceparent)?);
    }
    entry.build()
}

fn text(value: &str) -> Result<MessageAttributeValue, aws_sdk_sqs::error::BuildError> {
    MessageAttributeValue::builder().data_type("String").string_value(value).build()
}

/// Every envelope gets an outcome. HTTP 200 says nothing: what counts is the entry in `Successful`.
fn account(envelopes: &[OutgoingEnvelope], answer: &SendMessageBatchOutput) -> Vec<(EventId, SendOutcome)> {
    let mut outcomes: Vec<SendOutcome> = envelopes.iter().map(|_| SendOutcome::Unknown).collect();
    for failed in answer.failed() {
        if let Some(outcome) = place(failed.id(), &mut outcomes) {
            *outcome = SendOutcome::Refused { sender_fault: failed.sender_fault() };
        }
    }
    for sent in answer.successful() {
        if let Some(outcome) = place(sent.id(), &mut outcomes) {
            *outcome = SendOutcome::Sent(sent.message_id().to_owned());
        }
    }
    envelopes.iter().map(|envelope| envelope.event_id).zip(outcomes).collect()
}

fn place<'a>(id: &str, outcomes: &'a mut [SendOutcome]) -> Option<&'a mut SendOutcome> {
    outcomes.get_mut(id.parse::<usize>().ok()?)
}
