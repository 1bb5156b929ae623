//! The file of dropped documents: a JSON object per line, with the document that replaces each one.
//!
//! It appears under its name when it is complete.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::Failure;
use super::super::files::at;
use super::output::sync_folder_of;

/// The name of a document, for the user.
#[derive(Serialize)]
pub(super) struct Shown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    pub(super) file: &'a str,
    pub(super) line: u64,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "{id} ({}:{})", self.file, self.line),
            None => write!(f, "{}:{}", self.file, self.line),
        }
    }
}

/// A line of the file of dropped documents.
#[derive(Serialize)]
pub(super) struct DroppedLine<'a> {
    #[serde(flatten)]
    pub(super) own: Shown<'a>,
    pub(super) replaced_by: Shown<'a>,
    pub(super) distance: u32,
    /// The estimated Jaccard similarity, if the profile makes signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) similarity: Option<f64>,
    pub(super) exact: bool,
}

/// The file of dropped documents.
pub(super) struct Dropped {
    to: PathBuf,
    partial: PathBuf,
    file: BufWriter<File>,
    /// The line that is written.
    line: Vec<u8>,
}

impl Dropped {
    pub(super) fn create(to: &Path) -> Result<Dropped, Failure> {
        let partial = to.with_added_extension("partial");
        let file = File::create(&partial).map_err(|error| at(&partial, &error))?;
        Ok(Dropped {
            to: to.to_owned(),
            partial,
            file: BufWriter::with_capacity(1 << 20, file),
            line: Vec::new(),
        })
    }

    pub(super) fn write(&mut self, line: &DroppedLine) -> Result<(), Failure> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line).map_err(|error| Failure::of(&error, 1))?;
        self.line.push(b'\n');
        self.file.write_all(&self.line).map_err(|error| at(&self.partial, &error))
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let written = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        written
            .and_then(|()| fs::rename(&self.partial, &self.to))
            .map_err(|error| at(&self.partial, &error))?;
        sync_folder_of(&self.to)
    }
}
