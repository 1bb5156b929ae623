//! The check that decides which near documents are duplicates.

/// A check of near documents by sketches of their texts: a bit of each of many minima of a set of features.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SketchCheck {
    /// Documents within this distance are compared.
    pub k: u32,
    /// The least similarity of duplicates, 0 to 1.
    pub similarity: f64,
}

impl SketchCheck {
    /// The check of sketches with weights: of four fifths of the similarity, as
    /// [`SignatureShape::weighted`](crate::SignatureShape::weighted).
    #[must_use]
    pub fn weighted(self) -> SketchCheck {
        SketchCheck { similarity: 0.8 * self.similarity, ..self }
    }
}

/// The distance within which a document with this sketch, or without one, may have duplicates.
pub fn reach(k: u32, check: Option<SketchCheck>, sketch: Option<&[u8]>) -> u32 {
    check.filter(|_| sketch.is_some()).map_or(k, |check| k.max(check.k))
}

/// Whether two documents at this distance are duplicates: by the check if both have sketches, otherwise if
/// they are within `k`. `None` if they are none, otherwise the similarity if sketches were compared.
#[allow(clippy::option_option, reason = "no duplicates, some by distance, or some by similarity")]
pub fn are_duplicates(
    k: u32,
    check: Option<SketchCheck>,
    distance: u32,
    [a, b]: [Option<&[u8]>; 2],
) -> Option<Option<f64>> {
    let (Some(check), Some(a), Some(b)) = (check, a, b) else {
        return (distance <= k).then_some(None);
    };
    let similarity = sketch_similarity(a, b);
    (distance <= check.k && similarity >= check.similarity).then_some(Some(similarity))
}

/// The Jaccard similarity that two sketches estimate, 0 to 1: different minima have equal bits in one case of
/// two. 0 for sketches of different sizes.
pub fn sketch_similarity(a: &[u8], b: &[u8]) -> f64 {
    if a.len() != b.len() || a.is_empty() {
        return 0.0;
    }
    let differing: u32 = a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum();
    (1.0 - f64::from(differing) / (4 * a.len()) as f64).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_bits_differ_by_chance() {
        for (a, b, similarity) in [
            (&[0x0f, 0xff][..], &[0x0f, 0xff][..], 1.0),
            (&[0x0f, 0xff], &[0x0f, 0x0f], 0.5),
            (&[0x0f, 0xff], &[0xff, 0x0f], 0.0),
            (&[0x0f, 0xff], &[0xf0, 0x00], 0.0),
            (&[0x0f], &[0x0f, 0x0f], 0.0),
            (&[], &[], 0.0),
        ] {
            assert!((sketch_similarity(a, b) - similarity).abs() < 1e-12, "{a:?} {b:?}");
        }
    }
}
