//! Making, finding and changing queues.

use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName as Attribute;

use super::{Sqs, code};
use crate::{QueueSettings, parse_queue_argument};

#[tokio::test]
async fn making_a_queue_twice_is_harmless_unless_it_differs() {
    let sqs = Sqs::start().await;
    let create = |seconds: &str| {
        let request = sqs.client.create_queue().queue_name("other");
        request.attributes(Attribute::VisibilityTimeout, seconds).send()
    };
    let url = create("60").await.unwrap().queue_url.unwrap();
    assert_eq!(url, sqs.emulator.queue_url("other"));
    assert_eq!(create("60").await.unwrap().queue_url.unwrap(), url);
    let plain = sqs.client.create_queue().queue_name("other").send().await;
    assert_eq!(plain.unwrap().queue_url.unwrap(), url);
    assert_eq!(code(create("61").await), "QueueAlreadyExists");
}

#[tokio::test]
async fn an_unknown_queue_is_refused_by_name_and_by_url() {
    let sqs = Sqs::start().await;
    let by_name = sqs.client.get_queue_url().queue_name("nowhere").send().await.unwrap_err();
    assert!(by_name.into_service_error().is_queue_does_not_exist());
    let url = sqs.emulator.queue_url("nowhere");
    let by_url = sqs.client.send_message().queue_url(url).message_body("x").send().await.unwrap_err();
    assert!(by_url.into_service_error().is_queue_does_not_exist());
}

#[tokio::test]
async fn queues_are_listed_by_prefix() {
    let sqs = Sqs::start().await;
    sqs.emulator.create_queue(QueueSettings::new("other")).unwrap();
    let listed = sqs.client.list_queues().queue_name_prefix("wo").send().await.unwrap();
    assert_eq!(listed.queue_urls(), [sqs.url.as_str()]);
    let none = sqs.client.list_queues().queue_name_prefix("zz").send().await.unwrap();
    assert!(none.queue_urls().is_empty());
}

#[tokio::test]
async fn attributes_tell_settings_and_counts() {
    let sqs = Sqs::start().await;
    sqs.send_many(3).await;
    sqs.client.receive_message().queue_url(&sqs.url).send().await.unwrap();
    let answer = sqs.client.get_queue_attributes().queue_url(&sqs.url).attribute_names(Attribute::All);
    let answer = answer.send().await.unwrap();
    let attributes = answer.attributes().unwrap();
    assert_eq!(attributes[&Attribute::ApproximateNumberOfMessages], "2");
    assert_eq!(attributes[&Attribute::ApproximateNumberOfMessagesNotVisible], "1");
    assert_eq!(attributes[&Attribute::ApproximateNumberOfMessagesDelayed], "0");
    assert_eq!(attributes[&Attribute::VisibilityTimeout], "30");
    assert_eq!(attributes[&Attribute::QueueArn], "arn:aws:sqs:eu-west-1:000000000000:work");
}

#[tokio::test]
async fn attributes_can_be_changed_within_their_ranges() {
    let sqs = Sqs::start().await;
    let set = |name: Attribute, value: &str| {
        sqs.client.set_queue_attributes().queue_url(&sqs.url).attributes(name, value).send()
    };
    set(Attribute::DelaySeconds, "5").await.unwrap();
    sqs.send("x").await;
    assert_eq!(sqs.emulator.counts("work").delayed, 1);
    assert_eq!(code(set(Attribute::DelaySeconds, "901").await), "InvalidAttributeValue");
    assert_eq!(code(set("Colour".into(), "red").await), "InvalidAttributeName");
    let missing = r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:000000000000:none","maxReceiveCount":3}"#;
    assert_eq!(code(set(Attribute::RedrivePolicy, missing).await), "InvalidParameterValue");
}

#[tokio::test]
async fn a_fifo_queue_is_refused_in_clear_words() {
    let sqs = Sqs::start().await;
    let by_name = sqs.client.create_queue().queue_name("orders.fifo").send().await.unwrap_err();
    assert!(by_name.into_service_error().is_unsupported_operation());
    let by_attribute = sqs.client.create_queue().queue_name("orders").attributes(Attribute::FifoQueue, "true");
    assert!(by_attribute.send().await.unwrap_err().into_service_error().is_unsupported_operation());
    assert_eq!(code(sqs.client.create_queue().queue_name("a b").send().await), "InvalidParameterValue");
}

#[tokio::test]
async fn a_purge_empties_the_queue_at_most_once_a_minute() {
    let sqs = Sqs::start().await;
    sqs.send_many(2).await;
    let purge = || sqs.client.purge_queue().queue_url(&sqs.url).send();
    purge().await.unwrap();
    assert!(sqs.emulator.messages("work").is_empty());
    assert_eq!(code(purge().await), "AWS.SimpleQueueService.PurgeQueueInProgress");
    sqs.emulator.advance(Duration::from_mins(1));
    purge().await.unwrap();
}

#[tokio::test]
async fn a_deleted_queue_is_gone() {
    let sqs = Sqs::start().await;
    sqs.client.delete_queue().queue_url(&sqs.url).send().await.unwrap();
    let send = sqs.client.send_message().queue_url(&sqs.url).message_body("x").send().await;
    assert_eq!(code(send), "AWS.SimpleQueueService.NonExistentQueue");
}

#[test]
fn a_queue_argument_sets_what_it_names() {
    let settings = parse_queue_argument("bulk:max-receives=7,visibility=60,dead-letter=bulk-dead").unwrap();
    let expected = QueueSettings::new("bulk").visibility_timeout(Duration::from_mins(1));
    assert_eq!(settings, expected.dead_letter("bulk-dead", 7));
    assert!(parse_queue_argument("bulk:colour=red").unwrap_err().to_string().contains("colour"));
}
