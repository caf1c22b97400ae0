//! Message attributes and what SQS says about a message.

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeName as System, MessageSystemAttributeNameForSends,
    MessageSystemAttributeValue,
};

use super::{Sqs, code};

fn text(data_type: &str, value: &str) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type(data_type).string_value(value).build().unwrap()
}

fn bytes(value: &[u8]) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type("Binary").binary_value(Blob::new(value)).build().unwrap()
}

#[tokio::test]
async fn attributes_of_all_types_come_back_with_their_checksum() {
    let sqs = Sqs::start().await;
    let request = sqs.client.send_message().queue_url(&sqs.url).message_body("x");
    let sent = request
        .message_attributes("kind", text("String", "contact"))
        .message_attributes("version", text("Number.int", "1"))
        .message_attributes("raw", bytes(&[0, 255, 7]))
        .send()
        .await
        .unwrap();
    let received = sqs.receive().await;
    let attributes = received[0].message_attributes().unwrap();
    assert_eq!(attributes["kind"].string_value(), Some("contact"));
    assert_eq!(attributes["version"].data_type(), "Number.int");
    assert_eq!(attributes["raw"].binary_value().unwrap().as_ref(), [0, 255, 7]);
    assert_eq!(received[0].md5_of_message_attributes(), sent.md5_of_message_attributes());
    // Computed apart from this code, by hashlib over the documented encoding.
    assert_eq!(sent.md5_of_message_attributes(), Some("e56a3561b1944c3c48d43de0ce1b6809"));
}

#[tokio::test]
async fn a_receiver_gets_the_attributes_that_it_asks_for() {
    let sqs = Sqs::start().await;
    let request = sqs.client.send_message().queue_url(&sqs.url).message_body("x");
    let request = request.message_attributes("trace.parent", text("String", "a"));
    request.message_attributes("other", text("String", "b")).send().await.unwrap();
    let receive = sqs.client.receive_message().queue_url(&sqs.url).visibility_timeout(0);
    let none = receive.clone().send().await.unwrap();
    assert!(none.messages()[0].message_attributes().is_none());
    let by_prefix = receive.clone().message_attribute_names("trace.*").send().await.unwrap();
    assert_eq!(by_prefix.messages()[0].message_attributes().unwrap().len(), 1);
    let by_name = receive.message_attribute_names("other").send().await.unwrap();
    assert!(by_name.messages()[0].message_attributes().unwrap().contains_key("other"));
}

#[tokio::test]
async fn attributes_that_sqs_does_not_carry_are_refused() {
    let sqs = Sqs::start().await;
    let send = |name: &str, value| {
        let request = sqs.client.send_message().queue_url(&sqs.url).message_body("x");
        request.message_attributes(name, value).send()
    };
    assert_eq!(code(send("a", text("Date", "x")).await), "InvalidParameterValue");
    assert_eq!(code(send("a", text("String", "")).await), "InvalidParameterValue");
    assert_eq!(code(send("a", text("Number", "one")).await), "InvalidParameterValue");
    assert_eq!(code(send("a b", text("String", "x")).await), "InvalidParameterValue");
    assert_eq!(code(send("AWS.a", text("String", "x")).await), "InvalidParameterValue");
    assert_eq!(code(send("a", text("String", "\u{1}")).await), "InvalidMessageContents");
}

#[tokio::test]
async fn an_eleventh_attribute_is_refused() {
    let sqs = Sqs::start().await;
    let mut request = sqs.client.send_message().queue_url(&sqs.url).message_body("x");
    for number in 0..11 {
        request = request.message_attributes(format!("a{number}"), text("String", "x"));
    }
    assert_eq!(code(request.send().await), "InvalidParameterValue");
}

#[tokio::test]
async fn group_and_trace_header_travel_with_the_message() {
    let sqs = Sqs::start().await;
    let trace = MessageSystemAttributeValue::builder().data_type("String").string_value("Root=1-abc");
    let request = sqs.client.send_message().queue_url(&sqs.url).message_body("x").message_group_id("brand-a");
    request
        .message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, trace.build().unwrap())
        .send()
        .await
        .unwrap();
    let received = sqs.receive().await;
    let attributes = received[0].attributes().unwrap();
    assert_eq!(attributes[&System::MessageGroupId], "brand-a");
    assert_eq!(attributes[&System::AwsTraceHeader], "Root=1-abc");
    assert!(attributes.contains_key(&System::SenderId));
    let view = &sqs.emulator.messages("work")[0];
    assert_eq!(view.message_group_id.as_deref(), Some("brand-a"));
}

#[tokio::test]
async fn a_deduplication_id_or_an_ill_formed_group_is_refused_on_a_standard_queue() {
    let sqs = Sqs::start().await;
    let send = || sqs.client.send_message().queue_url(&sqs.url).message_body("x");
    assert_eq!(code(send().message_deduplication_id("d").send().await), "InvalidParameterValue");
    assert_eq!(code(send().message_group_id("two words").send().await), "InvalidParameterValue");
    assert_eq!(code(send().message_group_id("g".repeat(129)).send().await), "InvalidParameterValue");
}
