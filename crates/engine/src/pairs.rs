//! All pairs of near documents of a collection at one moment, in the order of distance, then ids.
//!
//! The hashes and ids of a view are held in memory. There may be far more pairs than memory holds, so they
//! are found in rounds. A round goes through all near pairs of hashes and keeps the first [`ROUND`] pairs of
//! documents after those that were returned. Once it has that many, it skips pairs at greater distances.
//!
//! Costs: for each document about 50 bytes, its id, and twice its signature; for each round a join of all
//! hashes.
//! The work is done in slices on the pool, so that other bulk work takes turns with it.
//!
//! *Absent*: how near hashes are found (`hamming/pairs`), similarity of texts.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;

use super::registry::Collection;
use super::shared::Shared;
use super::{Engine, EngineError, permit};
use lookalike_hamming::{NearPair, NearPairs, near_pairs};
use lookalike_hash::{CollectionId, DocumentId, Hash, SignatureShape};
use lookalike_run::call::Reserved;
use lookalike_run::pool::{Cancel, Patience, Turns};
use lookalike_store::View;

/// Maximum number of concurrent lists of pairs: each keeps a processor busy.
pub(super) const LISTS: usize = 1;
/// The number of pairs of a round. Up to twice as many are held.
const ROUND: usize = 1 << 19;
/// The number of pairs that are returned at a time.
const PAGE: usize = 1 << 10;
/// Approximate bytes of two pages and their lines.
const PAGES: usize = 1 << 20;
/// The time after which other bulk work gets a turn.
const SLICE: Duration = Duration::from_millis(50);
/// The number of documents between two reservations of memory.
const DOCUMENTS: usize = 1 << 13;
/// The bytes of a document besides its id, signature and hash: its number, the end of its id, and the run of
/// its hash. The hash is in memory twice: in two forms while documents are read and sorted, later in two
/// orders.
const DOCUMENT_BYTES: usize = 24;

/// Two documents that are near each other, the smaller id first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentPair {
    /// The distance.
    pub distance: u32,
    /// The smaller id.
    pub first: DocumentId,
    /// The larger id.
    pub second: DocumentId,
}

/// A pair in its order: the distance, and the numbers of the documents in the order of their ids.
type Key = (u32, u32, u32);

/// The pairs that are not returned yet.
pub struct Pairs {
    ids: Ids,
    marks: Marks,
    /// The numbers of the documents, those with one hash together, and where those of each hash begin.
    numbers: Vec<u32>,
    starts: Vec<u32>,
    prints: Box<dyn NearPairs>,
    k: u32,
    /// The round returns pairs from this one on.
    from: Key,
    round: Round,
    kept: Vec<Key>,
    /// Whether the round left out pairs: all from this one on.
    bound: Option<Key>,
    _reserved: Reserved,
    _permit: OwnedSemaphorePermit,
}

/// The next step of a round.
enum Round {
    Begin,
    Join,
    /// The pairs are complete, and those before this place are returned.
    Return(usize),
    End,
}

/// Ids in ascending order.
#[derive(Default)]
struct Ids {
    text: String,
    ends: Vec<usize>,
}

impl Ids {
    fn push(&mut self, id: &DocumentId) {
        self.text.push_str(id.as_str());
        self.ends.push(self.text.len());
    }

    fn get(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[number]]
    }

    /// The number of ids below this one, and whether it is among them.
    fn find(&self, id: &str) -> (u32, bool) {
        let (mut from, mut to) = (0, self.ends.len() as u32);
        while from < to {
            let middle = from.midpoint(to);
            if self.get(middle) < id { from = middle + 1 } else { to = middle }
        }
        (from, (from as usize) < self.ends.len() && self.get(from) == id)
    }
}

/// The marks of a collection, by the numbers of the documents.
#[derive(Default)]
struct Marks {
    documents: HashSet<u32>,
    pairs: HashSet<(u32, u32)>,
}

impl Marks {
    fn read(view: &View<'_>, collection: CollectionId, ids: &Ids) -> Result<Marks, EngineError> {
        let mut marks = Marks::default();
        let number = |id: &DocumentId| {
            let (number, is_there) = ids.find(id.as_str());
            is_there.then_some(number)
        };
        for mark in view.marks_after(collection, None) {
            let Some((mark, _)) = mark? else { continue };
            match (number(mark.id()), mark.other()) {
                (Some(document), None) => drop(marks.documents.insert(document)),
                (Some(first), Some(other)) => marks.pairs.extend(number(other).map(|second| (first, second))),
                (None, _) => {}
            }
        }
        Ok(marks)
    }

