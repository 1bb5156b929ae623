//! A hash table of every value within a radius of each stored hash.
//!
//! Manku, Jain and Das Sarma (WWW 2007), 3: all values are computed in advance from which some fingerprint is
//! at most distance k away. Then a lookup probes one value. Here the radius is a parameter: with a radius r
//! below k, a lookup probes the values within k - r of the query. A hash at distance d from the query has a
//! variant among them, because the d differing bits can be divided into at most r and at most k - r.
//!
//! Costs: 8 to 16 bytes and an index of 2 to 4 for each variant. With radius 3 of 64 bits these are 43,745
//! per hash, some 500 kB, so only thousands of hashes fit into a gigabyte; with radius 1 they are 65, and a
//! lookup with k = 3 probes 2,081 values.
//!
//! The table has a bucket for each value of the mixed bits of a variant; a bucket has the hashes themselves,
//! one for each of their variants in it. A hash is compared with the query, so variants are not stored.

use super::bits::{Bits, around, ball};
use super::{Built, Neighbour, Touched};

pub(super) struct Variants<W> {
    /// Where each bucket starts in `entries`, and the end of the last one.
    starts: Vec<u32>,
    entries: Vec<W>,
    radius: u32,
    k: u32,
}

/// The number of buckets: a bucket has one or two entries on average.
fn buckets(entries: u128) -> u128 {
    (entries.max(1).next_power_of_two() / 2).max(1)
}

/// The bytes of this many entries; saturated if they are too many to count.
pub(super) fn bytes<W>(entries: u128) -> u128 {
    if entries > 1 << 100 {
        return u128::MAX;
    }
    entries * size_of::<W>() as u128 + (buckets(entries) + 1) * 4
}

/// The bucket of a variant, by its highest mixed bits.
fn bucket<W: Bits>(variant: W, buckets: usize) -> usize {
    ((u128::from(variant.mixed()) * buckets as u128) >> 64) as usize
}

impl<W: Bits> Variants<W> {
    pub(super) fn new(hashes: &[W], k: u32, radius: u32) -> Variants<W> {
        let count = ball(W::WIDTH.bits(), radius) as usize * hashes.len();
        let buckets = buckets(count as u128) as usize;
        // First the size of each bucket, then its end.
        let mut starts = vec![0u32; buckets + 1];
        for &hash in hashes {
            around(hash, radius, &mut |variant| starts[bucket(variant, buckets)] += 1);
        }
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        // Each bucket is filled from its end, so its start is right when it is full.
        let mut entries = vec![W::ZERO; count];
        for &hash in hashes {
            around(hash, radius, &mut |variant| {
                let start = &mut starts[bucket(variant, buckets)];
                *start -= 1;
                entries[*start as usize] = hash;
            });
        }
        Variants { starts, entries, radius, k }
    }
}

impl<W: Bits> Built<W> for Variants<W> {
    fn within(&self, query: W, found: &mut Vec<Neighbour<W>>) -> Touched {
        let mut touched = Touched::default();
        let buckets = self.starts.len() - 1;
        let mut near = Vec::new();
        around(query, self.k - self.radius, &mut |variant| {
            let at = bucket(variant, buckets);
            let entries = &self.entries[self.starts[at] as usize..self.starts[at + 1] as usize];
            touched.probes += 1;
            touched.candidates += entries.len() as u64;
            let compared = entries.iter().map(|&hash| Neighbour { distance: (hash ^ query).ones(), hash });
            near.extend(compared.filter(|near| near.distance <= self.k));
        });
        // A hash may be found by several of its variants.
        near.sort_unstable();
        near.dedup();
        found.append(&mut near);
        touched
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.entries)
    }
}
