//! The settings of a mapping and what Lambda refuses about them.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::types::QueueAttributeName;
use thiserror::Error;

/// Messages of a batch from a standard queue (quota of Lambda).
const BATCH_SIZE_MAX: usize = 10_000;
/// Messages of a batch that need no window (rule of Lambda).
const BATCH_SIZE_WITHOUT_WINDOW: usize = 10;
/// The least window of a larger batch (rule of Lambda).
const WINDOW_OF_LARGE_BATCH: Duration = Duration::from_secs(1);
/// The longest window (quota of Lambda).
const WINDOW_MAX: Duration = Duration::from_mins(5);
/// The most invocations at once (quota of Lambda). Lambda refuses 1 as well; here it plays a reserved concurrency of 1.
const CONCURRENCY_MAX: usize = 1_000;

/// An event source mapping from one queue to one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSourceMapping {
    /// URL of the queue.
    pub queue_url: String,
    /// The most messages of a batch; 1 to 10,000.
    pub batch_size: usize,
    /// How long a batch is collected from its first message on; 0 to 5 minutes, at least 1 s for more than 10 messages.
    pub batching_window: Duration,
    /// The most invocations at once; 1 to 1,000.
    pub maximum_concurrency: usize,
    /// Whether the function's answer names the messages that failed (`ReportBatchItemFailures`).
    pub report_batch_item_failures: bool,
    /// The function's time limit, after which the invocation is dropped and its batch returns.
    pub function_timeout: Duration,
}

/// Why a mapping is refused.
#[derive(Debug, Error)]
pub enum MappingError {
    /// The batch size is 0 or above the quota.
    #[error("the batch size is {0}; it must be between 1 and {BATCH_SIZE_MAX}")]
    BatchSize(usize),
    /// A batch of more than 10 messages has too short a window.
    #[error("a batch of {batch_size} messages needs a batching window of at least 1 s; it is {window:?}")]
    WindowTooShort {
        /// The batch size that was asked for.
        batch_size: usize,
        /// The window that was asked for.
        window: Duration,
    },
    /// The window is above the quota.
    #[error("the batching window is {0:?}; at most 5 minutes are allowed")]
    WindowTooLong(Duration),
    /// The concurrency is 0 or above the quota.
    #[error("the maximum concurrency is {0}; it must be between 1 and {CONCURRENCY_MAX}")]
    MaximumConcurrency(usize),
    /// Messages would show again while the function still works on them.
    #[error("the queue's visibility timeout ({visibility:?}) is shorter than the function's timeout ({timeout:?})")]
    VisibilityTooShort {
        /// The queue's visibility timeout.
        visibility: Duration,
        /// The function's timeout.
        timeout: Duration,
    },
    /// The queue did not tell its attributes, for example because it does not exist.
    #[error("the queue's attributes cannot be read: {0}")]
    QueueUnreadable(String),
}

impl EventSourceMapping {
    /// A mapping with Lambda's defaults (10 messages, no window), failures reported by message, two invocations at
    /// once, and a function timeout of 30 s.
    pub fn new(queue_url: impl Into<String>) -> Self {
        Self {
            queue_url: queue_url.into(),
            batch_size: BATCH_SIZE_WITHOUT_WINDOW,
            batching_window: Duration::ZERO,
            maximum_concurrency: 2,
            report_batch_item_failures: true,
            function_timeout: Duration::from_secs(30),
        }
    }

    /// Refuses settings that Lambda refuses.
    pub fn validate(&self) -> Result<(), MappingError> {
        let (batch_size, window) = (self.batch_size, self.batching_window);
        if !(1..=BATCH_SIZE_MAX).contains(&batch_size) {
            return Err(MappingError::BatchSize(batch_size));
        }
        if batch_size > BATCH_SIZE_WITHOUT_WINDOW && window < WINDOW_OF_LARGE_BATCH {
            return Err(MappingError::WindowTooShort { batch_size, window });
        }
        if window > WINDOW_MAX {
            return Err(MappingError::WindowTooLong(window));
        }
        if !(1..=CONCURRENCY_MAX).contains(&self.maximum_concurrency) {
            return Err(MappingError::MaximumConcurrency(self.maximum_concurrency));
        }
        Ok(())
    }

    /// Refuses a queue whose messages would show again while the function still works on them, as Lambda does.
    pub(super) async fn validate_queue(&self, client: &Client) -> Result<(), MappingError> {
        let answer = client
            .get_queue_attributes()
            .queue_url(&self.queue_url)
            .attribute_names(QueueAttributeName::VisibilityTimeout)
            .send()
            .await
            .map_err(|error| MappingError::QueueUnreadable(DisplayErrorContext(error).to_string()))?;
        let seconds = answer
            .attributes()
            .and_then(|attributes| attributes.get(&QueueAttributeName::VisibilityTimeout)?.parse().ok())
            .ok_or_else(|| MappingError::QueueUnreadable("no visibility timeout in the answer".to_owned()))?;
        let (visibility, timeout) = (Duration::from_secs(seconds), self.function_timeout);
        if visibility < timeout {
            return Err(MappingError::VisibilityTooShort { visibility, timeout });
        }
        Ok(())
    }
}
