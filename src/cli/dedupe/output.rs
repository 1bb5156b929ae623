//! The output: one file for each input, with the records that are kept, in their format, compression and
//! order.
//!
//! A record is copied byte for byte, in any charset; the last line of a file gets a line break if it has
//! none. Web archives have one gzip member or zstd frame for each record, as their readers expect.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use encoding_rs::{Encoding, UTF_8};
use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::bulk::Compressor;

use super::super::Failure;
use super::annotate::{self, Note, Notes, SCHEMA};
use super::inputs::Input;
use super::record::{Content, Raw};
use super::replaced::Replacements;
use crate::cli::at;
use lookalike_files::columnar::Replaced;
use lookalike_files::parquet::Added;
use lookalike_files::{Packing, ascii_in, columnar, wrong};

/// The bytes of a zstd frame before compression.
const FRAME: usize = 4 << 20;
/// The level of zstd: its own default.
const LEVEL: i32 = 3;

/// The files of the output, written one after the other.
pub(super) struct Outputs<'a> {
    folder: PathBuf,
    inputs: &'a [Input],
    /// The file that is written, and the number of its input.
    open: Option<(u32, Sink)>,
    /// The archive that is written, and its place in the output.
    archive: Option<(&'a Path, tar::Builder<Sink>)>,
    /// The rows of a file of columns that are kept, and the number of its input: the file is written when all
    /// are known, from a second reading.
    rows: Option<(u32, Vec<bool>)>,
    /// The notes on these rows.
    notes: Option<Notes>,
    /// Other texts for some of these rows.
    texts: Option<Replacements>,
    /// Whether documents get notes.
    is_annotated: bool,
}

impl<'a> Outputs<'a> {
    pub(super) fn new(folder: PathBuf, inputs: &'a [Input], is_annotated: bool) -> Outputs<'a> {
        Outputs {
            folder,
            inputs,
            open: None,
            archive: None,
            rows: None,
            notes: None,
            texts: None,
            is_annotated,
        }
    }

    /// Writes the header of a table or a record that is kept.
    pub(super) fn write(&mut self, raw: &Raw) -> Result<(), Failure> {
        let file = raw.file;
        if matches!(raw.content, Content::Values(_)) {
            let rows = self.rows_of(file)?;
            rows.resize(raw.line as usize, false);
            rows[raw.line as usize - 1] = true;
            return Ok(());
        }
        let written = self.sink(file)?.record(raw);
        written.map_err(|error| self.failed(file, &error))
    }

    /// Gives a row of columns, which is kept, another text in this column.
    pub(super) fn replace(&mut self, raw: &Raw, column: &str, text: &str) -> Result<(), Failure> {
        self.rows_of(raw.file)?;
        let pushed = Replacements::push(&mut self.texts, &self.folder, column, raw.line - 1, text);
        pushed.map_err(|error| self.failed(raw.file, &error))
    }

    /// Writes a document with a note on it.
    pub(super) fn annotate(&mut self, raw: &Raw, note: &Note) -> Result<(), Failure> {
        let file = raw.file;
        let written = if matches!(raw.content, Content::Values(_)) {
            self.write(raw)?;
            let path = self.folder.with_file_name("notes");
            Notes::push(&mut self.notes, &path, note)
        } else {
            self.sink(file)?.annotated(raw, note)
        };
        written.map_err(|error| self.failed(file, &error))
    }

    /// Starts the file of an input, so that it exists even if nothing of it is kept. A file that is one text
    /// exists only if the text is kept.
    pub(super) fn start(&mut self, file: u32) -> Result<(), Failure> {
        if self.inputs[file as usize].member.is_some() {
            self.archive_of(file)?;
        }
        match self.inputs[file as usize].format {
            format if format.is_whole() => Ok(()),
            format if format.is_columnar() => self.rows_of(file).map(|_| ()),
            _ => self.sink(file).map(|_| ()),
        }
    }

    /// Completes the last file, and the archive.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.finish_file()?;
        self.finish_archive()
    }

    fn finish_file(&mut self) -> Result<(), Failure> {
        if let Some((file, sink)) = self.open.take() {
            sink.finish().map_err(|error| self.failed(file, &error))?;
            self.add_to_archive(file)?;
        }
        if let Some((file, rows)) = self.rows.take() {
            let to = self.create(file)?;
            let Input { path, format, .. } = &self.inputs[file as usize];
            let (notes, texts) = (self.notes.take(), self.texts.take());
            let written = match (notes, texts) {
                (None, None) => columnar::copy(path, *format, to, &rows, None, None),
                (Some(notes), _) => notes.finish().and_then(|mut notes| {
                    let added = Added { schema: SCHEMA, next: &mut || notes.next() };
                    columnar::copy(path, *format, to, &rows, Some(added), None)
                }),
                (None, Some(texts)) => texts.finish().and_then(|mut texts| {
                    let column = &texts.column.clone();
                    let replaced = Replaced { column, text: &mut |row| texts.text(row) };
                    columnar::copy(path, *format, to, &rows, None, Some(replaced))
                }),
            };
            written.map_err(|error| self.failed(file, &error))?;
        }
        Ok(())
    }

