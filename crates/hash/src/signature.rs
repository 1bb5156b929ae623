//! Signatures: fingerprints that are compared cell by cell, not bit by bit.
//!
//! A signature is a sequence of cells of one to eight bytes: the minima of `MinHash`, or hashes of sentences.
//! The distance of two signatures is the number of cells in which they differ. A signature has a name, a
//! [`Hash`](super::Hash) of 128 bits. Equal signatures have equal names. The distance of two names does not
//! depend on the distance of their signatures.
//!
//! *Absent*: how signatures are made (`lookalike-text`) and found (`lookalike-hamming`).

/// The cells of a signature, and the bands by which signatures are found.
///
/// ```
/// use lookalike_hash::SignatureShape;
/// let shape = SignatureShape::of_minima(2, 2).unwrap();
/// assert_eq!(shape.distance(&[1, 2, 3, 4], &[1, 2, 3, 5]), 1);
/// assert!(shape.similarity(1) < 0.75 && shape.distance_for(shape.similarity(1)) == 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "super::stored::AnyShape"))]
pub struct SignatureShape {
    /// The number of cells, 1 to [`SignatureShape::MAX_CELLS`].
    pub cells: u16,
    /// The number of bytes of a cell, 1 to 8.
    pub cell_bytes: u8,
    /// The number of bands. Two signatures that agree in no band do not find each other.
    pub bands: u16,
    /// The number of cells of a band. Bands × rows is at most the number of cells.
    pub rows: u16,
    /// Whether the cells are elements of a set, in any order. A cell of zeros is then no element, and a band
    /// has one row.
    pub is_set: bool,
}

impl SignatureShape {
    /// The maximum number of cells of a signature.
    pub const MAX_CELLS: u32 = 255;

    /// The shape of minima of one byte, all of which are in bands; `None` if there are none or too many.
    pub fn of_minima(bands: u16, rows: u16) -> Option<SignatureShape> {
        let cells = bands.checked_mul(rows)?;
        SignatureShape { cells, cell_bytes: 1, bands, rows, is_set: false }.checked()
    }

    /// This shape; `None` if signatures cannot have it.
    pub fn checked(self) -> Option<SignatureShape> {
        let SignatureShape { cells, cell_bytes, bands, rows, is_set } = self;
        let fits = (1..=SignatureShape::MAX_CELLS).contains(&u32::from(cells))
            && (1..=8).contains(&cell_bytes)
            && bands > 0
            && rows > 0
            && u32::from(bands) * u32::from(rows) <= u32::from(cells)
            && (!is_set || (rows == 1 && bands == cells));
        fits.then_some(self)
    }

    /// The number of bytes of a signature.
    pub fn bytes(self) -> usize {
        usize::from(self.cells) * usize::from(self.cell_bytes)
    }

    /// The number of signatures up to which they may share an element that counts. An element of more stored
    /// signatures is a standing phrase, such as a notice of a site, and says nothing about copies. It is not
    /// compared, except that equal signatures are always found.
    pub const MAX_SHARED: usize = 20;

    /// The number of cells in which two signatures differ. For sets, the number of cells less the number of
    /// common elements, or 0 if the sets are equal and not empty.
    ///
    /// # Panics
    /// If a signature does not have the length of the shape.
    pub fn distance(self, a: &[u8], b: &[u8]) -> u32 {
        assert!(a.len() == self.bytes() && b.len() == a.len(), "signatures of one shape are compared");
        let size = usize::from(self.cell_bytes);
        if self.is_set {
            let is_equal = a == b && !is_blank(a);
            return if is_equal { 0 } else { u32::from(self.cells) - self.shared(a, b) };
        }
        if size == 1 {
            return differing(a, b);
        }
        a.chunks_exact(size).zip(b.chunks_exact(size)).map(|(a, b)| u32::from(a != b)).sum()
    }

    /// The number of elements of the first set that the second one has.
    pub fn shared(self, a: &[u8], b: &[u8]) -> u32 {
        let size = usize::from(self.cell_bytes);
        let is_shared = |cell: &&[u8]| !is_blank(cell) && b.chunks_exact(size).any(|other| other == *cell);
        a.chunks_exact(size).filter(is_shared).count() as u32
    }

    /// The similarity, 0 to 1, of two signatures at this distance. For minima, the estimate of the Jaccard
    /// similarity, from which agreement by chance is subtracted. For sets, the share of common elements.
    pub fn similarity(self, distance: u32) -> f64 {
        let cells = f64::from(self.cells);
        let equal = (cells - f64::from(distance)).max(0.0) / cells;
        let by_chance = if self.is_set { 0.0 } else { 256.0_f64.powi(-i32::from(self.cell_bytes)) };
        ((equal - by_chance) / (1.0 - by_chance)).clamp(0.0, 1.0)
    }

    /// The largest distance of signatures with at least this similarity.
    pub fn distance_for(self, threshold: f64) -> u32 {
        let reaches = |distance: &u32| self.similarity(*distance) >= threshold - 1e-12;
        (0..=u32::from(self.cells)).rev().find(reaches).unwrap_or(0)
    }

    /// The distance with weights that is as far as `k` without: that of four fifths of its similarity,
    /// because what an edit changes is rarer than what it keeps, and weighs more.
    pub fn weighted(self, k: u32) -> u32 {
        self.distance_for(0.8 * self.similarity(k))
    }

