//! Positions and waits of requests on a replica.
//!
//! - Every answer has the header `X-Lookalike-Position`: it has no effect of entries of the log after that
//!   position. An answer that may miss older writes of other servers has `X-Lookalike-Stale-Ms`.
//! - `at_least=POSITION` makes a request wait until the server has applied the log up to there.
//!   `linearizable=true` makes it wait until the server has every write that was acknowledged before. A
//!   request that depends on what is stored waits so in any case: PATCH, and those with a condition.
//! - A server whose data differ from those of others answers only requests that are not for data.
//!
//! Both parameters are taken from the query before the handler sees it, and are unknown on a single server.
//! One that waits for its log answers as any that starts.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State as From_};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use futures::future::{Either, ready};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::body::Json;
use super::error::{Body, Code, Problem};
use super::extract::{NoParams, Params};
use super::route::{Need, Routes, Rule};
use super::{Answering, State};
use lookalike_keys::Role;
use lookalike_replica::{Replicas, ReplicasStatus};

const POSITION: HeaderName = HeaderName::from_static("x-lookalike-position");
const STALE: HeaderName = HeaderName::from_static("x-lookalike-stale-ms");

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_server(Need::All(Role::Read).without_data(), routes!(list))
        .of_server(Need::All(Role::Read).without_data(), routes!(hint))
}

/// Returns the state of the replicas: the shared log, the servers, and how far each of them is.
#[utoipa::path(
    get, path = "/replicas", tag = "operations", operation_id = "list_replicas",
    responses(
        (status = 200, description = "The state of the replicas.", body = ReplicasStatus),
        (status = 409, description = "The server has no replicas.", body = Body,
            content_type = "application/problem+json"),
    )
)]
async fn list(From_(state): From_<State>, _: NoParams) -> Result<Json<ReplicasStatus>, Problem> {
    Ok(Json(of_replicas(&state)?.status().await))
}

/// Where the shared log may have a new entry.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct HintParams {
    /// The position of the entry.
    #[param(example = 1)]
    position: u64,
}

/// Says that the shared log has a new entry. Servers tell each other; nothing but an early look follows.
#[utoipa::path(
    post, path = "/replicas/hint", tag = "operations", operation_id = "hint_at_entry", params(HintParams),
    responses(
        (status = 204, description = "The server looks for the entry."),
        (status = 409, description = "The server has no replicas.", body = Body,
            content_type = "application/problem+json"),
    )
)]
async fn hint(From_(state): From_<State>, Params(params): Params<HintParams>) -> Result<StatusCode, Problem> {
    of_replicas(&state)?.hint(params.position);
    Ok(StatusCode::NO_CONTENT)
}

/// The replicas of the server.
fn of_replicas(state: &State) -> Result<&Replicas, Problem> {
    state.replicas.get().ok_or_else(|| {
        let detail = "this is a single server; lookalike serve --shared-log makes it one of several replicas";
        Problem::new(Code::NoReplicas, detail)
    })
}

/// The position up to which the server must have applied the log before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Position(u64),
    /// The end of the log when the request arrives.
    End,
}

/// Answers a request by `handle`, with the waits and the headers of replicas.
pub(super) fn answer(
    state: &State,
    replicas: &Replicas,
    rule: &Rule,
    mut request: Request,
    handle: impl FnOnce(Request) -> Answering + Send + 'static,
) -> Answering {
    let wanted = match refuse_diverged(replicas, rule, &request).and_then(|()| take(&mut request)) {
        Ok(wanted) => wanted.or_else(|| depends_on_state(&request).then_some(Wanted::End)),
        Err(problem) => return Either::Left(ready(problem.into_response())),
    };
    let state = Arc::clone(state);
    let Some(wanted) = wanted else {
        return match handle(request) {
            Either::Left(done) => Either::Left(ready(marked(done.into_inner(), replicas))),
            Either::Right(answering) => {
                Either::Right(answering.map(move |response| in_state(response, &state)).boxed())
            }
        };
    };
    let within = state.service.limits().query_time;
    Either::Right(
        async move {
            if let Some(replicas) = state.replicas.get()
                && let Err(problem) = wait(replicas, wanted, within).await
            {
                return in_state(problem.into_response(), &state);
            }
            in_state(handle(request).await, &state)
        }
        .boxed(),
    )
}

/// Whether a request is decided by what is stored when it arrives.
fn depends_on_state(request: &Request) -> bool {
    let has = |name| request.headers().contains_key(name);
    let is_change = !request.method().is_safe();
    request.method() == Method::PATCH || (is_change && (has(header::IF_MATCH) || has(header::IF_NONE_MATCH)))
}

