//! Stored documents: one by its id, and pages of them in the order of their ids.

use std::sync::Arc;
use std::time::Duration;

use super::Service;
use super::clusters::placements_of;
use super::cursor;
use super::error::ServiceError;
use lookalike_engine::{Collection, CollectionInfo, Document, EngineError, Filter, Listing, Page, Placement};
use lookalike_hash::{CollectionName, DocumentId};
use lookalike_run::pool::{Cancel, Patience};

/// Bytes of documents at which a page of a list ends.
const PAGE_BYTES: usize = 1 << 20;
/// The time after which a page of a list ends, with the documents found so far.
const PAGE_TIME: Duration = Duration::from_millis(250);

/// A request for a page of a list.
#[derive(Clone, Debug, Default)]
pub struct WantedList {
    /// The `next` of the previous page.
    pub cursor: Option<String>,
    /// The maximum number of documents.
    pub limit: Option<usize>,
    /// Which documents are listed; `None` for all.
    pub filter: Option<Box<Filter>>,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The documents, without their texts, each with its cluster in a collection with clusters.
    pub documents: Vec<(Document, Option<Placement>)>,
    /// The cursor of the next page, if more documents may follow.
    pub next: Option<String>,
}

/// A collection that is exported.
pub struct Exporting {
    collection: Arc<Collection>,
    /// Its state at the beginning.
    pub info: CollectionInfo,
}

impl Service {
    /// Returns a document.
    ///
    /// # Errors
    /// [`ServiceError::NoDocument`] if it does not exist.
    pub async fn document(
        &self,
        collection: &CollectionName,
        id: &DocumentId,
    ) -> Result<Document, ServiceError> {
        self.document_in(&self.engine()?.find(collection)?, id).await
    }

    /// Returns a document of this collection, which may have been replaced by one of the same name.
    pub(super) async fn document_in(
        &self,
        collection: &Arc<Collection>,
        id: &DocumentId,
    ) -> Result<Document, ServiceError> {
        let engine = self.engine()?;
        let found = if Service::goes_aside(engine.row_bytes(collection, id)?) {
            // The text may have megabytes; reading it here would delay other requests.
            let (engine, collection, id) = (Arc::clone(engine), Arc::clone(collection), id.clone());
            let read = move |_: &Cancel| engine.get(&collection, &id);
            self.pool.run(Patience::Interactive, read).await??
        } else {
            engine.get(collection, id)?
        };
        let absent = || ServiceError::NoDocument { collection: collection.name().clone(), id: id.clone() };
        found.ok_or_else(absent)
    }

    /// Lists documents without their texts. If a filter admits few of many documents, a page may have fewer
    /// than the limit, or none, and a cursor.
    ///
    /// # Errors
    /// [`ServiceError::Cursor`], [`ServiceError::Invalid`], and the errors of the engine.
    pub async fn list(
        &self,
        collection: &CollectionName,
        wanted: WantedList,
    ) -> Result<Listed, ServiceError> {
        let WantedList { cursor, limit, filter } = wanted;
        let read = |text: &str| cursor::read_id(text).ok_or(ServiceError::Cursor);
        let after = cursor.as_deref().map(read).transpose()?;
        let limit = self.checked_limit(limit)?;
        self.check_filter(filter.as_deref())?;
        let (bytes, time) = (PAGE_BYTES, PAGE_TIME);
        let wanted = Listing { after, filter, limit, bytes, time, has_texts: false, ..Listing::default() };
        let collection = self.engine()?.find(collection)?;
        let Page { documents, next, .. } = self.engine()?.list(&collection, wanted).await?;
        let documents = self.placed(collection, documents).await?;
        Ok(Listed { documents, next: next.as_ref().map(cursor::write_id) })
    }

    /// Adds the clusters of documents in a collection with clusters.
    async fn placed(
        &self,
        collection: Arc<Collection>,
        documents: Vec<Document>,
    ) -> Result<Vec<(Document, Option<Placement>)>, ServiceError> {
        if collection.settings().clusters.is_none() {
            return Ok(documents.into_iter().map(|document| (document, None)).collect());
        }
        let engine = Arc::clone(self.engine()?);
        let ids: Vec<DocumentId> = documents.iter().map(|document| document.id.clone()).collect();
        let place = move |_: &Cancel| placements_of(&engine, &collection, &ids);
        let placements = self.pool.run(Patience::Bulk, place).await?;
        Ok(documents.into_iter().zip(placements).collect())
    }

    /// Opens a collection for an export: all its pages are of the same collection, also if a reindex replaces
    /// it meanwhile.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if there is no such collection, [`EngineError::Switching`] if it is
    /// replaced at this moment, and [`ServiceError::Invalid`] if the filter is too large.
    pub fn begin_export(
        &self,
        name: &CollectionName,
        filter: Option<&Filter>,
    ) -> Result<Exporting, ServiceError> {
        self.check_filter(filter)?;
        let engine = self.engine()?;
        let (collection, info) = (engine.find(name)?, engine.collection(name)?);
        if info.settings.made_by() != collection.settings().made_by() {
            return Err(EngineError::Switching(name.clone()).into());
        }
        Ok(Exporting { collection, info })
    }

    /// Returns a page of whole documents, for an export.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if the collection was deleted.
    pub async fn export(&self, exporting: &Exporting, wanted: Listing) -> Result<Page, ServiceError> {
        Ok(self.engine()?.list(&exporting.collection, wanted).await?)
    }
}
