//! Many documents in one request: a stream of lines in, a stream of results out, in order.
//!
//! Chunks of lines are parsed and fingerprinted on the CPU pool, several at a time; they are queued for
//! writing one after the other, so that the last of two documents with one id wins; and several wait at
//! a time to become durable, so that the disk's pace does not set that of the processors.
//!
//! Everything is bounded: the bytes of a line, the lines of a chunk, the chunks under way. A client that
//! does not read its results is slowed down with them.

mod chunks;

use std::convert::Infallible;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use serde::Serialize;

use chunks::Line;
pub(super) use chunks::{Chunk, elements, lines};

use super::State;
use super::error::Problem;
use super::extract::parse_object;
use super::wire::{DocumentIn, LineOut, Summary, SummaryOut};
use crate::call::{Call, Reserved, for_call};
use crate::ids::CollectionName;
use crate::keys::Bucket;
use crate::service::{Added, Admission, Patience, Prepared, Service};

/// Chunks waiting to become durable at a time, for one request.
const STORING: usize = 8;
/// Errors that an answer tells in full; the summary counts the others.
const ERRORS: u64 = 100;

/// Where documents go, and how.
pub(super) struct Into_ {
    pub(super) state: State,
    pub(super) collection: CollectionName,
    /// Those near a stored one within this distance are left out.
    pub(super) unless_within: Option<u32>,
    /// The units of the key, if they are limited.
    pub(super) bucket: Option<Arc<Bucket>>,
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// A result a line, the summary last.
    Lines,
    /// One object with `results` and `summary`.
    Array,
}

/// Chunks of a request being fingerprinted that keep the pool at work: one for each thread, and one to go on
/// with.
pub(super) fn enough(service: &Service) -> usize {
    service.threads() + 1
}

/// Waits for the first chunk, for a client that will send no body before it is told to go on: it is told when
/// the body is first read, which must be before the answer begins. Others may wait for the answer to begin
/// before they send.
pub(super) async fn told_to_go_on(mut chunks: BoxStream<'static, Chunk>) -> BoxStream<'static, Chunk> {
    let first = chunks.next().await;
    stream::iter(first).chain(chunks).boxed()
}

/// Stores the documents of the chunks and streams what became of each.
pub(super) fn respond(
    into: Into_,
    chunks: BoxStream<'static, Chunk>,
    framing: Framing,
) -> Result<Response, Problem> {
    // Before the status: a collection that is not there is a 404, not a stream of errors.
    let engine = into.state.service.engine()?;
    engine.settings(&into.collection)?;
    engine.admit(true)?;
    let at_a_time = enough(&into.state.service) + 1;
    let shared = Arc::new(into);
    let (preparing, call) = (Arc::clone(&shared), Call::current());
    let results = chunks
        .map(move |chunk| for_call(call.clone(), prepare(Arc::clone(&preparing), chunk)))
        .buffered(at_a_time)
        .then(move |prepared| submit(Arc::clone(&shared), prepared))
        .buffered(STORING);
    Ok(framed(results, framing))
}

type PreparedLine = (u64, Result<Prepared, Problem>);

/// A chunk that was fingerprinted.
struct PreparedChunk {
    lines: Vec<PreparedLine>,
    reserved: Reserved,
}

async fn prepare(into: Arc<Into_>, chunk: Chunk) -> PreparedChunk {
    let Chunk { lines, under_way, reserved } = chunk;
    let mut under_way = Some(under_way);
    if let Some(bucket) = &into.bucket {
        // What waits for its units gives the processors nothing to do, and the lines after it need not wait
        // for it.
        under_way = None;
        bucket.wait_for(lines.len() as u64).await;
    }
    let numbers: Vec<u64> = lines.iter().map(|(number, _)| *number).collect();
    let offered = |(_, line): Line| parse_object::<DocumentIn>(&line?)?.offered();
    let offered = lines.into_iter().map(offered);
    let prepared = into.state.service.prepare(&into.collection, Patience::Bulk, offered).await;
    drop(under_way);
    let lines = match prepared {
        Ok(prepared) => numbers.into_iter().zip(prepared).collect(),
        Err(error) => {
            let problem = Problem::from(error);
            numbers.into_iter().map(|number| (number, Err(problem.clone()))).collect()
        }
    };
    PreparedChunk { lines, reserved }
}

/// Queues a chunk; what it answers resolves when the chunk is durable.
async fn submit(into: Arc<Into_>, chunk: PreparedChunk) -> BoxFuture<'static, ChunkResults> {
    let PreparedChunk { lines, reserved } = chunk;
    let (mut results, mut numbers, mut prepared) = (Vec::new(), Vec::new(), Vec::new());
    for (number, line) in lines {
        match line {
            Ok(document) => {
                numbers.push(number);
                prepared.push(document);
            }
            Err(problem) => results.push(LineOut::failed(number, &problem)),
        }
    }
    if prepared.is_empty() {
        return ready(in_order(results, reserved)).boxed();
    }
    match into.state.service.submit(&into.collection, prepared, into.unless_within, Admission::Wait).await {
        Ok(adding) => adding
            .map(move |added| {
                let added: Result<Vec<Added>, Problem> = added.map_err(Problem::from);
                match added {
                    Ok(added) => {
                        results.extend(numbers.into_iter().zip(added).map(|(n, a)| LineOut::added(n, a)));
                    }
                    Err(problem) => results.extend(numbers.into_iter().map(|n| LineOut::failed(n, &problem))),
                }
                in_order(results, reserved)
            })
            .boxed(),
        Err(error) => {
            let problem = Problem::from(error);
            results.extend(numbers.into_iter().map(|number| LineOut::failed(number, &problem)));
            ready(in_order(results, reserved)).boxed()
        }
    }
}

