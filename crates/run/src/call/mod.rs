//! The current request: which client sent it, and how much memory it has reserved.
//!
//! The pool shares its threads fairly among clients, and the accountant shares memory among them. Both get
//! the client from here. A call surrounds the handling of a request, on the async workers as well as on the
//! threads of the pool, so that no signature in between has to name it. Work outside a call belongs to the
//! server: it reserves nothing and does not wait for memory.
//!
//! *Absent*: the content of a request and its deadline. A caller that drops the future of its result
//! cancels the work.

mod accountant;

use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::Either;

pub use accountant::{Accountant, Ceiling, NoMemory};

/// The sender of requests: a key, or an address if requests need no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client(u64);

impl Client {
    /// The server itself.
    pub const SERVER: Client = Client(0);

    /// The client with this name or address. Two clients with the same number share the limits of one;
    /// there is no other effect.
    pub fn of(name: &impl Hash) -> Client {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Client(hasher.finish())
    }
}

/// How often a request that waits for memory tries again, even if no memory was released.
const RECHECK: Duration = Duration::from_millis(100);

tokio::task_local! {
    static CALL: Arc<Call>;
}

/// A request that is being handled.
#[derive(Debug)]
pub struct Call {
    client: Client,
    accountant: Arc<Accountant>,
    /// Bytes to release when the call ends.
    kept: AtomicUsize,
}

impl Call {
    /// Starts a request of this client.
    pub fn begin(client: Client, accountant: &Arc<Accountant>) -> Arc<Call> {
        Arc::new(Call { client, accountant: Arc::clone(accountant), kept: AtomicUsize::new(0) })
    }

    /// The call of the current task or thread.
    pub fn current() -> Option<Arc<Call>> {
        CALL.try_with(Arc::clone).ok()
    }

    /// The bytes that its client can have.
    pub fn most(&self) -> usize {
        self.accountant.most()
    }

    /// Its client.
    pub fn client(&self) -> Client {
        self.client
    }

    /// Runs `work` as part of this call.
    pub fn surround<F: Future>(self: Arc<Call>, work: F) -> impl Future<Output = F::Output> {
        CALL.scope(self, work)
    }

    /// Runs `work` on the current thread as part of this call.
    pub fn within<T>(self: Arc<Call>, work: impl FnOnce() -> T) -> T {
        CALL.sync_scope(self, work)
    }

    /// Reserves memory, which must be done before it is allocated.
    ///
    /// # Errors
    /// [`NoMemory`] if there is not enough left, for this client or in total.
    pub fn reserve(self: &Arc<Call>, bytes: usize) -> Result<Reserved, NoMemory> {
        self.accountant.reserve(self.client, bytes)?;
        Ok(Reserved { call: Some(Arc::clone(self)), bytes })
    }

