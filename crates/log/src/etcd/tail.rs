//! The entries of the log, as etcd's watch of one key delivers them.
//!
//! *Why no entry is missing or doubled*
//! - etcd numbers the writes of a key (its `version`). An entry is delivered only if it has the next number.
//!   Versions of etcd before 3.4.31 and 3.5.13 can skip changes of a slow watch; then the watch is started
//!   again after the last entry.
//! - Before a watch starts, the tail reads the entry at its position. So it knows the number that comes next,
//!   and notices if etcd has removed or lost the entry.
//! - A watch that is silent is compared with the end of the log. A watch at a server that is cut off from
//!   the others stays open and silent for ever, and etcd's own progress reports say nothing about it.
//!
//! *Absent*: a limit for how long etcd may be away: the tail waits. The caller sees it by `end`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures::stream::{self, BoxStream, StreamExt};
use reqwest::Response;
use tokio::time::{sleep, timeout};

use super::gateway::{AuthToken, Gateway, Lost, encode};
use super::refusal::Kind;
use super::wire::{Event, KeyValue, Range, RangeAnswer, WatchAnswer, WatchCreate, WatchRequest};
use crate::{Entry, Failure, LogError, Position};

/// The longest line of a watch. With `fragment`, etcd sends about 1.5 MiB or one entry, in base64.
const LINE_LIMIT: usize = 16 << 20;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// A watch at one server.
struct Watch {
    at: usize,
    token: AuthToken,
    response: Response,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no end of a line.
    searched: usize,
}

/// Why a watch ended.
enum Ended {
    /// The tail goes on with another watch.
    Broken(Failure),
    /// The tail ends.
    Final(LogError),
}

/// A reader of the log.
struct Tail {
    gateway: Arc<Gateway>,
    log: String,
    quiet: Duration,
    timeout: Duration,
    /// The last entry that was read: its position and its number.
    after: Position,
    number: u64,
    watch: Option<Watch>,
    ready: VecDeque<Entry>,
    pause: Duration,
    /// Whether the watch was behind the end of the log when it was last silent.
    is_suspect: bool,
}

/// The entries after a position.
pub(super) fn tail(
    gateway: Arc<Gateway>,
    log: String,
    after: Position,
    quiet: Duration,
    timeout: Duration,
) -> BoxStream<'static, Result<Entry, LogError>> {
    let tail = Tail {
        gateway,
        log,
        quiet,
        timeout,
        after,
        number: 0,
        watch: None,
        ready: VecDeque::new(),
        pause: FIRST_PAUSE,
        is_suspect: false,
    };
    let next = |tail: Option<Tail>| async {
        let mut tail = tail?;
        match tail.next().await {
            Ok(entry) => Some((Ok(entry), Some(tail))),
            Err(error) => Some((Err(error), None)),
        }
    };
    stream::unfold(Some(tail), next).boxed()
}

impl Watch {
    /// The next line. Nothing is lost if the future is dropped.
    async fn line(&mut self, gateway: &Gateway) -> Result<BytesMut, Failure> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n') {
                let line = self.buffer.split_to(self.searched + end + 1);
                self.searched = 0;
                return Ok(line);
            }
            self.searched = self.buffer.len();
            if self.searched > LINE_LIMIT {
                return Err(gateway.malformed(self.at, format!("a line is longer than {LINE_LIMIT} bytes")));
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk),
                Ok(None) => return Err(gateway.malformed(self.at, "the watch ended".to_owned())),
                Err(source) => return Err(gateway.broken(self.at, source)),
            }
        }
    }
}

