//! Salvage: reads the undamaged parts of a damaged store, block by block.
//!
//! Nothing is written. Every block of the tables and every record of the journal has its own checksum.
//! Those with a correct checksum are read, and for each key the version of the last batch counts, including
//! deletions. Every other one is part of a [`Loss`]: its place, the lost amount as far as it is known, and
//! the rows that may therefore be older than their last acknowledged version.
//!
//! Collections are written twice, in `meta` and in the tree of rows, so no damage to a single file loses
//! everything known about a collection.
//!
//! *Absent*: writing a new store from the result (`engine`).

mod loss;
mod merge;
mod table;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

pub use loss::{Loss, LostPart};

use super::blocks::{Entry, Value};
use super::manifest::Manifest;
use super::trees::{NAMES, TREES, Tree, next_write};
use super::{StoreError, codec, journal, lock_to_read, marks, verify};
use crate::{CollectionRecord, Posting, PostingList, Row};
use lookalike_hash::{CollectionId, DocumentId, Hash, Mark, Width};
use merge::Merge;
use table::Tables;

/// Entries by key: the sequence number of the batch that wrote the entry, and the value unless it was
/// deleted.
type Newest = BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)>;

/// The readable content of a damaged store.
pub struct Salvage {
    /// Locks servers out, if there is a file to lock.
    _lock: Option<File>,
    dir: PathBuf,
    rows: Tables,
    journal: [Vec<Entry>; TREES],
    meta: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether no entry of `meta` is lost.
    meta_is_read: bool,
    /// Whether nothing of `meta` is damaged either, so an absent entry never existed.
    meta_is_whole: bool,
    rows_are_proven: bool,
    marks: Tables,
    losses: Vec<Loss>,
    doubts: Vec<String>,
}

/// A row of a damaged store.
#[derive(Debug)]
pub struct SalvagedRow {
    /// Its collection.
    pub collection: CollectionId,
    /// The document, if its id is readable.
    pub id: Option<DocumentId>,
    /// The row, or the reason why it cannot be read.
    pub row: Result<Row, StoreError>,
    /// Whether a later version or the deletion of the row may be lost.
    pub is_uncertain: bool,
}

impl Salvage {
    /// Reads the store in `dir`.
    ///
    /// # Errors
    /// [`StoreError`] if the store is in use, or if a file that may be whole cannot be read.
    pub fn read(dir: &Path) -> Result<Salvage, StoreError> {
        std::fs::read_dir(dir).map_err(|source| StoreError::io(dir, "read", source))?;
        let lock = match lock_to_read(dir) {
            Ok(lock) => Some(lock),
            Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut doubts = Vec::new();
        let manifest = match Manifest::read(dir) {
            Ok(Some(manifest)) => Some(manifest),
            Ok(None) => {
                doubts.push(described(&verify::missing(&Manifest::path(dir))));
                None
            }
            Err(error) if error.is_refused() => return Err(error),
            Err(error) => {
                doubts.push(described(&error));
                None
            }
        };
        let least = manifest.as_ref().map_or([0; TREES], |manifest| manifest.versions);
        let mut journal: [Vec<Entry>; TREES] = Default::default();
        let known = manifest.as_ref().map(|manifest| (manifest.store, manifest.replay_from));
        let lost_records = journal::salvage(&dir.join("journal"), known, &mut |seqno, mut payload| {
            while let Some(write) = next_write(&mut payload) {
                let value = write.value.map_or(Value::Deleted, |value| Value::Bytes(value.to_vec()));
                journal[write.tree as usize].push(Entry { key: write.key.to_vec(), seqno, value });
            }
        })?;
        let (mut meta, mut copy) = (Newest::new(), Newest::new());
        let [meta_tables, rows] = [Tree::Meta, Tree::Rows].map(|tree| {
            Tables::scan(&dir.join(NAMES[tree as usize]), least[tree as usize], &mut |entry| match entry
                .key
                .strip_prefix(&codec::COPY)
            {
                Some(key) if tree == Tree::Rows => note(&mut copy, key, entry),
                None if tree == Tree::Meta => note(&mut meta, &entry.key, entry),
                _ => {}
            })
        });
        let (meta_tables, mut rows) = (meta_tables?, rows?);
        for entry in &journal[Tree::Meta as usize] {
            note(&mut meta, &entry.key, entry);
        }
        for entry in &journal[Tree::Rows as usize] {
            if let Some(key) = entry.key.strip_prefix(&codec::COPY) {
                note(&mut copy, key, entry);
            }
        }
        let meta_is_read = meta_tables.losses.is_empty() && lost_records.is_empty();
        let meta_is_whole = meta_is_read && meta_tables.doubts.is_empty();
        let meta = joined(meta, meta_tables.is_whole(), copy, rows.is_whole());
        let of_marks = Tree::Marks as usize;
        let mut marks = Tables::scan(&dir.join(NAMES[of_marks]), least[of_marks], &mut |_| ())?;
        let has_marks = meta.keys().any(|key| key.starts_with(codec::MARKS));
        // The tree of rows has on disk every batch up to its newest, so earlier lost records lost no row.
        let (lost_records, harmless): (Vec<_>, Vec<_>) =
            lost_records.into_iter().partition(|lost| lost.before > rows.newest + 1);
        if has_marks {
            let of_marks = harmless.into_iter().filter(|lost| lost.before > marks.newest + 1);
            let doubt = |lost| format!("{}; marks in them are lost", Loss::of_journal(lost));
            doubts.extend(of_marks.map(doubt));
        }
        let mut losses: Vec<Loss> = lost_records.into_iter().map(Loss::of_journal).collect();
        losses.append(&mut rows.losses);
        // Marks are not rows, so these losses cover no keys of rows.
        losses.extend(marks.losses.drain(..).map(|loss| Loss { keys: Vec::new(), ..loss }));
        let rows_are_proven = manifest.is_some() && rows.doubts.is_empty();
        doubts.extend(rows.doubts.iter().chain(&meta_tables.doubts).chain(&marks.doubts).map(described));
        // The copies in the tree of rows replace what `meta` lost.
        doubts.extend(meta_tables.losses.iter().map(Loss::to_string));
        for entries in &mut journal {
            merge::sort(entries);
        }
        Ok(Salvage {
            _lock: lock,
            dir: dir.to_path_buf(),
            rows,
            journal,
            meta,
            meta_is_read,
            meta_is_whole,
            rows_are_proven,
            marks,
            losses,
            doubts,
        })
    }

    /// The lost parts of the rows and the marks.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Damage that lost no row, as far as can be known.
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }

