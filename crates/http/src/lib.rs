//! HTTP: the checks of every request, and the dispatch to the handlers of all routes.
//!
//! A handler parses a request, calls the service once, and builds the answer. Only `error` knows statuses and
//! only `wire` the JSON types; `bulk` has the streams of documents, `openapi` the contract.
//!
//! *Absent*: storage, lookup, threads, files.

#![deny(unreachable_pub)]

mod access;
mod backups;
mod browser;
mod bulk;
mod calibrate;
mod clusters;
mod collections;
mod compare;
mod console;
mod deadline;
mod deletions;
mod documents;
mod edge;
mod examples;
mod extract;
mod fingerprint;
mod gauges;
mod idempotency;
mod links;
mod listing;
mod marks;
mod observe;
mod openapi;
mod operations;
mod pairs;
mod refused;
mod reindex;
mod replicas;
mod responses;
mod route;
mod series;
mod similar;

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::FutureExt;
use futures::future::{BoxFuture, Either, Ready, ready};
use tokio::net::TcpListener;
use tower::Service;
use tower_http::compression::CompressionLayer;
use utoipa_swagger_ui::{Config, SwaggerUi};

pub use lookalike_api::wire::{CharsetOut, DOCUMENT_MEMBERS, ExportHeader};

pub use browser::Sites;
pub use edge::{EdgeLimits, Tls, TlsError};
pub use openapi::yaml as openapi_yaml;
pub use series::Series;

use lookalike_api::error::{Code, Problem};
use lookalike_api::{body, condition, encoding, error, parse, wire};
use lookalike_keys::Keyring;
use lookalike_replica::Replicas;
use lookalike_run::call::{Accountant, Call};
use lookalike_service::Service as Lookalike;
use route::{Matched, Route};

/// The state that all handlers share.
pub struct Shared {
    /// The service.
    pub service: Arc<Lookalike>,
    /// The metrics in the text format of Prometheus.
    pub render_metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// Whether the server is shutting down.
    pub is_draining: Box<dyn Fn() -> bool + Send + Sync>,
    /// The keys.
    pub keys: Arc<Keyring>,
    /// The memory that requests hold.
    pub accountant: Arc<Accountant>,
    /// The names of the server, and the web pages that may use it.
    pub sites: Sites,
    /// Whether the console is served.
    pub has_console: bool,
    /// Which collections have series of their own in the metrics.
    pub series: Series,
    /// The replicas of the server, once it is connected; empty if it is a single one.
    pub replicas: Arc<OnceLock<Replicas>>,
}

/// One pointer, because it is copied for every request.
type State = Arc<Shared>;

/// Serves all routes until `stop` resolves and all connections have ended. Connections that are open after
/// the drain time are cut; returns their number.
///
/// The future is boxed here: the crate that polls an async function compiles it, with all that it calls.
pub fn serve(
    listener: TcpListener,
    shared: Shared,
    limits: EdgeLimits,
    tls: Option<Tls>,
    stop: BoxFuture<'static, ()>,
) -> BoxFuture<'static, usize> {
    observe::begin_counts();
    let server = Arc::new(Server::new(Arc::new(shared)));
    let answer = move |request: Request, address: IpAddr| {
        let state = &server.state;
        let matched = Matched::of(request.uri().path());
        let matched = if state.has_console { matched } else { matched.without_console() };
        let client = |request: &Request| access::client(request, address);
        let gate = |request: &mut Request| {
            access::check_head(request)?;
            let keys = state.keys.keys();
            state.sites.check(keys.is_some(), request)?;
            if *request.method() == Method::OPTIONS && matched.route != Route::Unknown {
                return Ok(());
            }
            access::check(keys.as_deref().map(Vec::as_slice), &matched, request)?;
            let is_busy = || state.service.waiting() > 0 && state.service.is_busy_for(client(request));
            if matched.route.needs_pool(request.method()) && is_busy() {
                return Err(Problem::new(Code::Busy, "the processors are busy; try again in a moment"));
            }
            Ok(())
        };
        let handle = |request: Request| {
            let client = client(&request);
            let answering = match state.replicas.get() {
                None => server.handle(matched.clone(), request),
                Some(replicas) => replicas::answer(&server, replicas, matched.clone(), request),
            };
            match answering {
                Either::Left(done) => {
                    let response = done.into_inner();
                    if !body::is_counted(&response) {
                        return Either::Left(ready(response));
                    }
                    let call = Call::begin(client, &state.accountant);
                    Either::Left(ready(call.within(|| body::reserve_body(response))))
                }
                Either::Right(answering) => {
                    let call = Call::begin(client, &state.accountant);
                    Either::Right(call.surround(answering.map(body::reserve_body)))
                }
            }
        };
        observe::answer(matched.template(), &gate, &handle, request)
    };
    edge::serve(listener, answer, limits, tls, stop).boxed()
}

