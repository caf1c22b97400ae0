//! What can be wrong with a signature.

use super::{MOST_AGE_MS, MOST_AHEAD_MS};

/// What is wrong with a signature. Never shows a secret, nor what the signature should have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// A header did not come, or came empty.
    #[error("the header {0} is missing")]
    MissingHeader(&'static str),
    /// A header came more than once: which one counts can't be told.
    #[error("the header {0} came more than once")]
    RepeatedHeader(&'static str),
    /// The timestamp is no number of milliseconds since 1970.
    #[error("the timestamp is not a number of milliseconds since 1970 in 13 digits")]
    TimestampMalformed,
    /// Signed too long ago.
    #[error("the timestamp is {age_ms} ms old, and {MOST_AGE_MS} is the most")]
    TooOld {
        /// Its age.
        age_ms: i64,
    },
    /// Signed at a time that has not come yet.
    #[error("the timestamp is {ahead_ms} ms in the future, and {MOST_AHEAD_MS} is the most")]
    InTheFuture {
        /// How far ahead it is.
        ahead_ms: i64,
    },
    /// Not what a signature looks like.
    #[error("the signature is not SHA-256 in base64 (v3) or in lower-case hexadecimal digits (v1, v2)")]
    SignatureMalformed,
    /// Only an older signature came, and it is not accepted here.
    #[error("only an older signature came, and none such is accepted here")]
    OldVersion,
    /// No known secret makes this signature over this request.
    #[error("no known secret makes this signature over this request")]
    NoSecretMatches,
}

impl SignatureError {
    /// The kind of error as a stable word, for logs and counters.
    pub fn code(self) -> &'static str {
        match self {
            Self::MissingHeader(_) => "missing_header",
            Self::RepeatedHeader(_) => "repeated_header",
            Self::TimestampMalformed => "timestamp_malformed",
            Self::TooOld { .. } => "too_old",
            Self::InTheFuture { .. } => "in_the_future",
            Self::SignatureMalformed => "signature_malformed",
            Self::OldVersion => "old_version",
            Self::NoSecretMatches => "no_secret_matches",
        }
    }
}
