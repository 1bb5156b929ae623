//! The file of a tree that names its current version.
//!
//! If the disk becomes full at the end of a flush or a compaction, this file can name a version that the
//! tree in memory does not have. The next try would overwrite that version's file with another one, and a
//! kill at this moment would leave a name with the checksum of the earlier file. So this file is made to name
//! the version in memory first.
//!
//! *Absent*: when no work runs on the tree, which `leftovers` decides.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lsm_tree::{AbstractTree, AnyTree};

use super::error::StoreError;
use super::journal::sync_directory;

/// Its name. Its first eight bytes are the number of the version.
const POINTER: &str = "current";

/// The last known content of the file that named the version in memory.
#[derive(Default)]
pub(super) struct Pointer {
    kept: Option<Vec<u8>>,
}

impl Pointer {
    /// Keeps the content of the file if it names the version in memory.
    pub(super) fn keep(&mut self, tree: &AnyTree) {
        let now = read(tree);
        if names_current(tree, now.as_deref()) {
            self.kept = now;
        }
    }

    /// Makes the file name the version in memory, and waits until it is on disk.
    ///
    /// # Errors
    /// [`StoreError::Full`] if the disk has no space. [`StoreError::Io`] if it cannot be done: the store must
    /// then be opened again.
    pub(super) fn put_back(&self, tree: &AnyTree) -> Result<(), StoreError> {
        let path = path(tree);
        let folder = path.parent().unwrap_or(Path::new("."));
        let sync = || sync_directory(folder).map_err(|source| StoreError::write(&path, source));
        if names_current(tree, read(tree).as_deref()) {
            return sync();
        }
        let Some(kept) = self.kept.as_deref().filter(|kept| names_current(tree, Some(kept))) else {
            let source = io::Error::other("the version of the tree was replaced while the disk was full");
            return Err(StoreError::io(&path, "synced", source));
        };
        let partial = path.with_extension("partial");
        let write = || {
            let mut file = File::create(&partial)?;
            file.write_all(kept)?;
            file.sync_all()?;
            fs::rename(&partial, &path)
        };
        write().map_err(|source| StoreError::write(&path, source))?;
        sync()
    }
}

/// Whether the file names another version than the one in memory. It does so for a moment, too, while another
/// thread replaces the version.
pub(super) fn names_another(tree: &AnyTree) -> bool {
    !names_current(tree, read(tree).as_deref())
}

fn path(tree: &AnyTree) -> PathBuf {
    tree.tree_config().path.join(POINTER)
}

fn read(tree: &AnyTree) -> Option<Vec<u8>> {
    fs::read(path(tree)).ok()
}

fn names_current(tree: &AnyTree, pointer: Option<&[u8]>) -> bool {
    let number = pointer.and_then(|bytes| bytes.first_chunk()).copied().map(u64::from_le_bytes);
    number == Some(tree.current_version().id())
}

/// Overwrites the file with one that names the version after the current one, as a full disk can do.
#[cfg(test)]
pub(super) fn name_next_version(tree: &AnyTree) {
    let mut content = read(tree).unwrap();
    content[..8].copy_from_slice(&(tree.current_version().id() + 1).to_le_bytes());
    fs::write(path(tree), content).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::Trees;

    #[test]
    fn a_pointer_to_another_version_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        let tree = &trees.all()[0];
        let (before, mut pointer) = (read(tree), Pointer::default());
        pointer.keep(tree);
        assert!(before.is_some() && !names_another(tree));
        name_next_version(tree);
        assert!(names_another(tree));
        // The content that names another version is not kept.
        pointer.keep(tree);
        pointer.put_back(tree).unwrap();
        assert_eq!(read(tree), before);
        fs::remove_file(path(tree)).unwrap();
        pointer.put_back(tree).unwrap();
        assert_eq!(read(tree), before);
    }

    #[test]
    fn an_unknown_version_cannot_be_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        let tree = &trees.all()[0];
        let mut pointer = Pointer::default();
        name_next_version(tree);
        pointer.keep(tree);
        let error = pointer.put_back(tree).unwrap_err();
        assert!(!error.is_full() && error.to_string().contains("current"), "{error}");
    }
}
