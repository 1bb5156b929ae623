//! Routes for operators: health, keys, statistics, metrics, snapshots, version, the contract.

use axum::Router;
use axum::extract::{Extension, Request, State as From_};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http_body::Body as _;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::access::RequestKey;
use super::body::Json;
use super::browser;
use super::error::{Body, Code, DOCS_ERRORS, Problem};
use super::errors_page::errors;
use super::extract::{NoParams, Target, check_type};
use super::gauges;
use super::observe;
use super::openapi;
use super::responses::{OutOfSpace, Unavailable};
use super::route::{Need, READ, Routes};
use super::wire::{
    FollowingOut, KeyOut, ProfileOut, ProfilesOut, SnapshotOut, SnapshotsOut, StatsOut, VersionOut,
};
use super::{State, no_route};
use lookalike_keys::Role;
use lookalike_replica::{Replicas, Unsent};
use lookalike_service::Health;

const SNAPSHOTS: &str = "/snapshots";
const CONTRACT_JSON: &str = "/openapi.json";
/// The documentation pages.
const DOCS: &str = "/docs";

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    let any = Need::Any(Role::Read);
    all.of_optional_collection(READ, routes!(stats))
        .of_server(Need::All(Role::Admin), routes!(snapshots, snapshot))
        .of_server(Need::Nothing, routes!(livez))
        .of_server(Need::Nothing, routes!(readyz))
        .of_server(Need::All(Role::Read).without_data(), routes!(metrics))
        .of_server(any.without_data(), routes!(version))
        .of_server(any, routes!(profiles))
        .of_server(any, routes!(key))
        .of_server(Need::Nothing, routes!(contract))
        .of_server(Need::Nothing, routes!(contract_json))
        .pages(DOCS, &[DOCS, DOCS_ERRORS, "/docs/", "/docs/{*rest}"], pages())
}

/// Returns 200 while the process runs.
#[utoipa::path(
    get, path = "/livez", tag = "operations",
    responses((status = 200, description = "The process runs.", body = String, content_type = "text/plain"))
)]
async fn livez() -> &'static str {
    "live\n"
}

/// Returns 200 if the server is ready: it has read its data, accepts writes and is not shutting down.
#[utoipa::path(
    get, path = "/readyz", tag = "operations",
    responses(
        (status = 200, description = "The server is ready.", body = String, content_type = "text/plain"),
        (status = 503, description = "The reason why it is not ready.", body = Body,
            content_type = "application/problem+json"),
    )
)]
async fn readyz(From_(state): From_<State>) -> Result<String, Problem> {
    let health = state.service.health()?;
    if (state.is_draining)() {
        return Err(Problem::new(Code::ShuttingDown, "the server is shutting down"));
    }
    if let Some(reason) = state.replicas.get().and_then(Replicas::divergence) {
        return Err(Problem::new(Code::Diverged, reason));
    }
    if let Some(behind) = state.replicas.get().and_then(Replicas::trouble) {
        return Err(Problem::new(Code::Behind, behind));
    }
    match health {
        Health::Ready => Ok(ready(state.replicas.get().and_then(Replicas::unsent))),
        Health::ReadOnly(reason) => Err(Problem::new(Code::ReadOnly, reason)),
        Health::DiskFull(reason) => Err(Problem::new(Code::DiskFull, reason).of_readiness()),
    }
}

/// What a ready server says: also what the store of its log lacks.
fn ready(unsent: Option<Unsent>) -> String {
    let lacking = unsent.filter(|unsent| unsent.entries > 0).map(|Unsent { entries, oldest_ms, .. }| {
        format!("the shared log lacks {entries} entries, the first for {oldest_ms} ms\n")
    });
    format!("ready\n{}", lacking.unwrap_or_default())
}

/// Returns statistics of a collection and of the server. The buckets of a large collection are counted at
/// most once in ten seconds.
#[utoipa::path(
    get, path = "/stats", tag = "operations", operation_id = "get_stats",
    responses(
        (status = 200, description = "The statistics.", body = StatsOut),
        (status = 404, description = "There is no such collection.", body = Body,
            content_type = "application/problem+json"),
    )
)]
async fn stats(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
) -> Result<Json<StatsOut>, Problem> {
    let service = &state.service;
    let info = service.collection(&collection)?;
    let sizes = service.bucket_sizes(&info).await?.0;
    let stats = service.stats().await?;
    let distances = service.answered_distances(&collection)?;
    let replica = state.replicas.get().map(|replicas| FollowingOut {
        position: replicas.position(),
        lag_entries: replicas.lag(),
        behind_ms: replicas.behind().as_millis() as u64,
    });
    let mut out = StatsOut::new(info, sizes, &distances, stats, service.memory()?, service.now_ms());
    out.replica = replica;
    Ok(Json(out))
}

