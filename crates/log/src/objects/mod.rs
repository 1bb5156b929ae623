//! The log as objects of a store: `log/0000000000000000/0001` is the first entry, and so on without gaps.
//!
//! A store makes each object once, whoever asks, and that is all that is trusted: who makes the object with
//! the next number has this place in the order (`append`). Readers ask for the next number (`tail`).
//!
//! | object | contents |
//! |---|---|
//! | `log/NUMBER` | an entry, with the id of its append |
//! | `identity`, `format` | which log it is, and what all servers must agree on |
//! | `servers/NAME` | what a server says about itself, while it is alive |
//! | `snapshots/NUMBER`, `parts/…` | the data at a position (`snapshots`) |
//!
//! Four digits of the number are the name in a folder, since folders of file systems are not for millions.
//!
//! *Absent*: what entries and snapshots say.

mod append;
mod batch;
mod cloud;
mod folder;
mod identity;
mod known;
mod members;
mod parts;
#[cfg(test)]
mod simulation;
mod snapshots;
mod store;
mod tail;
mod time;
#[cfg(any(test, feature = "memory"))]
pub mod world;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::BoxStream;
use parking_lot::Mutex;
use tokio::sync::watch;

pub use self::append::IsOwn;
use self::batch::Ids;
use self::identity::Expected;
use self::known::Known;
use self::members::Told;
pub use self::snapshots::{Snapshot, Written};
pub use self::store::StoreError;
use self::store::{Answer, Fate, Objects};
use self::time::{Real, Time, within};
use super::{Entry, Log, LogError, Position};

/// The largest payload of an entry, in bytes.
const MAX_PAYLOAD: usize = 8 << 20;
/// How long one request may take: 8 MiB at 3 MB/s.
const REQUEST: Duration = Duration::from_secs(3);
/// How long an answer that an object of the past is not there is not believed: it may be a cached one.
const BELIEF: Duration = Duration::from_secs(2);

/// A log of objects. Clones share what is known of it.
#[derive(Clone)]
pub struct ObjectLog {
    inner: Arc<Inner>,
}

struct Inner {
    store: Box<dyn Objects>,
    time: Box<dyn Time>,
    server: String,
    /// The random number of this process.
    process: [u8; 16],
    /// Random waits.
    dice: Mutex<fastrand::Rng>,
    /// Locked while an append is in progress: there is one at a time.
    ids: tokio::sync::Mutex<Ids>,
    known: Known,
    /// The log that this process has followed before, if it has.
    expected: OnceLock<Expected>,
    told: Told,
}

impl fmt::Debug for ObjectLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectLog").field("place", &self.inner.store.place()).finish_non_exhaustive()
    }
}

impl ObjectLog {
    /// The log at `file:///FOLDER`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`.
    /// `process` is a random number.
    ///
    /// # Errors
    /// [`LogError::Place`] if the URL is none of these, or the environment lacks what the store needs.
    pub fn new(url: &str, server: &str, process: u128) -> Result<ObjectLog, LogError> {
        let store: Box<dyn Objects> = match url.strip_prefix("file://") {
            Some(path) => Box::new(folder::Folder::new(path, process)),
            None => Box::new(cloud::Cloud::new(url)?),
        };
        Ok(ObjectLog::of(store, Box::new(Real::default()), server, process))
    }

    /// The log in a store.
    fn of(store: Box<dyn Objects>, time: Box<dyn Time>, server: &str, process: u128) -> ObjectLog {
        let inner = Inner {
            store,
            time,
            server: server.to_owned(),
            process: process.to_be_bytes(),
            dice: Mutex::new(fastrand::Rng::with_seed(process as u64)),
            ids: tokio::sync::Mutex::new(Ids::new(process)),
            known: Known::new(),
            expected: OnceLock::new(),
            told: Told::default(),
        };
        ObjectLog { inner: Arc::new(inner) }
    }
}

impl ObjectLog {
    /// The number of the last entry that this process has appended.
    pub fn appended(&self) -> watch::Receiver<u64> {
        self.inner.known.appended()
    }

