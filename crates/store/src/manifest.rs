//! The manifest: the id of the store, the first journal record that is needed, and the version of each
//! tree.
//!
//! It is written whole under another name, synced and renamed. This happens after the trees hold everything
//! that the journal has before `replay_from`, and before that part of the journal is deleted. So a tree or a
//! manifest that is older than the rest is noticed, and an older copy is not mistaken for the data.
//!
//! *Absent*: when it is written (`keeper`).

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::error::StoreError;
use super::journal::sync_directory;
use super::trees::{NAMES, TREES};

const FIRST_LINE: &str = "lookalike store 1";

/// The content of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    /// A random id that all files of the store contain.
    pub(super) store: u64,
    /// The first journal record that a tree may not have on disk.
    pub(super) replay_from: u64,
    /// The version of each tree when the manifest was written. The current one is the same or later.
    pub(super) versions: [u64; TREES],
}

impl Manifest {
    pub(super) fn path(dir: &Path) -> PathBuf {
        dir.join("MANIFEST")
    }

    /// Reads the manifest; `None` if there is none.
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

    /// Replaces the manifest.
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
    // The text is generated again and compared, so a change of any byte is noticed, also in the checksum.
    (manifest.text() == text).then_some(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_and_every_changed_byte_is_refused() {
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
