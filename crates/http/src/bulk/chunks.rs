//! Splits a body into chunks of lines.
//!
//! A client may send a line and wait for its result. While fewer chunks of the request are being
//! fingerprinted than keep the pool busy, a chunk has only the lines that have arrived. Otherwise a chunk
//! waits for more lines, because each chunk costs a group of writes and a few thread switches.

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
use super::section::{Headers, Section};
use lookalike_run::call::{Call, NoMemory, Reserved, reserve_in_time};
use lookalike_service::{Limits, working_bytes};

/// Maximum number of lines in a chunk.
const CHUNK_LINES: usize = 256;
/// Approximate bytes of a chunk. The part of the body that reaches this size is its last one.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of memory per byte of a line: for the line, for its strings, and for the record to write.
const MEMORY_PER_BYTE: usize = 4;
/// Further bytes of memory per line: for its result, and for the smallest document.
const MEMORY_PER_LINE: usize = 512;
/// Further bytes of memory for a line that may be a duplicate. Its result names up to ten documents.
const MEMORY_PER_CHECKED_LINE: usize = 4 << 10;
/// No memory is reserved for an incomplete line of at most this many bytes.
const UNRESERVED_BYTES: usize = 16 << 10;

/// Maximum time that a chunk waits for memory.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of a line or an element, and the line or why it is refused.
pub(super) type Line = (u64, Result<Bytes, Problem>);

/// Lines without the headers of exports among them.
#[derive(Default)]
pub(super) struct Lines {
    lines: Vec<Line>,
    /// From which line on a section holds. A section holds until the next one, also in the next lines.
    sections: Vec<(usize, Arc<Section>)>,
}

impl Lines {
    /// Lines that begin within this section.
    fn within(section: &Arc<Section>) -> Lines {
        Lines { lines: Vec::new(), sections: vec![(0, Arc::clone(section))] }
    }

    /// Adds a line, or begins the section of a header.
    fn push(&mut self, number: u64, line: Bytes, headers: &Headers) {
        match headers(&line) {
            None => self.lines.push((number, Ok(line))),
            Some(Err(problem)) => self.lines.push((number, Err(problem))),
            Some(Ok(section)) => {
                let first = section.has_first_line.then_some(line);
                // Of headers without a line between them the last one holds. Only that one is kept, so that
                // a body of headers takes no memory.
                self.sections.pop_if(|(from, _)| *from == self.lines.len());
                self.sections.push((self.lines.len(), Arc::new(section)));
                self.lines.extend(first.map(|line| (number, Ok(line))));
            }
        }
    }

    /// The section that holds after the last line.
    fn last_section(&self) -> Arc<Section> {
        self.sections.last().map(|(_, section)| Arc::clone(section)).unwrap_or_default()
    }

    /// The number of lines.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// The numbers of the lines.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.lines.iter().map(|(number, _)| *number)
    }

    /// Why the first document and those after it are refused, if a header says so.
    pub(super) fn refused(&self) -> Option<&Problem> {
        let (_, section) = self.sections.iter().rfind(|(from, _)| *from == 0)?;
        section.refused.as_ref()
    }

    /// The lines with their sections.
    pub(super) fn in_sections(self) -> impl Iterator<Item = (Line, Arc<Section>)> + Send {
        let (mut sections, mut section) = (self.sections.into_iter().peekable(), Arc::default());
        self.lines.into_iter().enumerate().map(move |(at, line)| {
            while let Some((_, next)) = sections.next_if(|(from, _)| *from <= at) {
                section = next;
            }
            (line, Arc::clone(&section))
        })
    }
}

/// The most bytes of a line, and of the text of a page in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    line: usize,
    text: usize,
}

impl Sizes {
    pub(crate) fn of(limits: &Limits) -> Sizes {
        Sizes { line: limits.body_bytes(), text: limits.document_bytes }
    }
}

/// Lines that are fingerprinted and written together.
pub(crate) struct Chunk {
    pub(super) lines: Lines,
    /// Dropped when they are fingerprinted.
    pub(super) in_progress: InProgress,
    /// Memory for them and for their documents. Dropped when their results are sent.
    pub(super) reserved: Reserved,
}

/// Counts a chunk as being fingerprinted until it is dropped.
pub(super) struct InProgress(Arc<Counter>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
        self.0.waker.wake();
    }
}

