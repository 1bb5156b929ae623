//! HTTP: the router on one screen, and around it the layers that every request passes.
//!
//! A handler takes a request apart, calls the service once, and puts the answer together. `error` alone
//! knows statuses, `wire` alone shapes, `bulk` the streams of documents, `openapi` the contract.
//!
//! *Absent*: how documents are kept and found, threads, files.

mod access;
mod backups;
mod browser;
mod bulk;
mod calibrate;
mod collections;
mod compare;
mod condition;
mod deadline;
mod documents;
mod edge;
mod error;
mod extract;
mod fingerprint;
mod gauges;
mod head;
mod json;
mod links;
mod observe;
mod openapi;
mod operations;
mod refused;
mod room;
mod similar;
mod spans;
mod wire;

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, Uri};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use futures::FutureExt;
use futures::future::{Either, ready};
use tokio::net::TcpListener;
use tower::Service;
use tower_http::compression::CompressionLayer;
use utoipa_swagger_ui::{Config, SwaggerUi};

pub use browser::Sites;
pub use edge::{EdgeLimits, Tls, TlsError};
pub use openapi::yaml as openapi_yaml;

use crate::call::{Accountant, Call};
use crate::keys::Keyring;
use crate::service::Service as Lookalike;
use error::{Code, Problem};

/// What handlers share.
pub struct Shared {
    /// The service.
    pub service: Arc<Lookalike>,
    /// The metrics in the text format of Prometheus.
    pub render_metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// Whether the server is shutting down.
    pub is_draining: Box<dyn Fn() -> bool + Send + Sync>,
    /// Who may do what.
    pub keys: Arc<Keyring>,
    /// The memory that requests hold.
    pub accountant: Arc<Accountant>,
    /// The names of the server, and the web pages that may use it.
    pub sites: Sites,
}

/// One pointer, because it is copied for every request.
type State = Arc<Shared>;

/// Serves all routes, and around them what happens to every request, until `stop` resolves and the last
/// connection has ended, or was cut after the drain time; answers with how many were.
pub async fn serve(
    listener: TcpListener,
    shared: Shared,
    limits: EdgeLimits,
    tls: Option<Tls>,
    stop: impl Future<Output = ()>,
) -> usize {
    let state = Arc::new(shared);
    let router = router(Arc::clone(&state));
    // Around the router and not a layer on each of its routes: there each costs allocations for every request.
    let answer = move |request: Request, address: IpAddr| {
        let client = |request: &Request| access::client(request, address);
        let gate = |request: &mut Request| {
            head::check(request)?;
            let keys = state.keys.keys();
            state.sites.check(keys.is_some(), request)?;
            if browser::is_preflight(request) {
                return Ok(());
            }
            access::check(keys.as_deref().map(Vec::as_slice), request)?;
            let is_busy = state.service.waiting() > 0 && state.service.is_busy_for(client(request));
            if is_busy { head::check_load(request) } else { Ok(()) }
        };
        let handle = |request| {
            if let Some(response) = at_once(&state, &request) {
                return Either::Left(ready(response));
            }
            let call = Call::begin(client(&request), &state.accountant);
            let answering = router.clone().call(request).map(|Ok(response)| room::held(response));
            Either::Right(call.surround(answering))
        };
        observe::answer(&gate, &handle, request)
    };
    edge::serve(listener, answer, limits, tls, stop).await
}

/// The answer to what needs neither router nor future.
fn at_once(state: &State, request: &Request) -> Option<Response> {
    if browser::is_preflight(request) {
        return Some(browser::preflight());
    }
    similar::at_once(state, request)
}

fn router(state: State) -> Router {
    Router::new()
        .merge(per_collection())
        .nest("/collections/{collection}", per_collection())
        .route("/fingerprint", axum::routing::post(fingerprint::fingerprint))
        .route("/collections", get(collections::list))
        .route(
            "/collections/{collection}",
            get(collections::get).put(collections::put).delete(collections::delete),
        )
        .route("/collections/{collection}/backup", get(backups::backup))
        .route("/collections/{collection}/restore", axum::routing::post(backups::restore))
        .route(
            "/collections/{collection}/calibrate",
            get(calibrate::get).post(calibrate::begin).delete(calibrate::forget),
        )
        .route("/snapshots", get(operations::snapshots).post(operations::snapshot))
        .route("/livez", get(operations::livez))
        .route("/readyz", get(operations::readyz))
        .route("/metrics", get(operations::metrics))
        .route("/version", get(operations::version))
        .route("/openapi.yaml", get(operations::contract))
        .merge(pages())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .with_state(state)
}

/// The routes about the documents of one collection.
fn per_collection() -> Router<State> {
    Router::new()
        .route("/documents", axum::routing::post(documents::add))
        .route("/documents/{id}", get(documents::get).put(documents::put).delete(documents::delete))
        .route("/documents/{id}/similar", get(similar::by_document))
        .route("/similar", get(similar::by_query).post(similar::by_body))
        .route("/compare", axum::routing::post(compare::compare))
        .route("/export", get(documents::export).layer(CompressionLayer::new()))
        .route("/stats", get(operations::stats))
}

/// The contract to read and try in a browser, and the errors explained. Everything that is shown comes from
/// this process: the validator that Swagger would ask elsewhere is turned off.
fn pages() -> Router<State> {
    let config = Config::from("/docs/openapi.json").validator_url("none").try_it_out_enabled(true);
    let swagger = SwaggerUi::new("/docs").url("/docs/openapi.json", openapi::contract()).config(config);
    let pages = Router::from(swagger).route("/docs/errors", get(operations::errors));
    pages.layer(map_response(browser::page))
}

async fn no_route(method: Method, uri: Uri) -> Problem {
    let detail = format!("there is no route {method} {}; GET /docs shows those that there are", uri.path());
    Problem::new(Code::RouteNotFound, detail)
}

async fn no_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} has no method {method}; GET /docs shows those that it has", uri.path());
    Problem::new(Code::MethodNotAllowed, detail)
}
