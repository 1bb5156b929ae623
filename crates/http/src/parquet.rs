//! The rows of a Parquet file as lines, so that a page can show and import them.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State as From_};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::future::ready;
use futures::{StreamExt, TryStreamExt, stream};
use utoipa_axum::routes;

use super::State;
use super::bulk::write_line;
use super::error::Problem;
use super::extract::{NoParams, check_type, read_sized};
use super::responses::{BodyRefused, Refused, Unavailable};
use super::route::{Need, Routes};
use super::wire::{ParquetFileOut, ParquetLineOut};
use lookalike_keys::Role;
use lookalike_run::call::{Call, for_call};

const TYPES: [&str; 2] = ["application/vnd.apache.parquet", "application/octet-stream"];

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_server(Need::Any(Role::Read).on_pool(), routes!(read))
}

/// Streams the rows of a Parquet file as NDJSON, and stores nothing.
///
/// The first line has the columns, the next ones a row each, without values that are missing. Columns with
/// lists or maps are left out and named. A file that breaks off ends with a line with an `error`.
#[utoipa::path(
    post, path = "/preview/parquet", tag = "documents", operation_id = "read_parquet",
    request_body(content = String, content_type = "application/vnd.apache.parquet"),
    responses(
        (status = 200, description = "The columns, then one row per line.", body = String,
            content_type = "application/x-ndjson"),
        BodyRefused, Refused, Unavailable,
    )
)]
async fn read(From_(state): From_<State>, _: NoParams, request: Request) -> Result<Response, Problem> {
    check_type(request.headers(), &TYPES)?;
    let most = state.service.limits().file_bytes;
    let bytes =
        read_sized(request, most, "raise limits.file_bytes, or import it with `lookalike import`").await?;
    let (file, rows) = state.service.open_parquet(bytes).await?;
    let line = |out: ParquetLineOut| {
        let mut line = Vec::new();
        write_line(&mut line, &out);
        Bytes::from(line)
    };
    let first = line(ParquetLineOut::File(ParquetFileOut::from(file)));
    let pieces = stream::unfold((Some(rows), Call::current()), move |(rows, call)| {
        let state = state.clone();
        async move {
            let (piece, rest) = match for_call(call.clone(), state.service.next_rows(rows?)).await {
                Ok(None) => return None,
                Ok(Some((rows, rest))) => {
                    let lines = rows.into_iter().map(|row| line(ParquetLineOut::Row(row)));
                    (lines.collect::<Vec<_>>().concat().into(), Some(rest))
                }
                Err(error) => (line(ParquetLineOut::error(&Problem::from(error))), None),
            };
            Some((Ok::<_, std::io::Error>(piece), (rest, call)))
        }
    });
    let body = stream::once(ready(Ok(first))).chain(pieces).map_err(std::io::Error::other);
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(body)).into_response())
}

/// The schema of a line, which no handler returns as one value.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(ParquetLineOut)))]
pub(super) struct Streamed;
