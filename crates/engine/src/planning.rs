//! The plan of a group: its operations are decided one after the other and written as one batch.
//!
//! The plan overlays the store: later operations of the group see the effects of earlier ones, although none
//! of them is durable yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;
use xxhash_rust::xxh3::xxh3_128;

use super::condition::is_same;
use super::lists::{ListKey, gram_keys};
use super::near_duplicates::Checked;
use super::posting_cache::{CachedPosting, TouchedHash};
use super::recent::Recent;
use super::registry::Collection;
use crate::{Condition, Document, Operation, Outcome, Version};
use lookalike_hash::{CollectionId, DocumentId, Sequence};
use lookalike_store::{
    Batch, Change, ClusterChanges, Digest, Expiry, Lists, Posting, PostingList, Row, RowHead, Store,
    StoreError, View,
};

/// The bits of a place that count the documents of a millisecond.
const PLACE_BITS: u32 = 20;

/// A document of a collection with clusters that was put, or removed.
pub(super) struct Touched {
    pub(super) collection: CollectionId,
    pub(super) id: DocumentId,
    /// Its row and its signature if it was put.
    pub(super) put: Option<(RowHead, Option<Vec<u8>>)>,
}

/// The row of a document, its digest, and the hash of its text if it has one.
type Planned = (RowHead, Digest, Option<u128>);

