//! Which kept hashes are near another one: the exact index of hashes, and the documents that have each hash.
//!
//! Costs: the index, and some five to ten bytes for the number of a document. The hash is not stored a second
//! time: the table of numbers reads it from the documents.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::documents::Documents;
use lookalike_hamming::{HashIndex, Neighbour, Subject, index_for};
use lookalike_hash::{Hash, Width};

/// The search before one within k is this many times cheaper.
const CHEAPER: u64 = if cfg!(test) { 1 } else { 8 };

/// The hashes of kept documents.
pub(super) struct Hashes {
    index: Arc<dyn HashIndex>,
    /// The documents by their hashes. With a second check, several have one hash.
    numbers: HashTable<u32>,
    hasher: FixedState,
}

impl Hashes {
    pub(super) fn new(width: Width) -> Hashes {
        let (index, numbers) = (index_for(width, None), HashTable::new());
        Hashes { index, numbers, hasher: FixedState::default() }
    }

    /// Adds the hash of the last document. Those of all others were added before.
    pub(super) fn insert(&mut self, documents: &Documents<'_>) {
        let number = documents.len() - 1;
        self.index.insert(documents.hash(number));
        let hash_of = |number: &u32| self.hasher.hash_one(documents.hash(*number));
        self.numbers.insert_unique(hash_of(&number), number, hash_of);
    }

    /// The documents within `radius`, with their distances, are appended to `found`.
    pub(super) fn within(
        &self,
        documents: &Documents<'_>,
        hash: Hash,
        radius: u32,
        found: &mut Vec<(u32, u32)>,
    ) {
        if radius == 0 {
            found.extend(self.with_hash(documents, hash).map(|number| (0, number)));
            return;
        }
        let mut near: Vec<Neighbour<Hash>> = Vec::new();
        self.index.within(hash.into(), radius, &mut near);
        self.add_documents(documents, &near, found);
    }

    /// As [`Hashes::within`] for each of many hashes: calls `each` with their numbers and what is found.
    pub(super) fn within_many(
        &self,
        documents: &Documents<'_>,
        hashes: &[Hash],
        radius: u32,
        mut each: impl FnMut(usize, &mut Vec<(u32, u32)>),
    ) {
        let queries: Vec<Subject<'_>> = hashes.iter().map(|hash| (*hash).into()).collect();
        let mut found = Vec::new();
        self.index.within_many(&queries, radius, &mut |number, near| {
            found.clear();
            self.add_documents(documents, near, &mut found);
            each(number, &mut found);
        });
    }

    /// Appends the distances and the numbers of the documents that have these hashes.
    fn add_documents(
        &self,
        documents: &Documents<'_>,
        near: &[Neighbour<Hash>],
        found: &mut Vec<(u32, u32)>,
    ) {
        for near in near {
            found.extend(self.with_hash(documents, near.hash).map(|number| (near.distance, number)));
        }
    }

    fn with_hash<'a>(&'a self, documents: &'a Documents<'_>, hash: Hash) -> impl Iterator<Item = u32> + 'a {
        let found = self.numbers.iter_hash(self.hasher.hash_one(hash));
        found.copied().filter(move |number| documents.hash(*number) == hash)
    }

    /// The radii to search one after the other, until something is found. Most copies differ little, and a
    /// search within the second radius costs next to nothing beside one within k.
    pub(super) fn radii(&self, k: u32) -> Vec<u32> {
        let costs_little = |radius: &u32| self.index.cost(*radius) * CHEAPER <= self.index.cost(k);
        let mut radii = vec![0, (0..k).rev().find(costs_little).unwrap_or(k), k];
        radii.dedup();
        radii
    }

    /// The estimated time of a lookup, in ns.
    pub(super) fn cost(&self, k: u32) -> u64 {
        self.index.cost(k)
    }

    /// The bytes that the index and the table occupy.
    pub(super) fn bytes(&self) -> usize {
        self.index.bytes() + self.numbers.allocation_size()
    }
}
