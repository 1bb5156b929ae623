//! A batch: changes that become durable together, each with its number in the history.
//!
//! *Absent*: the journal and the trees (`keeper`), and the decision which changes belong together.

use std::collections::HashMap;

use super::Store;
use super::clusters::ClusterChanges;
use super::codec;
use super::digest::Digest;
use super::error::StoreError;
use super::marks::{self, MarkCounts};
use super::records::{Change, CollectionRecord, Lists, Posting, PostingList, Row};
use super::trees::{Tree, Writes};
use lookalike_hash::{CollectionId, DocumentId, Hash, Mark, Sequence, Width};

/// Changes to be committed together. A batch that is dropped without [`Batch::commit`] has no effect.
pub struct Batch<'a> {
    store: &'a Store,
    pub(super) writes: Writes,
    last: Sequence,
    changes: Vec<Change>,
    differences: HashMap<CollectionId, Difference>,
}

/// The changes of a batch to the content of a collection.
#[derive(Default)]
struct Difference {
    documents: i64,
    digest: Digest,
    /// Whether the batch creates the collection, which has no digest before.
    is_created: bool,
}

impl<'a> Batch<'a> {
    pub(super) fn new(store: &'a Store, last: Sequence) -> Batch<'a> {
        Batch { store, writes: Writes::default(), last, changes: Vec::new(), differences: HashMap::new() }
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The changes logged so far.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Writes the row of a document, which had a row with the digest `before` or none. Returns the digest of
    /// the new row. The posting list of its hash is written separately.
    pub fn put_row(
        &mut self,
        collection: CollectionId,
        id: &DocumentId,
        row: &Row,
        before: Option<Digest>,
    ) -> Digest {
        let (key, value) = (codec::row_key(collection, id), row.to_bytes());
        let digest = Digest::of(&key, &value);
        let difference = self.differences.entry(collection).or_default();
        difference.documents += i64::from(before.is_none());
        difference.digest = difference.digest.plus(digest).minus(before.unwrap_or_default());
        self.writes.insert(Tree::Rows, key, value);
        digest
    }

    /// Deletes the row of a document, which has this digest.
    pub fn delete_row(&mut self, collection: CollectionId, id: &DocumentId, digest: Digest) {
        let difference = self.differences.entry(collection).or_default();
        difference.documents -= 1;
        difference.digest = difference.digest.minus(digest);
        self.writes.remove(Tree::Rows, codec::row_key(collection, id));
    }

    /// The difference that the batch makes to the sum of the digests of all collections.
    pub fn digest_difference(&self) -> Digest {
        self.differences.values().fold(Digest::default(), |sum, of| sum.plus(of.digest))
    }

    /// Writes an expiry entry. The row of the document has the same time.
    pub fn add_expiry(&mut self, collection: CollectionId, at_ms: u64, id: &DocumentId) {
        self.writes.insert(Tree::Expiries, codec::expiry_key(collection, at_ms, id), []);
    }

    /// Deletes an expiry entry.
    pub fn remove_expiry(&mut self, collection: CollectionId, at_ms: u64, id: &DocumentId) {
        self.writes.remove(Tree::Expiries, codec::expiry_key(collection, at_ms, id));
    }

    /// Records the current time, in milliseconds since 1970-01-01 UTC. The clock does not go back before
    /// it, even after a restart.
    pub fn record_time(&mut self, now_ms: u64) {
        self.writes.insert(Tree::Meta, codec::CLOCK, now_ms.to_be_bytes());
    }

    /// Writes the posting list of a hash, or deletes it if it is `None`.
    pub fn set_posting_list(
        &mut self,
        lists: Lists,
        collection: CollectionId,
        hash: Hash,
        posting_list: Option<&PostingList>,
    ) {
        let key = codec::posting_list_key(collection, hash);
        match posting_list {
            Some(posting_list) => {
                self.writes.insert(lists.tree(), key, codec::write_posting_list(posting_list));
            }
            None => self.writes.remove(lists.tree(), key),
        }
    }

    /// Writes the posting of one of the documents that share a hash.
    pub fn add_shared(&mut self, lists: Lists, collection: CollectionId, hash: Hash, posting: &Posting) {
        let key = codec::posting_key(collection, hash, &posting.id);
        self.writes.insert(lists.shared_tree(), key, codec::write_posting(posting));
    }

    /// Deletes the posting of one of the documents that share a hash.
    pub fn remove_shared(&mut self, lists: Lists, collection: CollectionId, hash: Hash, id: &DocumentId) {
        self.writes.remove(lists.shared_tree(), codec::posting_key(collection, hash, id));
    }

    /// Writes a new collection, whose number must be [`Store::next_collection_id`].
    pub fn create_collection(&mut self, record: &CollectionRecord) {
        let last = u64::from(record.id.0).to_be_bytes();
        self.writes.insert(Tree::Meta, codec::LAST_COLLECTION, last);
        self.differences.entry(record.id).or_default().is_created = true;
        self.change_collection(record);
    }

    /// Writes the new settings of a collection.
    pub fn change_collection(&mut self, record: &CollectionRecord) {
        self.writes.insert_twice(&codec::collection_key(record.id), &codec::write(record));
    }

    /// Deletes a collection. [`Store::sweep`] deletes its rows later.
    pub fn delete_collection(&mut self, id: CollectionId, width: Width) {
        self.writes.remove_twice(&codec::collection_key(id));
        self.writes.insert_twice(&codec::garbage_key(id), &codec::write_width(width));
    }

    /// Reserves the number of a collection that is filled while it is invisible. Until
    /// [`Batch::finish_restore`] it counts as a deleted one.
    pub fn begin_restore(&mut self, id: CollectionId, width: Width) {
        self.writes.insert(Tree::Meta, codec::LAST_COLLECTION, u64::from(id.0).to_be_bytes());
        self.differences.entry(id).or_default().is_created = true;
        self.writes.insert_twice(&codec::garbage_key(id), &codec::write_width(width));
    }

    /// Makes a collection visible after it was filled.
    pub fn finish_restore(&mut self, record: &CollectionRecord) {
        self.writes.remove_twice(&codec::garbage_key(record.id));
        self.change_collection(record);
    }

    /// Changes clusters.
    pub fn change_clusters(&mut self, changes: &ClusterChanges) {
        self.writes.change_clusters(changes);
    }

    /// Writes a mark, which must not exist, with the time at which it was made, in milliseconds since
    /// 1970-01-01 UTC.
    pub fn add_mark(&mut self, collection: CollectionId, mark: &Mark, marked_ms: u64) {
        let difference = self.differences.entry(collection).or_default();
        for key in marks::keys(collection, mark) {
            let value = marked_ms.to_be_bytes();
            difference.digest = difference.digest.plus(Digest::of(&key, &value));
            self.writes.insert(Tree::Marks, key, value);
        }
    }

    /// Removes a mark, which was made at this time.
    pub fn remove_mark(&mut self, collection: CollectionId, mark: &Mark, marked_ms: u64) {
        let difference = self.differences.entry(collection).or_default();
        for key in marks::keys(collection, mark) {
            difference.digest = difference.digest.minus(Digest::of(&key, &marked_ms.to_be_bytes()));
            self.writes.remove(Tree::Marks, key);
        }
    }

    /// Writes the numbers of marks in a collection.
    pub fn set_mark_counts(&mut self, collection: CollectionId, counts: MarkCounts) {
        self.writes.insert(Tree::Meta, codec::mark_counts_key(collection), marks::write_counts(counts));
    }

    /// Appends a change to the history.
    pub fn record(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Makes the batch durable and returns the number of its last change.
    ///
    /// # Errors
    /// [`StoreError::Full`] if the disk has no space: then nothing was written. After any other error it is
    /// unknown whether the batch is durable, and the store accepts no more writes until it is opened again.
    pub fn commit(self) -> Result<Sequence, StoreError> {
        self.commit_telling(|| ())
    }

    /// [`Batch::commit`] that calls `before_visible` when the batch is durable and before a view can see it.
    ///
    /// # Errors
    /// See [`Batch::commit`].
    pub fn commit_telling(mut self, before_visible: impl FnOnce()) -> Result<Sequence, StoreError> {
        for (&collection, difference) in &self.differences {
            let documents = self.store.documents(collection)?.saturating_add_signed(difference.documents);
            let key = codec::documents_key(collection);
            self.writes.insert(Tree::Meta, key, documents.to_be_bytes());
            let before = self.store.digest(collection)?;
            if let Some(digest) = before.or(difference.is_created.then(Digest::default)) {
                let digest = digest.plus(difference.digest).to_bytes();
                self.writes.insert(Tree::Meta, codec::digest_key(collection), digest);
            }
        }
        let first = self.last.next();
        let last = Sequence(self.last.0 + self.changes.len() as u64);
        if !self.changes.is_empty() {
            self.writes.insert(Tree::History, first.0.to_be_bytes(), codec::write(&self.changes));
            self.writes.insert(Tree::Meta, codec::HIGH_WATER, last.0.to_be_bytes());
        }
        self.store.core.commit(&self.writes, before_visible)?;
        Ok(last)
    }
}
