//! Lookups of neighbours.

use std::iter::Enumerate;
use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use axum::extract::{Request, State as From_};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use futures::future::{Either, ready};
use memchr::memchr2;
use serde::Serialize;
use utoipa_axum::routes;

use super::body::{Results, write_json, written};
use super::deadline::Deadline;
use super::error::{Body, Code, Problem};
use super::extract::{DocumentPath, Params, Target, check_type, parse_aside, read};
use super::image_body::{self, WithImage};
use super::parse::parse_object;
use super::responses::{BodyRefused, Mismatch, NotFound, Refused, Unavailable};
use super::route::{COLLECTION, COLLECTIONS, READ, ROUTES, Routes, Rule};
use super::wire::{
    AskIn, FormParams, HashFormat, NearIdParams, QueriesIn, QueryResultsOut, Several, SimilarOut,
    SimilarParams,
};
use super::{Answering, State};
use lookalike_hash::CollectionName;
use lookalike_run::call::{NoMemory, reserve};
use lookalike_service::{Found, Limits, Lookup, Service as Lookalike, ServiceError, WorkBudget};

/// The most matches in the answer to several queries: each may have metadata.
const MATCHES_IN_ALL: usize = 20_000;
/// Bytes of memory per element or member of a body: a query takes the most, and `{"id":"a"},` is short.
const ELEMENT_BYTES: usize = 400;

const PATH: &str = "/similar";

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_optional_collection(READ, routes!(by_query))
        .of_optional_collection(READ.on_pool(), routes!(by_body))
        .of_optional_collection(READ.on_pool(), routes!(batch))
        .of_optional_collection(READ, routes!(by_document))
}

/// Which stored documents lie within k bits of a hash, a text or another document.
#[utoipa::path(
    get, path = PATH, tag = "similar", operation_id = "get_similar", params(SimilarParams),
    responses(
        (status = 200, description = "The documents within k, by distance, then id.", body = SimilarOut),
        NotFound, Mismatch, Refused, Unavailable,
    )
)]
async fn by_query(From_(state): From_<State>, Target(collection): Target, request: Request) -> Response {
    at_once(&request, &collection, state).await
}

/// The rules of a lookup by the query string, without and with the name of the collection in the path.
static RULES: LazyLock<[&Rule; 2]> =
    LazyLock::new(|| ["", COLLECTION].map(|before| &ROUTES.rules[format!("{before}{PATH}").as_str()]));

/// The rule and the collection of a lookup by the query string that needs no router: most requests are such.
/// The router finds the others.
pub(super) fn direct(request: &Request) -> Option<(&'static Rule, CollectionName)> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let before = request.uri().path().strip_suffix(PATH)?;
    let [plain, named] = *RULES;
    if before.is_empty() {
        return Some((plain, CollectionName::default_collection().clone()));
    }
    Some((named, CollectionName::new(before.strip_prefix(COLLECTIONS)?).ok()?))
}

/// Answers a lookup by the query string. Most requests are for a hash and are answered here, without a
/// future, which costs as much as a lookup.
pub(super) fn at_once(request: &Request, collection: &CollectionName, state: State) -> Answering {
    match begin(request, collection, &state) {
        Ok((Lookup::Found(found), shown, _)) => Either::Left(ready(answer_of(found, shown))),
        Ok((Lookup::Pending(pending), shown, deadline)) => {
            let finish = async move {
                let found = deadline.query(state.service.finish_one(pending)).await?;
                written_aside(&state, found, shown).await
            };
            Either::Right(finish.map(|done| done.map_err(Problem::in_query).into_response()).boxed())
        }
        Err(problem) => Either::Left(ready(problem.into_response())),
    }
}

/// Resolves a query string, and answers it if that is cheap.
fn begin(
    request: &Request,
    collection: &CollectionName,
    state: &State,
) -> Result<(Lookup, Shown, Deadline), Problem> {
    let query = request.uri().query().unwrap_or_default();
    let deadline = Deadline::of(request.headers(), state.service.limits())?;
    let (ask, shown) = if let Some(ask) = SimilarParams::plain(query) {
        (ask, Shown::default())
    } else {
        let params: SimilarParams = Params::of(query)?;
        let shown = Shown { stats: params.wants_stats(), form: params.hash_format };
        (params.ask().map_err(Problem::in_query)?, shown)
    };
    let lookup = state.service.begin_one(collection, ask);
    let lookup = lookup.map_err(|error| Problem::from(error).in_query())?;
    Ok((lookup, shown, deadline))
}

/// How an answer is written.
#[derive(Clone, Copy, Default)]
struct Shown {
    /// Whether it says how it was found.
    stats: bool,
    /// The form of its hashes.
    form: Option<HashFormat>,
}

