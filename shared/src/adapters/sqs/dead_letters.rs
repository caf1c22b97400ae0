//! How much lies in the dead-letter queues: messages that killed their workers, or that nobody could read.
//!
//! Needs `sqs:GetQueueAttributes` on the queues and their dead-letter queues, and nothing else: SQS keeps both in one account and
//! region, so the address of the one follows from that of the other.

use aws_sdk_sqs::types::QueueAttributeName;
use futures::future::join_all;
use serde::Serialize;

use super::Sqs;

/// A dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadLetterQueue {
    /// The queue whose messages end in it.
    pub source: String,
    /// Its name. `None`: the queue has none, or SQS did not say.
    pub queue: Option<String>,
    /// Messages in it, about. `None`: SQS did not say.
    pub messages: Option<u64>,
}

impl Sqs {
    /// Looks into the dead-letter queue of every queue. What SQS does not say is left open, and logged.
    pub async fn dead_letters(&self) -> Vec<DeadLetterQueue> {
        let urls = [&self.urls.interactive, &self.urls.bulk, &self.urls.inbound];
        join_all(urls.map(|url| self.dead_letters_of(url))).await
    }

    async fn dead_letters_of(&self, url: &str) -> DeadLetterQueue {
        let mut found = DeadLetterQueue { source: last_segment(url).to_owned(), queue: None, messages: None };
        let policy = self.attribute(url, QueueAttributeName::RedrivePolicy).await;
        found.queue = policy.as_deref().and_then(target).map(str::to_owned);
        if let Some(queue) = &found.queue {
            let url = sibling(url, queue);
            let messages = self.attribute(&url, QueueAttributeName::ApproximateNumberOfMessages).await;
            found.messages = messages.and_then(|text| text.parse().ok());
        }
        found
    }

    async fn attribute(&self, url: &str, name: QueueAttributeName) -> Option<String> {
        let answer = self.client.get_queue_attributes().queue_url(url).attribute_names(name.clone()).send().await;
        match answer {
            Ok(answer) => answer.attributes.and_then(|mut attributes| attributes.remove(&name)),
            Err(error) => {
                let error = anyhow::Error::from(error);
                let cause = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
                tracing::warn!(error = cause, queue = last_segment(url), "SQS did not say what is in a queue.");
                None
            }
        }
    }
}

/// The name of the dead-letter queue in a redrive policy, whose ARN ends with it.
fn target(policy: &str) -> Option<&str> {
    let (_, rest) = policy.split_once("deadLetterTargetArn")?;
    let arn = rest.split('"').find(|part| part.starts_with("arn:"))?;
    arn.rsplit(':').next()
}

/// The URL of another queue of the same account and region.
fn sibling(url: &str, queue: &str) -> String {
    match url.rsplit_once('/') {
        Some((base, _)) => format!("{base}/{queue}"),
        None => queue.to_owned(),
    }
}

fn last_segment(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_queue_is_found_by_its_arn_beside_its_source() {
        let policy =
            r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-central-1:000000000000:bulk-dead","maxReceiveCount":"5"}"#;
        assert_eq!(target(policy), Some("bulk-dead"));
        assert_eq!(target("{}"), None);
        let url = "https://sqs.eu-central-1.amazonaws.com/000000000000/bulk";
        assert_eq!(sibling(url, "bulk-dead"), "https://sqs.eu-central-1.amazonaws.com/000000000000/bulk-dead");
        assert_eq!(last_segment(url), "bulk");
    }
}
