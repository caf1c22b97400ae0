//! The event source mapping, driven step by step.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use serde_json::json;

use super::{Sqs, VISIBILITY};
use crate::event_source::{
    EventSourceMapping, Invocation, MappingError, PollSummary, Verdict, drain, judge, poll_once,
};
use crate::{Fault, FaultKind, QueueSettings};

fn mapping(sqs: &Sqs) -> EventSourceMapping {
    EventSourceMapping::new(&sqs.url)
}

async fn all_good(_event: SqsEvent, _invocation: Invocation) -> anyhow::Result<SqsBatchResponse> {
    Ok(SqsBatchResponse::default())
}

/// A function that reports the ids given.
fn reporting<I: IntoIterator<Item = String>>(ids: I) -> SqsBatchResponse {
    let mut response = SqsBatchResponse::default();
    response.set_failures(ids);
    response
}

#[tokio::test]
async fn a_batch_that_succeeds_is_deleted() {
    let sqs = Sqs::start().await;
    sqs.send_many(3).await;
    let summary = poll_once(&sqs.client, &mapping(&sqs), &all_good).await.unwrap();
    let expected = PollSummary { received: 3, invoked: 1, deleted: 3, ..PollSummary::default() };
    assert_eq!(summary, expected);
    assert!(sqs.emulator.messages("work").is_empty());
    let nothing = poll_once(&sqs.client, &mapping(&sqs), &all_good).await.unwrap();
    assert_eq!(nothing, PollSummary::default());
}

#[tokio::test]
async fn a_record_carries_everything_that_a_function_may_read() {
    let sqs = Sqs::start().await;
    let attribute = aws_sdk_sqs::types::MessageAttributeValue::builder().data_type("Binary");
    let attribute = attribute.binary_value(aws_sdk_sqs::primitives::Blob::new([1, 2])).build().unwrap();
    let request = sqs.client.send_message().queue_url(&sqs.url).message_body("hello").message_group_id("g");
    let sent = request.message_attributes("raw", attribute).send().await.unwrap();
    let seen = Mutex::new(None);
    let handler = |event: SqsEvent, invocation: Invocation| {
        *seen.lock().unwrap() = Some((event.records[0].clone(), invocation.remaining()));
        async { Ok(SqsBatchResponse::default()) }
    };
    poll_once(&sqs.client, &mapping(&sqs), &handler).await.unwrap();
    let (record, remaining) = seen.lock().unwrap().take().unwrap();
    assert_eq!(record.message_id, sent.message_id);
    assert_eq!(record.body.as_deref(), Some("hello"));
    assert_eq!(record.md5_of_body, sent.md5_of_message_body);
    assert_eq!(record.md5_of_message_attributes, sent.md5_of_message_attributes);
    assert!(record.receipt_handle.is_some());
    assert_eq!(record.attributes["ApproximateReceiveCount"], "1");
    assert_eq!(record.attributes["MessageGroupId"], "g");
    assert_eq!(record.message_attributes["raw"].binary_value.as_ref().unwrap().0, [1, 2]);
    assert_eq!(record.event_source.as_deref(), Some("aws:sqs"));
    assert_eq!(record.event_source_arn.as_deref(), Some("arn:aws:sqs:eu-west-1:000000000000:work"));
    assert!(remaining > Duration::ZERO);
}

#[tokio::test]
async fn a_reported_message_alone_comes_back_when_its_visibility_ends() {
    let sqs = Sqs::start().await;
    sqs.send_many(3).await;
    let handler = async |event: SqsEvent, _: Invocation| Ok(reporting(event.records[1].message_id.clone()));
    let summary = poll_once(&sqs.client, &mapping(&sqs), &handler).await.unwrap();
    assert_eq!((summary.deleted, summary.failed), (2, 1));
    assert_eq!(sqs.emulator.counts("work").in_flight, 1);
    sqs.emulator.advance(VISIBILITY);
    assert_eq!(sqs.emulator.messages("work")[0].body, "message 1");
    assert_eq!(poll_once(&sqs.client, &mapping(&sqs), &all_good).await.unwrap().deleted, 1);
}

