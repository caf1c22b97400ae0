//! A request that is sent in time or not at all.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A body that is not handed out any more once its time is over: the connection is given up then, with a request that HubSpot
/// never had as a whole and so does not carry out.
///
/// Before the call it was made sure that the lease outlives it. That is worth nothing if the process stands still right after, and
/// sends when it goes on.
#[derive(Debug)]
pub(super) struct Punctual {
    bytes: Option<Bytes>,
    send_by: Instant,
}

/// The time was over before the body was sent.
#[derive(Debug, thiserror::Error)]
#[error("the request was not sent in time")]
pub(super) struct TooLate;

impl Punctual {
    pub(super) fn new(text: String, send_by: Instant) -> Self {
        Self { bytes: Some(Bytes::from(text)), send_by }
    }
}

impl Body for Punctual {
    type Data = Bytes;
    type Error = TooLate;

    fn poll_frame(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, TooLate>>> {
        let send_by = self.send_by;
        let in_time = |bytes| if Instant::now() <= send_by { Ok(Frame::data(bytes)) } else { Err(TooLate) };
        Poll::Ready(self.bytes.take().map(in_time))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use super::*;

    fn first_frame(body: &mut Punctual) -> Poll<Option<Result<Frame<Bytes>, TooLate>>> {
        Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_body_is_sent_whole_in_time_and_not_at_all_after_it() {
        let mut punctual = Punctual::new("{}".into(), Instant::now() + Duration::from_hours(1));
        assert_eq!(punctual.size_hint().exact(), Some(2));
        assert!(
            matches!(first_frame(&mut punctual), Poll::Ready(Some(Ok(frame))) if frame.data_ref().is_some_and(|data| data == "{}"))
        );
        assert!(punctual.is_end_stream() && matches!(first_frame(&mut punctual), Poll::Ready(None)));

        let Some(over) = Instant::now().checked_sub(Duration::from_millis(1)) else { return };
        let mut late = Punctual::new("{}".into(), over);
        assert!(matches!(first_frame(&mut late), Poll::Ready(Some(Err(TooLate)))));
    }
}
