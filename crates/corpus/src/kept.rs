//! The kept documents, and the decision about the next one.
//!
//! Many documents are decided together: the lookups among the documents that are kept already run on all
//! threads, and those among the documents of the batch follow in order.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::decisions::Decision;
use super::documents::{Documents, Print};
use super::hashes::Hashes;
use super::minima::Minima;
use super::sets::Sets;
use lookalike_hash::Hash;

/// The most documents that are decided together.
pub(super) const BATCH: usize = if cfg!(test) { 7 } else { 512 };
/// The fewest documents that a thread looks up at a time.
const SHARE: usize = if cfg!(test) { 2 } else { 16 };
/// Lookups of a batch that are estimated to take less time than this run on the caller's thread, in ns: ten
/// times and more the time in which threads start.
const FEW: u64 = if cfg!(test) { 1 } else { 1_000_000 };
/// The estimated time of a lookup of a band, in ns.
const BAND_COST: u64 = 20;

/// The documents that are kept so far, under their names.
pub struct Kept<'a> {
    documents: Documents<'a>,
    index: Index,
    /// The number of documents at which the bytes are measured again, and whether they are too many.
    measured_at: u32,
    is_full: bool,
}

/// What finds kept documents.
enum Index {
    Hashes(Hashes),
    Minima(Minima),
    Sets(Sets),
}

/// A document that is decided: its name, and what it is compared by.
pub type Named<'p> = (u32, &'p Print);

/// The distance and the name of the nearest kept document, if one is near.
pub(super) type Nearest = Option<(u32, u32)>;

impl<'a> Kept<'a> {
    /// No kept documents yet, which are near as these are.
    pub fn like(documents: &Documents<'a>) -> Self {
        Kept::for_some(documents, 0)
    }

    /// As [`Kept::like`], with room for so many signatures.
    fn for_some(documents: &Documents<'a>, expected: usize) -> Self {
        let (width, shape) = documents.shape();
        let index = match shape {
            None => Index::Hashes(Hashes::new(width)),
            Some(shape) if shape.is_set => Index::Sets(Sets::new(shape)),
            Some(shape) => Index::Minima(Minima::new(shape, expected)),
        };
        Kept { documents: documents.like(), index, measured_at: 1, is_full: false }
    }

    /// Visits a document: keeps it unless a kept document is near.
    pub fn visit(&mut self, document: Named<'_>) -> Decision {
        let nearest = self.nearest(document, &self.radii());
        if nearest.is_none() {
            self.add(document);
        }
        decision(nearest)
    }

