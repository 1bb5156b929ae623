//! Collections: make, change, list, delete.

use axum::extract::{Extension, State as From_};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::State;
use super::access::Bearer;
use super::condition::{Conditional, etag};
use super::error::{Body, BodyRefused, NoRoom, NotAsExpected, NotFound, Problem, Refused, Unavailable};
use super::extract::{Document, NoParams, Target};
use super::json::Json;
use super::route::Route;
use super::wire::{CollectionIn, CollectionOut, CollectionsOut};
use crate::ids::CollectionName;
use crate::service::Changed;

/// All collections for which the key is good.
#[utoipa::path(
    get, path = Route::Collections.path(), tag = "collections", operation_id = "list_collections",
    responses((status = 200, description = "All collections, by name.", body = CollectionsOut))
)]
pub(super) async fn list(
    From_(state): From_<State>,
    _: NoParams,
    bearer: Option<Extension<Bearer>>,
) -> Result<Json<CollectionsOut>, Problem> {
    let collections = state.service.engine()?.collections()?;
    let shown = |name: &CollectionName| {
        bearer.as_ref().is_none_or(|Extension(Bearer(held))| held.key.scope.holds(name))
    };
    let collections = collections.into_iter().filter(|info| shown(&info.name));
    let collections = collections.map(CollectionOut::from).collect();
    Ok(Json(CollectionsOut { collections }))
}

/// A collection.
#[utoipa::path(
    get, path = Route::Collection.path(), tag = "collections", operation_id = "get_collection",
    params(("collection" = String, Path, description = "The collection.")),
    responses(
        (status = 200, description = "The collection.", body = CollectionOut,
            headers(("etag" = String, description = "Stands for the settings, and not for the counts."))),
        NotFound, Refused,
    )
)]
pub(super) async fn get(
    From_(state): From_<State>,
    _: NoParams,
    Target(name): Target,
) -> Result<Response, Problem> {
    let info = state.service.engine()?.collection(&name)?;
    Ok((etag(info.version), Json(CollectionOut::from(info))).into_response())
}

/// Makes a collection, or changes its settings.
///
/// Only what the body names is changed: of two changes at once neither undoes the other, and each answer shows the
/// settings right after its change. To change settings only if they are as you read them, send their `ETag` as `If-Match`.
/// What stored documents would not fit is refused.
#[utoipa::path(
    put, path = Route::Collection.path(), tag = "collections", operation_id = "put_collection",
    params(
        ("collection" = String, Path, description = "The collection."),
        ("If-Match" = Option<String>, Header, description = "ETags, of which the collection must have one; `*` if it must be there."),
        ("If-None-Match" = Option<String>, Header, description = "`*`: there must be no such collection."),
    ),
    request_body = CollectionIn,
    responses(
        (status = 200, description = "The settings were changed.", body = CollectionOut,
            headers(("etag" = String, description = "Stands for the settings, and not for the counts."))),
        (status = 201, description = "The collection was made.", body = CollectionOut,
            headers(("etag" = String, description = "Stands for the settings, and not for the counts."))),
        (status = 409, description = "A setting that what is stored would not fit: profile, bands or sketches.", body = Body, content_type = "application/problem+json"),
        BodyRefused, NotAsExpected, Refused, Unavailable, NoRoom,
    )
)]
pub(super) async fn put(
    From_(state): From_<State>,
    _: NoParams,
    Target(name): Target,
    Conditional(condition): Conditional,
    Document(wanted): Document<CollectionIn>,
) -> Result<Response, Problem> {
    let Changed { is_new, info } = state.service.put_collection(&name, wanted.into(), condition).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, etag(info.version), Json(CollectionOut::from(info))).into_response())
}

/// Deletes a collection with all its documents.
///
/// The collection `default` is no exception: the routes that name no collection answer 404 until it is made anew,
/// perhaps with another profile. The next start makes it if it is not there.
#[utoipa::path(
    delete, path = Route::Collection.path(), tag = "collections", operation_id = "delete_collection",
    params(
        ("collection" = String, Path, description = "The collection."),
        ("If-Match" = Option<String>, Header, description = "ETags, of which the collection must have one."),
    ),
    responses(
        (status = 204, description = "It was deleted."),
        NotFound, NotAsExpected, Refused, Unavailable, NoRoom,
    )
)]
pub(super) async fn delete(
    From_(state): From_<State>,
    _: NoParams,
    Target(name): Target,
    Conditional(condition): Conditional,
) -> Result<StatusCode, Problem> {
    state.service.delete_collection(&name, condition).await?;
    Ok(StatusCode::NO_CONTENT)
}
