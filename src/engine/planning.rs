//! The plan of a group: its operations are decided one after the other and written as one batch.
//!
//! The plan overlays the store: later operations of the group see the effects of earlier ones, although none
//! of them is durable yet.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

use foldhash::fast::RandomState;

use super::nearest::nearest;
use super::posting_cache::{CachedPosting, TouchedHash};
use super::recent::Recent;
use super::registry::Collection;
use crate::engine::{Document, Match, Operation, Outcome};
use crate::ids::{CollectionId, DocumentId, Hash, Sequence};
use crate::index::Subject;
use crate::store::{Batch, Change, Expiry, Posting, PostingList, RowHead, Store, StoreError, View};

/// The maximum number of near-duplicates reported for a rejected document.
const DUPLICATES_NAMED: usize = 10;

/// The maximum number of hashes that a check passes to the writer. There are several because some of them
/// may be deleted before the writer decides.
pub(super) const NEAREST: usize = 32;

/// The result of a near-duplicate check that was made before the operation reached the writer.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    /// The last change that the check is certain to have seen.
    pub(super) seen: Sequence,
    /// The nearest hashes found, at most [`NEAREST`].
    pub(super) nearest: Vec<Hash>,
}

/// The planned state of a document.
#[derive(Clone)]
struct Touched {
    hash: Hash,
    expires_ms: Option<u64>,
    metadata: Option<String>,
}

