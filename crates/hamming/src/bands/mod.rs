//! The index of signatures: which stored signatures agree with a query in a band, and in how many cells they
//! differ from it.
//!
//! A signature is cut into bands of several cells (Leskovec, Rajaraman and Ullman, "Mining of Massive
//! Datasets", 3.4). A table of each band (`storage`) has the numbers of the signatures.
//! Candidates are verified by the number of cells that differ. The cells of a *set* are its elements. An
//! element of a set can be in any cell, so the elements of sets share one table. An element that many stored
//! signatures have is not compared (`counted`); equal signatures are found all the same.
//!
//! The hash of a band has 32 bits, so different bands sometimes have the same hash. This adds a candidate
//! and never a match beyond `k`, because the cells of every candidate are compared.
//!
//! # Readers and the writer
//! A signature is stored before its bands are inserted into the tables, and its bands are removed from the
//! tables before its number is reused. A reader may find a number before it is reused and read its
//! signature afterwards. It then compares the new signature, and reports that one if it is within k.
//!
//! *Absent*: how signatures are made (`lookalike-text`), documents, disks.

mod buckets;
mod entry;
mod segment;
mod shard;
mod storage;
mod table;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};

use super::erased::{HashIndex, Subject};
use super::memory::{CACHE_LINE, pin, prefetch_from};
use super::probe::Touched;
use super::scan::Neighbour;
use super::sharded::Report;
use lookalike_hash::{Hash, SignatureShape, Width, is_blank};
use storage::{BUCKETS_FROM, BandTable, Probe, candidates};

/// The number of signatures in a chunk of memory. A stored signature does not move when others are inserted.
const CHUNK: usize = 1 << 10;
/// The estimated cost of the probe of one band, and of the comparison with one signature, in nanoseconds.
const BAND_COST: u64 = 60;
const COMPARISON_COST: u64 = 20;

/// An index of signatures of one shape, each of which has a name of 128 bits.
///
/// ```
/// use lookalike_hash::{Hash, SignatureShape};
/// use lookalike_hamming::Bands;
/// let bands = Bands::new(SignatureShape::of_minima(4, 2).unwrap());
/// bands.insert(Hash::from_u128(7), &[1, 2, 3, 4, 5, 6, 7, 8]);
/// let mut found = Vec::new();
/// bands.within(&[1, 2, 3, 4, 0, 0, 0, 0], 4, &mut found);
/// assert_eq!((found[0].hash, found[0].distance), (Hash::from_u128(7), 4));
/// ```
pub struct Bands {
    shape: SignatureShape,
    tables: Box<[BandTable]>,
    stored: RwLock<Stored>,
    /// The number of each signature, by its name.
    numbers: DashMap<Hash, u32, RandomState>,
    /// The signatures of names that may be inserted next.
    announced: Mutex<HashMap<Hash, Box<[u8]>, RandomState>>,
    len: AtomicUsize,
    buckets_from: usize,
    /// Held while a signature is inserted or removed: there is one writer at a time.
    writer: Mutex<()>,
}

/// Signatures and their names, by number.
#[derive(Default)]
struct Stored {
    chunks: Vec<Box<[u8]>>,
    names: Vec<Option<Hash>>,
    /// Numbers of removed signatures, for reuse.
    free: Vec<u32>,
}

impl Stored {
    fn signature(&self, number: u32, bytes: usize) -> &[u8] {
        let (chunk, at) = (number as usize / CHUNK, number as usize % CHUNK);
        &self.chunks[chunk][at * bytes..][..bytes]
    }

    /// Prefetches the name and the signature of a number.
    fn prefetch(&self, number: u32, bytes: usize) {
        prefetch_from(&raw const self.names[number as usize]);
        let signature = self.signature(number, bytes);
        signature.chunks(CACHE_LINE).for_each(|part| prefetch_from(part.as_ptr()));
        signature.last().into_iter().for_each(|last| prefetch_from(last));
    }

    /// The number of different signatures among these that have an element, counted up to one more than
    /// [`SignatureShape::MAX_SHARED`].
    fn holders(&self, numbers: impl Iterator<Item = u32>, cell: &[u8], bytes: usize) -> usize {
        let mut holders = HashSet::new();
        for number in numbers {
            let is_stored = self.names[number as usize].is_some();
            if is_stored && self.signature(number, bytes).chunks_exact(cell.len()).any(|own| own == cell) {
                holders.insert(number);
                if holders.len() > SignatureShape::MAX_SHARED {
                    break;
                }
            }
        }
        holders.len()
    }

