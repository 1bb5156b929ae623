//! Signatures by bands: which stored signatures agree with this one in a band, and in how many cells differ
//! in all.
//!
//! A signature is cut into bands of some cells (Leskovec, Rajaraman and Ullman, "Mining of Massive Datasets",
//! 3.4). The tables (`band_table`) are those of the pigeonhole index: a band is a block, and what is found is
//! verified by another distance, the number of cells that differ. Elements of a set stand anywhere, so that
//! all of them are filed in one table.
//!
//! A band's hash has 32 bits, so now and then two bands look equal that are not. That brings a candidate
//! more, never an answer more: cells are compared in the signatures.
//!
//! # Readers beside a writer
//! A signature is stored before its bands are filed and taken out of the tables before its place is given to
//! another. A reader that finds a number late compares whatever stands there by then, and answers with that
//! one's own name and distance.
//!
//! *Absent*: how signatures are made (`fingerprint`), documents, disks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};

use super::band_table::{Asked, BandTable, MANY, met};
use super::erased::{HashIndex, Subject};
use super::memory::{CACHE_LINE, pin, prefetch_from};
use super::probe::Touched;
use super::scan::Neighbour;
use super::sharded::Report;
use crate::ids::{Hash, SignatureShape, Width, is_blank};

/// Signatures in a piece of memory: none moves when others come.
const PIECE: usize = 1 << 10;
/// What the look into a band's table and the comparison with a signature take, in nanoseconds or so.
const BAND_COST: u64 = 60;
const COMPARISON_COST: u64 = 20;

/// An index of signatures of one shape, each under a name of 128 bits.
///
/// ```
/// use lookalike::ids::{Hash, SignatureShape};
/// use lookalike::index::Bands;
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
    /// The places of signatures, by their names.
    places: DashMap<Hash, u32, RandomState>,
    /// Signatures that are to be inserted, by their names.
    announced: Mutex<HashMap<Hash, Box<[u8]>, RandomState>>,
    len: AtomicUsize,
    buckets_from: usize,
    turn: Mutex<()>,
}

/// Signatures, at their numbers.
#[derive(Default)]
struct Stored {
    pieces: Vec<Box<[u8]>>,
    names: Vec<Option<Hash>>,
    /// Numbers that are nobody's now.
    free: Vec<u32>,
}

impl Stored {
    fn signature(&self, number: u32, bytes: usize) -> &[u8] {
        let (piece, at) = (number as usize / PIECE, number as usize % PIECE);
        &self.pieces[piece][at * bytes..][..bytes]
    }

    /// Asks for what is there at a number.
    fn approach(&self, number: u32, bytes: usize) {
        prefetch_from(&raw const self.names[number as usize]);
        let signature = self.signature(number, bytes);
        signature.chunks(CACHE_LINE).for_each(|part| prefetch_from(part.as_ptr()));
        signature.last().into_iter().for_each(|last| prefetch_from(last));
    }

    /// Stores a signature; its number.
    fn put(&mut self, name: Hash, signature: &[u8]) -> u32 {
        let bytes = signature.len();
        let number = self.free.pop().unwrap_or_else(|| {
            self.names.push(None);
            u32::try_from(self.names.len() - 1).expect("fewer than 2^32 signatures")
        });
        let (piece, at) = (number as usize / PIECE, number as usize % PIECE);
        if piece == self.pieces.len() {
            self.pieces.push(vec![0; PIECE * bytes].into());
        }
        self.pieces[piece][at * bytes..][..bytes].copy_from_slice(signature);
        self.names[number as usize] = Some(name);
        number
    }
}

impl Bands {
    /// An empty index of signatures of this shape.
    pub fn new(shape: SignatureShape) -> Bands {
        Bands::with_buckets_from(shape, MANY)
    }

    /// An empty index whose bands stand in buckets once a table has so many. It changes what queries cost,
    /// not what they answer.
    fn with_buckets_from(shape: SignatureShape, buckets_from: usize) -> Bands {
        let tables = if shape.is_set { 1 } else { usize::from(shape.bands) };
        Bands {
            shape,
            tables: (0..tables).map(|_| BandTable::new()).collect(),
            stored: RwLock::default(),
            places: DashMap::default(),
            announced: Mutex::default(),
            len: AtomicUsize::new(0),
            buckets_from,
            turn: Mutex::new(()),
        }
    }

