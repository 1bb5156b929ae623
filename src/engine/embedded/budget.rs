//! The memory budget: inserts are refused before the kernel kills the process, and go on when there is room.
//!
//! From seven tenths of the budget on, the store writes out what it holds in memory, and again every few seconds as
//! long as that goes on: what is left then is the index, which cannot be written out. Above four fifths of the budget nobody brings many documents at once, above nine tenths nobody brings any;
//! deletions and queries go on. What is refused is taken again when a twentieth of the budget has become free:
//! a client that tries on and on should not be let in for one document at a time.
//!
//! The memory is measured, not reckoned: whatever takes it, the kernel counts it alike. It is measured when
//! somebody wants to write, and at most ten times a second. At an insertion rate that fills a tenth of the
//! budget between two measurements the promise would not hold; the queue in front of the writer keeps it from that.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use crate::engine::{EngineError, Memory, MemoryState};

/// Milliseconds for which a measurement counts.
const FRESH_MS: u64 = 100;
/// Milliseconds between two times that memory is written out.
const RELIEF_MS: u64 = 2_000;

/// The budget and the last measurement.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: Option<u64>,
    measure: fn() -> Option<u64>,
    started: Instant,
    /// When it was measured last, in milliseconds since the start.
    measured_ms: AtomicU64,
    resident: AtomicU64,
    state: AtomicU8,
    /// When memory was written out last, in milliseconds since the start.
    relieved_ms: AtomicU64,
}

const OPEN: u8 = 0;
const NO_BULK: u8 = 1;
const FULL: u8 = 2;

impl Budget {
    /// A budget of so many bytes; without one nothing is refused.
    pub(super) fn new(bytes: Option<u64>, measure: fn() -> Option<u64>) -> Budget {
        let budget = Budget {
            bytes,
            measure,
            started: Instant::now(),
            measured_ms: AtomicU64::new(0),
            resident: AtomicU64::new(0),
            state: AtomicU8::new(OPEN),
            relieved_ms: AtomicU64::new(0),
        };
        budget.take_measure();
        budget
    }

    /// How things stand, measured a moment ago.
    pub(super) fn memory(&self) -> Memory {
        let now = self.elapsed_ms();
        let last = self.measured_ms.load(Ordering::Relaxed);
        // Of several that come at once one measures.
        if now.saturating_sub(last) >= FRESH_MS
            && self.measured_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.take_measure();
        }
        let state = match self.state.load(Ordering::Relaxed) {
            OPEN => MemoryState::Open,
            NO_BULK => MemoryState::NoBulk,
            _ => MemoryState::Full,
        };
        Memory { resident_bytes: self.resident.load(Ordering::Relaxed), budget_bytes: self.bytes, state }
    }

    /// Whether memory is to be written out now; asked by one thread.
    pub(super) fn wants_relief(&self) -> bool {
        let Memory { resident_bytes, budget_bytes: Some(budget), .. } = self.memory() else {
            return false;
        };
        let now = self.elapsed_ms();
        let rested = now.saturating_sub(self.relieved_ms.load(Ordering::Relaxed)) >= RELIEF_MS;
        let wants = rested && resident_bytes >= share(budget, 70);
        if wants {
            self.relieved_ms.store(now, Ordering::Relaxed);
        }
        wants
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether documents are taken, one or many at once.
    pub(super) fn admit(&self, is_bulk: bool) -> Result<(), EngineError> {
        let memory = self.memory();
        let refused = match memory.state {
            MemoryState::Open => false,
            MemoryState::NoBulk => is_bulk,
            MemoryState::Full => true,
        };
        match memory.budget_bytes {
            Some(budget) if refused => {
                Err(EngineError::MemoryFull { resident: memory.resident_bytes, budget, state: memory.state })
            }
            _ => Ok(()),
        }
    }

    fn take_measure(&self) {
        // What cannot be measured is not held against anyone.
        let Some(resident) = (self.measure)() else {
            return;
        };
        self.resident.store(resident, Ordering::Relaxed);
        let Some(budget) = self.bytes else {
            return;
        };
        let before = self.state.load(Ordering::Relaxed);
        let state = judge(before, resident, budget);
        if self.state.swap(state, Ordering::Relaxed) == state {
            return;
        }
        match state {
            OPEN => tracing::info!(resident, budget, "there is room in the memory budget again"),
            NO_BULK => {
                tracing::warn!(
                    resident,
                    budget,
                    "the memory budget is nearly used up: many documents at once are refused"
                );
            }
            _ => tracing::warn!(resident, budget, "the memory budget is used up: new documents are refused"),
        }
    }
}

fn share(budget: u64, percent: u64) -> u64 {
    (u128::from(budget) * u128::from(percent) / 100) as u64
}

fn judge(before: u8, resident: u64, budget: u64) -> u8 {
    let share = |percent| share(budget, percent);
    let above =
        |state: u8, percent: u64| resident >= share(if before >= state { percent - 5 } else { percent });
    if above(FULL, 90) {
        FULL
    } else if above(NO_BULK, 80) {
        NO_BULK
    } else {
        OPEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_taken_again_when_there_is_room() {
        let mut state = OPEN;
        for (resident, wanted) in [
            (0, OPEN),
            (799, OPEN),
            (800, NO_BULK),
            (799, NO_BULK),
            (750, NO_BULK),
            (749, OPEN),
            (899, NO_BULK),
            (900, FULL),
            (860, FULL),
            (849, NO_BULK),
            (2_000, FULL),
            (10, OPEN),
        ] {
            state = judge(state, resident, 1_000);
            assert_eq!(state, wanted, "{resident}");
        }
        assert_eq!(judge(OPEN, u64::MAX, u64::MAX), FULL);
    }

    #[test]
    fn without_a_budget_or_a_measure_nothing_is_refused() {
        assert!(Budget::new(None, || Some(u64::MAX)).admit(true).is_ok());
        assert!(Budget::new(Some(1), || None).admit(true).is_ok());
        let full = Budget::new(Some(1_000), || Some(950));
        assert!(matches!(
            full.admit(false),
            Err(EngineError::MemoryFull { resident: 950, budget: 1_000, .. })
        ));
        let tight = Budget::new(Some(1_000), || Some(850));
        assert!(tight.admit(false).is_ok() && tight.admit(true).is_err());
    }
}