    /// Stores a signature. Returns its number.
    fn put(&mut self, name: Hash, signature: &[u8]) -> u32 {
        let bytes = signature.len();
        let number = self.free.pop().unwrap_or_else(|| {
            self.names.push(None);
            u32::try_from(self.names.len() - 1).expect("fewer than 2^32 signatures")
        });
        let (chunk, at) = (number as usize / CHUNK, number as usize % CHUNK);
        if chunk == self.chunks.len() {
            self.chunks.push(vec![0; CHUNK * bytes].into());
        }
        self.chunks[chunk][at * bytes..][..bytes].copy_from_slice(signature);
        self.names[number as usize] = Some(name);
        number
    }
}

impl Bands {
    /// An empty index of signatures of this shape.
    pub fn new(shape: SignatureShape) -> Bands {
        Bands::with_buckets_from(shape, BUCKETS_FROM)
    }

    /// An empty index that stores bands in buckets from `buckets_from` entries per table on. This changes the
    /// cost of queries, not their answers.
    fn with_buckets_from(shape: SignatureShape, buckets_from: usize) -> Bands {
        let tables = if shape.is_set { 1 } else { usize::from(shape.bands) };
        Bands {
            shape,
            tables: (0..tables).map(|_| BandTable::new()).collect(),
            stored: RwLock::default(),
            numbers: DashMap::default(),
            announced: Mutex::default(),
            len: AtomicUsize::new(0),
            buckets_from,
            writer: Mutex::new(()),
        }
    }

    /// The number of signatures. It may be outdated while a writer runs.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether it holds no signature.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a signature under a name. Returns whether the name is new.
    ///
    /// # Panics
    /// If the signature does not have the length of the shape, or if there are already 2³² signatures.
    pub fn insert(&self, name: Hash, signature: &[u8]) -> bool {
        self.check(signature);
        let _writer = self.writer.lock();
        if self.numbers.contains_key(&name) {
            return false;
        }
        let number = self.stored.write().put(name, signature);
        self.numbers.insert(name, number);
        let pin = pin();
        let entries = self.entries(signature, number);
        entries.iter().for_each(|(table, entry)| self.tables[*table].prefetch(*entry, &pin));
        let before = self.len.fetch_add(1, Ordering::Relaxed);
        let filed = if self.shape.is_set { before * usize::from(self.shape.cells) } else { before };
        entries.iter().for_each(|(table, entry)| self.tables[*table].insert(*entry, filed, &pin));
        if filed >= self.buckets_from {
            // An insertion moves at most one table, so that no insertion waits for all of them.
            let _ = self.tables.iter().any(|table| table.move_to_buckets(filed, &pin));
        }
        true
    }

    /// Removes the signature of a name. Returns whether it was present.
    pub fn remove(&self, name: Hash) -> bool {
        let _writer = self.writer.lock();
        self.announced.lock().remove(&name);
        let Some((_, number)) = self.numbers.remove(&name) else {
            return false;
        };
        let entries = self.entries(self.stored.read().signature(number, self.shape.bytes()), number);
        let pin = pin();
        for (table, entry) in entries {
            self.tables[table].remove(entry, &pin);
        }
        self.len.fetch_sub(1, Ordering::Relaxed);
        let mut stored = self.stored.write();
        stored.names[number as usize] = None;
        stored.free.push(number);
        true
    }

    /// Whether there is a signature of this name.
    pub fn contains(&self, name: Hash) -> bool {
        self.numbers.contains_key(&name)
    }

    /// Appends to `found` the stored signatures that agree with this one in a band and differ from it in at
    /// most `k` cells, in no particular order.
    ///
    /// # Panics
    /// If the signature does not have the length of the shape.
    pub fn within(&self, signature: &[u8], k: u32, found: &mut Vec<Neighbour<Hash>>) -> Touched {
        self.check(signature);
        let entries = self.entries(signature, 0);
        let lists: Vec<Vec<u32>> = {
            let pin = pin();
            // Each step prefetches for all bands before the next step reads for any, so that the cache misses
            // of the bands overlap.
            entries.iter().for_each(|&(table, entry)| self.tables[table].prefetch_segment(entry, &pin));
            let probe = |&(table, entry): &(usize, u64)| self.tables[table].probe(entry, &pin);
            let probes: Vec<Probe<'_>> = entries.iter().map(probe).collect();
            // The elements of a set are counted one by one.
            let together = if self.shape.is_set { 1 } else { probes.len().max(1) };
            probes.chunks(together).map(candidates).collect()
        };
        let read: usize = lists.iter().map(Vec::len).sum();
        let touched = Touched { probes: entries.len() as u64, candidates: read as u64 };
        let stored = self.stored.read();
        let counted = self.counted(signature, |cell| {
            stored.holders(lists.iter().flatten().copied(), cell, signature.len())
        });
        let mut numbers = lists.concat();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.iter().for_each(|number| stored.prefetch(*number, signature.len()));
        let compare = |number| self.compare(&stored, number, signature, &counted, k);
        found.extend(numbers.into_iter().filter_map(compare));
        touched
    }

