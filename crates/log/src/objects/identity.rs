//! Which log it is: the object `identity` has a random number, and `format` what all servers must agree on.
//!
//! A process whose data have followed a log expects the same one. The first answer of the store shows it,
//! which may come long after the start, and nothing is appended or read before.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::{Inner, ObjectLog};
use crate::LogError;

const IDENTITY: &str = "identity";
const FORMAT: &str = "format";

/// The log that a process has followed before.
pub(super) struct Expected {
    identity: String,
    format: &'static str,
    is_verified: AtomicBool,
}

impl ObjectLog {
    /// Agrees with the other servers on a format, and returns the identity of the log. The first of them
    /// makes both.
    ///
    /// # Errors
    /// [`LogError::Format`] if they have agreed on another one, [`LogError::Unavailable`] and others.
    pub async fn begin(&self, format: &'static str) -> Result<String, LogError> {
        check_format(&self.inner.agree(FORMAT, format.into()).await?, format)?;
        let proposal = format!("{:032x}", u128::from_be_bytes(self.inner.process));
        let agreed = self.inner.agree(IDENTITY, proposal.into()).await?;
        Ok(String::from_utf8_lossy(&agreed).into_owned())
    }

    /// Expects the log with an identity and a format. Returns whether the store has answered that it is.
    ///
    /// # Errors
    /// [`LogError::Replaced`] if it is another one, [`LogError::Format`] and others.
    pub async fn expect(&self, identity: &str, format: &'static str) -> Result<bool, LogError> {
        let is_verified = AtomicBool::new(false);
        let _ = self.inner.expected.set(Expected { identity: identity.to_owned(), format, is_verified });
        match self.inner.verify().await {
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "the shared log is not reached yet");
                Ok(false)
            }
            verified => verified.map(|()| true),
        }
    }
}

impl Inner {
    /// Checks that the log is the one that is expected, unless it was found to be.
    pub(super) async fn verify(&self) -> Result<(), LogError> {
        let Some(expected) = self.expected.get() else { return Ok(()) };
        if expected.is_verified.load(Ordering::Relaxed) {
            return Ok(());
        }
        let found = self.found(IDENTITY).await?;
        if found.is_none_or(|found| found != expected.identity) {
            return Err(LogError::Replaced { place: self.store.place().to_owned() });
        }
        check_format(&self.found(FORMAT).await?.unwrap_or_default(), expected.format)?;
        expected.is_verified.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn found(&self, name: &str) -> Result<Option<Bytes>, LogError> {
        self.ask(name, self.store.read(name)).await.map_err(|error| self.error(error))
    }
}

fn check_format(found: &Bytes, wanted: &'static str) -> Result<(), LogError> {
    if found == wanted {
        return Ok(());
    }
    Err(LogError::Format { found: String::from_utf8_lossy(found).into_owned(), wanted })
}
