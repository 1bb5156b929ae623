//! The pairs that are found if each text is looked up with its own k.
//!
//! With a profile for short texts, k depends on the text, so there is no curve over k. Not here: pairs within
//! one k (`curve`).

use super::labels::{Judged, Labels};
use lookalike_hash::Hash;
use lookalike_text::fingerprint::{Fingerprint, Status};

/// Judges the pairs of which the first text, which is the original of a copy, finds the second one.
///
/// # Errors
/// The error of `check`, which is called before each text.
pub fn at_own_k<E>(
    made: &[Fingerprint],
    labels: &Labels,
    check: impl Fn() -> Result<(), E>,
) -> Result<Judged, E> {
    let stored: Vec<(u32, Hash)> = (0_u32..)
        .zip(made)
        .filter(|(_, one)| one.status != Status::Empty)
        .map(|(number, one)| (number, one.hash))
        .collect();
    let mut found = Vec::new();
    for (at, &(a, hash)) in stored.iter().enumerate() {
        check()?;
        let k = made[a as usize].k;
        let near = stored[at + 1..].iter().filter(|(_, other)| hash.distance(*other) <= Some(k));
        found.extend(near.map(|&(b, _)| (a, b)).filter(|pair| !labels.ignored.contains(pair)));
    }
    Ok(labels.judge(found.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pair;
    use lookalike_text::fingerprint::Profile;

    #[test]
    fn each_text_is_looked_up_with_its_own_k() {
        let of = |bits: u64, k: u32, status| Fingerprint {
            hash: Hash::from_u64(bits),
            k,
            status,
            ..Profile::default_profile().fingerprint("")
        };
        let made = [
            of(0, 1, Status::Ok),
            of(0b11, 2, Status::Ok),
            of(0b1, 0, Status::Empty),
            of(0b100, 0, Status::Ok),
            of(0b110, 0, Status::Ok),
        ];
        let set = |pairs: &[Pair]| pairs.iter().copied().collect();
        // Found: 0 and 3, 1 and 4; within k: 0 and 2, but 2 is empty.
        let labels = Labels { positive: set(&[(0, 1), (1, 4)]), ..Labels::default() };
        let Ok(judged) = at_own_k(&made, &labels, || Ok::<_, std::convert::Infallible>(()));
        assert_eq!(judged, Judged { precision: 0.5, precision_undisputed: 0.5, recall: 0.5 });
        let labels = Labels { ignored: set(&[(0, 3)]), ..labels };
        let Ok(judged) = at_own_k(&made, &labels, || Ok::<_, std::convert::Infallible>(()));
        assert!((judged.precision - 1.0).abs() < 1e-9);
    }
}
