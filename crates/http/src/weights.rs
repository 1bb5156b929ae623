//! The weights of a collection as a file: read them, or reindex the collection with others.

use axum::extract::{Request, State as From_};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa_axum::routes;

use super::State;
use super::error::{Body, Problem};
use super::extract::{NoParams, Target, check_type, read};
use super::reindex;
use super::responses::{BodyRefused, NotFound, OutOfSpace, Refused, Unavailable};
use super::route::{ADMIN, READ, Routes};
use super::wire::ReindexOut;
use lookalike_service::{WEIGHTS_BYTES, WantedReindex, WantedWeights};

const PATH: &str = "/weights";
/// The type of the file.
const TYPE: &str = "application/octet-stream";

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_collection(READ, routes!(get)).of_collection(ADMIN, routes!(put))
}

/// Returns the weights of a collection: a table of document frequencies.
///
/// It is the file that `lookalike dedupe --weights` reads and `--save-weights` writes, if the collection has
/// the profile of that run.
#[utoipa::path(
    get, path = PATH, tag = "collections", operation_id = "get_weights",
    responses(
        (status = 200, description = "The table.", body = String, content_type = TYPE),
        NotFound, Refused,
    )
)]
async fn get(From_(state): From_<State>, _: NoParams, Target(name): Target) -> Result<Response, Problem> {
    let bytes = state.service.weights(&name)?.table().to_bytes();
    Ok(([(header::CONTENT_TYPE, TYPE)], bytes).into_response())
}

/// Reindexes a collection with the weights of a file, as `POST` of `/reindex` does with others.
#[utoipa::path(
    put, path = PATH, tag = "collections", operation_id = "put_weights",
    request_body(content = String, content_type = TYPE),
    responses(
        (status = 202, description = "The reindex with this table was started.", body = ReindexOut,
            headers(("Location" = String, description = "The path of the progress."))),
        (status = 409, description = "The collection keeps no texts, or is being reindexed.", body = Body,
            content_type = "application/problem+json"),
        BodyRefused, NotFound, Refused, Unavailable, OutOfSpace,
    )
)]
async fn put(
    From_(state): From_<State>,
    _: NoParams,
    Target(name): Target,
    request: Request,
) -> Result<Response, Problem> {
    check_type(request.headers(), &[TYPE])?;
    let table = read(request, WEIGHTS_BYTES).await?.to_vec();
    let wanted = WantedReindex { weights: Some(WantedWeights::Table(table)), ..WantedReindex::default() };
    let started = state.service.reindex(&name, wanted).await?;
    Ok(reindex::accepted(&name, started))
}
