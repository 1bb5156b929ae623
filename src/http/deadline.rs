//! How long a client is answered at all: as long as the server allows, or less if the client says so.
//!
//! The time runs from when the body is there. Nothing is set for what is answered at once: only who has to wait for it
//! gets a timer.

use std::task::Poll;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use futures::FutureExt;

use super::State;
use super::error::{Code, Problem};
use crate::service::Limits;

/// The header by which a client asks for less.
const HEADER: &str = "x-timeout-ms";

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    query: Duration,
    write: Duration,
    is_asked_for: bool,
}

impl FromRequestParts<State> for Deadline {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Deadline, Problem> {
        Deadline::of(&parts.headers, state.service.limits())
    }
}

impl Deadline {
    /// The time for a request with these headers.
    pub(super) fn of(headers: &HeaderMap, limits: &Limits) -> Result<Deadline, Problem> {
        let deadline = Deadline { query: limits.query_time, write: limits.write_time, is_asked_for: false };
        let Some(value) = headers.get(HEADER) else {
            return Ok(deadline);
        };
        let asked: Option<u64> = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|ms| *ms > 0);
        let Some(asked) = asked.map(Duration::from_millis) else {
            let detail = "X-Timeout-Ms is a whole number of milliseconds, 1 or more";
            return Err(Problem::parameter(Code::InvalidField, "X-Timeout-Ms", detail));
        };
        let (query, write) = (deadline.query.min(asked), deadline.write.min(asked));
        Ok(Deadline { query, write, is_asked_for: true })
    }

    /// Does what changes nothing.
    pub(super) fn query<T, E, F>(self, work: F) -> impl Future<Output = Result<T, Problem>>
    where
        F: Future<Output = Result<T, E>>,
        Problem: From<E>,
    {
        let late = move || Err(self.problem(self.query, "limits.query_ms"));
        within(self.query, work).map(move |done| done.unwrap_or_else(late))
    }

    /// Does what changes something: it may be done all the same when nobody waits for it any more.
    pub(super) fn write<T, E, F>(self, work: F) -> impl Future<Output = Result<T, Problem>>
    where
        F: Future<Output = Result<T, E>>,
        Problem: From<E>,
    {
        let late = move || Err(self.problem(self.write, "limits.write_ms").with_unknown_outcome());
        within(self.write, work).map(move |done| done.unwrap_or_else(late))
    }

    /// The time for a question that follows a write which took so long: both together take no longer than a write may.
    pub(super) fn after_write(self, taken: Duration) -> Deadline {
        let write = self.write.saturating_sub(taken);
        Deadline { query: self.query.min(write), write, ..self }
    }

    fn problem(self, time: Duration, limit: &str) -> Problem {
        let whose = if self.is_asked_for { "X-Timeout-Ms" } else { limit };
        let detail =
            format!("there was no answer in {} ms ({whose}); ask less at a time, or later", time.as_millis());
        Problem::new(Code::DeadlineExceeded, detail)
    }
}

/// The result, if it is there in time. The work is boxed: an `async fn` would have room for it twice, and so would each
/// one around it.
fn within<T, E>(
    time: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Option<Result<T, Problem>>>
where
    Problem: From<E>,
{
    let mut work = Box::pin(work);
    let mut sleep = None;
    std::future::poll_fn(move |context| {
        if let Poll::Ready(result) = work.as_mut().poll(context) {
            return Poll::Ready(Some(result.map_err(Problem::from)));
        }
        let sleep = sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        sleep.as_mut().poll(context).map(|()| None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_late_is_given_up_and_a_write_says_that_nobody_knows() {
        let time = Duration::from_millis(10);
        let deadline = Deadline { query: time, write: time, is_asked_for: true };
        assert_eq!(deadline.query(std::future::ready(Ok::<_, Problem>(1))).await.unwrap(), 1);
        let never = std::future::pending::<Result<(), Problem>>;
        let query = serde_json::to_value(deadline.query(never()).await.unwrap_err().body()).unwrap();
        assert_eq!((query["code"].as_str(), query["outcome"].as_str()), (Some("deadline_exceeded"), None));
        let write = serde_json::to_value(deadline.write(never()).await.unwrap_err().body()).unwrap();
        assert_eq!(write["outcome"], "unknown");
    }
}
