//! The index: distinct hashes in one table a block, shared by any number of readers and writers.
//!
//! *Invariants* (the numbers are those of `ARCHITECTURE.md`)
//! - 2: a hash is in the index once. Inserting it again changes nothing.
//! - 3: every answer equals the linear scan's, for every k from 0 to the width. A hash that is in the index
//!   from before a query begins until after it ends is found; one that is not there at any moment of the
//!   query is not. One that comes or goes meanwhile may or may not be found.
//!
//! # Who waits for whom
//! Readers wait for nobody and write nothing that is shared, so any number of them run beside a writer at the
//! pace of the memory. Writers take turns by one lock; a writer with many hashes takes it once
//! ([`Index::insert_all`]). It is the only lock, and nobody waits for anything while holding it.
//!
//! # Why nothing is missed and nothing comes twice
//! A reader that finds a hash in a table reports it there only if no earlier table of its plan had to report
//! it. Insertion goes through the tables in ascending order and so does removal; so a hash that the reader
//! missed in an earlier table was being inserted or removed during the query. A hash that was removed and
//! inserted again during a query may be met in two entries; queries that saw a removal go by sort their
//! answers and drop what is double. They see it by a number that is raised after a hash was taken out and
//! before it can come back: who met the first entry full read the number before it was raised, or would have
//! seen the entry given up; who meets the second reads it after.
//!
//! # Growing from one layout to another
//! A new layout is filled beside the old one, a few hundred hashes with every few hundred insertions (if they
//! are spread: a share is what begins with the same 12 bits), while readers use the old one and writers keep
//! both; when it holds everything it takes the old one's place.
//!
//! *Absent*: which documents bear a hash (the store knows), ranking, and any blocking call.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::block::Filed;
use super::layout::{Kind, Layout, Thresholds, insert_new};
use super::memory::{Followed, Pin, pin, step};
use super::plan::Plan;
use super::probe::{Question, Touched, adapted, probe, probe_all};
use super::scan::Neighbour;

/// How a query was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The plan, if the blocks of hashes were probed by one.
    pub plan: Option<Plan>,
    /// Whether everything stored was compared.
    pub scanned: bool,
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
pub struct Index<W: Filed> {
    layout: Followed<Layout<W>>,
    len: AtomicUsize,
    /// Raised when a hash was taken out of every table.
    removals: AtomicU64,
    turn: Mutex<Option<Moving<W>>>,
    thresholds: Thresholds,
}

/// A layout that is being filled beside the one in use.
struct Moving<W: Filed> {
    next: Followed<Layout<W>>,
    /// Hashes whose first [`SHARE_BITS`] bits are below this are in both layouts.
    moved: u32,
    /// Insertions that have not been answered by moving a share yet.
    owed: usize,
}

impl<W: Filed> Moving<W> {
    fn to(next: Layout<W>) -> Moving<W> {
        Moving { next: Followed::new(next), moved: 0, owed: 0 }
    }
}

/// Hashes move to another layout in shares, by so many of their first bits.
const SHARE_BITS: u32 = 12;
/// A move is done after this many times fewer insertions than there were hashes when it began.
const PACE: usize = 8;
/// Hashes added in one turn: at least so many, and as long as there are enough this share of what is there,
/// so that a segment comes into the cache for many of them, but no more than are added in some tenths of a
/// second.
const BATCH: usize = 1 << 15;
const BATCH_SHARE: usize = 8;
const LARGEST_BATCH: usize = 1 << 20;

impl<W: Filed> Default for Index<W> {
    fn default() -> Index<W> {
        Index::new()
    }
}

impl<W: Filed> Index<W> {
    /// An empty index: some kilobytes.
    pub fn new() -> Index<W> {
        Index::with_layouts(Thresholds::MEASURED)
    }

    /// An empty index whose hashes stand in buckets once there are `buckets` of them, and those of 64 bits in
    /// three tables in place of four once there are `three`. It changes what queries cost, not what they
    /// answer.
    pub fn with_layouts_from(buckets: usize, three: usize) -> Index<W> {
        Index::with_layouts(Thresholds { buckets: [buckets; 2], three })
    }

