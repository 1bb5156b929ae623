//! Snapshot files: written whole under a temporary name and renamed, listed by age, loaded, retired.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::SnapshotError;
use super::format::{FORMAT, Flaw, Header, Reader, Section, Writer};
use crate::ids::{Hash, Sequence};
use crate::index::{HashIndex, of_width};

const SUFFIX: &str = ".snapshot";
/// What a snapshot is called until it is whole. One that a crash left behind is swept away.
const PARTIAL: &str = ".partial";
/// What the name of a snapshot of another log ends with.
const ASIDE: &str = "unfit";
const BUFFER: usize = 1 << 20;
/// Hashes read before they are added to an index.
const PENDING: usize = 4_096;

/// A snapshot on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Where it is.
    pub path: PathBuf,
    /// The change after which the log is to be replayed.
    pub from: Sequence,
    /// Its size in bytes.
    pub bytes: u64,
    /// The checksum at the end of the file; `None` if the file is too short to have one.
    pub checksum: Option<u64>,
}

/// A snapshot in memory.
pub struct Loaded {
    /// The change after which the log is to be replayed.
    pub from: Sequence,
    /// The last change it may hold: a log that ends before is not the log it was made beside.
    pub through: Sequence,
    /// Its collections.
    pub sections: Vec<(Section, Arc<dyn HashIndex>)>,
}

/// A section to be written.
pub struct Content {
    /// What is said of it.
    pub section: Section,
    /// Its hashes.
    pub index: Arc<dyn HashIndex>,
    /// Hashes of the index that are left out.
    pub without: HashSet<Hash>,
}

/// Writes a snapshot of `sections` begun at `from` into `dir`; `through` is asked when all is read.
///
/// # Errors
/// [`SnapshotError`] if the disk refuses or what was written does not read back; snapshots that were
/// there before are untouched.
pub fn write(
    dir: &Path,
    from: Sequence,
    sections: &[Content],
    through: impl FnOnce() -> Sequence,
) -> Result<SnapshotFile, SnapshotError> {
    let path = dir.join(format!("{:020}{SUFFIX}", from.0));
    let partial = path.with_extension(PARTIAL.trim_start_matches('.'));
    let file = File::create(&partial).map_err(|e| failed(&partial, "created", e))?;
    let checksum = stream(file, from, sections, through)
        .map_err(|e| failed(&partial, "written", e))
        .inspect_err(|_| {
            // What is left of it would only take the room that ran out.
            let _ = fs::remove_file(&partial);
        })?;
    let verified = read(&partial, |_| |_| ())?;
    if verified.2 != checksum {
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
    through: impl FnOnce() -> Sequence,
) -> io::Result<u64> {
    let header = Header { from, sections: sections.len() as u32 };
    let mut writer = Writer::begin(BufWriter::with_capacity(BUFFER, file), header)?;
    for Content { section, index, without } in sections {
        writer.section(section)?;
        let mut result = Ok(());
        index.for_each_sorted_run(&mut |run| {
            for hash in run {
                if result.is_ok() && !without.contains(&hash) {
                    result = writer.hash(hash);
                }
            }
        });
        result?;
        writer.end_section()?;
    }
    let (out, checksum) = writer.finish(through())?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(checksum)
}

/// The snapshots in `dir`, the newest first. Reads their names and checksums, not their hashes.
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
        // Retired since the directory was read.
        let Ok(bytes) = size(&path) else {
            continue;
        };
        let checksum = last_word(&path).ok();
        found.push(SnapshotFile { path, from: Sequence(number), bytes, checksum });
    }
    found.sort_by_key(|file| std::cmp::Reverse(file.from));
    Ok(found)
}

/// Loads a snapshot.
///
/// # Errors
/// [`SnapshotError`] with the place of the damage if any byte is not as it was written.
pub fn load(path: &Path) -> Result<Loaded, SnapshotError> {
    let mut sections: Vec<(Section, Arc<dyn HashIndex>)> = Vec::new();
    let (header, through, _) = read(path, |section| {
        let index = of_width(section.width);
        sections.push((section, Arc::clone(&index)));
        let mut filling = Filling { index, pending: Vec::with_capacity(PENDING) };
        move |hash| filling.push(hash)
    })?;
    Ok(Loaded { from: header.from, through, sections })
}

/// An index being filled, some thousand hashes at a time; the last when it is dropped.
struct Filling {
    index: Arc<dyn HashIndex>,
    pending: Vec<Hash>,
}

impl Filling {
    fn push(&mut self, hash: Hash) {
        self.pending.push(hash);
        if self.pending.len() == PENDING {
            self.fill();
        }
    }

    fn fill(&mut self) {
        self.index.insert_all(&mut self.pending.drain(..));
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.fill();
    }
}

/// Deletes all but the newest `keep` snapshots, and what crashes left of unfinished ones. Answers with
/// the snapshots that are left, the newest first.
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

/// Renames a snapshot that belongs to another log, so that nobody takes it for one of this log's.
///
/// # Errors
/// [`SnapshotError::Io`] if it cannot be renamed.
pub fn set_aside(path: &Path) -> Result<(), SnapshotError> {
    fs::rename(path, path.with_added_extension(ASIDE)).map_err(|e| failed(path, "renamed", e))
}

/// Reads a snapshot to its end, handing the hashes of each section to what `sink` makes for it.
fn read<S: FnMut(crate::ids::Hash)>(
    path: &Path,
    mut sink: impl FnMut(Section) -> S,
) -> Result<(Header, Sequence, u64), SnapshotError> {
    let file = File::open(path).map_err(|e| failed(path, "opened", e))?;
    let all = || {
        let (mut reader, header) = Reader::begin(BufReader::with_capacity(BUFFER, file))?;
        for _ in 0..header.sections {
            let section = reader.section()?;
            let width = section.width;
            let mut take = sink(section);
            while let Some(hashes) = reader.chunk(width)? {
                hashes.into_iter().for_each(&mut take);
            }
        }
        let (through, checksum) = reader.finish()?;
        Ok((header, through, checksum))
    };
    all().map_err(|flaw| match flaw {
        Flaw::Io(source) => failed(path, "read", source),
        Flaw::Damage { offset, what } => SnapshotError::Damaged { path: path.to_path_buf(), offset, what },
        Flaw::Newer(found) => SnapshotError::Newer { path: path.to_path_buf(), found, known: FORMAT },
    })
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
