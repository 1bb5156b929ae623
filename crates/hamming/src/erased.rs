//! One type of index for all widths and for signatures, for callers that know the width only at run time.
//!
//! Costs: a virtual call and a conversion per query, some nanoseconds. The tables are those of [`Index`].

use std::sync::Arc;

use super::bands::Bands;
use super::block::Filed;
use super::scan::Neighbour;
use super::sharded::{Index, Report};
use lookalike_hash::{Hash, SignatureShape, U256, Width};

/// The subject of a query: a hash, which may be the name of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The hash.
    pub hash: Hash,
    /// The signature of this name; `None` means the announced or stored one, if there is one.
    pub signature: Option<&'a [u8]>,
}

impl From<Hash> for Subject<'_> {
    fn from(hash: Hash) -> Self {
        Subject { hash, signature: None }
    }
}

/// An [`Index`] whose width is a value, or [`Bands`], whose hashes are the names of signatures.
///
/// # Panics
/// Methods that take a hash panic if its width differs from that of the index. A caller that serves several
/// widths compares [`HashIndex::width`] when it receives a hash. The same applies to signatures and their
/// shape.
pub trait HashIndex: Send + Sync {
    /// The width of its hashes.
    fn width(&self) -> Width;
    /// Gives the signature of a name, which may then be inserted. Removing the name cancels this.
    fn announce(&self, _name: Hash, _signature: &[u8]) {}
    /// See [`Index::insert`].
    fn insert(&self, hash: Hash) -> bool;
    /// See [`Index::insert_all`].
    fn insert_all(&self, hashes: &mut dyn Iterator<Item = Hash>) -> usize;
    /// See [`Index::remove`].
    fn remove(&self, hash: Hash) -> bool;
    /// See [`Index::contains`].
    fn contains(&self, hash: Hash) -> bool;
    /// See [`Index::len`].
    fn len(&self) -> usize;
    /// See [`Index::is_empty`].
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The maximum distance.
    fn most(&self) -> u32 {
        self.width().bits()
    }
    /// See [`Index::within`].
    fn within(&self, subject: Subject<'_>, k: u32, found: &mut Vec<Neighbour<Hash>>) -> Report;
    /// See [`Index::within_many`]. Signatures are looked up one by one.
    fn within_many(
        &self,
        subjects: &[Subject<'_>],
        k: u32,
        each: &mut dyn FnMut(usize, &mut Vec<Neighbour<Hash>>),
    ) {
        let mut found = Vec::new();
        for (number, subject) in subjects.iter().enumerate() {
            found.clear();
            self.within(*subject, k, &mut found);
            found.sort_unstable();
            each(number, &mut found);
        }
    }
    /// See [`Index::prefetch`]. Does nothing for signatures, because each query prefetches all its probes.
    fn prefetch(&self, _queries: &[Hash], _k: u32) {}
    /// See [`Index::scan`].
    fn scan(&self, subject: Subject<'_>, k: u32, found: &mut Vec<Neighbour<Hash>>) -> Report;
    /// The distance to another hash, whose signature is stored or announced; `None` if it is not known.
    fn distance(&self, subject: Subject<'_>, other: Hash) -> Option<u32> {
        subject.hash.distance(other)
    }
    /// See [`Index::distances`].
    fn distances(&self, subject: Subject<'_>, counts: &mut [u64]);
    /// See [`Index::scans`].
    fn scans(&self, k: u32) -> bool;
    /// The first radius of a search up to `k`, if the hashes within `step` may be sufficient.
    fn first_radius(&self, step: u32, k: u32) -> u32 {
        step.min(k)
    }
    /// See [`Index::cost`].
    fn cost(&self, k: u32) -> u64;
    /// See [`Index::cost_of_scan`].
    fn cost_of_scan(&self, k: u32) -> u64;
    /// See [`Index::bytes`].
    fn bytes(&self) -> usize;
    /// See [`Index::bucket_sizes`]. Never calls `each` for signatures: a probe compares the whole hash of a
    /// band, so it reads no bucket whose size the index chooses.
    fn bucket_sizes(&self, _each: &mut dyn FnMut(usize)) {}
    /// See [`Index::for_each_sorted_run`].
    fn for_each_sorted_run(&self, each: &mut dyn FnMut(&mut dyn Iterator<Item = Hash>));
}

/// An empty index of this width.
pub fn of_width(width: Width) -> Arc<dyn HashIndex> {
    match width {
        Width::Bits64 => Arc::new(Index::<u64>::new()),
        Width::Bits128 => Arc::new(Index::<u128>::new()),
        Width::Bits256 => Arc::new(Index::<U256>::new()),
    }
}

/// An empty index of hashes of this width, or of signatures of this shape.
pub fn index_for(width: Width, signatures: Option<SignatureShape>) -> Arc<dyn HashIndex> {
    match signatures {
        Some(shape) => Arc::new(Bands::new(shape)),
        None => of_width(width),
    }
}

fn word<W: Filed>(hash: Hash) -> W {
    W::from_hash(hash).expect("the caller compares widths when it receives a hash")
}

impl<W: Filed> Neighbour<W> {
    fn erased(self) -> Neighbour<Hash> {
        Neighbour { distance: self.distance, hash: self.hash.to_hash() }
    }
}

/// Appends the neighbours that `query` finds to `found`, as hashes.
fn answer<W: Filed>(
    query: impl FnOnce(&mut Vec<Neighbour<W>>) -> Report,
    found: &mut Vec<Neighbour<Hash>>,
) -> Report {
    let mut words = Vec::new();
    let report = query(&mut words);
    found.extend(words.iter().copied().map(Neighbour::erased));
    report
}

impl<W: Filed> HashIndex for Index<W> {
    fn width(&self) -> Width {
        W::WIDTH
    }

    fn insert(&self, hash: Hash) -> bool {
        Index::insert(self, word(hash))
    }

    fn insert_all(&self, hashes: &mut dyn Iterator<Item = Hash>) -> usize {
        Index::insert_all(self, hashes.map(word))
    }

    fn remove(&self, hash: Hash) -> bool {
        Index::remove(self, word(hash))
    }

    fn contains(&self, hash: Hash) -> bool {
        Index::contains(self, word(hash))
    }

    fn len(&self) -> usize {
        Index::len(self)
    }

    fn within(&self, subject: Subject<'_>, k: u32, found: &mut Vec<Neighbour<Hash>>) -> Report {
        answer(|words| Index::within(self, word(subject.hash), k, words), found)
    }

    fn within_many(
        &self,
        subjects: &[Subject<'_>],
        k: u32,
        each: &mut dyn FnMut(usize, &mut Vec<Neighbour<Hash>>),
    ) {
        let queries: Vec<W> = subjects.iter().map(|subject| word(subject.hash)).collect();
        let mut hashes = Vec::new();
        Index::within_many(self, &queries, k, |number, words| {
            hashes.clear();
            hashes.extend(words.iter().copied().map(Neighbour::erased));
            each(number, &mut hashes);
        });
    }

    fn prefetch(&self, queries: &[Hash], k: u32) {
        Index::prefetch(self, queries.iter().filter_map(|query| W::from_hash(*query)), k);
    }

    fn scan(&self, subject: Subject<'_>, k: u32, found: &mut Vec<Neighbour<Hash>>) -> Report {
        answer(|words| Index::scan(self, word(subject.hash), k, words), found)
    }

    fn distances(&self, subject: Subject<'_>, counts: &mut [u64]) {
        Index::distances(self, word(subject.hash), counts);
    }

    fn scans(&self, k: u32) -> bool {
        Index::scans(self, k)
    }

    fn cost(&self, k: u32) -> u64 {
        Index::cost(self, k)
    }

    fn cost_of_scan(&self, _: u32) -> u64 {
        Index::cost_of_scan(self)
    }

    fn bytes(&self) -> usize {
        Index::bytes(self)
    }

    fn bucket_sizes(&self, each: &mut dyn FnMut(usize)) {
        Index::bucket_sizes(self, each);
    }

    fn for_each_sorted_run(&self, each: &mut dyn FnMut(&mut dyn Iterator<Item = Hash>)) {
        Index::for_each_sorted_run(self, |run| each(&mut run.iter().map(|word| word.to_hash())));
    }
}
