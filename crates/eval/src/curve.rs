//! Right and wrong pairs at each distance, and the figures derived from them: precision, recall, F1 and false
//! neighbours.
//!
//! Not here: the origin of the labels (`labels`).

use super::labels::{Labels, Pair};
use lookalike_hash::{Hash, U256, Width, Word};

/// Pairs by distance. Index `d`, 0 to the width, counts the pairs at exactly distance d.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Positive pairs.
    right: Vec<u64>,
    /// Negative pairs.
    wrong: Vec<u64>,
    /// The positive pairs whose texts are both counted.
    positive: u64,
    /// The negative pairs at all distances, including those of which only the near ones are counted.
    negative: u64,
}

/// The pairs within a distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The distance.
    pub k: u32,
    /// Positive pairs within it.
    pub right: u64,
    /// Negative pairs within it.
    pub wrong: u64,
    /// Right ÷ (right + wrong); 1 if there are no pairs.
    pub precision: f64,
    /// Right ÷ all positive pairs; 1 if there are none.
    pub recall: f64,
}

impl Point {
    /// The harmonic mean of precision and recall.
    pub fn f1(&self) -> f64 {
        let sum = self.precision + self.recall;
        if sum > 0.0 { 2.0 * self.precision * self.recall / sum } else { 0.0 }
    }
}

