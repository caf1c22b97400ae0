//! The event source mapping, running until it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{Sqs, VISIBILITY};
use crate::QueueSettings;
use crate::event_source::{EventSourceMapping, Invocation, MappingError, PollSummary, run};

/// A mapping that runs in a task of its own.
struct Running {
    task: tokio::task::JoinHandle<Result<PollSummary, MappingError>>,
    stop: oneshot::Sender<()>,
}

impl Running {
    fn start<H, Answer>(sqs: &Sqs, mapping: EventSourceMapping, handler: H) -> Self
    where
        H: Fn(SqsEvent, Invocation) -> Answer + Send + Sync + 'static,
        Answer: Future<Output = anyhow::Result<SqsBatchResponse>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let until = async move {
            let _either = stopped.await;
        };
        let task = tokio::spawn(run(sqs.client.clone(), mapping, handler, until));
        Self { task, stop }
    }

    async fn stop(self) -> PollSummary {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn a_running_mapping_works_off_what_arrives() {
    let sqs = Sqs::start().await;
    let (seen, mut batches) = mpsc::unbounded_channel();
    let running = Running::start(&sqs, EventSourceMapping::new(&sqs.url), move |event: SqsEvent, _| {
        seen.send(event.records.len()).unwrap();
        async { Ok(SqsBatchResponse::default()) }
    });
    sqs.send_many(25).await;
    let mut received = 0;
    while received < 25 {
        received += batches.recv().await.unwrap();
    }
    let summary = running.stop().await;
    assert_eq!((summary.received, summary.deleted, summary.failed), (25, 25, 0));
    assert!(sqs.emulator.messages("work").is_empty());
}

#[tokio::test]
async fn no_message_is_received_while_no_slot_is_free() {
    let sqs = Sqs::start().await;
    sqs.send_many(9).await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let inside = Arc::new(AtomicUsize::new(0));
    let handler = {
        let (gate, inside) = (Arc::clone(&gate), Arc::clone(&inside));
        move |_: SqsEvent, _: Invocation| {
            let (gate, inside, started) = (Arc::clone(&gate), Arc::clone(&inside), started.clone());
            async move {
                assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                started.send(()).unwrap();
                gate.acquire().await.unwrap().forget();
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok(SqsBatchResponse::default())
            }
        }
    };
    let mapping = EventSourceMapping { batch_size: 3, maximum_concurrency: 2, ..EventSourceMapping::new(&sqs.url) };
    let running = Running::start(&sqs, mapping, handler);
    starts.recv().await.unwrap();
    starts.recv().await.unwrap();
    let counts = sqs.emulator.counts("work");
    assert_eq!((counts.visible, counts.in_flight), (3, 6));
    // Another receiver gets what waits.
    assert_eq!(sqs.receive().await.len(), 3);
    gate.add_permits(3);
    assert_eq!(running.stop().await.received, 6);
}

#[tokio::test]
async fn a_stop_lets_the_running_invocation_end() {
    let sqs = Sqs::start().await;
    sqs.send("x").await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let handler = {
        let gate = Arc::clone(&gate);
        move |_: SqsEvent, _: Invocation| {
            let (gate, started) = (Arc::clone(&gate), started.clone());
            async move {
                started.send(()).unwrap();
                gate.acquire().await.unwrap().forget();
                Ok(SqsBatchResponse::default())
            }
        }
    };
    let running = Running::start(&sqs, EventSourceMapping::new(&sqs.url), handler);
    starts.recv().await.unwrap();
    let (summary, ()) = tokio::join!(running.stop(), async { gate.add_permits(1) });
    assert_eq!((summary.received, summary.deleted), (1, 1));
}

#[tokio::test]
async fn a_window_gathers_messages_that_come_one_by_one() {
    let sqs = Sqs::start().await;
    let (seen, mut batches) = mpsc::unbounded_channel();
    let mapping = EventSourceMapping {
        batch_size: 30,
        batching_window: Duration::from_mins(1),
        ..EventSourceMapping::new(&sqs.url)
    };
    let running = Running::start(&sqs, mapping, move |event: SqsEvent, _| {
        seen.send(event.records.len()).unwrap();
        async { Ok(SqsBatchResponse::default()) }
    });
    sqs.send_many(30).await;
    assert_eq!(batches.recv().await, Some(30));
    assert_eq!(running.stop().await.invoked, 1);
}

#[tokio::test]
async fn a_stop_within_a_window_invokes_with_what_was_collected() {
    let sqs = Sqs::start().await;
    let mapping = EventSourceMapping {
        batch_size: 30,
        batching_window: Duration::from_mins(1),
        ..EventSourceMapping::new(&sqs.url)
    };
    sqs.send("x").await;
    let running = Running::start(&sqs, mapping, |_: SqsEvent, _: Invocation| async { Ok(SqsBatchResponse::default()) });
    while sqs.emulator.counts("work").in_flight == 0 {
        tokio::task::yield_now().await;
    }
    let summary = running.stop().await;
    assert_eq!((summary.received, summary.deleted), (1, 1));
}

#[tokio::test]
async fn a_queue_whose_messages_show_too_early_is_refused() {
    let sqs = Sqs::with(QueueSettings::new("work").visibility_timeout(VISIBILITY)).await;
    let slow = EventSourceMapping { function_timeout: VISIBILITY * 2, ..EventSourceMapping::new(&sqs.url) };
    let handler = async |_: SqsEvent, _: Invocation| Ok(SqsBatchResponse::default());
    let refused = run(sqs.client.clone(), slow, handler, std::future::pending()).await;
    assert!(matches!(refused, Err(MappingError::VisibilityTooShort { .. })));
    let nowhere = EventSourceMapping::new(sqs.emulator.queue_url("nowhere"));
    let refused = run(sqs.client.clone(), nowhere, handler, std::future::pending()).await;
    assert!(matches!(refused, Err(MappingError::QueueUnreadable(_))));
}
