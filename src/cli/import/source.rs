//! The source of an import: files of many formats, compressed or not, as one stream of lines.
//!
//! A line is what `POST /documents` accepts. `records` turns each record of another format into one such
//! line. The number of a record is the number of its line, so that an import of any format can be resumed.
//! A skipped record becomes an empty line, which the server ignores. A file that cannot be read to its end
//! does not affect the others.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use clap::Args;
use indicatif::ProgressBar;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::super::Failure;
use super::super::files::{Format, is_input, unpacked};
use super::records::{self, Columns, Content, Found, Records};
use super::tally::Tally;
use crate::http::ExportHeader;

/// Bytes per piece of the stream.
const PIECE: usize = 64 << 10;
/// A header that ends what an earlier one states.
const END: &[u8] = br#"{"export":null}"#;
/// How long a smaller piece is held back. A skipped record is one byte, so a gigabyte of images in an archive
/// would make the client look stalled to the server.
const HELD: Duration = Duration::from_secs(5);

/// The format of the files, and the columns that are used.
#[derive(Clone, Debug, Args)]
pub(super) struct Kind {
    /// Format of the files; by default from their names, without .gz and .zst
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Column with the text, for csv, tsv and parquet
    #[arg(long, default_value = "text", value_name = "COLUMN")]
    text_column: String,
    /// Column with hashes made elsewhere in place of texts, for csv, tsv and parquet
    #[arg(long, value_name = "COLUMN", conflicts_with = "text_column")]
    hash_column: Option<String>,
    /// Profile that made the hashes of --hash-column: they are refused if that of the collection is another
    #[arg(long, value_name = "PROFILE", requires = "hash_column")]
    hash_profile: Option<String>,
    /// Column with the id, for csv, tsv and parquet; by default the server assigns ids
    #[arg(long, value_name = "COLUMN")]
    id_column: Option<String>,
    /// Column stored as metadata, for csv, tsv and parquet; may be given several times
    #[arg(long = "metadata-column", value_name = "COLUMN")]
    metadata_columns: Vec<String>,
}

impl Kind {
    fn of(&self, path: &Path) -> Format {
        self.format.or_else(|| Format::named(path)).unwrap_or(Format::Jsonl)
    }

    fn columns(&self, delimiter: u8) -> Columns {
        Columns {
            delimiter,
            content: match &self.hash_column {
                Some(column) => Content::Hash(column.clone(), self.hash_profile.clone()),
                None => Content::Text(self.text_column.clone()),
            },
            id: self.id_column.clone(),
            metadata: self.metadata_columns.clone(),
        }
    }
}

/// The files of an import.
#[derive(Clone)]
pub(super) struct Source {
    files: Vec<PathBuf>,
    kind: Kind,
    /// The size of all files in bytes, with standard input as 0.
    pub(super) bytes: u64,
    /// Whether standard input is among the files: it can be read only once.
    pub(super) is_piped: bool,
    /// Bytes read from the files so far, before decompression.
    passed: Arc<AtomicU64>,
    /// Non-empty lines sent, without the headers of exports: the server counts each.
    pub(super) sent: Arc<AtomicU64>,
    /// Headers that were sent and are no line of a file.
    pub(super) inserted: Inserted,
}

/// The places of inserted lines among those sent, in ascending order.
#[derive(Clone, Debug, Default)]
pub(super) struct Inserted(Arc<Mutex<Vec<u64>>>);

impl Inserted {
    /// Notes a line that is inserted after `own` lines of files.
    fn add(&self, own: u64) {
        let mut places = self.0.lock();
        let place = own + places.len() as u64;
        places.push(place);
    }

    /// The number of lines sent before this place that are lines of files.
    pub(super) fn own_before(&self, place: u64) -> u64 {
        place - self.0.lock().partition_point(|inserted| *inserted < place) as u64
    }
}

