//! A body cut into chunks of lines.
//!
//! A client that sends a line and waits for its result gets it: while the pool has nothing of this request to
//! do, a chunk ends with what has come. While it has enough, a chunk waits for more, since each costs a group
//! of writes and a few changes of threads.

use std::error::Error;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use bytes::Buf;
use futures::stream::{self, BoxStream};
use futures::task::AtomicWaker;
use futures::{Stream, StreamExt};
use memchr::memchr;

use super::super::error::{Code, Problem};
use super::super::extract::broken;
use crate::call::{Call, NoMemory, Reserved, reserve_in_time};
use crate::service::working_bytes;

/// Lines in a chunk, at most.
const CHUNK_LINES: usize = 256;
/// Bytes in a chunk, about: it ends with the part of the body that reaches them.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of memory for a byte of a line: the line itself, its strings, what is to be written of it.
const MADE: usize = 4;
/// Bytes of memory for a line beside those: its result, and the smallest document.
const LINE_BYTES: usize = 512;
/// Bytes of a line that is not whole for which no memory is reserved.
const HELD_BYTES: usize = 16 << 10;

/// How long a chunk waits for memory.
const PATIENCE: Duration = Duration::from_secs(10);

/// A line or element and its number, or why it cannot be taken.
pub(super) type Line = (u64, Result<Bytes, Problem>);

/// Lines that are fingerprinted and written together.
pub(in crate::http) struct Chunk {
    pub(super) lines: Vec<Line>,
    /// To be dropped when they are fingerprinted.
    pub(super) under_way: UnderWay,
    /// Memory for them and for what is made of them, to be dropped when their results are.
    pub(super) reserved: Reserved,
}

/// A chunk that is under way.
pub(super) struct UnderWay(Arc<Pace>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        self.0.fewer.wake();
    }
}

/// How many chunks of a request are under way.
#[derive(Default)]
struct Pace {
    under_way: AtomicUsize,
    fewer: AtomicWaker,
}

impl Pace {
    fn begin(self: &Arc<Pace>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay(Arc::clone(self))
    }

    /// Waits until fewer than so many are under way.
    fn poll_fewer(&self, than: usize, context: &mut Context<'_>) -> Poll<()> {
        self.fewer.register(context.waker());
        if self.under_way.load(Ordering::SeqCst) < than { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Cuts a body into chunks of lines. A line longer than `limit` is passed over and fails alone. While
/// `enough` chunks are under way, one that is not full waits for more of the body.
pub(in crate::http) fn lines<E: Error + Send + 'static>(
    body: impl Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static,
    limit: usize,
    enough: usize,
) -> BoxStream<'static, Chunk> {
    let cutter = Cutter {
        body,
        limit,
        rest: Bytes::new(),
        held: Vec::new(),
        too_long: false,
        number: 0,
        ended: false,
        pace: Arc::default(),
        enough,
        call: Call::current(),
        reserved: Reserved::default(),
    };
    // Whoever looked at the first chunk may ask again where there was none.
    stream::unfold(cutter, |mut cutter| async move { Some((cutter.chunk().await?, cutter)) }).fuse().boxed()
}

/// Cuts elements that are there already into chunks.
pub(in crate::http) fn elements(elements: Vec<Bytes>, limit: usize) -> BoxStream<'static, Chunk> {
    let mut numbered = elements.into_iter().zip(0u64..).map(move |(element, number)| {
        let fits = element.len() <= limit;
        (number, if fits { Ok(element) } else { Err(too_long(limit)) })
    });
    // Nobody waits for it: all elements are there.
    let (pace, call) = (Arc::<Pace>::default(), Call::current());
    let chunks = std::iter::from_fn(move || {
        let lines: Vec<Line> = numbered.by_ref().take(CHUNK_LINES).collect();
        (!lines.is_empty()).then_some(lines)
    });
    stream::iter(chunks).then(move |lines| chunk(call.clone(), lines, Arc::clone(&pace))).boxed()
}

/// Lines as a chunk, as soon as there is memory for it.
async fn chunk(call: Option<Arc<Call>>, mut lines: Vec<Line>, pace: Arc<Pace>) -> Chunk {
    let len = |line: &Line| line.1.as_ref().map_or(0, Bytes::len);
    let bytes: usize = lines.iter().map(len).sum();
    let longest = lines.iter().map(len).max().unwrap_or_default();
    // What is held of the line after these is left to be had.
    let most = call.as_ref().map_or(usize::MAX, |call| call.most() / 4 * 3);
    let wanted = MADE * bytes + LINE_BYTES * lines.len() + working_bytes(longest);
    let reserved = match soon(call.as_ref(), wanted.min(most)).await {
        Ok(reserved) => reserved,
        // The lines fail, and what comes after them is looked at for itself.
        Err(error) => {
            for (_, line) in &mut lines {
                *line = Err(Problem::from(error));
            }
            Reserved::default()
        }
    };
    Chunk { lines, under_way: pace.begin(), reserved }
}

