//! The output: one file for each input, with the records that are kept, in their format, compression and
//! order.
//!
//! It guarantees that nothing appears under its final name before all of it is complete and on the disk.
//! Until then everything is in the folder `NAME.partial`. A record is copied byte for byte, in any charset;
//! the last line of a file gets a line break if it has none. Web archives have one gzip member or zstd frame
//! for each record, as their readers expect.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use encoding_rs::{Encoding, UTF_8};
use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::bulk::Compressor;

use super::super::Failure;
use super::super::files::at;
use super::super::files::{Format, Packing, ascii_in, is_input, parquet};
use super::inputs::Input;
use super::record::{Content, Raw};

/// The bytes of a zstd frame before compression.
const FRAME: usize = 4 << 20;
/// The level of zstd: its own default.
const LEVEL: i32 = 3;

/// The folder of a run.
pub(super) struct Folder {
    /// The final name.
    to: PathBuf,
    /// The folder with everything until the run is complete.
    partial: PathBuf,
    /// Keeps a second run away.
    _lock: File,
}

impl Folder {
    /// Creates the working folder, or opens that of an earlier run.
    ///
    /// # Errors
    /// If the output exists and may not be replaced, or another run is at work.
    pub(super) fn open(to: &Path, inputs: &[Input], is_forced: bool) -> Result<Folder, Failure> {
        check_place(to, inputs, is_forced)?;
        let partial = to.with_added_extension("partial");
        fs::create_dir_all(&partial).map_err(|error| at(&partial, &error))?;
        let path = partial.join("lock");
        let lock = File::create(&path).map_err(|error| at(&path, &error))?;
        if lock.try_lock().is_err() {
            return Err(Failure::new(format!("another run writes to {}", to.display())));
        }
        Ok(Folder { to: to.to_owned(), partial, _lock: lock })
    }

    /// A working file.
    pub(super) fn work(&self, name: &str) -> PathBuf {
        self.partial.join(name)
    }

    /// The folder of the output while it is incomplete, empty at the beginning.
    pub(super) fn fresh_output(&self) -> Result<PathBuf, Failure> {
        let output = self.partial.join("output");
        if output.exists() {
            fs::remove_dir_all(&output).map_err(|error| at(&output, &error))?;
        }
        fs::create_dir_all(&output).map_err(|error| at(&output, &error))?;
        Ok(output)
    }

    /// Gives the output its final name, and removes the working files.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let output = self.partial.join("output");
        let all = File::open(&output).map_err(|error| at(&output, &error))?;
        // One call for the whole file system, instead of one for each file.
        rustix::fs::syncfs(&all).map_err(|error| at(&output, &error.into()))?;
        if self.to.exists() {
            let old = self.partial.join("replaced");
            fs::rename(&self.to, &old).map_err(|error| at(&self.to, &error))?;
        }
        fs::rename(&output, &self.to).map_err(|error| at(&self.to, &error))?;
        sync_folder_of(&self.to)?;
        fs::remove_dir_all(&self.partial).map_err(|error| at(&self.partial, &error))
    }
}

/// Makes the name of a file durable.
pub(super) fn sync_folder_of(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| at(folder, &error))
}

/// Refuses an output that exists, unless it is empty, or is forced and has only files that are written again.
/// Refuses a place inside an input, or around one.
fn check_place(to: &Path, inputs: &[Input], is_forced: bool) -> Result<(), Failure> {
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let own = fs::canonicalize(parent).map_err(|error| at(parent, &error))?;
    let own = own.join(
        to.file_name()
            .ok_or_else(|| Failure::new(format!("{} is no name of a folder to write", to.display())))?,
    );
    for input in inputs.iter().filter(|input| !is_input(&input.path)) {
        let folder = fs::canonicalize(&input.argument).map_err(|error| at(&input.argument, &error))?;
        if folder.starts_with(&own) || own.starts_with(&folder) {
            let (to, folder) = (to.display(), folder.display());
            return Err(Failure::new(format!("the output {to} and the input {folder} contain each other")));
        }
    }
    let Ok(about) = fs::symlink_metadata(to) else { return Ok(()) };
    if !about.is_dir() {
        return Err(Failure::new(format!("{} exists and is no folder", to.display())));
    }
    let mut other = None;
    each_file(to, &mut |file| {
        let place = file.strip_prefix(to).unwrap_or(file);
        if !is_forced || !inputs.iter().any(|input| input.to == place) {
            other.get_or_insert_with(|| file.to_owned());
        }
    })
    .map_err(|error| at(to, &error))?;
    match other {
        None => Ok(()),
        Some(_) if !is_forced => Err(Failure::new(format!("{} exists; --force replaces it", to.display()))),
        Some(file) => Err(Failure::new(format!(
            "{} has a file that this command does not write, {}: --force does not remove it",
            to.display(),
            file.display()
        ))),
    }
}

