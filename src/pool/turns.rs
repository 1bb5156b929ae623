//! Turns: bulk work lets others on between two pieces of it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::Patience;
use crate::machine::thread_time;

/// How long a thread works for those who are patient before it lets others on.
const TURN: Duration = Duration::from_micros(100);

/// Lets others on between two pieces of work on a thread of the pool, if whoever waits for them is patient.
///
/// A thread of low priority keeps a processor until the scheduler has made up for what others had before, and whoever
/// comes back for a moment waits meanwhile, half a millisecond and more on Linux 6.18. Who comes for longer, as another program
/// on the machine does, takes whole slices at each turn; so a thread works for as long as it was kept waiting before it lets
/// others on again.
pub struct Turns(Option<Instant>);

thread_local! {
    /// For how long this thread was kept waiting when it let others on, less what it worked since.
    static KEPT_WAITING: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// The time of the processor that it had taken when it was looked at last, while it makes up for that.
    static TAKEN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

impl Turns {
    /// The first turn begins.
    pub fn new(patience: Patience) -> Turns {
        Turns((patience == Patience::Bulk).then(Instant::now))
    }

    /// Another piece of work is done.
    pub fn pause(&mut self) {
        let Some(begin) = &mut self.0 else { return };
        if begin.elapsed() < TURN {
            return;
        }
        *begin = Instant::now();
        let kept_waiting = KEPT_WAITING.get();
        if !kept_waiting.is_zero() {
            let taken = thread_time();
            let worked = taken.saturating_sub(TAKEN.replace(taken));
            KEPT_WAITING.set(kept_waiting.saturating_sub(worked));
            if worked < kept_waiting {
                return;
            }
        }
        std::thread::yield_now();
        let kept_waiting = begin.elapsed();
        *begin += kept_waiting;
        // For less than a turn the next one makes up anyway, and it need not be measured.
        if kept_waiting > TURN {
            KEPT_WAITING.set(kept_waiting);
            TAKEN.set(thread_time());
        }
    }
}
