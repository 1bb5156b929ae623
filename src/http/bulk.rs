//! Many documents in one request: a stream of lines in, a stream of results out, in order.
//!
//! Chunks of lines are parsed and fingerprinted on the CPU pool, several at a time; they are queued for
//! writing one after the other, so that the last of two documents with one id wins; and several wait at
//! a time to become durable, so that the disk's pace does not set that of the processors.
//!
//! Everything is bounded: the bytes of a line, the lines of a chunk, the chunks under way. A client that
//! does not read its results is slowed down with them.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Buf;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use memchr::memchr;
use serde::Serialize;

use super::State;
use super::error::{Code, Problem};
use super::extract::{broken, parse_object};
use super::wire::{DocumentIn, LineOut, Summary, SummaryOut};
use crate::ids::CollectionName;
use crate::keys::Bucket;
use crate::service::{Added, Admission, Patience, Prepared};

/// Lines in a chunk, at most.
const CHUNK_LINES: usize = 256;
/// Bytes in a chunk, about: it ends with the line that reaches them.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks being fingerprinted at a time, for one request.
const PREPARING: usize = 4;
/// Chunks waiting to become durable at a time, for one request.
const STORING: usize = 8;

/// A line or element and its number, or why it cannot be taken.
type Line = (u64, Result<Bytes, Problem>);
type Chunk = Vec<Line>;

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

/// Cuts a body into chunks of lines. A line longer than `limit` is passed over and fails alone.
pub(super) fn lines<E: Error + Send + 'static>(
    body: impl Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static,
    limit: usize,
) -> BoxStream<'static, Chunk> {
    let cutter = Cutter {
        body,
        limit,
        rest: Bytes::new(),
        held: Vec::new(),
        too_long: false,
        number: 0,
        ended: false,
    };
    stream::unfold(cutter, |mut cutter| async move { Some((cutter.chunk().await?, cutter)) }).boxed()
}

/// Waits for the first chunk, for a client that will send no body before it is told to go on: it is told when the
/// body is first read, which must be before the answer begins. Others may wait for the answer to begin before
/// they send.
pub(super) async fn told_to_go_on(mut chunks: BoxStream<'static, Chunk>) -> BoxStream<'static, Chunk> {
    let first = chunks.next().await;
    stream::iter(first).chain(chunks).boxed()
}

/// Cuts elements that are there already into chunks.
pub(super) fn elements(elements: Vec<Bytes>, limit: usize) -> BoxStream<'static, Chunk> {
    let mut numbered = elements.into_iter().zip(0u64..).map(move |(element, number)| {
        let fits = element.len() <= limit;
        (number, if fits { Ok(element) } else { Err(too_long(limit)) })
    });
    let chunks = std::iter::from_fn(move || {
        let chunk: Chunk = numbered.by_ref().take(CHUNK_LINES).collect();
        (!chunk.is_empty()).then_some(chunk)
    });
    stream::iter(chunks).boxed()
}

struct Cutter<S> {
    body: S,
    limit: usize,
    /// What of the last part was not cut yet.
    rest: Bytes,
    held: Vec<u8>,
    /// The line being read is longer than the limit; what comes of it is dropped.
    too_long: bool,
    number: u64,
    ended: bool,
}

