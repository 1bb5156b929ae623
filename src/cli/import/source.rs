//! The source of an import: files of many formats, compressed or not, as one stream of lines.
//!
//! A line is what `POST /documents` accepts. `records` turns each record into one such line. A record that
//! becomes no line is an empty one, which the server ignores, so that a long archive of images does not look
//! stalled. A file that cannot be read to its end does not affect the others.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tokio::sync::mpsc;

use super::super::images::in_order;
use super::super::{Failure, tell};
use super::progress::is_progress;
use super::queue::{Item, Queue, What};
use super::shape::{Line, Shape};
use lookalike_files::{
    About, Cut, Event, Format, Listed, Listing, Original, Packing, Raw, Reason, Unread, broken, each_member,
    format_of, is_archive, is_input, local_name, opened, shown, unpack,
};
use lookalike_http::ExportHeader;

/// Bytes per piece of the stream.
const PIECE: usize = 64 << 10;
/// A header that ends what an earlier one states.
const END: &[u8] = br#"{"export":null}"#;
/// How long a smaller piece is held back. A skipped record is one byte, so a gigabyte of images in an archive
/// would make the client look stalled to the server.
const HELD: Duration = Duration::from_secs(5);
/// Images that are read ahead for each thread, and the bytes of all of them.
const IMAGES: usize = 8;
const IMAGE_BYTES: usize = 64 << 20;

/// Whole lines, and the number of all lines up to their end.
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    pub(super) end: u64,
}

/// The files of an import.
#[derive(Clone)]
pub(super) struct Source {
    files: Arc<[Listed]>,
    shape: Arc<Shape>,
    /// The size of all files in bytes, with standard input as 0.
    pub(super) bytes: u64,
    /// Whether standard input is among the files: it can be read only once.
    pub(super) is_piped: bool,
    /// The threads that make hashes of images; 1 for texts, which the server reads.
    threads: usize,
    /// Bytes read from the files so far, before decompression.
    passed: Arc<AtomicU64>,
    /// The records that were read and are not answered yet.
    pub(super) queue: Queue,
}

impl Source {
    /// The files of the arguments. Checks that every file can be opened.
    ///
    /// # Errors
    /// [`Failure`] for the first that cannot.
    pub(super) fn open(arguments: &[PathBuf], shape: Shape) -> Result<Source, Failure> {
        let takes = |path: &Path| {
            let is_told = Format::named(path).is_some_and(|format| format.is_for(shape.images.are_read()));
            let is_known = shape.format.is_some() || is_told || is_archive(path);
            is_known && !is_progress(path)
        };
        let listing = Listing::of(arguments, &takes)?;
        listing.notes().iter().for_each(|note| tell(note));
        let files = listing.files;
        let bytes = files.iter().map(|file| file.bytes).sum();
        let is_piped = files.iter().any(|file| is_input(&file.path));
        let threads = shape.images.threads();
        let (files, shape, passed) = (files.into(), Arc::new(shape), Arc::default());
        Ok(Source { files, shape, bytes, is_piped, threads, passed, queue: Queue::default() })
    }

    /// The first file, or a name here for the first object; `None` if it is standard input.
    pub(super) fn first(&self) -> Option<PathBuf> {
        let first = self.files.first().map(|file| &file.path).filter(|path| !is_input(path))?;
        Some(first.as_object().map_or_else(|| first.to_path_buf(), |object| local_name(object.url())))
    }

    /// The warning about fields of `--metadata` that no line had.
    pub(super) fn missing_metadata(&self) -> Option<String> {
        self.shape.missing_metadata()
    }

    /// The files from the beginning.
    pub(super) fn restarted(&self) -> Source {
        Source { passed: Arc::default(), queue: Queue::default(), ..self.clone() }
    }

    /// Sends the lines after the first `skip`, in pieces of whole lines. Stops when the receiver is gone.
    pub(super) fn send(&self, skip: u64, to: &mpsc::Sender<Piece>) {
        let mut sending = Sending {
            source: self,
            skip,
            to,
            number: 0,
            index: 0,
            piece: Vec::with_capacity(2 * PIECE),
            since: Instant::now(),
            headers: Headers::default(),
            waiting: Vec::new(),
            bytes: 0,
        };
        let is_wanted = self.files.iter().all(|file| sending.file(&file.path)) && sending.pass_on();
        if is_wanted && !sending.piece.is_empty() {
            sending.send_piece();
        }
    }
}

