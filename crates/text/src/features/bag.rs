//! A bag of features: each distinct digest once, grouped into classes of equal weight.
//!
//! Weights follow from counts, and most features of most texts occur at most three times, so there are few
//! weights. A vote counts features of equal weight several times faster than it adds different weights.
//!
//! Not here: the digests (`digest`) and the vote (`fingerprint`).

use super::digest::Digest;

/// Distinct features, grouped by weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bag<D> {
    classes: Vec<Class<D>>,
}

/// Distinct features of one weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class<D> {
    /// The weight in fixed point, see [`super::ONE`].
    pub weight: u64,
    /// The digests; no digest is in two classes.
    pub digests: Vec<D>,
}

impl<D> Default for Bag<D> {
    fn default() -> Bag<D> {
        Bag { classes: Vec::new() }
    }
}

impl<D: Digest> Bag<D> {
    /// Counts the occurrences and adds each distinct digest with the weight of its count. `occurrences`
    /// must not contain a digest that the bag already has.
    ///
    /// Digests are counted in a hash table. An attacker who chooses the text can make any table without a
    /// secret quadratic, and a secret is an input that a pure function cannot have. Therefore a table that
    /// needs too many probes is abandoned, and the digests are sorted instead. Sorting always would cost
    /// three times as much.
    pub fn count(&mut self, mut occurrences: Vec<D>, weight: impl Fn(u32) -> u64) {
        for (shared, piece) in pieces(&mut occurrences) {
            match Table::of(piece, shared) {
                Some(table) => self.take(table, &weight),
                None => self.count_by_sorting(piece, &weight),
            }
        }
    }

    /// Adds the digests that a table has counted.
    fn take(&mut self, table: Table<D>, weight: impl Fn(u32) -> u64) {
        let Table { mut distinct, mut counts, again } = table;
        // Many features occur a few times, so each of these classes is found once and not once per feature.
        let mut few: [Vec<D>; FEW] = Default::default();
        for at in again {
            let digest = distinct[at as usize];
            // A digest is in `again` once per repetition; only the first visit finds its count.
            match std::mem::take(&mut counts[at as usize]) {
                0 => {}
                count => match few.get_mut(count as usize - 2) {
                    Some(class) => class.push(digest),
                    None => self.add(digest, weight(count)),
                },
            }
        }
        // The digests that occur once are moved together. They are unpredictable, so there is no branch.
        let mut once = 0;
        for (at, count) in counts.into_iter().enumerate() {
            distinct[once] = distinct[at];
            once += usize::from(count == 1);
        }
        distinct.truncate(once);
        self.classes.push(Class { weight: weight(1), digests: distinct });
        for (count, digests) in (2..).zip(few) {
            if !digests.is_empty() {
                self.classes.push(Class { weight: weight(count), digests });
            }
        }
    }

    fn count_by_sorting(&mut self, occurrences: &mut [D], weight: impl Fn(u32) -> u64) {
        occurrences.sort_unstable();
        let mut once = Class { weight: weight(1), digests: Vec::new() };
        for same in occurrences.chunk_by(|a, b| a == b) {
            match u32::try_from(same.len()).unwrap_or(u32::MAX) {
                1 => once.digests.push(same[0]),
                count => self.add(same[0], weight(count)),
            }
        }
        self.classes.push(once);
    }

    /// Adds a digest that the bag does not have yet. Only the last classes are searched for its weight,
    /// because a text can have thousands of different weights.
    pub fn add(&mut self, digest: D, weight: u64) {
        match self.classes.iter_mut().rev().take(RECENT).find(|class| class.weight == weight) {
            Some(class) => class.digests.push(digest),
            None => self.classes.push(Class { weight, digests: vec![digest] }),
        }
    }

    /// The classes; two of them may have the same weight, and one may be empty.
    pub fn classes(&self) -> &[Class<D>] {
        &self.classes
    }

    /// The number of distinct features.
    pub fn len(&self) -> usize {
        self.classes.iter().map(|class| class.digests.len()).sum()
    }

    /// Whether there are no features.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sum of the squared weights.
    pub fn squares(&self) -> f64 {
        self.classes.iter().map(|class| (class.weight as f64).powi(2) * class.digests.len() as f64).sum()
    }

