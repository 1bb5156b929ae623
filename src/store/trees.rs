//! The trees: six log-structured merge trees that hold what the journal said, each sorted by its keys.
//!
//! *Invariants*
//! - A batch is seen whole or not at all: it is written under one number, and views look no further than the last number
//!   that is in the trees whole. One thread at a time writes.
//! - A tree's memtable is closed between two batches only, so what a tree has on disk is everything up to some batch.
//!   That is why replaying the journal may leave out, tree by tree, what the tree already has.

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

use super::codec::COPY;
use super::error::StoreError;
use super::pace::{Pace, Paced};
use super::views::Views;

/// How many trees there are.
pub(super) const TREES: usize = 6;
/// Their names, which are their directories, in the order of [`Tree`].
pub(super) const NAMES: [&str; TREES] = ["meta", "rows", "postings", "shared", "log", "expiries"];

/// Bytes of recent entries in memory, tree by tree. A skip list of a few megabytes stays in the processor's cache; one of
/// 64 costs a lookup of a posting list three microseconds.
const MEMTABLES: [u64; TREES] = [4 << 20, 32 << 20, 4 << 20, 8 << 20, 8 << 20, 8 << 20];
/// Open files kept at hand.
const FILES: usize = 512;
/// Values from this size on lie beside the tree, so that compaction need not copy texts of a megabyte.
const SEPARATE: u32 = 8 * 1024;
/// A compaction writes the live values of a blob file elsewhere if this share of it is dead, and all of its tables take
/// part. The default leaves out the younger three quarters of such files, so few files would never be cleared.
const DEAD_BLOBS: f32 = 0.1;

/// One of the trees. The number stands in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Tree {
    Meta = 0,
    Rows = 1,
    PostingLists = 2,
    SharedPostings = 3,
    Log = 4,
    Expiries = 5,
}

const ALL: [Tree; TREES] =
    [Tree::Meta, Tree::Rows, Tree::PostingLists, Tree::SharedPostings, Tree::Log, Tree::Expiries];

/// Writes to the trees, as the payload of a journal record.
///
/// ```text
/// each    u8 tree x 2 + 1 if a value follows   u16 length, key   (u32 length, value)
/// ```
#[derive(Default)]
pub(super) struct Writes(Vec<u8>);

impl Writes {
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

    /// Writes an entry of `meta` that tells of a collection, and its copy among the rows.
    pub(super) fn insert_twice(&mut self, key: &[u8], value: &[u8]) {
        self.insert(Tree::Meta, key, value);
        self.insert(Tree::Rows, [&COPY, key].concat(), value);
    }

    pub(super) fn remove_twice(&mut self, key: &[u8]) {
        self.remove(Tree::Meta, key);
        self.remove(Tree::Rows, [&COPY, key].concat());
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

/// The first write of a payload, which it is taken from.
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
    /// By which compactions go on, wait or give up.
    pub(super) pace: Arc<Pace>,
    /// Rows removed since a checkpoint.
    removed: AtomicU64,
}

impl Trees {
    /// Opens the trees below `dir`, or makes them there, with this many bytes of cache in all.
    pub(super) fn open(dir: &Path, cache_bytes: u64) -> Result<Trees, StoreError> {
        let cache = Arc::new(Cache::with_capacity_bytes(cache_bytes));
        let files = Arc::new(DescriptorTable::new(FILES));
        // Number 0 reads as "before everything".
        let seqno = SequenceNumberCounter::new(1);
        let pace = Arc::new(Pace::default());
        let mut trees = Vec::with_capacity(TREES);
        for tree in ALL {
            // The trees' own idea of what is visible is not used: it moves when a memtable is written out, which may be
            // in the middle of a batch.
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

    /// A number for the next batch.
    pub(super) fn next_seqno(&self) -> SeqNo {
        self.seqno.next()
    }

    /// Writes a batch and lets it be seen. One thread at a time.
    pub(super) fn apply(&self, seqno: SeqNo, payload: &[u8]) -> Result<(), StoreError> {
        self.write(seqno, payload, |_| true)
    }

    /// Writes a batch of the journal again, but for the trees that have it on disk.
    pub(super) fn replay(&self, seqno: SeqNo, payload: &[u8]) -> Result<(), StoreError> {
        self.seqno.fetch_max(seqno + 1);
        let lacks =
            self.all.each_ref().map(|tree| tree.get_highest_persisted_seqno().is_none_or(|has| has < seqno));
        self.write(seqno, payload, |tree| lacks[tree as usize])
    }

    fn write(
        &self,
        seqno: SeqNo,
        mut payload: &[u8],
        wanted: impl Fn(Tree) -> bool,
    ) -> Result<(), StoreError> {
        while !payload.is_empty() {
            let Write { tree, key, value } =
                next_write(&mut payload).ok_or(StoreError::Damaged("journal record"))?;
            if !wanted(tree) {
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

    /// Closes the memtables that have grown large, or all of them; whether there is one to be written out. Between two
    /// batches.
    pub(super) fn rotate(&self, all: bool) -> bool {
        let mut any = false;
        for (tree, most) in self.all.iter().zip(MEMTABLES) {
            if all || tree.active_memtable().size() > most {
                any |= tree.rotate_memtable().is_some();
            }
        }
        any
    }

    /// Rows removed that [`Trees::forget_removed`] was not told of: memory and the journal have them still.
    pub(super) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    /// So many removed rows are written out.
    pub(super) fn forget_removed(&self, rows: u64) {
        self.removed.fetch_sub(rows, Ordering::Relaxed);
    }

    /// The versions that are on disk.
    pub(super) fn versions(&self) -> [u64; TREES] {
        self.all.each_ref().map(|tree| tree.current_version().id())
    }

    /// The most overlapping tables that a tree has.
    pub(super) fn runs(&self) -> usize {
        self.all.iter().map(AbstractTree::l0_run_count).max().unwrap_or(0)
    }

    /// The bytes on disk.
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
            let apart = KvSeparationOptions::default().separation_threshold(SEPARATE);
            config.with_kv_separation(Some(apart.staleness_threshold(DEAD_BLOBS).age_cutoff(1.0)))
        }
        // Posting lists are small and read one by one, most of them there: tables whose indexes, filters and places in a
        // block are at hand.
        Tree::PostingLists => config
            .expect_point_read_hits(true)
            .index_block_pinning_policy(PinningPolicy::all(true))
            .filter_block_pinning_policy(PinningPolicy::all(true))
            .data_block_hash_ratio_policy(HashRatioPolicy::all(1.0))
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::None)),
        Tree::Meta | Tree::SharedPostings | Tree::Log | Tree::Expiries => config,
    }
}
