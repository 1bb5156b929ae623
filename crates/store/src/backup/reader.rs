//! Reads a backup from any byte stream, from its first byte to its last.
//!
//! Documents are passed on as they are read, before the end is verified. A caller that must not act on half
//! a backup reads it twice: the first time only to verify it.
//!
//! *Absent*: what is done with the documents.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::GzDecoder;
use serde::de::DeserializeOwned;
use tar::{Archive, Entry, EntryType};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::error::BackupError;
use super::format::{
    END, END_BYTES, End, FORMAT, Item, Kind, Line, MANIFEST, MANIFEST_BYTES, Manifest, MarkLine, Marker,
    Part, Summary, VERSION, digits, part_name,
};
use lookalike_hash::{DocumentId, Mark, Width};

const BUFFER: usize = 64 << 10;

/// Reads a backup whose documents have at most `longest` bytes each. Calls `begin` with the manifest before
/// the first document, and `take` with each document, in the order of their ids, and then with each mark.
///
/// # Errors
/// [`BackupError`] at the first flaw, and any error of `begin` or `take`.
pub fn read<E: From<BackupError>>(
    input: impl Read,
    longest: usize,
    mut begin: impl FnMut(&Manifest) -> Result<(), E>,
    mut take: impl FnMut(Item) -> Result<(), E>,
) -> Result<Summary, E> {
    let at = Rc::new(Cell::new(0));
    let mut archive = Archive::new(Counting { input, at: Rc::clone(&at) });
    let mut reading = Reading {
        at: Rc::clone(&at),
        longest,
        manifest: None,
        end: End::default(),
        last: None,
        parts: 0,
        kind: Kind::Documents,
        last_mark: None,
    };
    let mut is_complete = false;
    let members = archive.entries().map_err(|error| reading.failed("the first member", error))?.raw(true);
    for member in members {
        let next = reading.next_name();
        let first_marks = part_name(Kind::Marks, 1);
        let mut member = member.map_err(|error| reading.failed(&next, error))?;
        let name = reading.name_of(&member)?;
        if is_complete {
            return Err(reading.damaged(&name, format!("a member after {END}")).into());
        }
        match name.as_str() {
            _ if reading.manifest.is_none() => begin(reading.read_manifest(&name, &mut member)?)?,
            END => {
                reading.read_end(&mut member)?;
                is_complete = true;
            }
            _ if name == next => reading.read_part(&name, &mut member, &mut take)?,
            _ if name == first_marks && reading.kind == Kind::Documents => {
                (reading.kind, reading.parts) = (Kind::Marks, 0);
                reading.read_part(&name, &mut member, &mut take)?;
            }
            _ => {
                return Err(reading.damaged(&name, format!("{next} or {END} is expected here")).into());
            }
        }
    }
    let Some(manifest) = reading.manifest.take().filter(|_| is_complete) else {
        return Err(reading.cut().into());
    };
    reading.check_rest(archive.into_inner())?;
    let End { documents, marks, .. } = reading.end;
    Ok(Summary { manifest, documents, marks, bytes: at.get() })
}

/// Counts the bytes that are read.
struct Counting<R> {
    input: R,
    at: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.at.set(self.at.get() + read as u64);
        Ok(read)
    }
}

/// Computes the checksum of the bytes that are read.
struct Hashing<R> {
    input: R,
    checksum: Xxh3Default,
    bytes: u64,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.checksum.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

/// The state of a read.
struct Reading {
    at: Rc<Cell<u64>>,
    /// The most bytes of a document.
    longest: usize,
    manifest: Option<Manifest>,
    /// The expected content of the last member.
    end: End,
    /// The id of the last document.
    last: Option<DocumentId>,
    /// The number of parts of the present kind.
    parts: u64,
    /// The kind of their lines.
    kind: Kind,
    /// The last mark.
    last_mark: Option<Mark>,
}

impl Reading {
    fn damaged(&self, member: &str, what: impl Into<String>) -> BackupError {
        BackupError::Damaged { member: member.into(), offset: self.at.get(), what: what.into() }
    }

