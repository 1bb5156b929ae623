//! A hash table for each block of the hash.
//!
//! After Greene, Parnas and Yao, "Multi-index hashing for information retrieval" (FOCS 1994), in the form of
//! `SimhashIndex` of the Python package `simhash`: the hash is cut into k + 1 blocks. If k bits differ, at
//! least one block agrees (the pigeonhole principle), so a lookup reads the list of each block's value. With
//! k = 3 that is 4 blocks of 16 bits. Blocks differ in length by one bit at most; `simhash` gives all rest
//! bits to the last block.
//!
//! Costs, for n even hashes of w bits: k + 1 probes and (k + 1) · n / 2^(w / (k + 1)) candidates, so blocks
//! get short as k grows: with k = 3 of 64 bits n / 16,384, with k = 7 n / 32. Hashes that share a block, such
//! as those of empty texts, are in one list. k + 1 copies of each hash.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::bits::Bits;
use super::{Built, Neighbour, Touched};

pub(super) struct Blocks<W> {
    tables: Vec<Table<W>>,
    k: u32,
}

/// The hashes by the value of the block of `bits` bits from bit `from` upwards.
struct Table<W> {
    from: u32,
    bits: u32,
    lists: HashMap<W, Vec<W>, FixedState>,
}

/// The blocks, each as its lowest bit and its number of bits.
fn cut(k: u32, bits: u32) -> impl Iterator<Item = (u32, u32)> {
    let from = move |block: u32| bits * block / (k + 1);
    (0..=k).map(move |block| (from(block), from(block + 1) - from(block)))
}

/// The lengths of the blocks, such as `12 to 13`.
pub(super) fn widths(k: u32, bits: u32) -> String {
    let (least, most) = (bits / (k + 1), bits.div_ceil(k + 1));
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

/// An upper bound of the bytes: each hash in each table, each value with a list, in tables at most half full.
pub(super) fn most_bytes<W: Bits>(hashes: &[W], k: u32) -> u128 {
    let count = hashes.len() as u128;
    let of_table = |bits: u32| {
        let values = count.min(1u128.checked_shl(bits).unwrap_or(u128::MAX));
        let slots = (values * 8).div_ceil(7).max(16).next_power_of_two();
        count * size_of::<W>() as u128 + slots * (size_of::<(W, Vec<W>)>() as u128 + 1) + 64
    };
    cut(k, W::WIDTH.bits()).map(|(_, bits)| of_table(bits)).sum()
}

impl<W: Bits> Blocks<W> {
    pub(super) fn new(hashes: &[W], k: u32) -> Blocks<W> {
        let table = |(from, bits)| {
            let mut lists: HashMap<W, Vec<W>, FixedState> = HashMap::default();
            for &hash in hashes {
                lists.entry(hash.piece(from, bits)).or_default().push(hash);
            }
            lists.values_mut().for_each(Vec::shrink_to_fit);
            Table { from, bits, lists }
        };
        Blocks { tables: cut(k, W::WIDTH.bits()).map(table).collect(), k }
    }
}

impl<W: Bits> Built<W> for Blocks<W> {
    fn within(&self, query: W, found: &mut Vec<Neighbour<W>>) -> Touched {
        let mut touched = Touched::default();
        for (number, table) in self.tables.iter().enumerate() {
            touched.probes += 1;
            let Some(list) = table.lists.get(&query.piece(table.from, table.bits)) else { continue };
            touched.candidates += list.len() as u64;
            for &hash in list {
                let differing = hash ^ query;
                let agrees = |table: &Table<W>| differing.piece(table.from, table.bits) == W::ZERO;
                // The first table in which the block agrees reports the hash.
                if differing.ones() <= self.k && !self.tables[..number].iter().any(agrees) {
                    found.push(Neighbour { distance: differing.ones(), hash });
                }
            }
        }
        touched
    }

    fn bytes(&self) -> usize {
        let of_list = |list: &Vec<W>| list.capacity() * size_of::<W>();
        let of_table = |table: &Table<W>| {
            table.lists.allocation_size() + table.lists.values().map(of_list).sum::<usize>()
        };
        self.tables.iter().map(of_table).sum()
    }
}