impl Curve {
    /// Counts the pairs whose texts are both `taken`.
    ///
    /// # Errors
    /// The error of `check`, which is called at least once per million pairs.
    pub fn of<E>(
        hashes: &[Hash],
        taken: &[bool],
        labels: &Labels,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<Curve, E> {
        let of_hashes = hashes.first().map_or(Width::Bits64, |hash| hash.width());
        let width = of_hashes.bits() as usize;
        let kept = hashes.iter().zip(taken).filter(|(_, taken)| **taken).map(|(hash, _)| *hash);
        let mut wrong = match of_hashes {
            Width::Bits64 => all_pairs::<u64, E>(kept, check)?,
            Width::Bits128 => all_pairs::<u128, E>(kept, check)?,
            Width::Bits256 => all_pairs::<U256, E>(kept, check)?,
        };
        let mut right = vec![0; width + 1];
        let is_taken = |&&(a, b): &&Pair| taken[a as usize] && taken[b as usize];
        let distance =
            |&(a, b): &Pair| hashes[a as usize].distance(hashes[b as usize]).unwrap_or(width as u32) as usize;
        wrong.resize(width + 1, 0);
        let positive: Vec<&Pair> = labels.positive.iter().filter(is_taken).collect();
        for pair in &positive {
            right[distance(pair)] += 1;
            wrong[distance(pair)] -= 1;
        }
        for pair in labels.ignored.iter().filter(is_taken) {
            wrong[distance(pair)] -= 1;
        }
        let all = if taken.iter().all(|taken| *taken) { labels.positive.len() } else { positive.len() };
        let negative = wrong.iter().sum();
        Ok(Curve { right, wrong, positive: all as u64, negative })
    }

    /// The curve of the pairs that an index finds at distances up to `width`, among so many texts.
    pub(super) fn of_found(width: u32, found: &[(Pair, u32)], labels: &Labels, texts: usize) -> Curve {
        let (mut right, mut wrong) = (vec![0; width as usize + 1], vec![0; width as usize + 1]);
        for (pair, distance) in found.iter().filter(|(pair, _)| !labels.ignored.contains(pair)) {
            let of = if labels.positive.contains(pair) { &mut right } else { &mut wrong };
            of[*distance as usize] += 1;
        }
        let positive = labels.positive.len() as u64;
        let all = texts as u64 * (texts as u64).saturating_sub(1) / 2;
        Curve { right, wrong, positive, negative: all.saturating_sub(positive + labels.ignored.len() as u64) }
    }

    /// The greatest distance within which there are at most `most` negative pairs; -1 if there are more at 0.
    pub(super) fn reach(&self, most: u64) -> i64 {
        let mut sum = 0;
        let fits = |count: &&u64| {
            sum += **count;
            sum <= most
        };
        self.wrong.iter().take_while(fits).count() as i64 - 1
    }

    /// The curve of a sample of the texts, in which negative pairs were counted up to `reach`. Beyond it
    /// their number is taken to vary by the same share as within it.
    pub(super) fn resampled(&self, right: Vec<u64>, mut wrong: Vec<u64>, positive: u64, reach: i64) -> Curve {
        let within = |counts: &[u64]| counts.iter().take((reach + 1) as usize).sum::<u64>().max(1) as f64;
        let ratio = within(&wrong) / within(&self.wrong);
        for (at, count) in self.wrong.iter().enumerate().skip((reach + 1) as usize) {
            wrong[at] = (*count as f64 * ratio).round() as u64;
        }
        Curve { right, wrong, positive, negative: self.negative }
    }

    /// The pairs within k.
    pub fn at(&self, k: u32) -> Point {
        let within = |counts: &[u64]| counts.iter().take(k as usize + 1).sum::<u64>();
        let (right, wrong) = (within(&self.right), within(&self.wrong));
        let share = |part: u64, all: u64| if all == 0 { 1.0 } else { part as f64 / all as f64 };
        let (precision, recall) = (share(right, right + wrong), share(right, self.positive));
        Point { k, right, wrong, precision, recall }
    }

    /// The greatest k: the width of the hashes in bits.
    pub fn width(&self) -> u32 {
        self.right.len() as u32 - 1
    }

    /// The number of positive pairs whose texts are both counted.
    pub fn positive(&self) -> u64 {
        self.positive
    }

    /// The number of negative pairs at all distances.
    pub fn negative(&self) -> u64 {
        self.negative
    }

    /// The expected number of wrong neighbours of a query among `documents` documents, if other documents
    /// resemble the negative pairs here. The second value is true if there are fewer than three wrong
    /// pairs, so that the number is only an upper bound.
    pub(crate) fn false_neighbours(&self, k: u32, documents: f64) -> (f64, bool) {
        let pairs = self.negative.max(1) as f64;
        let wrong = self.at(k).wrong;
        let few = wrong < FEW;
        // If no event is observed among n, the true share is below 3/n with 95 % confidence.
        let counted = if few { FEW as f64 } else { wrong as f64 };
        (counted / pairs * documents, few)
    }

    /// As [`Curve::false_neighbours`], but extrapolated if there are too few wrong pairs within k. The
    /// extrapolation starts at the smallest larger distance with enough wrong pairs, and assumes that their
    /// number decreases by a constant ratio towards smaller distances. It actually decreases faster, so the
    /// result is an overestimate. `None` if there are too few wrong pairs at all distances.
    pub(crate) fn extrapolated_false_neighbours(&self, k: u32, documents: f64) -> Option<f64> {
        let (counted, few) = self.false_neighbours(k, documents);
        if !few {
            return Some(counted);
        }
        let span = (self.width() / 32).max(1);
        let from = (k..self.width() - span).find(|&from| self.at(from).wrong >= ENOUGH)?;
        let wrong = |k| self.at(k).wrong as f64;
        let ratio = libm::pow(wrong(from + span) / wrong(from), 1.0 / f64::from(span));
        let pairs = self.negative as f64;
        let extrapolated = wrong(from) / ratio.powi((from - k) as i32) / pairs * documents;
        Some(extrapolated.min(counted))
    }
}

/// With fewer wrong pairs than this, their number is too uncertain to be used.
const FEW: u64 = 3;
/// With at least this many wrong pairs, the ratio of their decrease is certain enough.
const ENOUGH: u64 = 30;

/// The number of pairs at each distance. `check` is called for each two blocks of values.
fn all_pairs<W: Word, E>(
    hashes: impl Iterator<Item = Hash>,
    check: impl Fn() -> Result<(), E>,
) -> Result<Vec<u64>, E> {
    // A block of rows and a block of columns fit the first-level cache together.
    const BLOCK: usize = 1024;
    let values: Vec<W> = hashes.filter_map(W::from_hash).collect();
    let mut counts = vec![0_u64; W::WIDTH.bits() as usize + 1];
    for (i, rows) in values.chunks(BLOCK).enumerate() {
        for (j, columns) in values.chunks(BLOCK).enumerate().skip(i) {
            check()?;
            for (at, &row) in rows.iter().enumerate() {
                let from = if i == j { at + 1 } else { 0 };
                for &column in &columns[from..] {
                    counts[(row ^ column).ones() as usize] += 1;
                }
            }
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_by_their_labels() {
        let hashes = [0, 1, 3, 0xff].map(Hash::from_u64);
        let labels = Labels {
            positive: [(0, 1), (0, 3)].into_iter().collect(),
            ignored: [(1, 2)].into_iter().collect(),
            ..Labels::default()
        };
        let unchecked = || Ok::<_, ()>(());
        let curve = Curve::of(&hashes, &[true; 4], &labels, unchecked).unwrap();
        // 0-1 right at 1, 1-2 ignored at 1, 0-2 wrong at 2, 2-3 wrong at 6, 1-3 wrong at 7, 0-3 right at 8.
        let point = curve.at(2);
        assert_eq!((point.right, point.wrong, point.precision, point.recall), (1, 1, 0.5, 0.5));
        assert!((point.f1() - 0.5).abs() < 1e-9);
        assert_eq!((curve.at(8).right, curve.at(64).wrong), (2, 3));
        assert_eq!(curve.false_neighbours(7, 300.0), (300.0, false));
        let without = Curve::of(&hashes, &[true, true, true, false], &labels, unchecked);
        assert_eq!(without.unwrap().positive(), 1);
        assert_eq!(Curve::of(&hashes, &[true; 4], &labels, || Err("cancelled")).err(), Some("cancelled"));
    }

    #[test]
    fn too_few_wrong_pairs_are_extrapolated_from_larger_distances() {
        // The number of wrong pairs doubles with each bit; 31 are within 10 bits.
        let mut wrong = vec![0; 65];
        (6..=30).for_each(|at| wrong[at] = 1 << (at - 6));
        let curve = Curve { right: vec![0; 65], negative: wrong.iter().sum(), wrong, positive: 0 };
        let all = (1_u64 << 25) - 1;
        let of = |k| curve.extrapolated_false_neighbours(k, all as f64).expect("there are wrong pairs");
        assert!((of(12) - 127.0).abs() < 1e-6, "counted: {}", of(12));
        assert!((0.8..1.0).contains(&of(5)) && (0.1..0.13).contains(&of(2)), "{} {}", of(5), of(2));
        let without = Curve { right: vec![0; 65], wrong: vec![0; 65], positive: 0, negative: 0 };
        assert_eq!(without.extrapolated_false_neighbours(7, 1e6), None);
    }

    #[test]
    fn every_pair_is_counted_once() {
        let hashes = (0..2500).map(Hash::from_u64);
        let counts = all_pairs::<u64, ()>(hashes, || Ok(()));
        assert_eq!(counts.unwrap().iter().sum::<u64>(), 2500 * 2499 / 2);
    }
}
