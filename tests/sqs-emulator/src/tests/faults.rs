//! Failures on demand.

use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchOutput;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use std::time::Duration;

use super::{Sqs, bodies, code};
use crate::{Fault, FaultKind};

async fn send_batch(sqs: &Sqs, entries: usize) -> SendMessageBatchOutput {
    let mut batch = sqs.client.send_message_batch().queue_url(&sqs.url);
    for number in 0..entries {
        let entry = SendMessageBatchRequestEntry::builder().id(format!("e{number}")).message_body("x");
        batch = batch.entries(entry.build().unwrap());
    }
    batch.send().await.unwrap()
}

fn entry_failure(code: &str, sender_fault: bool) -> Fault {
    Fault::new(FaultKind::EntryFailure { code: code.to_owned(), sender_fault })
}

#[tokio::test]
async fn entries_fail_or_are_left_out_as_asked() {
    let sqs = Sqs::start().await;
    sqs.emulator.add_fault(entry_failure("InternalError", false).at_positions([7]).next(1));
    sqs.emulator.add_fault(entry_failure("InvalidMessageContents", true).at_positions([8]).next(1));
    sqs.emulator.add_fault(Fault::new(FaultKind::EntryOmitted { effect: false }).at_positions([9]).next(1));
    let answer = send_batch(&sqs, 10).await;
    assert_eq!(answer.successful().len(), 7);
    let failed: Vec<_> = answer.failed().iter().map(|entry| (entry.id(), entry.code(), entry.sender_fault())).collect();
    assert_eq!(failed, [("e7", "InternalError", false), ("e8", "InvalidMessageContents", true)]);
    assert_eq!(sqs.emulator.counts("work").visible, 7);
    assert_eq!(send_batch(&sqs, 10).await.successful().len(), 10);
}

#[tokio::test]
async fn an_entry_left_out_of_the_answer_may_have_been_stored() {
    let sqs = Sqs::start().await;
    sqs.emulator.add_fault(Fault::new(FaultKind::EntryOmitted { effect: true }).next(1));
    assert_eq!(send_batch(&sqs, 2).await.successful().len(), 1);
    assert_eq!(sqs.emulator.history("work").len(), 2);
}

#[tokio::test]
async fn a_share_of_entries_fails_alike_for_the_same_seed() {
    let failures = async |seed| {
        let sqs = Sqs::start().await;
        sqs.emulator.add_fault(entry_failure("InternalError", false).share(0.5, seed));
        let mut failed = Vec::new();
        for _ in 0..4 {
            let answer = send_batch(&sqs, 10).await;
            failed.push(answer.failed().iter().map(|entry| entry.id().to_owned()).collect::<Vec<_>>());
        }
        failed
    };
    let first = failures(7).await;
    assert_eq!(first, failures(7).await);
    assert_ne!(first, failures(8).await);
    assert!((1..40).contains(&first.concat().len()));
}

#[tokio::test]
async fn a_duplicate_is_delivered_and_deleted_on_its_own() {
    let sqs = Sqs::start().await;
    sqs.emulator.add_fault(Fault::new(FaultKind::DuplicateDelivery).next(1));
    sqs.send("hello").await;
    let first = sqs.receive().await;
    sqs.delete(&first[0]).await;
    let second = sqs.receive().await;
    assert_eq!(second[0].message_id(), first[0].message_id());
    sqs.delete(&second[0]).await;
    assert!(sqs.emulator.messages("work").is_empty());
}

#[tokio::test]
async fn a_delayed_delivery_shows_later() {
    let sqs = Sqs::start().await;
    sqs.emulator.add_fault(Fault::new(FaultKind::DelayedDelivery { seconds: 40 }).next(1));
    sqs.send("late").await;
    sqs.send("at once").await;
    assert_eq!(bodies(&sqs.receive().await), ["at once"]);
    sqs.emulator.advance(Duration::from_secs(40));
    assert!(bodies(&sqs.receive().await).contains(&"late"));
}

#[tokio::test]
async fn an_unavailable_service_answers_503_without_effect() {
    let sqs = Sqs::start().await;
    sqs.emulator.add_fault(Fault::new(FaultKind::Unavailable).next(1));
    let send = sqs.client.send_message().queue_url(&sqs.url).message_body("x").send().await;
    assert_eq!(send.as_ref().unwrap_err().raw_response().unwrap().status().as_u16(), 503);
    assert_eq!(code(send), "ServiceUnavailable");
    assert!(sqs.emulator.messages("work").is_empty());
    sqs.send("x").await;
}

#[tokio::test]
async fn a_connection_cut_before_the_effect_stores_nothing() {
    let sqs = Sqs::start().await;
    sqs.emulator.add_fault(Fault::new(FaultKind::CutBeforeEffect).next(1));
    let send = sqs.client.send_message().queue_url(&sqs.url).message_body("x").send().await;
    assert!(send.unwrap_err().as_service_error().is_none());
    assert!(sqs.emulator.messages("work").is_empty());
}

#[tokio::test]
async fn a_connection_cut_after_the_effect_leaves_it() {
    let sqs = Sqs::start().await;
    sqs.emulator.add_fault(Fault::new(FaultKind::CutAfterEffect).next(1));
    let send = sqs.client.send_message().queue_url(&sqs.url).message_body("x").send().await;
    assert!(send.unwrap_err().as_service_error().is_none());
    assert_eq!(sqs.emulator.counts("work").visible, 1);
}

#[tokio::test]
async fn a_fault_stays_with_its_queue_and_action() {
    let sqs = Sqs::start().await;
    sqs.emulator.add_fault(Fault::new(FaultKind::Unavailable).on_queue("other"));
    sqs.emulator.add_fault(Fault::new(FaultKind::Unavailable).on_action("PurgeQueue"));
    sqs.send("x").await;
    assert_eq!(sqs.receive().await.len(), 1);
    assert_eq!(code(sqs.client.purge_queue().queue_url(&sqs.url).send().await), "ServiceUnavailable");
    sqs.emulator.clear_faults();
    sqs.client.purge_queue().queue_url(&sqs.url).send().await.unwrap();
}

#[tokio::test]
async fn the_last_handle_ends_the_emulator_with_its_connections() {
    let sqs = Sqs::start().await;
    sqs.send("x").await;
    let Sqs { emulator, client, url } = sqs;
    drop(emulator);
    assert!(client.send_message().queue_url(url).message_body("x").send().await.is_err());
}
