//! The index: distinct hashes in one table per block, shared by any number of readers and writers.
//!
//! *Invariants*
//! - A hash is in the index once. Inserting it again changes nothing.
//! - Every answer equals that of the linear scan, for every k from 0 to the width. A query finds every
//!   hash that is in the index from before the query begins until after it ends. It does not find a hash that
//!   is absent during the whole query. It may or may not find a hash that is inserted or removed meanwhile.
//!
//! # Locking
//! Readers take no lock and write nothing that is shared, so any number of them run concurrently with a
//! writer at the speed of memory. One lock serializes writers; a writer takes it once for many hashes
//! ([`Index::insert_all`]), and never waits. What waited for readers may run in the thread of a reader; it
//! then takes a lock for a step, to add a number to a list.
//!
//! # Why every hash is found, and only once
//! A reader that finds a hash in a table reports it unless an earlier table of its plan must report it. Both
//! insertion and removal process the tables in ascending order. So if the reader missed the hash in that
//! earlier table, the hash was being inserted or removed during the query. A row is live from before its
//! first entry is inserted until after its last one is removed, so the same holds for a scan by rows.
//!
//! A hash that is removed and inserted again during a query may be found in two entries. Therefore a query
//! during which a removal finished sorts its answer and drops duplicates. It detects the removal by a counter
//! that is raised after the hash is removed from every table and before the hash can be inserted again. A
//! query that finds both entries sees the counter change:
//!
//! - It read the first entry as occupied, so it read the counter before the counter was raised; otherwise it
//!   would have seen the entry as removed.
//! - It reads the counter a second time after it found the second entry, which was written after the counter
//!   was raised.
//!
//! *Absent*: the documents of a hash, ranking, and any blocking call.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::bins::RACKS;
use super::block::{BLOCK_BITS, Filed, first_of};
use super::costs::Costs;
use super::many::{self, Answers, Group};
use super::memory::{Form, Pin, pin, step};
use super::plan::Plan;
use super::probe::{Question, Touched, adapted, prefetch_query, probe, probe_all};
use super::scan::Neighbour;
use super::tables::Tables;

/// How a query was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The plan; `None` if every hash was compared, or if the index has signatures.
    pub plan: Option<Plan>,
    /// Whether every stored hash was compared.
    pub scanned: bool,
    /// The memory that was read.
    pub touched: Touched,
}

/// The concurrent pigeonhole index over hashes of `W`.
///
/// ```
/// use lookalike_hamming::{Index, Neighbour};
/// let index = Index::<u64>::new();
/// index.insert(0b1011);
/// let mut found = Vec::new();
/// index.within(0b1000, 2, &mut found);
/// assert_eq!(found, [Neighbour { distance: 2, hash: 0b1011 }]);
/// ```
pub struct Index<W: Filed> {
    tables: Tables<W>,
    len: AtomicUsize,
    /// The number of removals. It is raised after a hash is removed from every table.
    removals: AtomicU64,
    writer: Mutex<()>,
    form: Form,
}

/// The number of hashes that are inserted under one lock, at most.
const BATCH: usize = 1 << 10;
/// The number of queries whose runs are prefetched together: about as many as the processor fetches at a
/// time.
pub const GROUP: usize = 8;

impl<W: Filed> Default for Index<W> {
    fn default() -> Index<W> {
        Index::new()
    }
}

impl<W: Filed> Index<W> {
    /// An empty index, which takes some kilobytes.
    pub fn new() -> Index<W> {
        Index::with_limit(W::LIMIT)
    }

    /// An empty index whose tables distinguish another bit of a block when a value has more than `limit`
    /// hashes on average. This changes the cost of queries, not their answers.
    pub fn with_limit(limit: usize) -> Index<W> {
        Index::of_tables(Tables::new(limit), 0)
    }

    /// The index whose queries use this form. This changes the cost of queries, not their answers.
    #[must_use]
    pub fn in_form(mut self, form: Form) -> Index<W> {
        self.form = form;
        self
    }