    /// How many signatures it holds.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a signature under a name: whether it is new.
    ///
    /// # Panics
    /// If it is not as long as the shape says, or if there are 2³² signatures already.
    pub fn insert(&self, name: Hash, signature: &[u8]) -> bool {
        self.check(signature);
        let _turn = self.turn.lock();
        if self.places.contains_key(&name) {
            return false;
        }
        let number = self.stored.write().put(name, signature);
        self.places.insert(name, number);
        let pin = pin();
        let entries = self.entries(signature, number);
        entries.iter().for_each(|(table, entry)| self.tables[*table].approach(*entry, &pin));
        let before = self.len.fetch_add(1, Ordering::Relaxed);
        let filed = if self.shape.is_set { before * usize::from(self.shape.cells) } else { before };
        entries.iter().for_each(|(table, entry)| self.tables[*table].insert(*entry, filed, &pin));
        if filed >= self.buckets_from {
            // One at a time, so that nobody waits for all.
            let _ = self.tables.iter().any(|table| table.settle(filed, &pin));
        }
        true
    }

    /// Takes the signature of this name out: whether it was there.
    pub fn remove(&self, name: Hash) -> bool {
        let _turn = self.turn.lock();
        self.announced.lock().remove(&name);
        let Some((_, number)) = self.places.remove(&name) else {
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
        self.places.contains_key(&name)
    }

    /// Adds to `found` the signatures that agree with this one in a band and differ in `k` cells at most, in
    /// no particular order.
    ///
    /// # Panics
    /// If the signature is not as long as the shape says.
    pub fn within(&self, signature: &[u8], k: u32, found: &mut Vec<Neighbour<Hash>>) -> Touched {
        self.check(signature);
        let entries = self.entries(signature, 0);
        let mut numbers: Vec<u32> = {
            let pin = pin();
            // Nothing is waited for that could have been asked for before, for all bands together.
            entries.iter().for_each(|&(table, entry)| self.tables[table].approach_place(entry, &pin));
            let ask = |&(table, entry): &(usize, u64)| self.tables[table].ask(entry, &pin);
            let asked: Vec<Asked<'_>> = entries.iter().map(ask).collect();
            met(&asked)
        };
        let touched = Touched { probes: entries.len() as u64, candidates: numbers.len() as u64 };
        numbers.sort_unstable();
        numbers.dedup();
        let stored = self.stored.read();
        numbers.iter().for_each(|number| stored.approach(*number, signature.len()));
        found.extend(numbers.into_iter().filter_map(|number| self.compare(&stored, number, signature, k)));
        touched
    }

    /// The same by comparing every signature: also those that agree in no band.
    pub fn scan(&self, signature: &[u8], k: u32, found: &mut Vec<Neighbour<Hash>>) -> Touched {
        self.check(signature);
        let stored = self.stored.read();
        let numbers = 0..stored.names.len() as u32;
        found.extend(numbers.filter_map(|number| self.compare(&stored, number, signature, k)));
        Touched { probes: 0, candidates: stored.names.len() as u64 }
    }

    fn compare(&self, stored: &Stored, number: u32, to: &[u8], k: u32) -> Option<Neighbour<Hash>> {
        let hash = stored.names[number as usize]?;
        let distance = self.shape.distance(to, stored.signature(number, to.len()));
        (distance <= k).then_some(Neighbour { distance, hash })
    }

    /// The bytes the index occupies, signatures and room to grow included.
    pub fn bytes(&self) -> usize {
        let pin = pin();
        let tables: usize = self.tables.iter().map(|table| table.bytes(&pin)).sum();
        let stored = self.stored.read();
        let names = stored.names.capacity() * size_of::<Option<Hash>>() + stored.free.capacity() * 4;
        // A place takes its key, its number and a byte, in a table that is filled to seven eighths at most.
        let places = self.places.len() * (size_of::<(Hash, u32)>() + 1) * 8 / 7;
        tables + stored.pieces.len() * PIECE * self.shape.bytes() + names + places
    }

    fn check(&self, signature: &[u8]) {
        assert!(signature.len() == self.shape.bytes(), "signatures of one shape are as long as each other");
    }

    /// What is filed for a signature, and in which tables.
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

    /// The signature that is asked about, if it is given or stored, handed to `work`.
    fn with_subject<T>(&self, subject: Subject<'_>, work: impl FnOnce(&[u8]) -> T) -> Option<T> {
        if let Some(signature) = subject.signature {
            return Some(work(signature));
        }
        let announced = self.announced.lock().get(&subject.hash).cloned();
        let signature = announced.or_else(|| self.signature(subject.hash))?;
        Some(work(&signature))
    }

    fn signature(&self, name: Hash) -> Option<Box<[u8]>> {
        let number = *self.places.get(&name)?;
        let stored = self.stored.read();
        // It may have gone since, and its place may be another's.
        let is_there = stored.names[number as usize] == Some(name);
        is_there.then(|| stored.signature(number, self.shape.bytes()).into())
    }
}

/// 32 bits of a band.
fn band_hash(band: &[u8]) -> u32 {
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

    /// Only of what was announced: a name says nothing of what it stands for.
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

    /// Nothing: a look goes to as many places as there are bands, and asks for all of them first.
    fn approach(&self, _: &[Hash], _: u32) {}

    fn scan(&self, subject: Subject<'_>, k: u32, found: &mut Vec<Neighbour<Hash>>) -> Report {
        let touched = self.with_subject(subject, |signature| Bands::scan(self, signature, k, found));
        Report { plan: None, scanned: true, touched: touched.unwrap_or_default() }
    }

    fn distance(&self, subject: Subject<'_>, other: Hash) -> Option<u32> {
        let other = Subject { hash: other, signature: None };
        let distance = |b: &[u8]| self.with_subject(subject, |a| self.shape.distance(a, b));
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

    /// All that bands have to say about a signature is read in one go, however near it has to be.
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

    /// None: bands are told apart by 32 bits, and what shares one is no bucket of the index's making.
    fn bucket_sizes(&self, _: &mut dyn FnMut(usize)) {}

    fn for_each_sorted_run(&self, each: &mut dyn FnMut(&mut dyn Iterator<Item = Hash>)) {
        let mut names: Vec<Hash> = self.stored.read().names.iter().copied().flatten().collect();
        names.sort_unstable();
        each(&mut names.into_iter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: SignatureShape = SignatureShape { cells: 3, cell_bytes: 8, bands: 3, rows: 1, is_set: true };

    fn shapes() -> [SignatureShape; 5] {
        let minima = |bands, rows| SignatureShape::of_minima(bands, rows).unwrap();
        let spare = SignatureShape { bands: 20, ..minima(32, 4) };
        [minima(50, 4), minima(16, 8), minima(1, 1), spare, SET]
    }

    /// Signatures of which some share some cells, under names from 0 on.
    fn signatures(count: u32, shape: SignatureShape) -> Vec<Vec<u8>> {
        let cell = |group: u32, own: u32, row: u32| {
            let shared = (row * 7 + own * 3) % 10 < own % 11;
            let seed = if shared { group } else { group.wrapping_mul(31).wrapping_add(own + 1) << 8 };
            // Elements of sets stand elsewhere in each.
            let row = if shape.is_set { row.wrapping_add(own) % 3 } else { row };
            let value = u64::from(seed ^ row << 24).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            value.to_le_bytes().into_iter().take(usize::from(shape.cell_bytes))
        };
        (0..count)
            .map(|number| {
                (0..u32::from(shape.cells)).flat_map(|row| cell(number / 12, number % 12, row)).collect()
            })
            .collect()
    }

    fn name(number: usize) -> Hash {
        Hash::from_u128(number as u128)
    }

    /// Whether they agree in a band, by definition.
    fn meet(shape: SignatureShape, a: &[u8], b: &[u8]) -> bool {
        let band = usize::from(shape.cell_bytes) * usize::from(shape.rows);
        if shape.is_set {
            return a.chunks(band).any(|cell| !is_blank(cell) && b.chunks(band).any(|other| other == cell));
        }
        a.chunks(band).zip(b.chunks(band)).take(usize::from(shape.bands)).any(|(a, b)| a == b)
    }

    fn sorted(ask: impl FnOnce(&mut Vec<Neighbour<Hash>>)) -> Vec<Neighbour<Hash>> {
        let mut found = Vec::new();
        ask(&mut found);
        found.sort_unstable();
        found
    }

    #[test]
    fn what_agrees_in_a_band_is_found_with_its_distance_while_others_come_and_go() {
        for (shape, buckets_from) in shapes().into_iter().flat_map(|shape| [(shape, MANY), (shape, 1_500)]) {
            let all = signatures(if cfg!(miri) { 40 } else { 2_400 }, shape);
            let index = Bands::with_buckets_from(shape, buckets_from);
            for (number, signature) in all.iter().enumerate() {
                assert!(index.insert(name(number), signature) && !index.insert(name(number), signature));
            }
            // A third goes, and half of that comes back, into the places of others.
            (0..all.len()).step_by(3).for_each(|number| assert!(index.remove(name(number))));
            for number in (0..all.len()).step_by(6).collect::<Vec<_>>().into_iter().rev() {
                index.insert(name(number), &all[number]);
            }
            let is_there = |number: usize| !number.is_multiple_of(3) || number.is_multiple_of(6);
            assert_eq!(index.len(), (0..all.len()).filter(|number| is_there(*number)).count());
            for (asked, query) in all.iter().enumerate().step_by(if cfg!(miri) { 7 } else { 17 }) {
                for k in [0, u32::from(shape.cells) / 2, u32::from(shape.cells)] {
                    let near = |meets: bool| -> Vec<Neighbour<Hash>> {
                        let stored = all.iter().enumerate().filter(|(number, _)| is_there(*number));
                        let met = stored.filter(|(_, other)| !meets || meet(shape, query, other));
                        let mut near: Vec<_> = met
                            .map(|(number, other)| Neighbour {
                                distance: shape.distance(query, other),
                                hash: name(number),
                            })
                            .filter(|near| near.distance <= k)
                            .collect();
                        near.sort_unstable();
                        near
                    };
                    assert_eq!(sorted(|found| _ = index.within(query, k, found)), near(true));
                    assert_eq!(sorted(|found| _ = index.scan(query, k, found)), near(false));
                    if is_there(asked) {
                        let by_name = sorted(|found| {
                            HashIndex::within(&index, name(asked).into(), k, found);
                        });
                        assert_eq!(by_name, near(true));
                    }
                }
            }
        }
    }

    #[test]
    fn names_stand_for_what_was_announced() {
        let shape = SignatureShape::of_minima(2, 2).unwrap();
        let index = index_of(shape);
        assert!(!index.insert(name(1)), "nobody said what it stands for");
        index.announce(name(1), &[1, 2, 3, 4]);
        assert_eq!(
            index.distance(Subject { hash: name(2), signature: Some(&[1, 2, 3, 5]) }, name(1)),
            Some(1)
        );
        assert!(index.insert(name(1)) && index.contains(name(1)));
        index.announce(name(2), &[1, 2, 3, 5]);
        assert_eq!(index.distance(name(1).into(), name(2)), Some(1));
        index.remove(name(2));
        assert_eq!(index.distance(name(1).into(), name(2)), None);
        let mut counts = [0; 5];
        index.distances(name(1).into(), &mut counts);
        assert_eq!(counts, [1, 0, 0, 0, 0]);
        assert!(index.bytes() < 64 << 10 && index.most() == 4);
    }

    fn index_of(shape: SignatureShape) -> std::sync::Arc<dyn HashIndex> {
        super::super::index_for(Width::Bits128, Some(shape))
    }

    #[test]
    fn readers_beside_a_writer_find_what_stands_still() {
        // In segments, in buckets, and on the way to them.
        [MANY, 0, 700].into_iter().for_each(readers_beside_a_writer);
    }

    fn readers_beside_a_writer(buckets_from: usize) {
        let shape = SignatureShape::of_minima(8, 2).unwrap();
        let all = signatures(if cfg!(miri) { 24 } else { 1_200 }, shape);
        let index = Bands::with_buckets_from(shape, buckets_from);
        let (still, moving) = all.split_at(all.len() / 2);
        still.iter().enumerate().for_each(|(number, signature)| _ = index.insert(name(number), signature));
        let rounds = if cfg!(miri) { 2 } else { 20 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..rounds {
                    for (number, signature) in moving.iter().enumerate() {
                        index.insert(name(10_000 + number), signature);
                    }
                    (0..moving.len()).for_each(|number| _ = index.remove(name(10_000 + number)));
                }
            });
            for (number, query) in still.iter().enumerate().cycle().take(still.len() * rounds) {
                let mut found = Vec::new();
                index.within(query, 0, &mut found);
                assert!(found.contains(&Neighbour { distance: 0, hash: name(number) }));
                assert!(found.iter().all(|near| near.distance == 0));
            }
        });
        assert_eq!(index.len(), still.len());
    }
}
