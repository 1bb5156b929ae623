//! The plans: their names and costs, which of them can be built for a k, and the check of one with another.

use std::fmt;

use lookalike_hamming::{Neighbour, Touched};

use super::bits::{Bits, ball};
use super::{ball, blocks, bloom, one_bit, own, scan, tables, variants};

/// The largest k of a plan.
pub const MOST_K: u32 = 31;
/// The largest number of values that one lookup of a plan probes.
const MOST_PROBES: u128 = 1_000_000;
/// The largest number of stored entries: they are counted in 32 bits.
const MOST_ENTRIES: u128 = u32::MAX as u128;

/// A plan that was built for stored hashes and a k.
pub trait Built<W> {
    /// Appends every stored hash within k of the query to `found`, each once, in no particular order. Returns
    /// what was read: the places that were looked up, and the entries that were read there.
    fn within(&self, query: W, found: &mut Vec<Neighbour<W>>) -> Touched;

    /// The bytes that it occupies, including free entries, without the bookkeeping of the allocator.
    fn bytes(&self) -> usize;
}

/// A plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// Compares every hash.
    Scan,
    /// The index of this project.
    Index,
    /// A scan of the index of this project, as for `verify=scan`.
    IndexScan,
    /// A hash table for each of k + 1 blocks.
    Blocks,
    /// A sorted table for each choice of this many of k + `exact` blocks.
    Tables {
        /// The number of blocks that must agree.
        exact: u32,
    },
    /// A sorted table for each of k + 1 blocks and each of k + 1 pieces of the rest.
    CutTwice,
    /// A set, in which every value within k of the query is looked up.
    Ball,
    /// The same, with a Bloom filter before the set.
    FilteredBall,
    /// A hash table of every value within `radius` of a stored hash.
    Variants {
        /// The distance of a stored value from its hash. A query looks up the values within k - `radius`.
        radius: u32,
    },
    /// A list for each bit.
    OneBit,
}

/// Why a plan is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A lookup would take too long.
    Probes(u128),
    /// It has too many entries.
    Entries(u128),
    /// It needs too much memory.
    Memory {
        /// The memory that it needs, in MiB.
        needed: u128,
        /// The memory that is allowed, in MiB.
        allowed: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Probes(probes) => {
                write!(out, "a lookup probes {} values, and the limit is {MOST_PROBES}", rounded(*probes))
            }
            Refusal::Entries(entries) => {
                write!(out, "it has {} entries, and the limit is {MOST_ENTRIES}", rounded(*entries))
            }
            Refusal::Memory { needed, allowed } => {
                write!(out, "it takes {} MiB, and {allowed} MiB are allowed", rounded(*needed))
            }
        }
    }
}

impl Design {
    /// Every plan for this k, in the order of the table in `docs/plans.md`.
    pub fn all(k: u32) -> Vec<Design> {
        let mut radii = vec![1, k.div_ceil(2), k];
        radii.retain(|radius| (1..=k).contains(radius));
        radii.dedup();
        let tables = [1, 2, 3].map(|exact| Design::Tables { exact });
        let mut all = vec![Design::Scan, Design::IndexScan, Design::Index, Design::Blocks];
        all.extend([tables[0], tables[1], Design::CutTwice, tables[2], Design::Ball, Design::FilteredBall]);
        all.extend(radii.into_iter().map(|radius| Design::Variants { radius }));
        all.push(Design::OneBit);
        all
    }

    /// Its name in one word.
    pub fn name(self) -> String {
        match self {
            Design::Scan => "scan".to_owned(),
            Design::Index => "index".to_owned(),
            Design::IndexScan => "index-scan".to_owned(),
            Design::Blocks => "blocks".to_owned(),
            Design::Tables { exact } => format!("tables-{exact}"),
            Design::CutTwice => "tables-twice".to_owned(),
            Design::Ball => "ball".to_owned(),
            Design::FilteredBall => "ball-bloom".to_owned(),
            Design::Variants { radius } => format!("variants-{radius}"),
            Design::OneBit => "one-bit".to_owned(),
        }
    }

