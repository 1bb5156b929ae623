//! Turns: bulk work yields its processor between two pieces of work.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::Patience;
use crate::machine::thread_time;

/// How long a thread does bulk work before it yields.
const TURN: Duration = Duration::from_micros(100);

/// Yields the processor between two pieces of bulk work on a thread of the pool.
///
/// A thread of low priority keeps its processor until the scheduler has compensated for the time that other
/// threads had before. A thread that wakes up for a short time waits meanwhile, half a millisecond and more
/// on Linux 6.18; the yield avoids that. A thread that wakes up for longer, such as one of another program,
/// takes whole slices at each yield. So after such a wait a thread works for as long as it was kept waiting
/// before it yields again.
pub struct Turns(Option<Instant>);

thread_local! {
    /// How long the last yield kept this thread waiting, less the time that it has worked since.
    static KEPT_WAITING: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// The CPU time of this thread at the last check, while it makes up for that wait.
    static CPU_TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

impl Turns {
    /// Starts the first turn. Interactive work never yields.
    pub fn new(patience: Patience) -> Turns {
        Turns((patience == Patience::Bulk).then(Instant::now))
    }

    /// Yields if the turn is over. To be called after each piece of work.
    pub fn pause(&mut self) {
        let Some(begin) = &mut self.0 else { return };
        if begin.elapsed() < TURN {
            return;
        }
        *begin = Instant::now();
        let kept_waiting = KEPT_WAITING.get();
        if !kept_waiting.is_zero() {
            let now = thread_time();
            let worked = now.saturating_sub(CPU_TIME.replace(now));
            KEPT_WAITING.set(kept_waiting.saturating_sub(worked));
            if worked < kept_waiting {
                return;
            }
        }
        std::thread::yield_now();
        let kept_waiting = begin.elapsed();
        *begin += kept_waiting;
        // A wait shorter than a turn needs no record: the next turn makes up for it.
        if kept_waiting > TURN {
            KEPT_WAITING.set(kept_waiting);
            CPU_TIME.set(thread_time());
        }
    }
}
