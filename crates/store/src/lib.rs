//! The durable store: collections, document rows, posting lists from hash to ids, and the history.
//!
//! ```text
//! DIR/LOCK        held by the process that has the store open
//! DIR/MANIFEST    the id of the store, and the first journal record that is needed
//! DIR/journal/    every batch until the trees have it on disk; the number of the last acknowledged record
//! DIR/meta/ rows/ postings/ shared/ log/ expiries/ grams/ shared_grams/ clusters/ marks/
//!                 the trees
//! ```
//!
//! *Invariants*
//! - 4: [`Batch::commit`] returns after the batch is on disk (fdatasync). A batch is stored whole or not at
//!   all, and no reader sees any of it earlier.
//! - No data is changed before it is verified: [`Store::open`] refuses a store in which a file is damaged,
//!   missing or older than the others. The error names the file, and the store stays as it is. Without
//!   [`StoreSettings::verify`] the content of tables and blob files is not checked.
//! - The history is contiguous: the change after sequence number s is s + 1. Each batch stores the number of
//!   its last change as the high-water mark; [`Store::open`] refuses a history with a gap.
//!
//! One task at a time may write; any number may read. Calls block: keep them off the async workers.
//!
//! *Absent*: neighbours, fingerprints, HTTP, and any wall clock.

#![deny(unreachable_pub)]

pub mod backup;

mod batch;
mod blocks;
mod cluster_records;
mod clusters;
mod codec;
mod compaction;
mod copy;
mod digest;
mod error;
mod hidden;
mod journal;
mod keeper;
mod leftovers;
mod lifetime;
mod lock;
mod log_position;
mod manifest;
mod marks;
mod pace;
mod pointer;
mod records;
mod rehashed;
mod room;
mod salvage;
mod trees;
mod unsent;
mod verify;
mod view;
mod weights;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use lsm_tree::{AbstractTree, Guard, IterGuardImpl, SeqNo};
use parking_lot::Mutex;

pub use batch::Batch;
pub use cluster_records::{
    Cluster, ClusterState, Clustered, Copies, CopiesOf, Membership, Part, PartOf, Queued, Rank, Task,
};
pub use clusters::{ClusterChanges, ClusterPlace, Clusters};
pub use copy::CopyError;
pub use digest::Digest;
pub use error::StoreError;
pub use hidden::HiddenRecord;
pub use lifetime::Lifetime;
pub use lock::wait_until_closed;
pub use log_position::LogPosition;
pub use marks::{MarkCounts, MarksOf};
pub use records::{
    Change, CollectionRecord, CollectionSettings, Expiry, Lists, Posting, PostingList, Row, RowHead,
};
pub use salvage::{Loss, LostPart, Salvage, SalvagedRow};
pub use verify::Verified;
pub use view::View;
pub use weights::{Weights, made_by};

use codec::{HIGH_WATER, TRIMMED};
use journal::Journal;
use keeper::{Core, Keeper};
use lock::{lock, lock_to_read};
use lookalike_hash::{CollectionId, Hash, Sequence};
use manifest::Manifest;
use room::Room;
use trees::{NAMES, Tree, Trees, Writes};

/// Number of files in a full journal. Records that are no longer needed are deleted a file at a time.
const FILES: u64 = 8;
/// Bytes of a file of the journal.
const LEAST_FILE: u64 = 16 << 10;
const MOST_FILE: u64 = 8 << 20;
/// The disk reserve holds this many files, unless that makes a file smaller than `LEAST_OF_RESERVE`.
const FILES_IN_RESERVE: u64 = 4;
const LEAST_OF_RESERVE: u64 = 256 << 10;

/// Settings of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreSettings {
    /// Bytes of the cache of blocks read from disk.
    pub cache_bytes: u64,
    /// Bytes of the disk that must be free for writes to be accepted, at most a tenth of the disk.
    pub reserve_bytes: u64,
    /// Bytes of the journal after which memtables are flushed, at least 64 KiB. A start replays as many.
    pub journal_bytes: u64,
    /// Whether all files are compared with their checksums before the store is used.
    pub verify: bool,
}

