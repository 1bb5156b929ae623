//! Compaction: one thread that merges tables, frees the space of deleted data while the store is quiet, and
//! never uses the disk space that the journal and the memtables need.
//!
//! `lsm-tree` decides which levels to merge. It leaves deleted entries in place until enough new data is
//! written over them, which never happens on a quiet store. So while hardly anything is written, a tree is
//! compacted whole if a tenth of it is dead: a rewrite of n bytes frees at least n / 10. The dead share is
//! derived from the metadata of the tables, so a restart does not lose it.
//!
//! *Absent*: the choice of tables for a merge (`Leveled` of `lsm-tree`), and flushes (`keeper`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, AnyTree, Guard, SeqNo};

use super::codec;
use super::error::StoreError;
use super::keeper::Core;
use super::trees::{TREES, Tree, Trees};
use lookalike_wording::milliseconds;

/// Merges of a tree in a row, before the other trees are served.
const STEPS: usize = 64;
/// Compactions of a whole tree in a row.
const PASSES: usize = 4;
/// Tables in the first level at which `Leveled` merges them down.
const L0_TABLES: usize = 4;
/// Bytes of a table that a compaction of a whole tree writes.
const TABLE_BYTES: u64 = 64 << 20;
/// A tree is compacted whole if at least one byte in this many is dead.
const DEAD_SHARE: u64 = 10;
/// Fewer dead bytes than this are not worth the work, however small the tree is.
const DEAD_LEAST: u64 = 256 << 10;
/// Delay before a compaction that ran out of disk space is retried, unless more space becomes free. The
/// delay is needed because the free space does not show a quota.
const AFTER_FULL: Duration = Duration::from_mins(1);

/// The state that the thread keeps for each tree.
#[derive(Clone, Copy, Default)]
struct Memory {
    /// The spare disk space at the beginning of the last compaction that ran out of it, and when it ran out.
    short: Option<(u64, Instant)>,
    /// The version that the last compaction of the whole tree produced if nothing else changed the tree
    /// meanwhile, and the sequence number that the horizon must reach before another compaction can free
    /// more.
    whole: Option<(u64, SeqNo)>,
}

/// The work of the compaction thread.
#[derive(Default)]
pub(super) struct Compactor {
    memory: [Memory; TREES],
}

impl Compactor {
    /// Merges tables where needed, and frees the space of deleted data if the store is quiet.
    ///
    /// # Errors
    /// [`StoreError`] if a tree or the disk failed. A full disk is no error: the work is retried.
    pub(super) fn turn(&mut self, core: &Core) -> Result<(), StoreError> {
        core.trees.pace.serve();
        let mut is_short = false;
        for at in 0..TREES {
            is_short |= self.merge(core, at)?;
        }
        core.crowded.store(is_short, Ordering::Relaxed);
        if core.is_quiet() {
            core.trees.pace.be_gentle();
            for at in 0..TREES {
                self.reclaim(core, at)?;
            }
            release(core);
        }
        Ok(())
    }

    /// Merges tables of a tree as its levels need it. Returns whether the disk has no space for it.
    fn merge(&mut self, core: &Core, at: usize) -> Result<bool, StoreError> {
        let tree = &core.trees.all()[at];
        for _ in 0..STEPS {
            if core.trees.pace.is_stopping() || core.work[at].has_leftovers() {
                return Ok(false);
            }
            if !self.has_space(core, at, merge_bytes(tree)) {
                return Ok(true);
            }
            let before = tree.current_version().id();
            let horizon = core.trees.views.horizon();
            let done = self.attempt(core, at, |tree| tree.compact(Arc::new(Leveled::default()), horizon))?;
            if !done {
                return Ok(self.memory[at].short.is_some());
            }
            if tree.current_version().id() == before {
                break;
            }
        }
        Ok(false)
    }

    /// Compacts a whole tree while enough of it is dead. One pass finds out which blob files are dead, and
    /// the next one deletes them.
    fn reclaim(&mut self, core: &Core, at: usize) -> Result<(), StoreError> {
        let tree = &core.trees.all()[at];
        let (started, before, mut passes) = (Instant::now(), tree.disk_space(), 0);
        while passes < PASSES
            && is_worth_rewriting(dead_bytes(core, at)?, tree.disk_space())
            && !self.is_futile(core, at)
            && self.pass(core, at)?
        {
            passes += 1;
        }
        if passes > 0 {
            let (elapsed_ms, bytes) = (milliseconds(started.elapsed()), tree.disk_space());
            let path = tree.tree_config().path.display();
            tracing::info!(tree = %path, before, bytes, passes, elapsed_ms, "deleted data was freed");
        }
        Ok(())
    }

