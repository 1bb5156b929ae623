//! The durable record: collections, document rows, postings from hash to ids, and the change log.
//!
//! *Invariants*
//! - 4: [`Batch::commit`] returns after the batch is on the disk (fdatasync), whole or not at all, and
//!   nothing of it can be read before.
//! - The log is contiguous: the change after sequence number s is s + 1. The last number stands in the
//!   batch that it belongs to as the high-water mark; [`Store::open`] refuses a log with a gap.
//!
//! One task at a time may write; any number may read. Calls block: keep them off the async workers.
//!
//! *Absent*: neighbours, fingerprints, HTTP, and any clock.

mod batch;
mod codec;
mod error;
mod records;
mod view;

use std::path::Path;

use fjall::config::{CompressionPolicy, HashRatioPolicy, PinningPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions};

pub use batch::Batch;
pub use error::StoreError;
pub use records::{Bearer, Change, CollectionRecord, Posting, Row};
pub use view::View;

use crate::ids::{CollectionId, Hash, Sequence};
use codec::{HIGH_WATER, TRIMMED};

/// Bytes of recent postings in memory. A skip list of a few megabytes stays in the processor's cache; one of
/// the usual 64 costs a lookup three microseconds.
const POSTINGS_MEMTABLE: u64 = 4 << 20;

/// The store in a directory of its own.
pub struct Store {
    db: Database,
    meta: Keyspace,
    rows: Keyspace,
    postings: Keyspace,
    bearers: Keyspace,
    log: Keyspace,
}

impl Store {
    /// Opens the store in `dir`, or makes it there, with this many bytes of block cache.
    ///
    /// # Errors
    /// [`StoreError`] if the directory cannot be used, another process holds it, or the log has a gap.
    pub fn open(dir: &Path, cache_bytes: u64) -> Result<Store, StoreError> {
        let db =
            Database::builder(dir).cache_size(cache_bytes).open().map_err(|e| StoreError::open(dir, e))?;
        let keyspace = |name: &str, options: fn() -> KeyspaceCreateOptions| {
            db.keyspace(name, options).map_err(|e| StoreError::open(dir, e))
        };
        let store = Store {
            meta: keyspace("meta", KeyspaceCreateOptions::default)?,
            rows: keyspace("rows", large_values)?,
            postings: keyspace("postings", point_reads)?,
            bearers: keyspace("bearers", KeyspaceCreateOptions::default)?,
            log: keyspace("log", KeyspaceCreateOptions::default)?,
            db,
        };
        store.check_log()?;
        Ok(store)
    }

    /// All collections.
    pub fn collections(&self) -> Result<Vec<CollectionRecord>, StoreError> {
        self.meta.prefix(codec::COLLECTION).map(|entry| codec::read_collection(&entry.value()?)).collect()
    }

    /// The number for the next collection: one more than was ever given.
    pub fn next_collection_id(&self) -> Result<CollectionId, StoreError> {
        Ok(CollectionId(self.number(codec::LAST_COLLECTION)?.map_or(0, |last| last as u32) + 1))
    }

    /// Collections that were deleted and whose rows have not all been swept away yet.
    pub fn garbage(&self) -> Result<Vec<CollectionId>, StoreError> {
        self.meta.prefix(codec::GARBAGE).map(|entry| codec::read_garbage_key(&entry.key()?)).collect()
    }

    /// How many documents a collection has.
    pub fn documents(&self, collection: CollectionId) -> Result<u64, StoreError> {
        Ok(self.number(codec::documents_key(collection))?.unwrap_or(0))
    }

