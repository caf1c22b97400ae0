//! Sending, receiving, hiding and deleting.

use std::time::Duration;

use aws_sdk_sqs::types::MessageSystemAttributeName as System;

use super::{Sqs, VISIBILITY, bodies, code};
use crate::{QueueCounts, QueueSettings};

#[tokio::test]
async fn a_sent_message_is_received_with_its_identity() {
    let sqs = Sqs::start().await;
    let id = sqs.send("hello").await;
    let received = sqs.receive().await;
    assert_eq!(bodies(&received), ["hello"]);
    assert_eq!(received[0].message_id(), Some(id.as_str()));
    assert_eq!(received[0].md5_of_body(), Some("5d41402abc4b2a76b9719d911017c592"));
}

#[tokio::test]
async fn a_received_message_is_hidden_until_its_visibility_timeout_ends() {
    let sqs = Sqs::start().await;
    sqs.send("hello").await;
    assert_eq!(sqs.receive().await.len(), 1);
    assert!(sqs.receive().await.is_empty());
    sqs.emulator.advance(VISIBILITY);
    let again = sqs.receive().await;
    let attributes = again[0].attributes().unwrap();
    assert_eq!(attributes[&System::ApproximateReceiveCount], "2");
    let first = attributes[&System::ApproximateFirstReceiveTimestamp].parse::<i64>().unwrap();
    assert!(first >= attributes[&System::SentTimestamp].parse::<i64>().unwrap());
}

#[tokio::test]
async fn a_receive_takes_at_most_what_it_asks_for() {
    let sqs = Sqs::start().await;
    sqs.send_many(3).await;
    let one = sqs.client.receive_message().queue_url(&sqs.url).send().await.unwrap();
    assert_eq!(one.messages().len(), 1);
    assert_eq!(sqs.emulator.counts("work"), QueueCounts { visible: 2, in_flight: 1, delayed: 0 });
    let eleven = sqs.client.receive_message().queue_url(&sqs.url).max_number_of_messages(11).send().await;
    assert_eq!(code(eleven), "InvalidParameterValue");
}

#[tokio::test]
async fn the_visibility_timeout_of_a_receive_goes_before_the_one_of_the_queue() {
    let sqs = Sqs::start().await;
    sqs.send("hello").await;
    let request = sqs.client.receive_message().queue_url(&sqs.url).visibility_timeout(5);
    assert_eq!(request.send().await.unwrap().messages().len(), 1);
    sqs.emulator.advance(Duration::from_secs(5));
    assert_eq!(sqs.receive().await.len(), 1);
}

#[tokio::test]
async fn a_receive_without_hiding_delivers_each_message_once() {
    let sqs = Sqs::start().await;
    sqs.send_many(2).await;
    let request = sqs.client.receive_message().queue_url(&sqs.url).max_number_of_messages(10);
    let received = request.visibility_timeout(0).send().await.unwrap();
    assert_eq!(bodies(received.messages()), ["message 0", "message 1"]);
    assert_eq!(sqs.emulator.counts("work").visible, 2);
}

#[tokio::test]
async fn a_deleted_message_never_comes_back_and_may_be_deleted_again() {
    let sqs = Sqs::start().await;
    sqs.send("hello").await;
    let received = sqs.receive().await;
    sqs.delete(&received[0]).await;
    sqs.delete(&received[0]).await;
    sqs.emulator.advance(VISIBILITY);
    assert!(sqs.receive().await.is_empty());
    assert_eq!(sqs.emulator.stats().queues["work"].deleted, 1);
}

#[tokio::test]
async fn the_handle_of_an_older_delivery_deletes_nothing() {
    let sqs = Sqs::start().await;
    sqs.send("hello").await;
    let first = sqs.receive().await;
    sqs.emulator.advance(VISIBILITY);
    let second = sqs.receive().await;
    sqs.delete(&first[0]).await;
    assert_eq!(sqs.emulator.counts("work").in_flight, 1);
    sqs.delete(&second[0]).await;
    assert_eq!(sqs.emulator.counts("work").in_flight, 0);
}

#[tokio::test]
async fn a_made_up_receipt_handle_is_refused() {
    let sqs = Sqs::start().await;
    let delete = sqs.client.delete_message().queue_url(&sqs.url).receipt_handle("made-up").send().await;
    assert_eq!(code(delete), "ReceiptHandleIsInvalid");
}

