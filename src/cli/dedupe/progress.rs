//! The progress of a run for the user: bars with rate and time left, and the end of a run that a signal
//! stops.

use std::sync::atomic::{AtomicU8, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use super::super::Failure;

/// Ends the run if a signal asked for it.
pub(super) fn check(stop: &AtomicU8) -> Result<(), Failure> {
    match stop.load(Ordering::Relaxed) {
        0 => Ok(()),
        code => {
            let message = "stopped; the same command goes on with what was read".to_owned();
            Err(Failure { message, code })
        }
    }
}

pub(super) fn bar(what: &'static str, bytes: u64) -> ProgressBar {
    let bar = if bytes > 0 { ProgressBar::new(bytes) } else { ProgressBar::new_spinner() };
    let template = "{msg} {bar:30} {percent}% {decimal_bytes_per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.with_message(what)
}
