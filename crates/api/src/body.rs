//! The bodies of requests and responses: JSON, and the memory that they hold.
//!
//! Memory is reserved as a body grows, and released when it is handled or sent. Small bodies are not counted,
//! because the number of connections limits them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use http_body::{Body as _, Frame, SizeHint};
use serde::Serialize;

use super::error::Problem;
use lookalike_run::call::{self, NoMemory, Reserved};

/// Bodies of at most this many bytes are not counted.
const SMALL: usize = 16 << 10;
/// The maximum size of a frame of a response in bytes.
const FRAME: usize = 64 << 10;
/// The initial capacity of a body in bytes. Most bodies fit and need no reallocation.
const TYPICAL_BYTES: usize = 256;

/// The end of every JSON body, so that a shell has its prompt on a line of its own.
const END_OF_LINE: u8 = b'\n';

/// The body of a request that is read completely before it is handled.
#[derive(Default)]
pub struct Growing {
    /// The bytes so far.
    pub bytes: Vec<u8>,
    /// The value of `Content-Length`, if the request has one.
    announced: Option<usize>,
    reserved: Option<Reserved>,
}

impl Growing {
    /// An empty body, for which this many bytes are announced.
    pub fn of(announced: Option<usize>) -> Growing {
        Growing { announced, ..Growing::default() }
    }

    /// Appends a part of the body.
    ///
    /// # Errors
    /// [`NoMemory`] if there is no memory for it.
    pub fn extend(&mut self, part: &[u8]) -> Result<(), NoMemory> {
        let needed = self.bytes.len() + part.len();
        if needed > self.bytes.capacity() {
            let twice = 2 * self.bytes.capacity();
            let capacity = needed.max(self.announced.map_or(twice, |announced| announced.min(twice)));
            if capacity > SMALL {
                // During the copy, both buffers are reserved.
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

    /// The body. Its memory is released when its last slice is dropped.
    pub fn into_bytes(self) -> Bytes {
        match self.reserved {
            Some(reserved) => reserved.bytes_of(self.bytes),
            None => Bytes::from(self.bytes),
        }
    }
}

/// An extension of a response whose body has a reservation already.
#[derive(Clone, Copy)]
struct AlreadyReserved;

/// Whether memory is reserved for the body of a response.
pub fn is_counted(response: &Response) -> bool {
    response.body().size_hint().exact().is_some_and(|bytes| bytes > SMALL as u64)
}

/// Reserves memory for the body of a response until it is sent; without memory, returns that error instead.
///
/// Bodies without a known length are streams, which reserve memory for each of their parts.
pub fn reserve_body(mut response: Response) -> Response {
    if response.extensions_mut().remove::<AlreadyReserved>().is_some() {
        return response;
    }
    let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    match bytes.filter(|bytes| *bytes > SMALL).map(call::reserve) {
        None => response,
        Some(Ok(reserved)) => response
            .map(|body| Body::new(ReservedBody { body, rest: Bytes::new(), reserved: reserved.into() })),
        Some(Err(error)) => Problem::from(error).into_response(),
    }
}

/// A body that is sent in frames of limited size. The memory stays reserved until the connection has sent
/// the last one.
struct ReservedBody {
    body: Body,
    /// Data of the inner body that the connection has not taken yet.
    rest: Bytes,
    reserved: Arc<Reserved>,
}

/// A frame with the reservation of its body.
struct Part {
    bytes: Bytes,
    _reserved: Arc<Reserved>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl http_body::Body for ReservedBody {
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
        let bytes = self.rest.len().min(FRAME);
        let part = Part { bytes: self.rest.split_to(bytes), _reserved: Arc::clone(&self.reserved) };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(part)))))
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

/// A response with a JSON body. The type of the framework has one more layer of buffers and two more of
/// headers, which take a tenth of the time of a lookup.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        written(TYPICAL_BYTES, |text| write_json(text, &self.0))
    }
}

/// A response with the JSON body that `write` appends, of about `bytes` bytes.
pub fn written(bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Response {
    let mut text = Vec::with_capacity(bytes);
    write(&mut text);
    text.push(END_OF_LINE);
    response(text)
}

/// A response with one list, `results`. The elements are written as they are computed. Memory is reserved
/// before the text grows.
pub struct Results {
    text: Vec<u8>,
    reserved: Reserved,
}

impl Results {
    /// An empty list for about this many elements.
    ///
    /// # Errors
    /// [`NoMemory`] if there is no memory for it.
    pub fn of(elements: usize) -> Result<Results, NoMemory> {
        let bytes = TYPICAL_BYTES / 2 * (elements + 2);
        let reserved = call::reserve(bytes)?;
        let mut text = Vec::with_capacity(bytes);
        text.extend(b"{\"results\":[");
        Ok(Results { text, reserved })
    }

    /// Adds the element that `write` appends, of about this many bytes.
    ///
    /// # Errors
    /// [`NoMemory`] if there is no memory for it.
    pub fn push(&mut self, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), NoMemory> {
        let needed = self.text.len() + bytes + END.len();
        if needed > self.text.capacity() {
            // During the reallocation both buffers are reserved.
            let (before, after) = (self.text.capacity(), needed.max(2 * self.text.capacity()));
            self.reserved.grow_to(before + after)?;
            self.text.reserve_exact(after - self.text.len());
            self.reserved.shrink_to(after);
        }
        if self.text.last() != Some(&b'[') {
            self.text.push(b',');
        }
        write(&mut self.text);
        Ok(())
    }
}

const END: &[u8] = b",]}\n";

impl IntoResponse for Results {
    fn into_response(self) -> Response {
        let Results { mut text, reserved } = self;
        text.extend(b"]}\n");
        let mut response = response(reserved.bytes_of(text));
        response.extensions_mut().insert(AlreadyReserved);
        response
    }
}

/// Appends a value as JSON.
#[expect(clippy::missing_panics_doc, reason = "it does not panic: the value is always valid")]
pub fn write_json<T: Serialize>(text: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(text, value).expect("wire types can always be serialised to memory");
}

fn response(text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookalike_run::call::{Accountant, Call, Client};

    #[test]
    fn a_body_is_counted_as_it_grows_until_its_last_slice_is_dropped() {
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
            assert!(body.bytes.len() <= 512 << 10, "one client can have half");
            drop(body);
            assert_eq!(accountant.reserved(), 0);
        });
    }

    #[test]
    fn a_response_is_counted_until_it_is_dropped() {
        let accountant = Arc::new(Accountant::new(1 << 20));
        let answer = |bytes: usize| {
            let call = Call::begin(Client::SERVER, &accountant);
            call.within(|| reserve_body(Response::new(Body::from(vec![0; bytes]))))
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
    async fn a_response_is_sent_in_frames_and_counted_until_the_last_one() {
        let accountant = Arc::new(Accountant::new(1 << 20));
        let call = Call::begin(Client::SERVER, &accountant);
        let all: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let mut body = call.within(|| reserve_body(Response::new(Body::from(all.clone())))).into_body();
        let (mut sent, mut last) = (Vec::new(), Bytes::new());
        while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            assert_eq!(accountant.reserved(), all.len());
            last = frame.unwrap().into_data().unwrap();
            sent.extend_from_slice(&last);
            assert_eq!(body.size_hint().exact(), Some((all.len() - sent.len()) as u64));
            assert_eq!(body.is_end_stream(), sent.len() == all.len());
        }
        assert_eq!(sent, all);
        drop(body);
        assert_eq!(accountant.reserved(), all.len(), "the connection has not sent the last frame");
        drop(last);
        assert_eq!(accountant.reserved(), 0);
    }
}
