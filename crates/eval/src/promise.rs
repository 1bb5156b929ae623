//! What a profile and a k promise for a collection: precision and recall with their intervals, under stated
//! assumptions, and the largest k that keeps a promised precision.
//!
//! On labelled texts precision depends on how many of them have a copy: if every text has one, wrong pairs
//! hardly count. In a collection few documents have one. So precision is computed for an assumed share of
//! documents that have a copy, and for the wrong neighbours that a query is expected to get among all
//! documents. Not here: the pairs and their samples (`near`).

use super::curve::Curve;
use super::near::{Near, Readings};
use crate::random::Random;

/// The precision that a recommended k promises.
pub const PROMISED: f64 = 0.97;
/// The share of the samples that an interval covers.
pub const COVERED: f64 = 0.95;
/// The number of samples behind an interval.
const SAMPLES: usize = 400;

/// The collection for which precision is computed.
#[derive(Clone, Copy, Debug)]
pub struct Assumed {
    /// The number of documents.
    pub documents: u64,
    /// The share of the documents that have a copy among them, above 0 and at most 1.
    pub duplicate_share: f64,
}

impl Assumed {
    /// The expected precision of the answers: a query gets `duplicate_share` × recall right neighbours, and
    /// `wrong` wrong ones. 1 if it gets none.
    pub fn precision(self, recall: f64, wrong: f64) -> f64 {
        let right = self.duplicate_share * recall;
        if right + wrong > 0.0 { right / (right + wrong) } else { 1.0 }
    }
}

/// A figure and its interval.
///
/// The interval covers the figure in 95 of 100 samples of the texts. Its end on the side of caution counts
/// disputed pairs as wrong; the figure itself and the other end do not count them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The figure for all texts.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// The interval from the samples for its lower and its upper end, extended to contain the figure itself.
    fn of(value: f64, mut lower: Vec<f64>, mut upper: Vec<f64>) -> Estimate {
        let outside = ((1.0 - COVERED) / 2.0 * lower.len() as f64) as usize;
        lower.sort_by(f64::total_cmp);
        upper.sort_by(|a, b| b.total_cmp(a));
        let [low, high] = [lower, upper].map(|samples| samples.get(outside).copied().unwrap_or(value));
        Estimate { value, low: low.min(value), high: high.max(value) }
    }
}

/// What is expected at one k.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The distance.
    pub k: u32,
    /// The share of the found documents that are copies.
    pub precision: Estimate,
    /// The share of the copies that are found.
    pub recall: Estimate,
    /// The number of wrong neighbours of a query among the documents.
    pub wrong: Estimate,
    /// Whether there are too few wrong pairs within k, so that their number is extrapolated from larger
    /// distances.
    pub is_extrapolated: bool,
}

impl Expected {
    /// The harmonic mean of precision and recall.
    pub fn f1(&self) -> f64 {
        let (precision, recall) = (self.precision.value, self.recall.value);
        if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 }
    }

    /// Whether the lower end of precision keeps the promise, and something is found.
    fn keeps(&self) -> bool {
        self.precision.low >= PROMISED && self.recall.value > 0.0
    }
}

/// What is expected at each k up to half of the greatest distance.
pub fn expected(near: &Near, assumed: Assumed, seed: u64) -> Vec<Expected> {
    let mut random = Random(seed);
    let samples: Vec<Readings<Curve>> = (0..SAMPLES).map(|_| near.resampled(&mut random)).collect();
    let all = near.curves();
    let at = |curve: &Curve, k: u32| {
        let documents = assumed.documents as f64;
        let bound = || curve.false_neighbours(k, documents).0;
        let wrong = curve.extrapolated_false_neighbours(k, documents).unwrap_or_else(bound);
        let recall = curve.at(k).recall;
        [assumed.precision(recall, wrong), recall, wrong]
    };
    let of_k = |k: u32| {
        let value = at(&all.lenient, k);
        let samples: Vec<Readings<[f64; 3]>> =
            samples.iter().map(|curves| curves.map(|curve| at(curve, k))).collect();
        let strict = |of: usize| samples.iter().map(|sample| sample.strict[of]).collect::<Vec<_>>();
        let lenient = |of: usize| samples.iter().map(|sample| sample.lenient[of]).collect::<Vec<_>>();
        Expected {
            k,
            precision: Estimate::of(value[0], strict(0), lenient(0)),
            recall: Estimate::of(value[1], lenient(1), lenient(1)),
            wrong: Estimate::of(value[2], lenient(2), strict(2)),
            is_extrapolated: all.lenient.false_neighbours(k, 1.0).1,
        }
    };
    (0..=all.strict.width().div_ceil(2)).map(of_k).collect()
}

/// The largest k at which the lower end of precision keeps the promise.
pub(crate) fn largest_kept(expected: &[Expected]) -> Option<&Expected> {
    expected.iter().rev().find(|expected| expected.keeps())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_depends_on_the_share_of_documents_with_a_copy() {
        let of = |duplicate_share| Assumed { documents: 1_000, duplicate_share }.precision(0.8, 0.02);
        assert!((of(1.0) - 0.8 / 0.82).abs() < 1e-9 && (of(0.1) - 0.8).abs() < 1e-9);
        assert!((Assumed { documents: 1, duplicate_share: 0.5 }.precision(0.0, 0.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_interval_leaves_out_a_fortieth_at_each_end() {
        let samples: Vec<f64> = (0..400).rev().map(f64::from).collect();
        let of = |value| Estimate::of(value, samples.clone(), samples.clone());
        assert_eq!(of(200.0), Estimate { value: 200.0, low: 10.0, high: 389.0 });
        assert!((of(395.0).high - 395.0).abs() < 1e-9);
        assert_eq!(Estimate::of(1.0, Vec::new(), Vec::new()), Estimate { value: 1.0, low: 1.0, high: 1.0 });
    }

    #[test]
    fn the_largest_k_whose_lower_end_keeps_the_promise_is_taken() {
        let point = |k: u32, low: f64, recall: f64| {
            let estimate = |value, low| Estimate { value, low, high: 1.0 };
            let (precision, recall) = (estimate(0.99, low), estimate(recall, 0.0));
            Expected { k, precision, recall, wrong: estimate(0.0, 0.0), is_extrapolated: false }
        };
        let points = [point(0, 0.2, 0.1), point(1, 0.98, 0.3), point(2, 0.97, 0.4), point(3, 0.96, 0.5)];
        assert_eq!(largest_kept(&points).map(|point| point.k), Some(2));
        assert_eq!(largest_kept(&[point(0, 1.0, 0.0)]), None);
    }
}
