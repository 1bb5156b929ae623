//! Answers as JSON.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// What most answers fit into: written without asking for more room.
const USUAL: usize = 256;

/// An answer that is written as JSON. The framework's own goes through one layer of buffers and two of headers
/// more, which takes a tenth of the time of a lookup.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        written(USUAL, |text| write(text, &self.0))
    }
}

/// An answer whose JSON this writes, of about so many bytes.
pub(super) fn written(bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Response {
    let mut text = Vec::with_capacity(bytes);
    write(&mut text);
    response(text)
}

/// An answer of one list, `results`, written element by element as they come.
pub(super) struct Results(Vec<u8>);

impl Results {
    /// A list of so many elements, about.
    pub(super) fn of(elements: usize) -> Results {
        let mut text = Vec::with_capacity(USUAL / 2 * (elements + 2));
        text.extend(b"{\"results\":[");
        Results(text)
    }

    /// Adds the element that this writes.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.0.last() != Some(&b'[') {
            self.0.push(b',');
        }
        write(&mut self.0);
    }
}

impl IntoResponse for Results {
    fn into_response(self) -> Response {
        let mut text = self.0;
        text.extend(b"]}");
        response(text)
    }
}

/// Appends a value as JSON.
pub(super) fn write<T: Serialize>(text: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(text, value).expect("wire types always serialise into memory");
}

fn response(text: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
