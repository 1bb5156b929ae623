//! The kept documents, and the decision about the next one.
//!
//! Costs per kept document: its entry in the index, and some five to ten bytes for its number. The hash is
//! not stored a second time: the table of numbers reads it from the documents.
//!
//! Many documents are decided together: the lookups among the documents that are kept already run on all
//! threads, and those among the documents of the batch follow in order.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::documents::Documents;
use lookalike_hamming::{GROUP, HashIndex, Neighbour, index_for};
use lookalike_hash::Hash;

/// The most documents that are decided together.
pub(super) const BATCH: usize = if cfg!(test) { 7 } else { 512 };
/// The documents that a thread looks up at a time.
const SHARE: usize = if cfg!(test) { 2 } else { 2 * GROUP };
/// Lookups of a batch that are estimated to take less time than this run on the caller's thread, in ns: ten
/// times and more the time in which threads start.
const FEW: u64 = if cfg!(test) { 1 } else { 1_000_000 };
/// The search before one within k is this many times cheaper.
const CHEAPER: u64 = if cfg!(test) { 1 } else { 8 };

/// The decision about a document.
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
}

/// The distance and the name of the nearest kept document, if one is near.
pub(super) type Nearest = Option<(u32, u32)>;

impl Kept {
    /// No kept documents yet, of these.
    pub fn none_of(documents: &Documents) -> Kept {
        let (width, shape) = documents.shape();
        let index = index_for(width, shape);
        Kept { index, numbers: HashTable::new(), hasher: FixedState::default() }
    }

    /// Visits a document: keeps it unless a kept document is near.
    pub fn visit(&mut self, documents: &Documents, number: u32) -> Decision {
        let nearest = self.nearest(documents, number, self.first_radius(documents.k()), &mut Vec::new());
        self.decide(documents, number, nearest)
    }

    /// Keeps a document unless it has a nearest one.
    fn decide(&mut self, documents: &Documents, number: u32, nearest: Nearest) -> Decision {
        if let Some((distance, by)) = nearest {
            return Decision::Dropped { by, distance };
        }
        self.keep(documents, number);
        Decision::Kept
    }

    /// Visits documents in this order, as [`Kept::visit`] does with one after the other, on `threads` threads
    /// (at least one).
    pub fn visit_all(&mut self, documents: &Documents, numbers: &[u32], threads: usize) -> Vec<Decision> {
        // Whether an element of a set counts depends on how many of all kept documents have it, so that the
        // documents of a batch cannot be compared apart from the others.
        if documents.shape().1.is_some_and(|shape| shape.is_set) {
            return numbers.iter().map(|number| self.visit(documents, *number)).collect();
        }
        let mut decisions = Vec::with_capacity(numbers.len());
        for numbers in numbers.chunks(BATCH) {
            let decided = self.visit_batch(documents, numbers, threads, |_, nearest| nearest.is_none());
            for (number, nearest) in numbers.iter().zip(decided) {
                decisions.push(self.decide(documents, *number, nearest));
            }
        }
        decisions
    }

    /// For each of these documents, the nearest among the kept ones and among those before it for which
    /// `is_kept` says so, which is called in order with the place. The caller keeps them afterwards.
    pub(super) fn visit_batch(
        &self,
        documents: &Documents,
        numbers: &[u32],
        threads: usize,
        mut is_kept: impl FnMut(usize, Nearest) -> bool,
    ) -> Vec<Nearest> {
        let mut nearest = self.nearest_of_all(documents, numbers, threads);
        let mut of_batch = Kept::none_of(documents);
        let mut found = Vec::new();
        for (place, number) in numbers.iter().enumerate() {
            let of_batch_nearest = of_batch.nearest(documents, *number, documents.k(), &mut found);
            nearest[place] = [nearest[place], of_batch_nearest].into_iter().flatten().min();
            if is_kept(place, nearest[place]) {
                of_batch.keep(documents, *number);
            }
        }
        nearest
    }

    /// The nearest kept document of each of these.
    fn nearest_of_all(&self, documents: &Documents, numbers: &[u32], threads: usize) -> Vec<Nearest> {
        self.in_shares(documents, numbers, threads, |share| self.nearest_of_share(documents, share))
    }

    /// The numbers of all kept documents that are near each of these, itself among them if it is kept.
    pub(super) fn near_all(&self, documents: &Documents, numbers: &[u32], threads: usize) -> Vec<Vec<u32>> {
        let near = |number: &u32| self.near(documents, *number);
        self.in_shares(documents, numbers, threads, |share| share.iter().map(near).collect())
    }

