//! The pace of compactions: each one checks every few entries whether to continue, wait or stop.
//!
//! `lsm-tree` calls a filter for every entry that a compaction writes, and an error of the filter ends the
//! compaction. The filter here keeps every entry. It is the only place where a running compaction can be
//! slowed or stopped:
//! - it stops when the store closes, so that closing does not wait for it;
//! - it stops before it uses the disk reserve, which is for the journal and the memtables;
//! - an optional compaction, which no writer waits for, sleeps two thirds of the time, and stops when a
//!   writer waits for another one.
//!
//! *Absent*: the choice of what to compact (`compaction`).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict, filter::Context};

use super::room::Room;

/// Entries between two checks. Each has less than 8 KiB; larger values are stored in blob files.
const ENTRIES: u32 = 128;
/// How long an optional compaction works, and how long it sleeps after that.
const WORK: Duration = Duration::from_millis(2);
const SLEEP: Duration = Duration::from_millis(4);

/// The shared state that compactions check.
#[derive(Default)]
pub(super) struct Pace {
    /// Without it, as in a directory that is being salvaged, the free disk space is not checked.
    pub(super) room: OnceLock<Arc<Room>>,
    stopping: AtomicBool,
    /// Whether compactions are optional: no writer waits for them.
    gentle: AtomicBool,
    /// Whether a writer waits for a compaction.
    wanted: AtomicBool,
}

impl Pace {
    /// Stops compactions, because the store closes.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Requests a compaction that a writer waits for, or soon will.
    pub(super) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Whether an optional compaction would stop now.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Makes the compactions from here on required, and clears the request for one.
    pub(super) fn serve(&self) {
        self.gentle.store(false, Ordering::Relaxed);
        self.wanted.store(false, Ordering::Relaxed);
    }

    /// Makes the compactions from here on optional.
    pub(super) fn be_gentle(&self) {
        self.gentle.store(true, Ordering::Relaxed);
    }

    /// Checks whether the compaction may continue, and sleeps if it is optional and has worked for `WORK`.
    ///
    /// # Errors
    /// The reason why the compaction must stop.
    fn check(&self, working_since: &mut Instant) -> io::Result<()> {
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

/// Creates the filter of each compaction.
pub(super) struct Paced(pub(super) Arc<Pace>);

impl Factory for Paced {
    fn name(&self) -> &'static str {
        "pace"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Steps { pace: Arc::clone(&self.0), entries: 0, working_since: Instant::now() })
    }
}

/// The filter of one compaction.
struct Steps {
    pace: Arc<Pace>,
    entries: u32,
    working_since: Instant,
}

impl CompactionFilter for Steps {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        self.entries += 1;
        // A value in a blob file may have a megabyte, so each of these is followed by a check.
        if self.entries >= ENTRIES || item.is_indirection() {
            self.entries = 0;
            self.pace.check(&mut self.working_since)?;
        }
        Ok(Verdict::Keep)
    }
}
