//! The documents of an array that is read as a whole.

use axum::body::Bytes;
use serde_json::value::RawValue;

use super::super::error::{Code, Problem};
use super::super::parse::parse;
use super::super::wire::Few;

/// The elements of an array of documents.
pub(crate) fn elements_of(bytes: &Bytes, most: usize) -> Result<Vec<Bytes>, Problem> {
    let Few(elements) = parse::<Few<&RawValue>>(bytes)?;
    if elements.len() > most {
        let detail = format!(
            "the array has {} documents; at most {most} are accepted (limits.batch_documents): send more as \
             a stream, application/x-ndjson, of any length",
            elements.len()
        );
        return Err(Problem::new(Code::InvalidField, detail));
    }
    Ok(elements.into_iter().map(|raw| bytes.slice_ref(raw.get().as_bytes())).collect())
}
