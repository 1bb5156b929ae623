//! Snapshot files: written whole under a temporary name and renamed, listed by age, deleted when newer ones
//! exist.
//!
//! *Absent*: the bytes of a snapshot (`format`).

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::SnapshotError;
use super::format::{Chunk, FORMAT, Flaw, Header, OUT_OF_ORDER, Reader, Section, Writer};
use super::gaps::Number;
use crate::HashIndex;
use lookalike_hash::{CollectionId, Hash, Sequence, U256, Width};

const SUFFIX: &str = ".snapshot";
/// The suffix of a snapshot until it is whole. [`retain`] deletes the ones that a crash left.
const PARTIAL: &str = ".partial";
/// The suffix of a snapshot that belongs to another history.
const ASIDE: &str = "unfit";
const BUFFER: usize = 1 << 20;

/// A snapshot on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Its path.
    pub path: PathBuf,
    /// The change after which the history must be replayed.
    pub from: Sequence,
    /// Its size in bytes.
    pub bytes: u64,
    /// The checksum at the end of the file; `None` if the file cannot be read or is too short to have one.
    pub checksum: Option<u64>,
}

/// A section to write.
pub struct Content {
    /// Its header.
    pub section: Section,
    /// Its hashes.
    pub index: Arc<dyn HashIndex>,
    /// Hashes of the index that are left out of the snapshot.
    pub without: HashSet<Hash>,
}

/// Writes a snapshot of `sections`, begun at `from`, into `dir`. Calls `go_on` between runs of hashes, and
/// `through` after the last hash was read; an error of either abandons the snapshot.
///
/// # Errors
/// [`SnapshotError`] if the snapshot is abandoned, the file system fails, or the file does not read back as
/// it was written. Existing snapshots are unchanged.
pub fn write(
    dir: &Path,
    from: Sequence,
    sections: &[Content],
    go_on: &dyn Fn() -> io::Result<()>,
    through: impl FnOnce() -> io::Result<Sequence>,
) -> Result<SnapshotFile, SnapshotError> {
    write_as(dir.join(format!("{:020}{SUFFIX}", from.0)), from, sections, go_on, through)
}

/// Saves an index in a file, in place of what the file held. The file is either the old or the new one.
///
/// # Errors
/// [`SnapshotError`] if the file system fails, or the file does not read back as it was written.
pub fn save(index: &Arc<dyn HashIndex>, path: &Path) -> Result<(), SnapshotError> {
    let section = Section { collection: CollectionId(0), width: index.width(), profile: String::new() };
    let content = Content { section, index: Arc::clone(index), without: HashSet::new() };
    write_as(path.to_owned(), Sequence(0), &[content], &|| Ok(()), || Ok(Sequence(0))).map(drop)
}

fn write_as(
    path: PathBuf,
    from: Sequence,
    sections: &[Content],
    go_on: &dyn Fn() -> io::Result<()>,
    through: impl FnOnce() -> io::Result<Sequence>,
) -> Result<SnapshotFile, SnapshotError> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let partial = path.with_extension(PARTIAL.trim_start_matches('.'));
    let file = File::create(&partial).map_err(|e| failed(&partial, "created", e))?;
    let checksum = stream(file, from, sections, go_on, through)
        .map_err(|e| failed(&partial, "written", e))
        .inspect_err(|_| {
        // On a full disk the unfinished file would only take the space that ran out.
        let _ = fs::remove_file(&partial);
    })?;
    let mut order = Order::default();
    let read_back = read(&partial, |section, chunk| order.check(section, chunk))?;
    if read_back.checksum != checksum {
        let what = "it does not read back as it was written";
        return Err(SnapshotError::Damaged { path: partial, offset: 0, what });
    }
    fs::rename(&partial, &path).map_err(|e| failed(&partial, "renamed", e))?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| failed(dir, "synced", e))?;
    let bytes = size(&path)?;
    Ok(SnapshotFile { path, from, bytes, checksum: Some(checksum) })
}

fn stream(
    file: File,
    from: Sequence,
    sections: &[Content],
    go_on: &dyn Fn() -> io::Result<()>,
    through: impl FnOnce() -> io::Result<Sequence>,
) -> io::Result<u64> {
    let header = Header { from, sections: sections.len() as u32 };
    let mut writer = Writer::begin(BufWriter::with_capacity(BUFFER, file), header)?;
    for Content { section, index, without } in sections {
        writer.section(section)?;
        let mut result = Ok(());
        index.for_each_sorted_run(&mut |run| {
            if result.is_ok() {
                result = go_on();
            }
            for hash in run {
                if result.is_ok() && !without.contains(&hash) {
                    result = writer.hash(hash);
                }
            }
        });
        result?;
        writer.end_section()?;
    }
    let (out, checksum) = writer.finish(through()?)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(checksum)
}