/// The neighbours of a stored document, itself left out.
#[utoipa::path(
    get, path = "/documents/{id}/similar", tag = "similar", operation_id = "get_document_similar",
    params(("id" = String, Path, description = "The document."), NearIdParams),
    responses(
        (status = 200, description = "The documents within k, by distance, then id.", body = SimilarOut),
        NotFound, Refused, Unavailable,
    )
)]
async fn by_document(
    From_(state): From_<State>,
    Target(collection): Target,
    DocumentPath(id): DocumentPath,
    Params(params): Params<NearIdParams>,
    deadline: Deadline,
) -> Result<Response, Problem> {
    let shown = Shown { stats: params.wants_stats(), form: params.hash_format };
    let found = deadline.query(state.service.similar(&collection, params.ask(id)));
    written_aside(&state, found.await.map_err(Problem::in_query)?, shown).await
}

/// Looks up a text of any length, a page, features or hashes, also among some documents only.
///
/// An image can also be the body itself, as `image/jpeg`, `image/png`, `image/webp` or `image/gif`, or the
/// part `image` of a form (`multipart/form-data`) whose other parts are the members.
#[utoipa::path(
    post, path = PATH, tag = "similar", operation_id = "post_similar", params(FormParams),
    request_body = AskIn,
    responses(
        (status = 200, description = "The documents within k, by distance, then id.", body = SimilarOut),
        BodyRefused, NotFound, Mismatch, Refused, Unavailable,
    )
)]
async fn by_body(
    From_(state): From_<State>,
    Params(params): Params<FormParams>,
    Target(collection): Target,
    deadline: Deadline,
    request: Request,
) -> Result<Response, Problem> {
    let limits = *state.service.limits();
    if image_body::is_declared(request.headers()) {
        let WithImage { image, members } = image_body::read(request, &limits).await?;
        let mut ask: AskIn = parse_object(&members)?;
        ask.image = Some(image);
        let shown = Shown { stats: ask.wants_stats(), form: params.hash_format };
        let found = deadline.query(state.service.similar(&collection, ask.ask(params.hash_format)?)).await?;
        return written_aside(&state, found, shown).await;
    }
    check_type(request.headers(), &["application/json"])?;
    let bytes = read(request, limits.body_bytes()).await?;
    let (service, form) = (Arc::clone(&state.service), params.hash_format);
    let begin = move |bytes: &Bytes| {
        reserve(ELEMENT_BYTES * separators(bytes))?.keep();
        let ask: AskIn = parse_object(bytes)?;
        let shown = Shown { stats: ask.wants_stats(), form };
        Ok((service.begin_one(&collection, ask.ask(form)?)?, shown))
    };
    match parse_aside(&state, deadline, bytes, begin).await? {
        (Lookup::Found(found), shown) => Ok(answer_of(found, shown)),
        (Lookup::Pending(pending), shown) => {
            let found = deadline.query(state.service.finish_one(pending)).await?;
            written_aside(&state, found, shown).await
        }
    }
}

/// Answers many queries at once.
///
/// An invalid query, or one for an unknown document, has an `error` in place of an answer. The others are
/// answered.
#[utoipa::path(
    post, path = "/batch/similar", tag = "similar", operation_id = "batch_similar",
    params(FormParams), request_body = QueriesIn<'_>,
    responses(
        (status = 200, description = "The answer to each query, in order.", body = QueryResultsOut),
        BodyRefused, NotFound, Refused, Unavailable,
    )
)]
async fn batch(
    From_(state): From_<State>,
    Params(params): Params<FormParams>,
    Target(collection): Target,
    deadline: Deadline,
    request: Request,
) -> Result<Response, Problem> {
    check_type(request.headers(), &["application/json"])?;
    let limits = *state.service.limits();
    let bytes = read(request, limits.batch_bytes).await?;
    let service = Arc::clone(&state.service);
    // A large body is read on the pool, and cheap queries are answered there at once.
    let budget = if Lookalike::goes_aside(bytes.len()) { WorkBudget::SLICE } else { WorkBudget::INLINE };
    let form = params.hash_format;
    let begin = move |bytes: &Bytes| {
        let Several { asks, each } = several(bytes, form, &limits)?;
        let mut answers = Answers::of(each, form)?;
        let mut written = Ok(());
        let pending = service.begin(&collection, asks, budget, |found| {
            if written.is_ok() {
                written = answers.push(found);
            }
        })?;
        written?;
        Ok((answers, pending))
    };
    let (mut answers, pending) = parse_aside(&state, deadline, bytes, begin).await?;
    let Some(pending) = pending else { return Ok(answers.finish()?) };
    let found = deadline.query(state.service.finish(pending)).await?;
    let bytes = found.iter().flatten().map(SimilarOut::bytes).sum();
    let write = move || -> Result<Response, NoMemory> {
        found.into_iter().try_for_each(|found| answers.push(found))?;
        answers.finish()
    };
    Ok(state.service.aside(bytes, write).await??)
}

/// The answers to several queries, which are written one after the other.
struct Answers {
    results: Results,
    /// For each query without an answer so far: whether the answer says how it was found, or its error.
    each: Enumerate<std::vec::IntoIter<Result<bool, Problem>>>,
    form: Option<HashFormat>,
}

