//! Many documents in one request. A stream of lines is answered by a stream of results, in order.
//!
//! The CPU pool parses and fingerprints several chunks of lines at a time. Chunks are queued for writing in
//! order, so that the last of two documents with one id wins. Several chunks at a time wait to become
//! durable, so that fingerprinting does not wait for the disk.
//!
//! The bytes of a line, the lines of a chunk and the chunks in progress are bounded. If a client does not
//! read its results, back-pressure slows the reading of its documents.

mod array;
mod chunks;
mod section;

use std::convert::Infallible;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use serde::Serialize;

pub(super) use array::elements_of;
pub(super) use chunks::{Chunk, Sizes, elements, lines};
pub(super) use section::headers;

use super::State;
use super::documents::count_refused;
use super::error::Problem;
use super::idempotency::IdempotencyKey;
use super::wire::{HashFormat, LineOut, Summary, SummaryOut};
use lookalike_hash::CollectionName;
use lookalike_keys::Bucket;
use lookalike_run::call::{Call, Reserved, for_call};
use lookalike_service::{Added, Admission, Match, Neighbours, Patience, Prepared, Service, StoreRule};

/// Maximum number of chunks of one request that wait to become durable.
const STORING_CHUNKS: usize = 8;
/// Maximum number of neighbours that one thread looks up at a time.
const PART_MATCHES: usize = 2_500;
/// Approximate memory of a neighbour without its metadata, in bytes.
const MATCH_BYTES: usize = 400;
/// Maximum number of errors that an answer lists, without the first of each further code. The summary counts
/// all errors. A client learns of every reason, for example that the disk has become full after many bad
/// lines, and the answer lists at most 100 errors.
const LISTED_ERRORS: usize = 40;

/// Where the documents of a request are stored, and under which conditions.
pub(super) struct Destination {
    pub(super) state: State,
    pub(super) collection: CollectionName,
    /// When a document is stored.
    pub(super) rule: StoreRule,
    /// The number of neighbours in the result of each document.
    pub(super) similar: usize,
    /// The token bucket of the key, if its units are limited.
    pub(super) bucket: Option<Arc<Bucket>>,
    /// Whether the answer lists all errors.
    pub(super) all_errors: bool,
    /// The form of hashes.
    pub(super) form: Option<HashFormat>,
    /// The key from which the ids of documents without ids follow.
    pub(super) idempotency: IdempotencyKey,
    /// The time after which no part of an array is written, and the error of these parts. A stream has none:
    /// its client decides how long it takes.
    pub(super) end: Option<(Instant, Problem)>,
}

impl Destination {
    /// The error of parts that are not written any more.
    fn too_late(&self) -> Option<Problem> {
        self.end.as_ref().filter(|(end, _)| Instant::now() >= *end).map(|(_, problem)| problem.clone())
    }
}

/// The format of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// One result per line, then the summary.
    Lines,
    /// One object with `results` and `summary`.
    Array,
}

/// The number of chunks in progress that keeps the pool busy: one for each thread, and one that waits for a
/// thread.
pub(super) fn enough(service: &Service) -> usize {
    service.threads() + 1
}

/// Waits for the first chunk, for a client that expects `100 Continue` before it sends the body, and for a
/// body of known length. hyper sends `100 Continue` at the first read of the body, which must happen before
/// the answer begins. For other clients this wait would be wrong: they may send the body only after the
/// answer has begun.
///
/// # Errors
/// If the body begins with the header of an export that is refused.
pub(super) async fn after_first_chunk(
    mut chunks: BoxStream<'static, Chunk>,
) -> Result<BoxStream<'static, Chunk>, Problem> {
    let first = chunks.next().await;
    match first.as_ref().and_then(|chunk| chunk.lines.refused()) {
        Some(problem) => Err(problem.clone()),
        None => Ok(stream::iter(first).chain(chunks).boxed()),
    }
}