/// The plan of a group.
pub(super) struct Plan<'a> {
    pub(super) view: View<'a>,
    pub(super) batch: Batch<'a>,
    next: Sequence,
    /// The time of the group. Documents that have expired by then do not exist for its operations.
    pub(super) now_ms: u64,
    /// The earliest expiry of the documents that were put.
    soonest_ms: Option<u64>,
    /// Each touched document; `None` if it is deleted.
    documents: HashMap<(CollectionId, DocumentId), Option<Planned>, RandomState>,
    /// The texts of documents that were put, where later operations may be compared with them.
    texts: HashMap<(CollectionId, DocumentId), Arc<str>, RandomState>,
    /// The sketches of documents that were put.
    sketches: HashMap<(CollectionId, DocumentId), Vec<u8>, RandomState>,
    /// The touched posting lists; `None` if one is empty.
    pub(super) postings: HashMap<ListKey, Option<PostingList>, RandomState>,
    /// Stored posting lists of grams that were read ahead.
    pub(super) read_ahead: HashMap<ListKey, Option<PostingList>, RandomState>,
    /// The documents that were put or removed in collections with clusters, in order.
    pub(super) touched: Vec<Touched>,
    /// Changes of clusters.
    pub(super) clusters: Vec<ClusterChanges>,
    /// The place of the next new document.
    pub(super) next_place: u64,
    /// For touched lists of several postings: the added postings, and `None` for removed ones.
    pub(super) shared: HashMap<ListKey, BTreeMap<DocumentId, Option<Posting>>, RandomState>,
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
            texts: HashMap::default(),
            sketches: HashMap::default(),
            postings: HashMap::default(),
            read_ahead: HashMap::default(),
            shared: HashMap::default(),
            touched: Vec::new(),
            clusters: Vec::new(),
            next_place: place(now_ms),
        })
    }

    /// Continues at a later time.
    pub(super) fn advance(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.next_place = self.next_place.max(place(now_ms));
    }

    /// Reserves capacity for this many further operations.
    pub(super) fn reserve(&mut self, operations: usize) {
        self.documents.reserve(operations);
        self.postings.reserve(operations);
    }

    /// The batch to commit, and the hashes whose postings it touches.
    pub(super) fn into_batch(mut self) -> (Batch<'a>, Vec<TouchedHash>) {
        self.write_lists();
        self.clusters.iter().for_each(|changes| self.batch.change_clusters(changes));
        let mut documents = self.documents;
        let touched = |((lists, collection, hash), posting_list)| {
            if lists == Lists::Grams {
                return None;
            }
            let posting = match posting_list {
                Some(PostingList::One(Posting { id, expires_ms, .. })) => {
                    // The document has only this hash, so no other hash needs the entry.
                    let document = documents.remove(&(collection, id.clone())).flatten();
                    document.map(|(row, ..)| CachedPosting { id, expires_ms, metadata: row.metadata })
                }
                Some(PostingList::Many(_)) | None => None,
            };
            Some(TouchedHash { collection, hash, posting })
        };
        (self.batch, self.postings.into_iter().filter_map(touched).collect())
    }

    /// The documents that were touched, with their collections.
    pub(super) fn touched_ids(&self) -> impl Iterator<Item = &(CollectionId, DocumentId)> {
        self.documents.keys()
    }

    /// The earliest expiry of the documents that were put.
    pub(super) fn soonest_ms(&self) -> Option<u64> {
        self.soonest_ms
    }

    /// Decides one operation after those before it.
    pub(super) fn decide(
        &mut self,
        collection: &Collection,
        operation: Operation,
        checked: Option<&Checked>,
        recent: &mut Recent,
    ) -> Result<Outcome, StoreError> {
        match operation {
            Operation::Delete { id, condition } => match self.refusal(collection, &id, &condition)? {
                Some(refused) => Ok(refused),
                None => self.delete(collection, &id),
            },
            Operation::Put { document, unless, condition } => {
                if condition == Condition::Repeats
                    && let Some(outcome) = self.repeated(collection, &document)?
                {
                    return Ok(outcome);
                }
                if let Some(refused) = self.refusal(collection, &document.id, &condition)? {
                    return Ok(refused);
                }
                let Some(rule) = unless else {
                    return self.put(collection, document, recent);
                };
                if rule.replaces {
                    return self.replace(collection, document, &rule, recent);
                }
                let mut near = self.near(collection, &document, &rule, checked, recent)?;
                if let (true, Some(least)) = (near.is_empty(), rule.containment) {
                    near = self.containing(collection, &document, least)?;
                }
                if near.is_empty() {
                    return self.put(collection, document, recent);
                }
                Ok(Outcome::Duplicate(near))
            }
        }
    }

    /// The outcome of an operation on this document if its condition does not hold.
    fn refusal(
        &self,
        collection: &Collection,
        id: &DocumentId,
        condition: &Condition,
    ) -> Result<Option<Outcome>, StoreError> {
        if *condition == Condition::None {
            return Ok(None);
        }
        let row = self.live_row(collection, id)?;
        let version = row.map(|row| Version::of_document(row.place, row.written_ms, row.hash));
        Ok((!condition.holds(version)).then_some(Outcome::Refused(version)))
    }

    /// The outcome for a document that may have been sent before; `None` if none is stored under its id.
    fn repeated(&self, collection: &Collection, document: &Document) -> Result<Option<Outcome>, StoreError> {
        let Some(stored) = self.live_row(collection, &document.id)? else { return Ok(None) };
        let version = Version::of_document(stored.place, stored.written_ms, stored.hash);
        let made = (stored.hash, stored.characters);
        let is_same = is_same(&document.row, made, stored.metadata.as_deref())
            && self.may_have_text(collection, document)?;
        let refused = Outcome::Refused(Some(version));
        Ok(Some(if is_same { Outcome::Repeated(version, stored.lifetime.end_ms()) } else { refused }))
    }

    /// Whether the text of a document is that of the stored or planned one, or one of them has none.
    fn may_have_text(&self, collection: &Collection, document: &Document) -> Result<bool, StoreError> {
        let Some(sent) = document.row.text.as_deref().map(hash_of_text) else { return Ok(true) };
        let stored = if let Some(planned) = self.documents.get(&(collection.id, document.id.clone())) {
            planned.as_ref().and_then(|(.., text)| *text)
        } else {
            let row = self.view.row(collection.id, &document.id)?;
            row.and_then(|row| row.text).as_deref().map(hash_of_text)
        };
        Ok(stored.is_none_or(|stored| stored == sent))
    }

    /// The kept text of a stored or planned document; `None` if there is none, or if it was put by this group
    /// and is not kept for it.
    pub(super) fn text(
        &self,
        collection: &Collection,
        id: &DocumentId,
    ) -> Result<Option<Arc<str>>, StoreError> {
        let key = (collection.id, id.clone());
        if self.documents.contains_key(&key) {
            return Ok(self.texts.get(&key).cloned());
        }
        Ok(self.view.row(collection.id, id)?.and_then(|row| row.text).map(Arc::from))
    }

    /// The sketch of a stored or planned document, if it has one.
    pub(super) fn sketch(
        &self,
        collection: &Collection,
        id: &DocumentId,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let key = (collection.id, id.clone());
        if self.documents.contains_key(&key) {
            return Ok(self.sketches.get(&key).cloned());
        }
        self.view.sketch(collection.id, id)
    }

    pub(super) fn put(
        &mut self,
        collection: &Collection,
        document: Document,
        recent: &mut Recent,
    ) -> Result<Outcome, StoreError> {
        let Document { id, mut row } = document;
        let (of, hash) = (collection.id, row.hash);
        let (before, before_digest) = self.stored(collection, &id)?.unzip();
        row.place = self.place_of(&row, before.as_ref());
        // Two writes in one millisecond have different versions. A document that has expired does not count:
        // not all replicas remove it at the same time.
        let earlier = before.as_ref().filter(|before| !before.has_lapsed(self.now_ms));
        row.written_ms = earlier.map_or(0, |earlier| earlier.written_ms + 1).max(row.written_ms);
        let version = Version::of_document(row.place, row.written_ms, row.hash);
        let end_ms = row.lifetime.end_ms();
        let posting = Posting { id: id.clone(), has_metadata: row.metadata.is_some(), expires_ms: end_ms };
        let before_hash = before.as_ref().map(|before| before.hash);
        let key = (Lists::Hashes, of, hash);
        let added = self.add_posting(collection, key, posting.clone(), before_hash == Some(hash))?;
        let removed = match before_hash.filter(|before| *before != hash) {
            Some(before) => self.remove_posting(collection, (Lists::Hashes, of, before), &id)?,
            None => None,
        };
        let expired_before = before.as_ref().and_then(|before| before.lifetime.end_ms());
        self.set_expiry(of, &id, expired_before, end_ms);
        let has_sketch = row.sketch.is_some() && collection.signatures.is_none();
        // Another document with this hash may have failed a check that this one passes.
        if added.is_some() || has_sketch {
            recent.add(self.next, of, hash);
        }
        if let (Some(hash), Some(signature)) = (added, collection.signature_of(&row)) {
            collection.index.announce(hash, signature);
        }
        self.change_grams(collection, before.as_ref(), &row.grams, &posting)?;
        let text = row.text.as_deref().map(hash_of_text);
        match row.text.as_deref().filter(|_| collection.keeps_grams()) {
            Some(text) => drop(self.texts.insert((of, id.clone()), text.into())),
            None => drop(self.texts.remove(&(of, id.clone()))),
        }
        let digest = self.batch.put_row(of, &id, &row, before_digest);
        let (sketch, signature) = if has_sketch { (row.sketch, None) } else { (None, row.sketch) };
        match sketch {
            Some(sketch) => self.sketches.insert((of, id.clone()), sketch),
            None => self.sketches.remove(&(of, id.clone())),
        };
        let touched = RowHead {
            hash,
            features: row.features,
            short: row.short,
            characters: row.characters,
            place: row.place,
            written_ms: row.written_ms,
            lifetime: row.lifetime,
            metadata: row.metadata,
            grams: row.grams,
        };
        if collection.has_clusters() {
            let put = Some((touched.clone(), signature));
            self.touched.push(Touched { collection: of, id: id.clone(), put });
        }
        self.documents.insert((of, id), Some((touched, digest, text)));
        self.record(Change::Document { collection: of, added, removed });
        // A document that has expired but is still stored does not exist for clients.
        let was_there = before.is_some_and(|before| !before.has_lapsed(self.now_ms));
        Ok(if was_there { Outcome::Updated(version) } else { Outcome::Created(version) })
    }

    pub(super) fn delete(&mut self, collection: &Collection, id: &DocumentId) -> Result<Outcome, StoreError> {
        let Some((before, digest)) = self.stored(collection, id)? else {
            return Ok(Outcome::Absent);
        };
        let was_there = !before.has_lapsed(self.now_ms);
        self.remove(collection, id, &before, digest)?;
        Ok(if was_there { Outcome::Deleted } else { Outcome::Absent })
    }

    /// Removes an expired document. Returns whether it existed with this expiry time.
    pub(super) fn expire(&mut self, collection: &Collection, expiry: &Expiry) -> Result<bool, StoreError> {
        let Expiry { at_ms, id, .. } = expiry;
        let before =
            self.stored(collection, id)?.filter(|(before, _)| before.lifetime.end_ms() == Some(*at_ms));
        if let Some((before, digest)) = &before {
            self.remove(collection, id, before, *digest)?;
        }
        Ok(before.is_some())
    }

    fn remove(
        &mut self,
        collection: &Collection,
        id: &DocumentId,
        before: &RowHead,
        digest: Digest,
    ) -> Result<(), StoreError> {
        let of = collection.id;
        let removed = self.remove_posting(collection, (Lists::Hashes, of, before.hash), id)?;
        for gram in gram_keys(&before.grams) {
            self.remove_posting(collection, (Lists::Grams, of, gram), id)?;
        }
        self.set_expiry(collection.id, id, before.lifetime.end_ms(), None);
        if collection.has_clusters() {
            self.touched.push(Touched { collection: of, id: id.clone(), put: None });
        }
        self.documents.insert((collection.id, id.clone()), None);
        self.batch.delete_row(collection.id, id, digest);
        self.record(Change::Document { collection: collection.id, added: None, removed });
        Ok(())
    }

    /// The place of a document in the order of arrival. A document that replaces an earlier version has the
    /// place of that one; one from a backup or an export has the place that it had.
    fn place_of(&mut self, row: &Row, before: Option<&RowHead>) -> u64 {
        if let Some(before) = before.filter(|before| !before.has_lapsed(self.now_ms)) {
            return before.place;
        }
        if row.place != 0 {
            return row.place;
        }
        self.next_place += 1;
        self.next_place - 1
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

    fn record(&mut self, change: Change) {
        self.batch.record(change);
        self.next = self.next.next();
    }

    /// The stored or planned document; `None` if it has expired.
    pub(super) fn live_row(
        &self,
        collection: &Collection,
        id: &DocumentId,
    ) -> Result<Option<RowHead>, StoreError> {
        let row = self.current(collection, id)?;
        Ok(row.filter(|row| !row.has_lapsed(self.now_ms)))
    }

    /// The stored or planned document, expired or not. Its text, which may have megabytes, is not read.
    pub(super) fn current(
        &self,
        collection: &Collection,
        id: &DocumentId,
    ) -> Result<Option<RowHead>, StoreError> {
        match self.documents.get(&(collection.id, id.clone())) {
            Some(touched) => Ok(touched.as_ref().map(|(row, ..)| row.clone())),
            None => self.view.row_head(collection.id, id),
        }
    }

    /// The stored or planned document with its digest, expired or not.
    fn stored(
        &self,
        collection: &Collection,
        id: &DocumentId,
    ) -> Result<Option<(RowHead, Digest)>, StoreError> {
        match self.documents.get(&(collection.id, id.clone())) {
            Some(touched) => Ok(touched.as_ref().map(|(row, digest, _)| (row.clone(), *digest))),
            None => self.view.row_head_and_digest(collection.id, id),
        }
    }
}

fn hash_of_text(text: &str) -> u128 {
    xxh3_128(text.as_bytes())
}

/// The first place of the documents that arrive at this time, in milliseconds.
pub(super) fn place(now_ms: u64) -> u64 {
    now_ms.clamp(1, u64::MAX >> PLACE_BITS) << PLACE_BITS
}
