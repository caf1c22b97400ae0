//! Actions on queues.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, nothing, queue_url, required_queue};
use crate::error::SqsError;
use crate::queue::Queue;
use crate::settings::{AttributeMap, QueueSettings, validate_queue_name};

/// Queues that one answer of `ListQueues` names (quota of SQS).
const LISTED_QUEUES_MAX: usize = 1_000;
/// Attributes that are asked for by name and that a standard queue may not have at the moment.
const OPTIONAL_ATTRIBUTES: [&str; 5] =
    ["Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds"];

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
pub(super) struct CreateRequest {
    queue_name: String,
    attributes: AttributeMap,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct QueueRequest {
    queue_url: String,
    queue_name: String,
    attribute_names: Vec<String>,
    attributes: AttributeMap,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct ListRequest {
    queue_name_prefix: Option<String>,
    max_results: Option<usize>,
}

pub(super) fn create(call: &mut Call<'_>, request: CreateRequest) -> Result<Value, SqsError> {
    validate_queue_name(&request.queue_name)?;
    let url = queue_url(call.base_url, &request.queue_name);
    let mut settings = QueueSettings::new(request.queue_name);
    settings.apply(&request.attributes)?;
    let named: Vec<&str> = request.attributes.keys().map(String::as_str).collect();
    call.store.create_queue(settings, &named, call.now)?;
    Ok(json!({ "QueueUrl": url }))
}

pub(super) fn delete(call: &mut Call<'_>, request: &QueueRequest) -> Result<Value, SqsError> {
    call.store.delete_queue(required_queue(&request.queue_url)?)?;
    Ok(nothing())
}

pub(super) fn get_url(call: &mut Call<'_>, request: &QueueRequest) -> Result<Value, SqsError> {
    if request.queue_name.is_empty() {
        return Err(SqsError::missing_parameter("QueueName"));
    }
    call.store.queue(&request.queue_name)?;
    Ok(json!({ "QueueUrl": queue_url(call.base_url, &request.queue_name) }))
}

#[expect(clippy::unnecessary_wraps, reason = "all actions have one signature")]
pub(super) fn list(call: &mut Call<'_>, request: &ListRequest) -> Result<Value, SqsError> {
    let prefix = request.queue_name_prefix.as_deref().unwrap_or_default();
    let urls: Vec<String> = call
        .store
        .queue_names()
        .filter(|name| name.starts_with(prefix))
        .take(request.max_results.unwrap_or(LISTED_QUEUES_MAX))
        .map(|name| queue_url(call.base_url, name))
        .collect();
    Ok(if urls.is_empty() { nothing() } else { json!({ "QueueUrls": urls }) })
}

pub(super) fn get_attributes(call: &mut Call<'_>, request: &QueueRequest) -> Result<Value, SqsError> {
    let queue = call.store.queue_mut(required_queue(&request.queue_url)?)?;
    queue.catch_up(call.now);
    let all = attributes_of(queue);
    let mut asked = AttributeMap::new();
    for name in &request.attribute_names {
        match all.get(name) {
            Some(value) => {
                asked.insert(name.clone(), value.clone());
            }
            None if name == "All" => asked.extend(all.clone()),
            None if OPTIONAL_ATTRIBUTES.contains(&name.as_str()) => {}
            None => return Err(SqsError::unknown_attribute(name)),
        }
    }
    Ok(if asked.is_empty() { nothing() } else { json!({ "Attributes": asked }) })
}

fn attributes_of(queue: &Queue) -> AttributeMap {
    let counts = queue.counts();
    let mut attributes = queue.settings.to_attributes();
    attributes.extend(
        [
            ("QueueArn", queue.settings.arn()),
            ("CreatedTimestamp", queue.created_at.as_seconds().to_string()),
            ("LastModifiedTimestamp", queue.modified_at.as_seconds().to_string()),
            ("ApproximateNumberOfMessages", counts.visible.to_string()),
            ("ApproximateNumberOfMessagesNotVisible", counts.in_flight.to_string()),
            ("ApproximateNumberOfMessagesDelayed", counts.delayed.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    attributes
}

pub(super) fn set_attributes(call: &mut Call<'_>, request: &QueueRequest) -> Result<Value, SqsError> {
    let name = required_queue(&request.queue_url)?;
    if request.attributes.is_empty() {
        return Err(SqsError::missing_parameter("Attribute.Name"));
    }
    let mut settings = call.store.queue(name)?.settings.clone();
    settings.apply(&request.attributes)?;
    call.store.change_settings(settings, call.now)?;
    Ok(nothing())
}

pub(super) fn purge(call: &mut Call<'_>, request: &QueueRequest) -> Result<Value, SqsError> {
    call.store.queue_mut(required_queue(&request.queue_url)?)?.purge(call.now)?;
    Ok(nothing())
}