/// Stores the documents of the chunks and streams the result of each.
pub(super) fn respond(
    into: Destination,
    chunks: BoxStream<'static, Chunk>,
    framing: Framing,
) -> Result<Response, Problem> {
    // Checked before the status is sent: a missing collection is a 404, not a stream of errors.
    into.state.service.admit_stream(&into.collection)?;
    let (at_a_time, all_errors) = (enough(&into.state.service) + 1, into.all_errors);
    let shared = Arc::new(into);
    let (preparing, call) = (Arc::clone(&shared), Call::current());
    let results = chunks
        .map(move |chunk| for_call(call.clone(), prepare(Arc::clone(&preparing), chunk)))
        .buffered(at_a_time)
        .then(move |prepared| submit(Arc::clone(&shared), prepared))
        .buffered(STORING_CHUNKS);
    Ok(framed(results, framing, all_errors))
}

type PreparedLine = (u64, Result<Prepared, Problem>);

/// A chunk that was fingerprinted.
struct PreparedChunk {
    lines: Vec<PreparedLine>,
    reserved: Reserved,
}

async fn prepare(into: Arc<Destination>, chunk: Chunk) -> PreparedChunk {
    let Chunk { lines, in_progress, reserved } = chunk;
    let mut in_progress = Some(in_progress);
    if let Some(bucket) = &into.bucket {
        // A chunk that waits for units does not use the pool, so the next chunk need not wait for more lines.
        in_progress = None;
        bucket.wait_for(lines.len() as u64).await;
    }
    let numbers: Vec<u64> = lines.numbers().collect();
    if let Some(problem) = into.too_late() {
        let lines = numbers.into_iter().map(|number| (number, Err(problem.clone()))).collect();
        return PreparedChunk { lines, reserved };
    }
    let (limits, form, idempotency) = (*into.state.service.limits(), into.form, into.idempotency.clone());
    let documents = lines.in_sections().map(move |((number, line), section)| {
        Ok(idempotency.named(section.document(&line?, form, &limits)?, number))
    });
    let prepared = into.state.service.prepare(&into.collection, Patience::Bulk, documents).await;
    drop(in_progress);
    let lines = match prepared {
        Ok(prepared) => numbers.into_iter().zip(prepared).collect(),
        Err(error) => {
            let problem = Problem::from(error);
            numbers.into_iter().map(|number| (number, Err(problem.clone()))).collect()
        }
    };
    PreparedChunk { lines, reserved }
}

