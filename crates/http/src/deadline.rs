//! The deadline of a request: the limit of the server, or less if the client sends `X-Timeout-Ms`.
//!
//! The time starts when the body has been read. Work that finishes when it is first polled needs no timer.

use std::task::Poll;
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use futures::FutureExt;

use super::State;
use super::error::{Code, Problem};
use lookalike_service::Limits;

/// The header with which a client asks for a shorter deadline.
const HEADER: &str = "x-timeout-ms";

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    query: Duration,
    write: Duration,
    is_from_client: bool,
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
        let deadline = Deadline { query: limits.query_time, write: limits.write_time, is_from_client: false };
        let Some(value) = headers.get(HEADER) else {
            return Ok(deadline);
        };
        let requested = value.to_str().ok().and_then(|text| text.parse::<u64>().ok()).filter(|ms| *ms > 0);
        let Some(requested) = requested.map(Duration::from_millis) else {
            let detail = "X-Timeout-Ms is a whole number of milliseconds, 1 or more";
            return Err(Problem::parameter(Code::InvalidField, "X-Timeout-Ms", detail));
        };
        let (query, write) = (deadline.query.min(requested), deadline.write.min(requested));
        Ok(Deadline { query, write, is_from_client: true })
    }

    /// The time of a write.
    pub(super) fn write_time(self) -> Duration {
        self.write
    }

    /// Runs work that changes nothing.
    pub(super) fn query<T, E, F>(self, work: F) -> impl Future<Output = Result<T, Problem>>
    where
        F: Future<Output = Result<T, E>>,
        Problem: From<E>,
    {
        let too_late = move || Err(self.problem(self.query, "limits.query_ms"));
        within(self.query, work).map(move |done| done.unwrap_or_else(too_late))
    }

    /// Runs work that changes something. After the deadline it may still take effect: the outcome is unknown.
    pub(super) fn write<T, E, F>(self, work: F) -> impl Future<Output = Result<T, Problem>>
    where
        F: Future<Output = Result<T, E>>,
        Problem: From<E>,
    {
        let too_late = move || Err(self.problem(self.write, "limits.write_ms").with_unknown_outcome());
        within(self.write, work).map(move |done| done.unwrap_or_else(too_late))
    }

    /// The time at which the last part of a write may begin, and the error of later parts, which are not
    /// applied.
    pub(super) fn end_of_writes(self) -> (Instant, Problem) {
        (Instant::now() + self.write, self.problem(self.write, "limits.write_ms").with_no_effect())
    }

    /// The deadline of a query after a write that took this long: both together take at most the time of a
    /// write.
    pub(super) fn after_write(self, elapsed: Duration) -> Deadline {
        let write = self.write.saturating_sub(elapsed);
        Deadline { query: self.query.min(write), write, ..self }
    }

    fn problem(self, time: Duration, limit: &str) -> Problem {
        let source = if self.is_from_client { "X-Timeout-Ms" } else { limit };
        let detail =
            format!("there was no answer in {} ms ({source}); request less, or try later", time.as_millis());
        Problem::new(Code::DeadlineExceeded, detail)
    }
}

/// The result, or `None` after this time. The work is boxed: an `async fn` would contain it twice, and so
/// would each future around it.
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
    async fn after_the_deadline_work_is_dropped_and_the_outcome_of_a_write_is_unknown() {
        let time = Duration::from_millis(10);
        let deadline = Deadline { query: time, write: time, is_from_client: true };
        assert_eq!(deadline.query(std::future::ready(Ok::<_, Problem>(1))).await.unwrap(), 1);
        let never = std::future::pending::<Result<(), Problem>>;
        let query = serde_json::to_value(deadline.query(never()).await.unwrap_err().body()).unwrap();
        assert_eq!((query["code"].as_str(), query["outcome"].as_str()), (Some("deadline_exceeded"), None));
        let write = serde_json::to_value(deadline.write(never()).await.unwrap_err().body()).unwrap();
        assert_eq!(write["outcome"], "unknown");
    }
}