/// The number of chunks of a request that are being fingerprinted.
#[derive(Default)]
struct Counter {
    count: AtomicUsize,
    waker: AtomicWaker,
}

impl Counter {
    fn begin(self: &Arc<Counter>) -> InProgress {
        self.count.fetch_add(1, Ordering::SeqCst);
        InProgress(Arc::clone(self))
    }

    /// Waits until the number is below `target`.
    fn poll_below(&self, target: usize, context: &mut Context<'_>) -> Poll<()> {
        // The waker is registered before the load: otherwise a chunk that ends in between would not wake it.
        self.waker.register(context.waker());
        if self.count.load(Ordering::SeqCst) < target { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Splits a body into chunks of lines. A line that is too long is skipped, and fails alone. While `enough`
/// chunks are being fingerprinted, a chunk that is not full waits for more of the body. `is_checked` is
/// whether a line may be a duplicate.
pub(crate) fn lines<E: Error + Send + 'static>(
    body: impl Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static,
    sizes: Sizes,
    enough: usize,
    is_checked: bool,
    headers: Headers,
) -> BoxStream<'static, Chunk> {
    let splitter = Splitter {
        headers,
        section: Arc::default(),
        body,
        sizes,
        rest: Bytes::new(),
        partial: Vec::new(),
        is_too_long: false,
        number: 0,
        has_ended: false,
        counter: Arc::default(),
        enough,
        is_checked,
        call: Call::current(),
        reserved: Reserved::default(),
    };
    // Fused: a caller that waits for the first chunk may poll the stream again after its end.
    stream::unfold(splitter, |mut splitter| async move { Some((splitter.chunk().await?, splitter)) })
        .fuse()
        .boxed()
}

/// Splits the elements of an array into chunks.
pub(crate) fn elements(
    elements: Vec<Bytes>,
    sizes: Sizes,
    is_checked: bool,
    headers: Headers,
) -> BoxStream<'static, Chunk> {
    let mut section = Arc::default();
    let mut numbered = elements.into_iter().zip(0u64..).map(move |(element, number)| {
        let fits = element.len() <= sizes.line;
        (number, if fits { Ok(element) } else { Err(too_long(sizes.line)) })
    });
    // Nothing waits for the counter, because all elements have arrived.
    let (counter, call) = (Arc::<Counter>::default(), Call::current());
    let chunks = std::iter::from_fn(move || {
        let mut lines = Lines::within(&section);
        for (number, element) in numbered.by_ref().take(CHUNK_LINES) {
            match element {
                Ok(element) => lines.push(number, element, &headers),
                Err(problem) => lines.lines.push((number, Err(problem))),
            }
        }
        section = lines.last_section();
        (lines.len() > 0).then_some(lines)
    });
    stream::iter(chunks)
        .then(move |lines| chunk(call.clone(), lines, Arc::clone(&counter), sizes.text, is_checked))
        .boxed()
}

/// A chunk of these lines. Waits until there is memory for it.
async fn chunk(
    call: Option<Arc<Call>>,
    mut lines: Lines,
    counter: Arc<Counter>,
    most_text: usize,
    is_checked: bool,
) -> Chunk {
    let len = |line: &Line| line.1.as_ref().map_or(0, Bytes::len);
    let bytes: usize = lines.lines.iter().map(len).sum();
    let longest = lines.lines.iter().map(len).max().unwrap_or_default();
    // The rest is for the incomplete line after these.
    let most = call.as_ref().map_or(usize::MAX, |call| call.most() / 4 * 3);
    let per_line = if is_checked { MEMORY_PER_CHECKED_LINE } else { MEMORY_PER_LINE };
    let wanted = MEMORY_PER_BYTE * bytes + per_line * lines.len() + working_bytes(longest, most_text);
    let reserved = match reserve_within_timeout(call.as_ref(), wanted.min(most)).await {
        Ok(reserved) => reserved,
        // These lines fail; the lines after them may succeed.
        Err(error) => {
            for (_, line) in &mut lines.lines {
                *line = Err(Problem::from(error));
            }
            Reserved::default()
        }
    };
    Chunk { lines, in_progress: counter.begin(), reserved }
}

