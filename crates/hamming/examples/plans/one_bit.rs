//! A list for each bit, of the hashes that have it set.
//!
//! These are the posting lists of a text index (Zobel and Moffat, "Inverted files for text search engines",
//! ACM Computing Surveys 38, 2006) with bits in place of words. The lists of the query's bits give the number
//! of common bits of every hash, and so its distance.
//!
//! Costs: a number of 4 bytes for each set bit, so half of the width of numbers for each hash. A lookup reads
//! a quarter of the width of numbers for each stored hash, and a counter for each: a bit that half of the
//! hashes have selects nothing. It is slower than the scan for every k.

use super::bits::Bits;
use super::{Built, Neighbour, Touched};

pub(super) struct OneBit<W> {
    lists: Vec<Vec<u32>>,
    hashes: Vec<W>,
    k: u32,
}

/// The bytes of the lists and the hashes.
pub(super) fn bytes<W: Bits>(hashes: &[W]) -> u128 {
    let ones: u128 = hashes.iter().map(|hash| u128::from(hash.ones())).sum();
    ones * 4 + size_of_val(hashes) as u128
}

impl<W: Bits> OneBit<W> {
    pub(super) fn new(hashes: &[W], k: u32) -> OneBit<W> {
        let having = |bit: u32| {
            let numbered = (0..).zip(hashes).filter(move |(_, hash)| hash.has(bit));
            let mut list: Vec<u32> = numbered.map(|(number, _)| number).collect();
            list.shrink_to_fit();
            list
        };
        OneBit { lists: (0..W::WIDTH.bits()).map(having).collect(), hashes: hashes.to_vec(), k }
    }
}

impl<W: Bits> Built<W> for OneBit<W> {
    fn within(&self, query: W, found: &mut Vec<Neighbour<W>>) -> Touched {
        let mut touched = Touched::default();
        let mut common = vec![0u8; self.hashes.len()];
        for (_, list) in (0..).zip(&self.lists).filter(|(bit, _)| query.has(*bit)) {
            touched.probes += 1;
            touched.candidates += list.len() as u64;
            list.iter().for_each(|number| common[*number as usize] += 1);
        }
        for (&hash, common) in self.hashes.iter().zip(common) {
            let distance = query.ones() + hash.ones() - 2 * u32::from(common);
            if distance <= self.k {
                found.push(Neighbour { distance, hash });
            }
        }
        touched
    }

    fn bytes(&self) -> usize {
        self.lists.iter().map(|list| list.capacity() * 4).sum::<usize>() + size_of_val(&*self.hashes)
    }
}
