//! Looking up neighbours.

use axum::extract::State as From_;
use axum::response::{IntoResponse, Response};

use super::State;
use super::error::{Code, Problem};
use super::extract::{Batch, DocumentPath, NoParams, Params, Target};
use super::json::Json;
use super::openapi::{BodyRefused, NotFound, Refused, Unavailable};
use super::wire::{AskIn, BatchOut, NearIdParams, SimilarIn, SimilarOut, SimilarParams};
use crate::ids::CollectionName;
use crate::service::Ask;

/// Which stored documents lie within k bits of a hash, a text or another document.
#[utoipa::path(
    get, path = "/similar", tag = "similar", params(SimilarParams),
    responses(
        (status = 200, description = "The documents within k, by distance, then id.", body = SimilarOut),
        NotFound, Refused, Unavailable,
    )
)]
pub(super) async fn by_query(
    From_(state): From_<State>,
    Target(collection): Target,
    Params(params): Params<SimilarParams>,
) -> Result<Json<SimilarOut>, Problem> {
    let stats = params.wants_stats();
    let ask = params.ask().map_err(Problem::in_query)?;
    one(&state, &collection, ask, stats).await.map(Json).map_err(Problem::in_query)
}

/// The neighbours of a stored document, itself left out.
#[utoipa::path(
    get, path = "/documents/{id}/similar", tag = "similar",
    params(("id" = String, Path, description = "The document."), NearIdParams),
    responses(
        (status = 200, description = "The documents within k, by distance, then id.", body = SimilarOut),
        NotFound, Refused, Unavailable,
    )
)]
pub(super) async fn by_document(
    From_(state): From_<State>,
    Target(collection): Target,
    DocumentPath(id): DocumentPath,
    Params(params): Params<NearIdParams>,
) -> Result<Json<SimilarOut>, Problem> {
    let stats = params.wants_stats();
    one(&state, &collection, params.ask(id), stats).await.map(Json).map_err(Problem::in_query)
}

/// The same for long texts, pages and filters, and for many questions at once in `queries`.
#[utoipa::path(
    post, path = "/similar", tag = "similar", request_body = SimilarIn,
    responses(
        (status = 200, description = "The documents within k, by distance, then id; with `queries`, an object with all `results`.", body = SimilarOut),
        BodyRefused, NotFound, Refused, Unavailable,
    )
)]
pub(super) async fn by_body(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    Batch(mut body): Batch<SimilarIn>,
) -> Result<Response, Problem> {
    let Some(queries) = body.queries.take() else {
        let stats = body.wants_stats();
        return Ok(Json(one(&state, &collection, body.ask()?, stats).await?).into_response());
    };
    let most = state.service.limits().batch_items;
    if body.has_single() {
        let detail = "queries stands alone: put every other field into one of its elements";
        return Err(Problem::field(Code::InvalidField, "/queries", detail));
    }
    if queries.len() > most {
        let detail = format!("there are {} queries; at most {most} are taken in one request", queries.len());
        return Err(Problem::field(Code::InvalidField, "/queries", detail));
    }
    let stats: Vec<bool> = queries.iter().map(AskIn::wants_stats).collect();
    let asks = queries.into_iter().map(AskIn::ask).collect::<Result<Vec<_>, _>>()?;
    let found = state.service.similar_batch(&collection, asks).await?;
    let results = found.into_iter().zip(stats).map(|(found, stats)| SimilarOut::new(found, stats));
    Ok(Json(BatchOut { results: results.collect() }).into_response())
}

async fn one(
    state: &State,
    collection: &CollectionName,
    ask: Ask,
    stats: bool,
) -> Result<SimilarOut, Problem> {
    let found = state.service.similar(collection, ask).await?;
    Ok(SimilarOut::new(found, stats))
}
