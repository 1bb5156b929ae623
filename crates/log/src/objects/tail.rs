//! The entries of the log in order: the object with the next number is read until it is there.
//!
//! An append of this process wakes the tail at once, and so does a hint of another one; what nobody hints at
//! is found by asking again. Numbers that are known to be taken are read several at a time.
//!
//! *Absent*: a limit for how long the store may be away. The caller sees it by `end`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::batch::unpack;
use super::store::{Fate, StoreError};
use super::time::within;
use super::{Inner, object_of};
use crate::{Entry, LogError, Position};
use futures::stream::{self, BoxStream, StreamExt};

/// Objects of up to 8 MiB that are read at a time.
const AHEAD: u64 = 8;
/// The wait after a failure, at most.
const LAST_PAUSE: Duration = Duration::from_secs(1);

struct Tail {
    log: Arc<Inner>,
    next: u64,
    /// Whether the entry before the next one is known to be there.
    is_anchored: bool,
    ready: VecDeque<Entry>,
    pause: Duration,
}

pub(super) fn tail(log: Arc<Inner>, after: u64) -> BoxStream<'static, Result<Entry, LogError>> {
    log.known.set_read(after);
    let pause = log.store.polls().0;
    let tail = Tail { log, next: after + 1, is_anchored: false, ready: VecDeque::new(), pause };
    let next = |tail: Option<Tail>| async {
        let mut tail = tail?;
        match tail.next().await {
            Ok(entry) => Some((Ok(entry), Some(tail))),
            Err(error) => Some((Err(error), None)),
        }
    };
    stream::unfold(Some(tail), next).boxed()
}

impl Tail {
    async fn next(&mut self) -> Result<Entry, LogError> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(entry);
            }
            if !self.is_anchored {
                let anchored = match self.log.verify().await {
                    Ok(()) => self.log.anchor(self.next - 1).await,
                    Err(LogError::Unavailable { source, .. }) => Err(source),
                    Err(error) => return Err(error),
                };
                match anchored {
                    Ok(anchored) => anchored?,
                    Err(error) => {
                        self.interrupted(error).await?;
                        continue;
                    }
                }
                self.is_anchored = true;
            }
            self.fetch().await?;
        }
    }

    /// Reads the entries that are there, or waits.
    async fn fetch(&mut self) -> Result<(), LogError> {
        let (first, end) = (self.next, self.log.known.end());
        if let Some(payload) = self.log.known.own(first) {
            self.take(payload);
            return Ok(());
        }
        let (log, heard) = (Arc::clone(&self.log), self.log.known.heard());
        let numbers = first..first + end.saturating_sub(first).min(AHEAD - 1) + 1;
        let read = |number| {
            let log = Arc::clone(&log);
            async move {
                let name = object_of(number);
                (log.ask(&name, log.store.read(&name)).await, name)
            }
        };
        let mut reads = stream::iter(numbers).map(read).buffered(AHEAD as usize);
        while let Some((found, name)) = reads.next().await {
            match found {
                Ok(Some(object)) => self.take(unpack(&name, &object)?.1),
                Ok(None) => break,
                Err(error) => return self.interrupted(error).await,
            }
        }
        if self.next == first {
            self.is_anchored = self.log.known.is_fresh();
            self.wait(heard).await;
        }
        Ok(())
    }

    fn take(&mut self, payload: bytes::Bytes) {
        let number = self.next;
        self.ready.push_back(Entry { position: Position(number), number, payload });
        self.log.known.see(number);
        self.log.known.set_read(number);
        self.log.known.refresh();
        self.next += 1;
        self.pause = self.log.store.polls().0;
    }

    /// Waits until the next entry may be there. One that was heard of before it was looked for, and not
    /// found, is asked for at intervals too: a store may answer for a moment that there is none.
    async fn wait(&mut self, heard: u64) {
        let pause = self.log.jittered(self.pause);
        if heard >= self.next {
            self.log.time.sleep(pause).await;
        } else if within(&*self.log.time, pause, self.log.known.hears_of(self.next)).await.is_some() {
            self.pause = self.log.store.polls().0;
            return;
        }
        self.pause = self.log.store.polls().1.min(self.pause * 3 / 2);
    }

    /// Waits after a failure; an error if waiting does not help.
    async fn interrupted(&mut self, error: StoreError) -> Result<(), LogError> {
        if error.fate == Fate::Refused {
            return Err(self.log.error(error));
        }
        tracing::warn!(%error, next = self.next, "the shared log is interrupted; it is tried again");
        self.log.time.sleep(self.log.jittered(self.pause)).await;
        self.pause = LAST_PAUSE.min(2 * self.pause);
        Ok(())
    }
}
