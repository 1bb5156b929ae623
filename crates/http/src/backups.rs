//! Backups: reads a collection as a tar archive, and creates a collection from one.

use axum::body::Body as ResponseBody;
use axum::extract::{Request, State as From_};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::TryStreamExt;
use utoipa_axum::routes;

use super::State;
use super::body::Json;
use super::condition::etag;
use super::error::{Body, Problem};
use super::extract::{NoParams, Target, check_type};
use super::responses::{NotFound, OutOfSpace, Refused, Unavailable};
use super::route::{ADMIN, Routes};
use super::wire::RestoredOut;

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_collection(ADMIN, routes!(backup)).of_collection(ADMIN, routes!(restore))
}

/// Streams a backup of a collection as a tar archive.
///
/// The backup has the state of one moment; writes go on meanwhile. It is complete if its last entry is
/// `end.json`; `lookalike restore --check` verifies every byte. The connection of a client that reads too
/// slowly is closed, after a minute at 256 KiB a second.
#[utoipa::path(
    get, path = "/backup", tag = "operations",
    responses(
        (status = 200, description = "The backup.", body = String, content_type = "application/x-tar"),
        NotFound, Refused, Unavailable,
    )
)]
async fn backup(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
) -> Result<Response, Problem> {
    let chunks = state.service.backup(&collection)?;
    let chunks = chunks.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        std::io::Error::other(format!("{error}: {cause}"))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-tar".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{collection}.tar\"")),
    ];
    Ok((headers, ResponseBody::from_stream(chunks)).into_response())
}

/// Creates a collection from a backup.
///
/// The whole backup is verified before anything is written, and its documents must respect the same limits
/// as added documents. The collection must not exist; it appears complete, or not at all.
#[utoipa::path(
    post, path = "/restore", tag = "operations",
    request_body(content = String, content_type = "application/x-tar"),
    responses(
        (status = 201, description = "The collection was created.", body = RestoredOut,
            headers(("etag" = String, description = "Identifies the settings of the collection."))),
        (status = 400, description = "The body is incomplete.", body = Body,
            content_type = "application/problem+json"),
        (status = 409, description = "A collection with this name exists.", body = Body,
            content_type = "application/problem+json"),
        (status = 413, description = "A document is larger than the server stores.", body = Body,
            content_type = "application/problem+json"),
        (status = 415, description = "The body has another type.", body = Body,
            content_type = "application/problem+json"),
        Refused, Unavailable, OutOfSpace,
    )
)]
async fn restore(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    request: Request,
) -> Result<Response, Problem> {
    check_type(request.headers(), &["application/x-tar", "application/octet-stream"])?;
    let body = request.into_body().into_data_stream().map_err(std::io::Error::other);
    let restored = state.service.restore(&collection, Box::pin(body)).await?;
    Ok((StatusCode::CREATED, etag(restored.collection.version), Json(RestoredOut::from(restored)))
        .into_response())
}
