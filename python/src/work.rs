//! Long work without Python's lock, which Ctrl+C ends.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;

use lookalike_dedupe::Watch;

/// How often signals are handled and progress is told.
const OFTEN: Duration = Duration::from_millis(100);

/// What `work` returns, which runs on another thread and ends early if the watch is stopped. Calls
/// `progress`, if there is one, with the number of items that are done.
///
/// # Errors
/// What a signal handler or `progress` raises: it stops the watch, and its error is raised after the work has
/// ended.
///
/// # Panics
/// If `work` panics.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    watch: &Watch,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let tell = || {
        Python::attach(|py| {
            py.check_signals()?;
            progress.map_or(Ok(()), |progress| progress.call1(py, (watch.done(),)).map(drop))
        })
    };
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, ended) = channel::<()>();
            let worker = scope.spawn(move || {
                // Dropped with the work, also if it panics.
                let _done = done;
                work()
            });
            let mut raised = None;
            while ended.recv_timeout(OFTEN) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none()
                    && let Err(error) = tell()
                {
                    watch.stop();
                    raised = Some(error);
                }
            }
            let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            raised.or_else(|| tell().err()).map_or(Ok(result), Err)
        })
    })
}
