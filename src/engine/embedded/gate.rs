//! A gate that many pass at once and that one may close for a moment.
//!
//! Whoever passes holds one of several doors, that of its thread, so that two threads do not write to the same line of
//! memory for it; who closes the gate closes all doors.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Doors of a gate; more threads share them.
const DOORS: usize = 8;

/// A door in lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Door(RwLock<()>);

/// See the module.
#[derive(Default)]
pub(super) struct Gate([Door; DOORS]);

/// Has passed the gate, which stays open as long as this is held.
pub(super) type Passed<'a> = RwLockReadGuard<'a, ()>;

impl Gate {
    /// Passes, after the one who has closed it, if somebody has.
    pub(super) fn pass(&self) -> Passed<'_> {
        self.0[own_door()].0.read()
    }

    /// Closes it when all who have passed are gone, if they are within this time; who comes meanwhile waits.
    pub(super) fn close(&self, patience: Duration) -> Option<[RwLockWriteGuard<'_, ()>; DOORS]> {
        let end = Instant::now() + patience;
        let closed: Option<Vec<_>> = self.0.iter().map(|door| door.0.try_write_until(end)).collect();
        closed?.try_into().ok()
    }
}

/// The door of this thread, by turns.
fn own_door() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: Cell<usize> = const { Cell::new(usize::MAX) });
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed) % DOORS);
        }
        own.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    #[test]
    fn it_is_closed_to_all_or_to_nobody() {
        let gate = Gate::default();
        // More threads than doors, so that each door is one's.
        std::thread::scope(|threads| {
            for _ in 0..2 * DOORS {
                let passing = threads.spawn(|| {
                    let passed = gate.pass();
                    assert!(gate.close(MOMENT).is_none(), "somebody has passed");
                    drop(passed);
                });
                passing.join().unwrap();
            }
            let closed = gate.close(MOMENT).expect("nobody has passed");
            let waiting: Vec<_> = (0..2 * DOORS).map(|_| threads.spawn(|| drop(gate.pass()))).collect();
            std::thread::sleep(20 * MOMENT);
            assert!(waiting.iter().all(|thread| !thread.is_finished()));
            drop(closed);
            waiting.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert!(gate.close(MOMENT).is_some());
    }
}