impl<S: Stream<Item = Result<Bytes, E>> + Unpin, E: Error + 'static> Cutter<S> {
    async fn chunk(&mut self) -> Option<Chunk> {
        let (mut chunk, mut bytes) = (Chunk::new(), 0);
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            self.cut(rest, &mut chunk);
        }
        while !self.ended
            && self.rest.is_empty()
            && (chunk.is_empty() || (chunk.len() < CHUNK_LINES && bytes < CHUNK_BYTES))
        {
            // A client that sends a line and waits for its result must get it: what is there goes on.
            let next = self.body.next();
            let part = if chunk.is_empty() { Some(next.await) } else { next.now_or_never() };
            let Some(part) = part else {
                break;
            };
            match part {
                Some(Ok(part)) => {
                    bytes += part.len();
                    self.cut(part, &mut chunk);
                }
                Some(Err(error)) => {
                    // Half a line is no document, even if it happens to parse.
                    self.ended = true;
                    chunk.push((self.number, Err(broken(&error))));
                }
                None => {
                    self.ended = true;
                    self.end_line(&mut chunk);
                }
            }
        }
        (!chunk.is_empty()).then_some(chunk)
    }

    /// Cuts a part of the body into lines until the chunk is full; what is left of the part waits for the next.
    fn cut(&mut self, mut part: Bytes, chunk: &mut Chunk) {
        while chunk.len() < CHUNK_LINES {
            let Some(end) = memchr(b'\n', &part) else {
                self.hold(&part);
                return;
            };
            let line = part.split_to(end);
            part.advance(1);
            // Whole in this part, as nearly all are: nothing is copied.
            if self.held.is_empty() && !self.too_long && line.len() <= self.limit {
                self.take(line, chunk);
            } else {
                self.hold(&line);
                self.end_line(chunk);
            }
        }
        self.rest = part;
    }

    /// Keeps a piece of a line that is not whole yet.
    fn hold(&mut self, piece: &[u8]) {
        if self.held.len() + piece.len() > self.limit {
            self.too_long = true;
            self.held.clear();
        }
        if !self.too_long {
            self.held.extend_from_slice(piece);
        }
    }

    /// What is held is a line.
    fn end_line(&mut self, chunk: &mut Chunk) {
        let line = std::mem::take(&mut self.held);
        if std::mem::take(&mut self.too_long) {
            chunk.push((self.number, Err(too_long(self.limit))));
            self.number += 1;
        } else {
            self.take(line.into(), chunk);
        }
    }

    fn take(&mut self, line: Bytes, chunk: &mut Chunk) {
        if !line.iter().all(u8::is_ascii_whitespace) {
            chunk.push((self.number, Ok(line)));
        }
        self.number += 1;
    }
}

fn too_long(limit: usize) -> Problem {
    Problem::new(Code::TooLarge, format!("the document is longer than {limit} bytes (limits.document_bytes)"))
}

/// Stores the documents of the chunks and streams what became of each.
pub(super) async fn respond(
    into: Into_,
    chunks: BoxStream<'static, Chunk>,
    framing: Framing,
) -> Result<Response, Problem> {
    // Before the status: a collection that is not there is a 404, not a stream of errors.
    let engine = into.state.service.engine()?;
    engine.settings(&into.collection).await?;
    engine.admit(true)?;
    let shared = Arc::new(into);
    let preparing = Arc::clone(&shared);
    let results = chunks
        .map(move |chunk| prepare(Arc::clone(&preparing), chunk))
        .buffered(PREPARING)
        .then(move |prepared| submit(Arc::clone(&shared), prepared))
        .buffered(STORING);
    Ok(framed(results, framing))
}

type PreparedLine = (u64, Result<Prepared, Problem>);

async fn prepare(into: Arc<Into_>, chunk: Chunk) -> Vec<PreparedLine> {
    if let Some(bucket) = &into.bucket {
        bucket.wait_for(chunk.len() as u64).await;
    }
    let numbers: Vec<u64> = chunk.iter().map(|(number, _)| *number).collect();
    let offered = |(_, line): Line| parse_object::<DocumentIn>(&line?)?.offered();
    let offered = chunk.into_iter().map(offered);
    match into.state.service.prepare(&into.collection, Patience::Bulk, offered).await {
        Ok(prepared) => numbers.into_iter().zip(prepared).collect(),
        Err(error) => {
            let problem = Problem::from(error);
            numbers.into_iter().map(|number| (number, Err(problem.clone()))).collect()
        }
    }
}

/// Queues a chunk; what it answers resolves when the chunk is durable.
async fn submit(into: Arc<Into_>, lines: Vec<PreparedLine>) -> BoxFuture<'static, Vec<LineOut>> {
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
        return done(results).boxed();
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
                in_order(results)
            })
            .boxed(),
        Err(error) => {
            let problem = Problem::from(error);
            results.extend(numbers.into_iter().map(|number| LineOut::failed(number, &problem)));
            done(in_order(results)).boxed()
        }
    }
}

fn done(results: Vec<LineOut>) -> Ready<Vec<LineOut>> {
    ready(results)
}

fn in_order(mut results: Vec<LineOut>) -> Vec<LineOut> {
    results.sort_by_key(|line| line.index);
    results
}

