//! Which kept sets share an element with another one.
//!
//! An element that more than [`SignatureShape::MAX_SHARED`] different sets have is a standing phrase, and is
//! not compared. So what is found depends on what was kept before, and sets are visited one by one. Equal
//! sets are always found.
//!
//! Costs: some 13 bytes for each element of a set and 8 for the set, besides the cells. *Absent*: removal.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::documents::Documents;
use lookalike_hash::{SignatureShape, is_blank};

/// The elements of all sets of some documents.
pub(super) struct Sets {
    shape: SignatureShape,
    /// The first document with each set, and the hash of an element of it.
    by_element: HashTable<(u32, u32)>,
    /// The documents by their sets.
    by_set: HashTable<u32>,
    hasher: FixedState,
}

impl Sets {
    pub(super) fn new(shape: SignatureShape) -> Sets {
        let (by_element, by_set) = (HashTable::new(), HashTable::new());
        Sets { shape, by_element, by_set, hasher: FixedState::default() }
    }

    /// Adds the set of the last document. Those of all others were added before.
    pub(super) fn insert(&mut self, documents: &Documents<'_>) {
        let number = documents.len() - 1;
        let set = documents.signature(number);
        if self.equal(documents, set).next().is_none() {
            let shared: Vec<&[u8]> = self.elements(set).map(|(_, element)| element).collect();
            for (at, element) in shared.iter().enumerate() {
                let is_listed = self.holders(documents, element).count() > SignatureShape::MAX_SHARED;
                if !is_listed && !shared[..at].contains(element) {
                    let entry = (number, self.hash(element) as u32);
                    self.by_element.insert_unique(spread(entry.1), entry, |entry| spread(entry.1));
                }
            }
        }
        let hasher = &self.hasher;
        let hash = |number: &u32| hasher.hash_one(documents.signature(*number));
        self.by_set.insert_unique(hash(&number), number, hash);
    }

    /// The documents within `radius` that share an element or are equal, with their distances, are appended
    /// to `found`.
    pub(super) fn within(
        &self,
        documents: &Documents<'_>,
        set: &[u8],
        radius: u32,
        found: &mut Vec<(u32, u32)>,
    ) {
        let mut compared = set.to_vec();
        let mut numbers: Vec<u32> = Vec::new();
        for (place, element) in self.elements(set) {
            let holders: Vec<u32> =
                self.holders(documents, element).take(SignatureShape::MAX_SHARED + 1).collect();
            if holders.len() > SignatureShape::MAX_SHARED {
                compared[place..place + element.len()].fill(0);
            } else {
                numbers.extend(holders);
            }
        }
        numbers.extend(self.equal(documents, set).next());
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let other = documents.signature(number);
            let shared = || u32::from(self.shape.cells) - self.shape.shared(&compared, other);
            let distance = if other == set { self.shape.distance(set, other) } else { shared() };
            if distance <= radius {
                found.extend(self.equal(documents, other).map(|equal| (distance, equal)));
            }
        }
    }

    /// The elements of a set, with their places in its bytes.
    fn elements<'a>(&self, set: &'a [u8]) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let size = usize::from(self.shape.cell_bytes);
        let places = (0..set.len()).step_by(size);
        places.zip(set.chunks_exact(size)).filter(|(_, cell)| !is_blank(cell))
    }

    /// The first documents with sets that have this element.
    fn holders<'a>(
        &'a self,
        documents: &'a Documents<'_>,
        element: &'a [u8],
    ) -> impl Iterator<Item = u32> + 'a {
        let hash = self.hash(element) as u32;
        let entries = self.by_element.iter_hash(spread(hash)).filter(move |entry| entry.1 == hash);
        let has =
            move |number: &u32| self.elements(documents.signature(*number)).any(|(_, own)| own == element);
        entries.map(|entry| entry.0).filter(has)
    }

    /// The documents with this set.
    fn equal<'a>(
        &'a self,
        documents: &'a Documents<'_>,
        set: &'a [u8],
    ) -> impl Iterator<Item = u32> + use<'a> {
        let found = self.by_set.iter_hash(self.hash(set));
        found.copied().filter(move |number| documents.signature(*number) == set)
    }

    fn hash(&self, bytes: &[u8]) -> u64 {
        self.hasher.hash_one(bytes)
    }

    /// The bytes that the tables occupy.
    pub(super) fn bytes(&self) -> usize {
        self.by_element.allocation_size() + self.by_set.allocation_size()
    }
}

/// A hash of 64 bits whose first bits differ as those of this one do.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
