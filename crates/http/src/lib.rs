//! HTTP: the checks of every request, and the dispatch to the handlers of all routes.
//!
//! A handler parses a request, calls the service once, and builds the answer. Only `api/error` knows the
//! statuses of errors, and only `api/wire` the JSON types; `bulk` has the streams of documents, `openapi` the
//! contract.
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
mod errors_page;
mod examples;
mod extract;
mod fingerprint;
mod gauges;
mod idempotency;
mod image_body;
mod links;
mod listing;
mod marks;
mod observe;
mod openapi;
mod operations;
mod pairs;
mod parquet;
mod preview;
mod refused;
mod reindex;
mod replicas;
mod responses;
mod route;
mod series;
mod similar;
mod thumbnail;
mod weights;

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::extract::{ConnectInfo, MatchedPath, Request, State as From_};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use futures::future::{BoxFuture, Either, Ready, ready};
use tokio::net::TcpListener;
use tower::Service;

pub use lookalike_api::wire::{CharsetOut, DOCUMENT_MEMBERS, ExportHeader};

pub use browser::Sites;
pub use edge::{EdgeLimits, Tls, TlsError};
pub use openapi::yaml as openapi_yaml;
pub use series::Series;

use lookalike_api::error::{Code, Problem};
use lookalike_api::{body, condition, encoding, error, parse, wire};
use lookalike_hash::CollectionName;
use lookalike_keys::Keyring;
use lookalike_replica::Replicas;
use lookalike_run::call::{Accountant, Call};
use lookalike_service::Service as Lookalike;
use route::{ROUTES, Routes, Rule, UNKNOWN};

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
    /// Whether the server shares a log with its replicas.
    pub has_log: bool,
    /// The replicas of the server, once it is connected; empty if it is a single one.
    pub replicas: Arc<OnceLock<Replicas>>,
}

/// One pointer, because it is copied for every request.
type State = Arc<Shared>;

/// The functions that add the routes of each module.
const MODULES: [fn(Routes) -> Routes; 20] = [
    backups::routes,
    calibrate::routes,
    clusters::routes,
    collections::routes,
    compare::routes,
    console::routes,
    deletions::routes,
    documents::routes,
    fingerprint::routes,
    listing::routes,
    marks::routes,
    operations::routes,
    pairs::routes,
    parquet::routes,
    preview::routes,
    reindex::routes,
    replicas::routes,
    similar::routes,
    thumbnail::routes,
    weights::routes,
];

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
    let state: State = Arc::new(shared);
    let layer = from_fn_with_state(Arc::clone(&state), through);
    let router = ROUTES.router.clone().layer(layer).with_state(Arc::clone(&state));
    let answer = move |mut request: Request, address: IpAddr| {
        // Most requests are such lookups, and need no router.
        if let Some((rule, collection)) = similar::direct(&request) {
            let target = Ok(collection.clone());
            let of_request = Arc::clone(&state);
            let handle = move |request: Request| similar::at_once(&request, &collection, of_request);
            return Either::Left(answer(&state, rule, address, &target, request, handle));
        }
        request.extensions_mut().insert(ConnectInfo(address));
        Either::Right(router.clone().call(request).map(|Ok(answer)| answer))
    };
    edge::serve(listener, answer, limits, tls, stop).boxed()
}

/// An answer that is ready, or one that has to be awaited.
type Answering = Either<Ready<Response>, BoxFuture<'static, Response>>;

/// Answers a request for which the router has found its handler, or none.
async fn through(
    From_(state): From_<State>,
    ConnectInfo(address): ConnectInfo<IpAddr>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let rule = path.and_then(|path| ROUTES.rules.get(path.as_str()));
    let rule = rule.filter(|rule| state.has_console || rule.label != console::PATH).unwrap_or(&UNKNOWN);
    let (mut parts, body) = request.into_parts();
    let target = extract::target(&mut parts).await;
    let request = Request::from_parts(parts, body);
    answer(&state, rule, address, &target, request, |request| Either::Right(next.run(request).boxed())).await
}

/// Checks a request, has it answered by `handle`, and records it.
fn answer<H>(
    state: &State,
    rule: &'static Rule,
    address: IpAddr,
    target: &Result<CollectionName, Problem>,
    request: Request,
    handle: H,
) -> impl Future<Output = Response> + use<H>
where
    H: FnOnce(Request) -> Answering + Send + 'static,
{
    let client = |request: &Request| access::client(request, address);
    let gate = |request: &mut Request| {
        access::check_head(request)?;
        let keys = state.keys.keys();
        state.sites.check(keys.is_some(), request)?;
        if *request.method() == Method::OPTIONS && rule.is_known() {
            return Ok(());
        }
        access::check(keys.as_deref().map(Vec::as_slice), rule, target, request)?;
        let is_busy = || state.service.waiting() > 0 && state.service.is_busy_for(client(request));
        if rule.terms(request.method()).is_some_and(|terms| terms.uses_pool) && is_busy() {
            return Err(Problem::new(Code::Busy, "the processors are busy; try again in a moment"));
        }
        Ok(())
    };
    let handle = |request: Request| {
        let client = client(&request);
        let handle = move |request| handled(rule, request, handle);
        let answering = match state.replicas.get() {
            None if state.has_log => replicas::starting(request, handle),
            None => handle(request),
            Some(replicas) => replicas::answer(state, replicas, rule, request, handle),
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
    let mut handle = Some(handle);
    // A reference to it keeps the borrowed state out of the type of the future.
    let mut once = |request| handle.take().expect("it is called once")(request);
    observe::answer(rule.label, &gate, &mut once, request)
}

/// Answers a request that may be answered, by `handle` if the route has its method.
fn handled(rule: &Rule, request: Request, handle: impl FnOnce(Request) -> Answering) -> Answering {
    let at_once = |response| Either::Left(ready(response));
    let method = request.method();
    if browser::is_preflight(&request) {
        at_once(browser::preflight())
    } else if !rule.is_known() {
        at_once(no_route(method, request.uri()).into_response())
    } else if *method == Method::OPTIONS {
        at_once((StatusCode::NO_CONTENT, [(header::ALLOW, allowed(rule))]).into_response())
    } else if rule.terms(method).is_none() {
        at_once(no_method(rule, method, request.uri()))
    } else {
        encoding::decoded(request).map_or_else(|problem| at_once(problem.into_response()), handle)
    }
}

fn no_route(method: &Method, uri: &Uri) -> Problem {
    let detail = format!("there is no route {method} {}; GET /docs shows all routes", uri.path());
    Problem::new(Code::RouteNotFound, detail)
}

fn no_method(rule: &Rule, method: &Method, uri: &Uri) -> Response {
    let detail = format!("{} has no method {method}; GET /docs shows its methods", uri.path());
    let mut response = Problem::new(Code::MethodNotAllowed, detail).into_response();
    response.headers_mut().insert(header::ALLOW, allowed(rule));
    response
}

fn allowed(rule: &Rule) -> HeaderValue {
    let methods = rule.methods().map(Method::as_str);
    let head = rule.methods().any(|method| *method == Method::GET).then_some("HEAD");
    let all: Vec<&str> = methods.chain(head).chain(["OPTIONS"]).collect();
    HeaderValue::try_from(all.join(",")).expect("names of methods are a header value")
}