/// The store in its own directory.
pub struct Store {
    core: Arc<Core>,
    /// `None` after [`Store::close`].
    keeper: Mutex<Option<Keeper>>,
}

impl Store {
    /// Opens the store in `dir`, or creates one there with the id `new`, which no other store should have.
    ///
    /// # Errors
    /// [`StoreError`] if the directory cannot be used, another process holds it, or anything in it is
    /// damaged. In that case no data was changed.
    pub fn open(dir: &Path, settings: StoreSettings, new: Option<u64>) -> Result<Store, StoreError> {
        let failed = |action| move |source| StoreError::io(dir, action, source);
        if new.is_some() {
            fs::create_dir_all(dir).map_err(failed("made"))?;
        }
        let lock = lock(dir)?;
        let manifest = match (Manifest::read(dir)?, new) {
            (Some(manifest), _) => manifest,
            (None, Some(number)) if !journal::has_files(&dir.join("journal")) => make(dir, settings, number)?,
            (None, _) => return Err(verify::missing(&Manifest::path(dir))),
        };
        let journal_dir = dir.join("journal");
        if settings.verify {
            let mut flaws = Vec::new();
            let verified = verify::verify(dir, &manifest, &mut |flaw| flaws.push(flaw));
            if !flaws.is_empty() {
                let what = if flaws.iter().all(StoreError::is_refused) {
                    "files of the store may not be read; `lookalike verify` lists them"
                } else {
                    "the store is damaged; `lookalike verify` lists every place"
                };
                tracing::error!(flaws = flaws.len(), "{what}");
                return Err(flaws.swap_remove(0));
            }
            tracing::debug!(files = verified.files, bytes = verified.bytes, "the store was verified");
        }
        for path in verify::leftovers(dir) {
            fs::remove_file(&path).map_err(|source| StoreError::io(&path, "deleted", source))?;
        }
        let trees = Trees::open(dir, settings.cache_bytes)?;
        let mut replayed = 0u64;
        let scan = journal::scan(&journal_dir, manifest.store, manifest.replay_from, |_, seqno, payload| {
            replayed += 1;
            trees.replay(seqno, payload)
        })?;
        if replayed > 0 {
            tracing::info!(batches = replayed, "the journal was replayed");
        }
        let room = Room::new(dir.to_path_buf(), settings.reserve_bytes);
        // The reserve must hold the next file of the journal, or writes would be refused before the reserve
        // is reached.
        let most = (room.reserve() / FILES_IN_RESERVE).clamp(LEAST_OF_RESERVE, MOST_FILE);
        let file_bytes = (settings.journal_bytes / FILES).clamp(LEAST_FILE, most);
        let journal = Journal::open(&journal_dir, manifest.store, file_bytes, scan)?;
        let core = Arc::new(Core::new(
            dir.to_path_buf(),
            &manifest,
            trees,
            journal,
            room,
            settings.journal_bytes,
            lock,
        ));
        let store = Store { core: Arc::clone(&core), keeper: Mutex::new(None) };
        store.check_history()?;
        *store.keeper.lock() = Some(Keeper::start(core).map_err(failed("opened: it cannot start a thread"))?);
        Ok(store)
    }

    /// Verifies the store in `dir` without changing it, and passes every flaw to `found`.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if the store is in use.
    pub fn verify(dir: &Path, found: &mut dyn FnMut(StoreError)) -> Result<Verified, StoreError> {
        // The lock is held to the end. A directory that cannot be locked, or has no lock file, is verified
        // as well.
        let (_lock, unlocked) = match lock_to_read(dir) {
            Ok(lock) => (Some(lock), None),
            Err(error @ StoreError::Locked(_)) => return Err(error),
            Err(error) => (None, Some(error)),
        };
        let verified = Store::verify_files(dir, found);
        Ok(Verified { unlocked, ..verified })
    }

