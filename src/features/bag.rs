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
    pub fn count(&mut self, occurrences: Vec<D>, weight: impl Fn(u32) -> u64) {
        match Table::of(&occurrences) {
            Some(table) => self.take(table, weight),
            None => self.count_by_sorting(occurrences, weight),
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

    fn count_by_sorting(&mut self, mut occurrences: Vec<D>, weight: impl Fn(u32) -> u64) {
        sort(&mut occurrences);
        let mut once = Class { weight: weight(1), digests: Vec::with_capacity(occurrences.len()) };
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
    /// `None` if digests crowd in so few places that somebody must have chosen them, or are too many for four bytes.
    fn of(occurrences: &[D]) -> Option<Table<D>> {
        let &any = occurrences.first()?;
        u32::try_from(occurrences.len()).ok()?;
        let bits = (occurrences.len() * 4).next_power_of_two().ilog2();
        let mut slots = vec![0_u32; 1 << bits];
        let mask = slots.len() - 1;
        let mut distinct = vec![any; occurrences.len()];
        let mut counts = vec![0_u32; occurrences.len()];
        let mut again = vec![0_u32; occurrences.len()];
        let (mut known, mut repeated, mut looks) = (0, 0, occurrences.len() * LOOKS);
        for &digest in occurrences {
            distinct[known] = digest;
            let mut slot = (digest.top() >> (64 - bits)) as usize & mask;
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

/// Sorts digests: a counting sort by as many of their first bits as make a bucket for each, then each bucket by
/// comparison. Digests are spread evenly, so that most buckets need none; where somebody chose them, it is a
/// sort by comparison after all.
fn sort<D: Digest>(digests: &mut Vec<D>) {
    let Some(&any) = digests.first() else { return };
    let bits = (digests.len() * 2).ilog2().clamp(1, 16);
    let bucket = |digest: D| (digest.top() >> (64 - bits)) as usize;
    let mut ends = vec![0; 1 << bits];
    for &digest in &*digests {
        ends[bucket(digest)] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        sum += std::mem::replace(end, sum);
    }
    // Until here `ends` are beginnings; each moves to its end as its bucket fills.
    let mut sorted = vec![any; digests.len()];
    for &digest in &*digests {
        let end = &mut ends[bucket(digest)];
        sorted[*end] = digest;
        *end += 1;
    }
    let mut start = 0;
    for end in ends {
        if end - start > 1 {
            insert_or_sort(&mut sorted[start..end]);
        }
        start = end;
    }
    *digests = sorted;
}

/// Buckets are mostly of one digest, once or a few times, and in order as they are.
#[inline]
fn insert_or_sort<D: Digest>(bucket: &mut [D]) {
    if !bucket.is_sorted() {
        bucket.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{Kind, Limbs};
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn digests_are_sorted_however_they_are_spread() {
        for (count, spread) in
            [(0u64, 1), (1, 1), (2, u64::MAX / 2), (1000, 0x9e37_79b9_7f4a_7c15), (500, 1), (300, 0)]
        {
            let mut found: Vec<Limbs<2>> = (0..count).map(|i| [i.wrapping_mul(spread), i % 3]).collect();
            let mut expected = found.clone();
            expected.sort_unstable();
            sort(&mut found);
            assert_eq!(found, expected, "{count} {spread}");
        }
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
            by_sorting.count_by_sorting(occurrences, u64::from);
            let contents = |bag: &Bag<Limbs<1>>| {
                let mut all: Vec<_> = bag
                    .classes()
                    .iter()
                    .flat_map(|class| class.digests.iter().map(|digest| (class.weight, *digest)))
                    .collect();
                all.sort_unstable();
                all
            };
            prop_assert_eq!(contents(&by_table), contents(&by_sorting));
        }
    }

    #[test]
    fn crowded_digests_give_the_table_up() {
        let crowded: Vec<Limbs<1>> = (0..10_000).map(|low| [low]).collect();
        assert!(Table::of(&crowded).is_none());
        let spread: Vec<Limbs<1>> = (0..10_000).map(|n: u64| Limbs::of(Kind::Word, &n.to_string())).collect();
        assert_eq!(Table::of(&spread).unwrap().distinct.len(), 10_000);
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
