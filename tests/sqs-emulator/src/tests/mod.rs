//! The rules of SQS and of its event source mapping, seen through the AWS SDK.

mod admin;
mod attributes;
mod batches;
mod event_source;
mod event_source_run;
mod faults;
mod messages;
mod queues;
mod redrive;
mod volume;

use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::types::Message;
use aws_sdk_sqs::{Client, config::retry::RetryConfig};

use crate::{QueueSettings, SqsEmulator};

/// An emulator with one queue, and a client that does not retry by itself.
struct Sqs {
    emulator: SqsEmulator,
    client: Client,
    url: String,
}

const QUEUE: &str = "work";
/// Visibility timeout of the queue.
const VISIBILITY: Duration = Duration::from_secs(30);

impl Sqs {
    async fn start() -> Self {
        Self::with(QueueSettings::new(QUEUE).visibility_timeout(VISIBILITY)).await
    }

    async fn with(settings: QueueSettings) -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let emulator = SqsEmulator::start(listen).await.unwrap();
        let url = emulator.create_queue(settings).unwrap();
        let config = emulator.client().config().to_builder().retry_config(RetryConfig::disabled()).build();
        Self { emulator, client: Client::from_conf(config), url }
    }

    async fn send(&self, body: &str) -> String {
        let request = self.client.send_message().queue_url(&self.url).message_body(body);
        request.send().await.unwrap().message_id.unwrap()
    }

    async fn send_many(&self, count: usize) {
        for number in 0..count {
            self.send(&format!("message {number}")).await;
        }
    }

    async fn receive(&self) -> Vec<Message> {
        self.receive_from(&self.url).await
    }

    async fn receive_from(&self, url: &str) -> Vec<Message> {
        let request = self
            .client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(10)
            .message_system_attribute_names("All".into())
            .message_attribute_names("All");
        request.send().await.unwrap().messages.unwrap_or_default()
    }

    async fn delete(&self, message: &Message) {
        let handle = message.receipt_handle().unwrap();
        self.client.delete_message().queue_url(&self.url).receipt_handle(handle).send().await.unwrap();
    }
}

/// The error code of a call that must have been refused.
fn code<T: Debug, E: ProvideErrorMetadata + Debug>(result: Result<T, E>) -> String {
    result.unwrap_err().code().unwrap_or("no code").to_owned()
}

fn bodies(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.body().unwrap()).collect()
}