/// An answer that is there at once, or one that has to be awaited.
type Answering = Either<Ready<Response>, BoxFuture<'static, Response>>;

/// The handlers of all routes.
struct Server {
    state: State,
    /// `GET /export` and `GET /pairs`, compressed if the client takes that.
    export: Router,
    pairs: Router,
    /// The pages of the contract and of the errors.
    pages: Router,
}

impl Server {
    fn new(state: State) -> Server {
        let compressed =
            |router: Router<State>| router.layer(CompressionLayer::new()).with_state(Arc::clone(&state));
        let export = compressed(Router::new().fallback(listing::export));
        let pairs = compressed(Router::new().fallback(pairs::list));
        Server { export, pairs, pages: pages(), state }
    }

    /// Calls the handler of a route. The match has a line for each operation of the contract. A router would
    /// parse the path a second time.
    fn handle(&self, matched: Matched, mut request: Request) -> Answering {
        if browser::is_preflight(&request) {
            return Either::Left(ready(browser::preflight()));
        }
        let (route, method) = (matched.route, request.method().clone());
        if request.headers().contains_key(header::CONTENT_ENCODING) {
            request = match encoding::decoded(request) {
                Ok(decoded) => decoded,
                Err(problem) => return Either::Left(ready(problem.into_response())),
            };
        }
        let state = Arc::clone(&self.state);
        // The connection leaves out the body of an answer to HEAD.
        let method = if method == Method::HEAD { Method::GET } else { method };
        if (route, &method) == (Route::Similar, &Method::GET) {
            return similar::by_query(request, &matched, state);
        }
        request.extensions_mut().insert(matched);
        Either::Right(match (route, method) {
            (Route::Fingerprint, Method::POST) => fingerprint::fingerprint.call(request, state),
            (Route::BatchFingerprint, Method::POST) => fingerprint::batch.call(request, state),
            (Route::BatchSimilar, Method::POST) => similar::batch.call(request, state),
            (Route::BatchDocuments, Method::POST) => documents::batch.call(request, state),
            (Route::Compare, Method::POST) => compare::compare.call(request, state),
            (Route::Similar, Method::POST) => similar::by_body.call(request, state),
            (Route::DocumentSimilar, Method::GET) => similar::by_document.call(request, state),
            (Route::Documents, Method::GET) => listing::list.call(request, state),
            (Route::Deletions, Method::GET) => deletions::get.call(request, state),
            (Route::Deletions, Method::POST) => deletions::begin.call(request, state),
            (Route::Deletions, Method::DELETE) => deletions::forget.call(request, state),
            (Route::Documents, Method::POST) => documents::add.call(request, state),
            (Route::Document, Method::GET) => documents::get.call(request, state),
            (Route::Document, Method::PATCH) => documents::patch.call(request, state),
            (Route::Document, Method::PUT) => documents::put.call(request, state),
            (Route::Document, Method::DELETE) => documents::delete.call(request, state),
            (Route::Export, Method::GET) => self.export.clone().call(request).map(|Ok(done)| done).boxed(),
            (Route::Pairs, Method::GET) => self.pairs.clone().call(request).map(|Ok(done)| done).boxed(),
            (Route::Collections, Method::GET) => collections::list.call(request, state),
            (Route::Collection, Method::GET) => collections::get.call(request, state),
            (Route::Collection, Method::PUT) => collections::put.call(request, state),
            (Route::Collection, Method::DELETE) => collections::delete.call(request, state),
            (Route::Backup, Method::GET) => backups::backup.call(request, state),
            (Route::Restore, Method::POST) => backups::restore.call(request, state),
            (Route::Calibrate, Method::GET) => calibrate::get.call(request, state),
            (Route::Calibrate, Method::POST) => calibrate::begin.call(request, state),
            (Route::Calibrate, Method::DELETE) => calibrate::forget.call(request, state),
            (Route::Reindex, Method::GET) => reindex::get.call(request, state),
            (Route::Reindex, Method::POST) => reindex::begin.call(request, state),
            (Route::Reindex, Method::DELETE) => reindex::end.call(request, state),
            (Route::Clusters, Method::GET) => clusters::list.call(request, state),
            (Route::Clusters, Method::POST) => clusters::build.call(request, state),
            (Route::Clusters, Method::DELETE) => clusters::remove.call(request, state),
            (Route::Cluster, Method::GET) => clusters::get.call(request, state),
            (Route::DocumentCluster, Method::GET) => clusters::of_document.call(request, state),
            (Route::Marks, Method::GET) => marks::list.call(request, state),
            (Route::Marks, Method::POST) => marks::add.call(request, state),
            (Route::Marks, Method::DELETE) => marks::remove.call(request, state),
            (Route::Stats, Method::GET) => operations::stats.call(request, state),
            (Route::Snapshots, Method::GET) => operations::snapshots.call(request, state),
            (Route::Snapshots, Method::POST) => operations::snapshot.call(request, state),
            (Route::Livez, Method::GET) => operations::livez.call(request, state),
            (Route::Readyz, Method::GET) => operations::readyz.call(request, state),
            (Route::Metrics, Method::GET) => operations::metrics.call(request, state),
            (Route::Version, Method::GET) => operations::version.call(request, state),
            (Route::Profiles, Method::GET) => operations::profiles.call(request, state),
            (Route::Key, Method::GET) => operations::key.call(request, state),
            (Route::Replicas, Method::GET) => replicas::list.call(request, state),
            (Route::ReplicasCopy, Method::GET) => replicas::copy.call(request, state),
            (Route::SharedHashes, Method::GET) => collections::shared_hashes.call(request, state),
            (Route::Contract, Method::GET) => operations::contract.call(request, state),
            (Route::ContractJson, Method::GET) => operations::contract_json.call(request, state),
            (Route::Docs, Method::GET) => self.page(request),
            (Route::Console, Method::GET) => {
                let file = console::file(&request)
                    .unwrap_or_else(|| no_route(&Method::GET, request.uri()).into_response());
                ready(file).boxed()
            }
            (route, Method::OPTIONS) if route != Route::Unknown => ready(methods_of(route)).boxed(),
            (Route::Unknown, method) => ready(no_route(&method, request.uri()).into_response()).boxed(),
            (_, method) => ready(no_method(route, &method, request.uri())).boxed(),
        })
    }
}