    /// Converts an error of a read: either the input failed, or its content is wrong.
    fn failed(&self, member: &str, error: io::Error) -> BackupError {
        if error.raw_os_error().is_some() {
            return BackupError::Io(error);
        }
        if self.manifest.is_none() {
            return BackupError::Foreign { what: format!("it is no tar ({error})") };
        }
        self.damaged(member, error.to_string())
    }

    fn cut(&self) -> BackupError {
        if self.manifest.is_none() {
            return BackupError::Foreign { what: "it is empty".into() };
        }
        self.damaged(&self.next_name(), format!("it ends before {END}"))
    }

    fn next_name(&self) -> String {
        part_name(self.kind, self.parts + 1)
    }

    fn name_of<R: Read>(&self, member: &Entry<'_, R>) -> Result<String, BackupError> {
        let name = String::from_utf8_lossy(&member.path_bytes()).into_owned();
        let kind = member.header().entry_type();
        if kind == EntryType::Regular {
            return Ok(name);
        }
        if self.manifest.is_none() {
            return Err(BackupError::Foreign { what: format!("it begins with {name:?} and not {MANIFEST}") });
        }
        Err(self.damaged(&name, "a member that is not a file"))
    }

    /// Reads a small member whole.
    fn small<R: Read>(
        &self,
        name: &str,
        member: &mut Entry<'_, R>,
        most: u64,
    ) -> Result<Vec<u8>, BackupError> {
        if member.size() > most {
            return Err(
                self.damaged(name, format!("{} bytes, but at most {most} are allowed", member.size()))
            );
        }
        let mut content = Vec::new();
        member.read_to_end(&mut content).map_err(|error| self.failed(name, error))?;
        if content.len() as u64 != member.size() {
            return Err(self.damaged(name, "it ends in the middle of this member"));
        }
        Ok(content)
    }

    fn parsed<T: DeserializeOwned>(&self, name: &str, content: &[u8]) -> Result<T, BackupError> {
        serde_json::from_slice(content).map_err(|error| self.damaged(name, error.to_string()))
    }

    fn read_manifest<R: Read>(
        &mut self,
        name: &str,
        member: &mut Entry<'_, R>,
    ) -> Result<&Manifest, BackupError> {
        let foreign = |what: String| BackupError::Foreign { what };
        if name != MANIFEST {
            return Err(foreign(format!("it begins with {name:?} and not {MANIFEST}")));
        }
        let content = self.small(name, member, MANIFEST_BYTES)?;
        let marker: Marker = serde_json::from_slice(&content)
            .map_err(|error| foreign(format!("{MANIFEST} cannot be read: {error}")))?;
        if marker.format != FORMAT {
            return Err(foreign(format!("{MANIFEST} says that it is a {:?}", marker.format)));
        }
        if marker.version > VERSION {
            return Err(BackupError::Newer { found: marker.version });
        }
        let manifest: Manifest = self.parsed(name, &content)?;
        self.end.manifest_xxh3 = digits(xxh3_64(&content));
        Ok(self.manifest.insert(manifest))
    }

    fn width(&self) -> Result<Width, BackupError> {
        let width = self.manifest.as_ref().map(|manifest| manifest.settings.width);
        width.ok_or_else(|| self.damaged(MANIFEST, "it is missing".to_owned()))
    }

