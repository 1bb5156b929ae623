//! Writes a backup to any byte stream. Memory holds one part.
//!
//! *Absent*: where the documents come from.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};
use xxhash_rust::xxh3::xxh3_64;

use super::error::BackupError;
use super::format::{
    END, End, Kind, LINE_BYTES, Line, MANIFEST, Manifest, MarkLine, PART_BYTES, Part, digits, part_name,
};
use crate::Row;
use lookalike_hash::{DocumentId, Mark};

/// A backup that is being written.
pub struct Writer<W: Write> {
    tar: Builder<W>,
    /// The modification time of the members, in seconds since 1970-01-01 UTC.
    time: u64,
    end: End,
    part: GzEncoder<Vec<u8>>,
    kind: Kind,
    /// The number of parts of this kind.
    parts: u64,
    /// Bytes and lines in the current part.
    filled: (usize, u64),
}

impl<W: Write> Writer<W> {
    /// Begins a backup with its manifest.
    ///
    /// # Errors
    /// [`BackupError::Io`] if `out` fails.
    pub fn begin(out: W, manifest: &Manifest) -> Result<Writer<W>, BackupError> {
        let mut writer = Writer {
            tar: Builder::new(out),
            time: manifest.taken_ms / 1_000,
            end: End::default(),
            part: encoder(),
            kind: Kind::Documents,
            parts: 0,
            filled: (0, 0),
        };
        let text = json(manifest);
        writer.end.manifest_xxh3 = digits(xxh3_64(&text));
        writer.append(MANIFEST, &text)?;
        Ok(writer)
    }

    /// Adds a document. Its id must be greater than the one before.
    ///
    /// # Errors
    /// [`BackupError::Io`] if `out` fails; [`BackupError::TooLarge`].
    pub fn document(&mut self, id: &DocumentId, row: &Row) -> Result<(), BackupError> {
        let line = serde_json::to_vec(&Line::of(id, row)).map_err(io::Error::from)?;
        if line.len() > LINE_BYTES {
            let (id, bytes) = (id.as_str().to_owned(), line.len());
            return Err(BackupError::TooLarge { id, bytes, most: LINE_BYTES });
        }
        self.line(line)
    }

    /// Adds a mark, after all documents. It must be greater than the one before.
    ///
    /// # Errors
    /// [`BackupError::Io`] if `out` fails.
    pub fn mark(&mut self, mark: &Mark, marked_ms: u64) -> Result<(), BackupError> {
        if self.kind == Kind::Documents {
            self.end_part()?;
            (self.kind, self.parts) = (Kind::Marks, 0);
        }
        self.line(serde_json::to_vec(&MarkLine::of(mark, marked_ms)).map_err(io::Error::from)?)
    }

    fn line(&mut self, mut line: Vec<u8>) -> Result<(), BackupError> {
        line.push(b'\n');
        self.part.write_all(&line)?;
        self.filled = (self.filled.0 + line.len(), self.filled.1 + 1);
        if self.filled.0 >= PART_BYTES {
            self.end_part()?;
        }
        Ok(())
    }

    /// Writes the last member. Without it the output is not a valid backup.
    ///
    /// # Errors
    /// [`BackupError::Io`] if `out` fails.
    pub fn finish(mut self) -> Result<W, BackupError> {
        self.end_part()?;
        let text = json(&self.end);
        self.append(END, &text)?;
        Ok(self.tar.into_inner()?)
    }

    /// Writes the current part, unless it is empty.
    fn end_part(&mut self) -> Result<(), BackupError> {
        if self.filled.1 == 0 {
            return Ok(());
        }
        let compressed = std::mem::replace(&mut self.part, encoder()).finish()?;
        let (_, lines) = std::mem::take(&mut self.filled);
        self.parts += 1;
        let name = part_name(self.kind, self.parts);
        self.append(&name, &compressed)?;
        let (bytes, xxh3) = (compressed.len() as u64, digits(xxh3_64(&compressed)));
        self.end.add(self.kind, lines, Part { name, bytes, xxh3, ..Part::default() });
        Ok(())
    }

    fn append(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(self.time);
        self.tar.append_data(&mut header, name, content)
    }
}

fn encoder() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::fast())
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain data in memory always serialises");
    text.push(b'\n');
    text
}
