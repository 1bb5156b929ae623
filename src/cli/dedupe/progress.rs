//! The progress of a run for the user: bars with rate and time left, and the signals that end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};

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

/// The exit code of the signal that asked the run to stop, or 0. A second signal ends the process.
pub(super) fn stop_on_signals() -> Arc<AtomicU8> {
    let stop = Arc::new(AtomicU8::new(0));
    let set = Arc::clone(&stop);
    std::thread::spawn(move || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            loop {
                let code = tokio::select! {
                    _ = tokio::signal::ctrl_c() => 130,
                    _ = terminate.recv() => 143,
                };
                if set.swap(code, Ordering::Relaxed) != 0 {
                    std::process::exit(i32::from(code));
                }
            }
        })
    });
    stop
}

pub(super) fn bar(what: &'static str, bytes: u64) -> ProgressBar {
    let bar = if bytes > 0 { ProgressBar::new(bytes) } else { ProgressBar::new_spinner() };
    let template = "{msg} {bar:30} {percent}% {decimal_bytes_per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.with_message(what)
}