    /// Compacts a whole tree once. Returns whether the compaction completed.
    fn pass(&mut self, core: &Core, at: usize) -> Result<bool, StoreError> {
        let (tree, pace) = (&core.trees.all()[at], &core.trees.pace);
        let live = tree.disk_space().saturating_sub(dead_bytes(core, at)?);
        let may_begin = !pace.is_stopping() && !pace.is_wanted() && !core.work[at].has_leftovers();
        if !may_begin || !self.has_space(core, at, live) {
            return Ok(false);
        }
        let (version, stale) = (tree.current_version().id(), tree.stale_blob_bytes());
        let published = core.trees.views.published();
        let horizon = core.trees.views.horizon();
        if !self.attempt(core, at, |tree| tree.major_compact(TABLE_BYTES, horizon))? {
            return Ok(false);
        }
        let is_viewed = horizon + 1 < published;
        let until = if is_viewed { published } else { SeqNo::MAX };
        // The next pass deletes the blobs that this one found dead.
        let is_done = tree.stale_blob_bytes() == 0 || tree.stale_blob_bytes() == stale;
        self.memory[at].whole = is_done.then_some((version + 1, until));
        release(core);
        Ok(true)
    }

    /// Whether another compaction of the whole tree could free nothing: the tree is unchanged since the
    /// last one, and open views still see the entries that the last one had to keep.
    fn is_futile(&self, core: &Core, at: usize) -> bool {
        let version = core.trees.all()[at].current_version().id();
        let horizon = core.trees.views.horizon();
        self.memory[at].whole.is_some_and(|(made, until)| made == version && horizon + 1 < until)
    }

    /// Whether a compaction that writes `bytes` may begin. After one that ran out of space, more must be
    /// free than it began with, or `AFTER_FULL` must have passed.
    fn has_space(&self, core: &Core, at: usize, bytes: u64) -> bool {
        let spare = core.room.spare();
        let failed =
            self.memory[at].short.is_some_and(|(had, when)| spare <= had && when.elapsed() < AFTER_FULL);
        spare > bytes && !failed
    }