fn each_file(folder: &Path, each: &mut dyn FnMut(&Path)) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            each_file(&entry.path(), each)?;
        } else {
            each(&entry.path());
        }
    }
    Ok(())
}

/// The files of the output, written one after the other.
pub(super) struct Outputs<'a> {
    folder: PathBuf,
    inputs: &'a [Input],
    /// The file that is written, and the number of its input.
    open: Option<(u32, Sink)>,
    /// The archive that is written, and its place in the output.
    archive: Option<(&'a Path, tar::Builder<Sink>)>,
    /// The rows of a Parquet file that are kept, and the number of its input: the file is written when all
    /// are known, from a second reading.
    rows: Option<(u32, Vec<bool>)>,
}

impl<'a> Outputs<'a> {
    pub(super) fn new(folder: PathBuf, inputs: &'a [Input]) -> Outputs<'a> {
        Outputs { folder, inputs, open: None, archive: None, rows: None }
    }

    /// Writes the header of a table or a record that is kept.
    pub(super) fn write(&mut self, raw: &Raw) -> Result<(), Failure> {
        let (file, content) = (raw.file, &raw.content);
        if matches!(content, Content::Values(_)) {
            let rows = self.rows_of(file)?;
            rows.resize(raw.line as usize, false);
            rows[raw.line as usize - 1] = true;
            return Ok(());
        }
        let sink = self.sink(file)?;
        let written = match content {
            Content::Charset(encoding, mark) => sink.begin(encoding, mark),
            Content::Line(line) => sink.line(raw.original.as_deref().unwrap_or(line)),
            Content::Element(element) => sink.element(raw.original.as_deref().unwrap_or(element)),
            Content::Bracket(bytes) => sink.bracket(bytes),
            Content::Row(row) => sink.row(&row.raw),
            Content::Header(header) => sink.header(header),
            Content::Text(bytes) => sink.lines(&[bytes]),
            Content::Record(record) => sink.member(&[record.bytes().unwrap_or_default(), b"\r\n\r\n"]),
            Content::Values(_) | Content::Broken(_) => Ok(()),
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
            Format::Text => Ok(()),
            Format::Parquet => self.rows_of(file).map(|_| ()),
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
            let written = parquet::copy(&self.inputs[file as usize].path, to, &rows);
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
            let sink = Sink::new(to, Packing::named(&input.path));
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

    /// The rows of a Parquet file that are kept so far.
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
            self.open = Some((file, Sink::new(self.create(file)?, self.inputs[file as usize].packing)));
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

/// A file that is written, with its compression.
struct Sink {
    to: BufWriter<File>,
    packing: Packing,
    /// The gzip member that is written.
    member: Option<GzEncoder<Vec<u8>>>,
    /// The bytes of the next zstd frame.
    frame: Vec<u8>,
    /// Created for the first frame.
    compressor: Option<Compressor<'static>>,
    encoding: &'static Encoding,
    /// The end of the rows of a table.
    row_end: &'static [u8],
    /// In an array, after the bracket that opens it: whether an element was written.
    has_element: Option<bool>,
}

impl Sink {
    fn new(file: File, packing: Packing) -> Sink {
        let to = BufWriter::with_capacity(1 << 20, file);
        let (member, frame) = (None, Vec::new());
        let compressor = None;
        Sink { to, packing, member, frame, compressor, encoding: UTF_8, row_end: b"\n", has_element: None }
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
    fn header(&mut self, mut header: &[u8]) -> io::Result<()> {
        let (line_feed, carriage_return) = (self.ascii(b"\n"), self.ascii(b"\r"));
        loop {
            if let Some(rest) = header.strip_suffix(&line_feed[..]) {
                header = rest;
            } else if let Some(rest) = header.strip_suffix(&carriage_return[..]) {
                (header, self.row_end) = (rest, b"\r\n");
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

    /// Writes a record as a gzip member or a zstd frame of its own.
    fn member(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.lines(parts)?;
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
    fn finish(mut self) -> io::Result<()> {
        // Of an array that was read to a damage, what was kept is a whole array.
        if self.has_element.is_some() {
            self.lines(&[&self.ascii(b"]\n")])?;
        }
        if self.packing == Packing::Gzip && self.member.is_none() && self.to.buffer().is_empty() {
            self.lines(&[b""])?;
        }
        self.end_member()?;
        if self.packing == Packing::Zstd && (self.compressor.is_none() || !self.frame.is_empty()) {
            self.end_frame()?;
        }
        self.to.flush()
    }
}

/// The bytes of an archive.
impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines(&[bytes]).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
