//! Files of JSON lines, such as that of dropped documents with the document that replaces each one.

use std::fmt;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde::Serialize;

use super::super::Failure;
use super::target::Target;
use lookalike_files::shown_bytes;

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
            Some(id) => write!(f, "{} ({}:{})", shown_bytes(id.as_bytes()), self.file, self.line),
            None => write!(f, "{}:{}", self.file, self.line),
        }
    }
}

/// A line of the file of dropped documents.
#[derive(Serialize)]
pub(super) struct DroppedLine<'a> {
    #[serde(flatten)]
    pub(super) own: Shown<'a>,
    /// Which text of a page was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) page: Option<&'static str>,
    pub(super) replaced_by: Shown<'a>,
    pub(super) distance: u32,
    /// The estimated Jaccard similarity, if the profile makes signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) similarity: Option<f64>,
    /// The share of its features that the document that replaces it has, if it was dropped for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) contained_in: Option<f64>,
    pub(super) exact: bool,
}

/// A file of JSON lines.
pub(super) struct Lines {
    file: BufWriter<Target>,
    /// The line that is written.
    line: Vec<u8>,
}

impl Lines {
    pub(super) fn create(to: &Path) -> Result<Lines, Failure> {
        Ok(Lines { file: BufWriter::with_capacity(1 << 20, Target::create(to)?), line: Vec::new() })
    }

    pub(super) fn write(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line).map_err(|error| Failure::of(&error, 1))?;
        self.line.push(b'\n');
        self.file.write_all(&self.line).map_err(|error| self.file.get_ref().failed(&error))
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.file.flush().map_err(|error| self.file.get_ref().failed(&error))?;
        let file = self.file.into_inner().map_err(|error| Failure::of(error.error(), 1))?;
        file.finish()
    }
}
