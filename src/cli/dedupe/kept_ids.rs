//! The file of the ids of kept documents, one a line.

use std::io::{BufWriter, Write};
use std::path::Path;

use super::super::Failure;
use super::dropped::Shown;
use super::target::Target;

pub(super) struct KeptIds(BufWriter<Target>);

impl KeptIds {
    pub(super) fn create(to: &Path) -> Result<KeptIds, Failure> {
        Ok(KeptIds(BufWriter::new(Target::create(to)?)))
    }

    /// Writes the id of a document. An id has no line break.
    ///
    /// # Errors
    /// If it has none.
    pub(super) fn write(&mut self, document: &Shown<'_>) -> Result<(), Failure> {
        let id = document.id.as_ref().ok_or_else(|| {
            Failure::new(format!(
                "{document}: there is no id for --keep-ids: --id-field names another field, and --duplicates \
                 names documents by file and line"
            ))
        })?;
        let written = self.0.write_all(id.as_bytes()).and_then(|()| self.0.write_all(b"\n"));
        written.map_err(|error| self.0.get_ref().failed(&error))
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.0.flush().map_err(|error| self.0.get_ref().failed(&error))?;
        let file = self.0.into_inner().map_err(|error| Failure::of(error.error(), 1))?;
        file.finish()
    }
}
