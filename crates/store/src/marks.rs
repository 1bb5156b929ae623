//! Marks on disk: which documents users marked as no duplicates.
//!
//! A key is the number of the collection, the id, a zero byte, and the other id, or nothing for the mark of
//! one document. The mark of a pair has two keys, one under each id, so one range has all marks of a
//! document. No id has the byte 0, and every other byte is greater: keys sort by the first id, then by the
//! second.
//!
//! *Absent*: what a mark means for a lookup (`engine/marks`).

use std::collections::BTreeSet;
use std::ops::Bound;

use lsm_tree::{AbstractTree, SeqNo};

use super::Store;
use super::codec;
use super::error::StoreError;
use super::trees::Tree;
use super::view::View;
use lookalike_hash::{CollectionId, DocumentId, Mark};

/// The byte between both ids of a key.
const SEPARATOR: u8 = 0;

const DAMAGED: StoreError = StoreError::Damaged("mark");

/// The numbers of marks in a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkCounts {
    /// Marked pairs.
    pub pairs: u64,
    /// Marks of one document.
    pub documents: u64,
}

impl MarkCounts {
    /// Counts a further mark.
    pub fn count(&mut self, mark: &Mark) {
        let count = if mark.other().is_some() { &mut self.pairs } else { &mut self.documents };
        *count += 1;
    }

    /// The number of all marks.
    pub fn all(self) -> u64 {
        self.pairs + self.documents
    }
}

/// The marks of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarksOf {
    /// Whether the document itself is marked.
    pub is_marked: bool,
    /// The documents with which it is marked.
    pub others: BTreeSet<DocumentId>,
}

impl MarksOf {
    /// The number of marks.
    pub fn count(&self) -> usize {
        self.others.len() + usize::from(self.is_marked)
    }
}

pub(super) fn write_counts(counts: MarkCounts) -> Vec<u8> {
    [counts.pairs.to_be_bytes(), counts.documents.to_be_bytes()].concat()
}

pub(super) fn read_counts(value: &[u8]) -> Result<MarkCounts, StoreError> {
    let (pairs, documents) = value.split_at_checked(8).ok_or(DAMAGED)?;
    Ok(MarkCounts { pairs: codec::read_number(pairs)?, documents: codec::read_number(documents)? })
}

fn key(collection: CollectionId, id: &DocumentId, other: Option<&DocumentId>) -> Vec<u8> {
    let other = other.map_or(&[][..], |other| other.as_str().as_bytes());
    [&codec::row_key(collection, id)[..], &[SEPARATOR], other].concat()
}

/// The keys of a mark.
pub(super) fn keys(collection: CollectionId, mark: &Mark) -> impl Iterator<Item = Vec<u8>> {
    let (id, other) = (mark.id(), mark.other());
    let mirrored = other.map(|other| key(collection, other, Some(id)));
    std::iter::once(key(collection, id, other)).chain(mirrored)
}

/// Both ids of a key without the number of the collection.
fn read_ids(ids: &[u8]) -> Result<(DocumentId, Option<DocumentId>), StoreError> {
    let at = ids.iter().position(|byte| *byte == SEPARATOR).ok_or(DAMAGED)?;
    let (id, other) = (codec::read_id(&ids[..at])?, &ids[at + 1..]);
    let other = if other.is_empty() { None } else { Some(codec::read_id(other)?) };
    Ok((id, other))
}

/// The mark of a key; `None` for the second key of a pair.
fn read_mark(ids: &[u8]) -> Result<Option<Mark>, StoreError> {
    match read_ids(ids)? {
        (id, None) => Ok(Some(Mark::of(id))),
        (id, Some(other)) if id < other => Ok(Mark::pair(id, other)),
        _ => Ok(None),
    }
}

/// The mark of any key.
pub(super) fn any_mark(ids: &[u8]) -> Result<Mark, StoreError> {
    match read_ids(ids)? {
        (id, None) => Ok(Mark::of(id)),
        (id, Some(other)) => Mark::pair(id, other).ok_or(DAMAGED),
    }
}

/// The keys of the marks of a document.
fn range_of(collection: CollectionId, id: &DocumentId) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let key = codec::row_key(collection, id);
    let start = [&key[..], &[SEPARATOR]].concat();
    (Bound::Included(start), Bound::Excluded([&key[..], &[SEPARATOR + 1]].concat()))
}

