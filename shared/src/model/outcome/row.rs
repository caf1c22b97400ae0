//! One input of a batch, and what became of it.

use super::{Answer, Refusal};

/// What became of one input of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row<R> {
    /// HubSpot accounted for it.
    Done(R),
    /// HubSpot refused it and the refusal can only concern this row.
    Refused(Refusal),
    /// It is in neither `results` nor `errors`: not done, as far as anybody knows.
    Unknown,
}

impl<R> Row<R> {
    /// The row as input of [`decide`](super::decide()).
    pub fn answer(&self) -> Answer<'_> {
        match self {
            Self::Done(_) => Answer::Done,
            Self::Refused(refusal) => Answer::Refused(refusal),
            Self::Unknown => Answer::Unknown,
        }
    }

    /// The value, when the row is done.
    pub fn done(self) -> Option<R> {
        match self {
            Self::Done(value) => Some(value),
            Self::Refused(_) | Self::Unknown => None,
        }
    }

    /// The same row around another value.
    pub fn map<S>(self, change: impl FnOnce(R) -> S) -> Row<S> {
        match self {
            Self::Done(value) => Row::Done(change(value)),
            Self::Refused(refusal) => Row::Refused(refusal),
            Self::Unknown => Row::Unknown,
        }
    }
}
