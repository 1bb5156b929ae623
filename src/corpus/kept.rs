//! The kept documents, and the decision about the next one.
//!
//! Costs per kept document: its entry in the index, and some five to ten bytes for its number. The hash is
//! not stored a second time: the table of numbers reads it from the documents.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::documents::Documents;
use crate::ids::Hash;
use crate::index::{HashIndex, Neighbour, index_for};

/// What happens to a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is kept.
    Kept,
    /// A kept document is near.
    Dropped {
        /// The nearest kept document; of several, that with the smallest number or name.
        by: u32,
        /// The distance to it.
        distance: u32,
    },
}

/// The documents that are kept so far.
pub struct Kept {
    index: Arc<dyn HashIndex>,
    /// The numbers of the documents, by their hashes. With a second check, several have one hash.
    numbers: HashTable<u32>,
    hasher: FixedState,
    found: Vec<Neighbour<Hash>>,
}

impl Kept {
    /// None of these documents.
    pub fn none_of(documents: &Documents) -> Kept {
        let (width, shape) = documents.shape();
        let index = index_for(width, shape);
        Kept { index, numbers: HashTable::new(), hasher: FixedState::default(), found: Vec::new() }
    }

    /// Visits a document: keeps it unless a kept document is near.
    pub fn visit(&mut self, documents: &Documents, number: u32) -> Decision {
        if let Some((distance, by)) = self.nearest(documents, number) {
            return Decision::Dropped { by, distance };
        }
        self.keep(documents, number);
        Decision::Kept
    }

    /// Keeps a document whatever is near it, such as one of another corpus. Such documents are kept in the
    /// order of their numbers.
    pub fn keep(&mut self, documents: &Documents, number: u32) {
        let subject = documents.subject(number);
        if !documents.is_checked() && self.index.contains(subject.hash) {
            // The number that is there is smaller, and every distance is the same.
            return;
        }
        if let Some(signature) = subject.signature {
            self.index.announce(subject.hash, signature);
        }
        self.index.insert(subject.hash);
        let hash_of = |number: &u32| self.hasher.hash_one(documents.hash(*number).value());
        self.numbers.insert_unique(hash_of(&number), number, hash_of);
    }

    /// The distance and the name of the nearest kept document that is near.
    pub(super) fn nearest(&mut self, documents: &Documents, number: u32) -> Option<(u32, u32)> {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.index.within(documents.subject(number), documents.k(), &mut found);
        found.sort_unstable_by_key(|near| near.distance);
        let mut nearest: Option<(u32, u32)> = None;
        for near in &found {
            if nearest.is_some_and(|(distance, _)| distance < near.distance) {
                break;
            }
            for other in self.with_hash(documents, near.hash) {
                let candidate = (near.distance, documents.name(other));
                if nearest.is_none_or(|best| candidate < best) && documents.passes(number, other) {
                    nearest = Some(candidate);
                }
            }
        }
        self.found = found;
        nearest
    }

    /// The distances and numbers of all kept documents that are near, itself among them if it is kept.
    pub(super) fn near(&self, documents: &Documents, number: u32, each: impl FnMut((u32, u32))) {
        let mut found = Vec::new();
        self.index.within(documents.subject(number), documents.k(), &mut found);
        let numbers = found
            .iter()
            .flat_map(|near| self.with_hash(documents, near.hash).map(move |other| (near.distance, other)));
        numbers.filter(|(_, other)| documents.passes(number, *other)).for_each(each);
    }

    /// The kept document with the hash of this one that was kept first.
    pub(super) fn first_with_hash_of(&self, documents: &Documents, number: u32) -> u32 {
        self.with_hash(documents, documents.hash(number)).min().unwrap_or(number)
    }

    fn with_hash<'a>(&'a self, documents: &'a Documents, hash: Hash) -> impl Iterator<Item = u32> + 'a {
        let digest = self.hasher.hash_one(hash.value());
        self.numbers.iter_hash(digest).copied().filter(move |number| documents.hash(*number) == hash)
    }

    /// The bytes that it occupies, without the documents.
    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.numbers.allocation_size()
    }
}
