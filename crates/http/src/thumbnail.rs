//! Thumbnails of documents that are images.

use axum::extract::State as From_;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa_axum::routes;

use super::State;
use super::error::Problem;
use super::extract::{DocumentPath, NoParams, Target};
use super::responses::{NotFound, Refused, Unavailable};
use super::route::{READ, Routes};

/// The route of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_optional_collection(READ, routes!(thumbnail))
}

/// Returns the thumbnail of a document, if the collection keeps thumbnails (`keep_thumbnail`).
#[utoipa::path(
    get, path = "/documents/{id}/thumbnail", tag = "documents", operation_id = "get_document_thumbnail",
    params(("id" = String, Path, description = "The document.")),
    responses(
        (status = 200, description = "A JPEG of at most 4 KB.", body = Vec<u8>, content_type = "image/jpeg"),
        NotFound, Refused, Unavailable,
    )
)]
async fn thumbnail(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    DocumentPath(id): DocumentPath,
) -> Result<Response, Problem> {
    let jpeg = state.service.thumbnail(&collection, &id).await?;
    Ok(([(header::CONTENT_TYPE, "image/jpeg")], jpeg).into_response())
}
