//! Sole bearers at hand: for hashes looked up lately, the one document that bears them.
//!
//! A posting costs a lookup several microseconds in the store, more than all the rest of it. Most lookups
//! that find something find a document that was found before, so what was read is kept here.
//!
//! # Why a stale answer cannot come of it
//! The writer makes [`Sole::epoch`] odd before it commits, forgets every posting that the commit touches, and
//! makes the epoch even again. A reader answers from here only if the epoch was even and the same before and
//! after it read the index and everything it needs, so no commit fell in between; and it remembers a posting
//! only under the entry's lock and if the epoch is still the one from before its view of the store was taken. If the
//! writer begins a commit after that check, it waits for the entry's lock to forget what was just remembered.
//!
//! Costs: while a commit is under way every lookup goes to the store. Room: at most [`REMEMBERED`] hashes a
//! collection; when they are reached all are forgotten, which is simpler than choosing and seldom.

use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use foldhash::fast::RandomState;

use crate::ids::{DocumentId, Hash};

/// Hashes remembered in a collection, at most: some tens of megabytes.
const REMEMBERED: usize = 100_000;

/// Bytes of metadata up to which a bearer is remembered.
const SMALL: usize = 256;

/// The one document that bears a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SoleBearer {
    pub(super) id: DocumentId,
    /// When it expires: no commit says so at that moment, so whoever answers from here has to look at the time.
    pub(super) expires_ms: Option<u64>,
    pub(super) metadata: Option<String>,
}

/// What is remembered of a collection.
#[derive(Default)]
pub(super) struct Sole {
    epoch: AtomicU64,
    bearers: DashMap<Hash, SoleBearer, RandomState>,
}

impl Sole {
    /// The epoch, if no commit is under way.
    pub(super) fn quiet_epoch(&self) -> Option<u64> {
        Some(self.epoch.load(Ordering::SeqCst)).filter(|epoch| epoch.is_multiple_of(2))
    }

    /// The sole bearer of a hash, if it is remembered.
    pub(super) fn get(&self, hash: Hash) -> Option<SoleBearer> {
        self.bearers.get(&hash).map(|bearer| bearer.clone())
    }

    /// Remembers a bearer that was read from a view taken after `epoch` was seen, unless a commit came since.
    pub(super) fn remember(&self, epoch: u64, hash: Hash, bearer: SoleBearer) {
        if bearer.metadata.as_ref().is_some_and(|metadata| metadata.len() > SMALL) {
            return;
        }
        if self.bearers.len() >= REMEMBERED {
            self.bearers.clear();
        }
        let entry = self.bearers.entry(hash);
        if self.quiet_epoch() == Some(epoch) {
            entry.insert(bearer);
        }
    }

    /// A commit is under way.
    pub(super) fn begin_commit(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// The commit is done, or has failed; it touched these hashes.
    pub(super) fn end_commit<'a>(&self, touched: impl Iterator<Item = &'a Hash>) {
        for hash in touched {
            self.bearers.remove(hash);
        }
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(id: &str) -> SoleBearer {
        SoleBearer { id: DocumentId::new(id).unwrap(), expires_ms: None, metadata: None }
    }

    #[test]
    fn what_a_commit_touched_is_forgotten_and_what_it_overtook_is_not_remembered() {
        let (sole, hash) = (Sole::default(), Hash::from_u64(7));
        let before = sole.quiet_epoch().unwrap();
        sole.remember(before, hash, bearer("a"));
        assert_eq!(sole.get(hash), Some(bearer("a")));
        sole.begin_commit();
        assert_eq!(sole.quiet_epoch(), None);
        sole.remember(before, Hash::from_u64(8), bearer("b"));
        sole.end_commit([hash].iter());
        assert_eq!(sole.get(hash), None);
        sole.remember(before, hash, bearer("a"));
        assert_eq!(sole.get(hash), None, "read before the commit");
        sole.remember(sole.quiet_epoch().unwrap(), hash, bearer("c"));
        assert_eq!(sole.get(hash), Some(bearer("c")));
        assert_eq!(sole.get(Hash::from_u64(8)), None);
    }
}