    /// The index with these tables, which hold this number of hashes.
    pub(super) fn of_tables(tables: Tables<W>, hashes: usize) -> Index<W> {
        // Measured now, so that no query waits for it.
        Costs::measure();
        Index {
            tables,
            len: AtomicUsize::new(hashes),
            removals: AtomicU64::new(0),
            writer: Mutex::new(()),
            form: Form::preferred(),
        }
    }

    fn lock_writer(&self) -> MutexGuard<'_, ()> {
        // All threads of a model run on one thread of the system, which must not wait for itself.
        #[cfg(test)]
        while super::model::is_running() {
            match self.writer.try_lock() {
                Some(writer) => return writer,
                None => super::model::wait(),
            }
        }
        self.writer.lock()
    }

    /// Adds a hash. Returns whether it is new.
    pub fn insert(&self, hash: W) -> bool {
        let _writer = self.lock_writer();
        let is_new = self.tables.insert(hash, &pin());
        self.len.store(self.len() + usize::from(is_new), Ordering::Relaxed);
        is_new
    }

    /// Adds hashes, faster than one by one. Returns how many were new.
    pub fn insert_all(&self, hashes: impl IntoIterator<Item = W>) -> usize {
        let mut hashes = hashes.into_iter();
        let (mut batch, mut new) = (Vec::new(), 0);
        loop {
            batch.clear();
            batch.extend(hashes.by_ref().take(BATCH));
            if batch.is_empty() {
                return new;
            }
            // Each batch takes the lock and a pin again, so that other writers can proceed.
            let _writer = self.lock_writer();
            self.tables.insert_new(&mut batch, &mut pin());
            self.len.store(self.len() + batch.len(), Ordering::Relaxed);
            new += batch.len();
        }
    }

    /// Removes a hash. Returns whether it was present.
    pub fn remove(&self, hash: W) -> bool {
        let _writer = self.lock_writer();
        let len = self.len();
        if !self.tables.remove(hash, &pin()) {
            return false;
        }
        step();
        self.removals.fetch_add(1, Ordering::SeqCst);
        self.len.store(len - 1, Ordering::Relaxed);
        true
    }

    /// Whether the hash is stored.
    pub fn contains(&self, hash: W) -> bool {
        self.tables.contains(hash, &pin())
    }

    /// The number of hashes. It may be outdated while writers run.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether it holds no hash.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends to `found` every stored hash within `k` bits of `query`, each once, in no particular order.
    ///
    /// `k` ranges from 0 to the width; a larger value means the width. The query uses the plan with the least
    /// expected cost, or another plan if it reads a hot run. It compares every hash if that is cheaper.
    pub fn within(&self, query: W, k: u32, found: &mut Vec<Neighbour<W>>) -> Report {
        let k = k.min(W::WIDTH.bits());
        let hashes = self.len();
        self.without_duplicates(found, |found, pin| {
            let plan = Plan::expected::<W>(k, hashes);
            let question = Question { query, k, hashes, form: self.form };
            let mut touched = Touched::default();
            if let Some(plan) = plan {
                if probe(&self.tables, plan, &question, true, (found, &mut touched), pin) {
                    return Report { plan: Some(*plan), scanned: false, touched };
                }
                if let Some(plan) = adapted(&self.tables, &question, pin) {
                    probe(&self.tables, &plan, &question, false, (found, &mut touched), pin);
                    return Report { plan: Some(plan), scanned: false, touched };
                }
            }
            touched.probes += self.compare_all((query, k), plan.is_some(), found, pin);
            Report { plan: None, scanned: true, touched: of_scan(touched, hashes) }
        })
    }

    /// As [`Index::within`] for each of the queries, faster if they are many: calls `each` with their
    /// numbers, ascending, and their answers, each in the order of distance, then hash.
    pub fn within_many(&self, queries: &[W], k: u32, mut each: impl FnMut(usize, &mut Vec<Neighbour<W>>)) {
        let k = k.min(W::WIDTH.bits());
        let (mut found, mut done) = (Vec::new(), 0);
        while done < queries.len() {
            let plan = self.plan(k);
            let group = &queries[done..queries.len().min(done + many::most(plan))];
            let Answers { near, alone } = self.together(group, k, plan);
            let (mut near, mut alone) = (near.into_iter().peekable(), alone.into_iter().peekable());
            for (number, query) in (0..).zip(group) {
                found.clear();
                if alone.next_if_eq(&number).is_some() {
                    self.within(*query, k, &mut found);
                    found.sort_unstable();
                } else {
                    found.extend(
                        std::iter::from_fn(|| near.next_if(|(of, _)| *of == number)).map(|near| near.1),
                    );
                }
                each(done + number as usize, &mut found);
            }
            done += group.len();
        }
    }

    /// The answers of a group, which is one step for readers: each is of the time between its begin and end.
    pub(super) fn together(&self, queries: &[W], k: u32, plan: Option<&Plan>) -> Answers<W> {
        let group = Group { tables: &self.tables, queries, k, hashes: self.len(), form: self.form };
        step();
        let before = self.removals.load(Ordering::SeqCst);
        let mut answers = group.answers(plan);
        step();
        if self.removals.load(Ordering::SeqCst) != before {
            answers.near.dedup();
        }
        answers
    }

    /// Prefetches the memory that lookups of these queries within `k` read first, without waiting. It is
    /// useful for at most [`GROUP`] queries at a time, directly before their lookups.
    pub fn prefetch(&self, queries: impl IntoIterator<Item = W>, k: u32) {
        if let Some(plan) = self.plan(k) {
            let pin = pin();
            queries.into_iter().for_each(|query| prefetch_query(&self.tables, plan, query, &pin));
        }
    }

    /// As [`Index::within`], with given radii, one for each of [`Index::blocks`]; `None` if they do not cover
    /// every hash within `k` or are out of range.
    pub fn within_radii(
        &self,
        radii: &[i8],
        query: W,
        k: u32,
        found: &mut Vec<Neighbour<W>>,
    ) -> Option<Report> {
        self.without_duplicates(found, |found, pin| {
            let (k, hashes) = (k.min(W::WIDTH.bits()), self.len());
            let plan = Plan::chosen::<W>(k, radii, hashes)?;
            let (question, mut touched) =
                (Question { query, k, hashes, form: self.form }, Touched::default());
            probe(&self.tables, &plan, &question, false, (found, &mut touched), pin);
            Some(Report { plan: Some(plan), scanned: false, touched })
        })
    }

    /// As [`Index::within`], by comparing every stored hash.
    pub fn scan(&self, query: W, k: u32, found: &mut Vec<Neighbour<W>>) -> Report {
        self.without_duplicates(found, |found, pin| {
            let k = k.min(W::WIDTH.bits());
            let probes = self.compare_all((query, k), false, found, pin);
            let touched = of_scan(Touched { probes, ..Touched::default() }, self.len());
            Report { plan: None, scanned: true, touched }
        })
    }

    /// Compares all hashes; `is_hot` says that many are alike. Returns the number of runs of memory.
    fn compare_all(
        &self,
        (query, k): (W, u32),
        is_hot: bool,
        found: &mut Vec<Neighbour<W>>,
        pin: &Pin,
    ) -> u64 {
        probe_all(&self.tables, (&[query], k, self.form), is_hot, pin, |_, near| {
            found.push(near);
            true
        });
        RACKS as u64
    }

    /// Runs `find`, and removes the duplicates among the values that it appends.
    fn without_duplicates<T: Ord, R>(
        &self,
        found: &mut Vec<T>,
        find: impl FnOnce(&mut Vec<T>, &Pin) -> R,
    ) -> R {
        step();
        let before = self.removals.load(Ordering::SeqCst);
        let already = found.len();
        let report = find(found, &pin());
        step();
        if self.removals.load(Ordering::SeqCst) != before && found.len() > already + 1 {
            let mut own = found.split_off(already);
            own.sort_unstable();
            own.dedup();
            found.append(&mut own);
        }
        report
    }

    /// The widths of the blocks, the least significant first.
    pub fn blocks(&self) -> Vec<u8> {
        vec![BLOCK_BITS as u8; W::BLOCKS.len()]
    }

    /// Whether [`Index::within`] would compare every hash.
    pub fn scans(&self, k: u32) -> bool {
        self.plan(k).is_none()
    }

    /// The estimated cost of a query within `k`, roughly in nanoseconds. It separates cheap queries from
    /// expensive ones.
    pub fn cost(&self, k: u32) -> u64 {
        Plan::expected_cost::<W>(k.min(W::WIDTH.bits()), self.len())
    }

    /// The estimated cost of [`Index::scan`].
    pub fn cost_of_scan(&self) -> u64 {
        Plan::cost_of_scan::<W>(self.len())
    }

    #[cfg(test)]
    pub(super) fn tables(&self) -> &Tables<W> {
        &self.tables
    }

    /// Appends the hashes that begin with the `bits` bits of `first`, each once.
    pub(super) fn hashes_with(&self, first: u32, bits: u32, hashes: &mut Vec<W>) {
        self.without_duplicates(hashes, |hashes, pin| {
            self.tables.hashes_beginning((first, bits), pin, |hash| hashes.push(hash));
        });
    }

    pub(super) fn plan(&self, k: u32) -> Option<&'static Plan> {
        Plan::expected::<W>(k.min(W::WIDTH.bits()), self.len())
    }

    /// Adds the number of stored hashes at distance d from `query` to `counts[d]`, for each d below the
    /// length of `counts`.
    pub fn distances(&self, query: W, counts: &mut [u64]) {
        self.for_each_run(|run| {
            for &mut hash in run {
                if let Some(count) = counts.get_mut((hash ^ query).ones() as usize) {
                    *count += 1;
                }
            }
        });
    }

    /// Calls `each` with all hashes in ascending order, in sorted runs of hashes that share their first bits.
    /// Hashes that are inserted or removed meanwhile may or may not be among them.
    pub fn for_each_sorted_run(&self, mut each: impl FnMut(&[W])) {
        self.for_each_run(|run| {
            run.sort_unstable();
            each(run);
        });
    }

    /// Calls `each` with all hashes, in runs that share their first bits. The thread is pinned only while a
    /// run is read, so that a slow caller does not prevent memory from being freed.
    fn for_each_run(&self, mut each: impl FnMut(&mut Vec<W>)) {
        let mut run = Vec::new();
        for first in 0..256 {
            run.clear();
            self.hashes_with(first, 8, &mut run);
            each(&mut run);
        }
    }

    /// Calls `each` with the number of hashes in each bucket of each table. Here a bucket is the hashes that
    /// share the first bits of a block: so many bits that a bucket of evenly spread hashes has 16 to 32, or
    /// the whole block. One probe of radius 0 reads about such a bucket.
    pub fn bucket_sizes(&self, mut each: impl FnMut(usize)) {
        let prefix_bits = (usize::BITS - self.len().leading_zeros()).saturating_sub(5).max(1);
        for table in &self.tables.all {
            let bits = prefix_bits.min(BLOCK_BITS);
            let upper = bits.min(8);
            for first in 0..1 << upper {
                let mut sizes = vec![0usize; 1 << (bits - upper)];
                table.entries_with((first, upper), &pin(), |filed| {
                    sizes[first_of(filed, bits) as usize & ((1 << (bits - upper)) - 1)] += 1;
                });
                sizes.into_iter().for_each(&mut each);
            }
        }
    }

    /// The bytes that the index occupies, including free entries, without the bookkeeping of the allocator.
    pub fn bytes(&self) -> usize {
        size_of::<Index<W>>() + self.tables.bytes(&pin())
    }
}

/// The memory that a scan of this number of hashes has read. Free entries, which pad lines, do not count.
fn of_scan(touched: Touched, hashes: usize) -> Touched {
    Touched { candidates: hashes as u64, ..touched }
}
