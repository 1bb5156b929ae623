//! What `lookalike.compare` says of two images.

use pyo3::prelude::*;

use super::arguments::{radius, wrong};
use super::hashes::number;
use super::images;
use lookalike_text::fingerprint::{HashComparison, Profile};

/// Why two images match, or do not.
///
/// `distance` is the number of bits that differ, and `k` the largest one at which images match. `quality` is
/// how much there is to see in both, 0 to 100: below 50 unlike images have near hashes. `bits` are the bits
/// that differ, from the least significant one, which is 0: bit 16 * u + v of "pdq" is the sign of the
/// frequency u + 1 down and v + 1 across.
///
/// >>> import lookalike as la
/// >>> white = bytes.fromhex("47494638396101000100800000ffffff0000002c000000000100010000020244010" "03b")
/// >>> found = la.compare(white, white, profile="pdq")
/// >>> found.match, found.quality, found.bits
/// (True, (0, 0), [])
#[pyclass(frozen, get_all, module = "lookalike")]
pub(crate) struct ImageComparison {
    /// The id of the profile.
    profile: String,
    /// Both hashes.
    hashes: (Py<PyAny>, Py<PyAny>),
    /// How much there is to see in both images, 0 to 100.
    quality: (u8, u8),
    /// The number of bits that differ.
    distance: u32,
    /// The largest distance of matching images.
    k: u32,
    /// Whether the distance is at most k.
    r#match: bool,
    /// The bits that differ, from the least significant one, which is 0.
    bits: Vec<u32>,
}

#[pymethods]
impl ImageComparison {
    fn __repr__(&self) -> String {
        let ImageComparison { profile, distance, k, quality, .. } = self;
        let verb = if self.r#match { "match" } else { "do not match" };
        format!(
            "<lookalike.ImageComparison by {profile}: {verb}, {distance} bits, k={k}, quality={quality:?}>"
        )
    }
}

impl ImageComparison {
    pub(crate) fn of(
        py: Python<'_>,
        [a, b]: [&Bound<'_, PyAny>; 2],
        profile: &'static Profile,
        k: Option<u32>,
    ) -> PyResult<ImageComparison> {
        let k = k.map_or(Ok(profile.default_k()), |k| radius(k, profile.width().bits()))?;
        let (a, b) = (images::one("a", a, profile)?, images::one("b", b, profile)?);
        let found = HashComparison::of(a.hash, b.hash).ok_or_else(|| wrong("b", "it has another width"))?;
        Ok(ImageComparison {
            profile: profile.id().to_string(),
            hashes: (number(py, a.hash)?, number(py, b.hash)?),
            quality: (a.quality, b.quality),
            distance: found.distance,
            k,
            r#match: found.distance <= k,
            bits: found.bits,
        })
    }
}
