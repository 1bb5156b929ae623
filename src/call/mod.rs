//! The request that work is done for: which client sent it, and the memory that it has reserved.
//!
//! The pool shares its threads fairly among clients, and the accountant shares memory among them. Both learn the client
//! from here: a call surrounds the handling of a request, on the async workers as on the threads of the pool, so that no
//! signature in between has to name it. Work outside a call is the server's own: it reserves nothing and waits for nobody.
//!
//! *Absent*: what a request asks, and its deadline. Whoever waits for a result drops the future, which cancels the work.

mod accountant;

use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::future::Either;

pub use accountant::{Accountant, NoMemory};

/// Who sends requests: a key, or an address where no keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client(u64);

impl Client {
    /// The server itself.
    pub const SERVER: Client = Client(0);

    /// The client of this name or address. Two with one number share what is one client's; nothing else happens.
    pub fn of(who: &impl Hash) -> Client {
        let mut hasher = DefaultHasher::new();
        who.hash(&mut hasher);
        Client(hasher.finish())
    }
}

tokio::task_local! {
    static CALL: Arc<Call>;
}

/// A request that is being handled.
#[derive(Debug)]
pub struct Call {
    client: Client,
    accountant: Arc<Accountant>,
    /// Bytes that are released when the call ends.
    kept: AtomicUsize,
}

impl Call {
    /// A request of this client begins.
    pub fn begin(client: Client, accountant: &Arc<Accountant>) -> Arc<Call> {
        Arc::new(Call { client, accountant: Arc::clone(accountant), kept: AtomicUsize::new(0) })
    }

    /// The call that this task or thread works for.
    pub fn current() -> Option<Arc<Call>> {
        CALL.try_with(Arc::clone).ok()
    }

    /// Bytes that its client can have.
    pub fn most(&self) -> usize {
        self.accountant.most()
    }

    /// Its client.
    pub fn client(&self) -> Client {
        self.client
    }

    /// Handles the request: everything in `work` is done for this call.
    pub fn surround<F: Future>(self: Arc<Call>, work: F) -> impl Future<Output = F::Output> {
        CALL.scope(self, work)
    }

    /// Does work on a thread for this call.
    pub fn within<T>(self: Arc<Call>, work: impl FnOnce() -> T) -> T {
        CALL.sync_scope(self, work)
    }

    /// Reserves memory before it is allocated.
    ///
    /// # Errors
    /// [`NoMemory`] if there is not as much left, for this client or at all.
    pub fn reserve(self: &Arc<Call>, bytes: usize) -> Result<Reserved, NoMemory> {
        self.accountant.reserve(self.client, bytes)?;
        Ok(Reserved { call: Some(Arc::clone(self)), bytes })
    }

    /// Reserves memory, and waits for it as long as others hold it.
    ///
    /// # Errors
    /// [`NoMemory::TooLarge`] for what no client can have.
    async fn reserve_in_time(self: &Arc<Call>, bytes: usize) -> Result<Reserved, NoMemory> {
        loop {
            let released = self.accountant.released();
            tokio::pin!(released);
            // Registered before the look: what is released in between wakes it.
            released.as_mut().enable();
            match self.reserve(bytes) {
                Err(NoMemory::Taken { .. }) => released.await,
                done => return done,
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.accountant.release(self.client, *self.kept.get_mut());
    }
}

/// Does work for a call, if there is one: for what goes on after the handler that began it.
pub fn for_call<F: Future>(call: Option<Arc<Call>>, work: F) -> impl Future<Output = F::Output> {
    match call {
        Some(call) => Either::Left(call.surround(work)),
        None => Either::Right(work),
    }
}

/// Reserves memory for the current call. Outside a call nothing is counted.
///
/// # Errors
/// [`NoMemory`] if there is not as much left, for this client or at all.
pub fn reserve(bytes: usize) -> Result<Reserved, NoMemory> {
    Call::current().map_or(Ok(Reserved::default()), |call| call.reserve(bytes))
}

/// Reserves memory for a call, and waits for it as long as others hold it. Without a call nothing is counted.
///
/// # Errors
/// [`NoMemory::TooLarge`] for what no client can have.
pub async fn reserve_in_time(call: Option<&Arc<Call>>, bytes: usize) -> Result<Reserved, NoMemory> {
    match call {
        Some(call) => call.reserve_in_time(bytes).await,
        None => Ok(Reserved::default()),
    }
}

/// Memory that was reserved, released when this is dropped.
#[derive(Debug, Default)]
pub struct Reserved {
    call: Option<Arc<Call>>,
    bytes: usize,
}

impl Reserved {
    /// How much it is; 0 where nothing is counted.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves more, so that it is `bytes` in all. Nothing happens if it is as much already.
    ///
    /// # Errors
    /// [`NoMemory`] if there is not as much left; what was reserved stays so.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), NoMemory> {
        if let Some(call) = self.call.as_ref().filter(|_| bytes > self.bytes) {
            call.accountant.reserve(call.client, bytes - self.bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Releases what is more than `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        if let Some(call) = self.call.as_ref().filter(|_| bytes < self.bytes) {
            call.accountant.release(call.client, self.bytes - bytes);
            self.bytes = bytes;
        }
    }

    /// Keeps it reserved until the call ends: for what is made of a request and lives as long as that is handled.
    pub fn keep(mut self) {
        if let Some(call) = &self.call {
            call.kept.fetch_add(std::mem::take(&mut self.bytes), Ordering::Relaxed);
        }
    }

    /// The bytes of `all`, with this reservation until the last of them is dropped.
    pub fn bytes_of(self, all: Vec<u8>) -> Bytes {
        if self.call.is_none() { Bytes::from(all) } else { Bytes::from_owner(Held { all, _reserved: self }) }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Bytes and the reservation for them.
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
    fn memory_is_released_by_whatever_holds_it_last() {
        let accountant = Arc::new(Accountant::new(1_000));
        let one = call(&accountant, "one");
        let mut reserved = one.reserve(200).unwrap();
        reserved.grow_to(300).unwrap();
        reserved.grow_to(100).unwrap();
        assert_eq!(accountant.reserved(), 300);
        assert!(reserved.grow_to(600).is_err(), "more than half is no client's");
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
    async fn whoever_waits_for_memory_gets_it_when_it_is_released() {
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
