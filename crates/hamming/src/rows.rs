//! The hashes of an index whose entries have only a part of each: every hash once, by its number.
//!
//! A reader that finds an entry reads its hash here. The writer gives a number to a hash before it inserts
//! the entries, and gives up the number after it has removed them. Readers wait for nobody: a number is given
//! again only when every reader has ended that may have seen an entry with it. So a row does not change while
//! it can be read.
//!
//! Sixteen rows are a tile of planes, as in a bin, so that a scan of whole hashes compares them at once.
//!
//! Costs: 32 bytes a hash, in chunks of [`CHUNK`] rows. Chunks are kept when hashes are removed, and serve
//! the next ones.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrayvec::ArrayVec;
use parking_lot::Mutex;

use super::block::Filed;
use super::memory::{Compare, LANES, MAX_PLANES, Pin, Plane, Replaceable, cells, empty_lines, step};
use super::probe::SCANNED;
use super::scan::Neighbour;
use lookalike_hash::{Hash, U256};

/// The rows of a chunk.
const CHUNK: usize = 1 << 10;
pub(super) const TOO_MANY: &str = "an index has fewer than 2^32 hashes of 256 bits";
const HAS_CHUNK: &str = "a number that was given has a row";

struct Chunk {
    /// A plane for each word of 16 bits, the first one first, of each tile.
    planes: Box<[Plane]>,
    /// A bit for each row that has a hash, of each tile.
    live: [AtomicU16; CHUNK / LANES],
}

impl Default for Chunk {
    fn default() -> Chunk {
        let live = std::array::from_fn(|_| AtomicU16::new(0));
        Chunk { planes: empty_lines(CHUNK / LANES * MAX_PLANES), live }
    }
}

type Chunks = Box<[OnceLock<Arc<Chunk>>]>;

/// See the module. Only one writer may change it at a time.
pub(super) struct Rows {
    /// It is replaced by a longer list when it is full.
    chunks: Replaceable<Chunks>,
    /// The number of numbers that were given.
    given: AtomicUsize,
    /// Numbers that were given up, and of which no reader knows.
    free: Arc<Mutex<Vec<u32>>>,
}

impl Default for Rows {
    fn default() -> Rows {
        Rows::with_room(0)
    }
}

impl Rows {
    /// Rows with the numbers from 0 to before `count`, which [`Rows::set`] must fill.
    pub(super) fn with_room(count: usize) -> Rows {
        let chunks = (0..count.div_ceil(CHUNK)).map(|_| OnceLock::from(Arc::default()));
        Rows {
            chunks: Replaceable::new(chunks.collect()),
            given: AtomicUsize::new(count),
            free: Arc::default(),
        }
    }

