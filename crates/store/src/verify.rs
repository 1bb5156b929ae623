//! Verifies a store without changing it: reads every file that is in use whole, and compares its checksum.
//!
//! A tree names its newest version in `current`, with a checksum. The version lists tables and blob files,
//! each with a checksum. The layout is that of `lsm-tree` 3; this module reads only the parts that it needs
//! to find and compare the files.
//!
//! *Absent*: reading the undamaged rest of a damaged store (`salvage`).

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead, Cursor};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use super::blocks::{blob, block, number};
use super::error::StoreError;
use super::journal;
use super::leftovers::{BLOBS, TABLES};
use super::manifest::Manifest;
use super::rehashed;
use super::trees::NAMES;

const BUFFER: usize = 1 << 20;

/// A file and its expected checksum: that of the version, or one that was recorded instead.
struct Expected {
    path: PathBuf,
    checksum: u128,
    recorded: Option<u128>,
}

/// The result of a verification.
#[derive(Debug, Default)]
pub struct Verified {
    /// Files read whole.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The reason why other processes were not locked out, if they were not.
    pub unlocked: Option<StoreError>,
}

/// Verifies the store in `dir`, and passes every flaw to `found`.
pub(super) fn verify(dir: &Path, manifest: &Manifest, found: &mut dyn FnMut(StoreError)) -> Verified {
    let mut files = Vec::new();
    for (name, least) in NAMES.iter().zip(manifest.versions) {
        match listed(&dir.join(name), least) {
            Ok(listed) => files.extend(listed),
            Err(error) => found(error),
        }
    }
    let bytes = AtomicU64::new(0);
    for error in compare(&files, &bytes) {
        found(error);
    }
    let journal = dir.join("journal");
    if let Err(error) = journal::scan(&journal, manifest.store, manifest.replay_from, |_, _, _| Ok(())) {
        found(error);
    }
    Verified { files: files.len() as u64, bytes: bytes.into_inner(), unlocked: None }
}

/// The flaw of a missing file.
pub(super) fn missing(path: &Path) -> StoreError {
    damage(path, 0, "it is missing")
}

fn damage(path: &Path, offset: u64, what: impl Into<String>) -> StoreError {
    StoreError::Damage { path: path.to_path_buf(), offset, what: what.into() }
}

fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    fs::read(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => missing(path),
        _ => StoreError::io(path, "read", source),
    })
}

/// The files that the newest version of a tree refers to.
fn listed(tree: &Path, least: u64) -> Result<Vec<Expected>, StoreError> {
    let (tables, blobs) = files_of(tree, least)?;
    refuse_other_names(&tree.join(TABLES))?;
    if !blobs.is_empty() {
        refuse_other_names(&tree.join(BLOBS))?;
    }
    let recorded = rehashed::recorded(tree);
    let expected = |folder: &'static str| {
        let (recorded, path) = (&recorded, tree.join(folder));
        move |(id, checksum): (u64, u128)| Expected {
            path: path.join(id.to_string()),
            checksum,
            recorded: recorded.get(&(folder.to_owned(), id)).copied(),
        }
    };
    Ok(tables.into_iter().map(expected(TABLES)).chain(blobs.into_iter().map(expected(BLOBS))).collect())
}

/// Tables and blob files of the newest version of a tree. The version must not be older than `least`.
pub(super) fn files_of(tree: &Path, least: u64) -> Result<(Files, Files), StoreError> {
    let current = tree.join("current");
    let bytes = read(&current)?;
    let Some((id, checksum)) = current_version(&bytes) else {
        return Err(damage(&current, 0, "it does not read back as it was written"));
    };
    if id < least {
        return Err(damage(
            &current,
            0,
            format!("it names version {id}, but version {least} existed before: it is an older copy"),
        ));
    }
    let version = tree.join(format!("v{id}"));
    if !version.exists() {
        return Err(damage(&current, 0, format!("it names version {id}, which does not exist")));
    }
    let bytes = read(&version)?;
    if xxh3_128(&bytes) != checksum {
        let what = format!("its checksum differs from the one in {}", current.display());
        return Err(damage(&version, 0, what));
    }
    version_files(&bytes).ok_or_else(|| damage(&version, 0, "its layout is unknown"))
}

fn current_version(bytes: &[u8]) -> Option<(u64, u128)> {
    let (id, rest) = bytes.split_first_chunk::<8>()?;
    let (checksum, rest) = rest.split_first_chunk::<16>()?;
    (rest == [0]).then(|| (u64::from_le_bytes(*id), u128::from_le_bytes(*checksum)))
}

/// Files by number and checksum.
pub(super) type Files = Vec<(u64, u128)>;

