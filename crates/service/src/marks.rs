//! Marks of documents as no duplicates: add, remove and list them.
//!
//! *Absent*: what a mark means for lookups and clusters (`engine`).

use std::sync::Arc;

use super::Service;
use super::error::ServiceError;
use lookalike_engine::Marked;
use lookalike_hash::{CollectionName, DocumentId, Mark};
use lookalike_run::pool::{Cancel, Patience};

/// The maximum number of marks in one request.
const MARKS: usize = 1_000;

/// The marks of a collection that a request asks for.
#[derive(Clone, Debug, Default)]
pub struct WantedMarks {
    /// Only those of this document.
    pub id: Option<DocumentId>,
    /// The cursor of the next page.
    pub cursor: Option<String>,
    /// The most marks in the answer.
    pub limit: Option<usize>,
}

/// Marks in the order of their ids.
#[derive(Clone, Debug)]
pub struct MarkList {
    /// The marks, each with the time at which it was made, in milliseconds since 1970-01-01 UTC.
    pub marks: Vec<(Mark, u64)>,
    /// The cursor of the next page, if there are more.
    pub next: Option<String>,
}

impl Service {
    /// Adds marks, all or none of them. One without a time is made now; one that exists keeps its time.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`] if there are too many, `EngineError::TooManyMarks`, and those of a write.
    pub async fn mark(
        &self,
        collection: &CollectionName,
        marks: Vec<(Mark, Option<u64>)>,
    ) -> Result<Marked, ServiceError> {
        if marks.len() > MARKS {
            let detail = format!("there are {} marks; at most {MARKS} are taken at once", marks.len());
            return Err(ServiceError::invalid("marks", detail));
        }
        let now_ms = self.now_ms();
        let marks = marks.into_iter().map(|(mark, at)| (mark, at.unwrap_or(now_ms))).collect();
        Ok(self.engine()?.mark(collection, marks).await?)
    }

    /// Removes a mark.
    ///
    /// # Errors
    /// [`ServiceError::NoMark`] if there is none, and those of a write.
    pub async fn unmark(&self, collection: &CollectionName, mark: Mark) -> Result<(), ServiceError> {
        if self.engine()?.unmark(collection, mark.clone()).await? {
            return Ok(());
        }
        Err(ServiceError::NoMark { collection: collection.clone(), mark })
    }

    /// The marks of a collection, or of one of its documents.
    ///
    /// # Errors
    /// [`ServiceError::Cursor`], [`ServiceError::Invalid`] if the limit is out of range.
    pub async fn marks(
        &self,
        collection: &CollectionName,
        wanted: WantedMarks,
    ) -> Result<MarkList, ServiceError> {
        let collection = self.engine()?.find(collection)?;
        let limit = self.checked_limit(wanted.limit)?;
        let after = wanted.cursor.as_deref().map(read_cursor).transpose()?;
        let engine = Arc::clone(self.engine()?);
        let read = move |cancel: &Cancel| match &wanted.id {
            Some(id) => engine.marks_of(&collection, id, after.as_ref(), limit),
            None => engine.marks(&collection, after.as_ref(), limit, cancel),
        };
        let page = self.pool.run(Patience::Interactive, read).await??;
        let next = page.marks.last().filter(|_| page.has_more).map(|(mark, _)| write_cursor(mark));
        Ok(MarkList { marks: page.marks, next })
    }
}

/// Both ids in hexadecimal, with a point between them.
fn write_cursor(mark: &Mark) -> String {
    let digits = |id: &DocumentId| id.as_str().bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{}.{}", digits(mark.id()), mark.other().map(digits).unwrap_or_default())
}

fn read_cursor(cursor: &str) -> Result<Mark, ServiceError> {
    let id = |digits: &str| {
        let digits = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        };
        let bytes = digits.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?;
        DocumentId::new(&String::from_utf8(bytes).ok()?).ok()
    };
    let mark = || match cursor.split_once('.')? {
        (first, "") => Some(Mark::of(id(first)?)),
        (first, second) => Mark::pair(id(first)?, id(second)?),
    };
    mark().ok_or(ServiceError::Cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_were_written() {
        let id = |text: &str| DocumentId::new(text).unwrap();
        for mark in [Mark::of(id("页/1")), Mark::pair(id("a"), id("页/1")).unwrap()] {
            assert_eq!(read_cursor(&write_cursor(&mark)).unwrap(), mark);
        }
        for wrong in ["", ".", "61", "61.6", "6.61", "61.61", "zz.", "61.00", "61.62.63", "＋1."] {
            assert!(read_cursor(wrong).is_err(), "{wrong}");
        }
    }
}
