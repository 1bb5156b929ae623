//! The time of waits: that of the machine, or in a simulation a virtual one.

use std::future::Future;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, Either, FutureExt, select};

/// A clock that nothing but waits depends on.
pub(super) trait Time: Send + Sync + 'static {
    /// The time since some moment.
    fn now(&self) -> Duration;
    /// Waits.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// The time of the machine.
pub(super) struct Real(Instant);

impl Default for Real {
    fn default() -> Real {
        Real(Instant::now())
    }
}

impl Time for Real {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(time).boxed()
    }
}

/// The result of a future, if it comes in time.
pub(super) async fn within<T>(
    time: &dyn Time,
    limit: Duration,
    future: impl Future<Output = T> + Send,
) -> Option<T> {
    match select(std::pin::pin!(future), time.sleep(limit)).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}
