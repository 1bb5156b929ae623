//! Removal of the files that unfinished work on a tree leaves behind.
//!
//! A flush or a compaction that fails may have written some of its tables and blob files. `lsm-tree`
//! deletes them when it opens the tree again; until then they take disk space, and each retry on a full
//! disk adds more. So they are deleted here, as soon as no other work on the tree can still be writing to
//! them.
//!
//! *Invariant*: only files that are younger than the work, and that no version of the tree ever named, are
//! deleted. Files of older versions stay: views may read them, and `lsm-tree` deletes them after the last
//! reader.
//!
//! The pointer of the tree is put back first if it names a version that the tree in memory does not have
//! (`pointer`). *Absent*: errors other than a full disk; nothing is deleted after them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use lsm_tree::{AbstractTree, AnyTree};
use parking_lot::Mutex;

use super::error::StoreError;
use super::pointer::{Pointer, names_another};
use super::rehashed;

/// The directories of a tree that flushes and compactions write to.
pub(super) const TABLES: &str = "tables";
pub(super) const BLOBS: &str = "blobs";

/// A file by its directory and its number.
pub(super) type FileId = (&'static str, u64);

/// Flushes and compactions in progress on one tree.
#[derive(Default)]
pub(super) struct Work {
    /// Locked while a directory is listed and leftovers are deleted. Meanwhile only locks of the tree are
    /// taken.
    state: Mutex<State>,
    /// Whether the last comparison of new files with their checksums failed. Locked during a comparison.
    checking: Mutex<bool>,
}

#[derive(Default)]
struct State {
    running: usize,
    /// Files that existed before the first of the running work began, and files that a version has named
    /// since. `None` if they could not be listed: then nothing is deleted.
    known: Option<HashSet<FileId>>,
    /// Whether some of the work left files behind.
    has_leftovers: bool,
    /// Whether the newest version of the tree on disk is unknown.
    is_unsure: bool,
    pointer: Pointer,
    /// Whether the pointer may name a version that the tree in memory does not have. No work begins before
    /// it is put back.
    names_another: bool,
}

impl State {
    /// Puts the pointer back and deletes leftovers, unless work on the tree is running.
    fn settle(&mut self, tree: &AnyTree) -> Result<(), StoreError> {
        if self.running > 0 {
            return Ok(());
        }
        if self.names_another {
            self.pointer.put_back(tree)?;
            self.names_another = false;
        }
        let known = self.known.take();
        if let Some(known) = known.filter(|_| self.has_leftovers && !self.is_unsure) {
            sweep(tree, &known);
        }
        self.has_leftovers = false;
        Ok(())
    }
}

impl Work {
    /// Whether leftovers wait for work that is still running. Optional work should not begin then, because
    /// it delays their removal.
    pub(super) fn has_leftovers(&self) -> bool {
        self.state.lock().has_leftovers
    }

    /// Runs some work on `tree`. If it runs out of disk space or is interrupted, its files are deleted, at
    /// the latest when all other work on the tree has ended. After any other error nothing is deleted.
    ///
    /// # Errors
    /// The error of the work, or of putting the pointer back; then the work did not begin.
    pub(super) fn run<T>(
        &self,
        tree: &AnyTree,
        work: impl FnOnce(&AnyTree) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.begin(tree)?;
        let mut running = Running { work: self, tree, end: End::Panicked };
        let result = work(tree).and_then(|done| {
            let mut is_unrecorded = self.checking.lock();
            let known = self.state.lock().known.clone().filter(|_| !*is_unrecorded);
            // If the files could not be listed, all files of the version are compared.
            let checked = rehashed::check(tree, &known.unwrap_or_default());
            *is_unrecorded = checked.is_err();
            checked.map(|()| done)
        });
        running.end = match &result {
            Ok(_) => End::Done,
            Err(error) if error.is_full() || error.is_interrupted() => End::Cut,
            Err(_) => End::Failed,
        };
        result
    }

    fn begin(&self, tree: &AnyTree) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        state.settle(tree)?;
        if state.names_another {
            // Other work is running, and puts the pointer back when it ends.
            return Err(StoreError::Full { free: 0, wanted: 0 });
        }
        if state.running == 0 {
            state.known = listed(&tree.tree_config().path).ok();
            state.pointer.keep(tree);
        }
        state.running += 1;
        Ok(())
    }

    fn end(&self, tree: &AnyTree, end: End) {
        let mut state = self.state.lock();
        state.running -= 1;
        match end {
            End::Done => {
                state.pointer.keep(tree);
                if let Some(known) = &mut state.known {
                    known.extend(named(tree));
                }
            }
            End::Cut => {
                state.has_leftovers = true;
                state.names_another |= names_another(tree);
            }
            End::Failed | End::Panicked => state.is_unsure = true,
        }
        if let Err(error) = state.settle(tree) {
            tracing::warn!(%error, "a tree waits for disk space: its current version must be named again");
        }
    }
}