    fn verify_files(dir: &Path, found: &mut dyn FnMut(StoreError)) -> Verified {
        match Manifest::read(dir) {
            Ok(Some(manifest)) => verify::verify(dir, &manifest, found),
            Ok(None) => {
                found(StoreError::Damage {
                    path: Manifest::path(dir),
                    offset: 0,
                    what: "it is missing".to_owned(),
                });
                Verified::default()
            }
            Err(flaw) => {
                found(flaw);
                Verified::default()
            }
        }
    }

    /// Flushes the memtables, so that the next start replays nothing, and stops the threads. The caller
    /// must not write afterwards.
    pub fn close(&self) {
        drop(self.keeper.lock().take());
        self.core.journal.lock().end_file();
        if self.core.failure().is_none()
            && let Err(error) = self.core.checkpoint()
        {
            tracing::warn!(%error, "the memtables were not flushed; the next start replays the journal");
        }
    }

    /// Flushes the memtables in the background. Call it when memory is scarce.
    pub fn relieve(&self) {
        self.core.relieve();
    }

    /// Checks that the disk has space for more writes.
    ///
    /// # Errors
    /// [`StoreError::Full`] if it does not.
    pub fn check_room(&self) -> Result<(), StoreError> {
        self.core.check_room()
    }

    /// The reason why no more writes are accepted until the store is opened again, if there is one.
    pub fn failure(&self) -> Option<String> {
        self.core.failure()
    }

    /// All collections.
    pub fn collections(&self) -> Result<Vec<CollectionRecord>, StoreError> {
        self.prefix(Tree::Meta, codec::COLLECTION)
            .map(|entry| codec::read_collection(&entry.value()?))
            .collect()
    }

    /// The number for the next collection: one more than the largest number ever assigned.
    pub fn next_collection_id(&self) -> Result<CollectionId, StoreError> {
        Ok(CollectionId(self.number(codec::LAST_COLLECTION)?.map_or(0, |last| last as u32) + 1))
    }

    /// Deleted collections that still have rows to sweep.
    pub fn garbage(&self) -> Result<Vec<CollectionId>, StoreError> {
        self.prefix(Tree::Meta, codec::GARBAGE).map(|entry| codec::read_garbage_key(&entry.key()?)).collect()
    }

    /// The number of documents in a collection.
    pub fn documents(&self, collection: CollectionId) -> Result<u64, StoreError> {
        Ok(self.number(codec::documents_key(collection))?.unwrap_or(0))
    }

    /// The last time that a commit recorded, in milliseconds since 1970-01-01 UTC.
    pub fn recorded_time(&self) -> Result<u64, StoreError> {
        Ok(self.number(codec::CLOCK)?.unwrap_or(0))
    }

    /// The expiry entries, earliest first, including those of deleted collections. The caller guarantees
    /// that there is no entry before `from_ms`; starting there skips the tombstones of entries that were
    /// deleted.
    pub fn expiries(&self, from_ms: u64) -> impl Iterator<Item = Result<Expiry, StoreError>> + use<> {
        let expiries = self.core.trees.tree(Tree::Expiries);
        let from = from_ms.to_be_bytes()..;
        let entries = self.core.trees.views.at_newest(|now| expiries.range(from, now, None));
        entries.map(|entry| codec::read_expiry_key(&entry.key()?))
    }

