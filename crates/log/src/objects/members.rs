//! What the servers say about themselves: the objects `servers/NAME`, with the random number of the process.
//!
//! A server is alive if its object is not much older than the newest one, by the clock of the store. The time
//! that the store notes for the own object shows whether the clock of this machine is right.
//!
//! *Absent*: a decision that depends on the list being exact. A server that is not in it may still append.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::future::join_all;
use parking_lot::Mutex;

use super::store::{Created, Listed};
use super::{Inner, ObjectLog};
use crate::LogError;

/// How much older than the newest report that of a live server may be.
const LIFE: Duration = Duration::from_secs(10);
const FOLDER: &str = "servers";
/// A report that took longer to write says nothing about clocks.
const PROMPT: Duration = Duration::from_secs(1);

/// What this process has said about itself.
#[derive(Default)]
pub(super) struct Told {
    /// Whether it has. Locked while it does.
    is_listed: tokio::sync::Mutex<bool>,
    /// The time of this machine when the last report was written, if that did not take long.
    at: Mutex<Option<SystemTime>>,
    /// How many milliseconds the clock of this machine is ahead of that of the store.
    ahead_ms: Mutex<Option<i64>>,
}

impl ObjectLog {
    /// Puts this server on the list of servers, or changes its value there. It disappears some ten seconds
    /// after the last call.
    ///
    /// # Errors
    /// [`LogError::NameTaken`] if another process has the name since, and those of [`crate::Log::last`].
    pub async fn tell(&self, value: &[u8]) -> Result<(), LogError> {
        self.inner.tell(value).await
    }

    /// The names of the servers that are alive, sorted, and their values.
    ///
    /// # Errors
    /// As [`crate::Log::last`].
    pub async fn members(&self) -> Result<Vec<(String, Bytes)>, LogError> {
        self.inner.members().await
    }

    /// Removes this server from the list.
    ///
    /// # Errors
    /// As [`crate::Log::last`].
    pub async fn leave(&self) -> Result<(), LogError> {
        self.inner.leave().await
    }
}

impl Inner {
    /// How far the clock of this machine is ahead of that of the store, to a second or two; `None` before the
    /// list of servers was read.
    pub(super) fn ahead_ms(&self) -> Option<i64> {
        *self.told.ahead_ms.lock()
    }

    /// Writes an object that nobody changes. Returns what it has: this value, or that of the first who wrote.
    pub(super) async fn agree(&self, name: &str, proposal: Bytes) -> Result<Bytes, LogError> {
        let created = self.ask(name, self.store.create(name, proposal.clone())).await;
        if matches!(created, Ok(Created::New)) {
            return Ok(proposal);
        }
        let found = self.ask(name, self.store.read(name)).await.map_err(|error| self.error(error))?;
        match (found, created) {
            (Some(found), _) => Ok(found),
            (None, Err(error)) => Err(self.error(error)),
            (None, Ok(_)) => Err(LogError::Damaged(format!("{name} was neither written nor found"))),
        }
    }

    async fn tell(&self, value: &[u8]) -> Result<(), LogError> {
        let name = format!("{FOLDER}/{}", self.server);
        let mut is_listed = self.told.is_listed.lock().await;
        if *is_listed {
            let found = self.ask(&name, self.store.read(&name)).await.map_err(|error| self.error(error))?;
            if found.is_some_and(|found| !found.starts_with(&self.process)) {
                return Err(LogError::NameTaken { server: self.server.clone() });
            }
        }
        let report = Bytes::from([&self.process, value].concat());
        let begun = SystemTime::now();
        let written = self.ask(&name, self.store.replace(&name, report)).await;
        *self.told.at.lock() =
            begun.elapsed().ok().filter(|took| *took < PROMPT).map(|took| begun + took / 2);
        written.map_err(|error| self.error(error))?;
        *is_listed = true;
        Ok(())
    }

    async fn members(&self) -> Result<Vec<(String, Bytes)>, LogError> {
        let mut listed =
            self.ask(FOLDER, self.store.list(FOLDER)).await.map_err(|error| self.error(error))?;
        self.compare_clocks(&listed);
        let newest = listed.iter().map(|one| one.changed).max();
        let is_alive = |changed| newest.is_some_and(|newest| newest <= changed + LIFE);
        listed.retain(|one| is_alive(one.changed));
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        let reads = listed.into_iter().map(|one| async move {
            let name = format!("{FOLDER}/{}", one.name);
            self.ask(&name, self.store.read(&name)).await.map(|found| (one.name, found))
        });
        let mut members = Vec::new();
        for read in join_all(reads).await {
            let (name, found) = read.map_err(|error| self.error(error))?;
            // One that left since has none.
            let value = found.and_then(|found| found.get(self.process.len()..).map(Bytes::copy_from_slice));
            members.extend(value.map(|value| (name, value)));
        }
        Ok(members)
    }

    fn compare_clocks(&self, listed: &[Listed]) {
        let own = listed.iter().find(|one| one.name == self.server);
        let Some((own, at)) = own.zip(*self.told.at.lock()) else { return };
        *self.told.ahead_ms.lock() = Some(match at.duration_since(own.changed) {
            Ok(ahead) => ahead.as_millis() as i64,
            Err(behind) => -(behind.duration().as_millis() as i64),
        });
    }

    async fn leave(&self) -> Result<(), LogError> {
        let mut is_listed = self.told.is_listed.lock().await;
        if std::mem::take(&mut *is_listed) {
            let name = format!("{FOLDER}/{}", self.server);
            self.ask(&name, self.store.remove(&name)).await.map_err(|error| self.error(error))?;
        }
        Ok(())
    }
}