    /// Makes the entry with a number that the only server which writes has given it. Returns false if another
    /// entry is there: that of another server.
    ///
    /// # Errors
    /// As [`Log::append`]; the entry may be there after any of them, and can be made again.
    pub async fn place(&self, number: u64, payload: Bytes, is_own: IsOwn) -> Result<bool, LogError> {
        self.inner.place_at(number, payload, is_own).await
    }

    /// Notes that somebody says there is an entry with a number: the tail looks for it at once. Nothing else
    /// follows from it.
    pub fn hint(&self, number: u64) {
        self.inner.known.hear(number);
    }
}

impl Inner {
    /// The number of the last object, which is looked for with steps that double, and then halve.
    async fn find_end(&self) -> Result<u64, StoreError> {
        if self.known.end() == 0 {
            // The first entries may be removed.
            self.known.see(self.newest(None).await?.map_or(0, |newest| newest.position.0));
        }
        let (mut low, mut step) = (self.known.end(), 1);
        while self.has(low + step).await? {
            low += step;
            step *= 2;
        }
        let mut high = low + step;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.has(middle).await? { low = middle } else { high = middle }
        }
        self.known.see(low);
        Ok(low)
    }

    async fn has(&self, number: u64) -> Result<bool, StoreError> {
        let name = object_of(number);
        self.ask(&name, self.store.exists(&name)).await
    }

    /// The answer, or an error if it does not come in time.
    async fn ask<T>(&self, object: &str, answer: Answer<'_, T>) -> Result<T, StoreError> {
        let late = || StoreError::unknown(object, format!("no answer within {} ms", REQUEST.as_millis()));
        within(&*self.time, REQUEST, answer).await.unwrap_or_else(|| Err(late()))
    }

    /// Checks that the log has the entry after which a reader goes on.
    async fn anchor(&self, after: u64) -> Result<Result<(), LogError>, StoreError> {
        let begun = self.time.now();
        while !self.has(after.max(1)).await? {
            if self.newest(None).await?.is_some_and(|newest| newest.position.0 > after) {
                return Ok(Err(LogError::Trimmed { after: Position(after) }));
            }
            if after == 0 {
                break;
            }
            let end = self.find_end().await?;
            if end < after && self.time.now() > begun + BELIEF {
                let (position, end) = (Position(after), Position(end));
                return Ok(Err(LogError::Rewound { position, end }));
            }
            self.time.sleep(self.store.polls().1).await;
        }
        self.known.refresh();
        Ok(Ok(()))
    }

    fn error(&self, source: StoreError) -> LogError {
        let place = self.store.place().to_owned();
        if source.fate == Fate::Refused {
            LogError::Refused { place, source }
        } else {
            LogError::Unavailable { place, source }
        }
    }

    /// A random time from half of this one to all of it.
    fn jittered(&self, time: Duration) -> Duration {
        time.mul_f64(0.5 + self.dice.lock().f64() / 2.0)
    }
}

impl Log for ObjectLog {
    fn append(&self, payload: Bytes, within: Duration) -> BoxFuture<'_, Result<Position, LogError>> {
        async move { self.inner.append(payload, within).await.map(Position) }.boxed()
    }

    fn tail(&self, after: Position) -> BoxStream<'static, Result<Entry, LogError>> {
        tail::tail(Arc::clone(&self.inner), after.0)
    }

    fn last(&self) -> BoxFuture<'_, Result<(Position, u64), LogError>> {
        let found = async { self.inner.find_end().await.map(|end| (Position(end), end)) };
        found.map(|found| found.map_err(|error| self.inner.error(error))).boxed()
    }

    fn max_payload(&self) -> usize {
        MAX_PAYLOAD
    }

    fn ahead_ms(&self) -> Option<i64> {
        self.inner.ahead_ms()
    }
}

/// The name of the object with a number.
fn object_of(number: u64) -> String {
    format!("log/{:016}/{:04}", number / 10_000, number % 10_000)
}
