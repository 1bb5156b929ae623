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
    /// Equal digests are brought together by sorting: somebody who chooses the text could make a hash table
    /// without a secret quadratic, and a secret would be an input that a pure function does not have.
    pub fn count(&mut self, mut occurrences: Vec<D>, weight: impl Fn(u32) -> u64) {
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

    /// Adds a digest that the bag does not have yet.
    pub fn add(&mut self, digest: D, weight: u64) {
        match self.classes.iter_mut().find(|class| class.weight == weight) {
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
