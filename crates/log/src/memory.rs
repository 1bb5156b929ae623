//! The log in memory: the twin of `objects` for the tests of programs that use a log.
//!
//! Positions grow by more than one, so that no caller relies on them. Clones share the entries.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, ready};
use futures::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::objects::StoreError;
use super::{Entry, Log, LogError, Position};

/// The difference of two positions.
const STEP: u64 = 3;
const MAX_PAYLOAD: usize = 1 << 20;

/// A log in memory.
#[derive(Clone)]
pub struct MemoryLog {
    shared: Arc<Shared>,
}

struct Shared {
    entries: Mutex<Entries>,
    /// Changes after every append and trim.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Entries {
    kept: Vec<Entry>,
    trimmed: Position,
    end: Position,
    count: u64,
}

impl Default for MemoryLog {
    fn default() -> MemoryLog {
        let (changed, _) = watch::channel(());
        MemoryLog { shared: Arc::new(Shared { entries: Mutex::default(), changed }) }
    }
}

impl MemoryLog {
    /// Removes the entries up to a position.
    ///
    /// # Errors
    /// [`LogError::Rewound`] if the log ends before the position.
    pub fn trim(&self, through: Position) -> Result<(), LogError> {
        let trimmed = self.shared.entries.lock().trim(through);
        self.shared.changed.send_replace(());
        trimmed
    }
}

impl Entries {
    fn append(&mut self, payload: Bytes) -> Position {
        self.count += 1;
        self.end = Position(self.end.0 + STEP);
        self.kept.push(Entry { position: self.end, number: self.count, payload });
        self.end
    }

    /// The entry after a position; `None` if it is yet to come.
    fn after(&self, after: Position) -> Result<Option<Entry>, LogError> {
        if after < self.trimmed {
            return Err(LogError::Trimmed { after });
        }
        if after > self.end || !after.0.is_multiple_of(STEP) {
            return Err(LogError::Rewound { position: after, end: self.end });
        }
        Ok(self.kept.iter().find(|entry| entry.position > after).cloned())
    }

    fn trim(&mut self, through: Position) -> Result<(), LogError> {
        if through > self.end {
            return Err(LogError::Rewound { position: through, end: self.end });
        }
        self.trimmed = self.trimmed.max(through);
        self.kept.retain(|entry| entry.position > through);
        Ok(())
    }
}

impl Log for MemoryLog {
    fn append(&self, payload: Bytes, _within: Duration) -> BoxFuture<'_, Result<Position, LogError>> {
        if payload.len() > MAX_PAYLOAD {
            return ready(Err(LogError::TooLarge { bytes: payload.len(), limit: MAX_PAYLOAD })).boxed();
        }
        let position = self.shared.entries.lock().append(payload);
        self.shared.changed.send_replace(());
        ready(Ok(position)).boxed()
    }

    fn tail(&self, after: Position) -> BoxStream<'static, Result<Entry, LogError>> {
        let shared = Arc::clone(&self.shared);
        let changed = shared.changed.subscribe();
        let next = |state: Option<(Arc<Shared>, watch::Receiver<()>, Position)>| async move {
            let (shared, mut changed, after) = state?;
            loop {
                changed.mark_unchanged();
                let found = shared.entries.lock().after(after);
                match found {
                    Ok(Some(entry)) => {
                        let after = entry.position;
                        return Some((Ok(entry), Some((shared, changed, after))));
                    }
                    Ok(None) => changed.changed().await.ok()?,
                    Err(error) => return Some((Err(error), None)),
                }
            }
        };
        stream::unfold(Some((shared, changed, after)), next).boxed()
    }

    fn last(&self) -> BoxFuture<'_, Result<(Position, u64), LogError>> {
        let entries = self.shared.entries.lock();
        ready(Ok((entries.end, entries.count))).boxed()
    }

    fn max_payload(&self) -> usize {
        MAX_PAYLOAD
    }
}

/// The error of an append whose answer is lost.
pub fn unknown() -> LogError {
    LogError::Unknown(StoreError::unknown("entry", "a test asked for it"))
}
