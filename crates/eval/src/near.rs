//! The near pairs of a set by families of texts, and samples of these families: the basis of intervals.
//!
//! Pairs share texts, so they are not independent, and an interval over pairs would be too narrow. A family
//! is a text with its copies, including unmarked ones. Families are drawn with replacement, and a pair counts
//! as often as both of its families are drawn together (the bootstrap; Efron and Tibshirani, "An Introduction
//! to the Bootstrap", 1993, for pairs of units as in Snijders and Borgatti, Connections 22, 1999).
//!
//! Not here: what follows from the samples (`promise`).

use std::collections::HashMap;

use super::Set;
use super::curve::Curve;
use super::labels::{Labels, Pair};
use crate::random::Random;
use lookalike_hash::{Hash, U256, Width, Word};

/// The maximum number of wrong pairs that are listed. At larger distances there are so many that their number
/// varies by no larger a share than within the last listed distance.
const LISTED: u64 = 100_000;

/// The near pairs of a set by one fingerprint.
#[derive(Debug)]
pub struct Near {
    /// The number of families.
    families: usize,
    /// The family and the distance of each positive pair; `None` for a pair that is found at no distance.
    right: Vec<(u32, Option<u32>)>,
    /// Each negative pair up to `reach`, which is -1 if there are too many at 0.
    wrong: Vec<WrongPair>,
    reach: i64,
    curves: Readings<Curve>,
}

/// A figure by both readings of the labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Readings<T> {
    /// Disputed pairs are wrong.
    pub strict: T,
    /// Disputed pairs do not count.
    pub lenient: T,
}

impl<T> Readings<T> {
    pub(super) fn map<U>(&self, of: impl Fn(&T) -> U) -> Readings<U> {
        Readings { strict: of(&self.strict), lenient: of(&self.lenient) }
    }
}

/// A negative pair: its families and distance.
#[derive(Clone, Copy, Debug)]
struct WrongPair {
    families: (u32, u32),
    distance: u32,
    is_disputed: bool,
}

impl Near {
    /// The near pairs of hashes; a text without features has none and does not count.
    ///
    /// # Errors
    /// The error of `check`, which is called at least once per million pairs.
    pub fn of_hashes<E>(
        hashes: &[Option<Hash>],
        labels: &Labels,
        curves: Readings<Curve>,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<Near, E> {
        let reach = curves.strict.reach(LISTED);
        let counted = (0_u32..).zip(hashes).filter_map(|(number, hash)| Some((number, (*hash)?)));
        let counted: Vec<(u32, Hash)> = counted.collect();
        let near = match counted.first().map(|(_, hash)| hash.width()) {
            None | Some(Width::Bits64) => pairs_within::<u64, E>(&counted, reach, check)?,
            Some(Width::Bits128) => pairs_within::<u128, E>(&counted, reach, check)?,
            Some(Width::Bits256) => pairs_within::<U256, E>(&counted, reach, check)?,
        };
        let number = |at: u32| counted[at as usize].0;
        let near = near.into_iter().map(|(a, b, distance)| ((number(a), number(b)), distance));
        let distance = |&(a, b): &Pair| hashes[a as usize]?.distance(hashes[b as usize]?);
        Ok(Near::new(hashes.len(), labels, near, distance, reach, curves))
    }

    /// The pairs of an index of signatures of so many cells. `near` has the pairs that the index finds, and
    /// their distances; `stored` is the number of texts in it.
    pub(crate) fn of_signatures(cells: u32, set: &Set, stored: usize, near: &[(Pair, u32)]) -> Near {
        let curve = |labels: &Labels| Curve::of_found(cells, near, labels, stored);
        let curves = Readings { strict: curve(&set.labels), lenient: curve(&set.labels.second_reading()) };
        let reach = curves.strict.reach(LISTED);
        let found: HashMap<Pair, u32> = near.iter().copied().collect();
        let listed = near.iter().copied().filter(|(_, distance)| i64::from(*distance) <= reach);
        Near::new(set.texts.len(), &set.labels, listed, |pair| found.get(pair).copied(), reach, curves)
    }

    fn new(
        texts: usize,
        labels: &Labels,
        near: impl Iterator<Item = (Pair, u32)>,
        distance: impl Fn(&Pair) -> Option<u32>,
        reach: i64,
        curves: Readings<Curve>,
    ) -> Near {
        let family = families(texts, labels);
        let families = |pair: &Pair| (family[pair.0 as usize], family[pair.1 as usize]);
        let is_wrong = |pair: &Pair| !labels.positive.contains(pair) && !labels.ignored.contains(pair);
        let wrong = near.filter(|(pair, _)| is_wrong(pair));
        let wrong = wrong.map(|(pair, distance)| WrongPair {
            families: families(&pair),
            distance,
            is_disputed: labels.disputed.contains(&pair),
        });
        let wrong = wrong.collect();
        let mut positive: Vec<&Pair> = labels.positive.iter().collect();
        positive.sort_unstable();
        let right = positive.into_iter().map(|pair| (families(pair).0, distance(pair))).collect();
        let count = family.iter().max().map_or(0, |most| *most as usize + 1);
        Near { families: count, right, wrong, reach, curves }
    }

    /// All pairs, each counted once.
    pub fn curves(&self) -> &Readings<Curve> {
        &self.curves
    }

    /// The pairs of a sample of the families.
    pub(super) fn resampled(&self, random: &mut Random) -> Readings<Curve> {
        let mut drawn = vec![0_u64; self.families];
        (0..self.families).for_each(|_| drawn[random.below(self.families)] += 1);
        let times = |family: u32| drawn[family as usize];
        let empty = || vec![0; self.curves.strict.width() as usize + 1];
        let (mut right, mut positive) = (empty(), 0);
        for &(family, distance) in &self.right {
            positive += times(family);
            if let Some(distance) = distance {
                right[distance as usize] += times(family);
            }
        }
        let mut wrong = Readings { strict: empty(), lenient: empty() };
        for &WrongPair { families: (a, b), distance, is_disputed } in &self.wrong {
            let times = if a == b { times(a) } else { times(a) * times(b) };
            wrong.strict[distance as usize] += times;
            wrong.lenient[distance as usize] += if is_disputed { 0 } else { times };
        }
        let Readings { strict, lenient } = &self.curves;
        Readings {
            strict: strict.resampled(right.clone(), wrong.strict, positive, self.reach),
            lenient: lenient.resampled(right, wrong.lenient, positive, self.reach),
        }
    }
}

/// The family of each text, numbered from 0: texts are in one family if pairs connect them that are not
/// certainly different.
pub fn families(texts: usize, labels: &Labels) -> Vec<u32> {
    connected(texts, labels.positive.iter().chain(&labels.ignored).chain(&labels.disputed))
}

/// The component of each text, numbered from 0.
fn connected<'p>(texts: usize, pairs: impl Iterator<Item = &'p Pair>) -> Vec<u32> {
    fn first(parents: &mut [u32], mut of: u32) -> u32 {
        while parents[of as usize] != of {
            parents[of as usize] = parents[parents[of as usize] as usize];
            of = parents[of as usize];
        }
        of
    }
    let mut parents: Vec<u32> = (0..texts as u32).collect();
    for &(a, b) in pairs {
        let (a, b) = (first(&mut parents, a), first(&mut parents, b));
        parents[a.max(b) as usize] = a.min(b);
    }
    let mut numbers = vec![0; texts];
    let mut count = 0;
    // The first text of a family comes before the others, so its number is set before it is read.
    for text in 0..texts as u32 {
        let first = first(&mut parents, text);
        if first == text {
            numbers[text as usize] = count;
            count += 1;
        } else {
            numbers[text as usize] = numbers[first as usize];
        }
    }
    numbers
}