    /// A view of the rows and postings in their current state. Later writes do not change it.
    pub fn view(&self) -> View<'_> {
        View::new(self)
    }

    /// Every distinct hash of a collection, ascending, read from the store alone.
    pub fn hashes(&self, of: &CollectionRecord) -> impl Iterator<Item = Result<Hash, StoreError>> + use<> {
        let bytes = of.settings.width.bytes();
        let entries = self.prefix(Tree::PostingLists, codec::collection_prefix(of.id));
        entries.map(move |entry| codec::read_posting_list_hash(&entry.key()?, bytes))
    }

    /// Every hash of a collection that several documents have, ascending, with their number.
    pub fn shared_hashes(
        &self,
        of: &CollectionRecord,
    ) -> impl Iterator<Item = Result<(Hash, u64), StoreError>> + use<> {
        let bytes = of.settings.width.bytes();
        let entries = self.prefix(Tree::PostingLists, codec::collection_prefix(of.id));
        let read = move |entry: IterGuardImpl| {
            let (key, value) = entry.into_inner()?;
            match codec::read_posting_list(&value)? {
                PostingList::One(_) => Ok(None),
                PostingList::Many(documents) => {
                    Ok(Some((codec::read_posting_list_hash(&key, bytes)?, documents)))
                }
            }
        };
        entries.map(read).filter_map(Result::transpose)
    }

    /// The number of the last durable change.
    pub fn high_water(&self) -> Result<Sequence, StoreError> {
        Ok(Sequence(self.number(HIGH_WATER)?.unwrap_or(0)))
    }

    /// The number of the last change that was trimmed from the history.
    pub fn trimmed(&self) -> Result<Sequence, StoreError> {
        Ok(Sequence(self.number(TRIMMED)?.unwrap_or(0)))
    }

    /// The changes after `after`, in order. The history must not be trimmed past `after`.
    pub fn changes_after(
        &self,
        after: Sequence,
    ) -> impl Iterator<Item = Result<(Sequence, Change), StoreError>> + use<> {
        self.history()
            .flat_map(|part| match part {
                Ok((first, changes)) => changes
                    .into_iter()
                    .zip(first.0..)
                    .map(|(change, number)| Ok((Sequence(number), change)))
                    .collect::<Vec<_>>(),
                Err(error) => vec![Err(error)],
            })
            .filter(move |change| change.as_ref().map_or(true, |(number, _)| *number > after))
    }

    /// An empty batch, for changes that are committed together.
    pub fn batch(&self) -> Result<Batch<'_>, StoreError> {
        Ok(Batch::new(self, self.high_water()?))
    }

    /// Deletes the parts of the history whose changes all have numbers up to `through`.
    pub fn trim_history(&self, through: Sequence) -> Result<(), StoreError> {
        let mut writes = Writes::default();
        let mut trimmed = None;
        for part in self.history() {
            let (first, changes) = part?;
            let last = Sequence(first.0 + changes.len() as u64 - 1);
            if last > through {
                break;
            }
            writes.remove(Tree::History, first.0.to_be_bytes());
            trimmed = Some(last);
        }
        if let Some(last) = trimmed {
            writes.insert(Tree::Meta, TRIMMED, last.0.to_be_bytes());
            self.core.commit(&writes, || ())?;
        }
        Ok(())
    }

    /// Sweeps up to `most` rows of a deleted collection, and up to `most` entries of each tree that refers
    /// to them. Returns whether nothing is left.
    pub fn sweep(&self, collection: CollectionId, most: usize) -> Result<bool, StoreError> {
        let garbage = self.core.trees.tree(Tree::Meta).get(codec::garbage_key(collection), SeqNo::MAX)?;
        let Some(width) = garbage else {
            return Ok(true);
        };
        let width = codec::read_width(&width)?;
        let prefix = codec::collection_prefix(collection);
        let mut writes = Writes::default();
        for entry in self.prefix(Tree::Rows, prefix).take(most) {
            writes.remove(Tree::Rows, entry.key()?);
        }
        // Expiry entries are stored by time. The postings have the times.
        let mut remove = |tree: Tree, key: &[u8], posting: Option<&Posting>| {
            if let Some(Posting { id, expires_ms: Some(at_ms), .. }) = posting {
                writes.remove(Tree::Expiries, codec::expiry_key(collection, *at_ms, id));
            }
            writes.remove(tree, key);
        };
        for lists in Lists::ALL {
            for entry in self.prefix(lists.tree(), prefix).take(most) {
                let (key, value) = entry.into_inner()?;
                match codec::read_posting_list(&value)? {
                    PostingList::One(posting) => remove(lists.tree(), &key, Some(&posting)),
                    PostingList::Many(_) => remove(lists.tree(), &key, None),
                }
            }
            let width = lists.width(width);
            for entry in self.prefix(lists.shared_tree(), prefix).take(most) {
                let (key, value) = entry.into_inner()?;
                let posting = codec::read_posting(codec::read_posting_id(&key, width)?, &value)?;
                remove(lists.shared_tree(), &key, Some(&posting));
            }
        }
        for tree in [Tree::Clusters, Tree::Marks] {
            for entry in self.prefix(tree, prefix).take(most) {
                writes.remove(tree, entry.key()?);
            }
        }
        let done = writes.is_empty();
        if done {
            writes.remove_twice(&codec::garbage_key(collection));
            writes.remove(Tree::Meta, codec::documents_key(collection));
            writes.remove(Tree::Meta, codec::digest_key(collection));
            writes.remove(Tree::Meta, codec::mark_counts_key(collection));
        }
        self.core.commit(&writes, || ())?;
        Ok(done)
    }

    /// Deletes expiry entries of deleted collections. They may precede entries of other collections long
    /// before [`Store::sweep`] reaches them.
    pub fn drop_expiries(&self, dead: &[Expiry]) -> Result<(), StoreError> {
        let mut writes = Writes::default();
        for Expiry { at_ms, collection, id } in dead {
            writes.remove(Tree::Expiries, codec::expiry_key(*collection, *at_ms, id));
        }
        self.core.commit(&writes, || ())
    }

    /// Changes clusters, without a change of documents.
    pub fn change_clusters(&self, changes: &ClusterChanges) -> Result<(), StoreError> {
        let mut writes = Writes::default();
        writes.change_clusters(changes);
        self.core.commit(&writes, || ())
    }

    /// The bytes that the store occupies on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.core.trees.disk_bytes() + self.core.journal.lock().bytes()
    }

    fn number(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>, StoreError> {
        let value = self.core.trees.tree(Tree::Meta).get(key, SeqNo::MAX)?;
        value.map(|value| codec::read_number(&value)).transpose()
    }

    /// The entries whose keys begin with `prefix`, in the newest state.
    fn prefix<P: AsRef<[u8]>>(&self, tree: Tree, prefix: P) -> impl Iterator<Item = IterGuardImpl> + use<P> {
        let tree = self.core.trees.tree(tree);
        self.core.trees.views.at_newest(|now| tree.prefix(prefix, now, None))
    }

    /// The history: the changes of each batch, with the number of the first.
    fn history(&self) -> impl Iterator<Item = Result<(Sequence, Vec<Change>), StoreError>> + use<> {
        self.prefix(Tree::History, b"").map(|entry| {
            let (key, value) = entry.into_inner()?;
            Ok((Sequence(codec::read_number(&key)?), codec::read(&value, "history")?))
        })
    }

    /// Invariant: the history has every number after the trimmed ones to the last durable one.
    fn check_history(&self) -> Result<(), StoreError> {
        let mut last = self.trimmed()?;
        for part in self.history() {
            let (first, changes) = part?;
            if first != last.next() {
                return Err(StoreError::HistoryGap { after: last, found: first });
            }
            last = Sequence(last.0 + changes.len() as u64);
        }
        let high_water = self.high_water()?;
        if last == high_water { Ok(()) } else { Err(StoreError::HistoryEnd { last, high_water }) }
    }
}

/// Creates an empty store. The manifest is written last, so a store that has one is complete.
fn make(dir: &Path, settings: StoreSettings, store: u64) -> Result<Manifest, StoreError> {
    // Remains of an earlier attempt that crashed: nothing in them was ever acknowledged.
    for name in NAMES.iter().chain(&["journal"]) {
        let path = dir.join(name);
        if path.exists() {
            fs::remove_dir_all(&path).map_err(|source| StoreError::io(&path, "deleted", source))?;
        }
    }
    let journal = dir.join("journal");
    Journal::create(&journal, store).map_err(|source| StoreError::write(&journal, source))?;
    let trees = Trees::open(dir, settings.cache_bytes)?;
    let manifest = Manifest { store, replay_from: 1, versions: trees.versions() };
    drop(trees);
    manifest.write(dir)?;
    Ok(manifest)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
