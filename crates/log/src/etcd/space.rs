//! The space of etcd: how much is used, what a trim frees, and how it becomes usable again.
//!
//! etcd counts the size of its file against the quota. A compaction makes pages of the file free for later
//! writes, but only a defragmentation makes the file smaller. It stops its server for the time that the
//! copy of the used pages takes, so it runs on one server after another, and only if it frees much.
//!
//! *Absent*: the choice of one lookalike server that calls this. Two at a time could stop two etcd servers.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::gateway::{Gateway, Lost, encode};
use super::refusal::Kind;
use super::wire::{AlarmAnswer, AlarmRequest, Compaction, Headed, Nothing, StatusAnswer};
use crate::{Failure, LogError, Position};

/// etcd's quota, unless it is started with another one.
const DEFAULT_QUOTA: u64 = 2 << 30;
/// How long a quota is believed: it changes only when etcd is restarted.
const QUOTA_AGE: Duration = Duration::from_mins(1);
const QUOTA_METRIC: &str = "etcd_server_quota_backend_bytes ";
/// A defragmentation copies the used pages: 8 GiB at 50 MB/s take three minutes.
const DEFRAGMENT_TIMEOUT: Duration = Duration::from_mins(5);
/// The pause between defragmentations while etcd refuses writes. It then reports freed pages as used, because
/// it counts them only when something is written; so only a defragmentation shows whether a trim has freed
/// enough.
const FULL_PAUSE: Duration = Duration::from_secs(20);
/// The share of the quota below which an alarm is cleared, in percent.
const CLEAR_PERCENT: u64 = 80;
const NO_SPACE: &str = "NOSPACE";

/// The state of etcd.
#[derive(Debug)]
pub struct EtcdStatus {
    /// Its servers, in the order of the endpoints.
    pub endpoints: Vec<EndpointStatus>,
    /// The alarms: `NOSPACE` refuses writes until [`super::EtcdLog::reclaim`] has found space; `CORRUPT`
    /// needs the operator.
    pub alarms: Vec<Alarm>,
    /// The space that each server may use, in bytes.
    pub quota_bytes: u64,
}

/// An endpoint.
#[derive(Debug)]
pub struct EndpointStatus {
    /// Its URL.
    pub url: String,
    /// The state of its server, or why it does not answer.
    pub state: Result<MemberStatus, Failure>,
}

/// The state of one etcd server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its identity.
    pub member: u64,
    /// Its version.
    pub version: String,
    /// The identity of the server that it follows; 0 for none.
    pub leader: u64,
    /// The size of its file, in bytes. This counts against the quota.
    pub db_size: u64,
    /// How much of the file is used.
    pub db_size_in_use: u64,
}

/// An alarm of one etcd server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// The identity of the server.
    pub member: u64,
    /// Its kind: `NOSPACE` or `CORRUPT`.
    pub kind: String,
}

/// What [`super::EtcdLog::reclaim`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// How many servers were defragmented.
    defragmented: usize,
    /// By how much their files became smaller, in bytes.
    pub bytes: u64,
    /// Whether an alarm for space was cleared.
    pub is_alarm_cleared: bool,
}

impl EtcdStatus {
    /// The states of the servers that answer.
    pub fn reachable(&self) -> impl Iterator<Item = &MemberStatus> {
        self.endpoints.iter().filter_map(|endpoint| endpoint.state.as_ref().ok())
    }

    /// The size of the largest file, in percent of the quota.
    pub fn used_percent(&self) -> u64 {
        let largest = self.reachable().map(|member| member.db_size).max().unwrap_or_default();
        largest.saturating_mul(100) / self.quota_bytes.max(1)
    }

    /// Whether etcd refuses writes because its space is used up.
    pub fn is_full(&self) -> bool {
        self.alarms.iter().any(|alarm| alarm.kind == NO_SPACE)
    }
}