/// Waits for memory, with a timeout: streams of one client that each hold a part of a line could wait for
/// each other.
async fn reserve_within_timeout(call: Option<&Arc<Call>>, bytes: usize) -> Result<Reserved, NoMemory> {
    let reserve = || call.map_or(Ok(Reserved::default()), |call| call.reserve(bytes));
    match reserve() {
        Err(NoMemory::Taken { .. }) => {
            let reserving = tokio::time::timeout(RESERVE_TIMEOUT, reserve_in_time(call, bytes));
            reserving.await.unwrap_or_else(|_| reserve())
        }
        done => done,
    }
}

struct Splitter<S> {
    headers: Headers,
    /// The section of the next line.
    section: Arc<Section>,
    body: S,
    sizes: Sizes,
    /// The rest of the last part, which is not split.
    rest: Bytes,
    /// The start of an incomplete line.
    partial: Vec<u8>,
    /// Whether the incomplete line is longer than the limit. Then its bytes are dropped.
    is_too_long: bool,
    number: u64,
    has_ended: bool,
    counter: Arc<Counter>,
    enough: usize,
    /// Whether a line may be a duplicate.
    is_checked: bool,
    /// The request that reserves the memory.
    call: Option<Arc<Call>>,
    /// Memory for the incomplete line.
    reserved: Reserved,
}