/// The plan of a group.
pub(super) struct Plan<'a> {
    view: View<'a>,
    batch: Batch<'a>,
    next: Sequence,
    /// The time of the group. Documents that have expired by then do not exist for its operations.
    now_ms: u64,
    /// The earliest expiry of the documents that were put.
    soonest_ms: Option<u64>,
    /// The state of each touched document; `None` if it is deleted.
    documents: HashMap<(CollectionId, DocumentId), Option<Touched>, RandomState>,
    /// The posting list of each touched hash; `None` if it is empty.
    postings: HashMap<(CollectionId, Hash), Option<PostingList>, RandomState>,
    /// For touched hashes with several postings: the added postings, and `None` for removed ones.
    shared: HashMap<(CollectionId, Hash), BTreeMap<DocumentId, Option<Posting>>, RandomState>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(store: &'a Store, last: Sequence, now_ms: u64) -> Result<Plan<'a>, StoreError> {
        Ok(Plan {
            view: store.view(),
            batch: store.batch()?,
            next: last.next(),
            now_ms,
            soonest_ms: None,
            documents: HashMap::default(),
            postings: HashMap::default(),
            shared: HashMap::default(),
        })
    }

    /// Reserves capacity for this many further operations.
    pub(super) fn reserve(&mut self, operations: usize) {
        self.documents.reserve(operations);
        self.postings.reserve(operations);
    }

    /// The batch to commit, and the hashes whose postings it touches.
    pub(super) fn into_batch(self) -> (Batch<'a>, Vec<TouchedHash>) {
        let mut documents = self.documents;
        let touched = |((collection, hash), posting_list)| {
            let posting = match posting_list {
                Some(PostingList::One(Posting { id, expires_ms, .. })) => {
                    // The document has only this hash, so no other hash needs the entry.
                    let document = documents.remove(&(collection, id.clone())).flatten();
                    document.map(|document| CachedPosting { id, expires_ms, metadata: document.metadata })
                }
                Some(PostingList::Many(_)) | None => None,
            };
            TouchedHash { collection, hash, posting }
        };
        (self.batch, self.postings.into_iter().map(touched).collect())
    }

    /// The earliest expiry of the documents that were put.
    pub(super) fn soonest_ms(&self) -> Option<u64> {
        self.soonest_ms
    }

    /// Decides one operation.
    pub(super) fn decide(
        &mut self,
        collection: &Collection,
        operation: Operation,
        checked: Option<&Checked>,
        recent: &mut Recent,
    ) -> Result<Outcome, StoreError> {
        match operation {
            Operation::Delete(id) => self.delete(collection, &id),
            Operation::Put { document, unless_within: None } => self.put(collection, document, recent),
            Operation::Put { document, unless_within: Some(k) } => {
                let near = self.near(collection, &document, k, checked, recent)?;
                if near.is_empty() {
                    return self.put(collection, document, recent);
                }
                Ok(Outcome::Duplicate(near))
            }
        }
    }

    fn put(
        &mut self,
        collection: &Collection,
        document: Document,
        recent: &mut Recent,
    ) -> Result<Outcome, StoreError> {
        let Document { id, row } = document;
        let (of, hash) = (collection.id, row.hash);
        let before = self.current(collection, &id)?;
        let posting =
            Posting { id: id.clone(), has_metadata: row.metadata.is_some(), expires_ms: row.expires_ms };
        let before_hash = before.as_ref().map(|before| before.hash);
        let added = self.add_posting(collection, hash, posting, before_hash == Some(hash))?;
        let removed = match before_hash.filter(|before| *before != hash) {
            Some(before) => self.remove_posting(collection, before, &id)?,
            None => None,
        };
        let expired_before = before.as_ref().and_then(|before| before.expires_ms);
        self.set_expiry(of, &id, expired_before, row.expires_ms);
        if let Some(hash) = added {
            recent.add(self.next, of, hash);
            if let Some(signature) = collection.signature_of(&row) {
                collection.index.announce(hash, signature);
            }
        }
        let touched = Touched { hash, expires_ms: row.expires_ms, metadata: row.metadata.clone() };
        self.documents.insert((of, id.clone()), Some(touched));
        self.batch.put_row(of, &id, row, before.is_none());
        self.log(Change::Document { collection: of, added, removed });
        // A document that has expired but is still stored does not exist for clients.
        let was_there = before.is_some_and(|before| !self.has_expired(before.expires_ms));
        Ok(if was_there { Outcome::Updated } else { Outcome::Created })
    }

    fn delete(&mut self, collection: &Collection, id: &DocumentId) -> Result<Outcome, StoreError> {
        let Some(before) = self.current(collection, id)? else {
            return Ok(Outcome::Absent);
        };
        let was_there = !self.has_expired(before.expires_ms);
        self.remove(collection, id, &before)?;
        Ok(if was_there { Outcome::Deleted } else { Outcome::Absent })
    }

    /// Removes an expired document. Returns whether it existed with this expiry time.
    pub(super) fn expire(&mut self, collection: &Collection, expiry: &Expiry) -> Result<bool, StoreError> {
        let Expiry { at_ms, id, .. } = expiry;
        let before = self.current(collection, id)?.filter(|before| before.expires_ms == Some(*at_ms));
        if let Some(before) = &before {
            self.remove(collection, id, before)?;
        }
        Ok(before.is_some())
    }

    fn remove(
        &mut self,
        collection: &Collection,
        id: &DocumentId,
        before: &Touched,
    ) -> Result<(), StoreError> {
        let removed = self.remove_posting(collection, before.hash, id)?;
        self.set_expiry(collection.id, id, before.expires_ms, None);
        self.documents.insert((collection.id, id.clone()), None);
        self.batch.delete_row(collection.id, id);
        self.log(Change::Document { collection: collection.id, added: None, removed });
        Ok(())
    }

    fn has_expired(&self, expires_ms: Option<u64>) -> bool {
        expires_ms.is_some_and(|at| at <= self.now_ms)
    }

    fn set_expiry(&mut self, of: CollectionId, id: &DocumentId, before: Option<u64>, now: Option<u64>) {
        if let Some(at) = before.filter(|_| before != now) {
            self.batch.remove_expiry(of, at, id);
        }
        if let Some(at) = now {
            self.batch.add_expiry(of, at, id);
            self.soonest_ms = Some(self.soonest_ms.map_or(at, |soonest| soonest.min(at)));
        }
    }

    fn log(&mut self, change: Change) {
        self.batch.log(change);
        self.next = self.next.next();
    }

    /// Adds a document to the posting list of a hash, or replaces its posting there (`already`). Returns the
    /// hash if it is new in the collection.
    fn add_posting(
        &mut self,
        collection: &Collection,
        hash: Hash,
        posting: Posting,
        already: bool,
    ) -> Result<Option<Hash>, StoreError> {
        let of = collection.id;
        match self.posting_list(collection, hash)? {
            None => {
                self.set_posting_list(of, hash, Some(PostingList::One(posting)));
                return Ok(Some(hash));
            }
            Some(PostingList::One(other)) if other.id == posting.id => {
                self.set_posting_list(of, hash, Some(PostingList::One(posting)));
            }
            Some(PostingList::One(other)) => {
                self.set_posting_list(of, hash, Some(PostingList::Many(2)));
                self.add_shared(of, hash, other);
                self.add_shared(of, hash, posting);
            }
            Some(PostingList::Many(postings)) => {
                if !already {
                    self.set_posting_list(of, hash, Some(PostingList::Many(postings + 1)));
                }
                self.add_shared(of, hash, posting);
            }
        }
        Ok(None)
    }

    /// Removes a document from the posting list of a hash. Returns the hash if no document has it now.
    fn remove_posting(
        &mut self,
        collection: &Collection,
        hash: Hash,
        id: &DocumentId,
    ) -> Result<Option<Hash>, StoreError> {
        let of = collection.id;
        // The remaining postings are counted, not searched: a list may have a million, and each removal
        // would read it again.
        if let Some(PostingList::Many(postings)) = self.posting_list(collection, hash)? {
            self.batch.remove_shared(of, hash, id);
            self.shared.entry((of, hash)).or_default().insert(id.clone(), None);
            if postings > 1 {
                self.set_posting_list(of, hash, Some(PostingList::Many(postings - 1)));
                return Ok(None);
            }
        }
        self.set_posting_list(of, hash, None);
        Ok(Some(hash))
    }

    fn add_shared(&mut self, of: CollectionId, hash: Hash, posting: Posting) {
        self.batch.add_shared(of, hash, &posting);
        self.shared.entry((of, hash)).or_default().insert(posting.id.clone(), Some(posting));
    }

    fn set_posting_list(&mut self, of: CollectionId, hash: Hash, posting_list: Option<PostingList>) {
        self.batch.set_posting_list(of, hash, posting_list.as_ref());
        self.postings.insert((of, hash), posting_list);
    }

    fn posting_list(&self, collection: &Collection, hash: Hash) -> Result<Option<PostingList>, StoreError> {
        match self.postings.get(&(collection.id, hash)) {
            Some(touched) => Ok(touched.clone()),
            // The index has the hash of every durable document. Checking it first avoids a disk read.
            None if !collection.index.contains(hash) => Ok(None),
            None => self.view.posting_list(collection.id, hash),
        }
    }

    /// The stored or planned document, expired or not. Its text, which may have megabytes, is not read.
    fn current(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Touched>, StoreError> {
        let state =
            |row: RowHead| Touched { hash: row.hash, expires_ms: row.expires_ms, metadata: row.metadata };
        match self.documents.get(&(collection.id, id.clone())) {
            Some(touched) => Ok(touched.clone()),
            None => Ok(self.view.row_head(collection.id, id)?.map(state)),
        }
    }

    /// The first postings of a hash in id order, without expired ones.
    fn first_postings(
        &self,
        collection: &Collection,
        hash: Hash,
        most: usize,
    ) -> Result<Vec<Posting>, StoreError> {
        let is_live = |posting: &Posting| !posting.has_lapsed(self.now_ms);
        match self.posting_list(collection, hash)? {
            None => return Ok(Vec::new()),
            Some(PostingList::One(posting)) => {
                return Ok(Some(posting).filter(is_live).into_iter().collect());
            }
            Some(PostingList::Many(_)) => {}
        }
        let touched = self.shared.get(&(collection.id, hash));
        let added = touched.into_iter().flat_map(BTreeMap::values).flatten();
        let mut postings: Vec<Posting> = added.filter(|posting| is_live(posting)).cloned().collect();
        let untouched = |id: &DocumentId| !touched.is_some_and(|touched| touched.contains_key(id));
        let mut stored = 0;
        for posting in self.view.postings(collection.id, hash, None)? {
            let posting = posting?;
            if untouched(&posting.id) && is_live(&posting) {
                postings.push(posting);
                stored += 1;
                if stored >= most {
                    break;
                }
            }
        }
        postings.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        postings.truncate(most);
        Ok(postings)
    }

    /// The documents within `k` at this point of the group, nearest first.
    fn near(
        &self,
        collection: &Collection,
        document: &Document,
        k: u32,
        checked: Option<&Checked>,
        recent: &Recent,
    ) -> Result<Vec<Match>, StoreError> {
        let subject = subject(collection, document);
        let is_near =
            |other: Hash| collection.index.distance(subject, other).is_some_and(|distance| distance <= k);
        if let Some(Checked { seen, nearest }) = checked
            && let Some(mut hashes) = recent.since(*seen, collection.id, is_near)
        {
            let is_complete = nearest.len() < NEAREST;
            hashes.extend(nearest);
            let matches = self.postings_of(collection, document, hashes)?;
            // The check passed only its nearest hashes. If none of them has a document any more, others may
            // be near.
            if is_complete || !matches.is_empty() {
                return Ok(matches);
            }
        }
        let mut wanted = NEAREST;
        loop {
            let (hashes, is_complete) = self.near_hashes(collection, subject, k, wanted);
            let matches = self.postings_of(collection, document, hashes)?;
            if is_complete || !matches.is_empty() {
                return Ok(matches);
            }
            // The group has deleted the documents of all these hashes.
            wanted *= 8;
        }
    }

    /// The first documents that have one of these hashes, nearest to `document` first. The document itself
    /// is excluded. The metadata is left out: a group of thousands of duplicates would hold hundreds of
    /// megabytes.
    fn postings_of(
        &self,
        collection: &Collection,
        document: &Document,
        hashes: Vec<Hash>,
    ) -> Result<Vec<Match>, StoreError> {
        let subject = subject(collection, document);
        let with_distance = |near| Some((collection.index.distance(subject, near)?, near));
        let mut hashes: Vec<(u32, Hash)> = hashes.into_iter().filter_map(with_distance).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let mut matches = Vec::new();
        for (distance, near) in hashes {
            for Posting { id, expires_ms, .. } in
                self.first_postings(collection, near, DUPLICATES_NAMED + 1)?
            {
                // A document is not a duplicate of its own previous version.
                if id == document.id {
                    continue;
                }
                let similarity = collection.signatures.map(|shape| shape.similarity(distance));
                matches.push(Match { id, hash: near, distance, similarity, expires_ms, metadata: None });
            }
            if matches.len() >= DUPLICATES_NAMED {
                break;
            }
        }
        matches.sort_by(|a, b| (a.distance, &a.id).cmp(&(b.distance, &b.id)));
        matches.truncate(DUPLICATES_NAMED);
        Ok(matches)
    }

    /// The `wanted` nearest hashes within `k`, and whether these are all: in the index, and all those that
    /// the group adds.
    fn near_hashes(
        &self,
        collection: &Collection,
        subject: Subject<'_>,
        k: u32,
        wanted: usize,
    ) -> (Vec<Hash>, bool) {
        let Ok(found) = nearest(&*collection.index, subject, k, wanted, || Ok::<_, Infallible>(()));
        let is_complete = found.len() < wanted;
        let mut hashes: Vec<Hash> = found.into_iter().map(|near| near.hash).collect();
        let near =
            |other: &Hash| collection.index.distance(subject, *other).is_some_and(|distance| distance <= k);
        let of_group = self.postings.keys().filter(|(of, _)| *of == collection.id).map(|(_, hash)| *hash);
        hashes.extend(of_group.filter(near));
        hashes.sort_unstable();
        hashes.dedup();
        (hashes, is_complete)
    }
}

/// The subject of the search for near-duplicates of a document.
fn subject<'d>(collection: &Collection, document: &'d Document) -> Subject<'d> {
    Subject { hash: document.row.hash, signature: collection.signature_of(&document.row) }
}
