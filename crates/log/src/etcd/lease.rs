//! Leases: keys that end when their server is gone.

use std::time::Duration;

use super::gateway::{Gateway, Lost};
use super::refusal::Kind;
use super::wire::{Grant, Headed, Lease, LeaseId, Line};

impl Gateway {
    /// A new lease. If an earlier try was answered too late, another lease ends by itself.
    pub(super) async fn grant(&self, ttl: Duration, within: Duration) -> Result<u64, Lost> {
        let request = Grant { seconds: ttl.as_secs().max(1) };
        self.call::<Lease>("/v3/lease/grant", &request, within).await.map(|lease| lease.id)
    }

    /// Renews a lease. The result is false if it has ended.
    pub(super) async fn renew(&self, id: u64, within: Duration) -> Result<bool, Lost> {
        let line: Line<Lease> = self.call("/v3/lease/keepalive", &LeaseId { id }, within).await?;
        let answered = line.result.map(|lease| lease.seconds > 0);
        // etcd reports a lost leader in the stream; the next renewal tells.
        Ok(answered.unwrap_or(true))
    }

    /// Ends a lease and its keys.
    pub(super) async fn revoke(&self, id: u64, within: Duration) -> Result<(), Lost> {
        match self.call::<Headed>("/v3/lease/revoke", &LeaseId { id }, within).await {
            Err(Lost { kind: Kind::LeaseEnded, .. }) | Ok(_) => Ok(()),
            Err(lost) => Err(lost),
        }
    }
}
