//! A file of the arguments, which stays the same file during a run, even if another one gets its name.
//!
//! It guarantees that every pass reads the file that was listed. Its descriptor is held from then on, unless
//! the process may not have that many; then a file that was replaced is an error. A change in place is found
//! by [`Original::check`]. An object of a store is read in the version that was listed. *Absent*: a copy of
//! the data, so a change in place ends the run.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Deref;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::Failure;
use super::{is_input, wrong};
use lookalike_remote::{Blocks, Object};

/// The descriptors that are left to the rest of the process.
const OTHERS: u64 = 256;

/// What shows that a file was replaced or has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct State {
    device: u64,
    inode: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The time of the last change of its data, in nanoseconds since 1970. A program can set it.
    modified: i128,
    /// The time of the last change of its data, links or rights. A program cannot set it.
    changed: i128,
    links: u64,
    /// The version of an object of a store; empty of a file.
    version: String,
}

impl State {
    fn of(about: &Metadata) -> State {
        let time = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        State {
            device: about.dev(),
            inode: about.ino(),
            bytes: about.len(),
            modified: time(about.mtime(), about.mtime_nsec()),
            changed: time(about.ctime(), about.ctime_nsec()),
            links: about.nlink(),
            version: String::new(),
        }
    }

    /// What every machine sees of a file that several share: its size and its time, or its version. The
    /// numbers of devices and nodes may differ.
    #[must_use]
    pub fn shared(&self) -> State {
        let State { bytes, modified, ref version, .. } = *self;
        State { bytes, modified, version: version.clone(), ..State::default() }
    }

    fn is_file_of(&self, other: &State) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// How many more descriptors may be held.
pub(super) struct Budget(u64);

impl Budget {
    /// As many as the process may have, after it asked for all that it can get.
    pub(super) fn new() -> Budget {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
        let most = if raised { maximum } else { current };
        Budget(most.map_or(u64::MAX, |most| most.saturating_sub(OTHERS)))
    }
}

/// A file of the arguments, or standard input.
#[derive(Clone, Debug)]
pub struct Original(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// `None` if it is no regular file: it can be read only once.
    state: Option<State>,
    file: Option<Arc<File>>,
    /// If it lies in a store, and no file.
    object: Option<Object>,
}

impl Original {
    /// Standard input.
    pub(super) fn input(path: &Path) -> Original {
        Original(Arc::new(Inner { path: path.to_owned(), state: None, file: None, object: None }))
    }

    /// An object of a store, whose path is its address.
    pub(super) fn object(object: Object) -> Original {
        let (path, version) = (object.url().into(), object.version().to_owned());
        let state = Some(State { bytes: object.bytes(), version, ..State::default() });
        Original(Arc::new(Inner { path, state, file: None, object: Some(object) }))
    }

    /// The object, if it lies in a store.
    pub fn as_object(&self) -> Option<&Object> {
        self.0.object.as_ref()
    }

    /// Opens a regular file. Pipes and devices are opened when they are read, because opening one waits for
    /// the program at its other end.
    pub(super) fn open(path: &Path, about: &Metadata, budget: &mut Budget) -> io::Result<Original> {
        if !about.is_file() {
            return Ok(Original::input(path));
        }
        let file = File::open(path)?;
        let state = Some(State::of(&file.metadata()?));
        let left = budget.0.checked_sub(1);
        budget.0 = left.unwrap_or_default();
        let file = left.map(|_| Arc::new(file));
        Ok(Original(Arc::new(Inner { path: path.to_owned(), state, file, object: None })))
    }

    /// Whether it can be read only once: standard input, a pipe or a device.
    pub fn is_stream(&self) -> bool {
        self.0.state.is_none()
    }

    /// Its state when it was listed; zeros for a stream.
    pub fn state(&self) -> State {
        self.0.state.clone().unwrap_or_default()
    }

    /// Whether this is another name of it.
    pub fn is_named(&self, path: &Path) -> bool {
        let about = std::fs::metadata(path).map(|about| State::of(&about));
        about.is_ok_and(|other| self.0.state.as_ref().is_some_and(|own| own.is_file_of(&other)))
    }

    /// The file that was listed.
    fn file(&self) -> io::Result<Arc<File>> {
        if let Some(file) = &self.0.file {
            return Ok(Arc::clone(file));
        }
        let file = File::open(&self.0.path)?;
        let is_own = |state: &State| State::of_file(&file).is_ok_and(|now| now.is_file_of(state));
        if !self.0.state.as_ref().is_none_or(is_own) {
            return Err(wrong("another file has its name now"));
        }
        Ok(Arc::new(file))
    }

