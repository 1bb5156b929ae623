//! Reads the undamaged records of a damaged journal, and reports which records are lost.
//!
//! *Absent*: what the records mean, and what follows from a loss (`salvage` of the store).

use std::fs;
use std::path::{Path, PathBuf};

use super::files::HighWater;
use super::format::{self, HEAD, Record};
use super::list;
use crate::error::StoreError;

/// Consecutive records that are unreadable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// The file that had them, or the directory if the file is missing.
    pub(crate) path: PathBuf,
    /// The offset in the file.
    pub(crate) from: u64,
    /// The number of records.
    pub(crate) records: u64,
    /// The lost batches have lower sequence numbers than this.
    pub(crate) before: u64,
}

/// A readable record.
struct Seen {
    number: u64,
    seqno: u64,
    /// The index of its file in the list of files.
    file: usize,
    end: usize,
}

/// Passes every readable record from `from` on to `visit`, in any order, and returns the lost ones.
/// `manifest` is the id of the store and `from`, the first record that is needed, if they are known.
///
/// # Errors
/// [`StoreError::Io`] if the process has no permission to read a file.
pub(crate) fn salvage(
    dir: &Path,
    manifest: Option<(u64, u64)>,
    visit: &mut dyn FnMut(u64, &[u8]),
) -> Result<Vec<Lost>, StoreError> {
    let files = match list(dir) {
        Ok(files) => files,
        Err(error) if error.is_refused() => return Err(error),
        Err(_) => Vec::new(),
    };
    let (mut seen, mut store, mut torn) = (Vec::new(), manifest.map(|(store, _)| store), false);
    for (place, (_, path)) in files.iter().enumerate() {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(source) => match StoreError::io(path, "read", source) {
                error if error.is_refused() => return Err(error),
                _ => continue,
            },
        };
        // Without a manifest, the header of a file names the store. The seeded checksums of the records
        // confirm it.
        let named = bytes.get(16..24).and_then(|number| number.try_into().ok()).map(u64::from_le_bytes);
        let Some(of) = manifest.map(|(store, _)| store).or(named) else { continue };
        let mut at = HEAD;
        while let Some(record) = next_record(&bytes, at, of) {
            if manifest.is_none_or(|(_, from)| record.number >= from) {
                visit(record.seqno, record.payload);
                seen.push(Seen { number: record.number, seqno: record.seqno, file: place, end: record.end });
                store = Some(of);
            }
            at = record.end;
        }
        torn = bytes.iter().skip(at.max(HEAD)).any(|byte| *byte != 0);
    }
    let high_water = store.and_then(|store| HighWater::read(dir, store).ok());
    Ok(gaps(dir, &files, seen, manifest.map(|(_, from)| from), high_water, torn))
}

/// The first readable record at `at` or later.
fn next_record(bytes: &[u8], mut at: usize, store: u64) -> Option<Record<'_>> {
    loop {
        if let Some(record) = format::record(bytes, at, store) {
            return Some(record);
        }
        at = format::later(bytes, at + 1, store, 1)?;
    }
}

/// The records that are missing between the readable ones, before the first of them, and after them up to
/// the high-water mark. Without a high-water mark, non-zero bytes after the last record count as one
/// acknowledged record.
fn gaps(
    dir: &Path,
    files: &[(u64, PathBuf)],
    mut seen: Vec<Seen>,
    from: Option<u64>,
    high_water: Option<u64>,
    torn: bool,
) -> Vec<Lost> {
    seen.sort_unstable_by_key(|record| record.number);
    let first = files.first().map(|(first, _)| *first);
    let mut next = from.or(first).unwrap_or(1);
    // The file whose name says that it has the record.
    let named = |number: u64| files.iter().rfind(|(first, _)| *first <= number).map(|(_, path)| path.clone());
    let mut end = HEAD as u64;
    let mut lost = Vec::new();
    let mut note = |next: u64, until: u64, from: u64, before: u64| {
        let path = named(next);
        let from = if path.is_some() { from } else { 0 };
        lost.push(Lost {
            path: path.unwrap_or_else(|| dir.to_path_buf()),
            from,
            records: until - next,
            before,
        });
    };
    for record in &seen {
        if record.number > next {
            note(next, record.number, end, record.seqno);
        }
        next = next.max(record.number + 1);
        end = record.end as u64;
        if files.get(record.file + 1).is_some_and(|(first, _)| *first == next) {
            end = HEAD as u64;
        }
    }
    let until = high_water.map_or(next + u64::from(torn), |high_water| high_water + 1);
    if until > next {
        note(next, until, end, u64::MAX);
    }
    lost
}
