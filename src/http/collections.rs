//! Collections: make, change, list, delete.

use axum::extract::{Extension, State as From_};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::State;
use super::access::Bearer;
use super::error::{Body, BodyRefused, NotFound, Problem, Refused, Unavailable};
use super::extract::{Document, NoParams, Target};
use super::json::Json;
use super::wire::{CollectionIn, CollectionOut, CollectionsOut};
use crate::ids::CollectionName;

/// All collections for which the key is good.
#[utoipa::path(
    get, path = "/collections", tag = "collections", operation_id = "list_collections",
    responses((status = 200, description = "All collections, by name.", body = CollectionsOut))
)]
pub(super) async fn list(
    From_(state): From_<State>,
    _: NoParams,
    bearer: Option<Extension<Bearer>>,
) -> Result<Json<CollectionsOut>, Problem> {
    let collections = state.service.engine()?.collections().await?;
    let shown = |name: &CollectionName| {
        bearer.as_ref().is_none_or(|Extension(Bearer(held))| held.key.scope.holds(name))
    };
    let collections = collections.into_iter().filter(|info| shown(&info.name));
    let collections = collections.map(CollectionOut::from).collect();
    Ok(Json(CollectionsOut { collections }))
}

/// A collection.
#[utoipa::path(
    get, path = "/collections/{collection}", tag = "collections", operation_id = "get_collection",
    params(("collection" = String, Path, description = "The collection.")),
    responses(
        (status = 200, description = "The collection.", body = CollectionOut),
        NotFound, Refused,
    )
)]
pub(super) async fn get(
    From_(state): From_<State>,
    _: NoParams,
    Target(name): Target,
) -> Result<Json<CollectionOut>, Problem> {
    Ok(Json(state.service.engine()?.collection(&name).await?.into()))
}

/// Makes a collection, or changes its settings.
///
/// What would change the fingerprints that are stored already is refused.
#[utoipa::path(
    put, path = "/collections/{collection}", tag = "collections", operation_id = "put_collection",
    params(("collection" = String, Path, description = "The collection.")),
    request_body = CollectionIn,
    responses(
        (status = 200, description = "The settings were changed.", body = CollectionOut),
        (status = 201, description = "The collection was made.", body = CollectionOut),
        (status = 409, description = "The profile of a collection cannot change.", body = Body, content_type = "application/problem+json"),
        BodyRefused, Refused, Unavailable,
    )
)]
pub(super) async fn put(
    From_(state): From_<State>,
    _: NoParams,
    Target(name): Target,
    Document(wanted): Document<CollectionIn>,
) -> Result<Response, Problem> {
    let (created, info) = state.service.put_collection(&name, wanted.into()).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(CollectionOut::from(info))).into_response())
}

/// Deletes a collection with all its documents.
///
/// The collection `default` is no exception: the routes that name no collection answer 404 until it is made anew,
/// perhaps with another profile. The next start makes it if it is not there.
#[utoipa::path(
    delete, path = "/collections/{collection}", tag = "collections", operation_id = "delete_collection",
    params(("collection" = String, Path, description = "The collection.")),
    responses(
        (status = 204, description = "It was deleted."),
        NotFound, Refused, Unavailable,
    )
)]
pub(super) async fn delete(
    From_(state): From_<State>,
    _: NoParams,
    Target(name): Target,
) -> Result<StatusCode, Problem> {
    state.service.delete_collection(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
