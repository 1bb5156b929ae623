//! Labels: which pairs are copies (to be found), which do not count, all others being neither.

use std::collections::HashSet;

/// Two texts by their numbers, the smaller first.
pub type Pair = (u32, u32);

/// Similarity from which a pair is a copy.
const COPY: f64 = 0.8;
/// Similarity from which people would disagree whether a pair is a copy.
const DOUBTFUL: f64 = 0.6;

/// What is known of the pairs of a set.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// To be found.
    pub positive: HashSet<Pair>,
    /// Neither right nor wrong.
    pub ignored: HashSet<Pair>,
    /// Negative, although somebody marked them.
    pub unlike: HashSet<Pair>,
}

impl Labels {
    /// The same by a second reading, in which unlike pairs do not count.
    pub fn second_reading(&self) -> Labels {
        let ignored = self.ignored.union(&self.unlike).copied().collect();
        Labels { positive: self.positive.clone(), ignored, unlike: HashSet::new() }
    }
}

impl Labels {
    /// By pairs that somebody marked, by similarities from 0 to 1, or by both.
    ///
    /// Marked pairs alone are positive. With similarities alone, pairs from 0.8 are positive and those from 0.6 do
    /// not count. With both, marked pairs are positive and others from 0.8 do not count; `revisions` says that
    /// marks tell of a common origin and not of likeness, and similarities decide alone: marked pairs that are not
    /// similar are then `unlike`.
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
        let is_unlike = |pair: &&Pair| !positive.contains(*pair) && !ignored.contains(*pair);
        let unlike = marked.unwrap_or_default().iter().filter(is_unlike).copied().collect();
        Labels { positive, ignored, unlike }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_by_their_rule() {
        let similar = [((0, 1), 0.9), ((0, 2), 0.7), ((1, 2), 0.85)];
        let sorted = |set: HashSet<Pair>| {
            let mut pairs: Vec<_> = set.into_iter().collect();
            pairs.sort_unstable();
            pairs
        };
        let read = |marked: Option<&[Pair]>, similar, revisions| {
            let Labels { positive, ignored, .. } = Labels::read(marked, similar, revisions);
            (sorted(positive), sorted(ignored))
        };
        assert_eq!(read(Some(&[(0, 1)]), None, false), (vec![(0, 1)], vec![]));
        assert_eq!(read(None, Some(&similar), false), (vec![(0, 1), (1, 2)], vec![(0, 2)]));
        assert_eq!(read(Some(&[(0, 1)]), Some(&similar), false), (vec![(0, 1)], vec![(1, 2)]));
        assert_eq!(read(Some(&[(0, 2)]), Some(&similar), true), (vec![(0, 1), (1, 2)], vec![(0, 2)]));
    }
}
