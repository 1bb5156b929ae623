//! The other servers of a cluster with partitions: which of them hold what, and questions to them.
//!
//! *Guarantees*
//! - A partition is asked from one live holder. If that fails, or takes longer than nearly all answers
//!   before, another one is asked, and the first answer counts.
//! - If no holder of a partition answers, the whole question fails: no answer lacks a partition.
//!
//! *Absent*: the meaning of questions and answers (`engine`), and their form (`wire`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select, try_join_all};
use parking_lot::Mutex;
use reqwest::{Method, header};

use super::{ClusterSettings, Report, wire};
use crate::client::{Client, ClientError, Trust};
use crate::engine::{Elsewhere, EngineError, PartAnswer, PartAsk, Partitions};
use crate::log::etcd::EtcdLog;

/// How long one server may take.
const WITHIN: Duration = Duration::from_secs(5);
/// The number of answers by whose times another server is asked in addition.
const TIMES: usize = 128;
/// The time after which another server is asked, before there are as many answers, and at least.
const FIRST_HEDGE: Duration = Duration::from_millis(100);
const LEAST_HEDGE: Duration = Duration::from_millis(10);
/// How often the list of servers is read because a holder is missing.
const REFRESH: Duration = Duration::from_millis(200);

/// Another server.
struct Holder {
    name: String,
    address: String,
    holds: BTreeSet<u32>,
    client: Client,
}

/// A server, and the partitions for which it is to answer.
type Chosen = (Arc<Holder>, BTreeSet<u32>);

/// The other servers.
pub(super) struct Peers {
    settings: ClusterSettings,
    log: EtcdLog,
    partitions: Arc<Partitions>,
    /// When the list of servers was last read because a holder was missing. Locked while it is read.
    refreshed: tokio::sync::Mutex<Option<Instant>>,
    /// The live ones that may answer.
    holders: Mutex<Arc<[Arc<Holder>]>>,
    /// How long the last answers took, by kind of question.
    times: [Mutex<Times>; KINDS],
    /// The last entry of the log whose effect an answer of another server may have had.
    visible: AtomicU64,
    /// Spreads questions over the holders of a partition.
    turn: AtomicUsize,
}

#[derive(Default)]
struct Times {
    last: Vec<Duration>,
    next: usize,
}

impl Times {
    fn add(&mut self, took: Duration) {
        if self.last.len() < TIMES {
            self.last.push(took);
        } else {
            self.last[self.next] = took;
            self.next = (self.next + 1) % TIMES;
        }
    }

    /// The time that nineteen of twenty answers took at most.
    fn hedge(&self) -> Duration {
        if self.last.len() < TIMES {
            return FIRST_HEDGE;
        }
        let mut sorted = self.last.clone();
        sorted.sort_unstable();
        sorted[TIMES * 95 / 100].max(LEAST_HEDGE)
    }
}

/// The number of kinds of questions that another server is asked too if one is slow.
const KINDS: usize = 4;

/// The kind of a question; `None` if it is asked only once, because it may read all rows.
fn kind(ask: &PartAsk) -> Option<usize> {
    match ask {
        PartAsk::Near(..) => Some(0),
        PartAsk::Get(..) => Some(1),
        PartAsk::List(..) => Some(2),
        PartAsk::Outcomes(..) => Some(3),
        PartAsk::Count(_) => None,
    }
}

/// A question to other servers.
#[derive(Clone)]
struct Asked {
    ask: PartAsk,
    at_least: u64,
}

/// Why a server gave no answer.
enum Lost {
    /// Another server may give one.
    Server(Reason),
    /// All servers would say the same.
    Question(EngineError),
}

/// Why no server answers for some partitions.
enum Reason {
    /// The last one that was asked has too much to do.
    Busy(String),
    /// The last one that was asked failed.
    Failed(String),
}

impl Reason {
    fn of(self, partitions: BTreeSet<u32>) -> EngineError {
        match self {
            Reason::Busy(reason) => EngineError::PartitionBusy { partitions, reason },
            Reason::Failed(reason) => EngineError::unavailable(partitions, reason),
        }
    }
}

impl Peers {
    pub(super) fn new(settings: &ClusterSettings, log: EtcdLog) -> Peers {
        Peers {
            settings: settings.clone(),
            log,
            partitions: Arc::new(settings.partitions.clone()),
            refreshed: tokio::sync::Mutex::default(),
            holders: Mutex::new(Arc::new([])),
            times: std::array::from_fn(|_| Mutex::default()),
            visible: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
        }
    }

