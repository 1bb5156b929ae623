//! Work that is the same for each of many items, on several threads, which a caller can follow and stop.
//!
//! Threads take items in shares and put the results in order, so their number does not change the result.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The items that a thread takes at a time.
const SHARE: usize = 64;

/// What a caller sees of work that runs on other threads, and how it stops it.
///
/// ```
/// use lookalike_dedupe::{Stopped, Watch, in_parallel};
///
/// let watch = Watch::default();
/// assert_eq!(in_parallel(3, 2, &watch, |number| number * number), Ok(vec![0, 1, 4]));
/// assert_eq!(watch.done(), 3);
/// watch.stop();
/// assert_eq!(in_parallel(3, 2, &watch, |number| number), Err(Stopped));
/// ```
#[derive(Debug, Default)]
pub struct Watch {
    is_stopped: AtomicBool,
    done: AtomicU64,
}

/// The work ended because [`Watch::stop`] was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work was stopped")]
pub struct Stopped;

impl Watch {
    /// Ends the work soon: within the time of some items.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// The number of items that are done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Counts items that are done.
    ///
    /// # Errors
    /// [`Stopped`] if the work is to end.
    pub fn add(&self, items: u64) -> Result<(), Stopped> {
        self.done.fetch_add(items, Ordering::Relaxed);
        if self.is_stopped.load(Ordering::Relaxed) { Err(Stopped) } else { Ok(()) }
    }
}

/// What `each` makes of the numbers from 0 to `count`, in their order, on `threads` threads (at least one).
///
/// # Errors
/// [`Stopped`] if the watch is stopped.
///
/// # Panics
/// If `each` panics.
pub fn in_parallel<T: Send>(
    count: usize,
    threads: usize,
    watch: &Watch,
    each: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, Stopped> {
    in_shares(count, (threads, SHARE), watch, |items| items.map(&each).collect())
}

/// As [`in_parallel`], of ranges of so many numbers (at least one); `each` makes a value for each number.
///
/// # Errors
/// [`Stopped`] if the watch is stopped.
///
/// # Panics
/// If `each` panics.
pub fn in_shares<T: Send>(
    count: usize,
    (threads, share_size): (usize, usize),
    watch: &Watch,
    each: impl Fn(Range<usize>) -> Vec<T> + Sync,
) -> Result<Vec<T>, Stopped> {
    let shares = count.div_ceil(share_size);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let share = next.fetch_add(1, Ordering::Relaxed);
            if share >= shares {
                return Ok(done);
            }
            watch.add(0)?;
            let made = each(share * share_size..count.min((share + 1) * share_size));
            watch.add(made.len() as u64)?;
            done.push((share, made));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(shares)).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done = done.and_then(|mut done| {
                done.extend(other?);
                Ok(done)
            });
        }
        done
    })?;
    done.sort_unstable_by_key(|(share, _)| *share);
    Ok(done.into_iter().flat_map(|(_, made)| made).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_for_any_number_of_threads() {
        for count in [0, 1, SHARE - 1, SHARE, SHARE + 1, 10 * SHARE + 3] {
            for threads in [1, 2, 7] {
                let watch = Watch::default();
                let made = in_parallel(count, threads, &watch, |number| number).unwrap();
                assert_eq!(made, (0..count).collect::<Vec<_>>());
                assert_eq!(watch.done(), count as u64);
            }
        }
    }

    #[test]
    fn work_that_is_stopped_ends_early() {
        let watch = Watch::default();
        let result = in_parallel(100 * SHARE, 2, &watch, |number| {
            if number == SHARE {
                watch.stop();
            }
        });
        assert_eq!(result, Err(Stopped));
        assert!(watch.done() < 50 * SHARE as u64);
    }
}