/// The space of etcd.
pub(super) struct Space {
    gateway: Arc<Gateway>,
    timeout: Duration,
    quota: Mutex<Option<(Instant, u64)>>,
    /// When etcd was last defragmented because it refused writes.
    tried: Mutex<Option<Instant>>,
}

impl Space {
    pub(super) fn new(gateway: Arc<Gateway>, timeout: Duration) -> Space {
        Space { gateway, timeout, quota: Mutex::new(None), tried: Mutex::new(None) }
    }

    /// Removes what is older than a position.
    pub(super) async fn compact(&self, through: Position) -> Result<(), Lost> {
        let request = Compaction { revision: through.0 };
        match self.gateway.call::<Headed>("/v3/kv/compaction", &request, self.timeout).await {
            // It was removed before, perhaps by an earlier try.
            Err(Lost { kind: Kind::Compacted, .. }) | Ok(_) => Ok(()),
            Err(lost) => Err(lost),
        }
    }

    pub(super) async fn status(&self) -> Result<EtcdStatus, LogError> {
        let request = AlarmRequest { action: "GET", member: 0, alarm: None };
        let alarms = self.gateway.call::<AlarmAnswer>("/v3/maintenance/alarm", &request, self.timeout);
        let endpoints = join_all((0..self.gateway.len()).map(|at| self.endpoint(at)));
        let (alarms, endpoints, quota_bytes) = futures::join!(alarms, endpoints, self.quota());
        let alarms = alarms.map_err(|lost| self.gateway.error(lost))?.alarms.into_iter();
        let alarms = alarms.map(|alarm| Alarm { member: alarm.member, kind: alarm.alarm }).collect();
        Ok(EtcdStatus { endpoints, alarms, quota_bytes })
    }

    async fn endpoint(&self, at: usize) -> EndpointStatus {
        let body = encode(&Nothing {});
        let patience = self.gateway.first_try();
        let asked = self.gateway.attempt::<StatusAnswer>(at, "/v3/maintenance/status", body, patience).await;
        let state = asked.map(|answer| MemberStatus {
            member: answer.header.member_id,
            version: answer.version,
            leader: answer.leader,
            db_size: answer.db_size,
            db_size_in_use: answer.db_size_in_use,
        });
        EndpointStatus { url: self.gateway.url(at).to_owned(), state }
    }

    /// The smallest quota of the servers, which only their metrics tell.
    async fn quota(&self) -> u64 {
        let known = *self.quota.lock();
        if let Some((_, quota)) = known.filter(|(since, _)| since.elapsed() < QUOTA_AGE) {
            return quota;
        }
        let pages = join_all((0..self.gateway.len()).map(|at| self.gateway.metrics(at))).await;
        let found = pages.iter().filter_map(|page| quota_in(page.as_ref().ok()?)).min();
        if let Some(quota) = found {
            *self.quota.lock() = Some((Instant::now(), quota));
        }
        found.unwrap_or(DEFAULT_QUOTA)
    }

    pub(super) async fn reclaim(&self) -> Result<Reclaimed, LogError> {
        let before = self.status().await?;
        let mut reclaimed = Reclaimed::default();
        let is_urgent = before.is_full() && self.may_try_again();
        for at in defragment_order(&before, is_urgent) {
            let (route, body) = ("/v3/maintenance/defragment", encode(&Nothing {}));
            let done = self.gateway.attempt::<Headed>(at, route, body, DEFRAGMENT_TIMEOUT).await;
            if let Err(failure) = done {
                return Err(self.gateway.error(Lost::of(failure)));
            }
            reclaimed.defragmented += 1;
        }
        if reclaimed.defragmented == 0 && !before.is_full() {
            return Ok(reclaimed);
        }
        let after = self.status().await?;
        let size = |status: &EtcdStatus| status.reachable().map(|member| member.db_size).sum::<u64>();
        reclaimed.bytes = size(&before).saturating_sub(size(&after));
        if after.is_full() && after.used_percent() < CLEAR_PERCENT {
            self.clear_alarms(&after).await?;
            reclaimed.is_alarm_cleared = true;
        }
        tracing::info!(?reclaimed, "etcd's space was reclaimed");
        Ok(reclaimed)
    }

