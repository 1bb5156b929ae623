//! The published plans of lookups within k = 3 of 64 bits: their time and memory.

use std::collections::HashSet;
use std::time::Instant;

use lookalike::index::Index;

use super::data::{self, Spread};
use super::peers::{Contender, Own};
use crate::rounds::{ROUNDS, median};

const K: u32 = 3;

pub fn report(count: usize) {
    println!("\n## The plans of the literature: {count} even hashes of 64 bits, k = {K}\n");
    let stored = data::hashes::<u64>(count, Spread::Even);
    let index = Index::<u64>::new();
    index.insert_all(stored.iter().copied());
    let own = index.bytes() as f64;
    let mut plans: Vec<(Box<dyn Contender<u64> + '_>, f64)> = vec![(Box::new(Own(&index, Vec::new())), own)];
    let mut manku: Vec<Manku> =
        MANKU.iter().map(|&(name, blocks, exact)| Manku::new(name, &stored, blocks, exact)).collect();
    manku.insert(2, Manku::sixteen(&stored));
    for tables in manku {
        let bytes = (tables.0.len() * count * 8) as f64;
        plans.push((Box::new(tables), bytes));
    }
    // A set of 64-bit words takes 8 bytes and a control byte per slot, and is at most 7/8 full.
    let set: HashSet<u64> = stored.iter().copied().collect();
    let of_set = set.capacity() as f64 * 8.0 / 7.0 * 9.0;
    let filter = Filter::new(&stored);
    let of_filter = filter.0.len() as f64 * 8.0;
    plans.push((Box::new(Neighbours { set: set.clone(), filter: None }), of_set));
    plans.push((Box::new(Neighbours { set, filter: Some(filter) }), of_set + of_filter));
    plans.push((Box::new(OneBit::new(&stored)), 64.0 * 2.0 * count as f64 + 8.0 * count as f64));
    let check = data::queries(&stored, 20, K, 3);
    let expected: Vec<usize> = check.iter().map(|query| plans[0].0.look(*query, K)).collect();
    println!("| plan | ns a query | bytes a hash |\n|---|---|---|");
    for (plan, bytes) in &mut plans {
        let found: Vec<usize> = check.iter().map(|query| plan.look(*query, K)).collect();
        assert_eq!(found, expected, "{} differs", plan.name());
        let figures = (0..ROUNDS as u64).map(|round| {
            let start = Instant::now();
            let mut asked = 0;
            for query in data::queries(&stored, 200_000, K, round) {
                plan.look(query, K);
                asked += 1;
                if asked >= 10 && start.elapsed().as_millis() > 300 {
                    break;
                }
            }
            start.elapsed().as_nanos() as f64 / f64::from(asked)
        });
        let figures: Vec<f64> = figures.collect();
        println!("| {} | {:.0} | {:.1} |", plan.name(), median(figures), *bytes / count as f64);
    }
}

/// Manku, Jain and Das Sarma (2007): the hashes are in several sorted tables. Each table puts other blocks of
/// the hash first, and these must agree exactly. k bits differ in at most k blocks, so the number of exact
/// blocks is the number of blocks less k. Name, number of blocks, number of exact blocks.
const MANKU: [(&str, u32, u32); 3] = [
    ("4 tables: 4 blocks, one exact", 4, 1),
    ("10 tables: 5 blocks, two exact", 5, 2),
    ("20 tables: 6 blocks, three exact", 6, 3),
];

struct Manku(Vec<Sorted>, &'static str);

struct Sorted {
    /// The blocks in the order of the table, each as its lowest bit and its number of bits.
    order: Vec<(u32, u32)>,
    /// The number of first bits that must agree exactly.
    exact: u32,
    hashes: Vec<u64>,
}

impl Sorted {
    fn of(order: Vec<(u32, u32)>, exact: u32, stored: &[u64]) -> Sorted {
        let mut table = Sorted { order, exact, hashes: Vec::new() };
        table.hashes = stored.iter().map(|hash| table.permuted(*hash)).collect();
        table.hashes.sort_unstable();
        table
    }

    fn permuted(&self, hash: u64) -> u64 {
        self.order
            .iter()
            .fold(0, |permuted, &(from, bits)| permuted << bits | hash >> from & ((1 << bits) - 1))
    }
}

impl Manku {
    fn new(name: &'static str, stored: &[u64], blocks: u32, exact: u32) -> Manku {
        let from = |block: u32| 64 * block / blocks;
        let cut: Vec<(u32, u32)> =
            (0..blocks).map(|block| (from(block), from(block + 1) - from(block))).collect();
        let chosen = (0..1u32 << blocks).filter(|chosen| chosen.count_ones() == exact);
        let tables = chosen.map(|chosen| {
            let (first, rest): (Vec<_>, Vec<_>) = (0..blocks).partition(|block| chosen >> block & 1 == 1);
            let order = first.iter().chain(&rest).map(|block| cut[*block as usize]).collect();
            Sorted::of(order, first.iter().map(|block| cut[*block as usize].1).sum(), stored)
        });
        Manku(tables.collect(), name)
    }

    /// The exact bits are one of 4 blocks, and one of 4 pieces of 12 bits of the remaining 48 bits.
    fn sixteen(stored: &[u64]) -> Manku {
        let tables = (0..16).map(|number| {
            let (block, piece) = (number / 4, number % 4);
            let rest = |at: u32| if at / 16 < block { at } else { at + 16 };
            let of_piece = |piece: u32| (12 * piece..12 * piece + 12).map(move |at| (rest(at), 1));
            let others = (0..4).filter(|other| *other != piece).flat_map(of_piece);
            let order = std::iter::once((16 * block, 16)).chain(of_piece(piece)).chain(others);
            Sorted::of(order.collect(), 28, stored)
        });
        Manku(tables.collect(), "16 tables: one block of 4 exact, one of 4 of the rest")
    }
}

impl Contender<u64> for Manku {
    fn name(&self) -> &'static str {
        self.1
    }

    fn look(&mut self, query: u64, k: u32) -> usize {
        let mut matches = 0;
        for (number, table) in self.0.iter().enumerate() {
            let permuted = table.permuted(query);
            let key = permuted >> (64 - table.exact);
            let from = table.hashes.partition_point(|hash| hash >> (64 - table.exact) < key);
            for hash in table.hashes[from..].iter().take_while(|hash| *hash >> (64 - table.exact) == key) {
                let differing = hash ^ permuted;
                // Only the first table in which the exact blocks agree counts a hash.
                if differing.count_ones() <= k && self.first(number, differing) {
                    matches += 1;
                }
            }
        }
        matches
    }
}

impl Manku {
    /// Whether no earlier table finds a hash that differs from the query in these bits; they are in the order
    /// of table `number`.
    fn first(&self, number: usize, differing: u64) -> bool {
        let table = &self.0[number];
        let mut left = 64;
        let mut original = 0u64;
        for &(from, bits) in &table.order {
            left -= bits;
            original |= (differing >> left & ((1 << bits) - 1)) << from;
        }
        !self.0[..number].iter().any(|before| before.permuted(original) >> (64 - before.exact) == 0)
    }
}

/// Looks up every value within k of the query in a set, with or without a Bloom filter before it.
struct Neighbours {
    set: HashSet<u64>,
    filter: Option<Filter>,
}

impl Contender<u64> for Neighbours {
    fn name(&self) -> &'static str {
        if self.filter.is_some() { "all neighbours, a Bloom filter first" } else { "all neighbours" }
    }

    fn look(&mut self, query: u64, k: u32) -> usize {
        fn around(hash: u64, from: u32, left: u32, each: &mut impl FnMut(u64)) {
            each(hash);
            if left > 0 {
                (from..64).for_each(|bit| around(hash ^ 1 << bit, bit + 1, left - 1, each));
            }
        }
        let mut matches = 0;
        around(query, 0, k, &mut |hash| {
            let may = self.filter.as_ref().is_none_or(|filter| filter.may_hold(hash));
            matches += usize::from(may && self.set.contains(&hash));
        });
        matches
    }
}

