//! A dry run: what would become of documents if they were stored.

use axum::extract::{Extension, Request, State as From_};
use axum::response::{IntoResponse, Response};
use utoipa_axum::routes;

use super::State;
use super::access::RequestKey;
use super::body::Json;
use super::bulk::elements_of;
use super::deadline::Deadline;
use super::error::Problem;
use super::extract::{Params, Target, check_type, parse_aside, read_sized};
use super::parse::parse_object;
use super::responses::{BodyRefused, NotFound, Refused, Unavailable};
use super::route::{READ, Routes};
use super::wire::{DocumentIn, PreviewOut, PreviewParams};
use lookalike_run::call::reserve;

/// Bytes of memory for each byte of the body, for what is made of its documents.
const MEMORY_PER_BYTE: usize = 3;

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_optional_collection(READ.on_pool(), routes!(preview))
}

/// Says what would become of documents, and stores none.
///
/// Each is compared with the stored documents and with those before it in the array, as `on_duplicate=skip`
/// does with the same `k` and `min_containment`; in a `run`, also with those of its earlier requests. An
/// element that is not a document fails alone.
#[utoipa::path(
    post, path = "/preview/documents", tag = "documents", operation_id = "preview_documents",
    params(PreviewParams),
    request_body = Vec<DocumentIn>,
    responses(
        (status = 200, description = "What would become of each document.", body = PreviewOut),
        BodyRefused, NotFound, Refused, Unavailable,
    )
)]
async fn preview(
    From_(state): From_<State>,
    Target(collection): Target,
    Params(params): Params<PreviewParams>,
    deadline: Deadline,
    key: Option<Extension<RequestKey>>,
    request: Request,
) -> Result<Response, Problem> {
    check_type(request.headers(), &["application/json"])?;
    let (limits, run, skips) = (*state.service.limits(), params.run()?, params.skips()?);
    let (k, containment) = (params.k.map(|k| k.0), params.min_containment);
    let rule = state.service.duplicate_rule(&collection, k, None, containment, false);
    let rule = rule.map_err(|error| Problem::from(error).in_query())?;
    let way_out = "send them in several requests of a run";
    let bytes = read_sized(request, limits.batch_bytes, way_out).await?;
    let _working = reserve(MEMORY_PER_BYTE * bytes.len())?;
    let all =
        parse_aside(&state, deadline, bytes, move |bytes| elements_of(bytes, limits.batch_documents)).await?;
    if let Some(bucket) = key.and_then(|Extension(RequestKey(held))| held.bucket) {
        bucket.wait_for(all.len() as u64).await;
    }
    let form = params.hash_format;
    let offered =
        all.into_iter().map(move |bytes| parse_object::<DocumentIn>(&bytes)?.offered(form, &limits));
    let foreseen = deadline.query(state.service.preview(&collection, run, (rule, skips), offered)).await?;
    Ok(Json(PreviewOut::new(foreseen, form)).into_response())
}
