//! Partitions of a cluster: what all servers agree on, who holds what, and answers to other servers.
//!
//! *Absent*: questions to other servers (`peers`).

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Cluster, FORMAT, Report, wire};
use crate::engine::{EngineError, PartAsk, Partitions};

/// What all servers of a cluster must agree on.
pub(super) fn format(partitions: &Partitions) -> String {
    match partitions.count() {
        1 => FORMAT.to_owned(),
        count => format!("{FORMAT}, {count} partitions"),
    }
}

/// A question of another server.
pub struct PartQuestion {
    ask: PartAsk,
    partitions: BTreeSet<u32>,
    at_least: u64,
}

impl Cluster {
    /// Reads a question of another server; `None` if the bytes are not one.
    pub fn part_question(bytes: &[u8]) -> Option<PartQuestion> {
        let (ask, partitions, at_least) = wire::read_question(bytes)?;
        Some(PartQuestion { ask, partitions, at_least })
    }

    /// Answers a question of another server, once this one has applied the log as far as it wants.
    ///
    /// # Errors
    /// [`EngineError::Behind`] after the time `within`, [`EngineError::PartitionUnavailable`] if this server
    /// does not hold what the question is about, and the errors of a lookup.
    pub async fn answer_part(
        &self,
        question: PartQuestion,
        within: Duration,
    ) -> Result<Vec<u8>, EngineError> {
        let engine = self.engine.get().ok_or(EngineError::Busy("the start of the server"))?;
        let PartQuestion { ask, partitions, at_least } = question;
        Ok(wire::write_answer(engine.answer_part(ask, partitions, (at_least, within)).await?))
    }

    /// Whether the cluster has more than one partition.
    pub fn has_partitions(&self) -> bool {
        self.peers.is_some()
    }

    /// For each partition, the names of the live servers that hold it.
    pub(super) fn holders(&self, reports: &[(String, Report)]) -> Vec<Vec<String>> {
        let of = |partition: u32| {
            let holds =
                |(name, report): &(String, Report)| report.holds.contains(&partition).then(|| name.clone());
            reports.iter().filter_map(holds).collect()
        };
        (0..self.settings.partitions.count()).map(of).collect()
    }
}
