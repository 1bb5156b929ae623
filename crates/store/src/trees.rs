//! The trees: ten log-structured merge trees that hold all data, each sorted by its keys. The journal has
//! what they do not have on disk yet.
//!
//! *Invariants*
//! - A batch is visible whole or not at all: it is written under one sequence number, and a view reads only
//!   up to the last sequence number whose batch is in the trees whole. One thread at a time writes.
//! - The memtable of a tree is sealed only between two batches, so a tree has on disk every batch up to
//!   some number. Replay therefore skips, for each tree, the batches that the tree already has.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lsm_tree::config::{
    BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, HashRatioPolicy,
    PinningPolicy, RestartIntervalPolicy,
};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, KvSeparationOptions, SeqNo,
    SequenceNumberCounter,
};

use super::clusters::ClusterChanges;
use super::codec::COPY;
use super::error::StoreError;
use super::pace::{Pace, Paced};
use super::records::Lists;
use super::view::Views;
use lookalike_hash::Width;

/// The number of trees.
pub(super) const TREES: usize = 10;
/// Their names, which are the names of their directories, in the order of [`Tree`].
pub(super) const NAMES: [&str; TREES] =
    ["meta", "rows", "postings", "shared", "log", "expiries", "grams", "shared_grams", "clusters", "marks"];

/// Bytes at which a memtable is sealed, for each tree. A skip list of a few megabytes stays in the
/// processor's cache; with one of 64 MiB a lookup of a posting list takes three microseconds longer.
const MEMTABLES: [u64; TREES] =
    [4 << 20, 32 << 20, 4 << 20, 8 << 20, 8 << 20, 8 << 20, 16 << 20, 8 << 20, 8 << 20, 8 << 20];
/// Files kept open.
const FILES: usize = 512;
/// Values of at least this many bytes are stored in blob files, so that compaction does not copy texts of a
/// megabyte.
const SEPARATE: u32 = 8 * 1024;
/// A compaction rewrites the live values of a blob file if this share of the file is dead. Every blob file
/// takes part: the default excludes the younger three quarters of such files, and a tree with few files
/// would never be cleaned.
const DEAD_BLOBS: f32 = 0.1;

/// One of the trees. The journal stores the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Tree {
    Meta = 0,
    Rows = 1,
    PostingLists = 2,
    SharedPostings = 3,
    History = 4,
    Expiries = 5,
    GramLists = 6,
    SharedGrams = 7,
    Clusters = 8,
    Marks = 9,
}

pub(super) const ALL: [Tree; TREES] = [
    Tree::Meta,
    Tree::Rows,
    Tree::PostingLists,
    Tree::SharedPostings,
    Tree::History,
    Tree::Expiries,
    Tree::GramLists,
    Tree::SharedGrams,
    Tree::Clusters,
    Tree::Marks,
];

impl Lists {
    /// Both kinds.
    pub(super) const ALL: [Lists; 2] = [Lists::Hashes, Lists::Grams];

    /// The tree of the lists.
    pub(super) fn tree(self) -> Tree {
        match self {
            Lists::Hashes => Tree::PostingLists,
            Lists::Grams => Tree::GramLists,
        }
    }

    /// The tree of the postings in lists of several documents.
    pub(super) fn shared_tree(self) -> Tree {
        match self {
            Lists::Hashes => Tree::SharedPostings,
            Lists::Grams => Tree::SharedGrams,
        }
    }

    /// The width of the keys, in a collection with hashes of this width.
    pub(super) fn width(self, hashes: Width) -> Width {
        match self {
            Lists::Hashes => hashes,
            Lists::Grams => Width::Bits64,
        }
    }
}

/// Writes to the trees, as the payload of a journal record.
///
/// ```text
/// each    u8 tree x 2 + 1 if a value follows   u16 length, key   (u32 length, value)
/// ```
#[derive(Default)]
pub(super) struct Writes(Vec<u8>);

