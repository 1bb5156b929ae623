//! Unlabelled copies: collections of real documents contain some, and a profile that finds them is not wrong.
//!
//! Similar pairs without a label are set aside, so that they count neither as right nor as wrong, or are
//! marked as disputed. Not here: a decision whether they really are copies.

use std::collections::HashMap;

use super::Set;
use super::labels::Labels;
use lookalike_hamming::Bands;
use lookalike_hash::{Hash, SignatureShape};
use lookalike_text::fingerprint::{Profile, signature_of};

/// The estimated Jaccard similarity from which a pair is set aside: slightly below 0.5, the threshold of
/// `minhash-copies`.
pub const ALIKE: f64 = 0.4;
/// The estimated Jaccard similarity from which a pair is hardly anything else than a copy: that of two texts
/// of which four fifths are a common part is 0.67.
pub const CERTAIN: f64 = 0.6;

/// A banding that catches 99.6 % of the pairs at that similarity.
const SHAPE: SignatureShape = SignatureShape { cells: 255, cell_bytes: 1, bands: 85, rows: 3, is_set: false };

/// Sets aside the unlabelled pairs that are similar by the features of `by`, and the pairs between the
/// labelled copies of their texts. Of them, pairs whose estimated similarity is below `certain` are disputed
/// (none if it is [`ALIKE`]), the others are ignored. Returns the number of ignored pairs.
///
/// # Errors
/// The error of `check`, which is called before each text.
pub fn set_aside_copies<E>(
    set: &mut Set,
    by: &Profile,
    certain: f64,
    check: impl Fn() -> Result<(), E>,
) -> Result<usize, E> {
    let index = Bands::new(SHAPE);
    let before = set.labels.ignored.len();
    let mut copies: HashMap<u32, Vec<u32>> = HashMap::new();
    for &(a, b) in &set.labels.positive {
        copies.entry(a).or_default().push(b);
        copies.entry(b).or_default().push(a);
    }
    let with_copies = |of: u32| std::iter::once(of).chain(copies.get(&of).into_iter().flatten().copied());
    let (most, close) = (SHAPE.distance_for(ALIKE), SHAPE.distance_for(certain));
    let mut near = Vec::new();
    for (number, text) in (0_u32..).zip(&set.texts) {
        check()?;
        let features = by.feature_set(text);
        if features.is_empty() {
            continue;
        }
        let signature = signature_of(&features, SHAPE);
        near.clear();
        index.within(&signature, most, &mut near);
        for found in &near {
            let other = found.hash.low() as u32;
            if set.labels.positive.contains(&(other, number)) {
                continue;
            }
            for (a, b) in
                with_copies(other).flat_map(|a| with_copies(number).map(move |b| (a.min(b), a.max(b))))
            {
                let is_labelled = set.labels.positive.contains(&(a, b)) || set.labels.separates((a, b));
                if a != b && !is_labelled {
                    let is_certain = found.distance <= close;
                    let of = if is_certain { &mut set.labels.ignored } else { &mut set.labels.disputed };
                    of.insert((a, b));
                }
            }
        }
        index.insert(Hash::from_u128(u128::from(number)), &signature);
    }
    let Labels { ignored, disputed, .. } = &mut set.labels;
    disputed.retain(|pair| !ignored.contains(pair));
    Ok(ignored.len() - before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::word;
    use crate::with_edits;

    #[test]
    fn unlabelled_copies_do_not_count() {
        assert!(SHAPE.checked().is_some() && SHAPE.caught(ALIKE) > 0.995);
        let text = |n: usize| -> String { (0..60).map(|word| format!("w{} ", word * n + n)).collect() };
        let mut texts: Vec<String> = (1..20).map(text).collect();
        texts.push(texts[3].clone() + "and an end");
        texts.push(String::new());
        let by = Profile::named("shingles-64").unwrap();
        let mut set = Set { texts: texts.clone(), ..Set::default() };
        let set_aside = |set: &mut Set| set_aside_copies(set, by, ALIKE, || Ok::<_, ()>(()));
        assert_eq!(set_aside(&mut set), Ok(1));
        assert!(set.labels.ignored.contains(&(3, 19)));
        let labels = Labels { positive: [(3, 19)].into(), ..Labels::default() };
        let mut marked = Set { texts, labels, ..Set::default() };
        assert_eq!(set_aside(&mut marked), Ok(0));
        let mut edited = with_edits("own", set.texts, 1);
        set_aside(&mut edited).unwrap();
        // Text 3, its copy, and the edited variant of each: all pairs except the two labelled ones.
        let copy_of = |of: u32| edited.labels.positive.iter().find(|pair| pair.0 == of).unwrap().1;
        let (a, b) = (copy_of(3), copy_of(19));
        for pair in [(3, 19), (3, b), (19, a), (a.min(b), a.max(b))] {
            assert!(edited.labels.ignored.contains(&pair), "{pair:?}");
        }
        assert_eq!(set_aside_copies(&mut edited, by, ALIKE, || Err("cancelled")), Err("cancelled"));
    }

    #[test]
    fn pairs_of_middling_similarity_are_disputed() {
        let words = |from: usize| -> String { (from..from + 600).map(word).collect() };
        // Of 600 words, 540 are common to the first two texts, and 400 to the first and the last.
        let texts = vec![words(0), words(60), words(200)];
        let by = Profile::named("shingles-64").unwrap();
        let mut set = Set { texts, ..Set::default() };
        set_aside_copies(&mut set, by, CERTAIN, || Ok::<_, ()>(())).unwrap();
        assert!(set.labels.ignored.contains(&(0, 1)), "{:?}", set.labels);
        assert!(set.labels.disputed.contains(&(0, 2)), "{:?}", set.labels);
    }
}