    /// Whether the lists of files are undamaged: then the rows lost nothing but [`Salvage::losses`].
    pub fn rows_are_proven(&self) -> bool {
        self.rows_are_proven
    }

    /// The existing collections.
    pub fn collections(&self) -> Vec<CollectionRecord> {
        let records = self.meta.iter().filter(|(key, _)| key.starts_with(codec::COLLECTION));
        let records = records.filter_map(|(_, value)| codec::read_collection(value).ok());
        records.filter(|record| !self.is_garbage(record.id)).collect()
    }

    /// Whether a collection was deleted, or its restore was not complete. Its rows must not become visible.
    pub fn is_garbage(&self, collection: CollectionId) -> bool {
        self.meta.contains_key(&codec::garbage_key(collection))
    }

    /// The number of documents that a collection had, if it is known.
    pub fn recorded_documents(&self, collection: CollectionId) -> Option<u64> {
        let number = self.number(&codec::documents_key(collection)).filter(|_| self.meta_is_read);
        number.or(self.meta_is_whole.then_some(0))
    }

    /// The last time that a commit recorded, in milliseconds since 1970-01-01 UTC; 0 if it is unknown.
    pub fn recorded_time(&self) -> u64 {
        self.number(codec::CLOCK).unwrap_or(0)
    }

    fn number(&self, key: &[u8]) -> Option<u64> {
        codec::read_number(self.meta.get(key)?).ok()
    }

    /// The rows of all collections, by collection and id, including those of deleted collections.
    ///
    /// # Errors
    /// [`StoreError`] if a file that was readable before cannot be read any more.
    pub fn rows(&self) -> impl Iterator<Item = Result<SalvagedRow, StoreError>> + '_ {
        let blobs = self.dir.join(NAMES[Tree::Rows as usize]).join("blobs");
        let entries = Merge::of(&self.rows, self.journal[Tree::Rows as usize].clone());
        entries.filter_map(move |entry| {
            let Entry { key, seqno, value } = match entry {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            let (collection, _) =
                key.split_first_chunk::<4>().filter(|(number, _)| **number != codec::COPY)?;
            let value = match value {
                Value::Deleted => return None,
                Value::Bytes(bytes) => Some(bytes),
                Value::Blob(place) => match place.read(&blobs, &key) {
                    Ok(value) => value,
                    Err(source) => return Some(Err(StoreError::io(&blobs, "read", source))),
                },
            };
            let damaged = || StoreError::Damaged("blob");
            Some(Ok(SalvagedRow {
                collection: CollectionId(u32::from_be_bytes(*collection)),
                id: codec::read_row_key(&key).ok(),
                row: value.ok_or_else(damaged).and_then(|value| Row::from_bytes(&value)),
                is_uncertain: self.losses.iter().any(|loss| loss.hides(&key, seqno)),
            }))
        })
    }

