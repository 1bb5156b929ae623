//! The index: distinct hashes in one table a block, shared by any number of readers and writers.
//!
//! *Invariants* (the numbers are those of `ARCHITECTURE.md`)
//! - 2: a hash is in the index once. Inserting it again changes nothing.
//! - 3: every answer equals the linear scan's, for every k from 0 to the width. A hash that is in the index
//!   from before a query begins until after it ends is found; one that is not there at any moment of the
//!   query is not. One that comes or goes meanwhile may or may not be found.
//!
//! # Locks
//! Two kinds, always in this order:
//! 1. a writer's stripe, chosen by the hash: writers of one hash take turns, because a hash is filed in
//!    several tables and an insertion overtaken by a removal of the same hash would leave it in some;
//! 2. buckets (see [`super::table`]): a reader holds at most one of each table, tables ascending; a writer
//!    one at a time, or, while a directory deepens, all of one level of one segment, ascending. Nobody who
//!    holds a bucket waits for one that comes before it, so nobody waits in a circle, whichever of readers
//!    and writers a lock prefers.
//!
//! Why a hash is never missed although its tables change one after the other: a reader that finds
//! it in a table reports it there only if no earlier table of its plan had to report it
//! ([`Plan::reports`]). Insertion goes through the tables in ascending order and so does removal; so a
//! hash that the reader missed in an earlier table was being inserted or removed during the query.
//!
//! *Absent*: which documents bear a hash (the store knows), ranking, and any blocking call.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::plan::{Plan, blocks};
use super::probe::{Touched, probe};
use super::scan::{Neighbour, scan};
use super::table::Table;
use crate::ids::Word;

/// Writers of hashes in different stripes do not wait for each other.
const STRIPES: usize = 64;

/// How a query was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The plan, or `None` if every hash was compared.
    pub plan: Option<Plan>,
    /// What was read on the way.
    pub touched: Touched,
}

/// The concurrent pigeonhole index over hashes of `W`.
///
/// ```
/// use lookalike::index::{Index, Neighbour};
/// let index = Index::<u64>::new();
/// index.insert(0b1011);
/// let mut found = Vec::new();
/// index.within(0b1000, 2, &mut found);
/// assert_eq!(found, [Neighbour { distance: 2, hash: 0b1011 }]);
/// ```
pub struct Index<W> {
    /// One for each block, the least significant block first.
    tables: Box<[Table<W>]>,
    stripes: Box<[Mutex<()>]>,
    len: AtomicUsize,
}

impl<W: Word> Default for Index<W> {
    fn default() -> Index<W> {
        Index::new()
    }
}

impl<W: Word> Index<W> {
    /// An empty index: some tens of kilobytes.
    pub fn new() -> Index<W> {
        Index {
            tables: (0..blocks::<W>()).map(|block| Table::new(block as u32)).collect(),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            len: AtomicUsize::new(0),
        }
    }

    /// Adds a hash; whether it is new.
    pub fn insert(&self, hash: W) -> bool {
        let _turn = self.stripe(hash).lock();
        if self.contains(hash) {
            return false;
        }
        for table in &self.tables {
            table.insert(hash);
        }
        self.len.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Removes a hash; whether it was there.
    pub fn remove(&self, hash: W) -> bool {
        let _turn = self.stripe(hash).lock();
        let mut there = false;
        for table in &self.tables {
            there = table.remove(hash);
            if !there {
                break;
            }
        }
        if there {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
        there
    }

    /// Whether the hash is stored.
    pub fn contains(&self, hash: W) -> bool {
        self.tables[0].contains(hash)
    }

    /// How many hashes it holds; while writers are at work, some number that was right a moment ago.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether it holds no hash.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends to `found` every stored hash within `k` bits of `query`, each once, in no order.
    ///
    /// `k` ranges from 0 to the width; a larger one means the width. Probes by the balanced plan, or
    /// compares every hash where that is expected to be cheaper.
    pub fn within(&self, query: W, k: u32, found: &mut Vec<Neighbour<W>>) -> Report {
        let k = k.min(W::WIDTH.bits());
        let plan = Plan::balanced::<W>(k);
        if plan.scan_is_cheaper(self.len()) {
            self.scan(query, k, found)
        } else {
            self.within_by(&plan, query, k, found)
        }
    }

    /// The same by a given plan, which must cover `k` (see [`Plan::with_radii`]).
    pub fn within_by(&self, plan: &Plan, query: W, k: u32, found: &mut Vec<Neighbour<W>>) -> Report {
        let touched = probe(&self.tables, plan, query, k, found);
        Report { plan: Some(*plan), touched }
    }

    /// The same by comparing every stored hash.
    pub fn scan(&self, query: W, k: u32, found: &mut Vec<Neighbour<W>>) -> Report {
        let mut touched = Touched::default();
        self.for_each_bucket(|bucket| {
            touched.probes += 1;
            touched.candidates += bucket.len() as u64;
            scan(bucket, query, k, found);
        });
        Report { plan: None, touched }
    }

    /// How many stored hashes lie at each distance from `query`, added to `counts`, which has a place for
    /// each distance from 0 to the width. Compares every hash.
    pub fn distances(&self, query: W, counts: &mut [u64]) {
        self.for_each_bucket(|bucket| {
            for &hash in bucket {
                counts[(hash ^ query).ones() as usize] += 1;
            }
        });
    }

    /// What [`Index::within`] is expected to cost, in units of one hash compared.
    pub fn cost(&self, k: u32) -> u64 {
        let hashes = self.len();
        Plan::balanced::<W>(k.min(W::WIDTH.bits())).cost(hashes).min(hashes as u64)
    }

    /// Calls `each` with every bucket of one table: every hash once. Writers wait for a bucket at a time.
    pub fn for_each_bucket(&self, mut each: impl FnMut(&[W])) {
        self.tables[0].segments().iter().for_each(|segment| segment.read_all(&mut each));
    }

    /// Calls `each` with the size of every bucket of every table.
    pub fn bucket_sizes(&self, mut each: impl FnMut(usize)) {
        let segments = self.tables.iter().flat_map(Table::segments);
        segments.for_each(|segment| segment.read_all(&mut |bucket| each(bucket.len())));
    }

    /// Calls `each` with every stored hash in ascending order, a sorted run for each value of the
    /// upper byte: the last table files the most significant block. Hashes that come or go meanwhile
    /// may or may not be among them.
    pub fn for_each_sorted_run(&self, mut each: impl FnMut(&[W])) {
        let mut run = Vec::new();
        for segment in self.tables[self.tables.len() - 1].segments() {
            run.clear();
            segment.read_all(&mut |bucket| run.extend_from_slice(bucket));
            run.sort_unstable();
            each(&run);
        }
    }

    /// The bytes the index occupies, the room that buckets have to grow included, the allocator's own
    /// bookkeeping left out.
    pub fn bytes(&self) -> usize {
        self.tables.iter().map(Table::bytes).sum::<usize>() + STRIPES * size_of::<Mutex<()>>()
    }

    fn stripe(&self, hash: W) -> &Mutex<()> {
        &self.stripes[usize::from(hash.block(0)) % STRIPES]
    }
}