    #[inline(always)]
    fn chunk<'p>(&self, number: u32, pin: &'p Pin) -> (&'p Chunk, usize) {
        let at = number as usize;
        (self.chunks.get(pin)[at / CHUNK].get().expect(HAS_CHUNK), at % CHUNK)
    }

    /// The hash with a number that was given.
    #[inline(always)]
    pub(super) fn hash<W: Filed>(&self, number: u32, pin: &Pin) -> W {
        let (chunk, at) = self.chunk(number, pin);
        chunk.hash(at)
    }

    /// Gives a number to a hash.
    ///
    /// # Panics
    /// If there are 2^32 hashes.
    pub(super) fn insert<W: Filed>(&self, hash: W, pin: &Pin) -> u32 {
        let free = self.free.lock().pop();
        let number = free.unwrap_or_else(|| self.next(pin));
        self.set(number, hash, pin);
        number
    }

    fn next(&self, pin: &Pin) -> u32 {
        let number = self.given.load(Ordering::Relaxed);
        let chunks = self.chunks.get(pin);
        if number / CHUNK == chunks.len() {
            let mut longer = chunks.to_vec();
            longer.resize_with((chunks.len() * 2).max(4), OnceLock::new);
            self.chunks.replace(longer.into(), pin);
        }
        self.chunks.get(pin)[number / CHUNK].get_or_init(Arc::default);
        self.given.store(number + 1, Ordering::Relaxed);
        u32::try_from(number).expect(TOO_MANY)
    }

    /// Writes the hash of a number that no reader knows.
    pub(super) fn set<W: Filed>(&self, number: u32, hash: W, pin: &Pin) {
        let (chunk, at) = self.chunk(number, pin);
        for (plane, word) in chunk.tile(at / LANES).iter().zip(words(hash)) {
            plane.write(at % LANES, word);
        }
        step();
        chunk.live[at / LANES].fetch_or(1 << (at % LANES), Ordering::Release);
    }

    /// Gives up the number of a hash whose entries are removed. It is given again when the readers of this
    /// moment have ended.
    pub(super) fn remove(&self, number: u32, pin: &Pin) {
        let (chunk, at) = self.chunk(number, pin);
        step();
        chunk.live[at / LANES].fetch_and(!(1 << (at % LANES)), Ordering::Relaxed);
        let free = Arc::clone(&self.free);
        pin.after_readers(move || free.lock().push(number));
    }

    /// Calls `found` with every hash within `k` of a query, and with the number of the query. Ends soon after
    /// it returns `false`.
    #[inline(always)]
    pub(super) fn scan<W: Filed, C: Compare>(
        &self,
        compare: C,
        (queries, k): (&[W], u32),
        pin: &Pin,
        mut found: impl FnMut(usize, Neighbour<W>) -> bool,
    ) {
        let patterns: ArrayVec<C::Pattern, SCANNED> =
            queries.iter().map(|query| compare.pattern(&words(*query))).collect();
        for chunk in self.chunks.get(pin).iter().map_while(OnceLock::get) {
            let tiles = chunk.planes.as_chunks::<MAX_PLANES>().0;
            for (number, (tile, live)) in tiles.iter().zip(&chunk.live).enumerate() {
                step();
                let live = u32::from(live.load(Ordering::Acquire));
                if live == 0 {
                    continue;
                }
                for (at, pattern) in patterns.iter().enumerate() {
                    let mut sums = compare.none();
                    for (four, planes) in tile.as_chunks::<4>().0.iter().enumerate() {
                        sums = compare.add_four(planes, pattern, 4 * four, sums);
                    }
                    for lane in cells(compare.few(sums, k) & live) {
                        let hash: W = chunk.hash(number * LANES + lane);
                        if !found(at, Neighbour { distance: (hash ^ queries[at]).ones(), hash }) {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// The bytes that they occupy.
    pub(super) fn bytes(&self, pin: &Pin) -> usize {
        let chunks = self.chunks.get(pin);
        let held = chunks.iter().filter(|chunk| chunk.get().is_some()).count();
        size_of_val(&**chunks)
            + held * (size_of::<Chunk>() + CHUNK * MAX_PLANES * size_of::<u16>())
            + self.free.lock().capacity() * size_of::<u32>()
    }
}

impl Chunk {
    #[inline(always)]
    fn tile(&self, at: usize) -> &[Plane] {
        &self.planes[at * MAX_PLANES..(at + 1) * MAX_PLANES]
    }

    #[inline(always)]
    fn hash<W: Filed>(&self, at: usize) -> W {
        let (tile, lane) = (self.tile(at / LANES), at % LANES);
        let word =
            |planes: &[Plane]| planes.iter().fold(0, |word, plane| word << 16 | u64::from(plane.read(lane)));
        let words = std::array::from_fn(|at| word(&tile[4 * at..4 * at + 4]));
        W::from_hash(Hash::from_u256(U256::from_words(words))).expect("only hashes of 256 bits have rows")
    }
}

/// The words of a hash in the order of the planes.
fn words<W: Filed>(hash: W) -> [u16; MAX_PLANES] {
    std::array::from_fn(|plane| hash.word(MAX_PLANES - 1 - plane))
}

#[cfg(test)]
mod tests {
    use super::super::memory::{Work, pin, with_best};
    use super::*;

    fn hash(number: u64) -> U256 {
        U256::from_words(std::array::from_fn(|word| number.wrapping_mul(0x9e37_79b9 + word as u64)))
    }

    struct All<'a> {
        rows: &'a Rows,
        all: &'a mut Vec<U256>,
    }

    impl Work for All<'_> {
        type Output = ();

        fn run<C: Compare>(self, compare: C) {
            self.rows.scan(compare, (&[U256::MAX], 256), &pin(), |_, near| {
                self.all.push(near.hash);
                true
            });
        }
    }

    fn all(rows: &Rows) -> Vec<U256> {
        let mut all = Vec::new();
        with_best(All { rows, all: &mut all });
        all
    }

    #[test]
    fn a_row_does_not_change_while_a_reader_may_know_its_number() {
        let rows = Rows::default();
        let numbers: Vec<u32> = (0..3_000).map(|at| rows.insert(hash(at), &pin())).collect();
        assert_eq!(all(&rows).len(), 3_000);
        let reader = pin();
        for number in &numbers[..2_900] {
            rows.remove(*number, &pin());
        }
        assert_eq!(all(&rows), (2_900..3_000).map(hash).collect::<Vec<_>>());
        let others: Vec<u32> = (5_000..5_100).map(|at| rows.insert(hash(at), &pin())).collect();
        assert!(others.iter().all(|number| !numbers.contains(number)));
        assert!((0..2_900).all(|at| rows.hash::<U256>(numbers[at as usize], &reader) == hash(at)));
        drop(reader);
        // Other tests of this process may hold pins for a while.
        let begun = std::time::Instant::now();
        while rows.free.lock().len() < 2_900 && begun.elapsed().as_secs() < 60 {
            pin().flush();
            std::thread::yield_now();
        }
        assert!(numbers[..2_900].contains(&rows.insert(hash(0), &pin())), "a number is given again");
    }
}