    /// Moves a file of an archive, which is complete, into the archive. Its size is in front of it there.
    fn add_to_archive(&mut self, file: u32) -> Result<(), Failure> {
        let inputs = self.inputs;
        let Some(member) = &inputs[file as usize].member else { return Ok(()) };
        let path = self.path(file);
        let builder = self.archive_of(file)?;
        let added = File::open(&path).and_then(|complete| {
            let mut header = member.header(complete.metadata()?.len());
            builder.append_data(&mut header, member.relative(), complete)
        });
        added.map_err(|error| self.failed(file, &error))
    }

    /// The archive of a file.
    fn archive_of(&mut self, file: u32) -> Result<&mut tar::Builder<Sink>, Failure> {
        let inputs = self.inputs;
        let input = &inputs[file as usize];
        if self.archive.as_ref().is_none_or(|(open, _)| *open != input.to) {
            self.finish()?;
            let to = create(&self.folder.join(&input.to))?;
            let sink = Sink::new(buffered(to), Packing::named(&input.path));
            self.archive = Some((&input.to, tar::Builder::new(sink)));
        }
        let (_, builder) = self.archive.as_mut().expect("it was opened");
        Ok(builder)
    }

    fn finish_archive(&mut self) -> Result<(), Failure> {
        let Some((to, builder)) = self.archive.take() else { return Ok(()) };
        let written = builder.into_inner().and_then(Sink::finish);
        written.map_err(|error| at(&self.folder.join(to), &error))
    }

    /// The rows of a file of columns that are kept so far.
    fn rows_of(&mut self, file: u32) -> Result<&mut Vec<bool>, Failure> {
        if self.rows.as_ref().is_none_or(|(open, _)| *open != file) {
            self.finish_file()?;
        }
        Ok(&mut self.rows.get_or_insert((file, Vec::new())).1)
    }

    fn create(&self, file: u32) -> Result<File, Failure> {
        create(&self.path(file))
    }

    /// The path of a file. One in an archive is written beside the output first.
    fn path(&self, file: u32) -> PathBuf {
        let input = &self.inputs[file as usize];
        if input.member.is_some() {
            self.folder.with_file_name("member")
        } else {
            self.folder.join(&input.to)
        }
    }

    fn sink(&mut self, file: u32) -> Result<&mut Sink, Failure> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != file) {
            self.finish_file()?;
            let sink = Sink::new(buffered(self.create(file)?), self.inputs[file as usize].packing);
            self.open = Some((file, Sink { is_annotated: self.is_annotated, ..sink }));
        }
        let (_, sink) = self.open.as_mut().expect("it was opened");
        Ok(sink)
    }

    fn failed(&self, file: u32, error: &io::Error) -> Failure {
        at(&self.folder.join(&self.inputs[file as usize].to), error)
    }
}

/// Creates a file, and the folders above it.
fn create(path: &Path) -> Result<File, Failure> {
    let created = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| File::create(path));
    created.map_err(|error| at(path, &error))
}

fn buffered(file: File) -> BufWriter<File> {
    BufWriter::with_capacity(1 << 20, file)
}

/// A file that is written, with its compression.
pub(super) struct Sink<W: Write = BufWriter<File>> {
    to: W,
    packing: Packing,
    /// The gzip member that is written.
    member: Option<GzEncoder<Vec<u8>>>,
    /// The bytes of the next zstd frame.
    frame: Vec<u8>,
    /// Created for the first frame.
    compressor: Option<Compressor<'static>>,
    /// Whether something was written.
    is_begun: bool,
    encoding: &'static Encoding,
    /// The end of the rows of a table.
    row_end: &'static [u8],
    /// In an array, after the bracket that opens it: whether an element was written.
    has_element: Option<bool>,
    is_annotated: bool,
    /// What separates the cells of a table.
    delimiter: u8,
}

impl<W: Write> Sink<W> {
    pub(super) fn new(to: W, packing: Packing) -> Sink<W> {
        let (member, frame) = (None, Vec::new());
        Sink {
            to,
            packing,
            member,
            frame,
            compressor: None,
            is_begun: false,
            encoding: UTF_8,
            row_end: b"\n",
            has_element: None,
            is_annotated: false,
            delimiter: b',',
        }
    }

    /// Writes the header of a table or a record.
    pub(super) fn record(&mut self, raw: &Raw) -> io::Result<()> {
        match &raw.content {
            Content::Charset(encoding, mark) => self.begin(encoding, mark),
            Content::Line(line) => self.line(raw.original.as_deref().unwrap_or(line)),
            Content::Element(element) => self.element(raw.original.as_deref().unwrap_or(element)),
            Content::Bracket(bytes) => self.bracket(bytes),
            Content::Row(row) => self.row(&row.raw),
            Content::Columns(header, delimiter) => {
                self.delimiter = *delimiter;
                self.header(header, self.is_annotated)
            }
            Content::Header(header) => self.header(header, false),
            Content::Text(bytes) | Content::Image(bytes) => self.lines(&[bytes]),
            Content::Record(record) => self.piece(record.bytes(), record.is_whole()),
            Content::Piece(piece) => self.piece(&piece.bytes, piece.is_last),
            Content::Values(_) | Content::Broken(_) => Ok(()),
        }
    }

