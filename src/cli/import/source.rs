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
use tokio::sync::mpsc;

use super::super::Failure;
use super::super::files::{Format, is_input, unpacked};
use super::records::{self, Columns, Found, Records};
use super::tally::Tally;

/// Bytes per piece of the stream.
const PIECE: usize = 64 << 10;
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
            text: self.text_column.clone(),
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
    /// Non-empty lines sent: the server counts each.
    pub(super) sent: Arc<AtomicU64>,
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
        let (passed, sent) = (Arc::default(), Arc::default());
        let is_piped = files.iter().any(|path| is_input(path));
        Ok(Source { files: files.to_vec(), kind: kind.clone(), bytes, is_piped, passed, sent })
    }

    /// The same files from the beginning, with both counters at 0.
    pub(super) fn restarted(&self) -> Source {
        Source { passed: Arc::default(), sent: Arc::default(), ..self.clone() }
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
    pub(super) fn send(&self, skip: u64, to: &mpsc::Sender<Bytes>, tally: &Tally, bar: &ProgressBar) {
        let mut piece = Vec::with_capacity(2 * PIECE);
        let (mut number, mut since) = (0, Instant::now());
        for path in &self.files {
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
                if number > skip {
                    self.add(&line, &mut piece);
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

    fn add(&self, line: &[u8], piece: &mut Vec<u8>) {
        if !line.iter().all(u8::is_ascii_whitespace) {
            self.sent.fetch_add(1, Ordering::SeqCst);
        }
        piece.extend_from_slice(line);
        piece.push(b'\n');
    }
}

/// Sends a piece; `false` if the receiver is gone.
fn send_piece(piece: &mut Vec<u8>, to: &mpsc::Sender<Bytes>) -> bool {
    let full = std::mem::replace(piece, Vec::with_capacity(2 * PIECE));
    to.blocking_send(full.into()).is_ok()
}