#[tokio::test]
async fn visibility_can_be_extended_and_ended_early() {
    let sqs = Sqs::start().await;
    sqs.send("hello").await;
    let received = sqs.receive().await;
    let change = |seconds| {
        let handle = received[0].receipt_handle().unwrap();
        let request = sqs.client.change_message_visibility().queue_url(&sqs.url);
        request.receipt_handle(handle).visibility_timeout(seconds).send()
    };
    change(100).await.unwrap();
    sqs.emulator.advance(Duration::from_mins(1));
    assert!(sqs.receive().await.is_empty());
    change(0).await.unwrap();
    assert_eq!(sqs.emulator.counts("work").visible, 1);
    assert_eq!(code(change(10).await), "AWS.SimpleQueueService.MessageNotInflight");
}

#[tokio::test]
async fn visibility_beyond_twelve_hours_from_the_receipt_is_refused() {
    let sqs = Sqs::start().await;
    sqs.send("hello").await;
    let received = sqs.receive().await;
    let change = |seconds| {
        let handle = received[0].receipt_handle().unwrap();
        let request = sqs.client.change_message_visibility().queue_url(&sqs.url);
        request.receipt_handle(handle).visibility_timeout(seconds).send()
    };
    change(43_000).await.unwrap();
    sqs.emulator.advance(Duration::from_secs(1_000));
    assert_eq!(code(change(43_000).await), "InvalidParameterValue");
    assert_eq!(code(change(43_201).await), "InvalidParameterValue");
}

#[tokio::test]
async fn a_delayed_message_shows_when_its_delay_ends() {
    let sqs = Sqs::with(QueueSettings::new("work").delay(Duration::from_secs(20))).await;
    sqs.send("by the queue").await;
    let own = sqs.client.send_message().queue_url(&sqs.url).message_body("by itself");
    own.delay_seconds(0).send().await.unwrap();
    assert_eq!(bodies(&sqs.receive().await), ["by itself"]);
    assert_eq!(sqs.emulator.counts("work"), QueueCounts { visible: 0, in_flight: 1, delayed: 1 });
    sqs.emulator.advance(Duration::from_secs(20));
    assert_eq!(bodies(&sqs.receive().await), ["by the queue"]);
}

#[tokio::test]
async fn a_message_is_gone_at_the_end_of_its_retention() {
    let mut settings = QueueSettings::new("work");
    settings.retention = Duration::from_mins(1);
    let sqs = Sqs::with(settings).await;
    sqs.send("hello").await;
    sqs.emulator.advance(Duration::from_mins(1));
    assert!(sqs.receive().await.is_empty());
    assert_eq!(sqs.emulator.stats().queues["work"].expired, 1);
}

#[tokio::test]
async fn a_long_poll_ends_with_the_message_that_arrives() {
    let sqs = Sqs::start().await;
    let poll = sqs.client.receive_message().queue_url(&sqs.url).wait_time_seconds(20).send();
    let (answer, _) = tokio::join!(poll, sqs.send("hello"));
    assert_eq!(bodies(answer.unwrap().messages()), ["hello"]);
}

#[tokio::test]
async fn a_long_poll_ends_with_the_hidden_message_that_shows() {
    let sqs = Sqs::start().await;
    sqs.send("hello").await;
    sqs.receive().await;
    let poll = sqs.client.receive_message().queue_url(&sqs.url).wait_time_seconds(20).send();
    let (answer, ()) = tokio::join!(poll, async { sqs.emulator.advance(VISIBILITY) });
    assert_eq!(bodies(answer.unwrap().messages()), ["hello"]);
}

#[tokio::test]
async fn a_long_poll_without_messages_ends_with_its_time() {
    let sqs = Sqs::start().await;
    let poll = sqs.client.receive_message().queue_url(&sqs.url).wait_time_seconds(20).send();
    let (answer, ()) = tokio::join!(poll, async {
        // The poll has to be there before its time passes.
        while !sqs.emulator.stats().calls.contains_key("ReceiveMessage") {
            tokio::task::yield_now().await;
        }
        sqs.emulator.advance(Duration::from_secs(20));
    });
    assert!(answer.unwrap().messages().is_empty());
}

#[tokio::test]
async fn bodies_that_sqs_does_not_carry_are_refused() {
    let sqs = Sqs::start().await;
    let send = |body: String| sqs.client.send_message().queue_url(&sqs.url).message_body(body).send();
    assert_eq!(code(send(String::new()).await), "MissingParameter");
    assert_eq!(code(send("nul \u{0}".to_owned()).await), "InvalidMessageContents");
    assert_eq!(code(send("x".repeat(1_048_577)).await), "InvalidParameterValue");
    send("x".repeat(1_048_576)).await.unwrap();
    send("tab \t, line \n, \u{1F600}".to_owned()).await.unwrap();
}
