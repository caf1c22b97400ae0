//! Receipt handles: which delivery of which message of which queue.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::error::SqsError;

/// A number that names a stored message within one emulator.
pub(crate) type MessageKey = u64;

/// What a receipt handle says. Each delivery of a message has a handle of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) key: MessageKey,
    /// Which delivery of the message it was, counted from 1.
    pub(crate) delivery: u32,
}

impl Receipt {
    /// The opaque handle that a receiver gets.
    pub(crate) fn handle(&self, queue: &str) -> String {
        URL_SAFE_NO_PAD.encode(format!("{queue} {} {}", self.key, self.delivery))
    }

    /// Reads a handle back. It must come from this queue.
    pub(crate) fn parse(handle: &str, queue: &str) -> Result<Self, SqsError> {
        if handle.is_empty() {
            return Err(SqsError::missing_parameter("ReceiptHandle"));
        }
        Self::decode(handle, queue).ok_or_else(|| SqsError::receipt_handle_is_invalid(handle))
    }

    fn decode(handle: &str, queue: &str) -> Option<Self> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(handle).ok()?).ok()?;
        let mut parts = text.split(' ');
        let (name, key, delivery) = (parts.next()?, parts.next()?, parts.next()?);
        (name == queue).then_some(())?;
        Some(Self { key: key.parse().ok()?, delivery: delivery.parse().ok()? })
    }
}
