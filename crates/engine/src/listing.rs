//! Stored documents: by their ids, and in pages in the order of their ids.

use std::sync::Arc;
use std::time::Instant;

use super::cluster_queries::represents;
use super::registry::Collection;
use super::shared::Shared;
use super::{Document, Engine, EngineError, Filter, Listing, Page};
use lookalike_hash::{CollectionId, DocumentId};
use lookalike_run::pool::{Cancel, Patience};

/// Reads one page.
pub(super) fn page(
    shared: &Shared,
    collection: CollectionId,
    wanted: &Listing,
    cancel: &Cancel,
) -> Result<Page, EngineError> {
    let (start, now_ms) = (Instant::now(), shared.clock.now_ms());
    let view = shared.store.view();
    let (mut documents, mut held, mut examined) = (Vec::new(), 0, 0);
    let prefix = wanted.filter.as_deref().map_or("", |filter| &filter.id_prefix);
    let after = wanted.after.as_ref().filter(|id| id.as_str() >= prefix);
    if after.is_some_and(|id| !id.as_str().starts_with(prefix)) {
        return Ok(Page { documents, examined, next: None });
    }
    for row in view.stored_rows_with(collection, prefix, after) {
        cancel.check()?;
        let (id, stored) = row?;
        let head = stored.head()?;
        let is_live = !head.has_lapsed(now_ms);
        examined += u64::from(is_live);
        let passes = |filter: &Filter| !filter.excludes(&id) && filter.admits(&head);
        let admits = is_live && wanted.filter.as_deref().is_none_or(passes);
        if admits && (!wanted.representatives || represents(&view, collection, &id)?) {
            let mut row = stored.row()?;
            if !wanted.has_texts {
                (row.text, row.thumbnail) = (None, None);
            }
            held += size_of::<Document>() + id.as_str().len() + row.held_bytes();
            documents.push(Document { id: id.clone(), row });
        }
        if documents.len() >= wanted.limit || held >= wanted.bytes || start.elapsed() >= wanted.time {
            return Ok(Page { documents, examined, next: Some(id) });
        }
    }
    Ok(Page { documents, examined, next: None })
}

impl Engine {
    /// Returns a document of this collection, which may have been replaced by one of the same name; `None` if
    /// it does not exist.
    pub fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>, EngineError> {
        let row = self.shared.store.view().row(collection.id, id)?;
        let row = row.filter(|row| !row.has_lapsed(self.now_ms()));
        Ok(row.map(|row| Document { id: id.clone(), row }))
    }

    /// How many of these documents exist.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub fn count(&self, collection: &Collection, ids: &[DocumentId]) -> Result<u64, EngineError> {
        let (view, now_ms) = (self.shared.store.view(), self.now_ms());
        let mut found = 0;
        for id in ids {
            let row = view.row_head(collection.id, id)?;
            found += u64::from(row.is_some_and(|row| !row.has_lapsed(now_ms)));
        }
        Ok(found)
    }

    /// The bytes of a stored document, without reading it; 0 if there is none.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn row_bytes(&self, collection: &Collection, id: &DocumentId) -> Result<usize, EngineError> {
        Ok(self.shared.store.view().row_bytes(collection.id, id)?)
    }

    /// Returns a page of documents in the order of their ids. If there are any, it has at least one or the
    /// time is over.
    ///
    /// A collection that a reindex replaced is read to its end.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if the collection was deleted.
    pub async fn list(&self, collection: &Arc<Collection>, wanted: Listing) -> Result<Page, EngineError> {
        let (shared, held) = (Arc::clone(&self.shared), Arc::clone(collection));
        let read = move |cancel: &Cancel| page(&shared, held.id, &wanted, cancel);
        let page = self.pool.run(Patience::Bulk, read).await??;
        // Its rows may have been removed before they were read.
        let name = collection.name();
        let is_there =
            self.shared.registry.find(name).is_some_and(|found| found.created_ms == collection.created_ms);
        if is_there { Ok(page) } else { Err(EngineError::NoCollection(name.clone())) }
    }
}
