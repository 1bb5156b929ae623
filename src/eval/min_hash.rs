//! Measures MinHash recipes: the pairs that agree in a band and whose estimated similarity reaches a
//! threshold.
//!
//! Not here: the choice of the threshold (`report`).

use super::labels::{Judged, Pair};
use super::{Set, timed};
use crate::fingerprint::{Banding, MinHash, Profile, jaccard, signature_of};
use crate::ids::{Hash, SignatureShape};
use crate::index::Bands;
use std::time::Duration;

/// The results of a recipe with one banding.
#[derive(Clone, Debug)]
pub struct Banded {
    /// The id of the recipe.
    pub recipe: String,
    /// The banding.
    pub banding: Banding,
    /// Bytes of memory of the index, including signatures, per signature.
    pub bytes: f64,
    /// Bytes of text per second, on one core, from text to signature.
    pub bytes_a_second: f64,
    /// The root mean square error of the estimates of all positive pairs.
    pub error: f64,
    /// Each threshold, and the quality of the pairs that reach it.
    pub thresholds: Vec<(f64, Judged)>,
}

/// Measures a recipe with this banding. `None` if its profile does not exist or no signature has this shape.
///
/// # Errors
/// The error of `check`, which is called before each text.
pub fn banded<E>(
    recipe: &MinHash,
    banding: Banding,
    set: &Set,
    thresholds: &[f64],
    clock: impl Fn() -> Duration,
    check: impl Fn() -> Result<(), E>,
) -> Result<Option<Banded>, E> {
    let (Some(profile), Some(own)) = (Profile::named(recipe.features), Profile::named(recipe.name)) else {
        return Ok(None);
    };
    let Some(shape) = SignatureShape::of_minima(banding.bands as u16, banding.rows as u16) else {
        return Ok(None);
    };
    let sign = |text: &str| {
        let features = profile.feature_set(text);
        let signature = signature_of(&features, shape);
        (features, signature)
    };
    let (made, bytes_a_second) = timed(&set.texts, sign, clock, &check)?;
    let (sets, signatures): (Vec<Vec<u64>>, Vec<Vec<u8>>) = made.into_iter().unzip();
    let index = Bands::new(shape);
    let mut pairs: Vec<(Pair, f64)> = Vec::new();
    for (number, signature) in signatures.iter().enumerate().filter(|(number, _)| !sets[*number].is_empty()) {
        check()?;
        let mut near = Vec::new();
        index.within(signature, u32::from(shape.cells), &mut near);
        pairs.extend(
            near.into_iter()
                .map(|found| ((found.hash.low() as u32, number as u32), shape.similarity(found.distance))),
        );
        index.insert(Hash::from_u128(number as u128), signature);
    }
    pairs.retain(|(pair, _)| !set.labels.ignored.contains(pair));
    let squares: f64 = set
        .labels
        .positive
        .iter()
        .map(|&(a, b)| {
            let (a, b) = (a as usize, b as usize);
            let estimate = shape.similarity(shape.distance(&signatures[a], &signatures[b]));
            (estimate - jaccard(&sets[a], &sets[b])).powi(2)
        })
        .sum();
    let positive = set.labels.positive.len().max(1) as f64;
    let at = |&threshold: &f64| {
        let found = pairs.iter().filter(|(_, similarity)| *similarity >= threshold);
        (threshold, set.labels.judge(found.map(|(pair, _)| *pair)))
    };
    Ok(Some(Banded {
        recipe: own.id().to_string(),
        banding,
        bytes: index.bytes() as f64 / index.len().max(1) as f64,
        bytes_a_second,
        error: (squares / positive).sqrt(),
        thresholds: thresholds.iter().map(at).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::tests::two_copies;

    #[test]
    fn copies_agree_in_a_band_and_others_do_not() {
        let set = two_copies();
        let banding = Banding { bands: 32, rows: 4 };
        let measure = |check: fn() -> Result<(), &'static str>| {
            banded(&MinHash::ALL[1], banding, &set, &[0.2, 1.1], || Duration::ZERO, check)
        };
        let found = measure(|| Ok(())).unwrap();
        let all = Judged { precision: 1.0, precision_undisputed: 1.0, recall: 1.0 };
        assert_eq!(found.unwrap().thresholds, [(0.2, all), (1.1, Judged { recall: 0.0, ..all })]);
        assert!(measure(|| Err("cancelled")).is_err());
    }
}
