//! Lines in the log about requests that were not done, in such a number that a client cannot fill a disk with
//! them.
//!
//! A fault of the server (500) gets a line each, at level error. Of what the server is too busy or too full
//! for (503, 507) the first of a kind gets a line, and for as long as more come, one line a second says how
//! many; each of them is told at level debug. What a client got wrong is told at level debug alone.

use std::time::Duration;

use axum::http::HeaderValue;
use parking_lot::Mutex;

use super::error::{Code, Reason};
use super::observe::id_text;

/// How often the requests of a kind are told.
const EVERY: Duration = Duration::from_secs(1);

/// Kinds of which a request was told lately, each with how many came since. Locked for one look or change.
static LATELY: Mutex<Vec<(Code, u64)>> = Mutex::new(Vec::new());

/// Tells of a request that was not done. To be called where tasks can be spawned.
pub(super) fn tell(method: &str, route: &str, status: u16, reason: &Reason, id: &HeaderValue) {
    let (code, detail) = (reason.code.name(), &*reason.detail);
    let request_id = id_text(id);
    if reason.code.is_fault() {
        tracing::error!(method, route, status, code, detail, request_id, "a request failed");
    } else if reason.code.is_shed() && is_first(reason.code) {
        tracing::warn!(method, route, status, code, detail, request_id, "a request failed; more are counted");
        tokio::spawn(count(reason.code));
    } else {
        tracing::debug!(method, route, status, code, detail, request_id, "a request was refused");
    }
}

/// Whether no request of this kind was told lately; counts it otherwise.
fn is_first(code: Code) -> bool {
    let mut lately = LATELY.lock();
    if let Some((_, more)) = lately.iter_mut().find(|(known, _)| *known == code) {
        *more += 1;
        return false;
    }
    lately.push((code, 0));
    true
}

/// Tells how many came, until none came for a while.
async fn count(code: Code) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(requests) = more(code) else { return };
        tracing::warn!(requests, code = code.name(), "more requests failed within a second");
    }
}

/// How many came since the last look; forgets the kind if none did.
fn more(code: Code) -> Option<u64> {
    let mut lately = LATELY.lock();
    let at = lately.iter().position(|(known, _)| *known == code)?;
    match std::mem::take(&mut lately[at].1) {
        0 => {
            lately.swap_remove(at);
            None
        }
        requests => Some(requests),
    }
}
