//! The file that `--report` names: a JSON object for each record that was not stored as a new document, or
//! whose text is short or of a doubtful charset, in the order of the files.
//!
//! A run that goes on continues the file behind the records that the earlier run has saved as answered, so
//! that each is in it once.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::value::RawValue;

use super::super::Failure;
use crate::cli::at;
use lookalike_http::CharsetOut;

/// A line of the report.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Reported<'a> {
    pub(super) file: &'a str,
    /// In an archive and a Parquet file the number of the record.
    pub(super) line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    pub(super) outcome: &'a str,
    /// `short` if the fingerprint of the document is not reliable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<&'a str>,
    /// The charset of a text, if it is guessed or bytes were replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) charset: Option<CharsetOut>,
    /// The code of the error of an invalid document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<&'a str>,
    /// What a duplicate duplicates, or what contains it, with distances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) similar: Option<&'a RawValue>,
}

/// The file.
pub(super) struct Report {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
}

impl Report {
    /// Creates the file, or keeps its first `kept` bytes.
    pub(super) fn open(path: &Path, kept: u64) -> Result<Report, Failure> {
        let open = || {
            let mut file = File::options().write(true).create(true).truncate(false).open(path)?;
            let kept = kept.min(file.metadata()?.len());
            // A device or a pipe has no length.
            if file.metadata()?.is_file() {
                file.set_len(kept)?;
                file.seek(SeekFrom::Start(kept))?;
            }
            Ok((file, kept))
        };
        let (file, bytes) = open().map_err(|error| at(path, &error))?;
        Ok(Report { path: path.to_owned(), file: BufWriter::new(file), bytes })
    }

    pub(super) fn write(&mut self, line: &Reported) -> Result<(), Failure> {
        let mut bytes = serde_json::to_vec(line).map_err(|error| Failure::of(&error, 1))?;
        bytes.push(b'\n');
        self.bytes += bytes.len() as u64;
        self.file.write_all(&bytes).map_err(|error| at(&self.path, &error))
    }

    /// Writes what is held, and returns the length of the file.
    pub(super) fn flush(&mut self) -> Result<u64, Failure> {
        self.file.flush().map_err(|error| at(&self.path, &error))?;
        Ok(self.bytes)
    }
}