    fn read_part<R: Read, E: From<BackupError>>(
        &mut self,
        name: &str,
        member: &mut Entry<'_, R>,
        take: &mut impl FnMut(Item) -> Result<(), E>,
    ) -> Result<(), E> {
        let width = self.width()?;
        let size = member.size();
        let mut raw = BufReader::with_capacity(
            BUFFER,
            Hashing { input: member, checksum: Xxh3Default::new(), bytes: 0 },
        );
        let mut lines = BufReader::with_capacity(BUFFER, GzDecoder::new(&mut raw));
        let (mut line, mut count) = (Vec::new(), 0);
        loop {
            line.clear();
            let mut limited = (&mut lines).take(self.longest as u64 + 1);
            limited.read_until(b'\n', &mut line).map_err(|error| self.failed(name, error))?;
            match line.split_last() {
                None => break,
                Some((b'\n', text)) => {
                    let item = match self.kind {
                        Kind::Documents => self.document(name, text, width)?,
                        Kind::Marks => self.mark(name, text)?,
                    };
                    count += 1;
                    take(item)?;
                }
                Some(_) if line.len() > self.longest => {
                    let after = self.last.as_ref().map(ToString::to_string);
                    return Err(BackupError::Line { part: name.to_owned(), after, most: self.longest }.into());
                }
                Some(_) => {
                    let what = format!("line {count} of the part has no end");
                    return Err(self.damaged(name, what).into());
                }
            }
        }
        drop(lines);
        // The checksum also covers bytes after the compressed lines.
        io::copy(&mut raw, &mut io::sink()).map_err(|error| self.failed(name, error))?;
        let Hashing { checksum, bytes, .. } = raw.into_inner();
        if bytes != size {
            return Err(self.damaged(name, "it ends in the middle of this member").into());
        }
        let (name, xxh3) = (name.to_owned(), digits(checksum.digest()));
        self.end.add(self.kind, count, Part { name, bytes, xxh3, ..Part::default() });
        self.parts += 1;
        Ok(())
    }

    fn document(&mut self, name: &str, text: &[u8], width: Width) -> Result<Item, BackupError> {
        let line: Line<'_> = serde_json::from_slice(text)
            .map_err(|error| self.damaged(name, format!("a document: {error}")))?;
        let (id, row) =
            line.document(width).map_err(|what| self.damaged(name, format!("a document: {what}")))?;
        if self.last.as_ref().is_some_and(|last| id <= *last) {
            return Err(self.damaged(name, format!("document {:?} is out of order", id.as_str())));
        }
        self.last = Some(id.clone());
        Ok(Item::Document(id, row))
    }

    fn mark(&mut self, name: &str, text: &[u8]) -> Result<Item, BackupError> {
        let line: MarkLine<'_> =
            serde_json::from_slice(text).map_err(|error| self.damaged(name, format!("a mark: {error}")))?;
        let (mark, marked_ms) = line.mark().map_err(|what| self.damaged(name, format!("a mark: {what}")))?;
        if self.last_mark.as_ref().is_some_and(|last| mark <= *last) {
            return Err(self.damaged(name, format!("the mark of {:?} is out of order", mark.id().as_str())));
        }
        self.last_mark = Some(mark.clone());
        Ok(Item::Mark(mark, marked_ms))
    }

    fn read_end<R: Read>(&mut self, member: &mut Entry<'_, R>) -> Result<(), BackupError> {
        let content = self.small(END, member, END_BYTES)?;
        let stated: End = self.parsed(END, &content)?;
        let read = &self.end;
        if stated == *read {
            return Ok(());
        }
        if stated.manifest_xxh3 != read.manifest_xxh3 {
            return Err(self.damaged(MANIFEST, format!("its checksum differs from the one in {END}")));
        }
        let wrong = stated.parts.iter().zip(&read.parts).find(|(stated, read)| stated != read);
        match wrong {
            Some((_, part)) => {
                Err(self.damaged(&part.name, format!("its checksum, size or count is not the one in {END}")))
            }
            None => Err(self.damaged(
                END,
                format!(
                    "it states the numbers of documents, marks and parts as {}, {} and {}, but they are {}, \
                     {} and {}",
                    stated.documents,
                    stated.marks,
                    stated.parts.len(),
                    read.documents,
                    read.marks,
                    read.parts.len()
                ),
            )),
        }
    }

    /// Checks that only zeros follow the last member.
    fn check_rest(&self, mut rest: impl Read) -> Result<(), BackupError> {
        let mut buffer = vec![0; BUFFER];
        loop {
            match rest.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) if buffer[..read].iter().all(|byte| *byte == 0) => {}
                Ok(_) => return Err(self.damaged(END, "other bytes follow it")),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(BackupError::Io(error)),
            }
        }
    }
}