impl Writes {
    /// Writes that were written as a payload before.
    pub(super) fn of(payload: Vec<u8>) -> Writes {
        Writes(payload)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn insert(&mut self, tree: Tree, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.key(tree as u8 * 2 + 1, key.as_ref());
        let value = value.as_ref();
        let length = u32::try_from(value.len()).expect("values are bounded by the size of a request");
        self.0.extend(length.to_le_bytes());
        self.0.extend(value);
    }

    pub(super) fn remove(&mut self, tree: Tree, key: impl AsRef<[u8]>) {
        self.key(tree as u8 * 2, key.as_ref());
    }

    /// Writes an entry of `meta` that describes a collection, and its copy in the tree of rows.
    pub(super) fn insert_twice(&mut self, key: &[u8], value: &[u8]) {
        self.insert(Tree::Meta, key, value);
        self.insert(Tree::Rows, [&COPY, key].concat(), value);
    }

    pub(super) fn remove_twice(&mut self, key: &[u8]) {
        self.remove(Tree::Meta, key);
        self.remove(Tree::Rows, [&COPY, key].concat());
    }

    pub(super) fn change_clusters(&mut self, changes: &ClusterChanges) {
        for (key, value) in &changes.0 {
            match value {
                Some(value) => self.insert(Tree::Clusters, key, value),
                None => self.remove(Tree::Clusters, key),
            }
        }
    }

    fn key(&mut self, code: u8, key: &[u8]) {
        let length = u16::try_from(key.len()).expect("keys are bounded by the length of an id");
        self.0.push(code);
        self.0.extend(length.to_le_bytes());
        self.0.extend(key);
    }
}

/// One write.
pub(super) struct Write<'a> {
    pub(super) tree: Tree,
    pub(super) key: &'a [u8],
    pub(super) value: Option<&'a [u8]>,
}

/// Takes the first write from a payload; `None` if the payload does not begin with one.
pub(super) fn next_write<'a>(payload: &mut &'a [u8]) -> Option<Write<'a>> {
    let (&code, rest) = payload.split_first()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (key, mut rest) = rest.split_at_checked(u16::from_le_bytes(*length) as usize)?;
    let mut value = None;
    if code % 2 == 1 {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (found, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        (value, rest) = (Some(found), after);
    }
    let tree = *ALL.get(code as usize / 2)?;
    *payload = rest;
    Some(Write { tree, key, value })
}

/// The trees of an open store.
pub(super) struct Trees {
    all: [AnyTree; TREES],
    seqno: SequenceNumberCounter,
    pub(super) views: Views,
    /// Tells compactions to continue, wait or stop.
    pub(super) pace: Arc<Pace>,
    /// Rows removed since the last checkpoint.
    removed: AtomicU64,
}

impl Trees {
    /// Opens the trees below `dir`, or creates them there. They share a cache of `cache_bytes`.
    pub(super) fn open(dir: &Path, cache_bytes: u64) -> Result<Trees, StoreError> {
        let cache = Arc::new(Cache::with_capacity_bytes(cache_bytes));
        let files = Arc::new(DescriptorTable::new(FILES));
        // Sequence number 0 reads as "before everything".
        let seqno = SequenceNumberCounter::new(1);
        let pace = Arc::new(Pace::default());
        let mut trees = Vec::with_capacity(TREES);
        for tree in ALL {
            // The visibility counter of `lsm-tree` is not used: it advances when a memtable is flushed,
            // which may be in the middle of a batch.
            let config =
                Config::new(dir.join(NAMES[tree as usize]), seqno.clone(), SequenceNumberCounter::default())
                    .use_cache(Arc::clone(&cache))
                    .use_descriptor_table(Some(Arc::clone(&files)));
            let mut config = configured(tree, config);
            config.compaction_filter_factory = Some(Arc::new(Paced(Arc::clone(&pace))));
            trees.push(config.open()?);
        }
        let trees: [AnyTree; TREES] = trees.try_into().ok().expect("each was opened");
        let highest = trees.iter().filter_map(AbstractTree::get_highest_seqno).max().unwrap_or_default();
        seqno.fetch_max(highest + 1);
        let views = Views::new(seqno.get());
        Ok(Trees { all: trees, views, seqno, pace, removed: AtomicU64::new(0) })
    }

    /// The sequence number for the next batch.
    pub(super) fn next_seqno(&self) -> SeqNo {
        self.seqno.next()
    }

    /// Writes a batch and makes it visible. Only one thread at a time may call it.
    pub(super) fn apply(&self, seqno: SeqNo, payload: &[u8]) -> Result<(), StoreError> {
        self.write(seqno, payload, |_| true)
    }

