//! Reindex of a collection: start it, read its progress, end it.

use axum::extract::{Extension, State as From_};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa_axum::routes;

use super::State;
use super::access::RequestKey;
use super::body::Json;
use super::error::{Body, Code, Problem};
use super::extract::{NoParams, Settings, Target};
use super::responses::{BodyRefused, NotFound, OutOfSpace, Refused, Unavailable};
use super::route::{ADMIN, READ, Routes, of_collection};
use super::wire::{ReindexIn, ReindexOut};
use lookalike_hash::CollectionName;
use lookalike_service::Reindexed;

const PATH: &str = "/reindex";

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_collection(READ, routes!(get)).of_collection(ADMIN, routes!(begin, end))
}

/// Makes the fingerprints of all documents of a collection again, with another profile or other weights.
///
/// They are made from the kept texts, in the background; `GET` of the same path returns the progress. Ids,
/// texts, metadata, times, marks and the order of arrival stay. Until it ends, queries are answered with the
/// old fingerprints, and from then on with the new ones. Documents that are written or deleted meanwhile are
/// followed; in its last step, mostly some milliseconds, writes to the collection get 503 `busy`. A kill of
/// the server leaves the collection as it was. Among replicas the server that takes the request does the work
/// for all, and answers `GET` and `DELETE`; others name it.
#[utoipa::path(
    post, path = PATH, tag = "collections", operation_id = "begin_reindex",
    request_body = Option<ReindexIn>,
    responses(
        (status = 202, description = "The reindex was started.", body = ReindexOut,
            headers(("Location" = String, description = "The path of the progress."))),
        (status = 409, description = "The collection keeps no texts, or is being reindexed.", body = Body,
            content_type = "application/problem+json"),
        BodyRefused, NotFound, Refused, Unavailable, OutOfSpace,
    )
)]
async fn begin(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    key: Option<Extension<RequestKey>>,
    Settings(wanted): Settings<ReindexIn>,
) -> Result<Response, Problem> {
    let may_see = |name: &str| {
        let name = CollectionName::new(name).ok();
        key.as_ref().zip(name).is_none_or(|(Extension(RequestKey(held)), name)| held.key.scope.holds(&name))
    };
    if let Some(other) = wanted.weights_of().filter(|name| !may_see(name)) {
        let detail = format!("the key does not include the collection {other:?}, whose weights are wanted");
        return Err(Problem::field(Code::Forbidden, "/weights/of", detail));
    }
    let started = state.service.reindex(&collection, wanted.into()).await?;
    Ok(accepted(&collection, started))
}

/// The answer to a request that has started a reindex.
pub(super) fn accepted(collection: &CollectionName, started: Reindexed) -> Response {
    let location = [(header::LOCATION, of_collection(collection, PATH))];
    (StatusCode::ACCEPTED, location, Json(ReindexOut::from(started))).into_response()
}

/// Returns the progress of the reindex of a collection, or how it ended.
///
/// It is kept in memory until the next reindex or until the server stops: afterwards there is none (404), and
/// one that was running has changed nothing.
#[utoipa::path(
    get, path = PATH, tag = "collections", operation_id = "get_reindex",
    responses(
        (status = 200, description = "The reindex.", body = ReindexOut),
        NotFound, Refused, Unavailable,
    )
)]
async fn get(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
) -> Result<Json<ReindexOut>, Problem> {
    Ok(Json(state.service.reindexed(&collection)?.into()))
}

/// Ends the reindex of a collection if it is running, without effect, and forgets it.
///
/// The answer has its last state: `ended` if this request has ended it, otherwise how it had ended before.
#[utoipa::path(
    delete, path = PATH, tag = "collections", operation_id = "end_reindex",
    responses(
        (status = 200, description = "It was ended without effect, or had ended before.", body = ReindexOut),
        (status = 409, description = "It takes effect in this moment, and cannot be ended.", body = Body,
            content_type = "application/problem+json"),
        NotFound, Refused, Unavailable,
    )
)]
async fn end(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
) -> Result<Json<ReindexOut>, Problem> {
    Ok(Json(state.service.forget_reindex(&collection)?.into()))
}
