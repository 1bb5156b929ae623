//! Memory for bodies, of requests and of answers: reserved as they grow, released when they were handled or sent.
//!
//! What has a few kilobytes is not counted: there are no more of them than connections.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http_body::{Body as _, Frame, SizeHint};

use super::error::Problem;
use crate::call::{self, NoMemory, Reserved};

/// Bytes of a body that are not counted.
const SMALL: usize = 16 << 10;

/// A body of a request that is read whole.
#[derive(Default)]
pub(super) struct Growing {
    pub(super) bytes: Vec<u8>,
    /// Bytes that it will have, if that was announced.
    announced: Option<usize>,
    reserved: Option<Reserved>,
}

impl Growing {
    pub(super) fn of(announced: Option<usize>) -> Growing {
        Growing { announced, ..Growing::default() }
    }

    /// Appends a part of the body.
    ///
    /// # Errors
    /// [`NoMemory`] if there is no memory for it.
    pub(super) fn extend(&mut self, part: &[u8]) -> Result<(), NoMemory> {
        let needed = self.bytes.len() + part.len();
        if needed > self.bytes.capacity() {
            let twice = 2 * self.bytes.capacity();
            let capacity = needed.max(self.announced.map_or(twice, |announced| announced.min(twice)));
            if capacity > SMALL {
                // Both are there while one is copied to the other.
                let grown = call::reserve(capacity)?;
                let mut bytes = Vec::with_capacity(capacity);
                bytes.extend_from_slice(&self.bytes);
                self.bytes = bytes;
                self.reserved = Some(grown);
            }
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    /// The body; its memory is released with the last slice of it.
    pub(super) fn into_bytes(self) -> Bytes {
        match self.reserved {
            Some(reserved) => reserved.bytes_of(self.bytes),
            None => Bytes::from(self.bytes),
        }
    }
}

/// An answer, with memory reserved for its body until that was sent. Where there is none, the answer says so instead.
///
/// Bodies without a known length are streams, which reserve memory for each part of them.
pub(super) fn held(response: Response) -> Response {
    let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    match bytes.filter(|bytes| *bytes > SMALL).map(call::reserve) {
        None => response,
        Some(Ok(reserved)) => response.map(|body| Body::new(Held { body, _reserved: reserved })),
        Some(Err(error)) => Problem::from(error).into_response(),
    }
}

struct Held {
    body: Body,
    _reserved: Reserved,
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::call::{Accountant, Call, Client};

    #[test]
    fn a_body_is_counted_as_it_grows_until_its_last_slice_goes() {
        let accountant = Arc::new(Accountant::new(1 << 20));
        let call = Call::begin(Client::SERVER, &accountant);
        call.within(|| {
            let mut body = Growing::default();
            body.extend(&[1; SMALL]).unwrap();
            assert_eq!(accountant.reserved(), 0);
            for _ in 0..9 {
                body.extend(&[2; SMALL]).unwrap();
            }
            assert!(accountant.reserved() >= 10 * SMALL);
            assert_eq!(accountant.reserved(), body.bytes.capacity());
            let bytes = body.into_bytes();
            assert_eq!((bytes[SMALL - 1], bytes[SMALL], bytes.len()), (1, 2, 10 * SMALL));
            let slice = bytes.slice(5..);
            drop(bytes);
            assert!(accountant.reserved() > 0);
            drop(slice);
            assert_eq!(accountant.reserved(), 0);

            let mut body = Growing::default();
            while body.extend(&[3; SMALL]).is_ok() {}
            assert!(body.bytes.len() <= 512 << 10, "half is one client's");
            drop(body);
            assert_eq!(accountant.reserved(), 0);
        });
    }

    #[test]
    fn an_answer_is_counted_until_it_was_sent() {
        let accountant = Arc::new(Accountant::new(1 << 20));
        let answer = |bytes: usize| {
            let call = Call::begin(Client::SERVER, &accountant);
            call.within(|| held(Response::new(Body::from(vec![0; bytes]))))
        };
        let (small, large) = (answer(SMALL), answer(400 << 10));
        assert_eq!(accountant.reserved(), 400 << 10);
        let refused = answer(200 << 10);
        assert_eq!(refused.status(), 503);
        assert_eq!(answer(600 << 10).status(), 507);
        assert_eq!((small.status().as_u16(), large.status().as_u16()), (200, 200));
        drop(large);
        assert_eq!(accountant.reserved(), 0);
    }
}
