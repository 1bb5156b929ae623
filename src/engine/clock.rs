//! The engine's clock, by which documents expire. It never goes backwards, not even across restarts.
//!
//! Within a process it advances with the monotonic clock, so changes of the wall clock have no effect. It
//! starts at the wall clock or at the last time that a commit recorded, whichever is later: an expired
//! document does not reappear if the wall clock of the machine is behind after a restart. If the wall clock
//! is *ahead* by years at a start, documents expire too early; a process cannot distinguish that from a long
//! downtime.

use std::time::{Duration, Instant};

/// A running clock.
#[derive(Debug)]
pub(super) struct Clock {
    start_ms: u64,
    started: Instant,
}

impl Clock {
    /// Starts at `wall_ms`, or at `recorded_ms` if that is later.
    pub(super) fn start(wall_ms: u64, recorded_ms: u64) -> Clock {
        let behind = Duration::from_millis(recorded_ms.saturating_sub(wall_ms));
        // A restart within one tick of the clock is not reported.
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
    fn time_begins_at_the_later_of_wall_and_record_and_advances() {
        for (wall, recorded) in [(1_000, 500), (500, 1_000), (0, 10_000), (u64::MAX, 1)] {
            let clock = Clock::start(wall, recorded);
            let first = clock.now_ms();
            assert!(first >= wall.max(recorded) && clock.now_ms() >= first);
        }
    }
}