    /// As [`Bands::within`], by comparing every signature: it also finds those that agree in no band.
    ///
    /// # Panics
    /// If the signature does not have the length of the shape.
    pub fn scan(&self, signature: &[u8], k: u32, found: &mut Vec<Neighbour<Hash>>) -> Touched {
        self.check(signature);
        let stored = self.stored.read();
        let numbers = 0..stored.names.len() as u32;
        let counted = self.counted(signature, |cell| stored.holders(numbers.clone(), cell, signature.len()));
        let compare = |number| self.compare(&stored, number, signature, &counted, k);
        found.extend(numbers.clone().filter_map(compare));
        Touched { probes: 0, candidates: stored.names.iter().flatten().count() as u64 }
    }

    fn compare(
        &self,
        stored: &Stored,
        number: u32,
        to: &[u8],
        counted: &[u8],
        k: u32,
    ) -> Option<Neighbour<Hash>> {
        let hash = stored.names[number as usize]?;
        let distance = self.distance_by(to, counted, stored.signature(number, to.len()));
        (distance <= k).then_some(Neighbour { distance, hash })
    }

    /// The distance of two signatures, where `counted` has the elements of the first one that count.
    fn distance_by(&self, a: &[u8], counted: &[u8], b: &[u8]) -> u32 {
        if self.shape.is_set && a != b {
            return u32::from(self.shape.cells) - self.shape.shared(counted, b);
        }
        self.shape.distance(a, b)
    }

    /// A signature without the elements that more than [`SignatureShape::MAX_SHARED`] stored signatures have.
    /// `holders` counts them, at least up to one more than that.
    fn counted<'s>(&self, signature: &'s [u8], holders: impl Fn(&[u8]) -> usize) -> Cow<'s, [u8]> {
        if !self.shape.is_set {
            return Cow::Borrowed(signature);
        }
        let mut counted = signature.to_vec();
        for cell in counted.chunks_exact_mut(usize::from(self.shape.cell_bytes)) {
            if !is_blank(cell) && holders(cell) > SignatureShape::MAX_SHARED {
                cell.fill(0);
            }
        }
        Cow::Owned(counted)
    }

    /// The distance of two signatures.
    fn distance_of(&self, a: &[u8], b: &[u8]) -> u32 {
        let counted = self.counted(a, |cell| {
            let entry = BandTable::entry(band_hash(cell), 0);
            let pin = pin();
            let numbers = candidates(&[self.tables[0].probe(entry, &pin)]);
            self.stored.read().holders(numbers.into_iter(), cell, a.len())
        });
        self.distance_by(a, &counted, b)
    }

    /// The bytes that the index occupies, including signatures and free entries.
    pub fn bytes(&self) -> usize {
        let pin = pin();
        let tables: usize = self.tables.iter().map(|table| table.bytes(&pin)).sum();
        let stored = self.stored.read();
        let names = stored.names.capacity() * size_of::<Option<Hash>>() + stored.free.capacity() * 4;
        // An entry takes its key, its number and a byte, in a table that is at most seven eighths full.
        let numbers = self.numbers.len() * (size_of::<(Hash, u32)>() + 1) * 8 / 7;
        tables + stored.chunks.len() * CHUNK * self.shape.bytes() + names + numbers
    }

    fn check(&self, signature: &[u8]) {
        assert!(signature.len() == self.shape.bytes(), "a signature has the length of its shape");
    }

    /// The entries of a signature and the tables that hold them.
    fn entries(&self, signature: &[u8], number: u32) -> Vec<(usize, u64)> {
        let SignatureShape { cell_bytes, bands, rows, is_set, .. } = self.shape;
        let entry = |band: &[u8]| BandTable::entry(band_hash(band), number);
        let band = usize::from(cell_bytes) * usize::from(rows);
        let bands = signature.chunks_exact(band).take(usize::from(bands));
        if !is_set {
            return bands.map(entry).enumerate().collect();
        }
        let mut entries: Vec<_> = bands.filter(|cell| !is_blank(cell)).map(|cell| (0, entry(cell))).collect();
        entries.sort_unstable();
        entries.dedup();
        entries
    }

    /// Calls `work` with the signature of the subject; `None` if it is not given, announced or stored.
    fn with_subject<T>(&self, subject: Subject<'_>, work: impl FnOnce(&[u8]) -> T) -> Option<T> {
        if let Some(signature) = subject.signature {
            return Some(work(signature));
        }
        let announced = self.announced.lock().get(&subject.hash).cloned();
        let signature = announced.or_else(|| self.signature(subject.hash))?;
        Some(work(&signature))
    }

    fn signature(&self, name: Hash) -> Option<Box<[u8]>> {
        let number = *self.numbers.get(&name)?;
        let stored = self.stored.read();
        // It may have been removed meanwhile, and its number may have been reused.
        let is_present = stored.names[number as usize] == Some(name);
        is_present.then(|| stored.signature(number, self.shape.bytes()).into())
    }
}