impl Source {
    /// Checks that every file can be opened.
    ///
    /// # Errors
    /// [`Failure`] for the first that cannot, or that is a directory.
    pub(super) fn open(files: &[PathBuf], kind: &Kind) -> Result<Source, Failure> {
        let mut bytes = 0;
        for path in files.iter().filter(|path| !is_input(path)) {
            let about = File::open(path).and_then(|file| file.metadata());
            let about = about.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
            if about.is_dir() {
                return Err(Failure::new(format!("{} is a directory: name the files in it", path.display())));
            }
            bytes += about.len();
        }
        let (passed, sent, inserted) = (Arc::default(), Arc::default(), Inserted::default());
        let is_piped = files.iter().any(|path| is_input(path));
        Ok(Source { files: files.to_vec(), kind: kind.clone(), bytes, is_piped, passed, sent, inserted })
    }

    /// The same files from the beginning, with all counters at 0.
    pub(super) fn restarted(&self) -> Source {
        Source { passed: Arc::default(), sent: Arc::default(), inserted: Inserted::default(), ..self.clone() }
    }

    fn records(&self, path: &Path) -> io::Result<Records> {
        let format = self.kind.of(path);
        if format == Format::Parquet {
            return records::parquet(path, &self.kind.columns(format.delimiter()));
        }
        let read = unpacked(path, &self.passed)?;
        Ok(match format {
            Format::Jsonl => records::lines(read),
            Format::Text => records::text(read, path),
            Format::Csv | Format::Tsv => records::table(read, &self.kind.columns(format.delimiter()))?,
            Format::Warc => records::of_archive(read),
            Format::Parquet => unreachable!("it was read above"),
        })
    }

    /// Sends the lines after the first `skip`, in pieces of whole lines. Stops when the receiver is gone.
    ///
    /// The header of an export holds for the rest of its file. If it is among the skipped lines it is sent
    /// nevertheless, and the next file begins with a header that ends it.
    pub(super) fn send(&self, skip: u64, to: &mpsc::Sender<Bytes>, tally: &Tally, bar: &ProgressBar) {
        let mut piece = Vec::with_capacity(2 * PIECE);
        let (mut number, mut since) = (0, Instant::now());
        let mut headers = Headers::default();
        for path in &self.files {
            headers.next_file();
            let unreadable = |error| -> Records { Box::new(std::iter::once(Err(error))) };
            let records = self.records(path).unwrap_or_else(unreadable);
            for (place, found) in (1..).zip(records) {
                number += 1;
                let is_end = found.is_err();
                let line = match found {
                    Ok(Found::Line(line)) => line,
                    other => {
                        tally.take(number, path, place, &other);
                        Vec::new()
                    }
                };
                let is_header = headers.pass(&line);
                if number > skip {
                    if let Some(missing) = headers.missing(is_header) {
                        self.inserted.add(number - 1 - skip);
                        piece.extend_from_slice(&missing);
                        piece.push(b'\n');
                    }
                    self.add(&line, is_header, &mut piece);
                }
                if piece.len() >= PIECE || (!piece.is_empty() && since.elapsed() >= HELD) {
                    since = Instant::now();
                    if !send_piece(&mut piece, to) {
                        return;
                    }
                }
                bar.set_position(self.passed.load(Ordering::Relaxed));
                if is_end {
                    break;
                }
            }
        }
        if !piece.is_empty() {
            send_piece(&mut piece, to);
        }
    }

    fn add(&self, line: &[u8], is_header: bool, piece: &mut Vec<u8>) {
        if !is_header && !line.iter().all(u8::is_ascii_whitespace) {
            self.sent.fetch_add(1, Ordering::SeqCst);
        }
        piece.extend_from_slice(line);
        piece.push(b'\n');
    }
}

/// The header that holds for the next line, and the one that the server knows.
#[derive(Default)]
struct Headers {
    own: Vec<u8>,
    sent: Vec<u8>,
}

impl Headers {
    /// What an earlier file states does not hold for the next one.
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

/// Sends a piece; `false` if the receiver is gone.
fn send_piece(piece: &mut Vec<u8>, to: &mpsc::Sender<Bytes>) -> bool {
    let full = std::mem::replace(piece, Vec::with_capacity(2 * PIECE));
    to.blocking_send(full.into()).is_ok()
}
