//! Whether the clock of this server is that of the store of the log. Documents expire by times that servers
//! write into the log.
//!
//! *Absent*: a correction. A server whose clock is wrong writes no times.

use lookalike_log::Log;

/// The store may note whole seconds, and the network takes time.
const MOST_MS: u64 = 5_000;

/// Whether the clock is known to be right.
pub(super) fn is_right(log: &dyn Log) -> bool {
    log.ahead_ms().is_some_and(|ahead_ms| ahead_ms.unsigned_abs() <= MOST_MS)
}

/// What is wrong with the clock, if that is so.
pub(super) fn trouble(log: &dyn Log) -> Option<String> {
    let ahead_ms = log.ahead_ms()?;
    let direction = if ahead_ms < 0 { "behind" } else { "ahead of" };
    (ahead_ms.unsigned_abs() > MOST_MS).then(|| {
        format!(
            "the clock of this server is {} s {direction} that of the store of the shared log, so it writes \
             no expiry times: synchronise it (NTP)",
            ahead_ms.unsigned_abs() / 1_000
        )
    })
}