/// A hash of 32 bits of a band, by which signatures that agree in it are gathered. Unlike bands may have
/// equal ones.
#[inline]
pub fn band_hash(band: &[u8]) -> u32 {
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
    for part in band.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        hash = (hash ^ u64::from_le_bytes(bytes)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash ^= hash >> 32;
    }
    (hash.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as u32
}

impl HashIndex for Bands {
    fn width(&self) -> Width {
        Width::Bits128
    }

    fn announce(&self, name: Hash, signature: &[u8]) {
        self.announced.lock().insert(name, signature.into());
    }

    /// Inserts a name only if its signature was announced, because a name does not determine a signature.
    fn insert(&self, name: Hash) -> bool {
        let announced = self.announced.lock().remove(&name);
        announced.is_some_and(|signature| Bands::insert(self, name, &signature))
    }

    fn insert_all(&self, names: &mut dyn Iterator<Item = Hash>) -> usize {
        names.filter(|name| HashIndex::insert(self, *name)).count()
    }

    fn remove(&self, name: Hash) -> bool {
        Bands::remove(self, name)
    }

    fn contains(&self, name: Hash) -> bool {
        Bands::contains(self, name)
    }

    fn len(&self) -> usize {
        Bands::len(self)
    }

    fn most(&self) -> u32 {
        u32::from(self.shape.cells)
    }

    fn within(&self, subject: Subject<'_>, k: u32, found: &mut Vec<Neighbour<Hash>>) -> Report {
        let touched = self.with_subject(subject, |signature| Bands::within(self, signature, k, found));
        Report { plan: None, scanned: false, touched: touched.unwrap_or_default() }
    }

    fn scan(&self, subject: Subject<'_>, k: u32, found: &mut Vec<Neighbour<Hash>>) -> Report {
        let touched = self.with_subject(subject, |signature| Bands::scan(self, signature, k, found));
        Report { plan: None, scanned: true, touched: touched.unwrap_or_default() }
    }

    fn distance(&self, subject: Subject<'_>, other: Hash) -> Option<u32> {
        let other = Subject { hash: other, signature: None };
        let distance = |b: &[u8]| self.with_subject(subject, |a| self.distance_of(a, b));
        self.with_subject(other, distance)?
    }

    fn distances(&self, subject: Subject<'_>, counts: &mut [u64]) {
        let mut found = Vec::new();
        HashIndex::scan(self, subject, self.most(), &mut found);
        found.iter().for_each(|near| counts[near.distance as usize] += 1);
    }

    fn scans(&self, _: u32) -> bool {
        false
    }

    /// A query reads the same entries for every radius, so a smaller first radius saves nothing.
    fn first_radius(&self, _: u32, k: u32) -> u32 {
        k
    }

    fn cost(&self, _: u32) -> u64 {
        u64::from(self.shape.bands) * BAND_COST
    }

    fn cost_of_scan(&self, _: u32) -> u64 {
        self.len() as u64 * COMPARISON_COST
    }

    fn bytes(&self) -> usize {
        Bands::bytes(self)
    }

    fn for_each_sorted_run(&self, each: &mut dyn FnMut(&mut dyn Iterator<Item = Hash>)) {
        let mut names: Vec<Hash> = self.stored.read().names.iter().copied().flatten().collect();
        names.sort_unstable();
        each(&mut names.into_iter());
    }
}