    /// Checks that the file is as it was when it was listed. Another name, or none, is no change of a file
    /// that is held.
    ///
    /// # Errors
    /// [`Failure`] with what has changed.
    pub fn check(&self) -> std::result::Result<(), Failure> {
        if let Some(object) = &self.0.object {
            // What was read is of the version that was found.
            let fault = object.fault().map(|why| Failure::new(format!("{why}; no output is written")));
            return fault.map_or(Ok(()), Err);
        }
        let Some(before) = &self.0.state else { return Ok(()) };
        let path = super::shown(&self.0.path);
        let failed = |what: String| {
            Failure::new(format!(
                "{path}: {what} during the run, so no output is written; start it again when no program \
                 writes to the file, or with a copy of it"
            ))
        };
        let now = self.file().and_then(|file| State::of_file(&file));
        let now = now.map_err(|error| failed(format!("the file could not be read again ({error})")))?;
        if now.bytes != before.bytes {
            return Err(failed(format!("the file went from {} to {} bytes", before.bytes, now.bytes)));
        }
        // A change of links or rights is none of the data: a file that was replaced or renamed is read on.
        let has_its_name =
            || std::fs::metadata(&self.0.path).is_ok_and(|about| State::of(&about).is_file_of(before));
        let is_touched = now.changed != before.changed && now.links == before.links && has_its_name();
        if now.modified != before.modified || is_touched {
            return Err(failed("the file has changed".to_owned()));
        }
        Ok(())
    }
}

impl State {
    fn of_file(file: &File) -> io::Result<State> {
        file.metadata().map(|about| State::of(&about))
    }
}

impl Deref for Original {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0.path
    }
}

impl PartialEq for Original {
    fn eq(&self, other: &Original) -> bool {
        self.0.path == other.0.path
    }
}

/// What can be opened for reading: a path, or the file that was listed.
pub trait Opens {
    /// The name to show and to open.
    fn name(&self) -> &Path;

    /// Its bytes from the beginning.
    fn open(&self) -> io::Result<Box<dyn Read + Send>>;

    /// The file, to be read at any place.
    fn chunks(&self) -> io::Result<Chunks>;

    /// At most so many bytes of its beginning; none of standard input, of a pipe, or if it cannot be read,
    /// which is an error later.
    fn beginning(&self, bytes: u64) -> Vec<u8>;
}

impl<P: AsRef<Path> + ?Sized> Opens for P {
    fn name(&self) -> &Path {
        self.as_ref()
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        if is_input(self.as_ref()) { Ok(Box::new(io::stdin())) } else { Ok(Box::new(File::open(self)?)) }
    }

    fn chunks(&self) -> io::Result<Chunks> {
        File::open(self).map(|file| Chunks::File(Arc::new(file)))
    }

    fn beginning(&self, bytes: u64) -> Vec<u8> {
        let path = self.as_ref();
        let is_file = !is_input(path) && path.metadata().is_ok_and(|about| about.is_file());
        let mut first = Vec::new();
        if is_file && let Ok(file) = File::open(path) {
            _ = file.take(bytes).read_to_end(&mut first);
        }
        first
    }
}

impl Opens for Original {
    fn name(&self) -> &Path {
        self
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        match &self.0.object {
            Some(object) => Ok(Box::new(object.read())),
            None if self.is_stream() => self.0.path.open(),
            None => Ok(Box::new(self.chunks()?.from(0))),
        }
    }

    fn chunks(&self) -> io::Result<Chunks> {
        match &self.0.object {
            Some(object) => Ok(Chunks::Object(Arc::new(Blocks::of(object.clone())))),
            None => self.file().map(Chunks::File),
        }
    }

    fn beginning(&self, bytes: u64) -> Vec<u8> {
        match &self.0.object {
            Some(object) => object.beginning(bytes).map(Vec::from).unwrap_or_default(),
            None => self.0.path.beginning(bytes),
        }
    }
}

/// A file or an object that several readers read at places of their own.
#[derive(Clone)]
pub enum Chunks {
    /// A file.
    File(Arc<File>),
    /// An object of a store.
    Object(Arc<Blocks>),
}

impl Chunks {
    /// The bytes from a place on.
    pub fn from(&self, at: u64) -> Chunk {
        Chunk { of: self.clone(), at }
    }
}

/// The bytes of a file from a place on.
pub struct Chunk {
    of: Chunks,
    at: u64,
}

impl Read for Chunk {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &self.of {
            Chunks::File(file) => file.read_at(buffer, self.at)?,
            Chunks::Object(blocks) => blocks.read_at(buffer, self.at)?,
        };
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Chunk {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.of.len().checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        match self {
            Chunks::File(file) => file.metadata().map_or(0, |about| about.len()),
            Chunks::Object(blocks) => blocks.bytes(),
        }
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<Chunk>;

    fn get_read(&self, start: u64) -> Result<BufReader<Chunk>> {
        Ok(BufReader::new(self.from(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut bytes = Vec::new();
        self.from(start).take(length as u64).read_to_end(&mut bytes)?;
        if bytes.len() < length {
            return Err(ParquetError::EOF(format!("{} of {length} bytes at {start}", bytes.len())));
        }
        Ok(bytes.into())
    }
}
