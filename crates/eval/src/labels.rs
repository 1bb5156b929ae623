//! Labels: the pairs that are copies and should be found, and the pairs that do not count. All other pairs
//! are negative.
//!
//! Not here: the files of labels (`read`).

use std::collections::HashSet;

/// Two texts by their numbers, the smaller number first.
pub type Pair = (u32, u32);

/// The similarity from which a pair is a copy.
const COPY: f64 = 0.8;
/// The similarity from which people may disagree whether a pair is a copy.
const DOUBTFUL: f64 = 0.6;

/// The labels of the pairs of a set.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Pairs that should be found.
    pub positive: HashSet<Pair>,
    /// Pairs that count neither as right nor as wrong.
    pub ignored: HashSet<Pair>,
    /// Negative pairs about which marks and similarities disagree: marked pairs that are not similar, and,
    /// where marks decide, unmarked pairs of doubtful similarity.
    pub disputed: HashSet<Pair>,
    /// Pairs that are certainly no copies, however similar they are.
    pub separated: HashSet<Pair>,
    /// Texts that are certainly copies of no text but those of their positive pairs.
    pub alone: HashSet<u32>,
}

/// The quality of a result, judged by the labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The share of the pairs found that is right; 1 if no pair is found.
    pub precision: f64,
    /// The precision if disputed pairs do not count.
    pub precision_undisputed: f64,
    /// The share of all positive pairs that is found.
    pub recall: f64,
}

impl Judged {
    /// The harmonic mean of precision and recall.
    pub fn f1(&self) -> f64 {
        let sum = self.precision + self.recall;
        if sum > 0.0 { 2.0 * self.precision * self.recall / sum } else { 0.0 }
    }
}

impl Labels {
    /// The labels by a second reading, in which disputed pairs are ignored.
    #[must_use]
    pub fn second_reading(&self) -> Labels {
        let ignored = self.ignored.union(&self.disputed).copied().collect();
        Labels { ignored, disputed: HashSet::new(), ..self.clone() }
    }

    /// Whether a pair is certainly no copy.
    pub fn separates(&self, pair: Pair) -> bool {
        self.separated.contains(&pair) || self.alone.contains(&pair.0) || self.alone.contains(&pair.1)
    }

    /// Judges a result. The caller must leave out ignored pairs.
    pub fn judge(&self, pairs: impl Iterator<Item = Pair>) -> Judged {
        let (mut right, mut wrong, mut disputed) = (0_u64, 0_u64, 0_u64);
        for pair in pairs {
            let is_right = self.positive.contains(&pair);
            right += u64::from(is_right);
            wrong += u64::from(!is_right);
            disputed += u64::from(self.disputed.contains(&pair));
        }
        let share = |part: u64, all: u64| if all == 0 { 1.0 } else { part as f64 / all as f64 };
        Judged {
            precision: share(right, right + wrong),
            precision_undisputed: share(right, right + wrong - disputed),
            recall: right as f64 / self.positive.len().max(1) as f64,
        }
    }

    /// The labels that follow from marked pairs, from similarities (0 to 1), or from both.
    ///
    /// - Marks only: marked pairs are positive.
    /// - Similarities only: pairs from 0.8 are positive, and pairs from 0.6 do not count.
    /// - Both: marked pairs are positive. Other pairs from 0.8 do not count, and those from 0.6 are disputed.
    /// - Both with `revisions`, which means that marks show a common origin and not similarity:
    ///   similarities alone decide, and marked pairs below 0.6 are disputed.
    pub fn read(marked: Option<&[Pair]>, similar: Option<&[(Pair, f64)]>, revisions: bool) -> Labels {
        let from = |least: f64| {
            similar.unwrap_or_default().iter().filter(move |row| row.1 >= least).map(|row| row.0)
        };
        let (positive, ignored): (HashSet<Pair>, HashSet<Pair>) = match marked {
            Some(marked) if !(revisions && similar.is_some()) => {
                (marked.iter().copied().collect(), from(COPY).collect())
            }
            _ => (from(COPY).collect(), from(DOUBTFUL).collect()),
        };
        let ignored: HashSet<Pair> = ignored.difference(&positive).copied().collect();
        let is_negative = |pair: &Pair| !positive.contains(pair) && !ignored.contains(pair);
        let of_marks = marked.unwrap_or_default().iter().copied();
        let disputed = of_marks.chain(from(DOUBTFUL)).filter(is_negative).collect();
        Labels { positive, ignored, disputed, ..Labels::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_follow_from_marks_and_similarities() {
        let similar = [((0, 1), 0.9), ((0, 2), 0.7), ((1, 2), 0.85)];
        let sorted = |set: HashSet<Pair>| {
            let mut pairs: Vec<_> = set.into_iter().collect();
            pairs.sort_unstable();
            pairs
        };
        let read = |marked: Option<&[Pair]>, similar, revisions| {
            let Labels { positive, ignored, disputed, .. } = Labels::read(marked, similar, revisions);
            (sorted(positive), sorted(ignored), sorted(disputed))
        };
        assert_eq!(read(Some(&[(0, 1)]), None, false), (vec![(0, 1)], vec![], vec![]));
        assert_eq!(read(None, Some(&similar), false), (vec![(0, 1), (1, 2)], vec![(0, 2)], vec![]));
        assert_eq!(read(Some(&[(0, 1)]), Some(&similar), false), (vec![(0, 1)], vec![(1, 2)], vec![(0, 2)]));
        let marked = [(0, 2), (0, 3)];
        assert_eq!(
            read(Some(&marked), Some(&similar), true),
            (vec![(0, 1), (1, 2)], vec![(0, 2)], vec![(0, 3)])
        );
    }

    #[test]
    fn a_result_is_judged_by_both_readings() {
        let set = |pairs: &[Pair]| pairs.iter().copied().collect();
        let labels =
            Labels { positive: set(&[(0, 1), (0, 2)]), disputed: set(&[(1, 2)]), ..Labels::default() };
        let found = labels.judge([(0, 1), (1, 2), (3, 4)].into_iter());
        assert_eq!(found, Judged { precision: 1.0 / 3.0, precision_undisputed: 0.5, recall: 0.5 });
        assert!((found.f1() - 0.4).abs() < 1e-9);
        let nothing = labels.judge(std::iter::empty());
        assert_eq!(nothing, Judged { precision: 1.0, precision_undisputed: 1.0, recall: 0.0 });
        assert!(nothing.f1().abs() < 1e-9);
    }
}
