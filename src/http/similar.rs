//! Looking up neighbours.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Request, State as From_};
use axum::http::Method;
use axum::response::{IntoResponse, Response};

use super::State;
use super::deadline::Deadline;
use super::error::{BodyRefused, Code, NotFound, Problem, Refused, Unavailable};
use super::extract::{DocumentPath, NoParams, Params, Target, check_type, parse_aside, parse_object, read};
use super::json::{Results, written};
use super::route::{Matched, Route};
use super::wire::{AnsweredOneOrSeveral, NearIdParams, SeveralIn, SimilarIn, SimilarOut, SimilarParams};
use crate::call::NoMemory;
use crate::ids::CollectionName;
use crate::service::{Ask, Found, Limits, Service as Lookalike};

/// Matches in the answer to several questions, at most: each may bring its metadata.
const MATCHES_IN_ALL: usize = 20_000;

/// Which stored documents lie within k bits of a hash, a text or another document.
#[utoipa::path(
    get, path = Route::Similar.path(), tag = "similar", operation_id = "get_similar", params(SimilarParams),
    responses(
        (status = 200, description = "The documents within k, by distance, then id.", body = SimilarOut),
        NotFound, Refused, Unavailable,
    )
)]
pub(super) async fn by_query(
    From_(state): From_<State>,
    Target(collection): Target,
    Params(params): Params<SimilarParams>,
    deadline: Deadline,
) -> Result<Response, Problem> {
    let stats = params.wants_stats();
    let ask = params.ask().map_err(Problem::in_query)?;
    deadline.query(one(&state, &collection, ask, stats)).await.map_err(Problem::in_query)
}

/// Answers `GET /similar` for a hash, as most requests are, without a future, which would cost as much as the lookup. What is
/// invalid, or takes longer, goes to [`by_query`].
pub(super) fn at_once(state: &State, matched: &Matched, request: &Request) -> Option<Response> {
    let is_it = matched.route == Route::Similar && *request.method() == Method::GET;
    if !is_it || Deadline::is_set(request.headers()) {
        return None;
    }
    let named = match matched.collection(request.uri().path()) {
        None => None,
        Some(name) => Some(CollectionName::new(&name.ok()?).ok()?),
    };
    let collection = named.as_ref().unwrap_or_else(|| CollectionName::default_collection());
    let ask = SimilarParams::plain(request.uri().query()?)?.ask().ok()?;
    let found = state.service.similar_at_once(collection, &ask).ok()??;
    Some(written(SimilarOut::bytes(&found), |text| SimilarOut::write(found, false, text)))
}

/// The neighbours of a stored document, itself left out.
#[utoipa::path(
    get, path = Route::DocumentSimilar.path(), tag = "similar", operation_id = "get_document_similar",
    params(("id" = String, Path, description = "The document."), NearIdParams),
    responses(
        (status = 200, description = "The documents within k, by distance, then id.", body = SimilarOut),
        NotFound, Refused, Unavailable,
    )
)]
pub(super) async fn by_document(
    From_(state): From_<State>,
    Target(collection): Target,
    DocumentPath(id): DocumentPath,
    Params(params): Params<NearIdParams>,
    deadline: Deadline,
) -> Result<Response, Problem> {
    let stats = params.wants_stats();
    let answering = one(&state, &collection, params.ask(id), stats);
    deadline.query(answering).await.map_err(Problem::in_query)
}

