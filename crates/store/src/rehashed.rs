//! Files of a tree that are as they were written, although their checksum in the tree's version says
//! otherwise.
//!
//! `lsm-tree` 3.1.10 hashes the rest of a write twice if the disk takes it in two parts. A disk does so if it
//! becomes full in the middle of the write and has space again for the rest. The file is right and its
//! checksum is not, so the next start would refuse it. Therefore new files are read back after a flush or a
//! compaction, and the true checksum of a file that differs is recorded next to the version:
//!
//! ```text
//! TREE/checksums    a line for each: tables or blobs, the number of the file, its XXH3 checksum in hex
//! ```
//!
//! Costs: new files are read once, from the page cache, and hashed.
//!
//! *Absent*: the comparison of all files (`verify`).

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use lsm_tree::{AbstractTree, AnyTree};

use super::error::StoreError;
use super::journal::sync_directory;
use super::leftovers::{BLOBS, FileId, TABLES};
use super::verify;

const NAME: &str = "checksums";

/// The recorded checksums of a tree. Lines that do not read back are left out.
pub(super) fn recorded(tree: &Path) -> HashMap<(String, u64), u128> {
    let text = fs::read_to_string(tree.join(NAME)).unwrap_or_default();
    let line = |line: &str| {
        let mut words = line.split(' ');
        let (folder, number, checksum) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        Some(((folder.to_owned(), number), u128::from_str_radix(checksum, 16).ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Compares the files of the newest version of a tree that are not `known` with their checksums. Records the
/// true checksum of a file that differs if its parts are whole.
///
/// # Errors
/// [`StoreError`] if a file cannot be read, or is not what was written, or the record cannot be made.
pub(super) fn check(tree: &AnyTree, known: &HashSet<FileId>) -> Result<(), StoreError> {
    // While the version is held, its files are not deleted.
    let version = tree.current_version();
    let tables = version.iter_tables().map(|table| ((TABLES, table.id()), table.checksum()));
    let blobs = version.blob_files.iter().map(|file| ((BLOBS, file.id()), file.checksum()));
    let tree = &tree.tree_config().path;
    let mut wrong = Vec::new();
    for (file @ (folder, number), checksum) in tables.chain(blobs) {
        if !known.contains(&file) {
            let path = tree.join(folder).join(number.to_string());
            let (found, _) = verify::hashed(&path)?;
            if found != checksum.into_u128() {
                verify::check_parts(&path)?;
                wrong.push((file, found));
            }
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let mut all = recorded(tree);
    all.retain(|(folder, number), _| tree.join(folder).join(number.to_string()).exists());
    for ((folder, number), checksum) in wrong {
        tracing::info!(tree = %tree.display(), folder, number, "a file was written in parts; it is whole");
        all.insert((folder.to_owned(), number), checksum);
    }
    write(tree, &all).map_err(|source| StoreError::write(&tree.join(NAME), source))
}

fn write(tree: &Path, all: &HashMap<(String, u64), u128>) -> io::Result<()> {
    let mut text = String::new();
    for ((folder, number), checksum) in all {
        let _ = writeln!(text, "{folder} {number} {checksum:032x}");
    }
    let partial = tree.join(NAME).with_extension("partial");
    let mut file = File::create(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, tree.join(NAME))?;
    sync_directory(tree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::{Tree, Trees};

    /// Changes a byte that no checksum of a blob covers, so that the file is whole and differs from its
    /// checksum, as if a part of it had been hashed twice.
    fn change(file: &Path) {
        let mut bytes = fs::read(file).unwrap();
        bytes[20] ^= 1;
        fs::write(file, bytes).unwrap();
    }

    #[test]
    fn a_new_file_that_is_whole_is_accepted_later_and_a_damaged_one_never() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        let tree = trees.tree(Tree::Rows);
        let path = tree.tree_config().path.clone();
        tree.insert("a", vec![7; 20_000], 1);
        tree.flush_active_memtable(0).unwrap();
        check(tree, &HashSet::new()).unwrap();
        assert!(recorded(&path).is_empty() && !path.join(NAME).exists());
        let file = path.join(BLOBS).join("0");
        change(&file);
        let key = (BLOBS.to_owned(), 0);
        // Files that were there before are not compared.
        check(tree, &[(BLOBS, 0)].into()).unwrap();
        assert!(recorded(&path).is_empty());
        check(tree, &HashSet::new()).unwrap();
        let (found, _) = verify::hashed(&file).unwrap();
        assert_eq!(recorded(&path), HashMap::from([(key.clone(), found)]));
        // A change of a value is damage.
        let mut bytes = fs::read(&file).unwrap();
        bytes[100] ^= 1;
        fs::write(&file, &bytes).unwrap();
        assert!(matches!(check(tree, &HashSet::new()), Err(StoreError::Damage { .. })));
        assert_eq!(recorded(&path), HashMap::from([(key, found)]));
    }
}