impl Store {
    /// The numbers of marks in a collection.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails or the entry does not read back.
    pub fn mark_counts(&self, collection: CollectionId) -> Result<MarkCounts, StoreError> {
        let value = self.core.trees.tree(Tree::Meta).get(codec::mark_counts_key(collection), SeqNo::MAX)?;
        value.map_or(Ok(MarkCounts::default()), |value| read_counts(&value))
    }
}

impl View<'_> {
    /// The time at which a mark was made, in milliseconds since 1970-01-01 UTC; `None` if there is no such
    /// mark.
    ///
    /// # Errors
    /// As for all methods here: [`StoreError`] if the disk fails or an entry does not read back.
    pub fn marked_ms(&self, collection: CollectionId, mark: &Mark) -> Result<Option<u64>, StoreError> {
        let value = self.get(Tree::Marks, key(collection, mark.id(), mark.other()))?;
        value.map(|value| codec::read_number(&value)).transpose()
    }

    /// Whether two documents are marked as a pair.
    pub fn has_pair(
        &self,
        collection: CollectionId,
        a: &DocumentId,
        b: &DocumentId,
    ) -> Result<bool, StoreError> {
        Ok(self.get(Tree::Marks, key(collection, a, Some(b)))?.is_some())
    }

    /// Whether a document itself is marked.
    pub fn has_mark(&self, collection: CollectionId, id: &DocumentId) -> Result<bool, StoreError> {
        Ok(self.get(Tree::Marks, key(collection, id, None))?.is_some())
    }

    /// The marks of a document.
    pub fn marks_of(&self, collection: CollectionId, id: &DocumentId) -> Result<MarksOf, StoreError> {
        let mut found = MarksOf::default();
        for entry in self.range(Tree::Marks, range_of(collection, id)) {
            match read_ids(entry?.0.get(4..).ok_or(DAMAGED)?)? {
                (_, None) => found.is_marked = true,
                (_, Some(other)) => drop(found.others.insert(other)),
            }
        }
        Ok(found)
    }

    /// The marks of a collection after this one, in order, each with its time. An item without a mark is the
    /// second key of a pair, so that the caller can stop between two keys.
    pub fn marks_after(
        &self,
        collection: CollectionId,
        after: Option<&Mark>,
    ) -> impl Iterator<Item = Result<Option<(Mark, u64)>, StoreError>> + use<> {
        let (start, end) = codec::row_range(collection, "", None);
        let start = after.map_or(start, |mark| Bound::Excluded(key(collection, mark.id(), mark.other())));
        self.range(Tree::Marks, (start, end)).map(|entry| {
            let (key, value) = entry?;
            let mark = read_mark(key.get(4..).ok_or(DAMAGED)?)?;
            mark.map(|mark| Ok((mark, codec::read_number(&value)?))).transpose()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> DocumentId {
        DocumentId::new(text).unwrap()
    }

    #[test]
    fn keys_sort_as_marks_do_and_read_back() {
        let ids = ["a", "a!", "ab", "b", "页", "页1"].map(id);
        let mut marks: Vec<Mark> = ids.iter().cloned().map(Mark::of).collect();
        for a in &ids {
            marks.extend(ids.iter().filter_map(|b| Mark::pair(a.clone(), b.clone())));
        }
        marks.sort();
        marks.dedup();
        let of = CollectionId(7);
        let first_keys: Vec<Vec<u8>> = marks.iter().map(|mark| keys(of, mark).next().unwrap()).collect();
        assert!(first_keys.is_sorted());
        for (mark, first) in marks.iter().zip(&first_keys) {
            assert_eq!(read_mark(&first[4..]).unwrap().as_ref(), Some(mark));
            let second = keys(of, mark).nth(1);
            assert_eq!(second.is_some(), mark.other().is_some());
            assert!(second.is_none_or(|key| read_mark(&key[4..]).unwrap().is_none()));
        }
        for wrong in [&b""[..], b"a", b"\0a", b"a\0\xff", b"a\0b\0"] {
            assert!(read_mark(wrong).is_err(), "{wrong:?}");
        }
        let counts = MarkCounts { pairs: 3, documents: u64::MAX };
        assert_eq!(read_counts(&write_counts(counts)).unwrap(), counts);
        assert!(read_counts(&[0; 15]).is_err() && read_counts(&[0; 3]).is_err());
    }
}