/// Takes a snapshot of the index now.
#[utoipa::path(
    post, path = SNAPSHOTS, tag = "operations", operation_id = "take_snapshot",
    responses(
        (status = 201, description = "The snapshot.", body = SnapshotOut),
        (status = 500, description = "The snapshot could not be written; no document is lost.", body = Body,
            content_type = "application/problem+json"),
        OutOfSpace, Unavailable,
    )
)]
async fn snapshot(From_(state): From_<State>, _: NoParams, request: Request) -> Result<Response, Problem> {
    // A body has no meaning here. But its type is checked, because a foreign web page can send one of another
    // type without a preflight.
    if !request.body().is_end_stream() {
        check_type(request.headers(), &["application/json"])?;
    }
    let snapshot = state.service.snapshot().await?;
    let out = SnapshotOut::new(snapshot, state.service.now_ms());
    Ok((StatusCode::CREATED, Json(out)).into_response())
}

/// Lists the snapshots.
#[utoipa::path(
    get, path = SNAPSHOTS, tag = "operations", operation_id = "list_snapshots",
    responses((status = 200, description = "The snapshots, the newest first.", body = SnapshotsOut))
)]
async fn snapshots(From_(state): From_<State>, _: NoParams) -> Result<Json<SnapshotsOut>, Problem> {
    let now = state.service.now_ms();
    let snapshots = state.service.snapshots().await?;
    let snapshots = snapshots.into_iter().map(|snapshot| SnapshotOut::new(snapshot, now)).collect();
    Ok(Json(SnapshotsOut { snapshots }))
}

/// Returns metrics in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain"))
)]
async fn metrics(From_(state): From_<State>) -> Response {
    observe::flush_counts();
    state.service.flush_counts();
    let mut text = (state.render_metrics)();
    gauges::append(&state, &mut text).await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// Returns the name, the version and the profiles of the server.
#[utoipa::path(
    get, path = "/version", tag = "operations",
    responses((status = 200, description = "Name, version and profiles.", body = VersionOut))
)]
async fn version(From_(state): From_<State>, _: NoParams) -> Json<VersionOut> {
    let profiles = state.service.profiles().iter().map(|profile| profile.id().to_string()).collect();
    Json(VersionOut { name: "lookalike", version: env!("CARGO_PKG_VERSION"), profiles })
}

/// Returns the profiles of the server, and what each is for.
#[utoipa::path(
    get, path = "/profiles", tag = "operations", operation_id = "list_profiles",
    responses((status = 200, description = "The profiles, the built-in ones first.", body = ProfilesOut))
)]
async fn profiles(From_(state): From_<State>, _: NoParams) -> Json<ProfilesOut> {
    Json(ProfilesOut { profiles: state.service.profiles().iter().map(ProfileOut::from).collect() })
}

/// Returns the contract as YAML.
#[utoipa::path(
    get, path = "/openapi.yaml", tag = "operations",
    responses((status = 200, description = "The contract.", body = Object, content_type = "application/yaml"))
)]
async fn contract() -> Response {
    ([(header::CONTENT_TYPE, "application/yaml")], openapi::yaml()).into_response()
}

/// Returns the contract as JSON.
#[utoipa::path(
    get, path = CONTRACT_JSON, tag = "operations",
    responses((status = 200, description = "The contract.", body = Object, content_type = "application/json"))
)]
async fn contract_json() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi::json()).into_response()
}

/// The documentation pages. They load everything from this process: the external validator of Swagger is
/// turned off.
fn pages() -> Router<State> {
    let config = Config::from(CONTRACT_JSON).validator_url("none").try_it_out_enabled(true);
    let pages = Router::from(SwaggerUi::new(DOCS).config(config)).route(DOCS_ERRORS, get(errors));
    pages.layer(map_response(browser::page)).layer(from_fn(with_body))
}

/// The pages answer without a body if the page does not exist.
async fn with_body(request: Request, next: Next) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let page = next.run(request).await;
    if page.status().is_client_error() { no_route(&method, &uri).into_response() } else { page }
}

/// Returns what the key of the request may do.
///
/// If the server requires no keys, every request may do everything.
#[utoipa::path(
    get, path = "/key", tag = "operations", operation_id = "get_key",
    responses((status = 200, description = "What the key may do.", body = KeyOut))
)]
async fn key(_: NoParams, key: Option<Extension<RequestKey>>) -> Json<KeyOut> {
    Json(KeyOut::new(key.as_ref().map(|Extension(RequestKey(held))| &held.key)))
}