/// A Bloom filter (Bloom, 1970) of 12 bits per hash, which sets 4 bits for each.
struct Filter(Vec<u64>);

impl Filter {
    fn new(stored: &[u64]) -> Filter {
        let mut filter = Filter(vec![0; (stored.len() * 12 / 64).next_power_of_two()]);
        for &hash in stored {
            filter.places(hash).for_each(|(word, bit)| filter.0[word] |= bit);
        }
        filter
    }

    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let bits = self.0.len() * 64;
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = mixed ^ mixed >> 29;
        (0..4u64).map(move |number| {
            let at = mixed.wrapping_add(number.wrapping_mul(mixed >> 32 | 1)) as usize & (bits - 1);
            (at / 64, 1 << (at % 64))
        })
    }

    fn may_hold(&self, hash: u64) -> bool {
        self.places(hash).all(|(word, bit)| self.0[word] & bit != 0)
    }
}

/// A list for each bit, of the hashes that have it set. The lists of the query's bits give the number of
/// common bits, and so the distance, of every hash.
struct OneBit {
    lists: Vec<Vec<u32>>,
    ones: Vec<u32>,
}

impl OneBit {
    fn new(stored: &[u64]) -> OneBit {
        let having = |bit: u32| {
            (0..).zip(stored).filter(move |(_, hash)| *hash >> bit & 1 == 1).map(|(number, _)| number)
        };
        OneBit {
            lists: (0..64).map(|bit| having(bit).collect()).collect(),
            ones: stored.iter().map(|hash| hash.count_ones()).collect(),
        }
    }
}

impl Contender<u64> for OneBit {
    fn name(&self) -> &'static str {
        "64 one-bit lists"
    }

    fn look(&mut self, query: u64, k: u32) -> usize {
        let mut common = vec![0u8; self.ones.len()];
        for (_, list) in self.lists.iter().enumerate().filter(|(bit, _)| query >> bit & 1 == 1) {
            list.iter().for_each(|number| common[*number as usize] += 1);
        }
        let near = |(common, ones): &(&u8, &u32)| query.count_ones() + **ones - 2 * u32::from(**common) <= k;
        common.iter().zip(&self.ones).filter(near).count()
    }
}