    /// Whether the last defragmentation of a full etcd is long enough ago; if so, another one begins now.
    fn may_try_again(&self) -> bool {
        let mut tried = self.tried.lock();
        let may = tried.is_none_or(|since| since.elapsed() >= FULL_PAUSE);
        if may {
            *tried = Some(Instant::now());
        }
        may
    }

    async fn clear_alarms(&self, status: &EtcdStatus) -> Result<(), LogError> {
        for alarm in status.alarms.iter().filter(|alarm| alarm.kind == NO_SPACE) {
            let request = AlarmRequest { action: "DEACTIVATE", member: alarm.member, alarm: Some(NO_SPACE) };
            let cleared =
                self.gateway.call::<AlarmAnswer>("/v3/maintenance/alarm", &request, self.timeout).await;
            cleared.map_err(|lost| self.gateway.error(lost))?;
        }
        Ok(())
    }
}

/// The endpoints whose servers are worth a defragmentation, or all of them if it is urgent. The leader is the
/// last: elections are rarer then.
fn defragment_order(status: &EtcdStatus, is_urgent: bool) -> Vec<usize> {
    let members = status.endpoints.iter().enumerate();
    let mut order: Vec<(bool, usize)> = members
        .filter_map(|(at, endpoint)| Some((at, endpoint.state.as_ref().ok()?)))
        .filter(|(_, member)| is_urgent || is_worthwhile(member, status.quota_bytes))
        .map(|(at, member)| (member.member == member.leader, at))
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

/// Whether a defragmentation frees much: half of a file that is at least a quarter of the quota.
fn is_worthwhile(member: &MemberStatus, quota: u64) -> bool {
    let free = member.db_size.saturating_sub(member.db_size_in_use);
    free >= member.db_size / 2 && member.db_size >= quota / 4
}

/// The quota in a page of metrics, which prints it as a floating-point number.
fn quota_in(page: &str) -> Option<u64> {
    let text = page.lines().find_map(|line| line.strip_prefix(QUOTA_METRIC))?;
    let bytes: f64 = text.trim().parse().ok()?;
    (bytes > 0.0).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(db_size: u64, db_size_in_use: u64) -> MemberStatus {
        MemberStatus { member: 1, version: String::new(), leader: 1, db_size, db_size_in_use }
    }

    #[test]
    fn a_quota_is_read_from_metrics() {
        let page =
            "# TYPE etcd_server_quota_backend_bytes gauge\netcd_server_quota_backend_bytes 2e+07\nx 1\n";
        assert_eq!(quota_in(page), Some(20_000_000));
        assert_eq!(quota_in("etcd_server_quota_backend_bytes 2.147483648e+09"), Some(DEFAULT_QUOTA));
        assert_eq!(quota_in("etcd_server_quota_backend_bytes 0"), None);
        assert_eq!(quota_in("<html>"), None);
    }

    #[test]
    fn a_defragmentation_must_free_much() {
        assert!(is_worthwhile(&member(50, 25), 100));
        assert!(!is_worthwhile(&member(50, 26), 100), "less than half is free");
        assert!(!is_worthwhile(&member(24, 0), 100), "the file is small");
    }

    #[test]
    fn the_leader_is_defragmented_last() {
        let endpoint = |member: u64, leader| EndpointStatus {
            url: String::new(),
            state: Ok(MemberStatus { member, leader, ..self::member(50, 1) }),
        };
        let endpoints = vec![endpoint(7, 7), endpoint(8, 7), endpoint(9, 7)];
        let status = EtcdStatus { endpoints, alarms: vec![], quota_bytes: 100 };
        assert_eq!(defragment_order(&status, false), [1, 2, 0]);
        assert_eq!(status.used_percent(), 50);
    }
}
