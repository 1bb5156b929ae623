//! A view: snapshot isolation for rows and postings.
//!
//! Drop it soon: compaction keeps everything that an open view can see.
//!
//! *Absent*: when a batch becomes visible (`keeper`).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use lsm_tree::{AbstractTree, Guard, SeqNo, UserValue};
use parking_lot::Mutex;

use super::Store;
use super::codec;
use super::error::StoreError;
use super::records::{Lists, Posting, PostingList, Row, RowHead};
use super::trees::Tree;
use lookalike_hash::{CollectionId, DocumentId, Hash, Sequence};

/// A consistent view of a [`Store`].
pub struct View<'a> {
    store: &'a Store,
    seqno: SeqNo,
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        self.store.core.trees.views.close(self.seqno);
    }
}

/// The bytes of a stored row.
pub struct StoredRow(UserValue);

impl StoredRow {
    /// The row without its text.
    ///
    /// # Errors
    /// [`StoreError`] if it does not read back.
    pub fn head(&self) -> Result<RowHead, StoreError> {
        codec::read_row_head(&self.0)
    }

    /// The whole row.
    ///
    /// # Errors
    /// [`StoreError`] if it does not read back.
    pub fn row(&self) -> Result<Row, StoreError> {
        Row::from_bytes(&self.0)
    }
}

impl<'a> View<'a> {
    pub(super) fn new(store: &'a Store) -> View<'a> {
        View { store, seqno: store.core.trees.views.open() }
    }

    pub(super) fn get(&self, tree: Tree, key: Vec<u8>) -> Result<Option<lsm_tree::UserValue>, StoreError> {
        Ok(self.store.core.trees.tree(tree).get(key, self.seqno)?)
    }

    pub(super) fn range(
        &self,
        tree: Tree,
        range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    ) -> impl DoubleEndedIterator<Item = Result<(lsm_tree::UserKey, lsm_tree::UserValue), StoreError>> + use<>
    {
        let entries = self.store.core.trees.tree(tree).range(range, self.seqno, None);
        entries.map(|entry| Ok(entry.into_inner()?))
    }

    /// The number of the last change that the view can see.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails.
    pub fn high_water(&self) -> Result<Sequence, StoreError> {
        let value = self.get(Tree::Meta, codec::HIGH_WATER.to_vec())?;
        Ok(Sequence(value.map_or(Ok(0), |value| codec::read_number(&value))?))
    }

    /// The row of a document.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails or the row does not read back.
    pub fn row(&self, collection: CollectionId, id: &DocumentId) -> Result<Option<Row>, StoreError> {
        let value = self.get(Tree::Rows, codec::row_key(collection, id))?;
        value.map(|value| Row::from_bytes(&value)).transpose()
    }

    /// The bytes of the row of a document; 0 if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails.
    pub fn row_bytes(&self, collection: CollectionId, id: &DocumentId) -> Result<usize, StoreError> {
        let rows = self.store.core.trees.tree(Tree::Rows);
        Ok(rows.size_of(codec::row_key(collection, id), self.seqno)?.unwrap_or(0) as usize)
    }

    /// The row of a document without its text; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails or the row does not read back.
    pub fn row_head(&self, collection: CollectionId, id: &DocumentId) -> Result<Option<RowHead>, StoreError> {
        let value = self.get(Tree::Rows, codec::row_key(collection, id))?;
        value.map(|value| codec::read_row_head(&value)).transpose()
    }

    /// The sketch or signature of a document; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails or the row does not read back.
    pub fn sketch(&self, collection: CollectionId, id: &DocumentId) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.get(Tree::Rows, codec::row_key(collection, id))?;
        Ok(value.map(|value| codec::read_row_sketch(&value)).transpose()?.flatten())
    }

    /// The rows of a collection in the order of their ids, starting after `after`.
    pub fn rows_after(
        &self,
        collection: CollectionId,
        after: Option<&DocumentId>,
    ) -> impl Iterator<Item = Result<(DocumentId, Row), StoreError>> + use<> {
        self.stored_rows_after(collection, after)
            .map(|entry| entry.and_then(|(id, row)| Ok((id, row.row()?))))
    }

    /// [`View::rows_after`] with stored rows, which the caller decodes in part or as a whole.
    pub fn stored_rows_after(
        &self,
        collection: CollectionId,
        after: Option<&DocumentId>,
    ) -> impl Iterator<Item = Result<(DocumentId, StoredRow), StoreError>> + use<> {
        self.stored_rows_with(collection, "", after)
    }

    /// [`View::stored_rows_after`], only those whose ids begin with `prefix`, as `after` does. The others are
    /// not read.
    pub fn stored_rows_with(
        &self,
        collection: CollectionId,
        prefix: &str,
        after: Option<&DocumentId>,
    ) -> impl Iterator<Item = Result<(DocumentId, StoredRow), StoreError>> + use<> {
        let rows = self.store.core.trees.tree(Tree::Rows);
        rows.range(codec::row_range(collection, prefix, after), self.seqno, None).map(|entry| {
            let (key, value) = entry.into_inner()?;
            Ok((codec::read_row_key(&key)?, StoredRow(value)))
        })
    }

