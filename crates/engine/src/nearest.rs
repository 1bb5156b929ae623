//! The nearest hashes of an index, without all the others within a large k.
//!
//! Almost every hash of a collection is within k = 64 bits. Callers that need only a few would collect, and
//! hold, millions.

use lookalike_hamming::{HashIndex, Neighbour, Subject};
use lookalike_hash::Hash;

/// The first radius that is tried when fewer than all hashes within k may be enough, and the increment of
/// the later ones.
pub(super) const FIRST_RADIUS: u32 = 3;
pub(super) const STEP: u32 = 4;

/// Hashes of an index whose neighbours are held whatever k is.
const HELD: usize = 1 << 16;

/// The smallest radius, from `least` to `k`, within which there are `wanted` hashes at distances from `least`
/// on, and the number of all hashes within it; `k` if there are fewer. It compares every hash and holds none.
pub(super) fn counted_radius(
    index: &dyn HashIndex,
    subject: Subject<'_>,
    least: u32,
    k: u32,
    wanted: usize,
) -> (u32, usize) {
    let mut counts = vec![0u64; index.most() as usize + 1];
    index.distances(subject, &mut counts);
    let mut sum = 0;
    let reaches = |distance: &u32| {
        sum += counts[*distance as usize];
        sum >= wanted as u64
    };
    let radius = (least..=k).find(reaches).unwrap_or(k);
    let found: u64 = counts[..=radius as usize].iter().sum();
    (radius, usize::try_from(found).unwrap_or(usize::MAX))
}

/// `wanted` hashes within `k` and those that are as near, nearest first; all of them if there are fewer.
/// `check` is called before each search; its error ends the work.
pub(super) fn nearest<E>(
    index: &dyn HashIndex,
    subject: Subject<'_>,
    k: u32,
    wanted: usize,
    check: impl Fn() -> Result<(), E>,
) -> Result<Vec<Neighbour<Hash>>, E> {
    let mut found = Vec::new();
    let mut radius = index.first_radius(FIRST_RADIUS, k);
    loop {
        check()?;
        let scans = index.scans(radius);
        let is_last = scans || radius >= k;
        if scans && index.len() <= HELD {
            radius = k;
        } else if scans {
            (radius, _) = counted_radius(index, subject, 0, k, wanted);
            check()?;
        }
        found.clear();
        index.within(subject, radius, &mut found);
        if is_last || found.len() >= wanted {
            found.sort_unstable();
            return Ok(found);
        }
        radius = index.first_radius(radius + STEP, k);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookalike_hamming::index_for;

    /// Hashes that differ from `0` in 0 to 39 bits, about `each` at every distance.
    fn hashes(each: u64) -> impl Iterator<Item = Hash> {
        let spread = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..40u32).flat_map(move |bits| {
            (0..each).map(move |number| {
                let places =
                    (0..bits).map(|bit| (spread(number + 1) >> (bit % 7)).wrapping_add(bit.into()) % 64);
                Hash::from_u64(places.fold(0, |word, place| word | 1 << place))
            })
        })
    }

    #[test]
    fn the_nearest_are_those_of_all_within_k() {
        for each in [1, 100, 3_000] {
            let index = index_for(lookalike_hash::Width::Bits64, None);
            hashes(each).for_each(|hash| {
                index.insert(hash);
            });
            for (k, wanted) in [(0, 1), (3, 5), (12, 32), (40, 32), (64, 1), (64, 5_000)] {
                let subject = Subject { hash: Hash::from_u64(0), signature: None };
                let mut all = Vec::new();
                index.within(subject, k, &mut all);
                all.sort_unstable();
                let found = nearest(&*index, subject, k, wanted, || Ok::<_, ()>(())).unwrap();
                assert!(found.len() >= wanted.min(all.len()), "{each} {k} {wanted}");
                assert_eq!(found, all[..found.len()], "{each} {k} {wanted}");
            }
        }
    }
}
