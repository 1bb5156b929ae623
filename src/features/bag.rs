//! A bag of features: each distinct digest once, in a class with all others of its weight.
//!
//! Classes are here because weights follow counts, and most features of most texts occur once, twice or three
//! times: a vote counts equal weights several times faster than it adds different ones.

use super::digest::Digest;

/// Distinct features, by weight.
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
    /// Counts what occurs and adds each distinct digest with the weight of its count. `occurrences` must hold
    /// no digest that the bag has already.
    ///
    /// Equal digests meet in a table. Somebody who chooses the text could make any table without a secret
    /// quadratic, and a secret would be an input that a pure function does not have: so what looks too long for a
    /// place gives up, and digests are sorted in place of that. Sorting alone costs three times as much.
    pub fn count(&mut self, mut occurrences: Vec<D>, weight: impl Fn(u32) -> u64) {
        for (shared, piece) in pieces(&mut occurrences) {
            match Table::of(piece, shared) {
                Some(table) => self.take(table, &weight),
                None => self.count_by_sorting(piece, &weight),
            }
        }
    }

    /// Adds what a table has counted.
    fn take(&mut self, table: Table<D>, weight: impl Fn(u32) -> u64) {
        let Table { mut distinct, mut counts, again } = table;
        // Features that occur a few times are many: their classes are found once and not for each.
        let mut few: [Vec<D>; FEW] = Default::default();
        for at in again {
            let digest = distinct[at as usize];
            // What was repeated twice is there twice; the second time nothing is left of it.
            match std::mem::take(&mut counts[at as usize]) {
                0 => {}
                count => match few.get_mut(count as usize - 2) {
                    Some(class) => class.push(digest),
                    None => self.add(digest, weight(count)),
                },
            }
        }
        // Those that are left move together. Which are is a matter of chance, so that no branch asks for it.
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

    /// Adds a digest that the bag does not have yet. Its class is sought among the last ones only: whoever chooses the text
    /// may have thousands of different weights.
    pub fn add(&mut self, digest: D, weight: u64) {
        match self.classes.iter_mut().rev().take(NEAR).find(|class| class.weight == weight) {
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

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The smallest digest.
    pub fn smallest(&self) -> Option<D> {
        self.classes.iter().flat_map(|class| &class.digests).min().copied()
    }
}

/// How many classes are looked at for one that is added alone. Keywords come in the order of their weights.
const NEAR: usize = 16;
/// Counts up to this and one more have a list of their own.
const FEW: usize = 6;
/// Digests that are counted together, so many up to twice as many.
const PIECE: usize = 1 << 15;
/// A piece of more than so many holds a few digests over and over, or somebody chose them: it is sorted, which takes no memory.
const CROWDED: usize = 4 * PIECE;
/// How many slots may be looked at in vain, for each occurrence on the whole, before the table is given up. With
/// three of four slots empty or more and digests that are spread evenly, an eighth is usual.
const LOOKS: usize = 8;

/// Distinct digests and how often each occurs.
///
/// They stand in the order in which they came, and slots of four bytes lead to them: open addressing by the first
/// bits, the next slot being tried. Whether a digest is new is a matter of chance, which a processor cannot foresee;
/// so it is written behind the others in any case, an empty slot leads there, and what differs between a new one and
/// one that is known is arithmetic.
struct Table<D> {
    distinct: Vec<D>,
    counts: Vec<u32>,
    /// Places among the distinct ones: of each occurrence that was not the first.
    again: Vec<u32>,
}

impl<D: Digest> Table<D> {
    /// A table of digests whose first `shared` bits are the same. `None` if they crowd in so few places that somebody must
    /// have chosen them, or are too many.
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
        let (mut known, mut repeated, mut looks) = (0, 0, occurrences.len() * LOOKS);
        for &digest in occurrences {
            distinct[known] = digest;
            let mut slot = ((digest.top() << shared) >> (64 - bits)) as usize & mask;
            let at = loop {
                // A slot holds the place and one more, and 0 if it is empty.
                let at = (slots[slot] as usize).wrapping_sub(1).min(known);
                if distinct[at] == digest {
                    break at;
                }
                looks = looks.checked_sub(1)?;
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

/// Cuts many digests by their first bits into pieces of about `PIECE`, in place, and says how many bits those of a piece
/// share. The table of a piece stays in the caches of a processor, and the memory for tables is that of one piece.
fn pieces<D: Digest>(digests: &mut [D]) -> impl Iterator<Item = (u32, &mut [D])> {
    let shared = (digests.len() / PIECE).max(1).ilog2();
    let piece = |digest: D| ((digest.top() >> 1) >> (63 - shared)) as usize;
    let mut ends = vec![0; 1 << shared];
    for &digest in &*digests {
        ends[piece(digest)] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        sum += *end;
        *end = sum;
    }
    // Each digest that lies in a piece of others is swapped with what lies where it belongs.
    let mut next: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).take(ends.len()).collect();
    for at in 0..ends.len() {
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
    fn many_digests_are_cut_into_pieces_however_they_are_spread() {
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
            // Pieces stand in order.
            assert_eq!(found, expected, "{count} {spread}");
        }
    }

    #[test]
    fn many_digests_are_counted_as_few_are() {
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
        fn a_table_counts_what_sorting_counts(numbers in vec(0u64..200, 0..600), spread in any::<bool>()) {
            // Digests that are not spread crowd at one end of the table, and it is given up.
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
    fn crowded_digests_give_the_table_up() {
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