#[tokio::test]
async fn an_unknown_or_empty_id_returns_the_whole_batch() {
    for id in ["", "not-of-this-batch"] {
        let sqs = Sqs::start().await;
        sqs.send_many(3).await;
        let handler = async |_: SqsEvent, _: Invocation| Ok(reporting([id.to_owned()]));
        let summary = poll_once(&sqs.client, &mapping(&sqs), &handler).await.unwrap();
        assert_eq!((summary.deleted, summary.failed), (0, 3), "{id:?}");
    }
}

#[tokio::test]
async fn an_error_a_panic_or_a_timeout_returns_the_whole_batch() {
    let sqs = Sqs::start().await;
    sqs.send_many(2).await;
    let failing = async |_: SqsEvent, _: Invocation| anyhow::bail!("no");
    assert_eq!(poll_once(&sqs.client, &mapping(&sqs), &failing).await.unwrap().failed, 2);
    sqs.emulator.advance(VISIBILITY);
    let panicking = async |_: SqsEvent, _: Invocation| -> anyhow::Result<SqsBatchResponse> { panic!("on purpose") };
    assert_eq!(poll_once(&sqs.client, &mapping(&sqs), &panicking).await.unwrap().failed, 2);
    sqs.emulator.advance(VISIBILITY);
    let endless = async |_: SqsEvent, _: Invocation| std::future::pending().await;
    let impatient = EventSourceMapping { function_timeout: Duration::ZERO, ..mapping(&sqs) };
    assert_eq!(poll_once(&sqs.client, &impatient, &endless).await.unwrap().failed, 2);
    sqs.emulator.advance(VISIBILITY);
    assert_eq!(sqs.emulator.counts("work").visible, 2);
}

#[tokio::test]
async fn without_the_report_an_answer_deletes_everything() {
    let sqs = Sqs::start().await;
    sqs.send_many(2).await;
    let handler = async |event: SqsEvent, _: Invocation| Ok(reporting(event.records[0].message_id.clone()));
    let silent = EventSourceMapping { report_batch_item_failures: false, ..mapping(&sqs) };
    let summary = poll_once(&sqs.client, &silent, &handler).await.unwrap();
    assert_eq!((summary.deleted, summary.failed), (2, 0));
}

#[test]
fn an_answer_is_read_by_the_letter_of_its_json() {
    let batch = BTreeSet::from(["a", "b", "c"]);
    let failures = |list: serde_json::Value| judge(&json!({ "batchItemFailures": list }), &batch);
    let only_b = Verdict::DeleteExcept(BTreeSet::from(["b".to_owned()]));
    assert_eq!(failures(json!([{"itemIdentifier": "b"}])), only_b);
    assert_eq!(failures(json!([])), Verdict::DeleteAll);
    assert_eq!(failures(json!(null)), Verdict::DeleteAll);
    assert_eq!(judge(&json!(null), &batch), Verdict::DeleteAll);
    assert_eq!(judge(&json!({}), &batch), Verdict::DeleteAll);
    assert_eq!(judge(&json!({"batch_item_failures": [{"itemIdentifier": "b"}]}), &batch), Verdict::DeleteAll);
    assert_eq!(failures(json!([{"itemIdentifier": ""}])), Verdict::ReturnAll);
    assert_eq!(failures(json!([{"itemIdentifier": null}])), Verdict::ReturnAll);
    assert_eq!(failures(json!([{"itemIdentifier": "z"}])), Verdict::ReturnAll);
    assert_eq!(failures(json!([{"messageId": "b"}])), Verdict::ReturnAll);
    assert_eq!(failures(json!("b")), Verdict::ReturnAll);
    assert_eq!(judge(&json!("done"), &batch), Verdict::ReturnAll);
}

