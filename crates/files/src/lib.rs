//! Files of documents: their formats, their compression, and their records.
//!
//! `import` and `dedupe` read files through this crate, so that both accept the same ones. It knows the bytes
//! of a record and its parts; the command decides what becomes of them.

#![deny(unreachable_pub)]

mod archive;
mod arrow;
mod cell;
mod charset;
pub mod columnar;
mod cut;
mod edit;
mod failure;
mod faults;
mod fields;
mod gzip;
mod image;
mod inputs;
mod json;
mod lines;
mod magic;
mod names;
mod nested;
mod objects;
mod original;
mod page;
pub mod parquet;
mod patterns;
mod reasons;
mod record;
mod skipped;
mod table;
mod tar;
mod zip;
mod zstd;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use sha2::{Digest, Sha256};

pub use archive::{Part, Piece, Record, archive};
use charset::{InUtf8, Originals, in_utf8, with_originals};
pub use charset::{ascii_in, charset, doubts};
pub use cut::{Cut, Event, How, Wants, broken, check_columns};
pub use edit::Edit;
pub use failure::Failure;
pub use fields::{Fields, Value, check_characters, members, missing, quoted};
use gzip::Gzip;
pub use gzip::Places;
pub use image::QUALITY;
pub use inputs::{Listed, Listing, last_name};
pub use names::{fitting, shown, shown_bytes};
pub use nested::outer_of_path;
pub use objects::local_name;
pub use original::{Opens, Original, State};
pub use reasons::{Reason, Tally, Unread};
pub use record::{About, Content, Raw, Said};
pub use skipped::Skipped;
pub use table::{Row, Table};
pub use tar::{Member, format_of};
pub use zip::{each_member, is_archive, written_as};
use zstd::{WINDOW_OF_FILE, Zstd};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object per line, or an array of objects
    Jsonl,
    /// One document per file; its path is the id
    Text,
    /// One image per file; its path is the id
    Image,
    /// One document per row; the first row names the columns. The delimiter is detected: , ; tab or |
    Csv,
    /// Like csv, with tabs
    Tsv,
    /// Web archives: pages of WARC, texts of WET; the URL is the id
    Warc,
    /// Parquet: one document per row
    Parquet,
    /// Arrow IPC, a file (Feather 2) or a stream: one document per row
    Arrow,
}

impl Format {
    /// The format that a name tells, without .gz and .zst; `None` if its ending is of no format.
    pub fn named(path: &Path) -> Option<Format> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
        match name.rsplit_once('.')?.1 {
            "txt" | "text" | "md" => Some(Format::Text),
            // Also those that are not read: they are counted with that reason.
            "jpg" | "jpeg" | "jpe" | "jfif" | "png" | "webp" | "gif" | "heic" | "heif" | "avif" | "tif"
            | "tiff" | "svg" | "bmp" | "jxl" => Some(Format::Image),
            "csv" => Some(Format::Csv),
            "tsv" => Some(Format::Tsv),
            "warc" | "wet" => Some(Format::Warc),
            "parquet" => Some(Format::Parquet),
            "arrow" | "arrows" | "feather" | "ipc" => Some(Format::Arrow),
            "jsonl" | "ndjson" | "json" => Some(Format::Jsonl),
            _ => None,
        }
    }

    /// Whether files of this format are read in folders and archives: images for profiles of images, and
    /// texts for others.
    pub fn is_for(self, images: bool) -> bool {
        match self {
            Format::Image => images,
            Format::Text | Format::Warc => !images,
            _ => true,
        }
    }

    /// Whether a file is one document.
    pub fn is_whole(self) -> bool {
        matches!(self, Format::Text | Format::Image)
    }

    /// The separator of cells in a table; `None` if it is to be detected.
    pub fn delimiter(self) -> Option<u8> {
        (self == Format::Tsv).then_some(b'\t')
    }
}

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// It is not compressed.
    None,
    /// gzip, of one or several members.
    Gzip,
    /// Zstandard, of one or several frames.
    Zstd,
}

impl Packing {
    /// The compression that the ending of a name tells.
    pub fn named(path: &Path) -> Packing {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz" | "tgz") => Packing::Gzip,
            Some("zst" | "tzst") => Packing::Zstd,
            _ => Packing::None,
        }
    }
}

/// Counts the bytes that pass through.
pub struct Counted<R>(pub R, pub Arc<AtomicU64>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.0.write(bytes)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The bytes of a file.
pub type Reading<'a> = Box<dyn BufRead + 'a>;

/// The bytes of a file or of standard input, decompressed. `passed` counts the bytes read, before
/// decompression.
pub fn unpacked(from: &(impl Opens + ?Sized), passed: &Arc<AtomicU64>) -> io::Result<Reading<'static>> {
    Ok(opened(from, passed)?.0)
}

/// [`unpacked`] with the places of the data in the file.
pub fn opened(
    from: &(impl Opens + ?Sized),
    passed: &Arc<AtomicU64>,
) -> io::Result<(Reading<'static>, Places)> {
    let counted = BufReader::with_capacity(64 << 10, Counted(from.open()?, Arc::clone(passed)));
    Ok(unpack(Box::new(counted), Packing::named(from.name())))
}

/// The bytes of `read`, which `passed` counts.
pub fn counted<'a>(read: Reading<'a>, passed: &Arc<AtomicU64>) -> Reading<'a> {
    Box::new(BufReader::with_capacity(64 << 10, Counted(read, Arc::clone(passed))))
}

/// The decompressed bytes, with their places in the file. The first bytes tell how they are compressed, if
/// `named`, the compression of their name, does not.
pub fn unpack(mut read: Reading<'_>, named: Packing) -> (Reading<'_>, Places) {
    let packing = Packing::of_read(&mut read, named);
    let places = if packing == Packing::Zstd { Places::unknown() } else { Places::default() };
    let read: Reading = match packing {
        Packing::Gzip => Box::new(BufReader::with_capacity(64 << 10, Gzip::new(read, places.clone()))),
        Packing::Zstd => Box::new(BufReader::with_capacity(64 << 10, Zstd::new(read, WINDOW_OF_FILE))),
        Packing::None => read,
    };
    (read, places)
}

/// Whether a name means standard input.
pub fn is_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// An error of data that have the wrong form.
pub fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// The error of a file that cannot be read or written.
pub fn at(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{}: {error}", shown(path)))
}

/// The SHA-256 of bytes in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