impl Server {
    fn page(&self, request: Request) -> BoxFuture<'static, Response> {
        let uri = request.uri().clone();
        let page = self.pages.clone().call(request);
        // The router of the pages answers without a body if the page does not exist.
        let with_body = move |page: Response| {
            if page.status().is_client_error() { no_route(&Method::GET, &uri).into_response() } else { page }
        };
        page.map(move |Ok(page)| with_body(page)).boxed()
    }
}

/// The pages load everything from this process: the external validator of Swagger is turned off.
fn pages() -> Router {
    let config = Config::from(Route::ContractJson.path()).validator_url("none").try_it_out_enabled(true);
    let swagger = SwaggerUi::new(route::DOCS).config(config);
    let pages = Router::from(swagger).route(route::DOCS_ERRORS, get(operations::errors));
    pages.layer(map_response(browser::page))
}

fn no_route(method: &Method, uri: &Uri) -> Problem {
    let detail = format!("there is no route {method} {}; GET /docs shows all routes", uri.path());
    Problem::new(Code::RouteNotFound, detail)
}

fn no_method(route: Route, method: &Method, uri: &Uri) -> Response {
    let detail = format!("{} has no method {method}; GET /docs shows its methods", uri.path());
    let mut response = Problem::new(Code::MethodNotAllowed, detail).into_response();
    response.headers_mut().insert(header::ALLOW, allowed(route));
    response
}

/// The answer to `OPTIONS`: the methods of a route. It needs no key.
fn methods_of(route: Route) -> Response {
    (StatusCode::NO_CONTENT, [(header::ALLOW, allowed(route))]).into_response()
}

fn allowed(route: Route) -> HeaderValue {
    let methods = route.methods().iter().map(|(method, _)| method.as_str());
    let head = route.methods().iter().any(|(method, _)| *method == Method::GET).then_some("HEAD");
    let all: Vec<&str> = methods.chain(head).chain(["OPTIONS"]).collect();
    HeaderValue::try_from(all.join(",")).expect("names of methods are a header value")
}
