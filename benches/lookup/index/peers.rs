//! The contenders of the comparison behind one interface.
#![allow(unsafe_code, reason = "the scan uses the instructions of the machine it finds itself on")]

use dashmap::DashMap;
use lookalike_hamming::{Filed, Index, Neighbour};
use lookalike_hash::Word;

/// A method of finding the hashes within k of a query.
pub trait Contender<W> {
    fn name(&self) -> &'static str;
    /// The number of hashes within k.
    fn look(&mut self, query: W, k: u32) -> usize;
    /// A description of how it answers this query; empty if there is none.
    fn how(&self, _: W, _: u32) -> String {
        String::new()
    }
}

/// The index of this project.
pub struct Own<'a, W: Filed>(pub &'a Index<W>, pub Vec<Neighbour<W>>);

impl<W: Filed> Contender<W> for Own<'_, W> {
    fn name(&self) -> &'static str {
        "lookalike"
    }

    fn look(&mut self, query: W, k: u32) -> usize {
        self.1.clear();
        self.0.within(query, k, &mut self.1);
        self.1.len()
    }

    fn how(&self, query: W, k: u32) -> String {
        let report = self.0.within(query, k, &mut Vec::new());
        let plan = report.plan.map(|plan| format!("radii {:?} of {:?} bits, ", plan.radii(), plan.bits()));
        let (probes, candidates) = (report.touched.probes, report.touched.candidates);
        format!("{}{probes} runs, {candidates} entries", plan.unwrap_or_else(|| "scan, ".to_owned()))
    }
}

/// `mih-rs`: multi-index hashing over an immutable list.
pub struct Mih<'a>(pub mih_rs::index::RangeSearcher<'a, u64>);

impl Contender<u64> for Mih<'_> {
    fn name(&self) -> &'static str {
        "mih-rs"
    }

    fn look(&mut self, query: u64, k: u32) -> usize {
        self.0.run(query, k as usize).len()
    }
}

/// The simplest index: a map for each block of 16 bits, whose values are lists.
pub struct FourMaps {
    maps: [DashMap<u16, Vec<u64>>; 4],
    /// All values of 16 bits in the order of their number of one bits.
    flips: Vec<u16>,
}

impl FourMaps {
    pub fn new(stored: &[u64]) -> FourMaps {
        let maps: [DashMap<u16, Vec<u64>>; 4] = std::array::from_fn(|_| DashMap::new());
        for &hash in stored {
            for (block, map) in maps.iter().enumerate() {
                let mut list = map.entry(key(hash, block)).or_default();
                if block > 0 || !list.contains(&hash) {
                    list.push(hash);
                }
            }
        }
        let mut flips: Vec<u16> = (0..=u16::MAX).collect();
        flips.sort_by_key(|flips| flips.count_ones());
        FourMaps { maps, flips }
    }
}

fn key(hash: u64, block: usize) -> u16 {
    (hash >> (16 * block)) as u16
}

impl Contender<u64> for FourMaps {
    fn name(&self) -> &'static str {
        "DashMap ×4"
    }

    fn look(&mut self, query: u64, k: u32) -> usize {
        let radius = |block: usize| (k as i32 + 1 - block as i32 + 3).div_euclid(4) - 1;
        let mut matches = 0;
        for (block, map) in self.maps.iter().enumerate() {
            for flips in self.flips.iter().take_while(|flips| flips.count_ones() as i32 <= radius(block)) {
                let Some(list) = map.get(&(key(query, block) ^ flips)) else { continue };
                for &hash in list.value() {
                    let differing = hash ^ query;
                    let before = |earlier| key(differing, earlier).count_ones() as i32 <= radius(earlier);
                    if differing.count_ones() <= k && !(0..block).any(before) {
                        matches += 1;
                    }
                }
            }
        }
        matches
    }
}

/// Compares every hash, with the widest population count of the machine.
pub struct Scan<W>(pub Vec<W>);

impl<W: Word> Contender<W> for Scan<W> {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn look(&mut self, query: W, k: u32) -> usize {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vpopcntdq") {
            // SAFETY: the machine has the instructions.
            return unsafe { scan_wide(&self.0, query, k) };
        }
        count(&self.0, query, k)
    }
}

/// The compiler vectorises this loop for the instructions that the caller enables.
#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled anew for wider vectors")]
fn count<W: Word>(hashes: &[W], query: W, k: u32) -> usize {
    hashes.iter().map(|&hash| u64::from((hash ^ query).ones() <= k)).sum::<u64>() as usize
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx512vpopcntdq")]
fn scan_wide<W: Word>(hashes: &[W], query: W, k: u32) -> usize {
    count(hashes, query, k)
}