    /// What `each` returns for the documents, in their order, on as many threads as the lookups are worth.
    fn in_shares<T: Send>(
        &self,
        documents: &Documents,
        numbers: &[u32],
        threads: usize,
        each: impl Fn(&[u32]) -> Vec<T> + Sync,
    ) -> Vec<T> {
        if threads == 1 || numbers.len() as u64 * self.index.cost(documents.k()) < FEW {
            return each(numbers);
        }
        let (next, shares) = (AtomicUsize::new(0), numbers.chunks(SHARE).collect::<Vec<_>>());
        let work = || {
            let mut done = Vec::new();
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(share) = shares.get(place) else { return done };
                done.push((place, each(share)));
            }
        };
        let mut done = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.min(shares.len())).map(|_| scope.spawn(work)).collect();
            let mut done = work();
            others.into_iter().for_each(|other| done.extend(other.join().expect("lookups do not panic")));
            done
        });
        done.sort_unstable_by_key(|(place, _)| *place);
        done.into_iter().flat_map(|(_, of_share)| of_share).collect()
    }

    fn nearest_of_share(&self, documents: &Documents, numbers: &[u32]) -> Vec<Nearest> {
        let (mut found, mut nearest) = (Vec::new(), Vec::with_capacity(numbers.len()));
        let first = self.first_radius(documents.k());
        for group in numbers.chunks(GROUP) {
            let hashes: Vec<Hash> = group.iter().map(|number| documents.hash(*number)).collect();
            self.index.prefetch(&hashes, first);
            nearest.extend(group.iter().map(|number| self.nearest(documents, *number, first, &mut found)));
        }
        nearest
    }

    /// The radius to search first: the largest one that costs next to nothing beside a search within k. Most
    /// copies differ little, so for them the search ends there.
    fn first_radius(&self, k: u32) -> u32 {
        let costs_little = |radius: &u32| self.index.cost(*radius) * CHEAPER <= self.index.cost(k);
        (0..k).rev().find(costs_little).unwrap_or(k)
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
        let hash_of = |number: &u32| self.hasher.hash_one(documents.hash(*number));
        self.numbers.insert_unique(hash_of(&number), number, hash_of);
    }

    /// The distance and the name of the nearest kept document that is near: one with the same hash, or else
    /// one within `first`, or else one within k. `found` is memory to work in.
    fn nearest(
        &self,
        documents: &Documents,
        number: u32,
        first: u32,
        found: &mut Vec<Neighbour<Hash>>,
    ) -> Nearest {
        let (subject, k) = (documents.subject(number), documents.k());
        let same = self.nearest_with(documents, number, Neighbour { distance: 0, hash: subject.hash });
        let within = |radius, found: &mut Vec<Neighbour<Hash>>| {
            found.clear();
            self.index.within(subject, radius, found);
            found.sort_unstable_by_key(|near| near.distance);
            let mut at_a_distance = found.chunk_by(|a, b| a.distance == b.distance);
            let nearest_of = |near: &[Neighbour<Hash>]| {
                near.iter().filter_map(|near| self.nearest_with(documents, number, *near)).min()
            };
            at_a_distance.find_map(nearest_of)
        };
        same.or_else(|| within(first, found)).or_else(|| (first < k).then(|| within(k, found)).flatten())
    }

    /// The distance and the name of the first kept document with this hash that passes the second check.
    fn nearest_with(&self, documents: &Documents, number: u32, near: Neighbour<Hash>) -> Nearest {
        let others = self.with_hash(documents, near.hash).filter(|other| documents.passes(number, *other));
        others.map(|other| documents.name(other)).min().map(|name| (near.distance, name))
    }

    fn near(&self, documents: &Documents, number: u32) -> Vec<u32> {
        let mut found = Vec::new();
        self.index.within(documents.subject(number), documents.k(), &mut found);
        let numbers = found.iter().flat_map(|near| self.with_hash(documents, near.hash));
        numbers.filter(|other| documents.passes(number, *other)).collect()
    }

    /// The kept document that stands for this one: without a second check, the first with its hash.
    pub(super) fn representative(&self, documents: &Documents, number: u32) -> u32 {
        if documents.is_checked() {
            return number;
        }
        self.with_hash(documents, documents.hash(number)).min().unwrap_or(number)
    }

    fn with_hash<'a>(&'a self, documents: &'a Documents, hash: Hash) -> impl Iterator<Item = u32> + 'a {
        let digest = self.hasher.hash_one(hash);
        self.numbers.iter_hash(digest).copied().filter(move |number| documents.hash(*number) == hash)
    }

    /// The bytes that it occupies, without the documents.
    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.numbers.allocation_size()
    }
}
