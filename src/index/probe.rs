//! Answering a query from the tables: the buckets a plan names, and the comparison of what is in them.
//!
//! Costs: a plan with radius 0 in every block (any k below the number of blocks) takes all its locks
//! first and then reads its buckets together, so that their cache misses overlap. Other plans read one
//! bucket after the other.
//!
//! Order of locks: at most one bucket of a table, tables in ascending order; see [`super::sharded`].

use super::plan::{MAX_BLOCKS, Plan};
use super::scan::Neighbour;
use super::table::Table;
use crate::ids::Word;

/// What a query touched on its way to the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Buckets read.
    pub probes: u64,
    /// Hashes compared in them.
    pub candidates: u64,
}

/// Appends every hash within `k` of `query` to `found`, each once, in no order.
///
/// `plan` must cover `k`: that is what makes the answer complete.
pub(super) fn probe<W: Word>(
    tables: &[Table<W>],
    plan: &Plan,
    query: W,
    k: u32,
    found: &mut Vec<Neighbour<W>>,
) -> Touched {
    let mut search = Search { plan, query, k, found, touched: Touched::default() };
    if plan.radii().iter().all(|&radius| radius <= 0) {
        search.own_buckets(tables);
    } else {
        for (at, table) in tables.iter().enumerate() {
            search.ball(table, at);
        }
    }
    search.touched
}

struct Search<'a, W> {
    plan: &'a Plan,
    query: W,
    k: u32,
    found: &'a mut Vec<Neighbour<W>>,
    touched: Touched,
}

impl<W: Word> Search<'_, W> {
    /// Radius 0: the query's own bucket in each table with a radius.
    fn own_buckets(&mut self, tables: &[Table<W>]) {
        let probed = |at: &usize| self.plan.radii()[*at] == 0;
        for at in (0..tables.len()).filter(probed) {
            let [upper, lower] = self.query.block(at as u32).to_be_bytes();
            std::hint::black_box(tables[at].segment(upper).touch(lower));
        }
        let buckets: [_; MAX_BLOCKS] = std::array::from_fn(|at| {
            let table = tables.get(at).filter(|_| probed(&at))?;
            let [upper, lower] = self.query.block(at as u32).to_be_bytes();
            Some(table.segment(upper).read(lower))
        });
        for bucket in buckets.iter().flatten() {
            std::hint::black_box(bucket.first());
        }
        for (at, bucket) in buckets.iter().enumerate() {
            if let Some(bucket) = bucket {
                self.compare(bucket, at);
            }
        }
    }

    /// Every bucket of block `at` whose value lies within the block's radius: by the bits that differ in
    /// the upper byte (another segment), then by those in the part of the lower byte that the segment's
    /// directory tells apart.
    fn ball(&mut self, table: &Table<W>, at: usize) {
        let Ok(radius) = usize::try_from(self.plan.radii()[at]) else {
            return;
        };
        let [upper, lower] = self.query.block(at as u32).to_be_bytes();
        for &flips in BYTES.within(8, radius) {
            let left = radius - flips.count_ones() as usize;
            let segment = table.segment(upper ^ flips);
            segment.read_around(lower, |depth| BYTES.within(depth, left), &mut |b| self.compare(b, at));
        }
    }

    #[inline]
    fn compare(&mut self, bucket: &[W], at: usize) {
        self.touched.probes += 1;
        self.touched.candidates += bucket.len() as u64;
        for &hash in bucket {
            let difference = hash ^ self.query;
            let distance = difference.ones();
            if distance <= self.k && self.plan.reports(difference, at) {
                self.found.push(Neighbour { distance, hash });
            }
        }
    }
}

/// For each width from 0 to 8 bits, the values of that width ordered by the number of their one bits.
struct Bytes {
    values: [[u8; 256]; 9],
    /// `ends[width][radius]`: how many values of the width have at most `radius` one bits.
    ends: [[usize; 9]; 9],
}

static BYTES: Bytes = Bytes::ordered();

impl Bytes {
    fn within(&self, width: u32, radius: usize) -> &[u8] {
        let width = width as usize;
        &self.values[width][..self.ends[width][radius.min(8)]]
    }

    const fn ordered() -> Bytes {
        let mut bytes = Bytes { values: [[0; 256]; 9], ends: [[0; 9]; 9] };
        let mut width = 0;
        while width <= 8 {
            let mut filled = 0;
            let mut ones = 0;
            while ones <= 8 {
                let mut value: usize = 0;
                while value < 1 << width {
                    if value.count_ones() == ones {
                        bytes.values[width][filled] = value as u8;
                        filled += 1;
                    }
                    value += 1;
                }
                bytes.ends[width][ones as usize] = filled;
                ones += 1;
            }
            width += 1;
        }
        bytes
    }
}
