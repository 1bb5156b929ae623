//! Responses with a JSON body.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::room::AlreadyReserved;
use crate::call::{self, NoMemory, Reserved};

/// The initial capacity of a body in bytes. Most bodies fit and need no reallocation.
const TYPICAL_BYTES: usize = 256;

/// The end of every JSON body, so that a shell has its prompt on a line of its own.
const END_OF_LINE: u8 = b'\n';

/// A response with a JSON body. The type of the framework has one more layer of buffers and two more of
/// headers, which take a tenth of the time of a lookup.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        written(TYPICAL_BYTES, |text| write(text, &self.0))
    }
}

/// A response with the JSON body that `write` appends, of about `bytes` bytes.
pub(super) fn written(bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Response {
    let mut text = Vec::with_capacity(bytes);
    write(&mut text);
    text.push(END_OF_LINE);
    response(text)
}

/// A response with one list, `results`. The elements are written as they are computed. Memory is reserved
/// before the text grows.
pub(super) struct Results {
    text: Vec<u8>,
    reserved: Reserved,
}

impl Results {
    /// An empty list for about this many elements.
    ///
    /// # Errors
    /// [`NoMemory`] if there is no memory for it.
    pub(super) fn of(elements: usize) -> Result<Results, NoMemory> {
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
    pub(super) fn push(&mut self, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), NoMemory> {
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
pub(super) fn write<T: Serialize>(text: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(text, value).expect("wire types can always be serialised to memory");
}

fn response(text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