/// The pairs of values within a distance, and their distances.
fn pairs_within<W: Word, E>(
    hashes: &[(u32, Hash)],
    reach: i64,
    check: impl Fn() -> Result<(), E>,
) -> Result<Vec<(u32, u32, u32)>, E> {
    let values: Vec<W> = hashes.iter().filter_map(|(_, hash)| W::from_hash(*hash)).collect();
    let mut pairs = Vec::new();
    for (a, &first) in (0_u32..).zip(&values) {
        if a % 16 == 0 {
            check()?;
        }
        for (b, &second) in (a + 1..).zip(&values[a as usize + 1..]) {
            let distance = (first ^ second).ones();
            if i64::from(distance) <= reach {
                pairs.push((a, b, distance));
            }
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_connect_texts_to_families() {
        assert_eq!(connected(6, [(0, 3), (4, 5), (3, 4)].iter()), [0, 1, 2, 0, 0, 0]);
        assert!(connected(0, [].iter()).is_empty());
    }

    #[test]
    fn samples_vary_around_the_counts_by_families() {
        // 400 families of two equal texts; every family has one wrong neighbour among the others.
        let texts = 800_u32;
        let hash = |n: u32| {
            Some(Hash::from_u64(u64::from(n / 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(n / 2 % 2)))
        };
        let hashes: Vec<Option<Hash>> = (0..texts).map(hash).collect();
        let labels =
            Labels { positive: (0..texts / 2).map(|n| (2 * n, 2 * n + 1)).collect(), ..Labels::default() };
        let plain: Vec<Hash> = hashes.iter().flatten().copied().collect();
        let unchecked = || Ok::<_, ()>(());
        let curve = Curve::of(&plain, &vec![true; plain.len()], &labels, unchecked).unwrap();
        let curves = Readings { strict: curve.clone(), lenient: curve.clone() };
        let near = Near::of_hashes(&hashes, &labels, curves.clone(), unchecked).unwrap();
        assert_eq!((near.families, near.right.len()), (400, 400));
        assert_eq!((curve.at(3).right, curve.at(3).wrong), (400, 800));
        let mut random = Random(1);
        let samples: Vec<u64> = (0..400).map(|_| near.resampled(&mut random).strict.at(3).wrong).collect();
        let mean = samples.iter().sum::<u64>() as f64 / 400.0;
        let variance = samples.iter().map(|n| (*n as f64 - mean).powi(2)).sum::<f64>() / 400.0;
        assert!((mean - 800.0).abs() < 20.0, "{mean}");
        // 200 products of two counts of mean and variance 1, four pairs each, vary by 200 × 3 × 16; as the
        // number of draws is fixed, 6,400 less.
        assert!((45.0..68.0).contains(&variance.sqrt()), "{}", variance.sqrt());
        let cut = Near::of_hashes(&hashes, &labels, curves, || Err("cancelled"));
        assert_eq!(cut.err(), Some("cancelled"));
    }
}