fn framed(results: impl Stream<Item = Vec<LineOut>> + Send + 'static, framing: Framing) -> Response {
    let summary = Arc::new(Mutex::new((Summary::default(), false)));
    let counting = Arc::clone(&summary);
    let body = results.map(move |lines| {
        let mut counts = counting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = Vec::new();
        for line in &lines {
            counts.0.count(line);
            if framing == Framing::Array && std::mem::replace(&mut counts.1, true) {
                out.push(b',');
            }
            write_line(&mut out, line);
        }
        Ok::<_, Infallible>(Bytes::from(out))
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn cut(parts: &'static [&'static str], limit: usize) -> Vec<(u64, Option<String>)> {
        let body =
            stream::iter(parts.iter().map(|part| Ok::<_, Infallible>(Bytes::from_static(part.as_bytes()))));
        let chunks: Vec<Chunk> = lines(body, limit).collect().await;
        let text = |line: Bytes| String::from_utf8(line.to_vec()).unwrap();
        chunks.into_iter().flatten().map(|(number, line)| (number, line.ok().map(text))).collect()
    }

    #[tokio::test]
    async fn lines_are_cut_wherever_the_network_cuts_the_body() {
        let expected =
            vec![(0, Some("ab".to_owned())), (2, Some("cde".to_owned())), (3, Some("f".to_owned()))];
        assert_eq!(cut(&["ab\n\ncde\nf"], 9).await, expected);
        assert_eq!(cut(&["a", "b\n", "\nc", "de", "\nf"], 9).await, expected);
        assert_eq!(cut(&["ab\n\ncde\nf\n"], 9).await, expected);
        assert_eq!(cut(&["", "\n \n"], 9).await, vec![]);
    }

    proptest::proptest! {
        #[test]
        fn lines_are_those_of_the_whole_body(
            body in "[ab \n]{0,300}",
            cuts in proptest::collection::vec(0..300_usize, 0..9),
            limit in 1..9_usize,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(body.len())).chain([0, body.len()]).collect();
            cuts.sort_unstable();
            let part = |ends: &[usize]| Ok::<_, Infallible>(Bytes::copy_from_slice(&body.as_bytes()[ends[0]..ends[1]]));
            let parts: Vec<_> = cuts.windows(2).map(part).collect();
            let chunks: Vec<Chunk> = futures::executor::block_on(lines(stream::iter(parts), limit).collect());
            let found: Vec<_> = chunks.into_iter().flatten().map(|(number, line)| (number, line.ok())).collect();
            let fits = |line: &str| (line.len() <= limit).then(|| Bytes::copy_from_slice(line.as_bytes()));
            let is_line = |line: &&str| line.len() > limit || !line.trim().is_empty();
            let numbered = body.split('\n').zip(0..).filter(|(line, _)| is_line(line));
            let expected: Vec<_> = numbered.map(|(line, number)| (number, fits(line))).collect();
            proptest::prop_assert_eq!(found, expected);
        }
    }

    #[tokio::test]
    async fn a_line_goes_on_while_its_client_waits() {
        let (send, parts) = futures::channel::mpsc::unbounded::<Result<Bytes, Infallible>>();
        let mut chunks = lines(parts, 100);
        for number in 0..3 {
            send.unbounded_send(Ok(Bytes::from_static(b"line\nbegun"))).unwrap();
            let chunk = chunks.next().await.unwrap();
            assert_eq!(chunk.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [number]);
        }
        drop(send);
        assert_eq!(chunks.next().await.unwrap()[0].0, 3);
        assert!(chunks.next().await.is_none());
    }

    #[tokio::test]
    async fn a_line_longer_than_a_chunk_does_not_end_the_stream() {
        let part = Bytes::from(vec![b'x'; CHUNK_BYTES]);
        let parts = [part.clone(), part.clone(), part, Bytes::from_static(b"\nab")].map(Ok::<_, Infallible>);
        let chunks: Vec<Chunk> = lines(stream::iter(parts), 2 * CHUNK_BYTES).collect().await;
        let taken: Vec<(u64, bool)> =
            chunks.into_iter().flatten().map(|(n, line)| (n, line.is_ok())).collect();
        assert_eq!(taken, [(0, false), (1, true)]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_fails_alone() {
        let expected = vec![(0, Some("ab".to_owned())), (1, None), (2, Some("cd".to_owned()))];
        assert_eq!(cut(&["ab\nxxxx\ncd"], 3).await, expected);
        assert_eq!(cut(&["ab\nxx", "xx", "xxxx", "x\ncd"], 3).await, expected);
        assert_eq!(cut(&["ab\nxxxx"], 3).await, expected[..2]);
    }
}
