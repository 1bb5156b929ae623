//! The consequences of the comparison of this server with the others (`agreement`).
//!
//! *Guarantees*
//! - A server that is outvoted, or in a dispute, answers no request for data and is not ready.
//! - One that is outvoted follows the log no further. The file `DIVERGED` in its data directory makes its
//!   next start replace its data by a snapshot, or by the whole log. Its present data stay until then.
//! - A dispute ends when the servers on the other side are gone, or when a majority decides it.
//!
//! *Absent*: a repair of single documents. Nobody knows what else is wrong in a store that differs.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::agreement::{Difference, Published, Standing};
use super::{Replicas, Report};
use lookalike_engine::Engine;
use lookalike_log::LogError;

/// The file in the data directory of a server that was outvoted.
const FILE: &str = "DIVERGED";
/// How long a start waits for a position at which it can be compared.
const AT_START: Duration = Duration::from_secs(5);
/// The interval at which it looks for one.
const LOOK: Duration = Duration::from_millis(100);

impl Replicas {
    /// Compares this server with the others before it answers, if one of them publishes a digest in time.
    pub async fn compare_at_start(&self, engine: &Engine) {
        if self.log_trouble().is_some() || self.seen.lock().answered.is_none() {
            return;
        }
        engine.pass_time();
        let end = Instant::now() + AT_START;
        while Instant::now() < end {
            self.tell(engine).await;
            let is_open = matches!(*self.standing.lock(), Standing::Unknown | Standing::Open);
            if !is_open || self.agreement.lock().is_alone() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
        tracing::warn!("this server was not compared with the others yet: none has published a digest since");
    }

    /// Tells the others the state of this server, and compares it with theirs.
    pub(super) async fn tell(&self, engine: &Engine) {
        if let Err(error) = self.report(engine).await {
            tracing::warn!(%error, "the other replicas do not know how far this one is");
        } else if let Err(error) = self.compare(engine).await {
            tracing::warn!(%error, "this server was not compared with the others");
        }
    }

    async fn compare(&self, engine: &Engine) -> Result<(), LogError> {
        let reports = self.reports().await?;
        let live: Vec<u128> = reports.iter().filter_map(|(_, report)| report.start()).collect();
        engine.discard_of_absent(&live, Instant::now());
        let others = reports.into_iter().filter(|(name, _)| *name != self.settings.server);
        let others: Vec<(String, Report)> = others.collect();
        let addresses: Vec<String> = others.iter().map(|(_, report)| report.address.clone()).collect();
        self.peers.send_if_modified(|peers| {
            let is_new = *peers != addresses;
            *peers = addresses;
            is_new
        });
        let others = others.into_iter();
        let published = others.filter_map(|(server, report)| report.published(server)).collect();
        let next = {
            let mut agreement = self.agreement.lock();
            agreement.observe(published);
            agreement.standing(&engine.digests().borrow(), Instant::now())
        };
        self.stand(engine, next);
        Ok(())
    }

    /// Takes the next standing, unless the server is outvoted already.
    fn stand(&self, engine: &Engine, next: Standing) {
        let mut standing = self.standing.lock();
        if matches!(*standing, Standing::Outvoted(_)) {
            return;
        }
        let was_serving = self.serves.swap(next.reason().is_none(), Ordering::SeqCst);
        match (&next, next.reason()) {
            (Standing::Outvoted(_), Some(reason)) => {
                if let Err(error) = mark(&self.dir, &reason) {
                    tracing::error!(%error, "the file {FILE} cannot be written to the data directory");
                }
                engine.refuse_writes(&reason);
                if let Some(order) = &*self.order.lock() {
                    order.stop(&reason);
                }
            }
            (_, Some(reason)) if was_serving => tracing::error!("{reason}"),
            (_, None) if !was_serving => tracing::info!("no server differs any more: requests are answered"),
            _ => {}
        }
        *standing = next;
    }

    /// Why this server answers no request for data, if that is so: they differ from those of others.
    pub fn divergence(&self) -> Option<String> {
        if self.serves.load(Ordering::SeqCst) {
            return None;
        }
        self.standing.lock().reason()
    }

    /// The last position at which this server agreed with others; `None` if it was not compared or differs.
    pub fn agreed(&self) -> Option<u64> {
        match *self.standing.lock() {
            Standing::Agrees(position) => Some(position),
            _ => None,
        }
    }

    /// Whether the data of this server were found to differ from those of the majority, so that it needs
    /// [`Replicas::copy_data`].
    pub fn has_diverged(&self) -> bool {
        self.dir.join(FILE).exists()
    }
}

impl Report {
    /// The start of the server.
    fn start(&self) -> Option<u128> {
        u128::from_str_radix(&self.start, 16).ok()
    }

    /// The digest that another server publishes. One that was outvoted has no vote.
    fn published(self, server: String) -> Option<Published> {
        let (position, digest) = self.digest.filter(|_| !self.is_outvoted)?;
        Some(Published { server, start: self.start, position, digest: digest.parse().ok()? })
    }
}

impl Standing {
    /// Why a server with this standing answers no requests, if it does not.
    fn reason(&self) -> Option<String> {
        match self {
            Standing::Outvoted(Difference { position, servers }) => Some(format!(
                "the data of this server differ from those of {} at position {position} of the log, so it \
                 answers no requests: start it again, and it takes its data from the log; save its data \
                 directory before if you want to examine it",
                servers.join(", ")
            )),
            Standing::Disputed(Difference { position, servers }) => Some(format!(
                "the data of this server and of {} differ at position {position} of the log, and there is no \
                 majority for either, so none of them answers: stop the one that you trust less, delete its \
                 data directory, and start it again",
                servers.join(", ")
            )),
            Standing::Unknown | Standing::Agrees(_) | Standing::Open => None,
        }
    }
}

/// Records durably that the data in a directory must be replaced.
fn mark(dir: &Path, reason: &str) -> io::Result<()> {
    let mut file = File::create(dir.join(FILE))?;
    writeln!(file, "{reason}")?;
    file.sync_all()?;
    File::open(dir)?.sync_all()
}

/// Removes that record, after the data were replaced.
pub(super) fn forget(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