    /// The smallest digest; `None` if the bag is empty.
    pub fn smallest(&self) -> Option<D> {
        self.classes.iter().flat_map(|class| &class.digests).min().copied()
    }
}

/// The number of classes that are searched for the weight of a single digest. Keywords are added in the
/// order of their weights, so the class is usually among the last.
const RECENT: usize = 16;
/// The number of classes that a table fills directly: those of the counts 2 to `FEW + 1`.
const FEW: usize = 6;
/// The typical number of digests that are counted in one table: from this many to twice as many.
const PIECE: usize = 1 << 15;
/// A piece with more digests than this repeats a few digests, or an attacker chose them. It is sorted, which
/// allocates no table.
pub(super) const CROWDED: usize = 4 * PIECE;
/// The average number of failed probes per occurrence after which a table is abandoned. At least three of
/// four slots are empty, so evenly distributed digests need about 1/8.
pub(super) const PROBES: usize = 8;

/// Distinct digests and the count of each.
///
/// The digests are in the order of their first occurrence. Slots of four bytes contain their indexes: open
/// addressing by the first bits, with linear probing. A processor cannot predict whether a digest is new.
/// Therefore each digest is written after the known ones in any case, an empty slot points there, and the
/// difference between a new digest and a known one is arithmetic and not a branch.
struct Table<D> {
    distinct: Vec<D>,
    counts: Vec<u32>,
    /// For each occurrence that is not the first of its digest: the index of the digest in `distinct`.
    again: Vec<u32>,
}

impl<D: Digest> Table<D> {
    /// A table of digests whose first `shared` bits are equal. `None` if there are too many digests, or if
    /// the table needs so many probes that an attacker must have chosen the digests.
    fn of(occurrences: &[D], shared: u32) -> Option<Table<D>> {
        let &any = occurrences.first()?;
        if occurrences.len() > CROWDED {
            return None;
        }
        let bits = (occurrences.len() * 4).next_power_of_two().ilog2();
        let mut slots = vec![0_u32; 1 << bits];
        let mask = slots.len() - 1;
        let mut distinct = vec![any; occurrences.len()];
        let mut counts = vec![0_u32; occurrences.len()];
        let mut again = vec![0_u32; occurrences.len()];
        let (mut known, mut repeated, mut probes_left) = (0, 0, occurrences.len() * PROBES);
        for &digest in occurrences {
            distinct[known] = digest;
            let mut slot = ((digest.top() << shared) >> (64 - bits)) as usize & mask;
            let at = loop {
                // A slot contains the index plus 1, or 0 if it is empty.
                let at = (slots[slot] as usize).wrapping_sub(1).min(known);
                if distinct[at] == digest {
                    break at;
                }
                probes_left = probes_left.checked_sub(1)?;
                slot = (slot + 1) & mask;
            };
            slots[slot] = at as u32 + 1;
            counts[at] += 1;
            again[repeated] = at as u32;
            repeated += usize::from(at < known);
            known += usize::from(at == known);
        }
        distinct.truncate(known);
        counts.truncate(known);
        again.truncate(repeated);
        Some(Table { distinct, counts, again })
    }
}