    /// What it does, for hashes of this many bits.
    pub fn description(self, k: u32, bits: u32) -> String {
        match self {
            Design::Scan => "every hash compared, one after the other".to_owned(),
            Design::Index => "the index of lookalike".to_owned(),
            Design::IndexScan => "verify=scan: every bin of one of its tables".to_owned(),
            Design::Blocks => {
                format!("{} hash tables of blocks of {} bits", k + 1, blocks::widths(k, bits))
            }
            Design::Tables { exact } => {
                let count = tables::count(k, exact);
                format!("{count} sorted tables: {} blocks, {exact} exact", k + exact)
            }
            Design::CutTwice => {
                let (count, parts) = ((k + 1) * (k + 1), k + 1);
                format!("{count} sorted tables: one block of {parts} exact, one of {parts} of the rest")
            }
            Design::Ball => format!("all {} values within k looked up in a set", rounded(ball(bits, k))),
            Design::FilteredBall => "the same behind a Bloom filter".to_owned(),
            Design::Variants { radius } => {
                let (stored, probed) = (rounded(ball(bits, radius)), rounded(ball(bits, k - radius)));
                format!("{stored} variants of each hash stored, {probed} of the query looked up")
            }
            Design::OneBit => format!("{bits} lists, one for each bit"),
        }
    }

    /// The publication or the program that it is from.
    pub fn source(self) -> &'static str {
        match self {
            Design::Scan => "–",
            Design::Index | Design::IndexScan => "ADR 59",
            Design::Blocks => "Greene et al. 1994; SimhashIndex of Python's simhash",
            Design::Tables { .. } | Design::CutTwice => "Manku et al. 2007, 3.1",
            Design::Ball | Design::Variants { .. } => "Manku et al. 2007, 3",
            Design::FilteredBall => "the same, and Bloom 1970",
            Design::OneBit => "inverted lists, as Zobel and Moffat 2006",
        }
    }

    /// Why it cannot be built from these hashes with `memory` bytes; `None` if it can. The scan and the index
    /// are never refused, because every other plan is compared with them.
    pub fn refusal<W: Bits>(self, hashes: &[W], k: u32, memory: u64) -> Option<Refusal> {
        let bits = W::WIDTH.bits();
        let count = hashes.len() as u128;
        let (probes, entries, bytes) = match self {
            Design::Scan | Design::Index | Design::IndexScan => return None,
            Design::Blocks => (0, count, blocks::most_bytes(hashes, k)),
            Design::Tables { exact } => (0, count, tables::bytes::<W>(count, tables::count(k, exact))),
            Design::CutTwice => (0, count, tables::bytes::<W>(count, u128::from(k + 1) * u128::from(k + 1))),
            Design::Ball => (ball(bits, k), count, ball::most_bytes::<W>(count)),
            Design::FilteredBall => {
                (ball(bits, k), count, ball::most_bytes::<W>(count) + bloom::bytes(count))
            }
            Design::Variants { radius } => {
                let entries = ball(bits, radius).saturating_mul(count);
                (ball(bits, k - radius), entries, variants::bytes::<W>(entries))
            }
            Design::OneBit => (0, count, one_bit::bytes(hashes)),
        };
        if probes > MOST_PROBES {
            return Some(Refusal::Probes(probes));
        }
        if bytes > u128::from(memory) {
            return Some(Refusal::Memory { needed: bytes.div_ceil(1 << 20), allowed: memory >> 20 });
        }
        (entries > MOST_ENTRIES).then_some(Refusal::Entries(entries))
    }

    /// Builds it from distinct hashes. The caller asks for [`Design::refusal`] first.
    pub fn build<W: Bits>(self, hashes: &[W], k: u32) -> Box<dyn Built<W>> {
        match self {
            Design::Scan => Box::new(scan::Scan::new(hashes, k)),
            Design::Index => Box::new(own::Own::new(hashes, k, false)),
            Design::IndexScan => Box::new(own::Own::new(hashes, k, true)),
            Design::Blocks => Box::new(blocks::Blocks::new(hashes, k)),
            Design::Tables { exact } => Box::new(tables::Tables::new(hashes, k, exact)),
            Design::CutTwice => Box::new(tables::Tables::cut_twice(hashes, k)),
            Design::Ball => Box::new(ball::Ball::new(hashes, k, false)),
            Design::FilteredBall => Box::new(ball::Ball::new(hashes, k, true)),
            Design::Variants { radius } => Box::new(variants::Variants::new(hashes, k, radius)),
            Design::OneBit => Box::new(one_bit::OneBit::new(hashes, k)),
        }
    }
}

/// A number as it is, or with two digits if nobody would count more of them: `8.3e18`.
fn rounded(number: u128) -> String {
    if number < 10_000_000 { number.to_string() } else { format!("{:.1e}", number as f64) }
}

/// The first of the queries for which the two plans do not find the same hashes, each as often.
pub fn first_difference<W: Bits>(one: &dyn Built<W>, other: &dyn Built<W>, queries: &[W]) -> Option<W> {
    let found = |plan: &dyn Built<W>, query| {
        let mut found = Vec::new();
        plan.within(query, &mut found);
        found.sort_unstable();
        found
    };
    queries.iter().copied().find(|query| found(one, *query) != found(other, *query))
}
