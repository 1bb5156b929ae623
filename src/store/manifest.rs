//! The manifest: which store this is, from which record on the journal is needed, and how far each tree was then.
//!
//! Written whole under another name, synced and renamed, after the trees hold all that the journal before `replay_from`
//! says and before that part of the journal is deleted. So a tree, or the manifest, that is older than the rest is
//! noticed: an older copy cannot be taken for the data.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::error::StoreError;
use super::journal::sync_directory;
use super::trees::{NAMES, TREES};

const FIRST_LINE: &str = "lookalike store 1";

/// What the manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    /// A random number that all files of the store carry.
    pub(super) store: u64,
    /// The first record of the journal that the trees may not hold.
    pub(super) replay_from: u64,
    /// The version of each tree at that time; now it is this one or a later one.
    pub(super) versions: [u64; TREES],
}

impl Manifest {
    pub(super) fn path(dir: &Path) -> PathBuf {
        dir.join("MANIFEST")
    }

    /// Reads it; `None` if there is none.
    pub(super) fn read(dir: &Path) -> Result<Option<Manifest>, StoreError> {
        let path = Manifest::path(dir);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::io(&path, "read", source)),
        };
        let read = String::from_utf8(bytes).ok().and_then(|text| parse(&text));
        let what = "it does not read back as it was written".to_owned();
        read.map(Some).ok_or(StoreError::Damage { path, offset: 0, what })
    }

    /// Writes it in place of the one before.
    pub(super) fn write(&self, dir: &Path) -> Result<(), StoreError> {
        let path = Manifest::path(dir);
        let partial = dir.join("MANIFEST.partial");
        let write = || {
            let mut file = File::create(&partial)?;
            file.write_all(self.text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&partial, &path)?;
            sync_directory(dir)
        };
        write().map_err(|source| StoreError::write(&path, source))
    }

    fn text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\nid {:016x}\nreplay_from {}\n", self.store, self.replay_from);
        for (name, version) in NAMES.iter().zip(self.versions) {
            let _ = writeln!(text, "tree {name} {version}");
        }
        let checksum = xxh3_64(text.as_bytes());
        let _ = writeln!(text, "checksum {checksum:016x}");
        text
    }
}

fn parse(text: &str) -> Option<Manifest> {
    let mut lines = text.lines();
    if lines.next()? != FIRST_LINE {
        return None;
    }
    let store = u64::from_str_radix(lines.next()?.strip_prefix("id ")?, 16).ok()?;
    let replay_from = lines.next()?.strip_prefix("replay_from ")?.parse().ok()?;
    let mut versions = [0; TREES];
    for (name, version) in NAMES.iter().zip(&mut versions) {
        *version = lines.next()?.strip_prefix("tree ")?.strip_prefix(name)?.trim_start().parse().ok()?;
    }
    let manifest = Manifest { store, replay_from, versions };
    // The text is made anew, so every byte of the file counts, the checksum's too.
    (manifest.text() == text).then_some(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_and_no_byte_of_it_can_change() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap(), None);
        let manifest =
            Manifest { store: 0xabc, replay_from: 17, versions: std::array::from_fn(|tree| tree as u64) };
        manifest.write(dir.path()).unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap(), Some(manifest));
        let path = Manifest::path(dir.path());
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, &bad).unwrap();
            assert!(matches!(Manifest::read(dir.path()), Err(StoreError::Damage { .. })), "byte {at}");
            fs::write(&path, &good[..at]).unwrap();
            assert!(matches!(Manifest::read(dir.path()), Err(StoreError::Damage { .. })), "cut at {at}");
        }
    }
}
