//! The actions of SQS: what a request asks, done on the store.

mod acknowledge;
mod batch;
mod queues;
mod receive;
mod send;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::clock::Moment;
use crate::error::SqsError;
use crate::settings::ACCOUNT;
use crate::store::Store;

pub(crate) use receive::{ReceiveRequest, receive};

/// A call that has arrived, with what its action may touch.
pub(crate) struct Call<'a> {
    pub(crate) store: &'a mut Store,
    pub(crate) now: Moment,
    /// Scheme, host and port of the emulator, without a slash at the end.
    pub(crate) base_url: &'a str,
    /// The header `X-Amzn-Trace-Id`, which SQS attaches to sent messages.
    pub(crate) trace_header: Option<&'a str>,
}

/// Does an action that answers at once; `ReceiveMessage` may wait and is not among them.
pub(crate) fn perform(call: &mut Call<'_>, action: &str, body: &Value) -> Result<Value, SqsError> {
    match action {
        "CreateQueue" => queues::create(call, parse(body)?),
        "DeleteQueue" => queues::delete(call, &parse(body)?),
        "GetQueueUrl" => queues::get_url(call, &parse(body)?),
        "ListQueues" => queues::list(call, &parse(body)?),
        "GetQueueAttributes" => queues::get_attributes(call, &parse(body)?),
        "SetQueueAttributes" => queues::set_attributes(call, &parse(body)?),
        "PurgeQueue" => queues::purge(call, &parse(body)?),
        "SendMessage" => send::send(call, parse(body)?),
        "SendMessageBatch" => send::send_batch(call, parse(body)?),
        "DeleteMessage" => acknowledge::delete(call, &parse(body)?),
        "DeleteMessageBatch" => acknowledge::delete_batch(call, parse(body)?),
        "ChangeMessageVisibility" => acknowledge::change_visibility(call, &parse(body)?),
        "ChangeMessageVisibilityBatch" => acknowledge::change_visibility_batch(call, parse(body)?),
        _ if UNSUPPORTED.contains(&action) => {
            Err(SqsError::unsupported(format!("This emulator does not have {action}.")))
        }
        _ => Err(SqsError::unknown_operation()),
    }
}

/// Actions that SQS has and this emulator has not.
const UNSUPPORTED: [&str; 9] = [
    "AddPermission",
    "RemovePermission",
    "TagQueue",
    "UntagQueue",
    "ListQueueTags",
    "ListDeadLetterSourceQueues",
    "StartMessageMoveTask",
    "CancelMessageMoveTask",
    "ListMessageMoveTasks",
];

/// Reads a request of an action.
pub(crate) fn parse<T: DeserializeOwned>(body: &Value) -> Result<T, SqsError> {
    T::deserialize(body).map_err(|error| SqsError::unreadable_request(error.to_string()))
}

/// The queue that a request names by its URL; the bare name serves as well.
pub(crate) fn queue_name(body: &Value) -> &str {
    let url = body.get("QueueUrl").or_else(|| body.get("QueueName")).and_then(Value::as_str);
    name_in_url(url.unwrap_or_default())
}

fn name_in_url(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

/// The name in a queue URL that a request must have.
fn required_queue(url: &str) -> Result<&str, SqsError> {
    match name_in_url(url) {
        "" => Err(SqsError::missing_parameter("QueueUrl")),
        name => Ok(name),
    }
}

/// The URL of a queue.
pub(crate) fn queue_url(base_url: &str, name: &str) -> String {
    format!("{base_url}/{ACCOUNT}/{name}")
}

/// The answer of an action that has nothing to say.
fn nothing() -> Value {
    json!({})
}