    /// Visits documents in this order, as [`Kept::visit`] does with one after the other, on `threads` threads
    /// (at least one).
    pub fn visit_all(&mut self, documents: &[Named<'_>], threads: usize) -> Vec<Decision> {
        let mut decisions = Vec::with_capacity(documents.len());
        for documents in documents.chunks(BATCH) {
            let nearest = self.visit_batch(documents, threads, |_, nearest| nearest.is_none());
            decisions.extend(nearest.into_iter().map(decision));
        }
        decisions
    }

    /// For each of these documents, the nearest kept one. Each is then kept if `is_kept` says so, which is
    /// called in order with the place and the nearest.
    pub(super) fn visit_batch(
        &mut self,
        documents: &[Named<'_>],
        threads: usize,
        mut is_kept: impl FnMut(usize, Nearest) -> bool,
    ) -> Vec<Nearest> {
        // Whether an element of a set counts depends on what is kept, so that the documents of a batch cannot
        // be compared apart from the others. On one thread nothing is gained by that.
        let is_apart = match &self.index {
            Index::Hashes(_) => true,
            Index::Minima(_) => threads > 1,
            Index::Sets(_) => false,
        };
        if !is_apart {
            let visit = |(place, document): (usize, &Named<'_>)| {
                let nearest = self.nearest(*document, &self.radii());
                match nearest {
                    nearest if !is_kept(place, nearest) => {}
                    None => self.add(*document),
                    Some(_) => self.keep(*document),
                }
                nearest
            };
            return documents.iter().enumerate().map(visit).collect();
        }
        let mut nearest = self.nearest_of_all(documents, threads);
        let mut of_batch = Kept::for_some(&self.documents, documents.len());
        let radii = [self.documents.k()];
        for (place, document) in documents.iter().enumerate() {
            let within = of_batch.nearest(*document, &radii);
            nearest[place] = [nearest[place], within].into_iter().flatten().min();
            match nearest[place] {
                nearest if !is_kept(place, nearest) => {}
                None => {
                    of_batch.add(*document);
                    self.add(*document);
                }
                Some(_) => {
                    of_batch.keep(*document);
                    self.keep(*document);
                }
            }
        }
        nearest
    }

    /// The nearest kept document of each of these.
    fn nearest_of_all(&self, documents: &[Named<'_>], threads: usize) -> Vec<Nearest> {
        let radii = self.radii();
        self.in_shares(documents, threads, |share| match &self.index {
            Index::Hashes(index) => self.nearest_hashes(index, share, &radii),
            _ => share.iter().map(|document| self.nearest(*document, &radii)).collect(),
        })
    }

    /// As [`Kept::nearest`] for each document: those without a near one are searched within the next radius
    /// together.
    fn nearest_hashes(&self, index: &Hashes, share: &[Named<'_>], radii: &[u32]) -> Vec<Nearest> {
        let mut nearest: Vec<Nearest> =
            share.iter().map(|document| self.nearest(*document, &radii[..1])).collect();
        for radius in &radii[1..] {
            let left: Vec<usize> = (0..share.len()).filter(|at| nearest[*at].is_none()).collect();
            let hashes: Vec<Hash> = left.iter().map(|at| share[*at].1.hash).collect();
            index.within_many(&self.documents, &hashes, *radius, |number, found| {
                nearest[left[number]] = self.first_near(share[left[number]], found);
            });
        }
        nearest
    }

    /// The numbers of all kept documents that are near each of these, itself among them if it is kept.
    pub(super) fn near_all(&self, documents: &[Named<'_>], threads: usize) -> Vec<Vec<u32>> {
        let near = |document: &Named<'_>| {
            let mut found = Vec::new();
            self.within(document.1, self.documents.k(), &mut found);
            found.retain(|(distance, number)| self.documents.passes(*document, *distance, *number));
            found.into_iter().map(|(_, number)| number).collect()
        };
        self.in_shares(documents, threads, |share| share.iter().map(near).collect())
    }

    /// What `each` returns for the documents, in their order, on as many threads as the lookups are worth.
    fn in_shares<T: Send>(
        &self,
        documents: &[Named<'_>],
        threads: usize,
        each: impl Fn(&[Named<'_>]) -> Vec<T> + Sync,
    ) -> Vec<T> {
        let cost = match &self.index {
            Index::Hashes(index) => index.cost(self.documents.k()),
            Index::Minima(_) | Index::Sets(_) => {
                self.documents.shape().1.map_or(0, |shape| u64::from(shape.bands) * BAND_COST)
            }
        };
        if threads == 1 || documents.len() as u64 * cost < FEW {
            return each(documents);
        }
        // Many hashes are looked up faster together; signatures take turns.
        let share = match &self.index {
            Index::Hashes(_) => SHARE.max(documents.len().div_ceil(threads)),
            Index::Minima(_) | Index::Sets(_) => SHARE,
        };
        let (next, shares) = (AtomicUsize::new(0), documents.chunks(share).collect::<Vec<_>>());
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

    /// Keeps a document whatever is near it, such as one of another corpus. Such documents are kept in the
    /// order of their names.
    pub fn keep(&mut self, document: Named<'_>) {
        // All distances of an equal one are the same, and its name is smaller.
        if self.representative(document.1).is_none() {
            self.add(document);
        }
    }

    /// Adds a document, which without a second check differs from all others.
    pub(super) fn add(&mut self, (name, print): Named<'_>) {
        self.documents.push_named(name, print);
        match &mut self.index {
            Index::Hashes(index) => index.insert(&self.documents),
            Index::Minima(index) => index.insert(&self.documents),
            Index::Sets(index) => index.insert(&self.documents),
        }
    }

    /// The number of the kept document that stands for all with this print. With a second check none does.
    pub(super) fn representative(&self, print: &Print) -> Option<u32> {
        let mut found = Vec::new();
        if !self.documents.is_checked() {
            self.within(print, 0, &mut found);
        }
        found.first().map(|(_, number)| *number)
    }

    /// The distance and the name of the nearest kept document that is near, which is searched within one
    /// radius after the other.
    fn nearest(&self, document: Named<'_>, radii: &[u32]) -> Nearest {
        let mut found = Vec::new();
        radii.iter().find_map(|radius| {
            found.clear();
            self.within(document.1, *radius, &mut found);
            self.first_near(document, &mut found)
        })
    }

    /// The first of these documents, in the order of their distances and names, that passes the check.
    fn first_near(&self, document: Named<'_>, found: &mut [(u32, u32)]) -> Nearest {
        found.sort_unstable_by_key(|(distance, number)| (*distance, self.documents.name(*number)));
        let passes = |(distance, number): &&(u32, u32)| self.documents.passes(document, *distance, *number);
        let nearest = found.iter().find(passes);
        nearest.map(|(distance, number)| (*distance, self.documents.name(*number)))
    }

    /// Appends the distances and the numbers of the kept documents within a radius, which may not pass the
    /// check.
    fn within(&self, print: &Print, radius: u32, found: &mut Vec<(u32, u32)>) {
        match &self.index {
            Index::Hashes(index) => index.within(&self.documents, print.hash, radius, found),
            Index::Minima(index) => index.within(&self.documents, &print.signature, radius, found),
            Index::Sets(index) => index.within(&self.documents, &print.signature, radius, found),
        }
    }

    /// The radii that are searched one after the other.
    fn radii(&self) -> Vec<u32> {
        match &self.index {
            Index::Hashes(index) => index.radii(self.documents.k()),
            Index::Minima(_) | Index::Sets(_) => vec![self.documents.k()],
        }
    }

    /// The name of a kept document.
    pub(super) fn name(&self, number: u32) -> u32 {
        self.documents.name(number)
    }

    /// Whether it occupies more than these bytes. Measuring may read the whole index, so it is done after
    /// each growth by a part. Sets are never full: what is kept depends on all that was kept before.
    pub fn is_full(&mut self, bytes: usize) -> bool {
        let len = self.documents.len();
        if len >= self.measured_at && !matches!(self.index, Index::Sets(_)) {
            self.is_full = self.bytes() > bytes;
            self.measured_at = len + len.div_ceil(32);
        }
        self.is_full
    }

    /// The bytes that it occupies.
    pub fn bytes(&self) -> usize {
        let index = match &self.index {
            Index::Hashes(index) => index.bytes(),
            Index::Minima(index) => index.bytes(),
            Index::Sets(index) => index.bytes(),
        };
        self.documents.bytes() + index
    }
}

fn decision(nearest: Nearest) -> Decision {
    nearest.map_or(Decision::Kept, |(distance, by)| Decision::Dropped { by, distance })
}