    /// Whether a mark says that two documents are no duplicates; the first has the smaller number.
    fn separate(&self, first: u32, second: u32) -> bool {
        self.pairs.contains(&(first, second))
            || [first, second].iter().any(|document| self.documents.contains(document))
    }
}

impl Engine {
    /// Reads the documents of a collection to return its pairs within `k`, those after `after`.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if the pairs of another caller are being returned, and
    /// [`EngineError::NoMemory`] if the client can have too little memory for the hashes and ids.
    pub async fn pairs(
        &self,
        collection: &Arc<Collection>,
        k: u32,
        after: Option<DocumentPair>,
    ) -> Result<Pairs, EngineError> {
        let permit = permit(&self.pairs, "the capacity for lists of pairs")?;
        let (shared, collection) = (Arc::clone(&self.shared), Arc::clone(collection));
        let read = move |cancel: &Cancel| {
            let mut pairs = Pairs::read(&shared, &collection, (k, permit), cancel)?;
            pairs.from = after.map_or((0, 0, 0), |after| pairs.after(&after));
            Ok(pairs)
        };
        self.pool.run(Patience::Bulk, read).await?
    }

    /// Returns the next pairs in order, and the rest; `None` if there are no more.
    ///
    /// # Errors
    /// [`EngineError::NoMemory`].
    pub async fn next_pairs(
        &self,
        mut pairs: Box<Pairs>,
    ) -> Result<Option<(Vec<DocumentPair>, Box<Pairs>)>, EngineError> {
        loop {
            let slice = move |cancel: &Cancel| {
                pairs.work(cancel)?;
                let page = pairs.page();
                Ok::<_, EngineError>((page, pairs))
            };
            let (page, rest) = self.pool.run(Patience::Bulk, slice).await??;
            pairs = rest;
            if !page.is_empty() {
                return Ok(Some((page, pairs)));
            }
            if matches!(pairs.round, Round::End) {
                return Ok(None);
            }
        }
    }
}

impl Pairs {
    fn read(
        shared: &Shared,
        collection: &Collection,
        (k, permit): (u32, OwnedSemaphorePermit),
        cancel: &Cancel,
    ) -> Result<Pairs, EngineError> {
        let now_ms = shared.clock.now_ms();
        let mut reserved = Reserved::default();
        reserved.grow_to(2 * ROUND * size_of::<Key>() + PAGES)?;
        let fixed = reserved.bytes();
        let (mut ids, mut hashes, mut signatures) = (Ids::default(), Vec::new(), Vec::new());
        let width = collection.index.width();
        let of_document = DOCUMENT_BYTES + 2 * width.bytes();
        let mut turns = Turns::new(Patience::Bulk);
        let view = shared.store.view();
        for row in view.rows_after(collection.id, None) {
            cancel.check()?;
            turns.pause();
            let (id, row) = row?;
            if row.has_lapsed(now_ms) {
                continue;
            }
            let documents = hashes.len() / width.bytes();
            if documents.is_multiple_of(DOCUMENTS) {
                let bytes = ids.text.len() + 2 * signatures.len();
                // Includes the documents until the next reservation: at most an eighth more.
                let bytes = bytes + bytes / 8 + (documents + DOCUMENTS) * of_document;
                reserved.grow_to(fixed + bytes)?;
            }
            signatures.extend_from_slice(collection.signature_of(&row).unwrap_or_default());
            ids.push(&id);
            row.hash.write_bytes(&mut hashes);
        }
        let marks = Marks::read(&view, collection.id, &ids)?;
        drop(view);
        let hash = |number: u32| &hashes[number as usize * width.bytes()..][..width.bytes()];
        let mut numbers: Vec<u32> = (0..(hashes.len() / width.bytes()) as u32).collect();
        numbers.sort_unstable_by(|a, b| hash(*a).cmp(hash(*b)).then(a.cmp(b)));
        let signature_bytes = collection.signatures.map_or(0, SignatureShape::bytes);
        let mut prints = near_pairs(width, collection.signatures);
        let mut starts = Vec::new();
        for (at, &number) in numbers.iter().enumerate() {
            let own = hash(number);
            if at == 0 || hash(numbers[at - 1]) != own {
                starts.push(at as u32);
                prints.push(
                    Hash::from_bytes(own).expect("a hash of this width was written"),
                    &signatures[number as usize * signature_bytes..][..signature_bytes],
                );
            }
        }
        starts.push(numbers.len() as u32);
        drop((hashes, signatures));
        let bytes = prints.bytes() + ids.text.len() + ids.ends.len() * size_of::<usize>();
        let bytes = fixed + bytes + (numbers.len() + starts.len()) * size_of::<u32>();
        reserved.grow_to(bytes)?;
        reserved.shrink_to(bytes);
        Ok(Pairs {
            ids,
            marks,
            numbers,
            starts,
            prints,
            k,
            from: (0, 0, 0),
            round: Round::Begin,
            kept: Vec::new(),
            bound: None,
            _reserved: reserved,
            _permit: permit,
        })
    }

