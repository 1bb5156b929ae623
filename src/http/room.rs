//! Memory for bodies, of requests and of answers: reserved as they grow, released when they were handled or sent.
//!
//! What has a few kilobytes is not counted: there are no more of them than connections.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http_body::{Body as _, Frame, SizeHint};

use super::error::Problem;
use crate::call::{self, NoMemory, Reserved};

/// Bytes of a body that are not counted.
const SMALL: usize = 16 << 10;
/// Bytes of an answer that a connection takes at a time.
const PIECE: usize = 64 << 10;

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

/// In the extensions of a response: the memory of its body is reserved.
#[derive(Clone, Copy)]
pub(super) struct Counted;

/// An answer, with memory reserved for its body until that was sent. Where there is none, the answer says so instead.
///
/// Bodies without a known length are streams, which reserve memory for each part of them.
pub(super) fn held(mut response: Response) -> Response {
    if response.extensions_mut().remove::<Counted>().is_some() {
        return response;
    }
    let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    match bytes.filter(|bytes| *bytes > SMALL).map(call::reserve) {
        None => response,
        Some(Ok(reserved)) => {
            response.map(|body| Body::new(Held { body, rest: Bytes::new(), _reserved: reserved }))
        }
        Some(Err(error)) => Problem::from(error).into_response(),
    }
}

/// A body that goes out in pieces: the connection takes as many as it has room for, and memory stays reserved until it has
/// taken the last one.
struct Held {
    body: Body,
    /// What of the body is there and was not taken yet.
    rest: Bytes,
    _reserved: Reserved,
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context))
                .map(|frame| frame.map(Frame::into_data))
            {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.body.size_hint().exact() {
            Some(bytes) => SizeHint::with_exact(bytes + self.rest.len() as u64),
            None => SizeHint::default(),
        }
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

    #[tokio::test]
    async fn an_answer_goes_out_in_pieces_and_is_counted_until_the_last_one() {
        let accountant = Arc::new(Accountant::new(1 << 20));
        let call = Call::begin(Client::SERVER, &accountant);
        let all: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let mut body = call.within(|| held(Response::new(Body::from(all.clone())))).into_body();
        let mut sent = Vec::new();
        while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            assert_eq!(accountant.reserved(), all.len());
            sent.extend_from_slice(&frame.unwrap().into_data().unwrap());
            assert_eq!(body.size_hint().exact(), Some((all.len() - sent.len()) as u64));
            assert_eq!(body.is_end_stream(), sent.len() == all.len());
        }
        assert_eq!(sent, all);
        drop(body);
        assert_eq!(accountant.reserved(), 0);
    }
}
