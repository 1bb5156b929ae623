//! `lookalike.compare`.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

use super::arguments::{profile, radius, wrong};
use super::hashes::number;
use super::image_comparison::ImageComparison;
use lookalike_hash::Hash;
use lookalike_text::fingerprint::{FeatureComparison, Status, check_takes_texts};
use lookalike_text::{Change, word_diff};

/// Why two texts match, or do not.
///
/// `distance` is the number of bits, or of cells of signatures, that differ, and `k` the largest one at which
/// texts match. `similarity` is estimated by signatures, or None if the profile makes hashes. `jaccard` and
/// `cosine`, 0 to 1, are exact: of the features of both texts, and of their weights.
///
/// >>> import lookalike as la
/// >>> found = la.compare("Boats are hired on Tuesday", "Boats are hired on Friday", profile="copies-64")
/// >>> found.match == (found.distance <= found.k), found.shared < found.distinct
/// (True, True)
#[pyclass(frozen, get_all, module = "lookalike")]
pub(crate) struct Comparison {
    /// The id of the profile.
    profile: String,
    /// Both hashes; of signatures, their names.
    hashes: (Py<PyAny>, Py<PyAny>),
    /// The number of bits, or of cells of signatures, that differ.
    distance: u32,
    /// The largest distance of matching texts.
    k: u32,
    /// Whether the distance is at most k, and both texts have features.
    r#match: bool,
    /// The similarity that signatures estimate, 0 to 1; None if the profile makes hashes.
    similarity: Option<f64>,
    /// Shared features divided by all, 0 to 1.
    jaccard: f64,
    /// The cosine of the angle between the weights of the features, 0 to 1.
    cosine: f64,
    /// How many features both texts have.
    shared: usize,
    /// How many features at least one text has.
    distinct: usize,
    /// The features that differ most, at most 100: each with its weights in both texts.
    differing: Vec<(String, f64, f64)>,
    /// Both texts word by word: ("equal" or "removed" or "added", the words), in order.
    changes: Vec<(&'static str, String)>,
}

#[pymethods]
impl Comparison {
    fn __repr__(&self) -> String {
        let Comparison { profile, distance, k, jaccard, .. } = self;
        let verb = if self.r#match { "match" } else { "do not match" };
        format!(
            "<lookalike.Comparison by {profile}: {verb}, distance={distance}, k={k}, jaccard={jaccard:.3}>"
        )
    }
}

/// Compares two texts, and says why they match or do not.
///
/// With a profile of images, `a` and `b` are images, and the answer is an `ImageComparison`.
///
/// `k` is the largest distance of matching texts, by default the smaller one of those of both texts. A
/// comparison looks at every feature of both texts, which takes a hundred times as long as a fingerprint.
///
/// Raises ValueError if there is no such profile, or `k` is larger than any distance.
///
/// >>> import lookalike as la
/// >>> found = la.compare("Boats are hired on Tuesday", "Boats are hired on Friday")
/// >>> [words for kind, words in found.changes if kind != "equal"]
/// ['Tuesday', 'Friday']
#[pyfunction]
#[pyo3(signature = (a, b, *, profile="copies-128", k=None))]
pub(crate) fn compare(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    profile: &str,
    k: Option<u32>,
) -> PyResult<Py<PyAny>> {
    let profile = self::profile(profile)?;
    if profile.takes_images() {
        return Ok(Py::new(py, ImageComparison::of(py, [a, b], profile, k)?)?.into_any());
    }
    check_takes_texts(profile).map_err(|why| wrong("profile", why))?;
    let [a, b]: [PyBackedStr; 2] = [a.extract()?, b.extract()?];
    let (a, b) = (&*a, &*b);
    let most = profile.signatures().map_or(profile.width().bits(), |shape| u32::from(shape.cells));
    let k = k.map(|k| radius(k, most)).transpose()?;
    let ([of_a, of_b], features, changes) = py.detach(|| {
        let sides = [a, b].map(|text| profile.explain(text));
        let features = FeatureComparison::of(&sides[0], &sides[1]);
        (sides, features, word_diff(a, b))
    });
    let [one, other]: [Hash; 2] = [&of_a, &of_b].map(|side| side.fingerprint.hash);
    let signatures = profile.signatures().zip(of_a.signature.as_ref().zip(of_b.signature.as_ref()));
    let distance = match signatures {
        Some((shape, (a, b))) => shape.distance(a, b),
        None => one.distance(other).unwrap_or(most),
    };
    let k = k.unwrap_or(of_a.fingerprint.k.min(of_b.fingerprint.k));
    let has_features = [&of_a, &of_b].iter().all(|side| side.fingerprint.status != Status::Empty);
    let differing = features.greatest.into_iter().map(|own| (own.text, own.weights[0], own.weights[1]));
    let change = |change: Change| match change {
        Change::Equal(words) => ("equal", words),
        Change::Removed(words) => ("removed", words),
        Change::Added(words) => ("added", words),
    };
    let made = Comparison {
        profile: profile.id().to_string(),
        hashes: (number(py, one)?, number(py, other)?),
        distance,
        k,
        r#match: distance <= k && has_features,
        similarity: profile.signatures().map(|shape| shape.similarity(distance)),
        jaccard: features.jaccard,
        cosine: features.cosine,
        shared: features.shared,
        distinct: features.distinct,
        differing: differing.collect(),
        changes: changes.into_iter().map(change).collect(),
    };
    Ok(Py::new(py, made)?.into_any())
}
