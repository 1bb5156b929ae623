//! The memory budget: documents are rejected before the kernel kills the process, and accepted again when
//! there is memory.
//!
//! From seven tenths of the budget on, the store flushes its memtables every few seconds; the rest is mainly
//! the index, which cannot be flushed. Above four fifths of the budget no bulk writes are accepted, above
//! nine tenths no documents at all. Deletions and queries are still accepted. Each limit is lifted only when
//! a further twentieth of the budget is free: otherwise the state would alternate with every document.
//!
//! Memory is measured, not estimated, so that every use of it counts. It is measured when a write arrives,
//! at most ten times a second. The limit would be exceeded if a tenth of the budget were filled between two
//! measurements; the bounded write queue prevents that.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use crate::{Engine, EngineError, Memory, MemoryState};

/// Milliseconds for which a measurement is valid.
const VALID_MS: u64 = 100;
/// Milliseconds between two flushes.
const FLUSH_INTERVAL_MS: u64 = 2_000;

/// The budget and the last measurement.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    bytes: Option<u64>,
    measure: fn() -> Option<u64>,
    started: Instant,
    /// The time of the last measurement, in milliseconds since the start.
    measured_ms: AtomicU64,
    resident: AtomicU64,
    state: AtomicU8,
    /// The time of the last flush, in milliseconds since the start.
    flushed_ms: AtomicU64,
}

const OPEN: u8 = 0;
const NO_BULK: u8 = 1;
const FULL: u8 = 2;

impl MemoryBudget {
    /// A budget of `bytes` bytes; without one nothing is rejected.
    pub(super) fn new(bytes: Option<u64>, measure: fn() -> Option<u64>) -> MemoryBudget {
        let budget = MemoryBudget {
            bytes,
            measure,
            started: Instant::now(),
            measured_ms: AtomicU64::new(0),
            resident: AtomicU64::new(0),
            state: AtomicU8::new(OPEN),
            flushed_ms: AtomicU64::new(0),
        };
        budget.update();
        budget
    }

    /// The memory in use and the state. It measures if the last measurement is too old.
    pub(super) fn memory(&self) -> Memory {
        let now = self.elapsed_ms();
        let last = self.measured_ms.load(Ordering::Relaxed);
        // Of several concurrent callers, one measures.
        if now.saturating_sub(last) >= VALID_MS
            && self.measured_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.update();
        }
        let state = match self.state.load(Ordering::Relaxed) {
            OPEN => MemoryState::Open,
            NO_BULK => MemoryState::NoBulk,
            _ => MemoryState::Full,
        };
        Memory { resident_bytes: self.resident.load(Ordering::Relaxed), budget_bytes: self.bytes, state }
    }

    /// Whether memtables must be flushed now. Only one thread may call this.
    pub(super) fn should_flush(&self) -> bool {
        let Memory { resident_bytes, budget_bytes: Some(budget), .. } = self.memory() else {
            return false;
        };
        let now = self.elapsed_ms();
        let is_due = now.saturating_sub(self.flushed_ms.load(Ordering::Relaxed)) >= FLUSH_INTERVAL_MS;
        let should_flush = is_due && resident_bytes >= share(budget, 70);
        if should_flush {
            self.flushed_ms.store(now, Ordering::Relaxed);
        }
        should_flush
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Checks whether documents are accepted: many at once if `is_bulk`, otherwise one.
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

    fn update(&self) {
        // If memory cannot be measured, nothing is rejected.
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
            OPEN => tracing::info!(resident, budget, "the memory budget has free memory again"),
            NO_BULK => {
                tracing::warn!(
                    resident,
                    budget,
                    "the memory budget is nearly used up: bulk writes are rejected"
                );
            }
            _ => tracing::warn!(resident, budget, "the memory budget is used up: new documents are rejected"),
        }
    }
}

impl Engine {
    /// Returns the memory in use, and which writes it admits.
    pub fn memory(&self) -> Memory {
        self.shared.budget.memory()
    }

    /// Checks whether the memory budget admits documents now: many at once if `is_bulk`, otherwise one.
    /// [`Engine::write`] makes the same check.
    ///
    /// # Errors
    /// [`EngineError::MemoryFull`].
    pub fn admit(&self, is_bulk: bool) -> Result<(), EngineError> {
        self.shared.budget.admit(is_bulk)
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
    fn rejected_documents_are_accepted_again_when_memory_is_free() {
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
    fn without_a_budget_or_a_measurement_nothing_is_rejected() {
        assert!(MemoryBudget::new(None, || Some(u64::MAX)).admit(true).is_ok());
        assert!(MemoryBudget::new(Some(1), || None).admit(true).is_ok());
        let full = MemoryBudget::new(Some(1_000), || Some(950));
        assert!(matches!(
            full.admit(false),
            Err(EngineError::MemoryFull { resident: 950, budget: 1_000, .. })
        ));
        let tight = MemoryBudget::new(Some(1_000), || Some(850));
        assert!(tight.admit(false).is_ok() && tight.admit(true).is_err());
    }
}