    /// The marks of all collections with their times; most pairs twice, because they have two keys.
    ///
    /// # Errors
    /// [`StoreError`] if a file that was readable before cannot be read any more.
    pub fn marks(&self) -> impl Iterator<Item = Result<(CollectionId, Mark, u64), StoreError>> + '_ {
        let entries = Merge::of(&self.marks, self.journal[Tree::Marks as usize].clone());
        entries.filter_map(|entry| match entry {
            Ok(Entry { value: Value::Bytes(value), key, .. }) => {
                let (collection, ids) = key.split_first_chunk::<4>()?;
                let mark = marks::any_mark(ids).ok()?;
                let marked_ms = codec::read_number(&value).ok()?;
                Some(Ok((CollectionId(u32::from_be_bytes(*collection)), mark, marked_ms)))
            }
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// Whether the row of a document may be among the lost ones.
    pub fn may_have_lost(&self, collection: CollectionId, id: &DocumentId) -> bool {
        let key = codec::row_key(collection, id);
        self.losses.iter().any(|loss| loss.covers(&key))
    }

    /// The readable postings, with the collection and the hash of each. `width` gives the width of the
    /// hashes of a collection; postings of other collections are left out.
    ///
    /// # Errors
    /// [`StoreError`] if a file exists and cannot be read.
    pub fn postings(
        &self,
        width: impl Fn(CollectionId) -> Option<Width> + Clone,
    ) -> Result<impl Iterator<Item = Result<(CollectionId, Hash, Posting), StoreError>>, StoreError> {
        let mut found = Vec::new();
        for tree in [Tree::PostingLists, Tree::SharedPostings] {
            let tables = Tables::scan(&self.dir.join(NAMES[tree as usize]), 0, &mut |_| ())?;
            let entries = Merge::of(&tables, self.journal[tree as usize].clone());
            found.push((tree, entries));
        }
        Ok(found.into_iter().flat_map(move |(tree, entries)| {
            let width = width.clone();
            entries.filter_map(move |entry| match entry {
                Ok(entry) => posting(tree, &entry, &width).map(Ok),
                Err(error) => Some(Err(error)),
            })
        }))
    }
}

fn posting(
    tree: Tree,
    entry: &Entry,
    width: impl Fn(CollectionId) -> Option<Width>,
) -> Option<(CollectionId, Hash, Posting)> {
    let Value::Bytes(value) = &entry.value else { return None };
    let collection = CollectionId(u32::from_be_bytes(*entry.key.first_chunk::<4>()?));
    let width = width(collection)?;
    let hash = codec::read_posting_list_hash(&entry.key, width.bytes()).ok()?;
    let posting = if tree == Tree::SharedPostings {
        codec::read_posting(codec::read_posting_id(&entry.key, width).ok()?, value).ok()?
    } else {
        match codec::read_posting_list(value).ok()? {
            PostingList::One(posting) => posting,
            PostingList::Many(_) => return None,
        }
    };
    Some((collection, hash, posting))
}

/// A flaw as text, beginning with its place.
fn described(flaw: &StoreError) -> String {
    match flaw {
        StoreError::Damage { path, offset, what } => format!("{} at byte {offset}: {what}", path.display()),
        error => error.to_string(),
    }
}

fn note(newest: &mut Newest, key: &[u8], entry: &Entry) {
    let value = match &entry.value {
        Value::Bytes(bytes) => Some(bytes.clone()),
        Value::Deleted | Value::Blob(_) => None,
    };
    if newest.get(key).is_none_or(|(seqno, _)| *seqno <= entry.seqno) {
        newest.insert(key.to_vec(), (entry.seqno, value));
    }
}

/// The entries about the collections, from both copies. If one of the copies is whole, only that one
/// counts: the other may lack the deletion of an entry that it shows.
fn joined(
    mut meta: Newest,
    meta_is_whole: bool,
    copy: Newest,
    copy_is_whole: bool,
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    if !meta_is_whole {
        if copy_is_whole {
            meta.retain(|key, _| !key.starts_with(codec::COLLECTION) && !key.starts_with(codec::GARBAGE));
        }
        for (key, (seqno, value)) in copy {
            if meta.get(&key).is_none_or(|(other, _)| *other < seqno) {
                meta.insert(key, (seqno, value));
            }
        }
    }
    // A collection that is being restored is garbage until it is complete. The later of the two entries
    // decides.
    let garbage: Vec<(Vec<u8>, u64)> = meta
        .iter()
        .filter_map(|(key, (seqno, value))| {
            let id = codec::read_garbage_key(key).ok().filter(|_| value.is_some())?;
            let made = meta.get(&codec::collection_key(id)).filter(|(_, record)| record.is_some());
            made.is_some_and(|(made, _)| made > seqno).then(|| (key.clone(), *seqno))
        })
        .collect();
    for (key, _) in garbage {
        meta.remove(&key);
    }
    meta.into_iter().filter_map(|(key, (_, value))| Some((key, value?))).collect()
}
