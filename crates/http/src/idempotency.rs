//! `Idempotency-Key`: a request to store documents can be sent again after an answer that was lost.
//!
//! A document without an id gets one that follows from the key and its place in the request. So the documents
//! of a request that is sent again have the ids of the first time, and replace themselves. Nothing is
//! remembered, so this holds for any time, after a restart, and on every replica. If another
//! document is stored under such an id, the new one is refused: the key was used for another body, or the
//! stored one was changed since, and must not be lost.
//!
//! *Absent*: the answer to the first request. The second one says `updated` where the first said `created`.

use std::sync::Arc;

use axum::http::HeaderMap;
use xxhash_rust::xxh3::xxh3_128;

use super::error::{Code, Problem};
use lookalike_hash::DocumentId;
use lookalike_service::Offered;

/// The name of the header.
const NAME: &str = "Idempotency-Key";
/// The most bytes of a key.
const MAX_BYTES: usize = 255;

/// The key of a request, if it has one.
#[derive(Clone, Default)]
pub(super) struct IdempotencyKey(Option<Arc<str>>);

impl IdempotencyKey {
    /// The key in the head of a request.
    pub(super) fn of(headers: &HeaderMap) -> Result<IdempotencyKey, Problem> {
        let mut given = headers.get_all(NAME).iter();
        let Some(value) = given.next() else { return Ok(IdempotencyKey(None)) };
        let text = value.to_str().ok().map(|text| text.trim_matches('"'));
        let key = text.filter(|text| (1..=MAX_BYTES).contains(&text.len()) && given.next().is_none());
        let key = key.ok_or_else(|| {
            let detail = format!(
                "{NAME} is sent once, with 1 to {MAX_BYTES} ASCII characters that are new for each request, \
                 such as a UUID"
            );
            Problem::parameter(Code::InvalidField, NAME, detail)
        })?;
        Ok(IdempotencyKey(Some(key.into())))
    }

    /// The document at this place of the request, with the id that follows from the key if it has none.
    pub(super) fn named(&self, offered: Offered, place: u64) -> Offered {
        let Some(key) = self.0.as_deref().filter(|_| offered.id.is_none()) else { return offered };
        let digest = xxh3_128(format!("{place} {key}").as_bytes());
        let id = DocumentId::new(&format!("{digest:032x}")).expect("hexadecimal digits are an id");
        Offered { id: Some(id), is_keyed: true, ..offered }
    }
}
