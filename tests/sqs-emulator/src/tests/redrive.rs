//! Dead-letter queues.

use aws_sdk_sqs::types::MessageSystemAttributeName as System;

use super::{Sqs, VISIBILITY, bodies};
use crate::QueueSettings;

async fn with_dead_letter_queue(max_receives: u32) -> Sqs {
    let settings = QueueSettings::new("work").visibility_timeout(VISIBILITY);
    Sqs::with(settings.dead_letter("dead", max_receives)).await
}

#[tokio::test]
async fn a_message_received_too_often_goes_to_the_dead_letter_queue() {
    let sqs = with_dead_letter_queue(2).await;
    sqs.send("poison").await;
    for _ in 0..2 {
        assert_eq!(sqs.receive().await.len(), 1);
        sqs.emulator.advance(VISIBILITY);
    }
    assert!(sqs.receive().await.is_empty());
    assert!(sqs.emulator.messages("work").is_empty());
    assert_eq!(sqs.emulator.stats().queues["work"].dead_lettered, 1);

    let dead = sqs.receive_from(&sqs.emulator.queue_url("dead")).await;
    assert_eq!(bodies(&dead), ["poison"]);
    let source = &dead[0].attributes().unwrap()[&System::DeadLetterQueueSourceArn];
    assert_eq!(source, "arn:aws:sqs:eu-west-1:000000000000:work");
}

#[tokio::test]
async fn a_poisoned_message_does_not_keep_the_others_back() {
    let sqs = with_dead_letter_queue(1).await;
    sqs.send("poison").await;
    sqs.receive().await;
    sqs.emulator.advance(VISIBILITY);
    sqs.send("good").await;
    assert_eq!(bodies(&sqs.receive().await), ["good"]);
}

#[tokio::test]
async fn without_its_dead_letter_queue_a_message_stays() {
    let sqs = with_dead_letter_queue(1).await;
    sqs.send("poison").await;
    sqs.client.delete_queue().queue_url(sqs.emulator.queue_url("dead")).send().await.unwrap();
    sqs.receive().await;
    sqs.emulator.advance(VISIBILITY);
    assert_eq!(bodies(&sqs.receive().await), ["poison"]);
}