/// Queues a chunk. The returned future resolves when the chunk is durable.
async fn submit(into: Arc<Destination>, chunk: PreparedChunk) -> BoxFuture<'static, ChunkResults> {
    let PreparedChunk { lines, reserved } = chunk;
    let (mut results, mut numbers, mut prepared) = (Vec::new(), Vec::new(), Vec::new());
    let too_late = into.too_late();
    for (number, line) in lines {
        match line.and_then(|document| too_late.clone().map_or(Ok(document), Err)) {
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
    match into.state.service.submit(&into.collection, prepared, into.rule.clone(), Admission::Wait).await {
        Ok(adding) => {
            let call = Call::current();
            let finish = async move {
                match adding.await {
                    Ok(added) => {
                        let mut reserved = reserved;
                        let stored: Vec<Added> = added.iter().flatten().cloned().collect();
                        let mut similar = neighbours(&into, &stored, &mut reserved).await.into_iter();
                        results.extend(numbers.into_iter().zip(added).map(|(n, added)| match added {
                            Ok(added) => LineOut::added(n, added, similar.next().flatten(), into.form),
                            Err(error) => LineOut::failed(n, &error.into()),
                        }));
                        in_order(results, reserved)
                    }
                    Err(error) => {
                        let problem = Problem::from(error);
                        results.extend(numbers.into_iter().map(|n| LineOut::failed(n, &problem)));
                        in_order(results, reserved)
                    }
                }
            };
            for_call(call, finish).boxed()
        }
        Err(error) => {
            let problem = Problem::from(error);
            results.extend(numbers.into_iter().map(|number| LineOut::failed(number, &problem)));
            ready(in_order(results, reserved)).boxed()
        }
    }
}

/// The neighbours of the documents of a chunk, if the request wants any. Memory is reserved for them.
async fn neighbours(
    into: &Destination,
    added: &[Added],
    reserved: &mut Reserved,
) -> Vec<Option<Result<Neighbours, Problem>>> {
    if into.similar == 0 {
        return Vec::new();
    }
    let (service, mut all) = (&into.state.service, Vec::with_capacity(added.len()));
    for part in added.chunks((PART_MATCHES / into.similar).max(1)) {
        let failed = |problem: Problem| part.iter().map(move |_| Some(Err(problem.clone())));
        let wanted = match into.too_late() {
            None => service.neighbours_of_all(part.to_vec(), into.similar).await,
            Some(problem) => {
                all.extend(failed(problem));
                continue;
            }
        };
        match wanted {
            Ok(found) => {
                let bytes: usize = found.iter().flatten().map(bytes_of).sum();
                match reserved.grow_to(reserved.bytes() + bytes) {
                    Ok(()) => all.extend(found.into_iter().map(|one| Some(one.map_err(Problem::from)))),
                    Err(error) => all.extend(failed(error.into())),
                }
            }
            Err(error) => all.extend(failed(error.into())),
        }
    }
    all
}

/// The approximate memory of neighbours in bytes.
fn bytes_of(near: &Neighbours) -> usize {
    let of = |one: &Match| MATCH_BYTES + one.metadata.as_ref().map_or(0, String::len);
    near.matches.iter().map(of).sum()
}

/// The results of a chunk. Their memory is released when they are sent.
struct ChunkResults {
    lines: Vec<LineOut>,
    reserved: Reserved,
}

fn in_order(mut lines: Vec<LineOut>, reserved: Reserved) -> ChunkResults {
    let refused = lines.iter().filter(|line| line.error_code().is_some()).count();
    if refused > 0 {
        count_refused(refused as u64);
    }
    lines.sort_by_key(|line| line.index);
    ChunkResults { lines, reserved }
}

/// The errors that an answer has listed.
#[derive(Default)]
struct ListedErrors {
    number: usize,
    codes: Vec<&'static str>,
}

impl ListedErrors {
    /// Whether an error of this code is listed; it is then counted as listed.
    fn lists(&mut self, code: &'static str) -> bool {
        let is_new = !self.codes.contains(&code);
        if is_new {
            self.codes.push(code);
        }
        let is_listed = is_new || self.number < LISTED_ERRORS;
        self.number += usize::from(is_listed);
        is_listed
    }
}

fn framed(
    results: impl Stream<Item = ChunkResults> + Send + 'static,
    framing: Framing,
    all_errors: bool,
) -> Response {
    let summary = Arc::new(Mutex::new(Summary::default()));
    let counting = Arc::clone(&summary);
    let (mut errors, mut has_listed) = (ListedErrors::default(), false);
    let body = results.map(move |ChunkResults { lines, mut reserved }| {
        let mut counts = counting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = Vec::new();
        for line in &lines {
            counts.count(line);
            if !line.error_code().is_none_or(|code| all_errors || errors.lists(code)) {
                continue;
            }
            if framing == Framing::Array && std::mem::replace(&mut has_listed, true) {
                out.push(b',');
            }
            write_line(&mut out, line);
        }
        reserved.shrink_to(out.capacity());
        Ok::<_, Infallible>(reserved.bytes_of(out))
    });
    let end = stream::once(async move {
        let summary = *summary.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = Vec::new();
        match framing {
            Framing::Lines => write_line(&mut out, &SummaryOut { summary }),
            Framing::Array => {
                out.extend(b"],\"summary\":");
                write_line(&mut out, &summary);
                out.extend(b"}\n");
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
    serde_json::to_writer(&mut *out, value).expect("wire types can always be serialised to memory");
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::super::error::Code;
    use super::*;

    #[test]
    fn at_most_100_errors_are_listed_and_each_code_once() {
        let mut errors = ListedErrors::default();
        let listed = |errors: &mut ListedErrors, code: Code| usize::from(errors.lists(code.name()));
        let mut all = (0..1_000).map(|_| listed(&mut errors, Code::InvalidField)).sum::<usize>();
        assert_eq!(all, LISTED_ERRORS);
        for code in Code::ALL.iter().chain(Code::ALL) {
            all += listed(&mut errors, *code);
        }
        assert_eq!(all, LISTED_ERRORS + Code::ALL.len() - 1);
        assert!(all <= 100, "{all}");
    }
}
