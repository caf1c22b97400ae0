//! The rules of batch requests.

use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry,
};

use super::{Sqs, code};

fn entry(id: &str, body: &str) -> SendMessageBatchRequestEntry {
    SendMessageBatchRequestEntry::builder().id(id).message_body(body).build().unwrap()
}

async fn refused(sqs: &Sqs, entries: Vec<SendMessageBatchRequestEntry>) -> String {
    let batch = sqs.client.send_message_batch().queue_url(&sqs.url).set_entries(Some(entries)).send().await;
    assert!(sqs.emulator.messages("work").is_empty());
    code(batch)
}

#[tokio::test]
async fn a_batch_is_refused_as_a_whole_for_its_count_or_its_ids() {
    let sqs = Sqs::start().await;
    let eleven = (0..11).map(|number| entry(&number.to_string(), "x")).collect();
    assert_eq!(refused(&sqs, Vec::new()).await, "AWS.SimpleQueueService.EmptyBatchRequest");
    assert_eq!(refused(&sqs, eleven).await, "AWS.SimpleQueueService.TooManyEntriesInBatchRequest");
    let twice = vec![entry("same", "x"), entry("same", "y")];
    assert_eq!(refused(&sqs, twice).await, "AWS.SimpleQueueService.BatchEntryIdsNotDistinct");
    let colon = vec![entry("7:contact", "x")];
    assert_eq!(refused(&sqs, colon).await, "AWS.SimpleQueueService.InvalidBatchEntryId");
    let long = vec![entry(&"i".repeat(81), "x")];
    assert_eq!(refused(&sqs, long).await, "AWS.SimpleQueueService.InvalidBatchEntryId");
}

#[tokio::test]
async fn the_bodies_and_attributes_of_a_batch_share_one_size_limit() {
    let sqs = Sqs::start().await;
    let body = "x".repeat(105_000);
    let ten = (0..10).map(|number| entry(&number.to_string(), &body)).collect();
    assert_eq!(refused(&sqs, ten).await, "AWS.SimpleQueueService.BatchRequestTooLong");
    let exactly = (0..2).map(|number| entry(&number.to_string(), &"x".repeat(524_288))).collect();
    let batch = sqs.client.send_message_batch().queue_url(&sqs.url).set_entries(Some(exactly));
    assert_eq!(batch.send().await.unwrap().successful().len(), 2);
}

#[tokio::test]
async fn a_bad_entry_fails_alone() {
    let sqs = Sqs::start().await;
    let late = SendMessageBatchRequestEntry::builder().id("late").message_body("x").delay_seconds(901);
    let batch = sqs.client.send_message_batch().queue_url(&sqs.url);
    let answer = batch
        .entries(entry("good", "x"))
        .entries(entry("bad", "\u{1}"))
        .entries(late.build().unwrap())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.successful()[0].id(), "good");
    let failed: Vec<_> = answer.failed().iter().map(|entry| (entry.id(), entry.code(), entry.sender_fault())).collect();
    assert_eq!(failed, [("bad", "InvalidMessageContents", true), ("late", "InvalidParameterValue", true)]);
    assert_eq!(sqs.emulator.counts("work").visible, 1);
}

#[tokio::test]
async fn a_delete_batch_names_the_handles_that_are_not_valid() {
    let sqs = Sqs::start().await;
    sqs.send("x").await;
    let received = sqs.receive().await;
    let delete = |id: &str, handle: &str| {
        DeleteMessageBatchRequestEntry::builder().id(id).receipt_handle(handle).build().unwrap()
    };
    let batch = sqs.client.delete_message_batch().queue_url(&sqs.url);
    let good = received[0].receipt_handle().unwrap();
    let answer = batch.entries(delete("a", good)).entries(delete("b", "made-up")).send().await.unwrap();
    assert_eq!(answer.successful()[0].id(), "a");
    assert_eq!(answer.failed()[0].code(), "ReceiptHandleIsInvalid");
    assert!(sqs.emulator.messages("work").is_empty());
}

#[tokio::test]
async fn a_visibility_batch_shows_messages_again() {
    let sqs = Sqs::start().await;
    sqs.send_many(2).await;
    let received = sqs.receive().await;
    let mut batch = sqs.client.change_message_visibility_batch().queue_url(&sqs.url);
    for (position, message) in received.iter().enumerate() {
        let builder = ChangeMessageVisibilityBatchRequestEntry::builder().id(position.to_string());
        let handle = message.receipt_handle().unwrap();
        batch = batch.entries(builder.receipt_handle(handle).visibility_timeout(0).build().unwrap());
    }
    assert_eq!(batch.send().await.unwrap().successful().len(), 2);
    assert_eq!(sqs.receive().await.len(), 2);
}
