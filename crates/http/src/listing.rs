//! Lists of documents: pages, and exports.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State as From_;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::future::ready;
use futures::{StreamExt, TryStreamExt, stream};
use tower_http::compression::CompressionLayer;
use utoipa_axum::router::UtoipaMethodRouterExt;
use utoipa_axum::routes;

use super::State;
use super::body::Json;
use super::bulk;
use super::documents;
use super::error::Problem;
use super::extract::{Params, Target};
use super::responses::{NotFound, Refused, Unavailable};
use super::route::{READ, Routes};
use super::wire::{DocumentsOut, ExportHeader, ExportOut, ExportParams, HashFormat, ListParams};
use lookalike_hash::DocumentId;
use lookalike_run::call::{Call, Reserved, for_call, reserve, reserve_in_time};
use lookalike_service::{Exporting, Filter, Listing, Page, Patience};

/// Bytes of a page of an export. The document that reaches this size is the last one of the page.
const EXPORT_BYTES: usize = 256 << 10;
/// The time after which a page of an export ends.
const EXPORT_TIME: Duration = Duration::from_secs(1);

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_optional_collection(READ, routes!(list))
        .of_optional_collection(READ, routes!(export).layer(CompressionLayer::new()))
}

/// Lists documents in the order of their ids, without their texts.
///
/// A page has at most `limit` documents. If `filter` admits few of many documents, it may have fewer, or
/// none: the list ends only where there is no `next`.
#[utoipa::path(
    get, path = documents::PATH, tag = "documents", operation_id = "list_documents",
    params(ListParams),
    responses(
        (status = 200, description = "A page of documents.", body = DocumentsOut),
        NotFound, Refused, Unavailable,
    )
)]
async fn list(
    From_(state): From_<State>,
    Target(collection): Target,
    Params(params): Params<ListParams>,
) -> Result<Response, Problem> {
    let is_signed = state.service.has_signatures(&collection)?;
    let form = params.hash_format;
    let listed = state.service.list(&collection, params.wanted()).await;
    let listed = listed.map_err(|error| Problem::from(error).in_query())?;
    let bytes = listed.documents.iter().map(|(document, _)| document.row.held_bytes()).sum();
    let write = move || Json(DocumentsOut::new(listed, is_signed, form)).into_response();
    Ok(state.service.aside(bytes, write).await?)
}

/// Streams all documents as NDJSON, by id. `POST /documents` accepts these lines.
///
/// The first line is a header, `{"export": {"profile": …}}`: it states the profile of the hashes, and `POST
/// /documents` refuses hashes of another profile than that of the collection.
///
/// Documents that are added or deleted during the export may or may not be included.
#[utoipa::path(
    get, path = "/export", tag = "documents", operation_id = "export_documents",
    params(ExportParams),
    responses(
        (status = 200, description = "A header, then one document per line.", body = String,
            content_type = "application/x-ndjson"),
        NotFound, Refused, Unavailable,
    )
)]
async fn export(
    From_(state): From_<State>,
    Target(collection): Target,
    Params(params): Params<ExportParams>,
) -> Result<Response, Problem> {
    let (representatives, form) = (params.representatives, params.hash_format);
    let shown = Arc::new(Shown { representatives, form, filter: params.filter() });
    let exporting = state.service.begin_export(&collection, shown.filter.as_deref());
    let exporting = Arc::new(exporting.map_err(|error| Problem::from(error).in_query())?);
    let header = ExportHeader::new(exporting.info.clone(), &params).line();
    if shown.representatives {
        state.service.check_decided(&collection).await?;
    }
    // The first page is read before the status is sent: a missing collection is a 404, not a broken stream.
    let call = Call::current();
    let wanted = page_bytes(&state, call.as_deref());
    let first = page(&state, &exporting, None, &shown, reserve(wanted)?).await?;
    let pages = stream::try_unfold((Some(first), call), move |(previous, call)| {
        let (state, exporting, shown) = (state.clone(), Arc::clone(&exporting), Arc::clone(&shown));
        async move {
            let (lines, after) = match previous {
                Some((lines, Some(last))) => (lines, last),
                Some((lines, None)) => return Ok(Some((lines, (None, call)))),
                None => return Ok::<_, Problem>(None),
            };
            // The next page is read before this one is sent, so that the client does not wait for it.
            let reserved = reserve_in_time(call.as_ref(), wanted).await?;
            let next = page(&state, &exporting, Some(after), &shown, reserved);
            let next = for_call(call.clone(), next).await?;
            Ok(Some((lines, (Some(next), call))))
        }
    });
    let body = stream::once(ready(Ok(Bytes::from(header)))).chain(pages);
    let body = body.map_err(|problem| std::io::Error::other(problem.body_text()));
    let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((content_type, Body::from_stream(body)).into_response())
}

/// Which fields an export has.
struct Shown {
    representatives: bool,
    filter: Option<Box<Filter>>,
    /// The form of hashes.
    form: Option<HashFormat>,
}

/// The memory to reserve for a page, for its rows and its lines: at most what the client can have.
fn page_bytes(state: &State, call: Option<&Call>) -> usize {
    let limits = state.service.limits();
    let most = 2 * (EXPORT_BYTES + limits.document_bytes + limits.metadata_bytes);
    call.map_or(most, |call| most.min(call.most()))
}

/// A page of lines, and its last id if more pages may follow.
async fn page(
    state: &State,
    exporting: &Exporting,
    after: Option<DocumentId>,
    shown: &Shown,
    mut reserved: Reserved,
) -> Result<(Bytes, Option<DocumentId>), Problem> {
    let filter = shown.filter.clone();
    let (bytes, time, representatives) = (EXPORT_BYTES, EXPORT_TIME, shown.representatives);
    let wanted = Listing { after, filter, representatives, bytes, time, ..Listing::default() };
    let Page { documents, next, .. } = state.service.export(exporting, wanted).await?;
    let settings = exporting.info.settings.clone();
    let form = shown.form;
    let serialize = move || {
        let mut lines = Vec::new();
        for document in documents {
            bulk::write_line(&mut lines, &ExportOut::new(document, &settings, form));
        }
        lines.shrink_to_fit();
        lines
    };
    let lines = state.service.on_pool(Patience::Bulk, serialize).await?;
    reserved.shrink_to(lines.len());
    Ok((reserved.bytes_of(lines), next))
}
