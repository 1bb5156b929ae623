//! A view: rows and postings as they were at one moment.
//!
//! Hold it briefly: what it can see is not reclaimed before it goes.

use fjall::Readable;

use super::Store;
use super::codec;
use super::error::StoreError;
use super::records::Row;
use crate::ids::{CollectionId, DocumentId, Hash};

/// A consistent view of a [`Store`].
pub struct View<'a> {
    store: &'a Store,
    snapshot: fjall::Snapshot,
}

impl<'a> View<'a> {
    pub(super) fn new(store: &'a Store) -> View<'a> {
        View { store, snapshot: store.db.snapshot() }
    }

    /// The row of a document.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails or the row does not read back.
    pub fn row(&self, collection: CollectionId, id: &DocumentId) -> Result<Option<Row>, StoreError> {
        let value = self.snapshot.get(&self.store.rows, codec::row_key(collection, id))?;
        value.map(|value| codec::read_row(&value)).transpose()
    }

    /// The rows of a collection in the order of their ids, from the one after `after`.
    pub fn rows_after(
        &self,
        collection: CollectionId,
        after: Option<&DocumentId>,
    ) -> impl Iterator<Item = Result<(DocumentId, Row), StoreError>> + use<> {
        self.snapshot.range(&self.store.rows, codec::row_range(collection, after)).map(|entry| {
            let (key, value) = entry.into_inner()?;
            Ok((codec::read_row_key(&key)?, codec::read_row(&value)?))
        })
    }

    /// The documents that bear `hash`, in the order of their ids, from the one after `after`.
    pub fn bearers(
        &self,
        collection: CollectionId,
        hash: Hash,
        after: Option<&DocumentId>,
    ) -> impl Iterator<Item = Result<DocumentId, StoreError>> + use<> {
        let prefix = codec::posting_prefix(collection, hash);
        let skip = prefix.len();
        let entries = self.snapshot.range(&self.store.postings, codec::after(prefix, after));
        entries.map(move |entry| codec::read_id(&entry.key()?[skip..]))
    }
}