    /// The posting list of `hash`; `None` if no document has the hash.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails or the posting list does not read back.
    pub fn posting_list(
        &self,
        lists: Lists,
        collection: CollectionId,
        hash: Hash,
    ) -> Result<Option<PostingList>, StoreError> {
        let value = self.get(lists.tree(), codec::posting_list_key(collection, hash))?;
        value.map(|value| codec::read_posting_list(&value)).transpose()
    }

    /// The postings of `hash` in the order of their ids, starting after `after`.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails or the posting list does not read back.
    pub fn postings(
        &self,
        lists: Lists,
        collection: CollectionId,
        hash: Hash,
        after: Option<&DocumentId>,
    ) -> Result<impl Iterator<Item = Result<Posting, StoreError>> + use<>, StoreError> {
        let (sole, shared) = match self.posting_list(lists, collection, hash)? {
            None => (None, None),
            Some(PostingList::One(posting)) => (Some(posting), None),
            Some(PostingList::Many(_)) => (None, Some(self.shared_postings(lists, collection, hash, after))),
        };
        let sole = sole.filter(|posting| after.is_none_or(|after| posting.id > *after));
        Ok(sole.map(Ok).into_iter().chain(shared.into_iter().flatten()))
    }

    /// The postings of `hash` in the order of their ids, starting after `after`. The posting list of `hash`
    /// must be [`PostingList::Many`].
    pub fn shared_postings(
        &self,
        lists: Lists,
        collection: CollectionId,
        hash: Hash,
        after: Option<&DocumentId>,
    ) -> impl Iterator<Item = Result<Posting, StoreError>> + use<> {
        let prefix = codec::posting_list_key(collection, hash);
        let skip = prefix.len();
        let postings = self.store.core.trees.tree(lists.shared_tree());
        postings.range(codec::after(&prefix, after), self.seqno, None).map(move |entry| {
            let (key, value) = entry.into_inner()?;
            codec::read_posting(&key[skip..], &value)
        })
    }
}

/// The states with open views, and the newest state.
pub(super) struct Views {
    /// One more than the sequence number of the last batch that is in the trees whole.
    published: AtomicU64,
    /// The number of open views of each state. Locked for the time of one change; no other lock is taken
    /// meanwhile.
    open: Mutex<BTreeMap<SeqNo, usize>>,
}

impl Views {
    pub(super) fn new(published: SeqNo) -> Views {
        Views { published: AtomicU64::new(published), open: Mutex::default() }
    }

    /// The newest state in which every batch is whole.
    pub(super) fn published(&self) -> SeqNo {
        self.published.load(Ordering::SeqCst)
    }

    /// Publishes the batch `seqno`, which must be in the trees whole.
    pub(super) fn publish(&self, seqno: SeqNo) {
        self.published.fetch_max(seqno + 1, Ordering::SeqCst);
    }

    /// Opens a view of the newest state.
    pub(super) fn open(&self) -> SeqNo {
        let mut open = self.open.lock();
        // Read under the lock: compaction must not drop a state between its choice and its registration.
        let seqno = self.published();
        *open.entry(seqno).or_default() += 1;
        seqno
    }

    /// Closes a view of a state.
    pub(super) fn close(&self, seqno: SeqNo) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&seqno) {
            *count -= 1;
            if *count == 0 {
                open.remove(&seqno);
            }
        }
    }

    /// Begins a read of the newest state without a longer view. The value that `begin` returns must keep
    /// what it reads alive.
    ///
    /// The state is registered while `begin` runs. Otherwise the tree could drop its last version that is
    /// old enough between the choice of the state and the read, and the read would panic.
    pub(super) fn at_newest<T>(&self, begin: impl FnOnce(SeqNo) -> T) -> T {
        let seqno = self.open();
        let begun = begin(seqno);
        self.close(seqno);
        begun
    }

    /// Entries older than this that were overwritten since are visible to no view.
    pub(super) fn horizon(&self) -> SeqNo {
        let open = self.open.lock();
        let oldest = open.first_key_value().map_or_else(|| self.published(), |(seqno, _)| *seqno);
        oldest.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_open_view_holds_the_horizon() {
        let views = Views::new(5);
        assert_eq!(views.horizon(), 4);
        let (first, again) = (views.open(), views.open());
        views.publish(9);
        let second = views.open();
        assert_eq!((first, again, second), (5, 5, 10));
        assert_eq!(views.horizon(), 4);
        views.close(first);
        assert_eq!(views.horizon(), 4);
        views.close(again);
        assert_eq!(views.horizon(), 9);
        views.close(second);
        assert_eq!(views.horizon(), 9);
    }
}
