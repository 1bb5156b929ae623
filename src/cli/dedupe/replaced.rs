//! Other texts for rows of a file of columns, in a working file without a name: columns are written after all
//! rows were read.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use std::path::Path;

/// The texts, with the numbers of their rows, in order.
pub(super) struct Replacements {
    column: String,
    file: BufWriter<File>,
}

/// The same, read in their order.
pub(super) struct ReplacementsRead {
    pub(super) column: String,
    file: BufReader<File>,
    next: Option<(u64, String)>,
}

impl Replacements {
    pub(super) fn push(
        all: &mut Option<Replacements>,
        folder: &Path,
        column: &str,
        row: u64,
        text: &str,
    ) -> io::Result<()> {
        if all.is_none() {
            let path = folder.with_file_name("notes");
            let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
            fs::remove_file(path)?;
            *all = Some(Replacements { column: column.to_owned(), file: BufWriter::new(file) });
        }
        let Replacements { file, .. } = all.as_mut().expect("it was opened");
        serde_json::to_writer(&mut *file, &(row, text))?;
        file.write_all(b"\n")
    }

    pub(super) fn finish(self) -> io::Result<ReplacementsRead> {
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        let mut read = ReplacementsRead { column: self.column, file: BufReader::new(file), next: None };
        read.read()?;
        Ok(read)
    }
}

impl ReplacementsRead {
    fn read(&mut self) -> io::Result<()> {
        let mut line = String::new();
        self.file.read_line(&mut line)?;
        self.next = if line.is_empty() { None } else { Some(serde_json::from_str(&line)?) };
        Ok(())
    }

    /// The text of a row, if it is another one.
    pub(super) fn text(&mut self, row: u64) -> io::Result<Option<String>> {
        if self.next.as_ref().is_none_or(|(next, _)| *next != row) {
            return Ok(None);
        }
        let text = self.next.take().map(|(_, text)| text);
        self.read()?;
        Ok(text)
    }
}
