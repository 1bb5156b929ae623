//! Clusters of a collection: list them, read one, build them, remove them.

use axum::extract::State as From_;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use utoipa_axum::routes;

use super::State;
use super::body::Json;
use super::error::Problem;
use super::extract::{Document, DocumentPath, NoParams, Params, Target};
use super::responses::{BodyRefused, NoClusters, NotFound, OutOfSpace, Refused, Unavailable};
use super::route::{ADMIN, READ, Routes, of_collection};
use super::wire::{ClusterOut, ClusterParams, ClustersIn, ClustersListOut, MemberParams, PlacementOut};

const PATH: &str = "/clusters";

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_optional_collection(READ, routes!(list))
        .of_optional_collection(ADMIN, routes!(build, remove))
        .of_optional_collection(READ, routes!(get))
        .of_optional_collection(READ, routes!(of_document))
}

/// Lists clusters, the largest or the newest first.
///
/// `pending` is the number of tasks that are left: while there are some, clusters may still change.
#[utoipa::path(
    get, path = PATH, tag = "clusters", operation_id = "list_clusters",
    params(ClusterParams),
    responses(
        (status = 200, description = "The clusters.", body = ClustersListOut),
        NoClusters, NotFound, Refused, Unavailable,
    )
)]
async fn list(
    From_(state): From_<State>,
    Target(collection): Target,
    Params(params): Params<ClusterParams>,
) -> Result<Json<ClustersListOut>, Problem> {
    let wanted = params.wanted();
    let found = state.service.clusters(&collection, wanted).await;
    found.map(|found| Json(found.into())).map_err(|error| Problem::from(error).in_query())
}

/// Builds the clusters of the stored documents by a rule.
///
/// It runs in the background and survives restarts. New documents are pending until it has reached them.
/// `GET` of the same path returns how many tasks are left, and `DELETE` ends it.
#[utoipa::path(
    post, path = PATH, tag = "clusters", operation_id = "build_clusters",
    request_body = ClustersIn,
    responses(
        (status = 202, description = "The clusters are being built.", body = ClustersListOut,
            headers(("Location" = String, description = "The path of the clusters."))),
        BodyRefused, NotFound, Refused, Unavailable, OutOfSpace,
    )
)]
async fn build(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    Document(rule): Document<ClustersIn>,
) -> Result<Response, Problem> {
    let k = rule.k.map(|k| k.0);
    let begun = state.service.build_clusters(&collection, rule.keep, k).await?;
    let location = [(axum::http::header::LOCATION, of_collection(&collection, PATH))];
    Ok((StatusCode::ACCEPTED, location, Json(ClustersListOut::from(begun))).into_response())
}

/// Removes the clusters of a collection, also while they are being built. Documents stay.
#[utoipa::path(
    delete, path = PATH, tag = "clusters", operation_id = "remove_clusters",
    responses(
        (status = 204, description = "The collection has no clusters any more."),
        NoClusters, NotFound, Refused, Unavailable, OutOfSpace,
    )
)]
async fn remove(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
) -> Result<StatusCode, Problem> {
    state.service.remove_clusters(&collection).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the cluster that a document represents, with its members, those that the keep rule prefers first.
#[utoipa::path(
    get, path = "/clusters/{id}", tag = "clusters", operation_id = "get_cluster",
    params(("id" = String, Path, description = "The document that represents the cluster."), MemberParams),
    responses(
        (status = 200, description = "The cluster.", body = ClusterOut),
        NoClusters, NotFound, Refused, Unavailable,
    )
)]
async fn get(
    From_(state): From_<State>,
    Target(collection): Target,
    DocumentPath(id): DocumentPath,
    Params(params): Params<MemberParams>,
) -> Result<Json<ClusterOut>, Problem> {
    let found = state.service.cluster(&collection, id, params.cursor.as_deref(), params.limit()).await;
    found.map(|found| Json(found.into())).map_err(|error| Problem::from(error).in_query())
}

/// Returns the cluster of a document.
#[utoipa::path(
    get, path = "/documents/{id}/cluster", tag = "clusters", operation_id = "get_document_cluster",
    params(("id" = String, Path, description = "The document.")),
    responses(
        (status = 200, description = "The cluster of the document.", body = PlacementOut),
        NoClusters, NotFound, Refused, Unavailable,
    )
)]
async fn of_document(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    DocumentPath(id): DocumentPath,
) -> Result<Json<PlacementOut>, Problem> {
    Ok(Json(state.service.placement(&collection, &id)?.into()))
}
