//! The list of the replicas that are alive, with a value from each.
//!
//! A server's key ends with a lease that a background task renews. A server that cannot reach etcd for the
//! time to live disappears from the list; when it reaches etcd again, it appears again by itself.
//!
//! *Absent*: a decision that depends on the list being exact. A server that is not in it may still append.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::gateway::{Gateway, Lost};
use super::refusal::Kind;
use super::wire::{Base64, Compare, Headed, Op, Put, Range, RangeAnswer, Txn, TxnAnswer};
use crate::LogError;

/// The lease and the value of this server.
struct State {
    lease: u64,
    value: Bytes,
}

/// The registration of this server.
struct Registration {
    gateway: Arc<Gateway>,
    server: String,
    key: String,
    ttl: Duration,
    timeout: Duration,
    /// Locked while etcd is asked, so that a renewal and an update do not register twice.
    state: Mutex<State>,
}

/// The place of this server in the list of servers. It is kept until this value is dropped, and then ends
/// with its lease.
pub struct Membership {
    registration: Arc<Registration>,
    task: AbortHandle,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Membership {
    pub(super) async fn register(
        gateway: Arc<Gateway>,
        (prefix, server): (&str, &str),
        (ttl, timeout): (Duration, Duration),
        value: Bytes,
    ) -> Result<Membership, LogError> {
        let key = format!("{prefix}{server}");
        let lease = gateway.grant(ttl, timeout).await.map_err(|lost| gateway.error(lost))?;
        // Without a condition: after a quick restart, the key of the last process is still there.
        let put = Put { key: key.as_str().into(), value: Base64(value.clone()), lease };
        let written = gateway.call::<Headed>("/v3/kv/put", &put, timeout).await;
        written.map_err(|lost| gateway.error(lost))?;
        let state = Mutex::new(State { lease, value });
        let server = server.to_owned();
        let registration = Arc::new(Registration { gateway, server, key, ttl, timeout, state });
        let task = tokio::spawn(Arc::clone(&registration).keep()).abort_handle();
        Ok(Membership { registration, task })
    }

    /// Changes the value of this server.
    ///
    /// # Errors
    /// [`LogError::NameTaken`] if another process has registered under the name since.
    pub async fn update(&self, value: Bytes) -> Result<(), LogError> {
        let mut state = self.registration.state.lock().await;
        state.value = value;
        self.registration.write(&mut state).await
    }

    /// Ends the registration now.
    ///
    /// # Errors
    /// [`LogError::Unavailable`]: then it ends with its lease.
    pub async fn leave(self) -> Result<(), LogError> {
        self.task.abort();
        let Registration { gateway, timeout, state, .. } = &*self.registration;
        let lease = state.lock().await.lease;
        gateway.revoke(lease, *timeout).await.map_err(|lost| gateway.error(lost))
    }
}

impl Registration {
    /// Renews the lease for ever.
    async fn keep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.ttl / 3).await;
            let mut state = self.state.lock().await;
            let renewed = match self.gateway.renew(state.lease, self.ttl / 3).await {
                Ok(true) => Ok(()),
                Ok(false) => self.register_again(&mut state).await,
                Err(lost) => Err(self.gateway.error(lost)),
            };
            if let Err(error) = renewed {
                tracing::warn!(server = self.server, %error, "this server is not registered");
            }
        }
    }

    /// Writes the value, if the key still belongs to this process.
    async fn write(&self, state: &mut State) -> Result<(), LogError> {
        let own = Compare::Lease { key: self.key.as_str().into(), lease: state.lease };
        match self.put_if(own, state).await {
            Ok(answer) if answer.succeeded => Ok(()),
            Ok(answer) if answer.responses.iter().any(is_found) => Err(self.taken()),
            Ok(_) | Err(Lost { kind: Kind::LeaseEnded, .. }) => self.register_again(state).await,
            Err(lost) => Err(self.gateway.error(lost)),
        }
    }

    /// Registers with a new lease, if no other process has the name.
    async fn register_again(&self, state: &mut State) -> Result<(), LogError> {
        tracing::warn!(server = self.server, "the lease of this server has ended; it registers again");
        let granted = self.gateway.grant(self.ttl, self.timeout).await;
        state.lease = granted.map_err(|lost| self.gateway.error(lost))?;
        let absent = Compare::Version { key: self.key.as_str().into(), version: 0 };
        match self.put_if(absent, state).await {
            Ok(answer) if answer.succeeded => Ok(()),
            // An earlier try may have written the key, under this lease.
            Ok(_) => {
                let own = Compare::Lease { key: self.key.as_str().into(), lease: state.lease };
                let answer = self.put_if(own, state).await.map_err(|lost| self.gateway.error(lost))?;
                if answer.succeeded { Ok(()) } else { Err(self.taken()) }
            }
            Err(lost) => Err(self.gateway.error(lost)),
        }
    }

    async fn put_if(&self, condition: Compare, state: &State) -> Result<TxnAnswer, Lost> {
        let key = self.key.as_str();
        let put = Put { key: key.into(), value: Base64(state.value.clone()), lease: state.lease };
        let failure = vec![Op::Range(Range::keys_only(key, 0))];
        let txn = Txn { compare: [condition], success: vec![Op::Put(put)], failure };
        self.gateway.call("/v3/kv/txn", &txn, self.timeout).await
    }

    fn taken(&self) -> LogError {
        LogError::NameTaken { server: self.server.clone() }
    }
}

fn is_found(answer: &super::wire::OpAnswer) -> bool {
    answer.response_range.as_ref().is_some_and(|range| !range.kvs.is_empty())
}

/// The names of the servers that are alive, and their values.
pub(super) async fn members(
    gateway: &Gateway,
    prefix: &str,
    timeout: Duration,
) -> Result<Vec<(String, Bytes)>, LogError> {
    let answer = gateway.call::<RangeAnswer>("/v3/kv/range", &Range::below(prefix), timeout).await;
    let found = answer.map_err(|lost| gateway.error(lost))?.kvs.into_iter();
    let named = found.filter_map(|kv| {
        let key = String::from_utf8(kv.key.0.to_vec()).ok()?;
        Some((key.strip_prefix(prefix)?.to_owned(), kv.value.0))
    });
    Ok(named.collect())
}