    pub(super) fn partitions(&self) -> &Arc<Partitions> {
        &self.partitions
    }

    /// The last entry of the log whose effect an answer of another server may have had.
    pub(super) fn visible(&self) -> u64 {
        self.visible.load(Ordering::SeqCst)
    }

    /// Takes the list of live servers.
    pub(super) fn observe(&self, reports: &[(String, Report)]) {
        let before = Arc::clone(&self.holders.lock());
        let may_answer =
            |(name, report): &&(String, Report)| *name != self.settings.server && !report.is_diverged;
        let holders = reports.iter().filter(may_answer).filter_map(|(name, report)| {
            let known = before.iter().find(|known| known.name == *name && known.address == report.address);
            let holds: BTreeSet<u32> = report.holds.iter().copied().collect();
            if let Some(known) = known.filter(|known| known.holds == holds) {
                return Some(Arc::clone(known));
            }
            let trust = self.settings.peer_ca_file.as_deref().map_or(Trust::System, Trust::Authorities);
            let client = Client::new(&report.address, self.settings.peer_key.clone(), trust);
            let client = client.inspect_err(
                |error| tracing::warn!(%error, server = %name, "a server of the cluster cannot be asked"),
            );
            let (name, address) = (name.clone(), report.address.clone());
            Some(Arc::new(Holder { name, address, holds, client: client.ok()? }))
        });
        let holders = holders.collect();
        *self.holders.lock() = holders;
    }

    /// Reads the list of live servers, unless that was done a moment ago. A server that has just started may
    /// be missing in the present one.
    async fn refresh(&self) {
        let mut refreshed = self.refreshed.lock().await;
        if refreshed.is_none_or(|last| last.elapsed() >= REFRESH) {
            match super::status::reports(&self.log).await {
                Ok(reports) => self.observe(&reports),
                Err(error) => tracing::debug!(%error, "the list of servers is not known"),
            }
            *refreshed = Some(Instant::now());
        }
    }

    /// As [`Peers::choose`] for servers that may have started a moment ago.
    async fn find(&self, wanted: &BTreeSet<u32>) -> Result<Vec<Chosen>, EngineError> {
        let choose = || {
            let chosen = self.choose(wanted.clone(), &BTreeSet::new());
            chosen.map_err(|missing| EngineError::unavailable(missing, "none is alive"))
        };
        match choose() {
            Err(_) => {
                self.refresh().await;
                choose()
            }
            chosen => chosen,
        }
    }

    /// Asks the servers that were chosen.
    async fn ask_all(
        self: Arc<Self>,
        asked: Asked,
        chosen: Vec<Chosen>,
        tried: BTreeSet<String>,
    ) -> Result<Vec<PartAnswer>, EngineError> {
        let one = |(holder, part)| Arc::clone(&self).one(asked.clone(), holder, part, tried.clone());
        Ok(try_join_all(chosen.into_iter().map(one)).await?.into_iter().flatten().collect())
    }

    /// Servers that together hold these partitions, each with those that it is to answer for; not those that
    /// were tried. The error is the partitions that nobody else holds.
    fn choose(
        &self,
        mut wanted: BTreeSet<u32>,
        tried: &BTreeSet<String>,
    ) -> Result<Vec<Chosen>, BTreeSet<u32>> {
        let holders = Arc::clone(&self.holders.lock());
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut chosen = Vec::new();
        while !wanted.is_empty() {
            let untried = |at: usize| {
                let holder = &holders[(turn + at) % holders.len()];
                Some(holder).filter(|holder| !tried.contains(&holder.name))
            };
            let covered = |holder: &&Arc<Holder>| holder.holds.intersection(&wanted).count();
            let best = (0..holders.len()).filter_map(untried).filter(|holder| covered(holder) > 0);
            let Some(best) =
                best.reduce(|best, next| if covered(&next) > covered(&best) { next } else { best })
            else {
                return Err(wanted);
            };
            let part: BTreeSet<u32> = best.holds.intersection(&wanted).copied().collect();
            wanted.retain(|partition| !part.contains(partition));
            chosen.push((Arc::clone(best), part));
        }
        Ok(chosen)
    }