impl<S: Stream<Item = Result<Bytes, E>> + Unpin, E: Error + 'static> Splitter<S> {
    async fn chunk(&mut self) -> Option<Chunk> {
        let (mut lines, mut bytes) = (Lines::within(&self.section), self.rest.len());
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            self.split(rest, &mut lines);
        }
        while !self.has_ended
            && self.rest.is_empty()
            && (lines.len() == 0 || (lines.len() < CHUNK_LINES && bytes < CHUNK_BYTES))
        {
            if let Err(error) = self.reserve_partial().await {
                self.has_ended = true;
                lines.lines.push((self.number, Err(Problem::from(error))));
                break;
            }
            let Some(part) = self.part(lines.len() > 0).await else {
                break;
            };
            match part {
                Some(Ok(part)) => {
                    bytes += part.len();
                    self.split(part, &mut lines);
                }
                Some(Err(error)) => {
                    // The start of a line is not a document, even if it can be parsed.
                    self.has_ended = true;
                    lines.lines.push((self.number, Err(broken(&error))));
                }
                None => {
                    self.has_ended = true;
                    self.end_line(&mut lines);
                }
            }
        }
        self.section = lines.last_section();
        if lines.len() == 0 {
            return None;
        }
        Some(
            chunk(self.call.clone(), lines, Arc::clone(&self.counter), self.sizes.text, self.is_checked)
                .await,
        )
    }

    /// Waits for memory for the incomplete line, if it is longer than [`UNRESERVED_BYTES`].
    async fn reserve_partial(&mut self) -> Result<(), NoMemory> {
        if self.partial.len() <= UNRESERVED_BYTES {
            self.reserved.shrink_to(0);
            return Ok(());
        }
        // The capacity of a growing vector is at most twice its length.
        let wanted = 2 * self.partial.len().next_power_of_two();
        if self.reserved.bytes() < wanted {
            let call = self.call.clone();
            self.reserved = reserve_within_timeout(call.as_ref(), wanted).await?;
        }
        Ok(())
    }

    /// The next part of the body; `None` if no part has arrived and the chunk should not wait for one.
    async fn part(&mut self, has_lines: bool) -> Option<Option<Result<Bytes, E>>> {
        poll_fn(|context| {
            if let Poll::Ready(part) = self.body.poll_next_unpin(context) {
                return Poll::Ready(Some(part));
            }
            let ends_chunk = has_lines && self.counter.poll_below(self.enough, context).is_ready();
            if ends_chunk { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    /// Splits a part of the body into lines until the chunk is full. The rest of the part is for the next
    /// chunk.
    fn split(&mut self, mut part: Bytes, lines: &mut Lines) {
        while lines.len() < CHUNK_LINES {
            let Some(end) = memchr(b'\n', &part) else {
                self.push_partial(&part);
                return;
            };
            let line = part.split_to(end);
            part.advance(1);
            // Nearly all lines are complete within one part, and are not copied.
            if self.partial.is_empty() && !self.is_too_long && line.len() <= self.sizes.line {
                self.push_line(line, lines);
            } else {
                self.push_partial(&line);
                self.end_line(lines);
            }
        }
        self.rest = part;
    }

    /// Appends bytes to the incomplete line.
    fn push_partial(&mut self, piece: &[u8]) {
        if self.partial.len() + piece.len() > self.sizes.line {
            self.is_too_long = true;
            self.partial.clear();
        }
        if !self.is_too_long {
            self.partial.extend_from_slice(piece);
        }
    }

    /// Completes the incomplete line.
    fn end_line(&mut self, lines: &mut Lines) {
        let line = std::mem::take(&mut self.partial);
        if std::mem::take(&mut self.is_too_long) {
            lines.lines.push((self.number, Err(too_long(self.sizes.line))));
            self.number += 1;
        } else {
            self.push_line(line.into(), lines);
        }
    }

    /// Adds a line, unless it is blank. Blank lines are numbered, too.
    fn push_line(&mut self, line: Bytes, lines: &mut Lines) {
        if !line.iter().all(u8::is_ascii_whitespace) {
            lines.push(self.number, line, &self.headers);
        }
        self.number += 1;
    }
}

fn too_long(limit: usize) -> Problem {
    let detail = format!(
        "the document has more than {limit} bytes (the larger of limits.document_bytes and \
         limits.page_bytes); shorten it, or raise the limit"
    );
    Problem::new(Code::TooLarge, detail)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::FutureExt;

    use super::*;

    fn sizes(line: usize) -> Sizes {
        Sizes { line, text: line }
    }

    /// No line is a header.
    fn none() -> Headers {
        Box::new(|_| None)
    }

    fn flat(chunks: Vec<Chunk>) -> impl Iterator<Item = Line> {
        chunks.into_iter().flat_map(|chunk| chunk.lines.lines)
    }

    async fn split(parts: &'static [&'static str], limit: usize) -> Vec<(u64, Option<String>)> {
        let body =
            stream::iter(parts.iter().map(|part| Ok::<_, Infallible>(Bytes::from_static(part.as_bytes()))));
        let chunks: Vec<Chunk> = lines(body, sizes(limit), 2, false, none()).collect().await;
        let text = |line: Bytes| String::from_utf8(line.to_vec()).unwrap();
        flat(chunks).map(|(number, line)| (number, line.ok().map(text))).collect()
    }

    #[tokio::test]
    async fn lines_do_not_depend_on_the_parts_of_the_body() {
        let expected =
            vec![(0, Some("ab".to_owned())), (2, Some("cde".to_owned())), (3, Some("f".to_owned()))];
        assert_eq!(split(&["ab\n\ncde\nf"], 9).await, expected);
        assert_eq!(split(&["a", "b\n", "\nc", "de", "\nf"], 9).await, expected);
        assert_eq!(split(&["ab\n\ncde\nf\n"], 9).await, expected);
        assert_eq!(split(&["", "\n \n"], 9).await, vec![]);
    }

    proptest::proptest! {
        #[test]
        fn the_lines_are_those_of_the_whole_body(
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
            let chunks = lines(stream::iter(parts), sizes(limit), 2, false, none()).collect();
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
    async fn a_section_holds_until_the_next_header_also_in_later_chunks() {
        // A line "h" begins a section, all of which is refused.
        let headers: Headers = Box::new(|line| {
            let refused = Problem::new(Code::ProfileMismatch, "another");
            let section = Section { refused: Some(refused), ..Section::default() };
            let section = if line == b"e" { Section::default() } else { section };
            matches!(line, b"h" | b"e").then_some(Ok(section))
        });
        let body = format!("a\nh\n{}e\nb\n{}h\nc", "x\n".repeat(600), "y\n".repeat(300));
        let body = stream::iter(
            body.into_bytes().into_iter().map(|byte| Ok::<_, Infallible>(Bytes::from(vec![byte]))),
        );
        let chunks: Vec<Chunk> = lines(body, sizes(9), 0, false, headers).collect().await;
        assert!(chunks.len() > 3 && chunks[0].lines.refused().is_none());
        let limits = Limits::default();
        let found = chunks.into_iter().flat_map(|chunk| chunk.lines.in_sections());
        let found: Vec<(u64, bool)> = found
            .map(|((number, line), section)| {
                let error = section.document(&line.unwrap(), None, &limits).unwrap_err();
                (number, error.name() == Code::ProfileMismatch.name())
            })
            .collect();
        let expected = (0..906).filter(|number| ![1, 602, 904].contains(number));
        let expected = expected.map(|number| (number, (2..602).contains(&number) || number == 905));
        assert_eq!(found, expected.collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_chunk_does_not_wait_for_lines_while_the_pool_is_idle() {
        let (send, parts) = futures::channel::mpsc::unbounded::<Result<Bytes, Infallible>>();
        let mut chunks = lines(parts, sizes(100), 1, false, none());
        for number in 0..3 {
            send.unbounded_send(Ok(Bytes::from_static(b"line\nbegun"))).unwrap();
            let chunk = chunks.next().await.unwrap();
            assert_eq!(chunk.lines.lines.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [number]);
        }
        drop(send);
        assert_eq!(chunks.next().await.unwrap().lines.lines[0].0, 3);
        assert!(chunks.next().await.is_none());
    }

    #[tokio::test]
    async fn a_body_without_a_line_has_no_chunk_and_can_be_polled_again() {
        for body in [vec![], vec!["\n", " \n"]] {
            let body =
                stream::iter(body).map(|part| Ok::<_, Infallible>(Bytes::from_static(part.as_bytes())));
            let chunks =
                super::super::after_first_chunk(lines(body, sizes(100), 2, false, none())).await.unwrap();
            assert_eq!(chunks.count().await, 0);
        }
    }

    #[tokio::test]
    async fn a_chunk_waits_for_lines_while_the_pool_is_busy() {
        let (send, parts) = futures::channel::mpsc::unbounded::<Result<Bytes, Infallible>>();
        let push = |text: &'static str| send.unbounded_send(Ok(Bytes::from_static(text.as_bytes()))).unwrap();
        let mut chunks = lines(parts, sizes(2 * CHUNK_BYTES), 2, false, none());
        let mut in_progress = Vec::new();
        for number in 0..2 {
            push("line\n");
            let Chunk { lines, in_progress: token, .. } = chunks.next().await.unwrap();
            assert_eq!((lines.len(), lines.lines[0].0), (1, number));
            in_progress.push(token);
        }
        push("line\n");
        let mut next = chunks.into_future();
        assert!((&mut next).now_or_never().is_none());
        push("line\nbegun ");
        assert!((&mut next).now_or_never().is_none());
        // The first chunk that is dropped wakes the waiting task.
        let waiting = tokio::spawn(next);
        tokio::task::yield_now().await;
        in_progress.pop();
        let woken = tokio::time::timeout(std::time::Duration::from_mins(1), waiting).await;
        assert_eq!(woken.expect("it is woken").unwrap().0.unwrap().lines.len(), 2);

        // A full chunk does not wait.
        let mut chunks = lines(
            stream::iter(vec![Ok::<_, Infallible>(Bytes::from("line\n".repeat(600)))]),
            sizes(9),
            0,
            false,
            none(),
        );
        assert_eq!(chunks.next().now_or_never().unwrap().unwrap().lines.len(), CHUNK_LINES);
    }

    #[tokio::test]
    async fn a_line_longer_than_a_chunk_fails_alone() {
        let part = Bytes::from(vec![b'x'; CHUNK_BYTES]);
        let parts = [part.clone(), part.clone(), part, Bytes::from_static(b"\nab")].map(Ok::<_, Infallible>);
        let chunks: Vec<Chunk> =
            lines(stream::iter(parts), sizes(2 * CHUNK_BYTES), 2, false, none()).collect().await;
        let found: Vec<(u64, bool)> = flat(chunks).map(|(n, line)| (n, line.is_ok())).collect();
        assert_eq!(found, [(0, false), (1, true)]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_fails_alone() {
        let expected = vec![(0, Some("ab".to_owned())), (1, None), (2, Some("cd".to_owned()))];
        assert_eq!(split(&["ab\nxxxx\ncd"], 3).await, expected);
        assert_eq!(split(&["ab\nxx", "xx", "xxxx", "x\ncd"], 3).await, expected);
        assert_eq!(split(&["ab\nxxxx"], 3).await, expected[..2]);
    }
}
