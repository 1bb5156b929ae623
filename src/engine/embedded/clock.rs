//! The engine's time, by which documents expire: it never goes back, not over restarts either.
//!
//! Inside a process it advances by the monotonic clock, so a wall clock that is set does nothing. It begins at
//! the wall clock or at the last time that a commit recorded, whichever is later: a document that had expired
//! does not come back because a machine woke up in the past. A wall clock that is wrong by years *ahead* at a
//! start does expire what would have lasted until then; nothing in a process can tell that from a long sleep.

use std::time::{Duration, Instant};

/// A clock that was started.
#[derive(Debug)]
pub(super) struct Clock {
    start_ms: u64,
    started: Instant,
}

impl Clock {
    /// Starts at `wall_ms`, or at `recorded_ms` if that is later.
    pub(super) fn start(wall_ms: u64, recorded_ms: u64) -> Clock {
        let behind = Duration::from_millis(recorded_ms.saturating_sub(wall_ms));
        // A crash and a start within the tick of a clock are no step.
        if behind > Duration::from_secs(1) {
            tracing::warn!(
                ?behind,
                "the wall clock is behind the last recorded time; documents expire by the recorded time"
            );
        }
        Clock { start_ms: wall_ms.max(recorded_ms), started: Instant::now() }
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub(super) fn now_ms(&self) -> u64 {
        let since = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.start_ms.saturating_add(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_begins_at_the_later_of_wall_and_record_and_goes_on() {
        for (wall, recorded) in [(1_000, 500), (500, 1_000), (0, 10_000), (u64::MAX, 1)] {
            let clock = Clock::start(wall, recorded);
            let first = clock.now_ms();
            assert!(first >= wall.max(recorded) && clock.now_ms() >= first);
        }
    }
}
