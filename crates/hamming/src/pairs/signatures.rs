//! Near pairs of signatures: those that agree in a band, as lookups find them ([`Bands`]).
//!
//! For each band the signatures are sorted by its hash. Signatures with one hash are a run, and are compared
//! with each other. The first band in which a pair agrees reports it. The elements of sets are sorted
//! together; a run of more than [`SignatureShape::MAX_SHARED`] is skipped, and the smallest common element
//! that counts reports a pair.
//!
//! Costs: the signatures, and 16 bytes each for a band, or for each element of a set. Runs are compared pair
//! by pair.
//!
//! [`Bands`]: super::super::Bands

use super::super::bands::band_hash;
use super::{NearPair, NearPairs};
use lookalike_hash::{Hash, SignatureShape, is_blank};

/// The number of comparisons in a step, which takes some milliseconds.
const STEP: usize = 1 << 16;

/// Signatures in the order of their names, and where a pass is.
pub(super) struct SignaturePairs {
    shape: SignatureShape,
    signatures: Vec<u8>,
    /// The band, the run in it and the place in the run that come next.
    band: usize,
    run: usize,
    row: usize,
    /// The hash of the band of each signature, and its place; of sets, all elements.
    sorted: Vec<(u64, u32)>,
}

impl SignaturePairs {
    pub(super) fn new(shape: SignatureShape) -> SignaturePairs {
        SignaturePairs { shape, signatures: Vec::new(), band: 0, run: 0, row: 0, sorted: Vec::new() }
    }

    fn len(&self) -> usize {
        self.signatures.len() / self.shape.bytes()
    }

    fn signature(&self, place: u32) -> &[u8] {
        &self.signatures[place as usize * self.shape.bytes()..][..self.shape.bytes()]
    }

    fn band_bytes(&self) -> usize {
        usize::from(self.shape.cell_bytes) * usize::from(self.shape.rows)
    }

    /// The number of sorted lists of a pass.
    fn lists(&self) -> usize {
        if self.shape.is_set { 1 } else { usize::from(self.shape.bands) }
    }

    fn sort(&mut self) {
        let size = self.band_bytes();
        let mut sorted = std::mem::take(&mut self.sorted);
        for place in 0..self.len() as u32 {
            let mut bands = self.signature(place).chunks_exact(size);
            if self.shape.is_set {
                let cells = bands.filter(|cell| !is_blank(cell));
                sorted.extend(cells.map(|cell| (number(cell), place)));
            } else {
                sorted.extend(bands.nth(self.band).map(|band| (u64::from(band_hash(band)), place)));
            }
        }
        sorted.sort_unstable();
        sorted.dedup();
        self.sorted = sorted;
    }

    /// The distance of two different signatures in a run of this key; `None` if an earlier run has both.
    fn distance(&self, key: u64, a: u32, b: u32) -> Option<u32> {
        let (a, b) = (self.signature(a), self.signature(b));
        let size = self.band_bytes();
        if !self.shape.is_set {
            let mut earlier = a.chunks_exact(size).zip(b.chunks_exact(size)).take(self.band);
            let is_first = earlier.all(|(a, b)| band_hash(a) != band_hash(b));
            return is_first.then(|| self.shape.distance(a, b));
        }
        let is_shared = |cell: &&[u8]| b.chunks_exact(size).any(|other| other == *cell);
        let shared = a.chunks_exact(size).filter(|cell| !is_blank(cell)).filter(is_shared);
        let counted: Vec<u64> = shared.map(number).filter(|element| self.counts(*element)).collect();
        let is_first = counted.iter().min() == Some(&key);
        is_first.then(|| u32::from(self.shape.cells) - counted.len() as u32)
    }

    /// Whether an element of sets is compared: few enough signatures have it.
    fn counts(&self, element: u64) -> bool {
        let from = self.sorted.partition_point(|(other, _)| *other < element);
        let beyond = self.sorted.get(from + SignatureShape::MAX_SHARED);
        beyond.is_none_or(|(other, _)| *other != element)
    }

    /// The run that comes next.
    fn next_run(&self) -> Option<&[(u64, u32)]> {
        let rest = &self.sorted[self.run..];
        let (key, _) = rest.first()?;
        Some(&rest[..rest.partition_point(|(other, _)| other == key)])
    }
}

/// The number of an element of at most 8 bytes.
fn number(cell: &[u8]) -> u64 {
    cell.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl NearPairs for SignaturePairs {
    fn push(&mut self, _: Hash, signature: &[u8]) {
        assert_eq!(signature.len(), self.shape.bytes(), "a signature has the length of its shape");
        self.signatures.extend_from_slice(signature);
    }

    fn begin(&mut self, _: u32) {
        (self.band, self.run, self.row) = (0, 0, 0);
        self.sorted.clear();
    }

    fn step(&mut self, k: u32, found: &mut Vec<NearPair>) -> bool {
        let mut left = STEP;
        while self.band < self.lists() {
            if self.sorted.is_empty() {
                self.sort();
                left = left.saturating_sub(self.len());
            }
            while let Some(run) = self.next_run() {
                let mut row = self.row;
                if self.shape.is_set && run.len() > SignatureShape::MAX_SHARED {
                    row = run.len();
                }
                while left > 0
                    && let Some(&(key, first)) = run.get(row)
                {
                    for &(_, second) in &run[row + 1..] {
                        let distance = self.distance(key, first, second).filter(|distance| *distance <= k);
                        found.extend(distance.map(|distance| NearPair { first, second, distance }));
                    }
                    row += 1;
                    left = left.saturating_sub(run.len() - row + 1);
                }
                if row < run.len() {
                    self.row = row;
                    return true;
                }
                (self.run, self.row) = (self.run + run.len(), 0);
            }
            (self.band, self.run) = (self.band + 1, 0);
            self.sorted.clear();
            if left == 0 {
                break;
            }
        }
        self.band < self.lists() && !self.signatures.is_empty()
    }

    fn bytes(&self) -> usize {
        let entries = if self.shape.is_set { usize::from(self.shape.cells) } else { 1 };
        self.signatures.len() + self.len() * entries * size_of::<(u64, u32)>()
    }
}
