//! Collections: create, change, list, delete.

use axum::extract::{Extension, State as From_};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa_axum::routes;

use super::State;
use super::access::RequestKey;
use super::body::Json;
use super::condition::{Conditional, etag};
use super::error::{Body, Problem};
use super::extract::{NoParams, Params, Settings, Target};
use super::responses::{BodyRefused, ConditionFailed, NotFound, OutOfSpace, Refused, Unavailable};
use super::route::{ADMIN, Need, READ, Routes, of_collection};
use super::wire::{CollectionIn, CollectionOut, CollectionsOut, FormParams, SharedHashesOut};
use lookalike_hash::CollectionName;
use lookalike_keys::Role;
use lookalike_service::Changed;

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_server(Need::Any(Role::Read), routes!(list))
        .of_collection(READ, routes!(get))
        .of_collection(ADMIN, routes!(put, delete))
        .of_collection(READ, routes!(shared_hashes))
}

/// Lists the collections that the key includes.
#[utoipa::path(
    get, path = "/collections", tag = "collections", operation_id = "list_collections",
    responses((status = 200, description = "The collections, by name.", body = CollectionsOut))
)]
async fn list(
    From_(state): From_<State>,
    _: NoParams,
    key: Option<Extension<RequestKey>>,
) -> Result<Json<CollectionsOut>, Problem> {
    let collections = state.service.collections()?;
    let may_see = |name: &CollectionName| {
        key.as_ref().is_none_or(|Extension(RequestKey(held))| held.key.scope.holds(name))
    };
    let collections = collections.into_iter().filter(|info| may_see(&info.name));
    let collections = collections.map(CollectionOut::from).collect();
    Ok(Json(CollectionsOut { collections }))
}

/// Returns the settings and the counts of a collection.
#[utoipa::path(
    get, path = "", tag = "collections", operation_id = "get_collection",
    responses(
        (status = 200, description = "The collection.", body = CollectionOut,
            headers(("etag" = String, description = "Identifies the settings, not the counts."))),
        NotFound, Refused,
    )
)]
async fn get(From_(state): From_<State>, _: NoParams, Target(name): Target) -> Result<Response, Problem> {
    let info = state.service.collection(&name)?;
    Ok((etag(info.version), Json(CollectionOut::from(info))).into_response())
}

/// Creates a collection, or changes its settings.
///
/// Only the settings in the body change: concurrent requests do not undo each other's changes, and each
/// answer has the settings right after its change. To change settings only if they are as you read them,
/// send their `ETag` as `If-Match`. A change that conflicts with stored documents is refused.
///
/// A request without a body is the same as `{}`: it creates the collection with the default settings.
#[utoipa::path(
    put, path = "", tag = "collections", operation_id = "put_collection",
    params(
        ("If-Match" = Option<String>, Header,
            description = "ETags, of which the collection must have one; `*`: it must exist."),
        ("If-None-Match" = Option<String>, Header, description = "`*`: the collection must not exist."),
    ),
    request_body = Option<CollectionIn>,
    responses(
        (status = 200, description = "The settings were changed.", body = CollectionOut,
            headers(("etag" = String, description = "Identifies the settings, not the counts."))),
        (status = 201, description = "The collection was created.", body = CollectionOut,
            headers(
                ("etag" = String, description = "Identifies the settings, not the counts."),
                ("Location" = String, description = "Its path."),
            )),
        (status = 409, description = "A setting conflicts with stored documents: profile, bands or sketches.",
            body = Body, content_type = "application/problem+json"),
        BodyRefused, ConditionFailed, Refused, Unavailable, OutOfSpace,
    )
)]
async fn put(
    From_(state): From_<State>,
    _: NoParams,
    Target(name): Target,
    Conditional(condition): Conditional,
    Settings(wanted): Settings<CollectionIn>,
) -> Result<Response, Problem> {
    let Changed { is_new, info } = state.service.put_collection(&name, wanted.into(), condition).await?;
    let answer = (etag(info.version), Json(CollectionOut::from(info)));
    if !is_new {
        return Ok(answer.into_response());
    }
    let location = [(header::LOCATION, of_collection(&name, ""))];
    Ok((StatusCode::CREATED, location, answer.0, answer.1).into_response())
}

/// Deletes a collection with all its documents.
///
/// The collection `default` can be deleted too: the routes without a collection in the path then return 404
/// until it is created again, perhaps with another profile. The next start of the server creates it.
#[utoipa::path(
    delete, path = "", tag = "collections", operation_id = "delete_collection",
    params(
        ("If-Match" = Option<String>, Header, description = "ETags, of which the collection must have one."),
    ),
    responses(
        (status = 204, description = "The collection was deleted."),
        NotFound, ConditionFailed, Refused, Unavailable, OutOfSpace,
    )
)]
async fn delete(
    From_(state): From_<State>,
    _: NoParams,
    Target(name): Target,
    Conditional(condition): Conditional,
) -> Result<StatusCode, Problem> {
    state.service.delete_collection(&name, condition).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the hashes that most documents of a collection have.
///
/// A document whose hash many others have is a copy of them, or has a text that many documents have, such as
/// an error page. The hashes of a large collection are counted at most once in five minutes.
#[utoipa::path(
    get, path = "/shared-hashes", tag = "collections", operation_id = "get_shared_hashes",
    params(FormParams),
    responses(
        (status = 200, description = "At most 50 hashes, that of most documents first.",
            body = SharedHashesOut),
        NotFound, Refused,
    )
)]
async fn shared_hashes(
    From_(state): From_<State>,
    Params(params): Params<FormParams>,
    Target(name): Target,
) -> Result<Json<SharedHashesOut>, Problem> {
    Ok(Json(SharedHashesOut::new(state.service.most_shared(&name).await?, params.hash_format)))
}