    /// Writes a document with a note on it.
    fn annotated(&mut self, raw: &Raw, note: &Note) -> io::Result<()> {
        let object = |object: &[u8]| annotate::object(object, self.encoding, note);
        match &raw.content {
            Content::Line(line) => self.line(&object(raw.original.as_deref().unwrap_or(line))?),
            Content::Element(element) => self.element(&object(raw.original.as_deref().unwrap_or(element))?),
            Content::Row(row) => {
                let cells = note.cells();
                let cells = cells.each_ref().map(|cell| &**cell);
                self.row(&annotate::row(&row.raw, self.encoding, self.delimiter, cells)?)
            }
            _ => Err(wrong("--annotate: this format has no fields")),
        }
    }

    /// Begins a file in a charset, with its byte order mark.
    fn begin(&mut self, encoding: &'static Encoding, mark: &[u8]) -> io::Result<()> {
        self.encoding = encoding;
        self.lines(&[mark])
    }

    /// ASCII characters in the charset of the file.
    fn ascii(&self, text: &[u8]) -> Vec<u8> {
        ascii_in(self.encoding, text)
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let end = self.ascii(b"\n");
        self.lines(&[line, &end])
    }

    fn row(&mut self, row: &[u8]) -> io::Result<()> {
        let end = self.ascii(self.row_end);
        self.lines(&[row, &end])
    }

    /// Writes the first row of a table, whose line break the others get, or the header of an export.
    fn header(&mut self, mut header: &[u8], has_notes: bool) -> io::Result<()> {
        let (line_feed, carriage_return) = (self.ascii(b"\n"), self.ascii(b"\r"));
        loop {
            if let Some(rest) = header.strip_suffix(&line_feed[..]) {
                header = rest;
            } else if let Some(rest) = header.strip_suffix(&carriage_return[..]) {
                (header, self.row_end) = (rest, b"\r\n");
            } else if has_notes {
                return self.row(&annotate::row(header, self.encoding, self.delimiter, annotate::FIELDS)?);
            } else {
                return self.row(header);
            }
        }
    }

    fn element(&mut self, element: &[u8]) -> io::Result<()> {
        let comma = if self.has_element == Some(true) { self.ascii(b",") } else { Vec::new() };
        self.has_element = Some(true);
        self.lines(&[&comma, element])
    }

    /// Writes the bracket that opens an array or closes it.
    fn bracket(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.has_element = if self.has_element.is_none() { Some(false) } else { None };
        self.lines(&[bracket])
    }

    /// Writes parts of a line or text.
    fn lines(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.is_begun = true;
        for part in parts {
            match self.packing {
                Packing::None => self.to.write_all(part)?,
                Packing::Gzip => {
                    let new = || GzEncoder::new(Vec::new(), Compression::default());
                    let member = self.member.get_or_insert_with(new);
                    member.write_all(part)?;
                    if member.get_ref().len() >= FRAME {
                        self.to.write_all(member.get_ref())?;
                        member.get_mut().clear();
                    }
                }
                Packing::Zstd => self.frame.extend_from_slice(part),
            }
        }
        if self.frame.len() >= FRAME { self.end_frame() } else { Ok(()) }
    }

    /// Writes a piece of a record of an archive, which has a gzip member or zstd frames of its own.
    fn piece(&mut self, bytes: &[u8], is_last: bool) -> io::Result<()> {
        if !is_last {
            return self.lines(&[bytes]);
        }
        self.lines(&[bytes, b"\r\n\r\n"])?;
        if self.packing == Packing::Zstd { self.end_frame() } else { self.end_member() }
    }

    fn end_member(&mut self) -> io::Result<()> {
        match self.member.take() {
            Some(member) => self.to.write_all(&member.finish()?),
            None => Ok(()),
        }
    }

    fn end_frame(&mut self) -> io::Result<()> {
        if self.compressor.is_none() {
            let mut compressor = Compressor::new(LEVEL)?;
            compressor.include_checksum(true)?;
            self.compressor = Some(compressor);
        }
        let compressor = self.compressor.as_mut().expect("it was created");
        self.to.write_all(&compressor.compress(&self.frame)?)?;
        self.frame.clear();
        Ok(())
    }

    /// Completes the file, which is a valid empty one if nothing was written.
    pub(super) fn finish(mut self) -> io::Result<()> {
        // An array that is damaged further on is closed: the elements that are kept are an array.
        if self.has_element.is_some() {
            self.lines(&[&self.ascii(b"]\n")])?;
        }
        if self.packing == Packing::Gzip && !self.is_begun {
            self.lines(&[b""])?;
        }
        self.end_member()?;
        if self.packing == Packing::Zstd && (!self.is_begun || !self.frame.is_empty()) {
            self.end_frame()?;
        }
        self.to.flush()
    }
}

/// The bytes of an archive.
impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines(&[bytes]).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
