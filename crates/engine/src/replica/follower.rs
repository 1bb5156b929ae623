//! The follower: reads the entries of all servers from the log and passes them to the writer, in order.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::{Semaphore, mpsc};

use super::super::shared::Shared;
use super::super::writer::Command;
use super::Following;
use super::apply::Apply;
use super::entry::Entry;
use super::replies::Replies;
use lookalike_log::{self as log, Position};

/// Number of entries that wait for the writer. Each has up to a megabyte, and more without compression.
const AHEAD: usize = 64;

pub(super) struct Follower {
    following: Arc<Following>,
    shared: Arc<Shared>,
    writer: mpsc::UnboundedSender<Command>,
    ahead: Arc<Semaphore>,
}

impl Follower {
    pub(super) fn new(
        following: Arc<Following>,
        shared: Arc<Shared>,
        writer: mpsc::UnboundedSender<Command>,
    ) -> Follower {
        Follower { following, shared, writer, ahead: Arc::new(Semaphore::new(AHEAD)) }
    }

    /// Runs until the engine closes, the log cannot be followed any further, or an entry cannot be read.
    pub(super) async fn run(self) {
        tokio::select! {
            () = self.follow() => {}
            () = self.following.closing.notified() => {}
        }
    }

    async fn follow(&self) {
        let (mut position, _) = *self.shared.position.borrow();
        let mut entries = self.following.log.tail(Position(position));
        while let Some(next) = entries.next().await {
            match next {
                Ok(log::Entry { position: Position(at), number, payload }) => {
                    if !self.pass((position, at, number), payload).await {
                        return;
                    }
                    position = at;
                }
                Err(error) => {
                    let is_trimmed = matches!(error, log::LogError::Trimmed { .. });
                    return self.stop(format!("the log cannot be followed: {error}"), is_trimmed);
                }
            }
        }
    }

    fn stop(&self, reason: String, is_trimmed: bool) {
        self.following.stop(&self.shared, reason, is_trimmed);
    }

    /// Passes an entry to the writer. Returns whether the next one may follow.
    async fn pass(&self, (after, position, number): (u64, u64, u64), bytes: Bytes) -> bool {
        let entry = match Entry::from_bytes(&bytes) {
            Ok(entry) => entry,
            Err(error) => {
                self.stop(format!("entry {position} of the log cannot be read: {error}"), false);
                return false;
            }
        };
        let is_own = entry.origin == self.following.origin;
        let replies = if is_own { self.following.pending.take(entry.number) } else { None };
        let Ok(permit) = Arc::clone(&self.ahead).acquire_owned().await else { return false };
        let replies = replies.unwrap_or(Replies::Nobody);
        let apply = Apply::new((after, position, number), bytes, entry, replies, permit);
        self.writer.send(Command::Apply(Box::new(apply))).is_ok()
    }
}
