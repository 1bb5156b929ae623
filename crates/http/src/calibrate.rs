//! Calibration of a collection: start it, read its progress and its result, end it.

use axum::extract::{Extension, Request, State as From_};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa_axum::routes;

use super::State;
use super::access::RequestKey;
use super::body::Json;
use super::deadline::Deadline;
use super::error::{Body, Problem};
use super::extract::{NoParams, Target, parse_aside, read_settings};
use super::parse::parse_object;
use super::responses::{BodyRefused, NotFound, Refused, Unavailable};
use super::route::{ADMIN, READ, Routes, of_collection};
use super::wire::{CalibrateIn, CalibrationOut};
use lookalike_hash::CollectionName;
use lookalike_service::ServiceError;

const PATH: &str = "/calibrate";

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_collection(READ, routes!(get)).of_collection(ADMIN, routes!(begin, forget))
}

/// Starts to measure which profile and which k suit the documents of a collection.
///
/// The pairs to find are sampled texts with copies made by known edits, or pairs that you mark. It runs in
/// the background and changes nothing; `GET` of the same path returns its progress and its result.
#[utoipa::path(
    post, path = PATH, tag = "collections", operation_id = "begin_calibration",
    request_body(content = Option<CalibrateIn>, content_type = "application/json"),
    responses(
        (status = 202, description = "The calibration was started.", body = CalibrationOut,
            headers(("Location" = String, description = "The path of the progress and the result."))),
        (status = 409, description = "The collection is being calibrated.", body = Body,
            content_type = "application/problem+json"),
        BodyRefused, NotFound, Refused, Unavailable,
    )
)]
async fn begin(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    deadline: Deadline,
    key: Option<Extension<RequestKey>>,
    request: Request,
) -> Result<Response, Problem> {
    let bytes = read_settings(request, state.service.limits().batch_bytes).await?;
    let wanted = parse_aside(&state, deadline, bytes, |bytes| parse_object::<CalibrateIn>(bytes)).await?;
    let may_see = |name: &CollectionName| {
        key.as_ref().is_none_or(|Extension(RequestKey(held))| held.key.scope.holds(name))
    };
    let started = state.service.calibrate(&collection, wanted.into()).map_err(|error| match error {
        ServiceError::OtherCalibration { collection: Some(of), seconds, is_ending } if !may_see(&of) => {
            ServiceError::OtherCalibration { collection: None, seconds, is_ending }
        }
        error => error,
    })?;
    let location = [(header::LOCATION, of_collection(&collection, PATH))];
    Ok((StatusCode::ACCEPTED, location, Json(CalibrationOut::from(started))).into_response())
}

/// Returns the progress and the result of the calibration of a collection.
///
/// The result is kept in memory until the next calibration or until the server stops.
#[utoipa::path(
    get, path = PATH, tag = "collections", operation_id = "get_calibration",
    responses(
        (status = 200, description = "The calibration.", body = CalibrationOut),
        NotFound, Refused, Unavailable,
    )
)]
async fn get(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
) -> Result<Json<CalibrationOut>, Problem> {
    Ok(Json(state.service.calibration(&collection)?.into()))
}

/// Ends the calibration of a collection if it is running, and deletes its result.
#[utoipa::path(
    delete, path = PATH, tag = "collections", operation_id = "forget_calibration",
    responses((status = 204, description = "The calibration was deleted."), NotFound, Refused, Unavailable)
)]
async fn forget(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
) -> Result<StatusCode, Problem> {
    state.service.forget_calibration(&collection)?;
    Ok(StatusCode::NO_CONTENT)
}