/// Refuses requests for data while those of this server differ from those of others.
fn refuse_diverged(replicas: &Replicas, rule: &Rule, request: &Request) -> Result<(), Problem> {
    let is_for_data = rule.terms(request.method()).is_some_and(|terms| terms.is_for_data);
    let reason = if is_for_data { replicas.divergence() } else { None };
    reason.map_or(Ok(()), |reason| Err(Problem::new(Code::Diverged, reason)))
}

async fn wait(replicas: &Replicas, wanted: Wanted, within: Duration) -> Result<(), Problem> {
    let position = match wanted {
        Wanted::Position(position) => Some(position),
        Wanted::End => None,
    };
    replicas.reach(position, within).await.map_err(|error| Problem::from(&error))
}

fn in_state(response: Response, state: &State) -> Response {
    match state.replicas.get() {
        Some(replicas) => marked(response, replicas),
        None => response,
    }
}

/// The response with the position of the server.
fn marked(mut response: Response, replicas: &Replicas) -> Response {
    let headers = response.headers_mut();
    headers.insert(POSITION, HeaderValue::from(replicas.position()));
    if replicas.is_stale() {
        headers.insert(STALE, HeaderValue::from(replicas.behind().as_millis() as u64));
    }
    response
}

/// Answers a request on a server that is not connected to its log yet.
pub(super) fn starting(mut request: Request, handle: impl FnOnce(Request) -> Answering) -> Answering {
    match take(&mut request) {
        Ok(_) => handle(request),
        Err(problem) => Either::Left(ready(problem.into_response())),
    }
}

/// Takes the parameters of replicas from the query of a request.
fn take(request: &mut Request) -> Result<Option<Wanted>, Problem> {
    let Some(query) = request.uri().query() else { return Ok(None) };
    if !query.contains("at_least=") && !query.contains("linearizable=") {
        return Ok(None);
    }
    let (mut wanted, mut rest) = (None, Vec::new());
    for part in query.split('&') {
        match part.split_once('=') {
            Some(("at_least", value)) => {
                let position = value.parse().map_err(|_| {
                    let detail = format!(
                        "at_least is {value:?}; give a position, as the header X-Lookalike-Position has it"
                    );
                    Problem::field(Code::InvalidField, "/at_least", detail).in_query()
                })?;
                wanted = wanted.or(Some(Wanted::Position(position)));
            }
            Some(("linearizable", "true")) => wanted = Some(Wanted::End),
            Some(("linearizable", "false")) => {}
            Some(("linearizable", value)) => {
                let detail = format!("linearizable is {value:?}; it is true or false");
                return Err(Problem::field(Code::InvalidField, "/linearizable", detail).in_query());
            }
            _ => rest.push(part),
        }
    }
    let path = request.uri().path();
    let uri = if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) };
    // A part of a valid query is a valid query.
    *request.uri_mut() = uri.parse::<Uri>().unwrap_or_default();
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(uri: &str) -> (Option<Wanted>, String) {
        let mut request = Request::builder().uri(uri).body(axum::body::Body::empty()).unwrap();
        (take(&mut request).unwrap(), request.uri().to_string())
    }

    #[test]
    fn the_parameters_of_replicas_are_taken_from_the_query() {
        let hash = "hash=00000000000000ff&k=3";
        let cases = [
            (format!("/similar?{hash}"), None, format!("/similar?{hash}")),
            (format!("/similar?at_least=7&{hash}"), Some(Wanted::Position(7)), format!("/similar?{hash}")),
            (format!("/similar?{hash}&linearizable=true"), Some(Wanted::End), format!("/similar?{hash}")),
            ("/documents/a?linearizable=false".into(), None, "/documents/a".into()),
            (
                "/documents/at_least?at_least=0".into(),
                Some(Wanted::Position(0)),
                "/documents/at_least".into(),
            ),
            ("/similar?at_least=3&linearizable=true".into(), Some(Wanted::End), "/similar".into()),
        ];
        for (uri, wanted, rest) in cases {
            assert_eq!(taken(&uri), (wanted, rest), "{uri}");
        }
        for uri in ["/similar?at_least=x", "/similar?at_least=-1", "/similar?linearizable=yes"] {
            let mut request = Request::builder().uri(uri).body(axum::body::Body::empty()).unwrap();
            assert!(take(&mut request).is_err(), "{uri}");
        }
    }
}
