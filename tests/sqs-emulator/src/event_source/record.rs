//! A received message as the record that a function gets.

use std::collections::HashMap;

use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};
use aws_sdk_sqs::types::{Message, MessageAttributeValue};

/// Where the records of one mapping come from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    arn: String,
    region: String,
}

impl Source {
    /// The source behind a queue URL, which ends in account and name.
    pub(super) fn of_queue(queue_url: &str, region: &str) -> Self {
        let mut parts = queue_url.rsplit('/');
        let name = parts.next().unwrap_or_default();
        let account = parts.next().unwrap_or_default();
        Self { arn: format!("arn:aws:sqs:{region}:{account}:{name}"), region: region.to_owned() }
    }

    /// The record of a message.
    pub(super) fn record(&self, message: Message) -> SqsMessage {
        let mut record = SqsMessage::default();
        record.message_id = message.message_id;
        record.receipt_handle = message.receipt_handle;
        record.body = message.body;
        record.md5_of_body = message.md5_of_body;
        record.md5_of_message_attributes = message.md5_of_message_attributes;
        record.attributes = message
            .attributes
            .unwrap_or_default()
            .into_iter()
            .map(|(name, value)| (name.as_str().to_owned(), value))
            .collect();
        record.message_attributes = attributes_of(message.message_attributes.unwrap_or_default());
        record.event_source = Some("aws:sqs".to_owned());
        record.event_source_arn = Some(self.arn.clone());
        record.aws_region = Some(self.region.clone());
        record
    }
}

fn attributes_of(attributes: HashMap<String, MessageAttributeValue>) -> HashMap<String, SqsMessageAttribute> {
    attributes.into_iter().map(|(name, value)| (name, attribute_of(value))).collect()
}

fn attribute_of(value: MessageAttributeValue) -> SqsMessageAttribute {
    let mut attribute = SqsMessageAttribute::default();
    attribute.string_value = value.string_value;
    attribute.binary_value = value.binary_value.map(|bytes| {
        let mut data = aws_lambda_events::encodings::Base64Data::default();
        data.0 = bytes.into_inner();
        data
    });
    attribute.data_type = Some(value.data_type);
    attribute
}
