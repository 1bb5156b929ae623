//! Commits on the writer thread: a batch becomes durable, and the index follows it.
//!
//! *Invariants*
//! - Added hashes enter the index before the commit, and removed ones leave it afterwards.
//! - After a commit that failed for another reason than a full disk, nothing more is written.
//!
//! *Absent*: the content of a batch (`planning`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::fast::RandomState;

use super::posting_cache::TouchedHash;
use super::registry::Collection;
use super::writer::Writer;
use crate::EngineError;
use lookalike_hash::{CollectionId, Hash, Sequence};
use lookalike_store::{Batch, Change, StoreError};

impl Writer {
    /// Makes a batch durable and updates the index.
    pub(super) fn commit(
        &mut self,
        mut batch: Batch<'_>,
        touched: &HashMap<CollectionId, Arc<Collection>>,
        hashes: &[TouchedHash],
    ) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let planned = Sequence(self.last.0 + batch.changes().len() as u64);
        self.shared.planned.store(planned.0, Ordering::SeqCst);
        let net_changes = net_changes(batch.changes());
        for (&(of, hash), net_change) in &net_changes {
            if net_change.exists_after
                && let Some(collection) = touched.get(&of)
            {
                collection.insert_hash(hash);
            }
        }
        batch.record_time(self.now_ms());
        let sent = self.record_entries(&mut batch);
        let difference = batch.digest_difference();
        let started = std::time::Instant::now();
        let mut is_visible = false;
        let committed = batch.commit_telling(|| {
            is_visible = true;
            touched.values().for_each(|collection| collection.epoch.begin_commit());
        });
        if is_visible {
            self.shared.postings.apply_commit(hashes, committed.is_ok());
            touched.values().for_each(|collection| collection.epoch.end_commit());
        }
        let last = match committed {
            Ok(last) => last,
            Err(error) => {
                if matches!(error, StoreError::Full { .. }) {
                    self.roll_back(&net_changes, touched);
                }
                return Err(error);
            }
        };
        metrics::histogram!("lookalike_commit_seconds").record(started.elapsed());
        metrics::histogram!("lookalike_commit_changes").record((last.0 - self.last.0) as f64);
        for collection in touched.values() {
            let gone = net_changes
                .iter()
                .filter(|((of, _), net_change)| *of == collection.id && !net_change.exists_after);
            collection.remove_hashes(gone.map(|((_, hash), _)| *hash));
        }
        if let Some(replica) = &mut self.replica {
            replica.add_digest(difference);
        }
        self.entries_recorded(sent);
        self.last = last;
        self.shared.applied.store(last.0, Ordering::SeqCst);
        Ok(())
    }

    /// Undoes the insertions into the index for a batch that was not written, except for hashes that existed
    /// before it.
    fn roll_back(&mut self, net_changes: &NetChanges, touched: &HashMap<CollectionId, Arc<Collection>>) {
        self.recent.remove_after(self.last);
        for collection in touched.values() {
            let added = net_changes
                .iter()
                .filter(|((of, _), net_change)| *of == collection.id && !net_change.existed_before);
            collection.remove_hashes(added.map(|((_, hash), _)| *hash));
        }
        // After the update of the index: a snapshot that finds this counter unchanged contains none of the
        // hashes.
        self.shared.rolled_back.fetch_add(1, Ordering::SeqCst);
        self.shared.planned.store(self.last.0, Ordering::SeqCst);
    }

    /// As [`Writer::commit`], with the error that the client gets.
    pub(super) fn commit_or_fail(
        &mut self,
        batch: Batch<'_>,
        touched: &HashMap<CollectionId, Arc<Collection>>,
        hashes: &[TouchedHash],
    ) -> Result<(), EngineError> {
        let committed = self.commit(batch, touched, hashes);
        committed.map_err(|error| self.not_committed(&error))
    }

    /// Commits a batch that changes a record of a collection, and no documents.
    pub(super) fn commit_change(&mut self, mut batch: Batch<'_>, change: Change) -> Result<(), EngineError> {
        batch.record(change);
        self.commit_or_fail(batch, &HashMap::new(), &[])
    }

    pub(super) fn refuse_read_only(&self) -> Result<(), EngineError> {
        self.shared.read_only().map_or(Ok(()), |reason| Err(EngineError::ReadOnly(reason)))?;
        self.shared.check_space()
    }

    /// The client's error for a batch that was not committed.
    pub(super) fn not_committed(&self, error: &StoreError) -> EngineError {
        match error {
            StoreError::Full { .. } => EngineError::DiskFull(error.to_string()),
            _ => EngineError::Unknown(self.fail(error)),
        }
    }

    /// Accepts no more writes from now on. Returns the reason.
    pub(super) fn fail(&self, error: &StoreError) -> String {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let reason =
            format!("a write failed ({error}{cause}); no more are accepted until the server is restarted");
        tracing::error!(%reason, "the store accepts no more writes; queries are still answered");
        self.shared.set_read_only(reason.clone());
        reason
    }
}

/// The net effect of a batch on a hash, which the batch may add and remove several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NetChange {
    /// Whether a document had the hash before the batch.
    existed_before: bool,
    /// Whether a document has it after the batch.
    exists_after: bool,
}

/// The net effect on each hash of a collection.
type NetChanges = HashMap<(CollectionId, Hash), NetChange, RandomState>;

/// The net effect of a batch on each hash that it adds or removes.
fn net_changes(changes: &[Change]) -> NetChanges {
    let mut net_changes = NetChanges::with_capacity_and_hasher(changes.len(), RandomState::default());
    let mut record = |of: CollectionId, hash: Option<Hash>, exists_after: bool| {
        // A hash whose first change is a removal existed before, and one whose first change is an addition
        // did not.
        let first = NetChange { existed_before: !exists_after, exists_after };
        if let Some(hash) = hash {
            net_changes.entry((of, hash)).or_insert(first).exists_after = exists_after;
        }
    };
    for change in changes {
        if let Change::Document { collection, added, removed } = change {
            record(*collection, *removed, false);
            record(*collection, *added, true);
        }
    }
    net_changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_that_existed_before_a_batch_are_distinguished_from_added_ones() {
        let of = CollectionId(1);
        let [a, b, c, d] = [1, 2, 3, 4].map(Hash::from_u64);
        let change = |added, removed| Change::Document { collection: of, added, removed };
        // a is removed and added, b is added and removed, c is added, d is removed.
        let net_changes = net_changes(&[
            change(Some(b), Some(a)),
            change(Some(a), Some(b)),
            change(Some(c), None),
            change(None, Some(d)),
        ]);
        let net_change =
            |hash| (net_changes[&(of, hash)].existed_before, net_changes[&(of, hash)].exists_after);
        assert_eq!(
            [a, b, c, d].map(net_change),
            [(true, true), (false, false), (false, true), (true, false)]
        );
    }
}
