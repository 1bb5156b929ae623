//! Appends: the object with the next number is made, if nobody has made it.
//!
//! *Why an append is in the log at most once*
//! - It is tried at one number until an object is read there. Only if that is of another append, it goes on
//!   to the next number; then no try at the number before can succeed any more.
//! - An outcome that is not known is settled by reading: an object has the id of its append. It does not
//!   matter whether an answer was lost, came late, or names a conflict with an earlier try of the append.
//!
//! *Why only one server can give numbers itself* (`place_at`): its entry is made at its number or nowhere. If
//! there is another one, it finds that out by reading it, and gives up.
//!
//! *Absent*: leaders, leases and clocks.

use std::time::Duration;

use super::batch::{Id, pack, unpack};
use super::store::{Created, Fate, StoreError};
use super::time::within;
use super::{Inner, MAX_PAYLOAD, object_of};
use crate::LogError;
use bytes::Bytes;

/// Waits between tries: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// After this many numbers in a row that others have, the end of the log is looked for.
const STREAK: u32 = 2;

/// What is known of an append that is not finished.
#[derive(Default)]
struct Doubt {
    /// Whether a try at the present number may have an effect.
    is_open: bool,
    last: Option<StoreError>,
}

/// Whether a payload that was found is the entry of the caller.
pub type IsOwn = Box<dyn Fn(&Bytes) -> bool + Send + Sync>;

enum Tried {
    Own,
    Other,
    Again,
}

impl Inner {
    pub(super) async fn append(&self, payload: Bytes, limit: Duration) -> Result<u64, LogError> {
        if payload.len() > MAX_PAYLOAD {
            return Err(LogError::TooLarge { bytes: payload.len(), limit: MAX_PAYLOAD });
        }
        let deadline = self.time.now() + limit;
        let Some(mut ids) = within(&*self.time, limit, self.ids.lock()).await else {
            return Err(LogError::Busy);
        };
        let left = deadline.saturating_sub(self.time.now());
        match within(&*self.time, left, self.admit()).await {
            Some(admitted) => admitted?,
            None => return Err(self.given_up(Doubt::default())),
        }
        let id = ids.next();
        let (mut doubt, object) = (Doubt::default(), pack(id, &payload));
        let left = deadline.saturating_sub(self.time.now());
        let number = match within(&*self.time, left, self.place(id, &object, &mut doubt)).await {
            Some(placed) => placed?,
            None => return Err(self.given_up(doubt)),
        };
        // Where entries were removed, an object can be made that nobody reads.
        if !self.known.is_fresh() {
            let anchored = self.anchor(number - 1).await;
            anchored.map_err(LogError::Unknown)??;
        }
        self.known.refresh();
        self.known.keep(number, payload);
        Ok(number)
    }

    /// Checks that the log has what this process has read of it, if it was not seen for a while: one that was
    /// replaced by an older state must not grow to the present position again with other entries.
    async fn admit(&self) -> Result<(), LogError> {
        self.verify().await?;
        if self.known.is_fresh() {
            return Ok(());
        }
        self.anchor(self.known.read()).await.map_err(|error| self.error(error))?
    }

    /// The number that an append has got.
    async fn place(&self, id: Id, object: &Bytes, doubt: &mut Doubt) -> Result<u64, LogError> {
        let (mut pause, mut streak) = (PAUSES.0, 0);
        // What the tail sees meanwhile does not change it: the object there may be this one.
        let mut number = self.known.end() + 1;
        loop {
            match self.try_at(number, id, object, doubt).await? {
                Tried::Own => return Ok(number),
                Tried::Other => {
                    self.known.see(number);
                    doubt.is_open = false;
                    streak += 1;
                    if streak > STREAK {
                        streak = 0;
                        // If it fails, so does the next try.
                        let _ = self.find_end().await;
                    }
                    number = self.known.end() + 1;
                }
                Tried::Again => {
                    self.time.sleep(self.jittered(pause)).await;
                    pause = PAUSES.1.min(2 * pause);
                }
            }
        }
    }

    async fn try_at(
        &self,
        number: u64,
        id: Id,
        object: &Bytes,
        doubt: &mut Doubt,
    ) -> Result<Tried, LogError> {
        let name = object_of(number);
        let was_open = std::mem::replace(&mut doubt.is_open, true);
        match self.ask(&name, self.store.create(&name, object.clone())).await {
            Ok(Created::New) => return Ok(Tried::Own),
            Ok(Created::Taken) => {}
            Err(error) => {
                let fate = error.fate;
                doubt.is_open = was_open || fate == Fate::Unknown;
                if fate == Fate::Refused && !was_open {
                    return Err(self.error(error));
                }
                doubt.last = Some(error);
                if fate != Fate::Unknown {
                    return Ok(Tried::Again);
                }
            }
        }
        match self.ask(&name, self.store.read(&name)).await {
            Ok(Some(found)) if unpack(&name, &found)?.0 == id => Ok(Tried::Own),
            Ok(Some(_)) => Ok(Tried::Other),
            // Not yet there, or the object that another try makes is not visible yet.
            Ok(None) => Ok(Tried::Again),
            Err(error) => {
                doubt.last = Some(error);
                Ok(Tried::Again)
            }
        }
    }

    /// Makes the entry with a number, which the caller has given it. Returns false if the log has another one
    /// there. After a failure that is transient, or an outcome that is unknown, the caller tries again.
    pub(super) async fn place_at(
        &self,
        number: u64,
        payload: Bytes,
        is_own: IsOwn,
    ) -> Result<bool, LogError> {
        let mut ids = self.ids.lock().await;
        self.verify().await?;
        if self.known.end() < number - 1 || !self.known.is_fresh() {
            self.anchor(number - 1).await.map_err(|error| self.error(error))??;
        }
        let name = object_of(number);
        let created = self.ask(&name, self.store.create(&name, pack(ids.next(), &payload))).await;
        if !matches!(created, Ok(Created::New)) {
            match self.ask(&name, self.store.read(&name)).await.map_err(|error| self.error(error))? {
                Some(found) if !is_own(&unpack(&name, &found)?.1) => return Ok(false),
                Some(_) => {}
                None => {
                    let unclear = || StoreError::unknown(&name, "it was neither made nor found");
                    return Err(self.error(created.err().unwrap_or_else(unclear)));
                }
            }
        }
        self.known.refresh();
        self.known.keep(number, payload);
        Ok(true)
    }

    fn given_up(&self, doubt: Doubt) -> LogError {
        let slow = || StoreError::unknown(self.store.place(), "it answers, but too slowly");
        let last = doubt.last.unwrap_or_else(slow);
        if doubt.is_open { LogError::Unknown(last) } else { self.error(last) }
    }
}
