//! Collecting messages into a batch.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::types::MessageSystemAttributeName;
use tokio::time::Instant;

use super::EventSourceMapping;
use super::record::Source;

/// Messages that one receive may take (quota of SQS).
const RECEIVE_MESSAGES_MAX: usize = 10;
/// Receives at once, as Lambda starts with five pollers.
const PARALLEL_RECEIVES: usize = 5;
/// Seconds that an idle receive waits. Lambda waits 20; a stop waits for the receive under way, because one that is
/// broken off may hide messages that nobody works on, so this is how long a stop takes at most.
const IDLE_WAIT_SECONDS: i32 = 1;
/// Pause after an empty receive within a window, so that a window is not one busy loop.
const WINDOW_PAUSE: Duration = Duration::from_millis(50);
/// Pause after a failed receive.
const ERROR_PAUSE: Duration = Duration::from_millis(500);
/// Bytes of the records of one invocation (quota of Lambda: 6 MB of payload).
const PAYLOAD_BYTES_MAX: usize = 6 * 1_024 * 1_024;

/// Receives the messages of one queue.
pub(super) struct Collector<'a> {
    client: &'a Client,
    mapping: &'a EventSourceMapping,
    source: Source,
    /// Received, and too large for the batch before.
    carried: VecDeque<SqsMessage>,
    /// Receives that failed.
    pub(super) receive_errors: usize,
}

/// The records of one invocation.
#[derive(Default)]
struct Batch {
    records: Vec<SqsMessage>,
    bytes: usize,
}

impl<'a> Collector<'a> {
    pub(super) fn new(client: &'a Client, mapping: &'a EventSourceMapping) -> Self {
        let region = client.config().region().map_or("eu-west-1", |region| region.as_ref());
        let source = Source::of_queue(&mapping.queue_url, region);
        Self { client, mapping, source, carried: VecDeque::new(), receive_errors: 0 }
    }

    /// Whether messages wait that are received already.
    pub(super) fn has_carried(&self) -> bool {
        !self.carried.is_empty()
    }

    /// Waits a short while for a first message, then collects until the batch is full or its window has passed.
    ///
    /// Once `stopping` is set nothing more is received, and what was collected is the batch.
    pub(super) async fn collect(&mut self, stopping: &AtomicBool) -> Vec<SqsMessage> {
        let mut batch = self.batch_of_carried();
        if batch.records.is_empty() && !stopping.load(Ordering::Acquire) {
            let first = self.receive(self.mapping.batch_size.min(RECEIVE_MESSAGES_MAX), IDLE_WAIT_SECONDS).await;
            self.fill(&mut batch, first);
        }
        let deadline = Instant::now() + self.mapping.batching_window;
        while !batch.records.is_empty() && self.has_room(&batch) && !stopping.load(Ordering::Acquire) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if self.receive_round(&mut batch).await == 0 {
                tokio::time::sleep(left.min(WINDOW_PAUSE)).await;
            }
        }
        batch.records
    }

    /// Collects what is there, without waiting.
    pub(super) async fn collect_available(&mut self) -> Vec<SqsMessage> {
        let mut batch = self.batch_of_carried();
        while self.has_room(&batch) && self.receive_round(&mut batch).await > 0 {}
        batch.records
    }

    fn batch_of_carried(&mut self) -> Batch {
        let mut batch = Batch::default();
        let carried = std::mem::take(&mut self.carried);
        self.fill(&mut batch, carried);
        batch
    }

    fn has_room(&self, batch: &Batch) -> bool {
        self.carried.is_empty() && batch.records.len() < self.mapping.batch_size
    }

    /// Receives as often at once as the room allows; answers how many messages came.
    async fn receive_round(&mut self, batch: &mut Batch) -> usize {
        let room = self.mapping.batch_size - batch.records.len();
        let receives = (0..PARALLEL_RECEIVES)
            .map(|turn| room.saturating_sub(turn * RECEIVE_MESSAGES_MAX).min(RECEIVE_MESSAGES_MAX))
            .filter(|maximum| *maximum > 0)
            .map(|maximum| self.request(maximum, 0));
        let answers = futures::future::join_all(receives).await;
        let mut records = Vec::new();
        for answer in answers {
            records.extend(self.accounted(answer));
        }
        let count = records.len();
        self.fill(batch, records);
        count
    }

    /// A receive that waits; after a failure it pauses, so that an endpoint that is away is not hammered.
    async fn receive(&mut self, maximum: usize, wait_seconds: i32) -> Vec<SqsMessage> {
        let answer = self.request(maximum, wait_seconds).await;
        if answer.is_err() {
            tokio::time::sleep(ERROR_PAUSE).await;
        }
        self.accounted(answer)
    }

    async fn request(&self, maximum: usize, wait_seconds: i32) -> Result<Vec<SqsMessage>, String> {
        let answer = self
            .client
            .receive_message()
            .queue_url(&self.mapping.queue_url)
            .max_number_of_messages(i32::try_from(maximum).unwrap_or(1))
            .wait_time_seconds(wait_seconds)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All")
            .send()
            .await
            .map_err(|error| DisplayErrorContext(error).to_string())?;
        let messages = answer.messages.unwrap_or_default();
        Ok(messages.into_iter().map(|message| self.source.record(message)).collect())
    }

    /// The messages of an answer; a failed receive has none and is counted.
    fn accounted(&mut self, answer: Result<Vec<SqsMessage>, String>) -> Vec<SqsMessage> {
        answer.unwrap_or_else(|error| {
            tracing::warn!(error = %error, "a receive failed");
            self.receive_errors += 1;
            Vec::new()
        })
    }

    /// Puts records into the batch, and aside what is too large or too much for it.
    fn fill(&mut self, batch: &mut Batch, records: impl IntoIterator<Item = SqsMessage>) {
        for record in records {
            let bytes = payload_bytes(&record);
            let fits = batch.records.is_empty() || batch.bytes + bytes <= PAYLOAD_BYTES_MAX;
            if fits && self.has_room(batch) {
                batch.bytes += bytes;
                batch.records.push(record);
            } else {
                self.carried.push_back(record);
            }
        }
    }
}

fn payload_bytes(record: &SqsMessage) -> usize {
    serde_json::to_vec(record).map_or(0, |bytes| bytes.len())
}