    fn with_layouts(thresholds: Thresholds) -> Index<W> {
        let layout = Layout::new(Kind::suited(W::WIDTH, 0, thresholds), 0);
        Index { thresholds, ..Index::of_layout(layout, 0) }
    }

    /// The index with these tables, which hold so many hashes.
    pub(super) fn of_layout(layout: Layout<W>, hashes: usize) -> Index<W> {
        Index {
            layout: Followed::new(layout),
            len: AtomicUsize::new(hashes),
            removals: AtomicU64::new(0),
            turn: Mutex::new(None),
            thresholds: Thresholds::MEASURED,
        }
    }

    fn take_turn(&self) -> MutexGuard<'_, Option<Moving<W>>> {
        // The threads of a model are one of the system's, which must not wait for itself.
        #[cfg(test)]
        while super::model::is_running() {
            match self.turn.try_lock() {
                Some(turn) => return turn,
                None => super::model::wait(),
            }
        }
        self.turn.lock()
    }

    /// Adds a hash; whether it is new.
    pub fn insert(&self, hash: W) -> bool {
        self.insert_in_turn(&mut self.take_turn(), &mut vec![hash], &mut pin()) == 1
    }

    /// Adds hashes, faster than one by one; how many were new.
    pub fn insert_all(&self, hashes: impl IntoIterator<Item = W>) -> usize {
        let mut hashes = hashes.into_iter();
        let (mut batch, mut new) = (Vec::new(), 0);
        loop {
            batch.clear();
            batch.extend(hashes.by_ref().take((self.len() / BATCH_SHARE).clamp(BATCH, LARGEST_BATCH)));
            if batch.is_empty() {
                return new;
            }
            // A turn and a pin for each batch: other writers get theirs.
            new += self.insert_in_turn(&mut self.take_turn(), &mut batch, &mut pin());
        }
    }

    /// Removes a hash; whether it was there.
    pub fn remove(&self, hash: W) -> bool {
        let mut turn = self.take_turn();
        let pin = pin();
        let layout = self.layout.get(&pin);
        if !layout.contains(hash, &pin) {
            return false;
        }
        let len = self.len();
        layout.remove(hash, &pin);
        step();
        self.removals.fetch_add(1, Ordering::SeqCst);
        if let Some(moving) = &mut *turn
            && share(hash) < moving.moved
        {
            moving.next.get(&pin).remove(hash, &pin);
        }
        self.len.store(len - 1, Ordering::Relaxed);
        true
    }

    /// Adds the hashes that are new and leaves only them in the list; how many.
    fn insert_in_turn(&self, turn: &mut Option<Moving<W>>, hashes: &mut Vec<W>, pin: &mut Pin) -> usize {
        let len = self.len();
        insert_new(&self.layout, hashes, len, pin);
        let len = len + hashes.len();
        self.len.store(len, Ordering::Relaxed);
        if let Some(moving) = turn {
            let moved = moving.moved;
            let mut moved: Vec<W> = hashes.iter().copied().filter(|hash| share(*hash) < moved).collect();
            insert_new(&moving.next, &mut moved, len, pin);
            self.go_on_moving(turn, hashes.len(), pin);
        } else {
            // An index that shrinks keeps its layout.
            let (now, suited) = (self.layout.get(pin).kind, Kind::suited(W::WIDTH, len, self.thresholds));
            if suited > now {
                *turn = Some(Moving::to(Layout::new(suited, len)));
            }
        }
        hashes.len()
    }

    /// Moves shares for so many insertions; with the last share the new layout takes over.
    fn go_on_moving(&self, turn: &mut Option<Moving<W>>, inserted: usize, pin: &mut Pin) {
        let Some(moving) = turn else { return };
        let len = self.len();
        moving.owed += inserted * PACE;
        let of_a_share = (len >> SHARE_BITS).max(1);
        while moving.owed >= of_a_share && moving.moved < 1 << SHARE_BITS {
            moving.owed -= of_a_share;
            let mut share = Vec::with_capacity(2 * of_a_share);
            let layout = self.layout.get(pin);
            layout.hashes_beginning((moving.moved, SHARE_BITS), pin, |hash| share.push(hash));
            insert_new(&moving.next, &mut share, len, pin);
            moving.moved += 1;
        }
        if moving.moved == 1 << SHARE_BITS
            && let Some(moving) = turn.take()
        {
            self.layout.replace(moving.next.into_inner(), pin);
        }
    }

    /// Whether the hash is stored.
    pub fn contains(&self, hash: W) -> bool {
        let pin = pin();
        self.layout.get(&pin).contains(hash, &pin)
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
    /// `k` ranges from 0 to the width; a larger one means the width. Probes by the plan that is expected to
    /// be cheapest, by another one if this query meets hot runs, or compares every hash where that is
    /// cheaper.
    pub fn within(&self, query: W, k: u32, found: &mut Vec<Neighbour<W>>) -> Report {
        let k = k.min(W::WIDTH.bits());
        let hashes = self.len();
        self.once_each(found, |found, pin| {
            let layout = self.layout.get(pin);
            let plan = Plan::expected::<W>(layout.kind, k, hashes);
            let question = Question { query, k, hashes };
            let mut touched = Touched::default();
            if let Some(plan) = plan {
                if probe(layout, plan, &question, true, (found, &mut touched), pin) {
                    return Report { plan: Some(*plan), scanned: false, touched };
                }
                if let Some(plan) = adapted(layout, plan, &question, pin) {
                    probe(layout, &plan, &question, false, (found, &mut touched), pin);
                    return Report { plan: Some(plan), scanned: false, touched };
                }
            }
            probe_all(layout, &question, (found, &mut touched), pin);
            Report { plan: None, scanned: true, touched }
        })
    }

    /// The same with chosen radii and chosen numbers of first bits to tell apart, one for each of
    /// [`Index::blocks`]; `None` if they do not cover every hash within `k` or are out of range.
    pub fn within_radii(
        &self,
        (radii, bits): (&[i8], &[u8]),
        query: W,
        k: u32,
        found: &mut Vec<Neighbour<W>>,
    ) -> Option<Report> {
        self.once_each(found, |found, pin| {
            let layout = self.layout.get(pin);
            let k = k.min(W::WIDTH.bits());
            let plan = Plan::chosen(layout.kind, k, radii, bits)?;
            let (question, mut touched) = (Question { query, k, hashes: self.len() }, Touched::default());
            probe(layout, &plan, &question, false, (found, &mut touched), pin);
            Some(Report { plan: Some(plan), scanned: false, touched })
        })
    }

    /// The same by comparing every stored hash.
    pub fn scan(&self, query: W, k: u32, found: &mut Vec<Neighbour<W>>) -> Report {
        self.once_each(found, |found, pin| {
            let k = k.min(W::WIDTH.bits());
            let (question, mut touched) = (Question { query, k, hashes: 0 }, Touched::default());
            probe_all(self.layout.get(pin), &question, (found, &mut touched), pin);
            Report { plan: None, scanned: true, touched }
        })
    }

    /// Appends what `look` appends, without what it met twice.
    fn once_each<T: Ord, R>(&self, found: &mut Vec<T>, look: impl FnOnce(&mut Vec<T>, &Pin) -> R) -> R {
        step();
        let before = self.removals.load(Ordering::SeqCst);
        let already = found.len();
        let report = look(found, &pin());
        step();
        if self.removals.load(Ordering::SeqCst) != before && found.len() > already + 1 {
            let mut own = found.split_off(already);
            own.sort_unstable();
            own.dedup();
            found.append(&mut own);
        }
        report
    }

    /// The widths of the blocks that hashes are now cut into, the least significant first.
    pub fn blocks(&self) -> Vec<u8> {
        let pin = pin();
        self.layout.get(&pin).kind.blocks().iter().map(|block| block.bits() as u8).collect()
    }

    /// Whether [`Index::within`] would compare every hash.
    pub fn scans(&self, k: u32) -> bool {
        self.plan(k).is_none()
    }

    /// What a query within `k` is expected to take, in nanoseconds or so: a measure to tell cheap queries
    /// from dear ones by.
    pub fn cost(&self, k: u32) -> u64 {
        let kind = self.layout.get(&pin()).kind;
        Plan::expected_cost::<W>(kind, k.min(W::WIDTH.bits()), self.len())
    }

    /// The same of [`Index::scan`].
    pub fn cost_of_scan(&self, k: u32) -> u64 {
        Plan::cost_of_scan::<W>(self.layout.get(&pin()).kind, k, self.len())
    }

    /// The tables as they are now.
    pub(super) fn layout<'p>(&self, pin: &'p Pin) -> &'p Layout<W> {
        self.layout.get(pin)
    }

    /// Appends the hashes that begin with the `bits` bits of `first`, each once.
    pub(super) fn hashes_with(&self, first: u32, bits: u32, hashes: &mut Vec<W>) {
        self.once_each(hashes, |hashes, pin| {
            self.layout.get(pin).hashes_beginning((first, bits), pin, |hash| hashes.push(hash));
        });
    }

    pub(super) fn plan(&self, k: u32) -> Option<&'static Plan> {
        let kind = self.layout.get(&pin()).kind;
        Plan::expected::<W>(kind, k.min(W::WIDTH.bits()), self.len())
    }

    /// Adds, for each distance, the number of stored hashes at that distance from `query` to `counts`, as far
    /// as `counts` goes.
    pub fn distances(&self, query: W, counts: &mut [u64]) {
        self.for_each_run(|run| {
            for &mut hash in run {
                if let Some(count) = counts.get_mut((hash ^ query).ones() as usize) {
                    *count += 1;
                }
            }
        });
    }

    /// Calls `each` with all hashes in ascending order, in runs that are sorted each and follow each other by
    /// their first bits. Hashes that come or go meanwhile may or may not be among them.
    pub fn for_each_sorted_run(&self, mut each: impl FnMut(&[W])) {
        self.for_each_run(|run| {
            run.sort_unstable();
            each(run);
        });
    }

    /// All hashes, in runs that share their first bits. Pinned for one run at a time, so that a slow caller
    /// holds back no memory.
    fn for_each_run(&self, mut each: impl FnMut(&mut Vec<W>)) {
        let mut run = Vec::new();
        for first in 0..256 {
            run.clear();
            self.hashes_with(first, 8, &mut run);
            each(&mut run);
        }
    }

    /// Calls `each` with the number of hashes in each bucket of each table. A bucket is what one probe of
    /// radius 0 is after: the hashes that share as many first bits of a block as make a bucket of evenly
    /// spread ones hold 16 to 32, as far as the block has them.
    pub fn bucket_sizes(&self, mut each: impl FnMut(usize)) {
        let pin = pin();
        let layout = self.layout.get(&pin);
        let told_apart = (usize::BITS - self.len().leading_zeros()).saturating_sub(5).max(1);
        for (number, block) in layout.kind.blocks().iter().enumerate() {
            let bits = told_apart.min(block.bits());
            let upper = bits.min(8);
            for first in 0..1 << upper {
                let mut sizes = vec![0usize; 1 << (bits - upper)];
                layout.hashes_with(number, (first, upper), &pin, |hash| {
                    let bucket = block.first(hash, bits);
                    sizes[bucket as usize & ((1 << (bits - upper)) - 1)] += 1;
                });
                sizes.into_iter().for_each(&mut each);
            }
        }
    }

    /// The bytes the index occupies, room to grow included, the allocator's own bookkeeping left out. While a
    /// writer is at work and a new layout is being filled, that one may be left out.
    pub fn bytes(&self) -> usize {
        let pin = pin();
        let moving = self.turn.try_lock();
        let moving = moving.as_ref().and_then(|moving| moving.as_ref());
        let next = moving.map_or(0, |moving| moving.next.get(&pin).bytes(&pin));
        size_of::<Index<W>>() + self.layout.get(&pin).bytes(&pin) + next
    }
}

/// The share of a move that a hash belongs to.
fn share<W: Filed>(hash: W) -> u32 {
    hash.below(W::WIDTH.bits()) >> (32 - SHARE_BITS)
}