/// The results of a chunk, whose memory is released when they are written.
struct ChunkResults {
    lines: Vec<LineOut>,
    reserved: Reserved,
}

fn in_order(mut lines: Vec<LineOut>, reserved: Reserved) -> ChunkResults {
    lines.sort_by_key(|line| line.index);
    ChunkResults { lines, reserved }
}

fn framed(results: impl Stream<Item = ChunkResults> + Send + 'static, framing: Framing) -> Response {
    let summary = Arc::new(Mutex::new((Summary::default(), false)));
    let counting = Arc::clone(&summary);
    let body = results.map(move |ChunkResults { mut lines, mut reserved }| {
        let mut counts = counting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = Vec::new();
        for line in &mut lines {
            counts.0.count(line);
            if counts.0.errors() > ERRORS {
                line.shorten_error();
            }
            if framing == Framing::Array && std::mem::replace(&mut counts.1, true) {
                out.push(b',');
            }
            write_line(&mut out, line);
        }
        reserved.shrink_to(out.capacity());
        Ok::<_, Infallible>(reserved.bytes_of(out))
    });
    let end = stream::once(async move {
        let (summary, _) = *summary.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = Vec::new();
        match framing {
            Framing::Lines => write_line(&mut out, &SummaryOut { summary }),
            Framing::Array => {
                out.extend(b"],\"summary\":");
                write_line(&mut out, &summary);
                out.extend(b"}");
            }
        }
        Ok(Bytes::from(out))
    });
    let (kind, begin) = match framing {
        Framing::Lines => ("application/x-ndjson", ""),
        Framing::Array => ("application/json", "{\"results\":["),
    };
    let begin = stream::iter((!begin.is_empty()).then(|| Ok(Bytes::from_static(begin.as_bytes()))));
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(begin.chain(body).chain(end))).into_response()
}

/// Appends a value as one line of JSON.
pub(super) fn write_line(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(&mut *out, value).expect("wire types always serialise into memory");
    out.push(b'\n');
}