impl Answers {
    fn of(each: Vec<Result<bool, Problem>>, form: Option<HashFormat>) -> Result<Answers, NoMemory> {
        Ok(Answers { results: Results::of(each.len())?, each: each.into_iter().enumerate(), form })
    }

    /// Writes the answer to the next query that was asked, after the errors of those before it.
    fn push(&mut self, found: Result<Found, ServiceError>) -> Result<(), NoMemory> {
        while let Some((at, one)) = self.each.next() {
            match one {
                Err(problem) => self.push_error(&problem)?,
                Ok(stats) => {
                    return match found {
                        Ok(found) => {
                            let bytes = SimilarOut::bytes(&found);
                            let write = |text: &mut _| SimilarOut::write(found, stats, self.form, text);
                            self.results.push(bytes, write)
                        }
                        Err(error) => self.push_error(&Problem::from(error).of_query(at)),
                    };
                }
            }
        }
        Ok(())
    }

    fn push_error(&mut self, problem: &Problem) -> Result<(), NoMemory> {
        let mut error = Vec::new();
        write_json(&mut error, &ErrorOut { error: problem.body() });
        self.results.push(error.len(), |text| text.extend(&error))
    }

    /// Writes the errors of the last queries.
    fn finish(mut self) -> Result<Response, NoMemory> {
        while let Some((_, one)) = self.each.next() {
            one.err().map_or(Ok(()), |problem| self.push_error(&problem))?;
        }
        Ok(self.results.into_response())
    }
}

/// The error of one of several queries.
#[derive(Serialize)]
struct ErrorOut {
    error: Body,
}

/// The number of commas between the elements and members of a JSON text.
fn separators(json: &[u8]) -> usize {
    let (mut rest, mut count) = (json, 0);
    while let Some(at) = memchr2(b',', b'"', rest) {
        let is_comma = rest[at] == b',';
        rest = &rest[at + 1..];
        if is_comma {
            count += 1;
            continue;
        }
        while let Some(end) = memchr2(b'\\', b'"', rest) {
            let is_end = rest[end] == b'"';
            rest = rest.get(end + if is_end { 1 } else { 2 }..).unwrap_or_default();
            if is_end {
                break;
            }
        }
    }
    count
}

/// The queries of a body.
fn several(bytes: &[u8], form: Option<HashFormat>, limits: &Limits) -> Result<Several, Problem> {
    let several = if let Some(plain) = Several::plain(bytes, limits.batch_items, form) {
        plain
    } else {
        reserve(ELEMENT_BYTES * separators(bytes))?.keep();
        Several::of(&parse_object(bytes)?, limits.batch_items, form)?
    };
    let wanted = several.asks.iter().fold(0usize, |sum, ask| sum.saturating_add(ask.matches(limits)));
    if wanted > MATCHES_IN_ALL {
        let detail = format!(
            "the limits of all queries add up to {wanted}; at most {MATCHES_IN_ALL} matches are given in one \
             answer. Ask for fewer, or in several requests"
        );
        return Err(Problem::field(Code::InvalidField, "/queries", detail));
    }
    Ok(several)
}

/// The answer to one query.
fn answer_of(found: Found, shown: Shown) -> Response {
    written(SimilarOut::bytes(&found), |text| SimilarOut::write(found, shown.stats, shown.form, text))
}

/// The answer to one query; a large one is written on the pool.
async fn written_aside(state: &State, found: Found, shown: Shown) -> Result<Response, Problem> {
    Ok(state.service.aside(SimilarOut::bytes(&found), move || answer_of(found, shown)).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_lookups_need_no_router() {
        let found = |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).body(axum::body::Body::empty());
            direct(&request.unwrap()).map(|(rule, name)| (rule.label, name.as_str().to_owned()))
        };
        assert_eq!(found("GET", "/similar?k=3"), Some(("/similar", "default".to_owned())));
        let named = Some(("/collections/{collection}/similar", "news".to_owned()));
        assert_eq!(found("HEAD", "/collections/news/similar"), named);
        assert_eq!(found("POST", "/similar"), None);
        for path in
            ["/similar/", "//similar", "/batch/similar", "/documents/a/similar", "/collections/similar"]
        {
            assert_eq!(found("GET", path), None, "{path}");
        }
        for name in ["", "%61", "a/b", "A"] {
            assert_eq!(found("GET", &format!("/collections/{name}/similar")), None, "{name}");
        }
    }

    #[test]
    fn separators_are_the_commas_outside_strings() {
        let cases = [
            ("", 0),
            ("[1,1,1]", 2),
            (r#"{"a":"1,2","b":[1,{"c":2,"d":3}]}"#, 3),
            (r#"["\",",\",","x"]"#, 2),
            (r#"[",\"#, 0),
            (r#"["a","#, 1),
        ];
        for (json, expected) in cases {
            assert_eq!(separators(json.as_bytes()), expected, "{json}");
        }
    }
}
