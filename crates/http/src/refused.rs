//! Logs requests that failed, with a rate limit, so that a client cannot fill a disk with log lines.
//!
//! Each fault of the server (500) is logged at level error. Of the requests that the server is too busy or
//! too full for (503, 507), the first of each code is logged at level warn; the ones that follow are logged
//! at level debug, and one line a second has their number. Errors of a client are logged at level debug.

use std::time::Duration;

use axum::http::HeaderValue;
use parking_lot::Mutex;

use super::error::{Code, Reason};
use super::observe::id_text;

/// The interval of the log lines of one code.
const EVERY: Duration = Duration::from_secs(1);

/// The codes that were logged recently, each with the number of requests after that. Locked for one access.
static RECENT: Mutex<Vec<(Code, u64)>> = Mutex::new(Vec::new());

/// Logs a request that failed. It may spawn a task, so it needs a runtime.
pub(super) fn log(method: &str, route: &str, status: u16, reason: &Reason, id: &HeaderValue) {
    let (code, detail) = (reason.code.name(), &*reason.detail);
    let request_id = id_text(id);
    if reason.code.is_fault() {
        tracing::error!(method, route, status, code, detail, request_id, "a request failed");
    } else if reason.code.is_shed() && is_first(reason.code) {
        tracing::warn!(method, route, status, code, detail, request_id, "a request failed; more are counted");
        tokio::spawn(log_counts(reason.code));
    } else {
        tracing::debug!(method, route, status, code, detail, request_id, "a request was refused");
    }
}

/// Returns true if the code was not logged recently, and otherwise counts the request.
fn is_first(code: Code) -> bool {
    let mut recent = RECENT.lock();
    if let Some((_, count)) = recent.iter_mut().find(|(known, _)| *known == code) {
        *count += 1;
        return false;
    }
    recent.push((code, 0));
    true
}

/// Logs the number of requests at each interval, until one has none.
async fn log_counts(code: Code) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(requests) = take_count(code) else { return };
        tracing::warn!(requests, code = code.name(), "more requests failed within a second");
    }
}

/// Takes the number of requests since the last call; `None` if there were none, which removes the code.
fn take_count(code: Code) -> Option<u64> {
    let mut recent = RECENT.lock();
    let at = recent.iter().position(|(known, _)| *known == code)?;
    match std::mem::take(&mut recent[at].1) {
        0 => {
            recent.swap_remove(at);
            None
        }
        requests => Some(requests),
    }
}
