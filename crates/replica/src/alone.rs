//! A server that alone writes, and acknowledges before the log has the entries (`order/sender`): what differs
//! for it.
//!
//! Two servers that do this never go on side by side, since each makes entry n as the object n or stops
//! (`order/sender`). The list of servers only lets a second one be refused at its start, before it harms the
//! first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{RETRY, ReplicaError, ReplicaSettings, Replicas, Report, Unsent};
use lookalike_engine::Engine;
use lookalike_log::objects::ObjectLog;

/// How long a server that was killed may be on the list.
const GONE: Duration = Duration::from_secs(12);

/// Refuses a server if only one may use the log and another one does. A log that is not reached refuses
/// nobody.
pub(super) async fn check(log: &ObjectLog, settings: &ReplicaSettings) -> Result<(), ReplicaError> {
    let begun = Instant::now();
    loop {
        let Ok(members) = log.members().await else { return Ok(()) };
        let is_in_the_way = |value: &[u8]| {
            let is_ahead = serde_json::from_slice(value).is_ok_and(|report: Report| report.is_ahead);
            settings.behind.is_some() || is_ahead
        };
        let other = members.iter().find(|(name, value)| *name != settings.server && is_in_the_way(value));
        let Some((other, _)) = other else { return Ok(()) };
        if begun.elapsed() >= GONE {
            let _ = log.leave().await;
            return Err(ReplicaError::NotAlone(other.clone()));
        }
        tracing::info!(%other, "waiting until this server is alone with the shared log");
        // The age of the other's report is counted from this one.
        if log.tell(&[]).await.is_err() {
            return Ok(());
        }
        tokio::time::sleep(RETRY).await;
    }
}

impl Replicas {
    /// Whether this server alone writes, and acknowledges before the log has the entries.
    pub(super) fn is_ahead(&self) -> bool {
        self.settings.behind.is_some()
    }

    /// [`Replicas::catch_up`] of such a server.
    pub(super) async fn begin_ahead(&self, engine: &Arc<Engine>) -> bool {
        let order = self.order.lock().clone();
        if let Some(order) = order {
            order.begun().await;
        }
        if self.log_trouble().is_some_and(|trouble| trouble.is_trimmed) {
            return false;
        }
        let _ = self.engine.set(Arc::clone(engine));
        true
    }

    /// What the store of the log lacks; `None` if each write waits for it.
    pub fn unsent(&self) -> Option<Unsent> {
        let order = self.order.lock().clone().filter(|_| self.is_ahead())?;
        Some(order.unsent())
    }

    /// Why writes are refused because the log lacks too much, if that is so.
    pub(super) fn refusal(&self) -> Option<String> {
        self.order.lock().as_ref()?.refusal()
    }
}