    /// The rows and postings as they are now, whatever is written later.
    pub fn view(&self) -> View<'_> {
        View::new(self)
    }

    /// Every distinct hash of a collection, ascending: the index, from the record alone.
    pub fn hashes(&self, of: &CollectionRecord) -> impl Iterator<Item = Result<Hash, StoreError>> + use<> {
        let bytes = of.width.bytes();
        let entries = self.postings.prefix(codec::collection_prefix(of.id));
        entries.map(move |entry| codec::read_posting_hash(&entry.key()?, bytes))
    }

    /// The number of the last durable change.
    pub fn high_water(&self) -> Result<Sequence, StoreError> {
        Ok(Sequence(self.number(HIGH_WATER)?.unwrap_or(0)))
    }

    /// The number up to which the log has been trimmed away.
    pub fn trimmed(&self) -> Result<Sequence, StoreError> {
        Ok(Sequence(self.number(TRIMMED)?.unwrap_or(0)))
    }

    /// The changes after `after`, in order. The log must not have been trimmed past it.
    pub fn changes_after(
        &self,
        after: Sequence,
    ) -> impl Iterator<Item = Result<(Sequence, Change), StoreError>> + use<> {
        self.log_entries()
            .flat_map(|entry| match entry {
                Ok((first, changes)) => changes
                    .into_iter()
                    .zip(first.0..)
                    .map(|(change, number)| Ok((Sequence(number), change)))
                    .collect::<Vec<_>>(),
                Err(error) => vec![Err(error)],
            })
            .filter(move |change| change.as_ref().map_or(true, |(number, _)| *number > after))
    }

    /// A batch of changes to be committed together.
    pub fn batch(&self) -> Result<Batch<'_>, StoreError> {
        Ok(Batch::new(self, self.high_water()?))
    }

    /// Deletes log entries whose changes all have numbers up to `through`.
    pub fn trim_log(&self, through: Sequence) -> Result<(), StoreError> {
        let mut batch = self.db.batch();
        let mut trimmed = None;
        for entry in self.log_entries() {
            let (first, changes) = entry?;
            let last = Sequence(first.0 + changes.len() as u64 - 1);
            if last > through {
                break;
            }
            batch.remove(&self.log, first.0.to_be_bytes());
            trimmed = Some(last);
        }
        if let Some(last) = trimmed {
            batch.insert(&self.meta, TRIMMED, last.0.to_be_bytes());
            batch.commit()?;
        }
        Ok(())
    }

    /// Sweeps up to `most` rows of a deleted collection and all that points to them; whether it is done.
    pub fn sweep(&self, collection: CollectionId, most: usize) -> Result<bool, StoreError> {
        let prefix = codec::collection_prefix(collection);
        let mut batch = self.db.batch();
        for keyspace in [&self.rows, &self.postings, &self.bearers] {
            for entry in keyspace.prefix(prefix).take(most) {
                batch.remove(keyspace, entry.key()?);
            }
        }
        let done = batch.is_empty();
        if done {
            batch.remove(&self.meta, codec::garbage_key(collection));
            batch.remove(&self.meta, codec::documents_key(collection));
        }
        batch.commit()?;
        Ok(done)
    }

    /// The bytes it occupies on the disk.
    pub fn disk_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.db.disk_space()?)
    }

    fn number(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>, StoreError> {
        self.meta.get(key)?.map(|value| codec::read_number(&value)).transpose()
    }

    fn log_entries(&self) -> impl Iterator<Item = Result<(Sequence, Vec<Change>), StoreError>> + use<> {
        self.log.iter().map(|entry| {
            let (key, value) = entry.into_inner()?;
            Ok((Sequence(codec::read_number(&key)?), codec::read_changes(&value)?))
        })
    }

    /// Invariant: from the trim mark to the high-water mark, every number is there.
    fn check_log(&self) -> Result<(), StoreError> {
        let mut last = self.trimmed()?;
        for entry in self.log_entries() {
            let (first, changes) = entry?;
            if first != last.next() {
                return Err(StoreError::LogGap { after: last, found: first });
            }
            last = Sequence(last.0 + changes.len() as u64);
        }
        let mark = self.high_water()?;
        if last == mark { Ok(()) } else { Err(StoreError::LogEnd { last, mark }) }
    }
}

/// Postings are small and read one by one, most of them there: a shallow memtable, and tables whose indexes,
/// filters and places in a block are at hand.
fn point_reads() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(POSTINGS_MEMTABLE)
        .expect_point_read_hits(true)
        .index_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .data_block_hash_ratio_policy(HashRatioPolicy::all(1.0))
        .data_block_compression_policy(CompressionPolicy::disabled())
}

/// Rows may carry texts of a megabyte: those live beside the tree, so that compaction need not copy them.
fn large_values() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .with_kv_separation(Some(KvSeparationOptions::default().separation_threshold(8 * 1024)))
}