/// The same for long texts, pages and filters, and for many questions at once in `queries`.
#[utoipa::path(
    post, path = Route::Similar.path(), tag = "similar", operation_id = "post_similar", request_body = SimilarIn,
    responses(
        (status = 200, description = "The documents within k, by distance, then id; with `queries`, an object with all `results`.", body = AnsweredOneOrSeveral),
        BodyRefused, NotFound, Refused, Unavailable,
    )
)]
pub(super) async fn by_body(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    deadline: Deadline,
    request: Request,
) -> Result<Response, Problem> {
    check_type(request.headers(), &["application/json"])?;
    let limits = *state.service.limits();
    let bytes = read(request, limits.batch_bytes).await?;
    // A large body goes to the pool, and what of it takes little is answered there at once.
    let (service, at_once) = (Arc::clone(&state.service), Lookalike::goes_aside(bytes.len()));
    let name = collection.clone();
    let read = move |bytes: &Bytes| match questions(bytes, &limits)? {
        Questions::One(ask, stats) => Ok(Read::One(ask, stats)),
        Questions::Several(asks, stats) => {
            let (mut results, mut stats) = (Results::of(asks.len())?, stats.into_iter());
            let (all, mut rest) = (asks.len(), asks);
            if at_once {
                let mut written = Ok(());
                let write = |found| {
                    let stats = stats.next() == Some(true);
                    if written.is_ok() {
                        written = push(&mut results, found, stats);
                    }
                };
                rest = service.similar_here(&name, rest, write)?;
                written?;
            }
            Ok(Read::Several { results, before: all - rest.len(), rest, stats })
        }
    };
    match deadline.query(parse_aside(&state, bytes, read)).await? {
        Read::One(ask, stats) => deadline.query(one(&state, &collection, *ask, stats)).await,
        Read::Several { results, rest, .. } if rest.is_empty() => Ok(results.into_response()),
        Read::Several { mut results, before, rest, stats } => {
            let answers = state.service.similar_batch(&collection, rest);
            let answering = async { answers.await.map_err(|error| error.after(before)) };
            let found = deadline.query(answering).await?;
            let bytes = found.iter().map(SimilarOut::bytes).sum();
            let write = move || -> Result<Response, NoMemory> {
                for (found, stats) in found.into_iter().zip(stats) {
                    push(&mut results, found, stats)?;
                }
                Ok(results.into_response())
            };
            Ok(state.service.aside(bytes, write).await??)
        }
    }
}

/// What became of a body: one question, or the answers to the first of several and the rest of them.
enum Read {
    One(Box<Ask>, bool),
    Several { results: Results, before: usize, rest: Vec<Ask>, stats: std::vec::IntoIter<bool> },
}

/// What a body asks, and for each question whether to tell how it was answered.
enum Questions {
    One(Box<Ask>, bool),
    Several(Vec<Ask>, Vec<bool>),
}

fn questions(bytes: &[u8], limits: &Limits) -> Result<Questions, Problem> {
    let several = if let Some(plain) = SeveralIn::plain(bytes) {
        plain
    } else {
        let mut body: SimilarIn = parse_object(bytes)?;
        let Some(several) = body.queries.take() else {
            let stats = body.wants_stats();
            return Ok(Questions::One(Box::new(body.ask()?), stats));
        };
        if body.has_single() {
            let detail = "queries stands alone: put every other field into one of its elements";
            return Err(Problem::field(Code::InvalidField, "/queries", detail));
        }
        several
    };
    let SeveralIn { count, asks, stats, wrong } = several;
    let most = limits.batch_items;
    if count > most {
        let detail = format!("there are {count} queries; at most {most} are taken in one request");
        return Err(Problem::field(Code::InvalidField, "/queries", detail));
    }
    wrong.map_or(Ok(()), Err)?;
    let limit = |ask: &Ask| ask.limit.unwrap_or(limits.default_matches);
    let wanted = asks.iter().fold(0usize, |sum, ask| sum.saturating_add(limit(ask)));
    if wanted > MATCHES_IN_ALL {
        let detail = format!(
            "the limits of all queries add up to {wanted}; at most {MATCHES_IN_ALL} matches are given in one answer. Ask for fewer, or in several requests"
        );
        return Err(Problem::field(Code::InvalidField, "/queries", detail));
    }
    Ok(Questions::Several(asks, stats))
}

fn push(results: &mut Results, found: Found, stats: bool) -> Result<(), NoMemory> {
    results.push(SimilarOut::bytes(&found), |text| SimilarOut::write(found, stats, text))
}

async fn one(state: &State, collection: &CollectionName, ask: Ask, stats: bool) -> Result<Response, Problem> {
    let found = state.service.similar(collection, ask).await?;
    let bytes = SimilarOut::bytes(&found);
    let write = move || written(bytes, |text| SimilarOut::write(found, stats, text));
    Ok(state.service.aside(bytes, write).await?)
}
