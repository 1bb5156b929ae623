//! What this process knows of the log: how far it goes at least, the last entries of its own, and what others
//! say about its end.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Own entries that the tail need not read from the store.
const KEPT: usize = 4;

/// How far beyond the end an entry may be that others name. More than this is no entry of the log.
const BEYOND: u64 = 1_000;

/// After this time without a sign of the log, it may have been removed meanwhile: the process was stopped.
const FRESH: Duration = Duration::from_mins(1);

pub(super) struct Known {
    /// The greatest number of an object that was seen.
    end: AtomicU64,
    /// The greatest number that was seen or heard of.
    heard: watch::Sender<u64>,
    /// The greatest number that the tail has read, or after which it began.
    read: AtomicU64,
    /// The number of the last own entry.
    appended: watch::Sender<u64>,
    own: Mutex<VecDeque<(u64, Bytes)>>,
    /// When an object at the end was last seen, by two clocks: one may stand while the machine sleeps.
    seen: Mutex<Option<(Instant, SystemTime)>>,
}

impl Known {
    pub(super) fn new() -> Known {
        Known {
            end: AtomicU64::new(0),
            heard: watch::channel(0).0,
            read: AtomicU64::new(0),
            appended: watch::channel(0).0,
            own: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::SeqCst)
    }

    /// The greatest number that was seen or heard of.
    pub(super) fn heard(&self) -> u64 {
        *self.heard.borrow()
    }

    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::SeqCst)
    }

    /// Notes that the tail has read up to a number.
    pub(super) fn set_read(&self, number: u64) {
        self.read.fetch_max(number, Ordering::SeqCst);
    }

    pub(super) fn appended(&self) -> watch::Receiver<u64> {
        self.appended.subscribe()
    }

    /// Whether the log was seen a short time ago.
    pub(super) fn is_fresh(&self) -> bool {
        self.seen.lock().is_some_and(|(at, time)| {
            at.elapsed() < FRESH && time.elapsed().is_ok_and(|elapsed| elapsed < FRESH)
        })
    }

    /// Notes that an object at the end is there.
    pub(super) fn refresh(&self) {
        *self.seen.lock() = Some((Instant::now(), SystemTime::now()));
    }

    #[cfg(test)]
    pub(super) fn forget_for_test(&self) {
        *self.seen.lock() = None;
    }

    /// Notes that there is an object with a number.
    pub(super) fn see(&self, number: u64) {
        self.end.fetch_max(number, Ordering::SeqCst);
        self.tell(number);
    }

    /// Notes that somebody says there is an object with a number.
    pub(super) fn hear(&self, number: u64) {
        if number <= self.end() + BEYOND {
            self.tell(number);
        }
    }

    fn tell(&self, number: u64) {
        self.heard.send_if_modified(|heard| {
            let is_new = number > *heard;
            *heard = number.max(*heard);
            is_new
        });
    }

    /// Notes an entry that this process has appended.
    pub(super) fn keep(&self, number: u64, payload: Bytes) {
        let mut own = self.own.lock();
        own.push_back((number, payload));
        if own.len() > KEPT {
            own.pop_front();
        }
        drop(own);
        self.see(number);
        self.appended.send_replace(number);
    }

    pub(super) fn own(&self, number: u64) -> Option<Bytes> {
        self.own.lock().iter().find(|(own, _)| *own == number).map(|(_, payload)| payload.clone())
    }

    /// Waits until there may be an object with a number.
    pub(super) async fn hears_of(&self, number: u64) {
        // The sender lives as long as `self`.
        let _ = self.heard.subscribe().wait_for(|heard| *heard >= number).await;
    }
}