    /// The first key after a pair, whose documents may be gone.
    fn after(&self, pair: &DocumentPair) -> Key {
        let (first, is_there) = self.ids.find(pair.first.as_str());
        if !is_there {
            return (pair.distance, first, 0);
        }
        let (second, is_there) = self.ids.find(pair.second.as_str());
        (pair.distance, first, second + u32::from(is_there))
    }

    /// Works on the round until it is complete or others should have a turn.
    fn work(&mut self, cancel: &Cancel) -> Result<(), EngineError> {
        let begin = Instant::now();
        let mut turns = Turns::new(Patience::Bulk);
        let mut near = Vec::new();
        if matches!(self.round, Round::Begin) {
            (self.kept, self.bound) = (Vec::with_capacity(2 * ROUND), None);
            for place in 0..self.starts.len() - 1 {
                self.add(NearPair { first: place as u32, second: place as u32, distance: 0 });
            }
            self.prints.begin(self.k);
            self.round = Round::Join;
        }
        while matches!(self.round, Round::Join) && begin.elapsed() < SLICE {
            cancel.check()?;
            turns.pause();
            let k = self.bound.map_or(self.k, |(distance, ..)| distance.min(self.k));
            let goes_on = self.prints.step(k, &mut near);
            near.drain(..).for_each(|pair| self.add(pair));
            if !goes_on {
                self.truncate();
                self.kept.sort_unstable();
                self.round = Round::Return(0);
            }
        }
        Ok(())
    }

    /// Adds the pairs of the documents of two near hashes, or of the documents of one hash.
    fn add(&mut self, NearPair { first, second, distance }: NearPair) {
        if self.bound.is_some_and(|(most, ..)| distance > most) || distance < self.from.0 {
            return;
        }
        let range =
            |place: u32| self.starts[place as usize] as usize..self.starts[place as usize + 1] as usize;
        let (own, other) = (range(first), range(second));
        let is_one = first == second;
        for (of, with) in [(own.clone(), other.clone()), (other, own)] {
            let from = if distance == self.from.0 { self.from.1 } else { 0 };
            let skipped = self.numbers[of.clone()].partition_point(|number| *number < from);
            for at in of.start + skipped..of.end {
                let document = self.numbers[at];
                if self.bound.is_some_and(|bound| (distance, document, 0) >= bound) {
                    break;
                }
                let larger = self.numbers[with.clone()].partition_point(|number| *number <= document);
                for at in with.start + larger..with.end {
                    let key = (distance, document, self.numbers[at]);
                    if self.bound.is_some_and(|bound| key >= bound) {
                        break;
                    }
                    if key >= self.from {
                        self.kept.push(key);
                        if self.kept.len() == 2 * ROUND {
                            self.truncate();
                        }
                    }
                }
            }
            if is_one {
                break;
            }
        }
    }

    /// Keeps only the first pairs of the round.
    fn truncate(&mut self) {
        if self.kept.len() > ROUND {
            let (_, bound, _) = self.kept.select_nth_unstable(ROUND);
            self.bound = Some(*bound);
            self.kept.truncate(ROUND);
        }
    }

    /// The next pairs of a complete round, without those that marks separate.
    fn page(&mut self) -> Vec<DocumentPair> {
        let Round::Return(at) = self.round else { return Vec::new() };
        let end = self.kept.len().min(at + PAGE);
        let page =
            self.kept[at..end].iter().filter(|(_, first, second)| !self.marks.separate(*first, *second));
        let id = |number: u32| DocumentId::new(self.ids.get(number)).expect("it is the id of a document");
        let pair = |&(distance, first, second): &Key| DocumentPair {
            distance,
            first: id(first),
            second: id(second),
        };
        let page: Vec<DocumentPair> = page.map(pair).collect();
        self.round = match (end < self.kept.len(), self.bound) {
            (true, _) => Round::Return(end),
            (false, Some(bound)) => {
                self.from = bound;
                Round::Begin
            }
            (false, None) => {
                self.kept = Vec::new();
                Round::End
            }
        };
        page
    }
}
