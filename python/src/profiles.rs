//! `lookalike.profiles`.

use pyo3::prelude::*;

use lookalike_text::fingerprint::Profile as Recipe;

/// A recipe from text to hash, with a name and a version.
///
/// `id` is both, such as "copies-128@1". `bits` is the width of the hashes, and `k` the distance up to which
/// two texts count as near-duplicates, in bits or in cells of signatures. `threshold` is the same as a
/// similarity from 0 to 1, or None if the profile makes hashes and no signatures.
///
/// >>> import lookalike as la
/// >>> [(p.id, p.bits, p.k) for p in la.profiles() if p.name == "copies-64"]
/// [('copies-64@1', 64, 7)]
#[pyclass(frozen, module = "lookalike")]
pub(crate) struct Profile(&'static Recipe);

#[pymethods]
impl Profile {
    /// The name and the version.
    #[getter]
    fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// The name without the version, which stands for the newest one.
    #[getter]
    fn name(&self) -> &str {
        self.0.id().name()
    }

    /// The version, from 1. A released version never changes its hashes.
    #[getter]
    fn version(&self) -> u32 {
        self.0.id().version()
    }

    /// The bits of its hashes: 64, 128 or 256.
    #[getter]
    fn bits(&self) -> u32 {
        self.0.width().bits()
    }

    /// The largest distance of near-duplicates, unless a call names another one.
    #[getter]
    fn k(&self) -> u32 {
        self.0.default_k()
    }

    /// The similarity at distance `k`, 0 to 1; None for profiles that make hashes.
    #[getter]
    fn threshold(&self) -> Option<f64> {
        self.0.signatures().map(|shape| shape.threshold_of(self.0.default_k()))
    }

    /// Whether it makes fingerprints of texts. Otherwise its hashes are made elsewhere.
    #[getter]
    fn takes_texts(&self) -> bool {
        self.0.takes_texts()
    }

    /// Whether it makes hashes of images.
    #[getter]
    fn takes_images(&self) -> bool {
        self.0.takes_images()
    }

    /// Its purpose, in a few sentences.
    #[getter]
    fn summary(&self) -> &str {
        self.0.summary()
    }

    fn __repr__(&self) -> String {
        format!("<lookalike.Profile {}: {} bits, k={}>", self.id(), self.bits(), self.k())
    }
}

/// The built-in profiles.
///
/// >>> import lookalike as la
/// >>> "minhash-copies" in {profile.name for profile in la.profiles()}
/// True
#[pyfunction]
pub(crate) fn profiles() -> Vec<Profile> {
    Recipe::all().iter().map(Profile).collect()
}
