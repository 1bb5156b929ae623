//! Digests of the state of a replica, by which servers are compared.
//!
//! A server notes its digest at every entry without work. Such an entry is in no group with others, and what
//! has expired at its time is removed before it, so the documents of all servers are the same there. It is
//! appended some seconds after other entries, and when a server starts.
//!
//! *Guarantees*: two servers that applied the same entries note equal digests, however the entries were
//! grouped, and whatever was restarted or copied.
//!
//! *Absent*: the comparison (`replica/agreement`), and the sum of a collection (`store`).

use std::collections::VecDeque;
use std::time::Instant;

use tokio::sync::watch;

use super::super::shared::Shared;
use super::super::writer::{Message, Writer};
use super::Replica;
use crate::Engine;
use crate::command::{Callers, Command};
use lookalike_store::{Digest, Store, StoreError};

/// The number of digests that a server remembers. At one in five seconds, another server may be an hour
/// behind.
const REMEMBERED: usize = 1_024;

/// The state of a server after an entry of the log.
#[derive(Clone, Copy, Debug)]
pub struct StateDigest {
    /// The position of the entry.
    pub position: u64,
    /// The sum of the digests of all collections and their settings.
    pub digest: Digest,
    /// When this server applied the entry.
    pub noted: Instant,
}

/// The digest of all collections of a store, also of those that are not visible yet.
pub(crate) fn of_all(store: &Store) -> Result<Digest, StoreError> {
    let mut sum = Digest::default();
    for record in store.collections()? {
        let content = store.digest(record.id)?.unwrap_or_default();
        sum = sum.plus(record.digest()).plus(content);
    }
    for hidden in store.hidden()? {
        let content = store.digest(hidden.record.id)?.unwrap_or_default();
        sum = sum.plus(hidden.digest()).plus(content);
    }
    Ok(sum)
}

/// Compares the content of every collection with its digest.
pub(crate) fn check(store: &Store) -> Result<(), StoreError> {
    let begun = Instant::now();
    let mut records = store.collections()?;
    records.extend(store.hidden()?.into_iter().map(|hidden| hidden.record));
    records.iter().try_for_each(|record| store.check_digest(record))?;
    let (collections, ms) = (records.len(), begun.elapsed().as_millis() as u64);
    tracing::info!(collections, ms, "all documents agree with their digests");
    Ok(())
}

impl Replica {
    /// The digest of all collections.
    #[cfg(feature = "simulation")]
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Adds what a commit added.
    pub(crate) fn add_digest(&mut self, difference: Digest) {
        self.digest = self.digest.plus(difference);
    }
}

impl Writer {
    /// Makes the digest of all collections anew, after a change of their settings or of which exist.
    pub(crate) fn sum_digests(&mut self) -> Result<(), StoreError> {
        let digest = of_all(&self.shared.store)?;
        if let Some(replica) = &mut self.replica {
            replica.digest = digest;
        }
        Ok(())
    }

    /// Notes the digest after an entry without work.
    pub(super) fn note_digest(&self, position: u64) {
        let Some(Replica { digest, .. }) = self.replica else { return };
        self.shared.digests.send_modify(|noted| {
            if noted.len() == REMEMBERED {
                noted.pop_front();
            }
            noted.push_back(StateDigest { position, digest, noted: Instant::now() });
        });
    }
}

impl Shared {
    /// Whether entries were applied after the last digest, and it is older than `age`.
    pub(super) fn lacks_digest(&self, age: std::time::Duration) -> bool {
        let (position, _) = *self.position.borrow();
        let noted = self.digests.borrow();
        noted.back().is_none_or(|last| last.position < position && last.noted.elapsed() >= age)
    }
}

impl Engine {
    /// Appends an entry without work, at which the digests of all servers are noted. A single server does
    /// nothing.
    pub fn pass_time(&self) {
        let _ = self.commands.send(Message::Do(Command::PassTime, Callers::default()));
    }

    /// The digests of this server, the oldest first.
    pub fn digests(&self) -> watch::Receiver<VecDeque<StateDigest>> {
        self.shared.digests.subscribe()
    }
}
