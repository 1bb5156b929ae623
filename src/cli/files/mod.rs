//! Files of documents: their formats, their compression, and their records.
//!
//! `import` and `dedupe` read files through this module, so that both accept the same ones. It knows the
//! bytes of a record and the parts of it; what becomes of them is left to the command. *Absent*: the fields
//! of JSON lines.

mod archive;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
pub(super) mod parquet;
#[cfg(feature = "parquet")]
pub(super) mod parquet;
mod table;
mod zstd;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use flate2::read::MultiGzDecoder;

pub(super) use archive::{Entry, Record, Skipped, archive};
pub(super) use table::{Row, Table};
use zstd::Zstd;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// One JSON object per line; for `import` a document as POST /documents takes it
    Jsonl,
    /// One document per file; its path is the id
    Text,
    /// One document per row; the first row names the columns
    Csv,
    /// Like csv, with tabs
    Tsv,
    /// Web archives: pages of WARC, texts of WET; the URL is the id
    Warc,
    /// Parquet, if the program is built with it: one document per row
    Parquet,
}

impl Format {
    /// The format that a name tells, without .gz and .zst; `None` if its ending is of no format.
    pub(super) fn named(path: &Path) -> Option<Format> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
        match name.rsplit_once('.')?.1 {
            "txt" | "text" | "md" => Some(Format::Text),
            "csv" => Some(Format::Csv),
            "tsv" => Some(Format::Tsv),
            "warc" | "wet" => Some(Format::Warc),
            "parquet" => Some(Format::Parquet),
            "jsonl" | "ndjson" | "json" => Some(Format::Jsonl),
            _ => None,
        }
    }

    /// The separator of cells in a table.
    pub(super) fn delimiter(self) -> u8 {
        if self == Format::Tsv { b'\t' } else { b',' }
    }
}

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    /// The compression that the ending of a name tells.
    pub(super) fn named(path: &Path) -> Packing {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Packing::Gzip,
            Some("zst") => Packing::Zstd,
            _ => Packing::None,
        }
    }
}

/// Counts the bytes that pass through.
struct Counted<R>(R, Arc<AtomicU64>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The bytes of a file, decompressed, or standard input as it is. `passed` counts the bytes read, before
/// decompression.
pub(super) fn unpacked(path: &Path, passed: &Arc<AtomicU64>) -> io::Result<Box<dyn BufRead + Send>> {
    if is_input(path) {
        return Ok(Box::new(BufReader::new(Counted(io::stdin(), Arc::clone(passed)))));
    }
    let counted = BufReader::with_capacity(64 << 10, Counted(File::open(path)?, Arc::clone(passed)));
    Ok(match Packing::named(path) {
        Packing::Gzip => Box::new(BufReader::with_capacity(64 << 10, MultiGzDecoder::new(counted))),
        Packing::Zstd => Box::new(BufReader::with_capacity(64 << 10, Zstd::new(counted))),
        Packing::None => Box::new(counted),
    })
}

/// Whether a name means standard input.
pub(super) fn is_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// An error of data that have the wrong form.
pub(super) fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
