//! Measures MinHash recipes: the pairs that agree in a band and whose estimated similarity reaches a
//! threshold.
//!
//! Not here: the choice of the threshold (`tables`).

use lookalike_eval::{Judged, Pair, Set};
use lookalike_hamming::Bands;
use lookalike_hash::{Hash, SignatureShape};
use lookalike_run::machine::thread_time;
use lookalike_text::fingerprint::{Banding, MinHash, Profile, jaccard, signature_of};

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
pub fn banded(recipe: &MinHash, banding: Banding, set: &Set, thresholds: &[f64]) -> Option<Banded> {
    let profile = Profile::named(recipe.name)?;
    let shape = SignatureShape::of_minima(banding.bands as u16, banding.rows as u16)?;
    let sign = |text: &String| {
        let features = profile.feature_set(text);
        let signature = signature_of(&features, shape);
        (features, signature)
    };
    // Loads the dictionaries before the time is measured.
    let _ = set.texts.first().map(sign);
    let start = thread_time();
    let (sets, signatures): (Vec<Vec<u64>>, Vec<Vec<u8>>) = set.texts.iter().map(sign).unzip();
    let seconds = thread_time().saturating_sub(start).as_secs_f64();
    let bytes_of_text: usize = set.texts.iter().map(String::len).sum();
    let index = Bands::new(shape);
    let mut pairs: Vec<(Pair, f64)> = Vec::new();
    for (number, signature) in signatures.iter().enumerate().filter(|(number, _)| !sets[*number].is_empty()) {
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
    Some(Banded {
        recipe: profile.id().to_string(),
        banding,
        bytes: index.bytes() as f64 / index.len().max(1) as f64,
        bytes_a_second: bytes_of_text as f64 / seconds.max(1e-9),
        error: (squares / positive).sqrt(),
        thresholds: thresholds.iter().map(at).collect(),
    })
}
