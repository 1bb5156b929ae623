//! Looks up every value within k of the query in a set, with or without a Bloom filter before it.
//!
//! Manku, Jain and Das Sarma (WWW 2007), 3: a table of the fingerprints is probed with each value whose
//! distance from the query is at most k. With a filter, most values that are not stored are rejected without
//! a look at the set.
//!
//! Costs: one copy of each hash, but a lookup probes as many values as are within k: 43,745 of 64 bits with k
//! = 3, 679,121 with k = 4. The number does not depend on the stored hashes, so the plan suits small k only.

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::bits::{Bits, around};
use super::bloom::Filter;
use super::{Built, Neighbour, Touched};

pub(super) struct Ball<W> {
    set: HashSet<W, FixedState>,
    filter: Option<Filter>,
    k: u32,
}

/// An upper bound of the bytes of the set.
pub(super) fn most_bytes<W>(hashes: u128) -> u128 {
    (hashes * 8).div_ceil(7).max(16).next_power_of_two() * (size_of::<W>() as u128 + 1) + 64
}

impl<W: Bits> Ball<W> {
    pub(super) fn new(hashes: &[W], k: u32, is_filtered: bool) -> Ball<W> {
        let filter = is_filtered.then(|| Filter::new(hashes));
        Ball { set: hashes.iter().copied().collect(), filter, k }
    }
}

impl<W: Bits> Built<W> for Ball<W> {
    fn within(&self, query: W, found: &mut Vec<Neighbour<W>>) -> Touched {
        let mut touched = Touched::default();
        around(query, self.k, &mut |hash| {
            touched.probes += 1;
            if self.filter.as_ref().is_some_and(|filter| !filter.may_hold(hash)) {
                return;
            }
            touched.candidates += 1;
            if self.set.contains(&hash) {
                found.push(Neighbour { distance: (hash ^ query).ones(), hash });
            }
        });
        touched
    }

    fn bytes(&self) -> usize {
        self.set.allocation_size() + self.filter.as_ref().map_or(0, Filter::bytes)
    }
}