/// Waits for memory, but not for ever: streams of one client that each hold a part of a line could wait for
/// one another.
async fn soon(call: Option<&Arc<Call>>, bytes: usize) -> Result<Reserved, NoMemory> {
    let reserve = || call.map_or(Ok(Reserved::default()), |call| call.reserve(bytes));
    match reserve() {
        Err(NoMemory::Taken { .. }) => {
            tokio::time::timeout(PATIENCE, reserve_in_time(call, bytes)).await.unwrap_or_else(|_| reserve())
        }
        done => done,
    }
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
    pace: Arc<Pace>,
    enough: usize,
    /// Who is to have the memory for chunks.
    call: Option<Arc<Call>>,
    /// Memory for what is held.
    reserved: Reserved,
}

impl<S: Stream<Item = Result<Bytes, E>> + Unpin, E: Error + 'static> Cutter<S> {
    async fn chunk(&mut self) -> Option<Chunk> {
        let (mut lines, mut bytes) = (Vec::new(), self.rest.len());
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            self.cut(rest, &mut lines);
        }
        while !self.ended
            && self.rest.is_empty()
            && (lines.is_empty() || (lines.len() < CHUNK_LINES && bytes < CHUNK_BYTES))
        {
            if let Err(error) = self.reserve_held().await {
                self.ended = true;
                lines.push((self.number, Err(Problem::from(error))));
                break;
            }
            let Some(part) = self.part(!lines.is_empty()).await else {
                break;
            };
            match part {
                Some(Ok(part)) => {
                    bytes += part.len();
                    self.cut(part, &mut lines);
                }
                Some(Err(error)) => {
                    // Half a line is no document, even if it happens to parse.
                    self.ended = true;
                    lines.push((self.number, Err(broken(&error))));
                }
                None => {
                    self.ended = true;
                    self.end_line(&mut lines);
                }
            }
        }
        if lines.is_empty() {
            return None;
        }
        Some(chunk(self.call.clone(), lines, Arc::clone(&self.pace)).await)
    }

    /// Waits for memory for a line of which a part is held, whole lines of a few kilobytes aside.
    async fn reserve_held(&mut self) -> Result<(), NoMemory> {
        if self.held.len() <= HELD_BYTES {
            self.reserved.shrink_to(0);
            return Ok(());
        }
        // A vector that grows has twice its length at most.
        let wanted = 2 * self.held.len().next_power_of_two();
        if self.reserved.bytes() < wanted {
            let call = self.call.clone();
            self.reserved = soon(call.as_ref(), wanted).await?;
        }
        Ok(())
    }

    /// The next part of the body; `None` if there is none yet and what was cut should go on without it.
    async fn part(&mut self, has_lines: bool) -> Option<Option<Result<Bytes, E>>> {
        poll_fn(|context| {
            if let Poll::Ready(part) = self.body.poll_next_unpin(context) {
                return Poll::Ready(Some(part));
            }
            let goes_on = has_lines && self.pace.poll_fewer(self.enough, context).is_ready();
            if goes_on { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    /// Cuts a part of the body into lines until the chunk is full; what is left of the part waits for the
    /// next.
    fn cut(&mut self, mut part: Bytes, lines: &mut Vec<Line>) {
        while lines.len() < CHUNK_LINES {
            let Some(end) = memchr(b'\n', &part) else {
                self.hold(&part);
                return;
            };
            let line = part.split_to(end);
            part.advance(1);
            // Whole in this part, as nearly all are: nothing is copied.
            if self.held.is_empty() && !self.too_long && line.len() <= self.limit {
                self.take(line, lines);
            } else {
                self.hold(&line);
                self.end_line(lines);
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
    fn end_line(&mut self, lines: &mut Vec<Line>) {
        let line = std::mem::take(&mut self.held);
        if std::mem::take(&mut self.too_long) {
            lines.push((self.number, Err(too_long(self.limit))));
            self.number += 1;
        } else {
            self.take(line.into(), lines);
        }
    }

    fn take(&mut self, line: Bytes, lines: &mut Vec<Line>) {
        if !line.iter().all(u8::is_ascii_whitespace) {
            lines.push((self.number, Ok(line)));
        }
        self.number += 1;
    }
}

fn too_long(limit: usize) -> Problem {
    Problem::new(Code::TooLarge, format!("the document is longer than {limit} bytes (limits.document_bytes)"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::FutureExt;

    use super::*;

    fn flat(chunks: Vec<Chunk>) -> impl Iterator<Item = Line> {
        chunks.into_iter().flat_map(|chunk| chunk.lines)
    }

    async fn cut(parts: &'static [&'static str], limit: usize) -> Vec<(u64, Option<String>)> {
        let body =
            stream::iter(parts.iter().map(|part| Ok::<_, Infallible>(Bytes::from_static(part.as_bytes()))));
        let chunks: Vec<Chunk> = lines(body, limit, 2).collect().await;
        let text = |line: Bytes| String::from_utf8(line.to_vec()).unwrap();
        flat(chunks).map(|(number, line)| (number, line.ok().map(text))).collect()
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
            let cuts = cuts.into_iter().map(|at| at.min(body.len()));
            let mut cuts: Vec<usize> = cuts.chain([0, body.len()]).collect();
            cuts.sort_unstable();
            let slice = |ends: &[usize]| Bytes::copy_from_slice(&body.as_bytes()[ends[0]..ends[1]]);
            let part = |ends: &[usize]| Ok::<_, Infallible>(slice(ends));
            let parts: Vec<_> = cuts.windows(2).map(part).collect();
            let chunks = lines(stream::iter(parts), limit, 2).collect();
            let chunks: Vec<Chunk> = futures::executor::block_on(chunks);
            let found: Vec<_> = flat(chunks).map(|(number, line)| (number, line.ok())).collect();
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
        let mut chunks = lines(parts, 100, 1);
        for number in 0..3 {
            send.unbounded_send(Ok(Bytes::from_static(b"line\nbegun"))).unwrap();
            let chunk = chunks.next().await.unwrap();
            assert_eq!(chunk.lines.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [number]);
        }
        drop(send);
        assert_eq!(chunks.next().await.unwrap().lines[0].0, 3);
        assert!(chunks.next().await.is_none());
    }

    #[tokio::test]
    async fn a_body_without_a_line_ends_however_often_it_is_asked() {
        for body in [vec![], vec!["\n", " \n"]] {
            let body =
                stream::iter(body).map(|part| Ok::<_, Infallible>(Bytes::from_static(part.as_bytes())));
            let chunks = super::super::told_to_go_on(lines(body, 100, 2)).await;
            assert_eq!(chunks.count().await, 0);
        }
    }

    #[tokio::test]
    async fn while_enough_is_under_way_a_chunk_waits_for_more() {
        let (send, parts) = futures::channel::mpsc::unbounded::<Result<Bytes, Infallible>>();
        let say = |text: &'static str| send.unbounded_send(Ok(Bytes::from_static(text.as_bytes()))).unwrap();
        let mut chunks = lines(parts, 2 * CHUNK_BYTES, 2);
        let mut under_way = Vec::new();
        for number in 0..2 {
            say("line\n");
            let Chunk { lines, under_way: token, .. } = chunks.next().await.unwrap();
            assert_eq!((lines.len(), lines[0].0), (1, number));
            under_way.push(token);
        }
        say("line\n");
        let mut next = chunks.into_future();
        assert!((&mut next).now_or_never().is_none());
        say("line\nbegun ");
        assert!((&mut next).now_or_never().is_none());
        // Whoever waits is woken by the first that is done.
        let waiting = tokio::spawn(next);
        tokio::task::yield_now().await;
        under_way.pop();
        let woken = tokio::time::timeout(std::time::Duration::from_mins(1), waiting).await;
        assert_eq!(woken.expect("it is woken").unwrap().0.unwrap().lines.len(), 2);

        // A full one waits for nobody.
        let mut chunks =
            lines(stream::iter(vec![Ok::<_, Infallible>(Bytes::from("line\n".repeat(600)))]), 9, 0);
        assert_eq!(chunks.next().now_or_never().unwrap().unwrap().lines.len(), CHUNK_LINES);
    }

    #[tokio::test]
    async fn a_line_longer_than_a_chunk_does_not_end_the_stream() {
        let part = Bytes::from(vec![b'x'; CHUNK_BYTES]);
        let parts = [part.clone(), part.clone(), part, Bytes::from_static(b"\nab")].map(Ok::<_, Infallible>);
        let chunks: Vec<Chunk> = lines(stream::iter(parts), 2 * CHUNK_BYTES, 2).collect().await;
        let taken: Vec<(u64, bool)> = flat(chunks).map(|(n, line)| (n, line.is_ok())).collect();
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
