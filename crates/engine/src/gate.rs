//! A read-write lock with a timeout for the writer: many threads pass the gate concurrently, and one may
//! close it.
//!
//! It is striped. A reader locks only the stripe of its thread, so that two readers rarely write to the same
//! cache line. Closing the gate locks all stripes.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The number of stripes. If there are more threads, they share stripes.
const STRIPES: usize = 8;

/// A stripe, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Stripe(RwLock<()>);

/// See the module documentation.
#[derive(Default)]
pub(super) struct Gate([Stripe; STRIPES]);

/// A pass of the gate. The gate cannot be closed while this is held.
pub(super) type Passed<'a> = RwLockReadGuard<'a, ()>;

impl Gate {
    /// Passes the gate. Blocks while it is closed.
    pub(super) fn pass(&self) -> Passed<'_> {
        self.0[own_stripe()].0.read()
    }

    /// Closes the gate once no passes are held; `None` if that takes longer than `timeout`. New passes wait
    /// meanwhile.
    pub(super) fn close(&self, timeout: Duration) -> Option<[RwLockWriteGuard<'_, ()>; STRIPES]> {
        let end = Instant::now() + timeout;
        let closed: Option<Vec<_>> = self.0.iter().map(|stripe| stripe.0.try_write_until(end)).collect();
        closed?.try_into().ok()
    }
}

/// The stripe of this thread, assigned round-robin.
fn own_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: Cell<usize> = const { Cell::new(usize::MAX) });
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        own.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(1);

    #[test]
    fn it_closes_for_all_threads_or_for_none() {
        let gate = Gate::default();
        // More threads than stripes, so that every stripe is used.
        std::thread::scope(|threads| {
            for _ in 0..2 * STRIPES {
                let passing = threads.spawn(|| {
                    let passed = gate.pass();
                    assert!(gate.close(TIMEOUT).is_none(), "a pass is held");
                    drop(passed);
                });
                passing.join().unwrap();
            }
            let closed = gate.close(TIMEOUT).expect("no pass is held");
            let waiting: Vec<_> = (0..2 * STRIPES).map(|_| threads.spawn(|| drop(gate.pass()))).collect();
            std::thread::sleep(20 * TIMEOUT);
            assert!(waiting.iter().all(|thread| !thread.is_finished()));
            drop(closed);
            waiting.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert!(gate.close(TIMEOUT).is_some());
    }
}
