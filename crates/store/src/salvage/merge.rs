//! The last version of every key, from the tables and the journal. All of them are sorted, so one merge
//! pass is enough.
//!
//! *Absent*: which blocks are readable (`table`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::vec::IntoIter;

use super::table::{Reader, Tables};
use crate::blocks::Entry;
use crate::error::StoreError;

/// Sorts entries like a table: by key, and the last version of each key first. The writes of each batch
/// must be in their order: if a batch wrote a key twice, its last write counts.
pub(super) fn sort(entries: &mut [Entry]) {
    entries.reverse();
    entries.sort_by(|a, b| a.key.cmp(&b.key).then(b.seqno.cmp(&a.seqno)));
}

enum Source {
    Table(Reader),
    Journal(IntoIter<Entry>),
}

impl Source {
    fn next(&mut self) -> Result<Option<Entry>, StoreError> {
        match self {
            Source::Table(reader) => reader.next(),
            Source::Journal(entries) => Ok(entries.next()),
        }
    }
}

/// The next entry of a source, and the index of the source.
struct Head {
    entry: Entry,
    source: usize,
}

impl Head {
    fn order(&self) -> (Reverse<&[u8]>, u64) {
        (Reverse(&self.entry.key), self.entry.seqno)
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// Iterates over the last version of each key, by key.
pub(super) struct Merge {
    sources: Vec<Source>,
    heads: BinaryHeap<Head>,
    /// Sources whose next entry must be read.
    due: Vec<usize>,
    last: Option<Vec<u8>>,
}

impl Merge {
    /// `journal` must be sorted by [`sort`].
    pub(super) fn of(tables: &Tables, journal: Vec<Entry>) -> Merge {
        let mut sources: Vec<Source> = tables.readers().map(Source::Table).collect();
        sources.push(Source::Journal(journal.into_iter()));
        Merge { due: (0..sources.len()).collect(), sources, heads: BinaryHeap::new(), last: None }
    }

    fn step(&mut self) -> Result<Option<Entry>, StoreError> {
        loop {
            while let Some(source) = self.due.pop() {
                if let Some(entry) = self.sources[source].next()? {
                    self.heads.push(Head { entry, source });
                }
            }
            let Some(Head { entry, source }) = self.heads.pop() else { return Ok(None) };
            self.due.push(source);
            // Later entries with the same key are older versions.
            if self.last.as_ref() != Some(&entry.key) {
                self.last = Some(entry.key.clone());
                return Ok(Some(entry));
            }
        }
    }
}

impl Iterator for Merge {
    type Item = Result<Entry, StoreError>;

    fn next(&mut self) -> Option<Result<Entry, StoreError>> {
        self.step().transpose()
    }
}