/// How work ended.
#[derive(Clone, Copy)]
enum End {
    Done,
    /// Out of disk space, or interrupted on request.
    Cut,
    Failed,
    Panicked,
}

/// Counts work as running until it is dropped, which also happens on a panic.
struct Running<'a> {
    work: &'a Work,
    tree: &'a AnyTree,
    end: End,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.work.end(self.tree, self.end);
    }
}

/// The files of the newest version, by number: the tree may spell their paths in another way.
fn named(tree: &AnyTree) -> HashSet<FileId> {
    let version = tree.current_version();
    let tables = version.iter_tables().map(|table| (TABLES, table.id()));
    tables.chain(version.blob_files.list_ids().map(|id| (BLOBS, *id))).collect()
}

fn listed(tree: &Path) -> io::Result<HashSet<FileId>> {
    let mut files = HashSet::new();
    for folder in [TABLES, BLOBS] {
        match fs::read_dir(tree.join(folder)) {
            Ok(entries) => {
                for entry in entries {
                    let number = entry?.file_name().to_str().and_then(|name| name.parse().ok());
                    files.extend(number.map(|number| (folder, number)));
                }
            }
            // Only trees with separated values have blob files.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

fn sweep(tree: &AnyTree, known: &HashSet<FileId>) {
    let path = &tree.tree_config().path;
    let named = named(tree);
    let Ok(found) = listed(path) else {
        return;
    };
    let mut freed = 0;
    for id @ (folder, number) in found {
        if known.contains(&id) || named.contains(&id) {
            continue;
        }
        let file = path.join(folder).join(number.to_string());
        let bytes = fs::metadata(&file).map_or(0, |meta| meta.len());
        // The tree may still have the file open; then deleting it alone would free nothing.
        let emptied = fs::OpenOptions::new().write(true).open(&file).and_then(|file| file.set_len(0));
        match emptied.and_then(|()| fs::remove_file(&file)) {
            Ok(()) => freed += bytes,
            Err(error) => {
                let path = file.display();
                tracing::warn!(%error, %path, "an unfinished file stays until the next start");
            }
        }
    }
    if freed > 0 {
        tracing::info!(tree = %path.display(), freed, "unfinished files were deleted");
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::path::PathBuf;

    use super::*;
    use crate::pointer::name_next_version;
    use crate::trees::Trees;

    fn full() -> StoreError {
        lsm_tree::Error::Io(ErrorKind::StorageFull.into()).into()
    }

    /// A tree with a table and a blob file.
    fn filled(trees: &Trees) -> &AnyTree {
        let tree = trees.tree(crate::trees::Tree::Rows);
        tree.insert("a", vec![7; 20_000], 1);
        tree.insert("b", "small", 1);
        tree.flush_active_memtable(0).unwrap();
        tree
    }

    fn files(tree: &AnyTree) -> HashSet<FileId> {
        listed(&tree.tree_config().path).unwrap()
    }

    fn unfinished(tree: &AnyTree, number: u64) -> PathBuf {
        let path = tree.tree_config().path.join(TABLES).join(number.to_string());
        fs::write(&path, [1; 5_000]).unwrap();
        path
    }

    #[test]
    fn files_of_work_that_ran_out_of_space_are_deleted_at_once_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        let (tree, work) = (filled(&trees), Work::default());
        let before = files(tree);
        assert_eq!(before.len(), 2, "{before:?}");
        let failed = work.run(tree, |tree| {
            unfinished(tree, 77);
            fs::write(tree.tree_config().path.join(BLOBS).join("78"), [1; 5_000]).unwrap();
            Err::<(), _>(full())
        });
        assert!(failed.unwrap_err().is_full());
        assert_eq!(files(tree), before);
    }

    #[test]
    fn deletion_waits_for_work_that_may_still_be_writing() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        let (tree, work) = (filled(&trees), Work::default());
        let before = files(tree);
        let outer = work.run(tree, |tree| {
            let of_outer = unfinished(tree, 90);
            let inner = work.run(tree, |tree| {
                unfinished(tree, 91);
                Err::<(), _>(full())
            });
            assert!(inner.is_err());
            assert!(of_outer.exists() && work.has_leftovers());
            tree.insert("c", "later", 2);
            tree.flush_active_memtable(0)?;
            fs::remove_file(of_outer).unwrap();
            Ok(())
        });
        outer.unwrap();
        assert!(!work.has_leftovers());
        let after = files(tree);
        assert_eq!(after.difference(&before).count(), 1, "the table that was written: {after:?}");
        assert_eq!(tree.get("c", 9).unwrap().unwrap(), "later");
    }

    #[test]
    fn nothing_is_deleted_if_the_newest_version_is_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        let (tree, work) = (filled(&trees), Work::default());
        let failed = work.run(tree, |tree| {
            unfinished(tree, 77);
            Err::<(), _>(StoreError::io(dir.path(), "synced", ErrorKind::Other.into()))
        });
        assert!(failed.is_err());
        assert!(files(tree).contains(&(TABLES, 77)));
    }

    #[test]
    fn a_pointer_to_another_version_is_put_back_before_leftovers_are_deleted_and_work_begins() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        let (tree, work) = (filled(&trees), Work::default());
        let before = files(tree);
        let pointer = tree.tree_config().path.join("current");
        let own = fs::read(&pointer).unwrap();
        let partial = pointer.with_extension("partial");
        // The pointer cannot be written: a directory has the name of the file that is renamed to it.
        let failed = work.run(tree, |tree| {
            unfinished(tree, 77);
            name_next_version(tree);
            fs::create_dir(&partial).unwrap();
            Err::<(), _>(full())
        });
        assert!(failed.unwrap_err().is_full());
        assert!(names_another(tree) && files(tree).contains(&(TABLES, 77)));
        assert!(work.run(tree, |_| Ok(())).is_err(), "work began although the pointer names another version");
        fs::remove_dir(&partial).unwrap();
        work.run(tree, |_| Ok(())).unwrap();
        assert_eq!((fs::read(&pointer).unwrap(), files(tree)), (own, before));
    }

    #[test]
    fn no_work_begins_beside_other_work_while_the_pointer_names_another() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        let (tree, work) = (filled(&trees), Work::default());
        let outer = work.run(tree, |tree| {
            let cut = |tree: &AnyTree| {
                name_next_version(tree);
                Err::<(), _>(full())
            };
            assert!(work.run(tree, cut).is_err());
            assert!(work.run(tree, |_| Ok(())).unwrap_err().is_full());
            // This work replaces the version, which names it.
            tree.insert("c", "later", 2);
            tree.flush_active_memtable(0)?;
            Ok(())
        });
        outer.unwrap();
        assert!(!names_another(tree));
        work.run(tree, |_| Ok(())).unwrap();
    }

    #[test]
    fn an_interrupted_compaction_leaves_no_files() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        let (tree, work) = (filled(&trees), Work::default());
        for i in 0..1_000 {
            tree.insert(format!("key {i}"), vec![3; 9_000], 3);
        }
        tree.flush_active_memtable(0).unwrap();
        let before = files(tree);
        trees.pace.stop();
        let cut = work.run(tree, |tree| Ok(tree.major_compact(1 << 20, 5)?));
        assert!(cut.unwrap_err().is_interrupted());
        assert_eq!(files(tree), before);
        assert_eq!(tree.get("key 999", 9).unwrap().unwrap().len(), 9_000);
    }
}