impl Tail {
    async fn next(&mut self) -> Result<Entry, LogError> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(entry);
            }
            match self.step().await {
                Ok(()) => {}
                Err(Ended::Final(error)) => return Err(error),
                Err(Ended::Broken(failure)) => self.leave(&failure).await,
            }
        }
    }

    /// Waits for one line of the watch, or starts one.
    async fn step(&mut self) -> Result<(), Ended> {
        let Some(watch) = &mut self.watch else {
            self.watch = Some(self.start().await?);
            return Ok(());
        };
        let patience = if self.is_suspect { self.quiet / 4 } else { self.quiet };
        match timeout(patience, watch.line(&self.gateway)).await {
            Ok(line) => self.take(&line.map_err(Ended::Broken)?),
            Err(_) => self.check_silence().await,
        }
    }

    /// Ends the watch; the next one is at another server.
    async fn leave(&mut self, failure: &Failure) {
        let after = self.after;
        tracing::warn!(%failure, %after, "the shared log is interrupted; it is tried again");
        if let Some(watch) = self.watch.take() {
            if failure.kind() == Kind::TokenExpired {
                // The next watch uses the new token, or reports why there is none.
                let _ = self.gateway.token(watch.at, Some(watch.token)).await;
            } else {
                self.gateway.leave(watch.at);
            }
        }
        sleep(self.pause).await;
        self.pause = LAST_PAUSE.min(self.pause * 2);
    }

    async fn start(&mut self) -> Result<Watch, Ended> {
        let start_revision = self.anchor().await?;
        let at = self.gateway.preferred();
        let create = WatchCreate { key: self.log.as_str().into(), start_revision, fragment: true };
        let body = encode(&WatchRequest { create_request: create });
        let opened = async {
            let token = self.gateway.token(at, None).await?;
            let response = self.gateway.open(at, "/v3/watch", body, token.clone()).await?;
            Ok(Watch { at, token, response, buffer: BytesMut::new(), searched: 0 })
        };
        let opened = timeout(self.quiet, opened).await.unwrap_or_else(|_| {
            let url = self.gateway.url(at).to_owned();
            Err(Failure::Elapsed { url, millis: self.quiet.as_millis() })
        });
        self.is_suspect = false;
        opened.map_err(|failure| {
            self.gateway.leave(at);
            self.ended(failure)
        })
    }

    /// Finds the entry at the position, and with it the number of the next entry and the revision from which
    /// to watch.
    async fn anchor(&mut self) -> Result<u64, Ended> {
        let read = Range::keys_only(&self.log, self.after.0);
        let answer = match self.gateway.call::<RangeAnswer>("/v3/kv/range", &read, self.timeout).await {
            Ok(answer) => answer,
            Err(Lost { kind: Kind::Future, .. }) => return Err(self.rewound().await),
            Err(lost) => return Err(self.ended(lost.failure)),
        };
        match (self.after.0, answer.kvs.first()) {
            // The first entry is the one that created the key; without a key it is yet to come.
            (0, None) => Ok(answer.header.revision + 1),
            (0, Some(log)) => Ok(log.create_revision),
            (after, Some(log)) if log.mod_revision == after => {
                self.number = log.version;
                Ok(after + 1)
            }
            _ => Err(self.rewound().await),
        }
    }

    /// Whether a failure ends the tail, or only its watch.
    fn ended(&self, failure: Failure) -> Ended {
        match failure.kind() {
            kind if kind.is_transient() => Ended::Broken(failure),
            Kind::Compacted => Ended::Final(LogError::Trimmed { after: self.after }),
            _ => Ended::Final(self.gateway.error(Lost::of(failure))),
        }
    }

    async fn rewound(&self) -> Ended {
        match end(&self.gateway, &self.log, self.timeout).await {
            Ok(end) => Ended::Final(LogError::Rewound { position: self.after, end }),
            Err(lost) => self.ended(lost.failure),
        }
    }

    /// Takes the entries of a line.
    fn take(&mut self, line: &[u8]) -> Result<(), Ended> {
        let at = self.watch.as_ref().map_or(0, |watch| watch.at);
        let answer: WatchAnswer = self.gateway.decode_line(at, line).map_err(|f| self.ended(f))?;
        self.gateway.verify(at, &answer.header).map_err(|f| self.ended(f))?;
        if answer.compact_revision > 0 {
            return Err(Ended::Final(LogError::Trimmed { after: self.after }));
        }
        if answer.canceled {
            let url = self.gateway.url(at).to_owned();
            let failure = Failure::Refused { url, code: 14, message: answer.cancel_reason };
            let is_expired = failure.kind() == Kind::TokenExpired;
            return Err(if is_expired { Ended::Broken(failure) } else { self.ended(failure) });
        }
        self.is_suspect = false;
        for event in answer.events {
            self.take_event(at, event)?;
        }
        Ok(())
    }

    fn take_event(&mut self, at: usize, event: Event) -> Result<(), Ended> {
        let Event { kind, kv: KeyValue { value, mod_revision, version, .. } } = event;
        if kind.is_some_and(|kind| kind != "PUT") {
            let what = format!("the key {} was deleted at revision {mod_revision}", self.log);
            return Err(Ended::Final(LogError::Damaged(what)));
        }
        if version != self.number + 1 || mod_revision <= self.after.0 {
            let what = format!("entry {version} follows entry {}", self.number);
            return Err(Ended::Broken(self.gateway.malformed(at, what)));
        }
        (self.after, self.number, self.pause) = (Position(mod_revision), version, FIRST_PAUSE);
        self.ready.push_back(Entry { position: self.after, number: version, payload: value.0 });
        Ok(())
    }

    /// Compares a silent watch with the end of the log. If it is behind it twice, with nothing received
    /// between, it is given up.
    async fn check_silence(&mut self) -> Result<(), Ended> {
        let end =
            end(&self.gateway, &self.log, self.timeout).await.map_err(|lost| self.ended(lost.failure))?;
        if end < self.after {
            return Err(Ended::Final(LogError::Rewound { position: self.after, end }));
        }
        let was_suspect = std::mem::replace(&mut self.is_suspect, end > self.after);
        if was_suspect && self.is_suspect {
            let at = self.watch.as_ref().map_or(0, |watch| watch.at);
            let what = format!("its watch is silent at {}, but the log ends at {end}", self.after);
            return Err(Ended::Broken(self.gateway.malformed(at, what)));
        }
        Ok(())
    }
}

/// The position of the last entry.
async fn end(gateway: &Gateway, log: &str, within: Duration) -> Result<Position, Lost> {
    Ok(last(gateway, log, within).await?.0)
}

/// The position and the number of the last entry.
pub(super) async fn last(gateway: &Gateway, log: &str, within: Duration) -> Result<(Position, u64), Lost> {
    let answer: RangeAnswer = gateway.call("/v3/kv/range", &Range::keys_only(log, 0), within).await?;
    Ok(answer.kvs.first().map_or((Position(0), 0), |log| (Position(log.mod_revision), log.version)))
}