/// The snapshots in `dir`, newest first. Reads their names and checksums, not their hashes.
///
/// # Errors
/// [`SnapshotError::Io`] if the directory cannot be read.
pub fn list(dir: &Path) -> Result<Vec<SnapshotFile>, SnapshotError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| failed(dir, "listed", e))? {
        let path = entry.map_err(|e| failed(dir, "listed", e))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(number) = name.strip_suffix(SUFFIX).and_then(|digits| digits.parse().ok()) else {
            continue;
        };
        // The file was deleted after the directory was read.
        let Ok(bytes) = size(&path) else {
            continue;
        };
        let checksum = last_word(&path).ok();
        found.push(SnapshotFile { path, from: Sequence(number), bytes, checksum });
    }
    found.sort_by_key(|file| std::cmp::Reverse(file.from));
    Ok(found)
}

/// Deletes all but the newest `keep` snapshots, and unfinished ones that crashes left. Returns the
/// remaining snapshots, newest first.
///
/// # Errors
/// [`SnapshotError::Io`] if a file cannot be deleted.
pub fn retain(dir: &Path, keep: usize) -> Result<Vec<SnapshotFile>, SnapshotError> {
    for entry in fs::read_dir(dir).map_err(|e| failed(dir, "listed", e))? {
        let path = entry.map_err(|e| failed(dir, "listed", e))?.path();
        if path.to_string_lossy().ends_with(PARTIAL) {
            fs::remove_file(&path).map_err(|e| failed(&path, "deleted", e))?;
        }
    }
    let mut files = list(dir)?;
    for file in files.drain(keep.min(files.len())..) {
        fs::remove_file(&file.path).map_err(|e| failed(&file.path, "deleted", e))?;
    }
    Ok(files)
}

/// Renames a snapshot that belongs to another history, so that it is not used with this history.
///
/// # Errors
/// [`SnapshotError::Io`] if it cannot be renamed.
pub fn set_aside(path: &Path) -> Result<(), SnapshotError> {
    fs::rename(path, path.with_added_extension(ASIDE)).map_err(|e| failed(path, "renamed", e))
}

/// The parts of a snapshot before and after its hashes.
pub(super) struct Frame {
    pub(super) header: Header,
    pub(super) through: Sequence,
    pub(super) checksum: u64,
}

/// Reads a whole snapshot. Passes every chunk to `sink`; at the beginning of each section, also the section
/// without a chunk.
pub(super) fn read(
    path: &Path,
    mut sink: impl FnMut(&Section, Option<Chunk>) -> Result<(), Flaw>,
) -> Result<Frame, SnapshotError> {
    let file = File::open(path).map_err(|e| failed(path, "opened", e))?;
    let all = || {
        let (mut reader, header) = Reader::begin(BufReader::with_capacity(BUFFER, file))?;
        for _ in 0..header.sections {
            let section = reader.section()?;
            sink(&section, None)?;
            while let Some(chunk) = reader.chunk(section.width)? {
                sink(&section, Some(chunk))?;
            }
        }
        let (through, checksum) = reader.finish()?;
        Ok(Frame { header, through, checksum })
    };
    all().map_err(|flaw| flawed(path, flaw))
}

/// A flaw as an error with the path of the file.
pub(super) fn flawed(path: &Path, flaw: Flaw) -> SnapshotError {
    match flaw {
        Flaw::Io(source) => failed(path, "read", source),
        Flaw::Damage { offset, what } => SnapshotError::Damaged { path: path.to_path_buf(), offset, what },
        Flaw::Newer(found) => SnapshotError::Newer { path: path.to_path_buf(), found, known: FORMAT },
    }
}

/// Checks that the hashes ascend within each chunk and from chunk to chunk.
#[derive(Default)]
struct Order {
    last: Option<Hash>,
}

impl Order {
    fn check(&mut self, section: &Section, chunk: Option<Chunk>) -> Result<(), Flaw> {
        let Some(chunk) = chunk else {
            self.last = None;
            return Ok(());
        };
        let last = match section.width {
            Width::Bits64 => last_of::<u64>(&chunk),
            Width::Bits128 => last_of::<u128>(&chunk),
            Width::Bits256 => last_of::<U256>(&chunk),
        };
        if last.is_none() || self.last.is_some_and(|before| before >= chunk.packed.first) {
            return Err(Flaw::Damage { offset: chunk.offset, what: OUT_OF_ORDER });
        }
        self.last = last;
        Ok(())
    }
}

fn last_of<W: Number>(chunk: &Chunk) -> Option<Hash> {
    let mut hashes = Vec::<W>::new();
    chunk.packed.unpack(&mut hashes).then(|| hashes.last().map(|hash| hash.to_hash()))?
}

fn last_word(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-8))?;
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn size(path: &Path) -> Result<u64, SnapshotError> {
    fs::metadata(path).map(|meta| meta.len()).map_err(|e| failed(path, "measured", e))
}

fn failed(path: &Path, action: &'static str, source: io::Error) -> SnapshotError {
    SnapshotError::Io { path: path.to_path_buf(), action, source }
}
