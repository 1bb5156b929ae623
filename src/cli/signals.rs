//! The signals that ask a command to stop, for commands that stop at a place where they can go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::signal::unix::{SignalKind, signal};

/// The exit code of the signal that asked the process to stop, or 0. A second signal ends the process.
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
