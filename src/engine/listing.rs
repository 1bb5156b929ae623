//! Pages of documents in the order of their ids.

use std::time::Instant;

use super::cluster_queries::represents;
use super::shared::Shared;
use super::{Document, EngineError, Filter, Listing, Page};
use crate::ids::CollectionId;
use crate::pool::Cancel;

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
    for row in view.stored_rows_after(collection, wanted.after.as_ref()) {
        cancel.check()?;
        let (id, stored) = row?;
        let head = stored.head()?;
        let is_live = !head.has_lapsed(now_ms);
        examined += u64::from(is_live);
        let passes = |filter: &Filter| !filter.excludes(&id) && filter.admits(&head);
        let admits = is_live && wanted.filter.as_deref().is_none_or(passes);
        if admits && (!wanted.representatives || represents(&view, collection, &id)?) {
            let mut row = stored.row()?;
            row.text = row.text.filter(|_| wanted.has_texts);
            held += size_of::<Document>() + id.as_str().len() + row.held_bytes();
            documents.push(Document { id: id.clone(), row });
        }
        if documents.len() >= wanted.limit || held >= wanted.bytes || start.elapsed() >= wanted.time {
            return Ok(Page { documents, examined, next: Some(id) });
        }
    }
    Ok(Page { documents, examined, next: None })
}
