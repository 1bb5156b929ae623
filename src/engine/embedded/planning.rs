//! What a group of operations does to the store: decided one after the other, written as one batch.
//!
//! The plan lies over the store like a sheet: what earlier operations of the group did is seen by later
//! ones, though nothing of it is durable yet.

use std::collections::{BTreeMap, HashMap};

use super::recent::Recent;
use super::registry::Collection;
use crate::engine::{Document, Match, Operation, Outcome, Row};
use crate::ids::{CollectionId, DocumentId, Hash, Sequence};
use crate::index::Neighbour;
use crate::store::{Batch, Bearer, Change, Posting, Store, StoreError, View};

/// How many documents a duplicate is told of, at most.
const DUPLICATES_NAMED: usize = 10;

/// Hashes that a check hands over, at most: some of them may be gone by the time the writer looks.
pub(super) const NEAREST: usize = 32;

/// A check for near-duplicates that was made before the operation reached the writer.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    /// The last change it can have seen.
    pub(super) seen: Sequence,
    /// The nearest hashes that it found, at most [`NEAREST`].
    pub(super) nearest: Vec<Hash>,
}

/// The hash and metadata that a document has come to have.
type Touched = (Hash, Option<String>);

/// The plan of a group.
pub(super) struct Plan<'a> {
    view: View<'a>,
    batch: Batch<'a>,
    next: Sequence,
    /// The hash of each document touched, or `None` if it was deleted.
    documents: HashMap<(CollectionId, DocumentId), Option<Touched>>,
    /// Who bears the hashes touched.
    postings: HashMap<(CollectionId, Hash), Option<Posting>>,
    /// Of shared hashes, the documents that came to bear them (with whether they have metadata) or ceased to.
    shared: HashMap<(CollectionId, Hash), BTreeMap<DocumentId, Option<bool>>>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(store: &'a Store, last: Sequence) -> Result<Plan<'a>, StoreError> {
        Ok(Plan {
            view: store.view(),
            batch: store.batch()?,
            next: last.next(),
            documents: HashMap::new(),
            postings: HashMap::new(),
            shared: HashMap::new(),
        })
    }

    /// The batch to commit, and the hashes whose postings it touches.
    pub(super) fn into_batch(self) -> (Batch<'a>, Vec<(CollectionId, Hash)>) {
        (self.batch, self.postings.into_keys().collect())
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
        let before = self.hash_of(collection, &id)?;
        let bearer = Bearer { id: id.clone(), has_metadata: row.metadata.is_some() };
        let added = self.bear(collection, hash, bearer, before == Some(hash))?;
        let moved_from = before.filter(|before| *before != hash);
        let removed = match moved_from {
            Some(before) => self.cease(collection, before, &id)?,
            None => None,
        };
        if let Some(hash) = added {
            recent.add(self.next, of, hash);
        }
        self.documents.insert((of, id.clone()), Some((hash, row.metadata.clone())));
        self.batch.put_row(of, &id, row, before.is_none());
        self.log(Change::Document { collection: of, added, removed });
        Ok(if before.is_some() { Outcome::Updated } else { Outcome::Created })
    }

    fn delete(&mut self, collection: &Collection, id: &DocumentId) -> Result<Outcome, StoreError> {
        let Some(before) = self.hash_of(collection, id)? else {
            return Ok(Outcome::Absent);
        };
        let removed = self.cease(collection, before, id)?;
        self.documents.insert((collection.id, id.clone()), None);
        self.batch.delete_row(collection.id, id);
        self.log(Change::Document { collection: collection.id, added: None, removed });
        Ok(Outcome::Deleted)
    }

    fn log(&mut self, change: Change) {
        self.batch.log(change);
        self.next = self.next.next();
    }

    /// A document comes to bear a hash, or still does (`already`); answers with the hash if nobody bore it before.
    fn bear(
        &mut self,
        collection: &Collection,
        hash: Hash,
        bearer: Bearer,
        already: bool,
    ) -> Result<Option<Hash>, StoreError> {
        let of = collection.id;
        match self.posting(collection, hash)? {
            None => {
                self.set_posting(of, hash, Some(Posting::Sole(bearer)));
                return Ok(Some(hash));
            }
            Some(Posting::Sole(other)) if other.id == bearer.id => {
                self.set_posting(of, hash, Some(Posting::Sole(bearer)));
            }
            Some(Posting::Sole(other)) => {
                self.set_posting(of, hash, Some(Posting::Shared(2)));
                self.share(of, hash, other);
                self.share(of, hash, bearer);
            }
            Some(Posting::Shared(bearers)) => {
                if !already {
                    self.set_posting(of, hash, Some(Posting::Shared(bearers + 1)));
                }
                self.share(of, hash, bearer);
            }
        }
        Ok(None)
    }

    /// A document ceases to bear a hash; answers with the hash if nobody bears it now.
    fn cease(
        &mut self,
        collection: &Collection,
        hash: Hash,
        id: &DocumentId,
    ) -> Result<Option<Hash>, StoreError> {
        let of = collection.id;
        // Counted and not looked up: what is left of a million bearers must not be searched for each that goes.
        if let Some(Posting::Shared(bearers)) = self.posting(collection, hash)? {
            self.batch.remove_shared(of, hash, id);
            self.shared.entry((of, hash)).or_default().insert(id.clone(), None);
            if bearers > 1 {
                self.set_posting(of, hash, Some(Posting::Shared(bearers - 1)));
                return Ok(None);
            }
        }
        self.set_posting(of, hash, None);
        Ok(Some(hash))
    }

    fn share(&mut self, of: CollectionId, hash: Hash, bearer: Bearer) {
        self.batch.add_shared(of, hash, &bearer);
        self.shared.entry((of, hash)).or_default().insert(bearer.id, Some(bearer.has_metadata));
    }

    fn set_posting(&mut self, of: CollectionId, hash: Hash, posting: Option<Posting>) {
        self.batch.set_posting(of, hash, posting.as_ref());
        self.postings.insert((of, hash), posting);
    }

    fn posting(&self, collection: &Collection, hash: Hash) -> Result<Option<Posting>, StoreError> {
        match self.postings.get(&(collection.id, hash)) {
            Some(touched) => Ok(touched.clone()),
            // The index holds every hash that a durable document bears; asking it spares the disk.
            None if !collection.index.contains(hash) => Ok(None),
            None => self.view.posting(collection.id, hash),
        }
    }

    fn hash_of(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Hash>, StoreError> {
        match self.documents.get(&(collection.id, id.clone())) {
            Some(touched) => Ok(touched.as_ref().map(|(hash, _)| *hash)),
            None => Ok(self.view.row(collection.id, id)?.map(|row| row.hash)),
        }
    }

    /// The first documents that bear a hash, by id.
    fn first_bearers(
        &self,
        collection: &Collection,
        hash: Hash,
        most: usize,
    ) -> Result<Vec<DocumentId>, StoreError> {
        match self.posting(collection, hash)? {
            None => return Ok(Vec::new()),
            Some(Posting::Sole(bearer)) => return Ok(vec![bearer.id]),
            Some(Posting::Shared(_)) => {}
        }
        let touched = self.shared.get(&(collection.id, hash));
        let bears = |(id, bears): (&DocumentId, &Option<bool>)| bears.map(|_| id.clone());
        let mut ids: Vec<DocumentId> = touched.into_iter().flatten().filter_map(bears).collect();
        let untouched = |id: &DocumentId| !touched.is_some_and(|touched| touched.contains_key(id));
        let mut stored = 0;
        for bearer in self.view.bearers(collection.id, hash, None)? {
            let id = bearer?.id;
            if untouched(&id) {
                ids.push(id);
                stored += 1;
                if stored >= most {
                    break;
                }
            }
        }
        ids.sort_unstable();
        ids.truncate(most);
        Ok(ids)
    }

    /// The documents within `k` as they are at this point of the group: the nearest first.
    fn near(
        &self,
        collection: &Collection,
        document: &Document,
        k: u32,
        checked: Option<&Checked>,
        recent: &Recent,
    ) -> Result<Vec<Match>, StoreError> {
        let hash = document.row.hash;
        if let Some(Checked { seen, nearest }) = checked
            && let Some(mut hashes) = recent.within(*seen, collection.id, hash, k)
        {
            let is_complete = nearest.len() < NEAREST;
            hashes.extend(nearest);
            let matches = self.bearers_of(collection, document, hashes)?;
            // If all that was found is gone again, what was not handed over may still be there.
            if is_complete || !matches.is_empty() {
                return Ok(matches);
            }
        }
        self.bearers_of(collection, document, self.near_hashes(collection, hash, k))
    }

    /// The first documents that bear one of these hashes, the nearest to `document` first, itself left out.
    fn bearers_of(
        &self,
        collection: &Collection,
        document: &Document,
        mut hashes: Vec<Hash>,
    ) -> Result<Vec<Match>, StoreError> {
        let hash = document.row.hash;
        hashes.sort_by_key(|near| (near.distance(hash), *near));
        hashes.dedup();
        let mut matches = Vec::new();
        for near in hashes {
            for id in self.first_bearers(collection, near, DUPLICATES_NAMED + 1)? {
                // Writing a document again is no duplicate of itself.
                if id == document.id {
                    continue;
                }
                let metadata = self.metadata(collection, &id)?;
                let distance = near.distance(hash).unwrap_or_default();
                matches.push(Match { id, hash: near, distance, metadata });
            }
            if matches.len() >= DUPLICATES_NAMED {
                break;
            }
        }
        matches.sort_by(|a, b| (a.distance, &a.id).cmp(&(b.distance, &b.id)));
        matches.truncate(DUPLICATES_NAMED);
        Ok(matches)
    }

    /// Hashes within `k` in the index and among those that the group itself adds.
    fn near_hashes(&self, collection: &Collection, hash: Hash, k: u32) -> Vec<Hash> {
        let mut found: Vec<Neighbour<Hash>> = Vec::new();
        collection.index.within(hash, k, &mut found);
        let mut hashes: Vec<Hash> = found.into_iter().map(|near| near.hash).collect();
        let near = |other: &Hash| other.distance(hash).is_some_and(|distance| distance <= k);
        let of_group = self.postings.keys().filter(|(of, _)| *of == collection.id).map(|(_, hash)| *hash);
        hashes.extend(of_group.filter(near));
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    fn metadata(&self, collection: &Collection, id: &DocumentId) -> Result<Option<String>, StoreError> {
        match self.documents.get(&(collection.id, id.clone())) {
            Some(touched) => Ok(touched.as_ref().and_then(|(_, metadata)| metadata.clone())),
            None => Ok(self.view.row(collection.id, id)?.and_then(|row: Row| row.metadata)),
        }
    }
}