/// Tables and blob files of a version, by number and checksum.
fn version_files(bytes: &[u8]) -> Option<(Files, Files)> {
    let toc = sfa::Reader::from_reader(&mut Cursor::new(bytes)).ok()?;
    let section = |name: &[u8]| {
        let entry = toc.toc().section(name)?;
        let start = usize::try_from(entry.pos()).ok()?;
        bytes.get(start..start.checked_add(usize::try_from(entry.len()).ok()?)?)
    };
    let mut tables = section(b"tables")?;
    let mut files = Vec::new();
    for _ in 0..number::<1>(&mut tables)? {
        for _ in 0..number::<1>(&mut tables)? {
            for _ in 0..number::<4>(&mut tables)? {
                files.push(file(&mut tables)?);
                number::<8>(&mut tables)?;
            }
        }
    }
    let mut blobs = section(b"blob_files")?;
    let mut blob_files = Vec::new();
    for _ in 0..number::<4>(&mut blobs)? {
        blob_files.push(file(&mut blobs)?);
    }
    Some((files, blob_files))
}

fn file(bytes: &mut &[u8]) -> Option<(u64, u128)> {
    let id = number::<8>(bytes)?;
    // The kind of checksum. XXH3 is the only one.
    if number::<1>(bytes)? != 0 {
        return None;
    }
    let (checksum, rest) = bytes.split_first_chunk::<16>()?;
    *bytes = rest;
    Some((id, u128::from_le_bytes(*checksum)))
}

/// Tables and blob files have numbers as names. The trees fail on any other name.
fn refuse_other_names(folder: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::io(folder, "listed", source);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_file = entry.file_type().map_err(failed)?.is_file();
        let is_number = entry.file_name().to_str().is_some_and(|name| name.parse::<u64>().is_ok());
        if !is_file || !is_number {
            return Err(damage(&entry.path(), 0, "it does not belong in this directory; move it away"));
        }
    }
    Ok(())
}

/// Reads all files, on all cores, and compares their checksums.
fn compare(files: &[Expected], bytes: &AtomicU64) -> Vec<StoreError> {
    let next = AtomicUsize::new(0);
    let flaws = Mutex::new(Vec::new());
    let work = || {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            match compare_one(file) {
                Ok(read) => drop(bytes.fetch_add(read, Ordering::Relaxed)),
                Err(flaw) => flaws.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(flaw),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    flaws.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn compare_one(Expected { path, checksum, recorded }: &Expected) -> Result<u64, StoreError> {
    let (found, length) = hashed(path)?;
    if found == *checksum || Some(found) == *recorded {
        return Ok(length);
    }
    let offset = first_flaw(&read(path)?) as u64;
    Err(damage(path, offset, "the bytes from here on are not those that were written"))
}

/// The checksum of a file, and its length.
pub(super) fn hashed(path: &Path) -> Result<(u128, u64), StoreError> {
    let file = File::open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => missing(path),
        _ => StoreError::io(path, "opened", source),
    })?;
    let mut reader = io::BufReader::with_capacity(BUFFER, file);
    let mut hasher = Xxh3Default::new();
    let mut length = 0;
    loop {
        let chunk = reader.fill_buf().map_err(|source| StoreError::io(path, "read", source))?;
        if chunk.is_empty() {
            break;
        }
        hasher.update(chunk);
        let read = chunk.len();
        length += read as u64;
        reader.consume(read);
    }
    Ok((hasher.digest128(), length))
}

/// Checks that all blocks or blobs of a file are whole, and its list of parts.
///
/// # Errors
/// [`StoreError::Damage`] with the place.
pub(super) fn check_parts(path: &Path) -> Result<(), StoreError> {
    let bytes = read(path)?;
    let flaw = first_flaw(&bytes);
    let end = sfa::Reader::from_reader(&mut Cursor::new(&bytes[..])).ok().and_then(|toc| {
        let data = toc.toc().section(b"data")?;
        data.pos().checked_add(data.len())
    });
    if end.is_some_and(|end| flaw as u64 >= end) {
        return Ok(());
    }
    Err(damage(path, flaw as u64, "the bytes from here on are not those that were written"))
}

/// The offset of the first block or blob that is damaged; the end of the blocks if none is.
pub(super) fn first_flaw(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = block(&bytes[at..]).map(|block| block.length).or_else(|| blob(&bytes[at..])) {
        at += length;
    }
    at
}

/// Temporary files that a crash may leave in the directory of a tree. Nothing refers to them.
pub(super) fn leftovers(dir: &Path) -> HashSet<PathBuf> {
    let trees = NAMES.iter().filter_map(|name| fs::read_dir(dir.join(name)).ok());
    let entries = trees.flatten().filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(".tmp"))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_bytes_are_not_a_version() {
        for bytes in [&b""[..], b"SFA", &[0; 64], &[255; 200]] {
            assert!(version_files(bytes).is_none());
            assert_eq!(first_flaw(bytes), 0);
        }
        assert_eq!(current_version(&[0; 24]), None);
        assert_eq!(current_version(&[0; 25]), Some((0, 0)));
    }

    #[test]
    fn numbers_are_not_read_past_the_end() {
        let mut cut: &[u8] = &[1, 2, 3];
        assert_eq!(number::<8>(&mut cut), None);
        let mut one: &[u8] = &[9];
        assert_eq!((number::<1>(&mut one), number::<1>(&mut one)), (Some(9), None));
    }
}