/// Partitions digests in place by their first bits into pieces of about `PIECE` digests. Each item is the
/// number of equal first bits and the piece. The table of a piece fits the caches of a processor, and only
/// one table is in memory at a time.
pub(super) fn pieces<D: Digest>(digests: &mut [D]) -> impl Iterator<Item = (u32, &mut [D])> {
    let shared = (digests.len() / PIECE).max(1).ilog2();
    let piece = |digest: D| ((digest.top() >> 1) >> (63 - shared)) as usize;
    let mut ends = vec![0; 1 << shared];
    if shared == 0 {
        ends[0] = digests.len();
    } else {
        digests.iter().for_each(|&digest| ends[piece(digest)] += 1);
    }
    let mut sum = 0;
    for end in &mut ends {
        sum += *end;
        *end = sum;
    }
    // Each digest in the wrong piece is swapped with the digest at the next index of its own piece.
    let mut next: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).take(ends.len()).collect();
    for at in (0..ends.len()).filter(|_| shared > 0) {
        while next[at] < ends[at] {
            let home = piece(digests[next[at]]);
            digests.swap(next[at], next[home]);
            next[home] += 1;
        }
    }
    let mut rest = digests;
    let mut start = 0;
    ends.into_iter().map(move |end| {
        let (piece, after) = std::mem::take(&mut rest).split_at_mut(end - start);
        (start, rest) = (end, after);
        (shared, piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{Kind, Limbs};
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn many_digests_are_cut_into_pieces_for_every_distribution() {
        let counts = [0, 1, 2, 1_000, 2 * PIECE - 1, 2 * PIECE, 5 * PIECE, 9 * PIECE + 7];
        for (count, spread) in
            counts.into_iter().flat_map(|count| [(count, 0x9e37_79b9_7f4a_7c15), (count, 1), (count, 0)])
        {
            let mut found: Vec<Limbs<2>> =
                (0..count as u64).map(|i| [i.wrapping_mul(spread), i % 3]).collect();
            let mut expected = found.clone();
            expected.sort_unstable();
            for (shared, piece) in pieces(&mut found) {
                assert!(spread < 2 || piece.len() < 3 * PIECE, "{count}: {}", piece.len());
                let first = |digest: &Limbs<2>| digest.top().checked_shr(64 - shared).unwrap_or_default();
                assert!(piece.iter().all(|digest| first(digest) == first(&piece[0])), "{count} {spread}");
                piece.sort_unstable();
            }
            // Pieces are in order.
            assert_eq!(found, expected, "{count} {spread}");
        }
    }

    #[test]
    fn counting_in_pieces_equals_sorting() {
        let occurrences: Vec<Limbs<1>> =
            (0..8 * PIECE as u64).map(|n| Limbs::of(Kind::Word, &(n * n % 99_991).to_string())).collect();
        let mut in_pieces = Bag::default();
        in_pieces.count(occurrences.clone(), u64::from);
        let mut by_sorting = Bag::default();
        by_sorting.count_by_sorting(&mut occurrences.clone(), u64::from);
        assert_eq!(contents(&in_pieces), contents(&by_sorting));
    }

    fn contents(bag: &Bag<Limbs<1>>) -> Vec<(u64, Limbs<1>)> {
        let classes = bag.classes().iter();
        let mut all: Vec<_> =
            classes.flat_map(|class| class.digests.iter().map(|digest| (class.weight, *digest))).collect();
        all.sort_unstable();
        all
    }

    proptest! {
        #[test]
        fn counting_in_a_table_equals_sorting(numbers in vec(0u64..200, 0..600), spread in any::<bool>()) {
            // Digests that are not evenly distributed collide at one end of the table, and it is abandoned.
            let digest = |n: &u64| if spread { Limbs::<1>::of(Kind::Word, &n.to_string()) } else { [*n] };
            let occurrences: Vec<Limbs<1>> = numbers.iter().map(digest).collect();
            let mut by_table = Bag::default();
            by_table.count(occurrences.clone(), u64::from);
            let mut by_sorting = Bag::default();
            by_sorting.count_by_sorting(&mut occurrences.clone(), u64::from);
            prop_assert_eq!(contents(&by_table), contents(&by_sorting));
        }
    }

    #[test]
    fn a_table_with_too_many_collisions_is_abandoned() {
        let crowded: Vec<Limbs<1>> = (0..10_000).map(|low| [low]).collect();
        assert!(Table::of(&crowded, 0).is_none());
        let spread: Vec<Limbs<1>> = (0..10_000).map(|n: u64| Limbs::of(Kind::Word, &n.to_string())).collect();
        assert_eq!(Table::of(&spread, 0).unwrap().distinct.len(), 10_000);
    }

    #[test]
    fn each_digest_is_in_the_class_of_its_count() {
        let [a, b, c] = ["a", "b", "c"].map(|text| Limbs::<1>::of(Kind::Word, text));
        let mut bag = Bag::default();
        bag.count(vec![a, b, a, c, a, c], |count| u64::from(count) * 10);
        let mut found: Vec<_> =
            bag.classes().iter().map(|class| (class.weight, class.digests.clone())).collect();
        found.sort_unstable();
        assert_eq!(found, [(10, vec![b]), (20, vec![c]), (30, vec![a])]);
        assert_eq!((bag.len(), bag.smallest()), (3, [a, b, c].into_iter().min()));
    }
}