    /// Runs a compaction. Returns whether it completed.
    fn attempt(
        &mut self,
        core: &Core,
        at: usize,
        compact: impl FnOnce(&AnyTree) -> lsm_tree::Result<()>,
    ) -> Result<bool, StoreError> {
        let spare = core.room.spare();
        let tree = &core.trees.all()[at];
        let done = core.work[at].run(tree, |tree| Ok(compact(tree)?));
        let memory = &mut self.memory[at];
        match done {
            Ok(()) => {
                memory.short = None;
                Ok(true)
            }
            Err(error) if error.is_full() => {
                let tree = tree.tree_config().path.display();
                tracing::warn!(%tree, spare, "a compaction ran out of disk space; it waits for more");
                memory.short = Some((spare, Instant::now()));
                Ok(false)
            }
            Err(error) if error.is_interrupted() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether `dead` of `bytes` on disk are worth a rewrite of the live ones.
fn is_worth_rewriting(dead: u64, bytes: u64) -> bool {
    dead >= (bytes / DEAD_SHARE).max(DEAD_LEAST)
}

/// Whether a checkpoint is worth its cost. It would clear `journal` bytes, and allow `removed` rows to be
/// deleted from the trees; rows have most of the bytes.
pub(super) fn is_checkpoint_worthwhile(trees: &Trees, removed: u64, journal: u64) -> bool {
    let rows = trees.tree(Tree::Rows);
    let bytes_of_row = rows.disk_space() / (rows.approximate_len() as u64).max(1);
    is_worth_rewriting(journal + bytes_of_row * removed, trees.disk_bytes())
}

/// An estimate of the bytes that the next merge of a tree writes at most: its newest tables, and those of
/// the first level below them that has any, which they mostly overlap. Merges further down are not
/// estimated; they check the free space while they run.
fn merge_bytes(tree: &AnyTree) -> u64 {
    let version = tree.current_version();
    let mut levels = version.iter_levels();
    let Some(newest) = levels.next().filter(|newest| newest.table_count() >= L0_TABLES) else {
        return 0;
    };
    if newest.is_disjoint() {
        return 0;
    }
    newest.size() + levels.fold(0, |first, level| if first > 0 { first } else { level.size() })
}

/// An estimate of the bytes of a tree on disk that no query can reach.
fn dead_bytes(core: &Core, at: usize) -> Result<u64, StoreError> {
    let tree = &core.trees.all()[at];
    let version = tree.current_version();
    let (entries, tombstones) = version.iter_tables().fold((0, 0), |(entries, tombstones), table| {
        (entries + table.metadata.item_count, tombstones + table.tombstone_count())
    });
    // A tombstone usually hides one entry, and a compaction drops both.
    let mut dead = (2 * tombstones).min(entries);
    if at == Tree::Rows as usize {
        // An overwritten row has no tombstone, but the number of live rows is known.
        let in_memory = (tree.approximate_len() as u64).saturating_sub(entries);
        dead = dead.max(entries.saturating_sub(documents(core)? + in_memory));
    }
    let share =
        if entries == 0 { 0 } else { u128::from(tree.disk_space()) * u128::from(dead) / u128::from(entries) };
    Ok(share as u64 + tree.stale_blob_bytes())
}

/// The number of documents in all collections.
fn documents(core: &Core) -> Result<u64, StoreError> {
    let meta = core.trees.tree(Tree::Meta);
    let numbers = core.trees.views.at_newest(|now| meta.prefix(codec::DOCUMENTS, now, None));
    numbers.map(|entry| codec::read_number(&entry.value()?)).sum()
}

/// Deletes files that only older versions of the trees name, unless a view sees one of them. A version
/// becomes removable when a later batch is published. A quiet store has no later batch, so a sequence
/// number without a batch is published instead.
fn release(core: &Core) {
    if core.trees.all().iter().all(|tree| tree.version_free_list_len() == 0) {
        return;
    }
    {
        // Batches take their sequence numbers under this lock, so no batch with a lower number is in
        // progress.
        let _journal = core.journal.lock();
        core.trees.views.publish(core.trees.next_seqno());
    }
    let horizon = core.trees.views.horizon();
    for tree in core.trees.all() {
        let path = &tree.tree_config().path;
        if let Err(error) = tree.get_version_history_lock().maintenance(path, horizon) {
            tracing::warn!(%error, tree = %path.display(), "an older version of a tree was not removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use fastrand::Rng;

    use super::*;
    use crate::journal;
    use crate::manifest::Manifest;
    use crate::room::Room;
    use crate::trees::{Trees, Writes};

    /// A core without threads: the test decides when each piece of work runs.
    fn core(dir: &Path) -> Core {
        let journal_dir = dir.join("journal");
        let manifest = Manifest::read(dir).unwrap().unwrap_or_else(|| {
            journal::Journal::create(&journal_dir, 1).unwrap();
            let manifest = Manifest { store: 1, replay_from: 1, versions: [0; TREES] };
            manifest.write(dir).unwrap();
            manifest
        });
        let trees = Trees::open(dir, 1 << 20).unwrap();
        let scan = journal::scan(&journal_dir, 1, manifest.replay_from, |_, seqno, payload| {
            trees.replay(seqno, payload)
        });
        let journal = journal::Journal::open(&journal_dir, 1, 1 << 20, scan.unwrap()).unwrap();
        let lock = std::fs::File::create(dir.join("LOCK")).unwrap();
        Core::new(
            dir.to_path_buf(),
            &manifest,
            trees,
            journal,
            Room::new(dir.to_path_buf(), 0),
            64 << 20,
            lock,
        )
    }

    fn bytes_of(dir: &Path) -> u64 {
        let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
        entries
            .map(|entry| match entry.metadata().unwrap() {
                meta if meta.is_dir() => bytes_of(&entry.path()),
                meta => meta.len(),
            })
            .sum()
    }

    /// The work that a quiet store does without writes.
    fn quiet(core: &Core, compactor: &mut Compactor) {
        core.be_quiet();
        core.turn().unwrap();
        compactor.turn(core).unwrap();
    }

    type Model = BTreeMap<Vec<u8>, Vec<u8>>;

    fn check(core: &Core, model: &Model, seqno: SeqNo) {
        let found = core.trees.tree(Tree::Rows).iter(seqno, None).map(|entry| entry.into_inner().unwrap());
        let found: Model = found.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        assert_eq!(found.len(), model.len());
        assert!(found == *model, "rows differ");
    }

    /// Writes or deletes rows, with small values and with values in blob files, and updates their count.
    fn change(core: &Core, model: &mut Model, rng: &mut Rng, rows: usize, deleted: f64) {
        let mut writes = Writes::default();
        for _ in 0..rows {
            let key = format!("row {}", rng.u32(..3_000)).into_bytes();
            if rng.f64() < deleted {
                if model.remove(&key).is_some() {
                    writes.remove(Tree::Rows, &key);
                }
                continue;
            }
            let length = if rng.u32(..10) == 0 { rng.usize(9_000..20_000) } else { rng.usize(..300) };
            let value: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(length).collect();
            writes.insert(Tree::Rows, &key, &value);
            model.insert(key, value);
        }
        let number = (model.len() as u64).to_be_bytes();
        writes.insert(Tree::Meta, codec::documents_key(lookalike_hash::CollectionId(1)), number);
        core.commit(&writes, || ()).unwrap();
    }

    #[test]
    fn a_quiet_store_frees_deleted_rows_even_after_a_restart() {
        for restarted in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (mut rng, mut model) = (Rng::with_seed(3), Model::new());
            let mut all = core(dir.path());
            for _ in 0..20 {
                change(&all, &mut model, &mut rng, 300, 0.0);
            }
            all.checkpoint().unwrap();
            let before = bytes_of(dir.path());
            // Deletes all rows but a few.
            let kept = 100;
            let mut writes = Writes::default();
            for key in model.keys().skip(kept) {
                writes.remove(Tree::Rows, key);
            }
            let number = (kept as u64).to_be_bytes();
            writes.insert(Tree::Meta, codec::documents_key(lookalike_hash::CollectionId(1)), number);
            all.commit(&writes, || ()).unwrap();
            model = model.into_iter().take(kept).collect();
            if restarted {
                drop(all);
                all = core(dir.path());
            }
            quiet(&all, &mut Compactor::default());
            let after = bytes_of(dir.path());
            assert!(after < before / 8, "{before} bytes became {after}");
            check(&all, &model, SeqNo::MAX);
        }
    }

    #[test]
    fn a_quiet_store_frees_overwritten_rows() {
        let dir = tempfile::tempdir().unwrap();
        let (mut rng, mut model) = (Rng::with_seed(5), Model::new());
        let core = core(dir.path());
        for _ in 0..3 {
            for _ in 0..20 {
                change(&core, &mut model, &mut rng, 300, 0.0);
            }
            core.checkpoint().unwrap();
        }
        let live: u64 = model.values().map(|value| value.len() as u64).sum();
        assert!(bytes_of(dir.path()) > live * 2);
        quiet(&core, &mut Compactor::default());
        let after = bytes_of(&core.trees.tree(Tree::Rows).tree_config().path);
        assert!(after < live * 5 / 4, "{live} bytes take {after}");
        check(&core, &model, SeqNo::MAX);
    }

    #[test]
    fn a_view_keeps_its_rows_and_no_compaction_is_futile() {
        let dir = tempfile::tempdir().unwrap();
        let (mut rng, mut model) = (Rng::with_seed(7), Model::new());
        let core = core(dir.path());
        for _ in 0..10 {
            change(&core, &mut model, &mut rng, 300, 0.0);
        }
        core.checkpoint().unwrap();
        let (seen, view) = (model.clone(), core.trees.views.open());
        for _ in 0..10 {
            change(&core, &mut model, &mut rng, 600, 1.0);
        }
        let mut compactor = Compactor::default();
        quiet(&core, &mut compactor);
        check(&core, &seen, view);
        check(&core, &model, SeqNo::MAX);
        let version = core.trees.tree(Tree::Rows).current_version().id();
        quiet(&core, &mut compactor);
        assert_eq!(
            core.trees.tree(Tree::Rows).current_version().id(),
            version,
            "compacted again for nothing"
        );
        let before = bytes_of(dir.path());
        core.trees.views.close(view);
        quiet(&core, &mut compactor);
        let after = bytes_of(dir.path());
        assert!(after < before / 2, "{before} bytes became {after}");
        check(&core, &model, SeqNo::MAX);
    }

    #[test]
    fn a_flush_during_a_compaction_is_not_overlooked() {
        let dir = tempfile::tempdir().unwrap();
        let (mut rng, mut model) = (Rng::with_seed(13), Model::new());
        let core = core(dir.path());
        for _ in 0..2 {
            for _ in 0..20 {
                change(&core, &mut model, &mut rng, 300, 0.0);
            }
            core.checkpoint().unwrap();
        }
        let mut compactor = Compactor::default();
        let before = bytes_of(dir.path());
        std::thread::scope(|scope| {
            let (core, compactor) = (&core, &mut compactor);
            core.be_quiet();
            let compacting = scope.spawn(move || compactor.turn(core).unwrap());
            // It sleeps two thirds of the time, and takes some hundred milliseconds.
            std::thread::sleep(Duration::from_millis(30));
            change(core, &mut model, &mut rng, 30_000, 1.0);
            core.checkpoint().unwrap();
            compacting.join().unwrap();
        });
        for _ in 0..3 {
            quiet(&core, &mut compactor);
        }
        let after = bytes_of(dir.path());
        assert!(after < before / 8, "{before} bytes became {after}");
        check(&core, &model, SeqNo::MAX);
    }

    #[test]
    fn blobs_that_one_pass_finds_dead_are_deleted_by_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let (mut rng, mut model) = (Rng::with_seed(15), Model::new());
        let core = core(dir.path());
        for _ in 0..20 {
            change(&core, &mut model, &mut rng, 300, 0.0);
        }
        core.checkpoint().unwrap();
        let rows = &core.trees.tree(Tree::Rows).tree_config().path;
        let before = bytes_of(rows);
        let mut compactor = Compactor::default();
        core.be_quiet();
        for deleted in [1_500, 30_000] {
            change(&core, &mut model, &mut rng, deleted, 1.0);
            core.checkpoint().unwrap();
            assert!(compactor.pass(&core, Tree::Rows as usize).unwrap());
        }
        quiet(&core, &mut compactor);
        let after = bytes_of(rows);
        assert!(after < before / 8, "{before} bytes became {after}");
        check(&core, &model, SeqNo::MAX);
    }

    /// Any sequence of writes, checkpoints, compactions, views and restarts leaves the rows unchanged.
    #[test]
    fn any_sequence_of_operations_leaves_the_rows_unchanged() {
        for seed in 0..6 {
            let dir = tempfile::tempdir().unwrap();
            let (mut rng, mut model) = (Rng::with_seed(seed), Model::new());
            let (mut all, mut compactor) = (core(dir.path()), Compactor::default());
            let mut view = None;
            for _ in 0..40 {
                match rng.u32(..12) {
                    0..6 => {
                        let (rows, deleted) = (rng.usize(1..400), rng.f64());
                        change(&all, &mut model, &mut rng, rows, deleted);
                    }
                    6 => all.checkpoint().unwrap(),
                    7 => compactor.turn(&all).unwrap(),
                    8 if view.is_none() => view = Some((all.trees.views.open(), model.clone())),
                    8 => {
                        if let Some((seqno, seen)) = view.take() {
                            check(&all, &seen, seqno);
                            all.trees.views.close(seqno);
                        }
                    }
                    9 => {
                        view = None;
                        drop(all);
                        (all, compactor) = (core(dir.path()), Compactor::default());
                    }
                    _ => quiet(&all, &mut compactor),
                }
                check(&all, &model, SeqNo::MAX);
            }
        }
    }

    #[test]
    fn reads_of_the_newest_state_continue_while_older_versions_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let core = core(dir.path());
        let (mut rng, mut model) = (Rng::with_seed(11), Model::new());
        change(&core, &mut model, &mut rng, 100, 0.0);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers = [(); 3].map(|()| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        assert!(documents(&core).unwrap() > 0);
                    }
                })
            });
            let mut compactor = Compactor::default();
            for _ in 0..100 {
                change(&core, &mut model, &mut rng, 5, 0.0);
                core.checkpoint().unwrap();
                compactor.turn(&core).unwrap();
                release(&core);
            }
            done.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }

    #[test]
    fn compaction_does_not_use_the_reserve() {
        let dir = tempfile::tempdir().unwrap();
        let (mut rng, mut model) = (Rng::with_seed(9), Model::new());
        let core = core(dir.path());
        for _ in 0..6 {
            change(&core, &mut model, &mut rng, 300, 0.0);
            core.checkpoint().unwrap();
        }
        let rows = &core.trees.tree(Tree::Rows).tree_config().path;
        let before = bytes_of(rows);
        // Simulates a disk on which only the reserve is free.
        let mut full = Compactor::default();
        full.memory[Tree::Rows as usize].short = Some((u64::MAX, Instant::now()));
        full.turn(&core).unwrap();
        assert!(core.crowded.load(Ordering::Relaxed));
        assert_eq!(bytes_of(rows), before, "a compaction began without disk space");
        Compactor::default().turn(&core).unwrap();
        assert!(!core.crowded.load(Ordering::Relaxed));
        assert!(core.trees.tree(Tree::Rows).l0_run_count() < 4);
        check(&core, &model, SeqNo::MAX);
    }
}