    /// Replays a batch of the journal into the trees that do not have it on disk.
    pub(super) fn replay(&self, seqno: SeqNo, payload: &[u8]) -> Result<(), StoreError> {
        self.seqno.fetch_max(seqno + 1);
        let is_missing =
            self.all.each_ref().map(|tree| tree.get_highest_persisted_seqno().is_none_or(|has| has < seqno));
        self.write(seqno, payload, |tree| is_missing[tree as usize])
    }

    fn write(
        &self,
        seqno: SeqNo,
        mut payload: &[u8],
        includes: impl Fn(Tree) -> bool,
    ) -> Result<(), StoreError> {
        while !payload.is_empty() {
            let Write { tree, key, value } =
                next_write(&mut payload).ok_or(StoreError::Damaged("journal record"))?;
            if !includes(tree) {
                continue;
            }
            if let Some(value) = value {
                self.all[tree as usize].insert(key, value, seqno);
            } else {
                self.removed.fetch_add(u64::from(tree == Tree::Rows), Ordering::Relaxed);
                self.all[tree as usize].remove(key, seqno);
            }
        }
        self.views.publish(seqno);
        Ok(())
    }

    pub(super) fn tree(&self, tree: Tree) -> &AnyTree {
        &self.all[tree as usize]
    }

    pub(super) fn all(&self) -> &[AnyTree; TREES] {
        &self.all
    }

    /// Seals the memtables that are over their size, or all of them. Returns whether one was sealed. Call
    /// it only between two batches.
    pub(super) fn rotate(&self, all: bool) -> bool {
        let mut any = false;
        for (tree, most) in self.all.iter().zip(MEMTABLES) {
            if all || tree.active_memtable().size() > most {
                any |= tree.rotate_memtable().is_some();
            }
        }
        any
    }

    /// Removed rows that [`Trees::forget_removed`] has not subtracted yet: the memtables and the journal
    /// still have them.
    pub(super) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    /// Subtracts `rows` from the removed rows, after they were flushed.
    pub(super) fn forget_removed(&self, rows: u64) {
        self.removed.fetch_sub(rows, Ordering::Relaxed);
    }

    /// The current version of each tree.
    pub(super) fn versions(&self) -> [u64; TREES] {
        self.all.each_ref().map(|tree| tree.current_version().id())
    }

    /// The largest number of overlapping tables in a tree.
    pub(super) fn runs(&self) -> usize {
        self.all.iter().map(AbstractTree::l0_run_count).max().unwrap_or(0)
    }

    /// The bytes of all trees on disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.all.iter().map(AbstractTree::disk_space).sum()
    }
}

fn configured(tree: Tree, config: Config) -> Config {
    let config = config
        .data_block_restart_interval_policy(RestartIntervalPolicy::new([10, 16]))
        .data_block_compression_policy(CompressionPolicy::new([
            CompressionType::None,
            CompressionType::None,
            CompressionType::Lz4,
        ]))
        .filter_policy(FilterPolicy::new([
            FilterPolicyEntry::Bloom(BloomConstructionPolicy::FalsePositiveRate(0.0001)),
            FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0)),
        ]));
    match tree {
        Tree::Rows => {
            let separation = KvSeparationOptions::default().separation_threshold(SEPARATE);
            config.with_kv_separation(Some(separation.staleness_threshold(DEAD_BLOBS).age_cutoff(1.0)))
        }
        // Most grams of a text are in no other one, so the filters stay in memory.
        Tree::GramLists => config.filter_block_pinning_policy(PinningPolicy::all(true)),
        // Posting lists are small and read one at a time, and most lookups hit. So the indexes and filters
        // of the tables stay in memory, and each block has a hash index.
        Tree::PostingLists => config
            .expect_point_read_hits(true)
            .index_block_pinning_policy(PinningPolicy::all(true))
            .filter_block_pinning_policy(PinningPolicy::all(true))
            .data_block_hash_ratio_policy(HashRatioPolicy::all(1.0))
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::None)),
        Tree::Meta
        | Tree::SharedPostings
        | Tree::History
        | Tree::Expiries
        | Tree::SharedGrams
        | Tree::Clusters
        | Tree::Marks => config,
    }
}
