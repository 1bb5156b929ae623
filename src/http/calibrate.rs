//! Calibration of a collection: begin it, ask how far it is and what it found, end it.

use axum::extract::{Extension, Request, State as From_};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::State;
use super::access::Bearer;
use super::error::{Body, BodyRefused, NotFound, Problem, Refused, Unavailable};
use super::extract::{NoParams, Target, check_type, parse_aside, parse_object, read};
use super::json::Json;
use super::route::Route;
use super::wire::{CalibrateIn, CalibrationOut};
use crate::ids::CollectionName;
use crate::service::{ServiceError, WantedCalibration};

/// Begins to measure which profile and which k suit the documents of a collection.
///
/// Copies to be found are made of a sample of its texts by stated edits, or are pairs that you mark. It runs beside the
/// other work; `GET` of the same path tells how far it has come and what it found. Nothing is changed by it.
#[utoipa::path(
    post, path = Route::Calibrate.path(), tag = "collections", operation_id = "begin_calibration",
    params(("collection" = String, Path, description = "The collection.")),
    request_body(content = Option<CalibrateIn>, content_type = "application/json"),
    responses(
        (status = 202, description = "It was begun.", body = CalibrationOut,
            headers(("location" = String, description = "Where to ask how far it has come."))),
        (status = 409, description = "One of this collection runs.", body = Body, content_type = "application/problem+json"),
        BodyRefused, NotFound, Refused, Unavailable,
    )
)]
pub(super) async fn begin(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    bearer: Option<Extension<Bearer>>,
    request: Request,
) -> Result<Response, Problem> {
    let kind = check_type(request.headers(), &["application/json"]);
    let bytes = read(request, state.service.limits().batch_bytes).await?;
    let wanted = if bytes.is_empty() {
        WantedCalibration::default()
    } else {
        kind?;
        parse_aside(&state, bytes, |bytes| parse_object::<CalibrateIn>(bytes)).await?.into()
    };
    let shown = |name: &CollectionName| {
        bearer.as_ref().is_none_or(|Extension(Bearer(held))| held.key.scope.holds(name))
    };
    let begun = state.service.calibrate(&collection, wanted).map_err(|error| match error {
        ServiceError::OtherCalibration { collection: Some(of), seconds, is_ending } if !shown(&of) => {
            ServiceError::OtherCalibration { collection: None, seconds, is_ending }
        }
        error => error,
    })?;
    let place = [(header::LOCATION, format!("/collections/{collection}/calibrate"))];
    Ok((StatusCode::ACCEPTED, place, Json(CalibrationOut::from(begun))).into_response())
}

/// How far the calibration of a collection has come, and what it found.
///
/// It is kept in memory until the next one, or until the server ends.
#[utoipa::path(
    get, path = Route::Calibrate.path(), tag = "collections", operation_id = "get_calibration",
    params(("collection" = String, Path, description = "The collection.")),
    responses(
        (status = 200, description = "The calibration.", body = CalibrationOut),
        NotFound, Refused, Unavailable,
    )
)]
pub(super) async fn get(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
) -> Result<Json<CalibrationOut>, Problem> {
    Ok(Json(state.service.calibration(&collection)?.into()))
}

/// Ends the calibration of a collection if it runs, and forgets what it found.
#[utoipa::path(
    delete, path = Route::Calibrate.path(), tag = "collections", operation_id = "forget_calibration",
    params(("collection" = String, Path, description = "The collection.")),
    responses((status = 204, description = "It is forgotten."), NotFound, Refused, Unavailable)
)]
pub(super) async fn forget(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
) -> Result<StatusCode, Problem> {
    state.service.forget_calibration(&collection)?;
    Ok(StatusCode::NO_CONTENT)
}
