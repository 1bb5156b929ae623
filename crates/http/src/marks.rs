//! Marks of documents as no duplicates: add, list and remove them.

use axum::extract::State as From_;
use axum::http::StatusCode;
use utoipa_axum::routes;

use super::State;
use super::body::Json;
use super::deadline::Deadline;
use super::error::Problem;
use super::extract::{Document, NoParams, Params, Target};
use super::responses::{BodyRefused, NotFound, OutOfSpace, Refused, TooManyMarks, Unavailable};
use super::route::{READ, Routes, WRITE};
use super::wire::{MarkListParams, MarkParams, MarkedOut, MarksIn, MarksOut};

const PATH: &str = "/marks";

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_optional_collection(READ, routes!(list)).of_optional_collection(WRITE, routes!(add, remove))
}

/// Marks pairs of documents as no duplicates of each other, or documents as no duplicates of any other.
///
/// All marks of the request are added, or none. The documents need not be stored.
#[utoipa::path(
    post, path = PATH, tag = "marks", operation_id = "add_marks",
    request_body = MarksIn,
    responses(
        (status = 200, description = "The marks exist.", body = MarkedOut),
        BodyRefused, NotFound, TooManyMarks, Refused, Unavailable, OutOfSpace,
    )
)]
async fn add(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    deadline: Deadline,
    Document(marks): Document<MarksIn>,
) -> Result<Json<MarkedOut>, Problem> {
    let marks = marks.marks()?;
    Ok(Json(deadline.write(state.service.mark(&collection, marks)).await?.into()))
}

/// Lists marks in the order of their ids, each pair once. `POST` of the same path accepts the answer.
#[utoipa::path(
    get, path = PATH, tag = "marks", operation_id = "list_marks", params(MarkListParams),
    responses(
        (status = 200, description = "The marks.", body = MarksOut),
        NotFound, Refused, Unavailable,
    )
)]
async fn list(
    From_(state): From_<State>,
    Target(collection): Target,
    Params(params): Params<MarkListParams>,
    deadline: Deadline,
) -> Result<Json<MarksOut>, Problem> {
    let found = deadline.query(state.service.marks(&collection, params.wanted())).await;
    found.map(|found| Json(found.into())).map_err(Problem::in_query)
}

/// Removes the mark of a pair, or of one document.
#[utoipa::path(
    delete, path = PATH, tag = "marks", operation_id = "remove_mark", params(MarkParams),
    responses(
        (status = 204, description = "The mark was removed."),
        NotFound, Refused, Unavailable, OutOfSpace,
    )
)]
async fn remove(
    From_(state): From_<State>,
    Target(collection): Target,
    Params(params): Params<MarkParams>,
    deadline: Deadline,
) -> Result<StatusCode, Problem> {
    let mark = params.mark()?;
    deadline.write(state.service.unmark(&collection, mark)).await?;
    Ok(StatusCode::NO_CONTENT)
}