    /// The distance as a similarity for people: the similarity, rounded down to as few decimals as mean the
    /// same distance, and to two at least.
    ///
    /// ```
    /// use lookalike_hash::SignatureShape;
    /// let shape = SignatureShape::of_minima(50, 4).unwrap();
    /// assert_eq!(shape.threshold_of(shape.distance_for(0.5)), 0.5);
    /// ```
    pub fn threshold_of(self, distance: u32) -> f64 {
        let exact = self.similarity(distance);
        let rounded = [1e2, 1e3, 1e4, 1e5].map(|unit| (exact * unit + 1e-9).floor() / unit);
        let is_same = |threshold: &f64| self.distance_for(*threshold) == self.distance_for(exact);
        rounded.into_iter().find(is_same).unwrap_or(exact)
    }

    /// The share of pairs of this similarity that agree in a band. Sets with a common element always agree.
    pub fn caught(self, similarity: f64) -> f64 {
        if self.is_set {
            return f64::from(u8::from(similarity > 0.0));
        }
        share_caught(similarity, usize::from(self.bands), usize::from(self.rows))
    }
}

/// The share of pairs of this similarity, 0 to 1, that agree in at least one of `bands` bands of `rows` rows:
/// `1 - (1 - s^rows)^bands` (Leskovec, Rajaraman and Ullman, "Mining of Massive Datasets", 3.4).
pub fn share_caught(similarity: f64, bands: usize, rows: usize) -> f64 {
    1.0 - libm::pow(1.0 - libm::pow(similarity, rows as f64), bands as f64)
}

/// The number of bytes that differ, of at most 255. The counts of 32 places fit in a byte each, so that they
/// are made side by side.
fn differing(a: &[u8], b: &[u8]) -> u32 {
    let (a, b) = (a.as_chunks::<32>(), b.as_chunks::<32>());
    let mut counts = [0_u8; 32];
    for (a, b) in a.0.iter().zip(b.0) {
        counts.iter_mut().zip(a.iter().zip(b)).for_each(|(count, (a, b))| *count += u8::from(a != b));
    }
    let rest = a.1.iter().zip(b.1).filter(|(a, b)| a != b).count();
    counts.into_iter().map(u32::from).sum::<u32>() + rest as u32
}

/// Whether a cell of a set holds no element.
pub fn is_blank(cell: &[u8]) -> bool {
    cell.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_shapes_are_refused() {
        assert!(SignatureShape::of_minima(16, 8).is_some() && SignatureShape::of_minima(63, 4).is_some());
        for (bands, rows) in [(0, 8), (8, 0), (64, 4), (u16::MAX, 2)] {
            assert!(SignatureShape::of_minima(bands, rows).is_none(), "{bands} {rows}");
        }
        let set = SignatureShape { cells: 3, cell_bytes: 8, bands: 3, rows: 1, is_set: true };
        assert!(set.checked().is_some());
        assert!(SignatureShape { bands: 2, ..set }.checked().is_none());
        assert!(SignatureShape { cell_bytes: 9, ..set }.checked().is_none());
    }

    #[test]
    fn thresholds_and_distances_are_inverse() {
        for shape in
            [SignatureShape::of_minima(16, 8).unwrap(), SignatureShape::of_minima(50, 4).unwrap(), SET]
        {
            for distance in 0..u32::from(shape.cells) {
                let back = shape.distance_for(shape.similarity(distance));
                assert!(back == distance || shape.similarity(back) <= shape.similarity(distance));
            }
            assert_eq!((shape.distance_for(1.0), shape.distance_for(0.0)), (0, u32::from(shape.cells)));
        }
    }

    #[test]
    fn thresholds_of_two_decimals_come_back() {
        for shape in [SignatureShape::of_minima(16, 8).unwrap(), SignatureShape::of_minima(50, 4).unwrap()] {
            for percent in 0..=100 {
                let threshold = f64::from(percent) / 100.0;
                let back = shape.threshold_of(shape.distance_for(threshold));
                assert!((back - threshold).abs() < 1e-12, "{threshold} became {back}");
            }
        }
        for shape in [SignatureShape::of_minima(51, 5).unwrap(), SET] {
            for distance in 0..=u32::from(shape.cells) {
                let threshold = shape.threshold_of(distance);
                let exact = shape.similarity(distance);
                assert_eq!(shape.distance_for(threshold), shape.distance_for(exact), "{threshold}");
            }
        }
    }

    const SET: SignatureShape = SignatureShape { cells: 3, cell_bytes: 2, bands: 3, rows: 1, is_set: true };

    #[test]
    fn elements_of_sets_count_in_any_cell() {
        assert_eq!(SET.distance(&[1, 2, 3, 4, 0, 0], &[3, 4, 9, 9, 0, 0]), 2);
        assert_eq!(SET.distance(&[0; 6], &[0; 6]), 3);
        assert_eq!(SET.distance(&[1, 2, 0, 0, 0, 0], &[1, 2, 0, 0, 0, 0]), 0);
        assert_eq!(SET.distance(&[1, 2, 0, 0, 0, 0], &[1, 2, 3, 4, 0, 0]), 2);
        assert!((SET.similarity(2) - 1.0 / 3.0).abs() < 1e-9);
    }
}