    /// Asks servers that were not tried.
    fn spread(
        self: Arc<Self>,
        asked: Asked,
        wanted: BTreeSet<u32>,
        tried: BTreeSet<String>,
        reason: Reason,
    ) -> BoxFuture<'static, Result<Vec<PartAnswer>, EngineError>> {
        async move {
            let chosen = self.choose(wanted, &tried).map_err(|missing| reason.of(missing))?;
            self.ask_all(asked, chosen, tried).await
        }
        .boxed()
    }

    /// Asks a server, and others if it fails or is slow.
    async fn one(
        self: Arc<Self>,
        asked: Asked,
        holder: Arc<Holder>,
        part: BTreeSet<u32>,
        mut tried: BTreeSet<String>,
    ) -> Result<Vec<PartAnswer>, EngineError> {
        tried.insert(holder.name.clone());
        let hedge = kind(&asked.ask).map_or(WITHIN, |kind| self.times[kind].lock().hedge());
        let mut first = Arc::clone(&self).send(asked.clone(), holder, part.clone()).boxed();
        let reason = match tokio::time::timeout(hedge, &mut first).await {
            Ok(Ok(answer)) => return Ok(vec![answer]),
            Ok(Err(Lost::Question(error))) => return Err(error),
            Ok(Err(Lost::Server(reason))) => return self.spread(asked, part, tried, reason).await,
            Err(_) => Reason::Failed("it takes long to answer".to_owned()),
        };
        let second = self.spread(asked, part.clone(), tried, reason);
        match select(first, second).await {
            Either::Left((Ok(answer), _)) => Ok(vec![answer]),
            Either::Left((Err(_), second)) => second.await,
            Either::Right((Ok(answers), _)) => Ok(answers),
            Either::Right((Err(_), first)) => match first.await {
                Ok(answer) => Ok(vec![answer]),
                Err(Lost::Question(error)) => Err(error),
                Err(Lost::Server(reason)) => Err(reason.of(part)),
            },
        }
    }

    async fn send(
        self: Arc<Self>,
        Asked { ask, at_least }: Asked,
        holder: Arc<Holder>,
        part: BTreeSet<u32>,
    ) -> Result<PartAnswer, Lost> {
        let begun = Instant::now();
        let question = wire::write_question(&ask, &part, at_least);
        let client = &holder.client;
        let request = client.request(Method::POST, "/cluster/part").timeout(WITHIN).body(question);
        let request = request.header(header::CONTENT_TYPE, wire::MEDIA_TYPE);
        let failed = |error: ClientError| match (error, &ask) {
            (ClientError::Refused { refusal, .. }, PartAsk::Near(name, _) | PartAsk::List(name, _))
                if refusal.code == "no_collection" =>
            {
                Lost::Question(EngineError::NoCollection(name.clone()))
            }
            (ClientError::Refused { refusal, .. }, _) if refusal.code == "busy" => {
                Lost::Server(Reason::Busy(format!("{} answered: {}", holder.name, refusal.detail)))
            }
            (error, _) => Lost::Server(Reason::Failed(format!("{} answered: {error}", holder.name))),
        };
        let answer = client.send(request).await.map_err(failed)?;
        let bytes = answer.bytes().await.map_err(|error| failed(client.broken(error)))?;
        let damaged = || Reason::Failed(format!("{} gave an answer that cannot be read", holder.name));
        let answer = wire::read_answer(&bytes).ok_or_else(|| Lost::Server(damaged()))?;
        self.visible.fetch_max(answer.visible, Ordering::SeqCst);
        kind(&ask).into_iter().for_each(|kind| self.times[kind].lock().add(begun.elapsed()));
        Ok(answer)
    }
}

/// A handle, because questions outlive the caller's borrow.
pub(super) struct Others(pub(super) Arc<Peers>);

impl Elsewhere for Others {
    fn ask(
        &self,
        ask: PartAsk,
        partitions: BTreeSet<u32>,
        at_least: u64,
    ) -> BoxFuture<'static, Result<Vec<PartAnswer>, EngineError>> {
        let peers = Arc::clone(&self.0);
        async move {
            let chosen = peers.find(&partitions).await?;
            peers.ask_all(Asked { ask, at_least }, chosen, BTreeSet::new()).await
        }
        .boxed()
    }

    fn check(&self, partitions: BTreeSet<u32>) -> BoxFuture<'static, Result<(), EngineError>> {
        let peers = Arc::clone(&self.0);
        async move { peers.find(&partitions).await.map(drop) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_is_asked_after_the_time_of_nineteen_of_twenty() {
        let mut times = Times::default();
        assert_eq!(times.hedge(), FIRST_HEDGE);
        (1..=200).for_each(|ms| times.add(Duration::from_millis(ms)));
        // The last 128 are 73 to 200.
        assert_eq!(times.hedge(), Duration::from_millis(73 + 121));
        (0..TIMES).for_each(|_| times.add(Duration::from_micros(1)));
        assert_eq!(times.hedge(), LEAST_HEDGE);
    }
}
