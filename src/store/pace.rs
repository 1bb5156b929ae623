//! How a compaction goes on: it looks around every few entries, and waits or gives up.
//!
//! `lsm-tree` asks a filter about every entry that a compaction writes, and an error of the filter ends the compaction.
//! The filter here keeps every entry; it is the one place from which a compaction under way can be held back:
//! - it ends when the store closes, so that a stop does not wait for it;
//! - it ends before it takes room from the reserve, which is the journal's and the memtables';
//! - one that nobody waits for sleeps two thirds of its time, and ends when somebody waits for another.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict, filter::Context};

use super::room::Room;

/// Entries after which a compaction looks around: they have less than 8 KiB each, larger values lie apart.
const ENTRIES: u32 = 128;
/// How long a compaction that nobody waits for works, and sleeps after that.
const WORK: Duration = Duration::from_millis(2);
const SLEEP: Duration = Duration::from_millis(4);

/// What compactions are to keep to.
#[derive(Default)]
pub(super) struct Pace {
    /// Without it, as in a directory that is being salvaged, room is not looked at.
    pub(super) room: OnceLock<Arc<Room>>,
    stopping: AtomicBool,
    /// Whether nobody waits for the compaction under way.
    gentle: AtomicBool,
    /// Whether somebody waits for one.
    wanted: AtomicBool,
}

impl Pace {
    /// The store closes.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Somebody waits for a compaction, or soon will.
    pub(super) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Whether a gentle compaction would give up now.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Compactions from here on are wanted, and nobody else waits for one.
    pub(super) fn serve(&self) {
        self.gentle.store(false, Ordering::Relaxed);
        self.wanted.store(false, Ordering::Relaxed);
    }

    /// Nobody waits for the compactions from here on.
    pub(super) fn be_gentle(&self) {
        self.gentle.store(true, Ordering::Relaxed);
    }

    /// Waits if need be.
    ///
    /// # Errors
    /// The reason for which a compaction is to end.
    fn look(&self, working_since: &mut Instant) -> io::Result<()> {
        if self.is_stopping() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if self.room.get().is_some_and(|room| room.spare() == 0) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if self.gentle.load(Ordering::Relaxed) {
            if self.is_wanted() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if working_since.elapsed() >= WORK {
                std::thread::sleep(SLEEP);
                *working_since = Instant::now();
            }
        }
        Ok(())
    }
}

/// Makes the filter of each compaction.
pub(super) struct Paced(pub(super) Arc<Pace>);

impl Factory for Paced {
    fn name(&self) -> &'static str {
        "pace"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Steps { pace: Arc::clone(&self.0), entries: 0, working_since: Instant::now() })
    }
}

/// One compaction on its way.
struct Steps {
    pace: Arc<Pace>,
    entries: u32,
    working_since: Instant,
}

impl CompactionFilter for Steps {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        self.entries += 1;
        // A value that lies apart may have a megabyte.
        if self.entries >= ENTRIES || item.is_indirection() {
            self.entries = 0;
            self.pace.look(&mut self.working_since)?;
        }
        Ok(Verdict::Keep)
    }
}