#[tokio::test]
async fn a_large_batch_is_collected_from_many_receives() {
    let sqs = Sqs::start().await;
    sqs.send_many(137).await;
    let mapping = EventSourceMapping { batch_size: 100, batching_window: Duration::from_secs(1), ..mapping(&sqs) };
    let first = poll_once(&sqs.client, &mapping, &all_good).await.unwrap();
    assert_eq!((first.received, first.invoked), (100, 1));
    let rest = drain(&sqs.client, &mapping, &all_good).await.unwrap();
    assert_eq!((rest.received, rest.deleted), (37, 37));
}

#[tokio::test]
async fn a_batch_ends_at_six_megabytes() {
    let sqs = Sqs::start().await;
    for _ in 0..8 {
        sqs.send(&"x".repeat(1_000_000)).await;
    }
    let sizes = Mutex::new(Vec::new());
    let handler = |event: SqsEvent, _: Invocation| {
        sizes.lock().unwrap().push(event.records.len());
        async { Ok(SqsBatchResponse::default()) }
    };
    let summary = drain(&sqs.client, &mapping(&sqs), &handler).await.unwrap();
    assert_eq!((summary.received, summary.deleted), (8, 8));
    assert_eq!(*sizes.lock().unwrap(), [6, 2]);
}

#[tokio::test]
async fn a_drain_reaches_the_dead_letter_queue_over_rounds() {
    let settings = QueueSettings::new("work").visibility_timeout(VISIBILITY).dead_letter("dead", 2);
    let sqs = Sqs::with(settings).await;
    sqs.send("poison").await;
    let failing = async |_: SqsEvent, _: Invocation| anyhow::bail!("no");
    for _ in 0..3 {
        drain(&sqs.client, &mapping(&sqs), &failing).await.unwrap();
        sqs.emulator.advance(VISIBILITY);
    }
    assert_eq!(sqs.emulator.messages("dead").len(), 1);
}

#[tokio::test]
async fn a_delete_that_fails_lets_the_message_come_back() {
    let sqs = Sqs::start().await;
    sqs.send_many(2).await;
    let fault = Fault::new(FaultKind::EntryFailure { code: "InternalError".to_owned(), sender_fault: false });
    sqs.emulator.add_fault(fault.on_action("DeleteMessageBatch").next(1));
    let summary = poll_once(&sqs.client, &mapping(&sqs), &all_good).await.unwrap();
    assert_eq!((summary.deleted, summary.undeleted, summary.failed), (1, 1, 0));
    sqs.emulator.advance(VISIBILITY);
    assert_eq!(poll_once(&sqs.client, &mapping(&sqs), &all_good).await.unwrap().deleted, 1);
}

#[tokio::test]
async fn a_receive_that_fails_is_counted() {
    let sqs = Sqs::start().await;
    sqs.send("x").await;
    sqs.emulator.add_fault(Fault::new(FaultKind::Unavailable).on_action("ReceiveMessage").next(1));
    let summary = poll_once(&sqs.client, &mapping(&sqs), &all_good).await.unwrap();
    assert_eq!(summary, PollSummary { receive_errors: 1, ..PollSummary::default() });
}

#[tokio::test]
async fn settings_that_lambda_refuses_are_named() {
    let plain = EventSourceMapping::new("http://127.0.0.1:1/000000000000/work");
    let with = |change: fn(&mut EventSourceMapping)| {
        let mut mapping = plain.clone();
        change(&mut mapping);
        mapping.validate()
    };
    let too_short = with(|mapping| mapping.batch_size = 11).unwrap_err();
    assert!(matches!(too_short, MappingError::WindowTooShort { batch_size: 11, .. }));
    assert!(matches!(with(|mapping| mapping.batch_size = 0), Err(MappingError::BatchSize(0))));
    assert!(matches!(with(|mapping| mapping.batch_size = 10_001), Err(MappingError::BatchSize(_))));
    let long = with(|mapping| mapping.batching_window = Duration::from_secs(301));
    assert!(matches!(long, Err(MappingError::WindowTooLong(_))));
    assert!(matches!(with(|mapping| mapping.maximum_concurrency = 0), Err(MappingError::MaximumConcurrency(0))));
    let window = with(|mapping| {
        mapping.batch_size = 10_000;
        mapping.batching_window = Duration::from_secs(1);
    });
    assert!(window.is_ok());
}
