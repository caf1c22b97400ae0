//! The errors of SQS, with the code and the wording of the service.

use axum::http::StatusCode;
use serde_json::{Value, json};

/// Who caused an error; SQS names it in batch results and in the query-compatibility header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Culprit {
    Sender,
    Receiver,
}

/// An error as SQS answers it.
#[derive(Clone, Debug)]
pub(crate) struct SqsError {
    /// Name of the shape in the JSON protocol's `__type`.
    shape: &'static str,
    /// The code of the older query protocol, by which SDKs choose their exception.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) culprit: Culprit,
    pub(crate) status: StatusCode,
}

/// Prefix that the query protocol puts before the codes of some shapes.
const LEGACY_PREFIX: &str = "AWS.SimpleQueueService.";

impl SqsError {
    fn sender(shape: &'static str, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            shape,
            code: code.into(),
            message: message.into(),
            culprit: Culprit::Sender,
            status: StatusCode::BAD_REQUEST,
        }
    }

    fn prefixed(shape: &'static str, message: impl Into<String>) -> Self {
        Self::sender(shape, format!("{LEGACY_PREFIX}{shape}"), message)
    }

    pub(crate) fn queue_does_not_exist() -> Self {
        let code = format!("{LEGACY_PREFIX}NonExistentQueue");
        Self::sender("QueueDoesNotExist", code, "The specified queue does not exist.")
    }

    pub(crate) fn queue_exists_differently(attribute: &str) -> Self {
        let message =
            format!("A queue already exists with the same name and a different value for attribute {attribute}");
        Self::sender("QueueNameExists", "QueueAlreadyExists", message)
    }

    pub(crate) fn purge_in_progress(queue: &str) -> Self {
        let message = format!("Only one PurgeQueue operation on {queue} is allowed every 60 seconds.");
        Self::prefixed("PurgeQueueInProgress", message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::prefixed("UnsupportedOperation", message)
    }

    pub(crate) fn missing_parameter(parameter: &str) -> Self {
        let message = format!("The request must contain the parameter {parameter}.");
        Self::sender("MissingRequiredParameterException", "MissingParameter", message)
    }

    pub(crate) fn invalid_parameter(message: impl Into<String>) -> Self {
        Self::sender("InvalidParameterValueException", "InvalidParameterValue", message)
    }

    pub(crate) fn invalid_value(value: impl std::fmt::Display, parameter: &str, reason: &str) -> Self {
        Self::invalid_parameter(format!("Value {value} for parameter {parameter} is invalid. Reason: {reason}"))
    }

    pub(crate) fn unknown_attribute(attribute: &str) -> Self {
        Self::sender("InvalidAttributeName", "InvalidAttributeName", format!("Unknown Attribute {attribute}."))
    }

    pub(crate) fn invalid_attribute_value(attribute: &str) -> Self {
        let message = format!("Invalid value for the parameter {attribute}.");
        Self::sender("InvalidAttributeValue", "InvalidAttributeValue", message)
    }

    pub(crate) fn invalid_message_contents() -> Self {
        let message = "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | \
                       #xE000 to #xFFFD | #x10000 to #x10FFFF.";
        Self::sender("InvalidMessageContents", "InvalidMessageContents", message)
    }

    pub(crate) fn receipt_handle_is_invalid(handle: &str) -> Self {
        let message = format!("The input receipt handle \"{handle}\" is not a valid receipt handle.");
        Self::sender("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", message)
    }

    pub(crate) fn message_not_inflight(handle: &str) -> Self {
        let message = format!(
            "Value {handle} for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not \
             available for visibility timeout change."
        );
        Self::prefixed("MessageNotInflight", message)
    }

    pub(crate) fn over_limit(message: impl Into<String>) -> Self {
        Self::sender("OverLimit", "OverLimit", message)
    }

    pub(crate) fn empty_batch(entry_type: &str) -> Self {
        let message = format!("There should be at least one {entry_type} in the request.");
        Self::prefixed("EmptyBatchRequest", message)
    }

    pub(crate) fn too_many_entries(maximum: usize, sent: usize) -> Self {
        let message = format!("Maximum number of entries per request are {maximum}. You have sent {sent}.");
        Self::prefixed("TooManyEntriesInBatchRequest", message)
    }

    pub(crate) fn invalid_entry_id() -> Self {
        let message = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be \
                       at most 80 letters long.";
        Self::prefixed("InvalidBatchEntryId", message)
    }

    pub(crate) fn entry_ids_not_distinct(id: &str) -> Self {
        Self::prefixed("BatchEntryIdsNotDistinct", format!("Id {id} repeated."))
    }

    pub(crate) fn batch_too_long(maximum: usize, sent: usize) -> Self {
        let message = format!("Batch requests cannot be longer than {maximum} bytes. You have sent {sent} bytes.");
        Self::prefixed("BatchRequestTooLong", message)
    }

    pub(crate) fn unknown_operation() -> Self {
        Self::sender("UnknownOperationException", "InvalidAction", "The action or operation requested is invalid.")
    }

    pub(crate) fn unreadable_request(message: impl Into<String>) -> Self {
        Self::sender("SerializationException", "MalformedInput", message)
    }

    /// The service's own failure, which a client may repeat.
    pub(crate) fn service_unavailable() -> Self {
        Self {
            shape: "ServiceUnavailable",
            code: "ServiceUnavailable".to_owned(),
            message: "The request has failed due to a temporary failure of the server.".to_owned(),
            culprit: Culprit::Receiver,
            status: StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// An error with a chosen code, for faults on demand.
    pub(crate) fn injected(code: &str, culprit: Culprit) -> Self {
        Self {
            shape: "InternalError",
            code: code.to_owned(),
            message: "Failed on demand.".to_owned(),
            culprit,
            status: StatusCode::BAD_REQUEST,
        }
    }

    /// The body of the answer in the JSON protocol.
    pub(crate) fn body(&self) -> Value {
        json!({ "__type": format!("com.amazonaws.sqs#{}", self.shape), "message": self.message })
    }

    /// The value of the header `x-amzn-query-error`.
    pub(crate) fn query_error(&self) -> String {
        let culprit = match self.culprit {
            Culprit::Sender => "Sender",
            Culprit::Receiver => "Receiver",
        };
        format!("{};{culprit}", self.code)
    }

    /// The entry of a batch's `Failed` list.
    pub(crate) fn batch_entry(&self, id: &str) -> Value {
        json!({
            "Id": id,
            "Code": self.code,
            "Message": self.message,
            "SenderFault": self.culprit == Culprit::Sender,
        })
    }
}
