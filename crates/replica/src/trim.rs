//! Trimming the log: entries that enough servers have on their disks are removed from etcd.
//!
//! The server that is first in the list of live servers does it for all. It keeps the log as long as etcd has
//! much space, so that a server that was away can follow the log and needs no copy.

use std::time::Duration;

use super::{Replicas, Report, Space};
use lookalike_log::etcd::EtcdStatus;
use lookalike_log::{Log, LogError, Position};

/// How often the space of etcd is checked.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);
/// How long etcd needs to compact before its space can be reclaimed.
const SETTLE: Duration = Duration::from_secs(5);
/// The log is trimmed when it takes more than this part of the quota. A server that reads all of it lets etcd
/// take as much memory.
const PART_OF_QUOTA: u64 = 8;
/// The part of the quota, in percent, at which streams of documents are refused.
const FULL_PERCENT: u64 = 80;
/// The part of the quota, in percent, at which space that is not in use is returned to etcd.
const RECLAIM_PERCENT: u64 = 40;

impl Replicas {
    /// Trims the log if it is time and this server has to do it. Notes whether etcd is nearly full.
    pub(super) async fn trim(&self) -> Result<(), LogError> {
        let status = self.log.status().await;
        *self.space.lock() = status.as_ref().ok().map(Space::of);
        let status = status?;
        if let Some(order) = &*self.order.lock() {
            order.set_full(status.is_full() || status.used_percent() >= FULL_PERCENT);
        }
        let in_use = Space::of(&status).bytes_in_use;
        let wanted = self.settings.trim_bytes.unwrap_or(status.quota_bytes / PART_OF_QUOTA);
        let is_large = in_use > wanted || status.is_full();
        if !is_large && status.used_percent() < RECLAIM_PERCENT {
            return Ok(());
        }
        // A server that was outvoted never applies another entry of the log.
        let mut reports = self.reports().await?;
        reports.retain(|(_, report)| !report.is_outvoted);
        if reports.first().is_none_or(|(name, _)| *name != self.settings.server) {
            return Ok(());
        }
        if let Some(through) = trimmable(&reports, self.settings.min_copies).filter(|_| is_large) {
            self.log.trim(through).await?;
            tracing::info!(%through, in_use, "the shared log was trimmed");
            tokio::time::sleep(SETTLE).await;
        }
        self.log.reclaim().await?;
        Ok(())
    }
}

impl Space {
    /// The space of the servers of etcd that answer.
    pub(super) fn of(status: &EtcdStatus) -> Space {
        Space {
            bytes: status.reachable().map(|member| member.db_size).max().unwrap_or(0),
            bytes_in_use: status.reachable().map(|member| member.db_size_in_use).max().unwrap_or(0),
            quota_bytes: status.quota_bytes,
        }
    }
}

/// The last entry that all live servers have on their disks, if they are enough.
fn trimmable(reports: &[(String, Report)], min_copies: usize) -> Option<Position> {
    let least = reports.iter().map(|(_, report)| report.durable).min()?;
    (least > 0 && reports.len() >= min_copies).then_some(Position(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_enough_servers_have_is_trimmed() {
        let report = |durable| Report {
            address: String::new(),
            version: String::new(),
            position: durable + 10,
            durable,
            behind_ms: 0,
            number: 0,
            start: String::new(),
            digest: None,
            agreed: None,
            is_diverged: false,
            is_outvoted: false,
        };
        let reports = |all: &[u64]| -> Vec<(String, Report)> {
            all.iter().map(|durable| (format!("s{durable}"), report(*durable))).collect()
        };
        assert_eq!(trimmable(&reports(&[7, 5, 9]), 2), Some(Position(5)));
        assert_eq!(trimmable(&reports(&[7]), 2), None);
        assert_eq!(trimmable(&reports(&[7]), 1), Some(Position(7)));
        assert_eq!(trimmable(&reports(&[7, 0]), 2), None);
        assert_eq!(trimmable(&reports(&[]), 1), None);
    }
}