    /// Reserves memory, and waits while others hold it.
    ///
    /// # Errors
    /// [`NoMemory::TooLarge`] for more than one client can have.
    async fn reserve_in_time(self: &Arc<Call>, bytes: usize) -> Result<Reserved, NoMemory> {
        loop {
            let released = self.accountant.released();
            tokio::pin!(released);
            // Registered before the attempt, so that a release in between wakes it.
            released.as_mut().enable();
            match self.reserve(bytes) {
                // The ceiling may rise without a release.
                Err(NoMemory::Taken { .. }) => drop(tokio::time::timeout(RECHECK, released).await),
                done => return done,
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let kept = *self.kept.get_mut();
        if kept > 0 {
            self.accountant.release(self.client, kept);
        }
    }
}

/// Runs `work` as part of a call, if there is one: for work that continues after the handler that started
/// it.
pub fn for_call<F: Future>(call: Option<Arc<Call>>, work: F) -> impl Future<Output = F::Output> {
    match call {
        Some(call) => Either::Left(call.surround(work)),
        None => Either::Right(work),
    }
}

/// Reserves memory for the current call. Nothing is counted outside a call.
///
/// # Errors
/// [`NoMemory`] if there is not enough left, for this client or in total.
pub fn reserve(bytes: usize) -> Result<Reserved, NoMemory> {
    if bytes == 0 {
        return Ok(Reserved::default());
    }
    Call::current().map_or(Ok(Reserved::default()), |call| call.reserve(bytes))
}

/// Reserves memory for a call, and waits while others hold it. Nothing is counted without a call.
///
/// # Errors
/// [`NoMemory::TooLarge`] for more than one client can have.
pub async fn reserve_in_time(call: Option<&Arc<Call>>, bytes: usize) -> Result<Reserved, NoMemory> {
    match call {
        Some(call) => call.reserve_in_time(bytes).await,
        None => Ok(Reserved::default()),
    }
}

/// Reserved memory, released when this is dropped.
#[derive(Debug, Default)]
pub struct Reserved {
    call: Option<Arc<Call>>,
    bytes: usize,
}

impl Reserved {
    /// The reserved bytes; 0 outside a call.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Grows the reservation to `bytes` in total. Does nothing if it is as large already. An empty one is
    /// for the current call.
    ///
    /// # Errors
    /// [`NoMemory`] if there is not enough left; the reservation does not change then.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), NoMemory> {
        if bytes <= self.bytes {
            return Ok(());
        }
        match &self.call {
            Some(call) => {
                let most = call.accountant.most();
                if bytes > most {
                    return Err(NoMemory::TooLarge { asked: bytes, most });
                }
                call.accountant.reserve(call.client, bytes - self.bytes)?;
                self.bytes = bytes;
            }
            None => *self = reserve(bytes)?,
        }
        Ok(())
    }

    /// Releases all but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        if let Some(call) = self.call.as_ref().filter(|_| bytes < self.bytes) {
            call.accountant.release(call.client, self.bytes - bytes);
            self.bytes = bytes;
        }
    }

    /// Keeps the memory reserved until the call ends: for data derived from a request that lives until the
    /// request is handled.
    pub fn keep(mut self) {
        if let Some(call) = &self.call {
            call.kept.fetch_add(std::mem::take(&mut self.bytes), Ordering::Relaxed);
        }
    }

    /// Attaches this reservation to `all`: it is released when the last slice is dropped.
    pub fn bytes_of(self, all: Vec<u8>) -> Bytes {
        if self.call.is_none() { Bytes::from(all) } else { Bytes::from_owner(Held { all, _reserved: self }) }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Bytes with their reservation.
struct Held {
    all: Vec<u8>,
    _reserved: Reserved,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn call(accountant: &Arc<Accountant>, name: &str) -> Arc<Call> {
        Call::begin(Client::of(&name), accountant)
    }

    #[test]
    fn memory_is_released_with_its_last_holder() {
        let accountant = Arc::new(Accountant::new(1_000));
        let one = call(&accountant, "one");
        let mut reserved = one.reserve(200).unwrap();
        reserved.grow_to(300).unwrap();
        reserved.grow_to(100).unwrap();
        assert_eq!(accountant.reserved(), 300);
        assert!(reserved.grow_to(600).is_err(), "one client can have half at most");
        reserved.shrink_to(100);
        assert_eq!(accountant.reserved(), 100);
        let bytes = reserved.bytes_of(vec![7; 100]);
        let slice = bytes.slice(3..5);
        drop(bytes);
        assert_eq!(accountant.reserved(), 100);
        drop(slice);
        assert_eq!(accountant.reserved(), 0);
        one.reserve(50).unwrap().keep();
        assert_eq!(accountant.reserved(), 50);
        drop(one);
        assert_eq!(accountant.reserved(), 0);
    }

    #[tokio::test]
    async fn a_call_is_the_current_one_in_its_futures_and_on_its_threads() {
        assert!(Call::current().is_none());
        reserve(usize::MAX).unwrap().keep();
        let accountant = Arc::new(Accountant::new(1_000));
        let one = call(&accountant, "one");
        let client = async {
            let call = Call::current().unwrap();
            let held = reserve(100).unwrap();
            let inner = std::thread::spawn(move || call.within(|| Call::current().unwrap().client()));
            drop(held);
            inner.join().unwrap()
        };
        assert_eq!(Arc::clone(&one).surround(client).await, Client::of(&"one"));
        assert_eq!(accountant.reserved(), 0);
    }

    #[tokio::test]
    async fn a_waiting_request_gets_memory_when_it_is_released() {
        let accountant = Arc::new(Accountant::new(1_000));
        let (one, two) = (call(&accountant, "one"), call(&accountant, "two"));
        let (held, other) = (one.reserve(500).unwrap(), two.reserve(450).unwrap());
        let waiting = two.reserve_in_time(200);
        tokio::pin!(waiting);
        assert!((&mut waiting).now_or_never().is_none());
        drop(held);
        assert!((&mut waiting).now_or_never().is_none(), "one client may not have more than half");
        drop(other);
        assert!((&mut waiting).now_or_never().unwrap().is_ok());
        assert!(matches!(two.reserve_in_time(501).await, Err(NoMemory::TooLarge { most: 500, .. })));
    }
}
