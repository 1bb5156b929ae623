//! All pairs of near documents of a collection.

use axum::body::Body;
use axum::extract::State as From_;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::{TryStreamExt, stream};
use tower_http::compression::CompressionLayer;
use utoipa_axum::router::UtoipaMethodRouterExt;
use utoipa_axum::routes;

use super::State;
use super::bulk;
use super::error::{Code, Problem};
use super::extract::{Params, Target};
use super::responses::{NotFound, Refused, Unavailable};
use super::route::{READ, Routes};
use super::wire::{PairOut, PairsParams, read_pair};
use lookalike_run::call::{Call, for_call};

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_optional_collection(READ, routes!(list).layer(CompressionLayer::new()))
}

/// Streams all pairs of documents within k as NDJSON, by distance, then by their ids.
///
/// The pairs are those of one moment; writes go on meanwhile. After an interruption, the last line as
/// `cursor` continues behind it, with the documents of a later moment. One list of pairs is made at a time;
/// another request gets 503.
#[utoipa::path(
    get, path = "/pairs", tag = "similar", operation_id = "list_pairs",
    params(PairsParams),
    responses(
        (status = 200, description = "One pair per line.", body = String,
            content_type = "application/x-ndjson"),
        NotFound, Refused, Unavailable,
    )
)]
async fn list(
    From_(state): From_<State>,
    Target(collection): Target,
    Params(params): Params<PairsParams>,
) -> Result<Response, Problem> {
    let after =
        params.cursor.as_deref().map(|line| read_pair(line).ok_or_else(invalid_cursor)).transpose()?;
    let left = params.limit.map_or(usize::MAX, |limit| limit as usize);
    if left == 0 {
        let detail = "limit is 0; it is 1 or more, and without it the answer has all pairs";
        return Err(Problem::parameter(Code::InvalidField, "limit", detail));
    }
    let k = params.k.map(|k| k.0);
    let found = state.service.pairs(&collection, k, params.threshold, after).await;
    let (pairs, signatures) = found.map_err(|error| Problem::from(error).in_query())?;
    let call = Call::current();
    let pages = stream::try_unfold((pairs, left), move |(pairs, left)| {
        let (state, call) = (state.clone(), call.clone());
        async move {
            if left == 0 {
                return Ok::<_, Problem>(None);
            }
            let Some((mut page, rest)) = for_call(call, state.service.next_pairs(pairs)).await? else {
                return Ok(None);
            };
            page.truncate(left);
            let left = left - page.len();
            let mut lines = Vec::new();
            page.into_iter().for_each(|pair| bulk::write_line(&mut lines, &PairOut::new(pair, signatures)));
            Ok(Some((lines, (rest, left))))
        }
    });
    let body = pages.map_err(|problem| std::io::Error::other(problem.body_text()));
    let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((content_type, Body::from_stream(body)).into_response())
}

/// The schema of a line, which no handler returns as one value.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(PairOut)))]
pub(super) struct Streamed;

fn invalid_cursor() -> Problem {
    let detail = "cursor is a line of an earlier answer, such as {\"distance\":3,\"first\":\"a\",\
        \"second\":\"b\"}, percent-encoded; leave it out to begin with the first pair";
    Problem::parameter(Code::InvalidField, "cursor", detail)
}