/// The state of the reader.
struct Sending<'s> {
    source: &'s Source,
    skip: u64,
    to: &'s mpsc::Sender<Piece>,
    /// Records so far.
    number: u64,
    /// Lines of the stream so far.
    index: u64,
    piece: Vec<u8>,
    since: Instant,
    headers: Headers,
    /// What was read, and is not passed on yet.
    waiting: Vec<Waiting>,
    /// The bytes of it.
    bytes: usize,
}

/// What was read.
enum Waiting {
    /// The beginning of a file.
    NextFile,
    /// A record of a file of this name.
    Record(Arc<str>, Raw, Arc<About>),
    /// A line of a file of this name, or why there is none.
    Found(Arc<str>, u64, Result<Line, Unread>),
}

impl Waiting {
    fn bytes(&self) -> usize {
        if let Waiting::Record(_, raw, _) = self { raw.content.len() } else { 0 }
    }
}

impl Sending<'_> {
    /// Sends the records of a file, or of all files in an archive. Returns whether the receiver is there.
    fn file(&mut self, path: &Original) -> bool {
        let (source, shown) = (self.source, shown(path));
        if is_archive(path) {
            return self.archive(path, &shown);
        }
        let format = Format::of_file(path, source.shape.format);
        self.records(&shown, format, |cut| match format {
            format if format.is_columnar() && !is_input(path) => cut.rows(path),
            _ => cut.records(opened(path, &source.passed)?),
        })
    }

    /// Sends the records of the files in an archive, as if it were a folder.
    fn archive(&mut self, path: &Original, own: &str) -> bool {
        let source = self.source;
        let mut is_wanted = true;
        let read = each_member(path, &source.passed, &mut |member, read| {
            let shown = member.shown(path);
            let format = format_of(&member.path, source.shape.format, source.shape.images.are_read());
            is_wanted = match (format, read) {
                (Err(skipped), _) | (_, Err(skipped)) => {
                    self.take(Waiting::NextFile) && self.found(&shown.into(), 1, Err(skipped.into()))
                }
                (Ok(format), Ok(read)) => {
                    let read = unpack(read, Packing::named(&member.path));
                    self.records(&shown, format, |cut| cut.records(read))
                }
            };
            is_wanted
        });
        if let Err(error) = read
            && is_wanted
        {
            let why = format!("the archive cannot be read further: {error}; what came before is sent");
            is_wanted =
                self.take(Waiting::NextFile) && self.found(&own.into(), 1, Err(Reason::Cut.because(why)));
        }
        is_wanted
    }

    /// Sends the records of a file, which `read` cuts.
    ///
    /// The header of an export holds for the rest of its file. If it is among the skipped lines it is sent
    /// nevertheless, and the next file begins with a header that ends it.
    fn records(
        &mut self,
        file: &str,
        format: Format,
        read: impl FnOnce(&mut Cut<'_>) -> io::Result<()>,
    ) -> bool {
        if !self.take(Waiting::NextFile) {
            return false;
        }
        let source = self.source;
        let (name, wants): (Arc<str>, &Shape) = (file.into(), &source.shape);
        let (mut line, mut is_wanted) = (0, true);
        let mut each = |event: Event| {
            if let Event::Record(raw, about) = event {
                is_wanted = self.take(Waiting::Record(Arc::clone(&name), raw, Arc::clone(about)));
            }
            is_wanted
        };
        let read = read(&mut Cut { file: 0, format, wants, line: &mut line, each: &mut each });
        if let Err(error) = read
            && is_wanted
        {
            let before = if line == 0 { "nothing of it is sent" } else { "what came before is sent" };
            let why = format!("{}; {before}", broken(&error, line));
            is_wanted = self.found(&name, line + 1, Err(Reason::Cut.because(why)));
        }
        is_wanted
    }

    /// Takes a line, or why there is none. Returns whether the receiver is there.
    fn found(&mut self, file: &Arc<str>, line: u64, found: Result<Line, Unread>) -> bool {
        self.take(Waiting::Found(Arc::clone(file), line, found))
    }

    /// Takes what comes next. Images wait until there are some for each thread.
    fn take(&mut self, next: Waiting) -> bool {
        self.bytes += next.bytes();
        self.waiting.push(next);
        let (threads, is_held) = (self.source.threads, self.since.elapsed() >= HELD);
        let is_full = self.waiting.len() >= IMAGES * threads || self.bytes >= IMAGE_BYTES;
        !(threads == 1 || is_full || is_held) || self.pass_on()
    }

    /// Makes the lines of what waits, on all threads, and passes them on in order.
    fn pass_on(&mut self) -> bool {
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let shape = &self.source.shape;
        let make = |one: &Waiting| match one {
            Waiting::Record(file, raw, about) => shape.line(raw, about, file),
            _ => None,
        };
        let mut is_wanted = true;
        let mut lines = Vec::with_capacity(waiting.len());
        let Ok(()) = in_order(&waiting, self.source.threads, make, |_, made| {
            lines.push(made);
            Ok::<_, Infallible>(())
        });
        let mut lines = lines.into_iter();
        for one in waiting {
            let made = lines.next().flatten();
            match one {
                Waiting::NextFile => self.headers.next_file(),
                Waiting::Found(file, line, found) => self.line(&file, line, found),
                Waiting::Record(file, raw, _) => {
                    let Some(made) = made else { continue };
                    self.line(&file, raw.line, made);
                }
            }
            let is_full = self.piece.len() >= PIECE;
            let is_held = !self.piece.is_empty() && self.since.elapsed() >= HELD;
            is_wanted = !(is_full || is_held) || self.send_piece();
            if !is_wanted {
                break;
            }
        }
        is_wanted
    }

    fn line(&mut self, file: &Arc<str>, line: u64, found: Result<Line, Unread>) {
        self.number += 1;
        self.record(file, line, found);
    }

    fn record(&mut self, file: &Arc<str>, line: u64, found: Result<Line, Unread>) {
        let (mut own, what) = match found {
            Ok(line) => (line, None),
            Err(unread) => (Line::default(), Some(What::Unread(unread))),
        };
        let is_header = self.headers.pass(&own.bytes);
        if self.number <= self.skip {
            return;
        }
        if let Some(missing) = self.headers.missing(is_header) {
            self.add(&missing);
        }
        let is_sent = !is_header && !own.bytes.is_empty();
        let (is_mapped, charset) = (own.is_mapped, own.charset);
        let sent = || What::Sent { index: self.index, id: own.id.take(), is_mapped, charset };
        if let Some(what) = what.or_else(|| is_sent.then(sent)) {
            let passed = self.source.passed.load(Ordering::Relaxed);
            self.source.queue.push(Item { number: self.number, file: Arc::clone(file), line, passed, what });
        }
        self.add(&own.bytes);
    }

    fn add(&mut self, line: &[u8]) {
        self.piece.extend_from_slice(line);
        self.piece.push(b'\n');
        self.index += 1;
    }

    /// Sends the piece; `false` if the receiver is gone.
    fn send_piece(&mut self) -> bool {
        self.since = Instant::now();
        let full = std::mem::replace(&mut self.piece, Vec::with_capacity(2 * PIECE));
        self.to.blocking_send(Piece { bytes: full.into(), end: self.index }).is_ok()
    }
}

/// The header that holds for the next line, and the one that the server knows.
#[derive(Default)]
struct Headers {
    own: Vec<u8>,
    sent: Vec<u8>,
}

impl Headers {
    /// Ends the header of a file: it does not hold for the next file.
    fn next_file(&mut self) {
        self.own.clear();
    }

    /// Takes note of a line, sent or not. Returns whether it is a header.
    fn pass(&mut self, line: &[u8]) -> bool {
        let is_header = matches!(ExportHeader::of(line), Some(Ok(_)));
        if is_header {
            line.clone_into(&mut self.own);
        }
        is_header
    }

    /// The header to send before the next line, so that the server knows the right one.
    fn missing(&mut self, is_header: bool) -> Option<Vec<u8>> {
        let is_known = self.own == self.sent;
        self.own.clone_into(&mut self.sent);
        let missing = if self.own.is_empty() { END.to_vec() } else { self.own.clone() };
        (!is_known && !is_header).then_some(missing)
    }
}
