//! Deletion of many documents: start it, read its progress, end it.

use std::time::Duration;

use axum::extract::State as From_;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa_axum::routes;

use super::State;
use super::body::Json;
use super::deadline::Deadline;
use super::error::{Body, Problem};
use super::extract::{Document, NoParams, Target};
use super::responses::{BodyRefused, NotFound, OutOfSpace, Refused, Unavailable};
use super::route::{READ, Routes, WRITE, of_collection};
use super::wire::{DeletionIn, DeletionOut, Matching};

/// How long an answer waits for the end of a deletion.
const WAIT: Duration = Duration::from_secs(1);

const PATH: &str = "/deletions";

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_optional_collection(READ, routes!(get)).of_optional_collection(WRITE, routes!(begin, forget))
}

/// Deletes the documents with some ids, or those that a filter admits. With `dry_run` it only counts them.
///
/// With `expires_in` or `plan` it plans their deletion, which `cancel` takes back: until then they are found,
/// with `deletion_at`.
///
/// A deletion by a filter that takes longer than a second goes on in the background (202); `GET` of the same
/// path returns its progress. A document that changes in the meantime is not deleted.
#[utoipa::path(
    post, path = PATH, tag = "documents", operation_id = "delete_documents",
    request_body = DeletionIn,
    responses(
        (status = 200, description = "The documents were deleted, or counted.", body = DeletionOut),
        (status = 202, description = "The documents are being deleted, or counted.", body = DeletionOut,
            headers(("Location" = String, description = "The path of the progress."))),
        (status = 409, description = "A deletion by a filter is running.", body = Body,
            content_type = "application/problem+json"),
        BodyRefused, NotFound, Refused, Unavailable, OutOfSpace,
    )
)]
async fn begin(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    deadline: Deadline,
    Document(wanted): Document<DeletionIn>,
) -> Result<Response, Problem> {
    let service = &state.service;
    let deletion = match wanted.matching(service.expiry_now_ms()?, service.limits().deletion_time)? {
        (Matching::Ids(ids), deed) => deadline.write(service.delete_ids(&collection, ids, deed)).await?,
        (Matching::Filter(filter), deed) => {
            service.delete_matching(&collection, filter, deed, deadline.write_time().min(WAIT)).await?
        }
    };
    if deletion.ended_ms.is_some() {
        return Ok(Json(DeletionOut::from(deletion)).into_response());
    }
    let location = [(header::LOCATION, of_collection(&collection, PATH))];
    Ok((StatusCode::ACCEPTED, location, Json(DeletionOut::from(deletion))).into_response())
}

/// Returns the progress and the result of the last deletion by a filter.
///
/// The result is kept in memory until the next one or until the server stops.
#[utoipa::path(
    get, path = PATH, tag = "documents", operation_id = "get_deletion",
    responses(
        (status = 200, description = "The deletion.", body = DeletionOut),
        NotFound, Refused, Unavailable,
    )
)]
async fn get(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
) -> Result<Json<DeletionOut>, Problem> {
    Ok(Json(state.service.deletion(&collection)?.into()))
}

/// Ends the deletion by a filter if it is running, and forgets its result. What was deleted stays deleted.
#[utoipa::path(
    delete, path = PATH, tag = "documents", operation_id = "forget_deletion",
    responses((status = 204, description = "The deletion was ended."), NotFound, Refused, Unavailable)
)]
async fn forget(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
) -> Result<StatusCode, Problem> {
    state.service.forget_deletion(&collection)?;
    Ok(StatusCode::NO_CONTENT)
}
