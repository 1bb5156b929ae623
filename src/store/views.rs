//! Open views, and the state that new ones see. Compaction keeps every entry that an open view can see.
//!
//! *Absent*: reads through a view (`view`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use lsm_tree::SeqNo;
use parking_lot::Mutex;

/// The states with open views, and the newest state.
pub(super) struct Views {
    /// One more than the sequence number of the last batch that is in the trees whole.
    published: AtomicU64,
    /// The number of open views of each state. Locked for the time of one change; no other lock is taken
    /// meanwhile.
    open: Mutex<BTreeMap<SeqNo, usize>>,
}

impl Views {
    pub(super) fn new(published: SeqNo) -> Views {
        Views { published: AtomicU64::new(published), open: Mutex::default() }
    }

    /// The newest state in which every batch is whole.
    pub(super) fn published(&self) -> SeqNo {
        self.published.load(Ordering::SeqCst)
    }

    /// Publishes the batch `seqno`, which must be in the trees whole.
    pub(super) fn publish(&self, seqno: SeqNo) {
        self.published.fetch_max(seqno + 1, Ordering::SeqCst);
    }

    /// Opens a view of the newest state.
    pub(super) fn open(&self) -> SeqNo {
        let mut open = self.open.lock();
        // Read under the lock: compaction must not drop a state between its choice and its registration.
        let seqno = self.published();
        *open.entry(seqno).or_default() += 1;
        seqno
    }

    /// Closes a view of a state.
    pub(super) fn close(&self, seqno: SeqNo) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&seqno) {
            *count -= 1;
            if *count == 0 {
                open.remove(&seqno);
            }
        }
    }

    /// Begins a read of the newest state without a longer view. The value that `begin` returns must keep
    /// what it reads alive.
    ///
    /// The state is registered while `begin` runs. Otherwise the tree could drop its last version that is
    /// old enough between the choice of the state and the read, and the read would panic.
    pub(super) fn at_newest<T>(&self, begin: impl FnOnce(SeqNo) -> T) -> T {
        let seqno = self.open();
        let begun = begin(seqno);
        self.close(seqno);
        begun
    }

    /// Entries older than this that were overwritten since are visible to no view.
    pub(super) fn horizon(&self) -> SeqNo {
        let open = self.open.lock();
        let oldest = open.first_key_value().map_or_else(|| self.published(), |(seqno, _)| *seqno);
        oldest.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_open_view_holds_the_horizon() {
        let views = Views::new(5);
        assert_eq!(views.horizon(), 4);
        let (first, again) = (views.open(), views.open());
        views.publish(9);
        let second = views.open();
        assert_eq!((first, again, second), (5, 5, 10));
        assert_eq!(views.horizon(), 4);
        views.close(first);
        assert_eq!(views.horizon(), 4);
        views.close(again);
        assert_eq!(views.horizon(), 9);
        views.close(second);
        assert_eq!(views.horizon(), 9);
    }
}
