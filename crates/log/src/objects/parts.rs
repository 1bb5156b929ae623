//! Parts of snapshots: objects that several snapshots share.
//!
//! `parts/NUMBER-DIGEST` is a part that was first written for the snapshot with this number: zstd of a piece
//! of the data, whose SHA-256 is the digest. So each who makes it makes the same, one who was stopped in the
//! middle is continued by the next, and damage is found.
//!
//! *Absent*: which parts are needed (`snapshots`).

use std::io::{self, Read};
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::store::{Created, StoreError};
use super::{BELIEF, Inner};
use crate::LogError;

pub(super) const FOLDER: &str = "parts";
/// How often a request is made until it succeeds.
const TRIES: u32 = 10;
/// Of zstd.
const LEVEL: i32 = 3;
/// The longest piece. A damaged part must not take all memory.
const MAX_PIECE: u64 = 3 << 30;

/// A part that is there.
pub(super) struct Kept {
    pub(super) name: String,
    /// The bytes of its piece.
    pub(super) bytes: u64,
    /// The bytes that were written, if no snapshot had it.
    pub(super) written: Option<u64>,
}

/// The digest of a piece in the name of a part.
pub(super) fn digest_of(name: &str) -> &str {
    name.split_once('-').map_or("", |(_, digest)| digest)
}

/// The number of the snapshot for which a part was written.
pub(super) fn number_of(name: &str) -> Option<u64> {
    name.split_once('-')?.0.parse().ok()
}

impl Inner {
    /// Makes the part of a piece for a snapshot, unless there is one: `known` finds it by its digest.
    pub(super) async fn keep(
        &self,
        number: u64,
        piece: Bytes,
        known: impl Fn(&str) -> Option<String>,
    ) -> Result<Kept, LogError> {
        let failed = |error| LogError::Copy(Box::new(error));
        let bytes = piece.len() as u64;
        let of = piece.clone();
        let digest = aside(move || Ok(hex(&of))).await.map_err(failed)?;
        if let Some(name) = known(&digest) {
            return Ok(Kept { name, bytes, written: None });
        }
        let packed = aside(move || zstd::bulk::compress(&piece, LEVEL)).await.map_err(failed)?;
        let (name, written) = (format!("{number:010}-{digest}"), packed.len() as u64);
        self.make(&format!("{FOLDER}/{name}"), packed.into()).await?;
        Ok(Kept { name, bytes, written: Some(written) })
    }

    /// Makes an object that is the same whoever makes it.
    async fn make(&self, object: &str, bytes: Bytes) -> Result<(), LogError> {
        let mut last = None;
        for _ in 0..TRIES {
            let made = match self.ask(object, self.store.create(object, bytes.clone())).await {
                // Somebody may only be about to make it.
                Ok(Created::Taken) => self.ask(object, self.store.exists(object)).await,
                created => created.map(|_| true),
            };
            match made {
                Ok(true) => return Ok(()),
                made => last = made.err().or(last),
            }
            self.time.sleep(self.jittered(Duration::from_secs(1))).await;
        }
        Err(self.error(last.unwrap_or_else(|| StoreError::unknown(object, "it cannot be written"))))
    }

    /// The piece of a part; `None` if the part is not there.
    pub(super) async fn piece(&self, name: &str) -> Result<Option<Bytes>, LogError> {
        let object = format!("{FOLDER}/{name}");
        let Some(packed) = self.found_in_time(&object).await? else { return Ok(None) };
        let digest = digest_of(name).to_owned();
        let piece = aside(move || {
            let mut piece = Vec::new();
            zstd::stream::read::Decoder::new(&*packed)?.take(MAX_PIECE).read_to_end(&mut piece)?;
            let is_whole = hex(&piece) == digest;
            is_whole.then_some(piece).ok_or_else(|| io::Error::other("it has another digest"))
        });
        let damaged = |error| LogError::Damaged(format!("{object}: {error}"));
        piece.await.map(|piece| Some(piece.into())).map_err(damaged)
    }

    /// An object. The store may fail, and for a moment it may not show the object.
    async fn found_in_time(&self, object: &str) -> Result<Option<Bytes>, LogError> {
        let (begun, mut tries) = (self.time.now(), 0);
        loop {
            tries += 1;
            match self.ask(object, self.store.read(object)).await {
                Ok(None) if self.time.now() < begun + BELIEF => {}
                Err(_) if tries < TRIES => {}
                found => return found.map_err(|error| self.error(error)),
            }
            self.time.sleep(self.jittered(Duration::from_secs(1))).await;
        }
    }
}

fn hex(piece: &[u8]) -> String {
    Sha256::digest(piece).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Does work for some milliseconds of the processor beside other tasks; at once in a simulation, which has no
/// threads.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, io::Error> {
    match tokio::runtime::Handle::try_current() {
        Ok(threads) => threads.spawn_blocking(work).await?,
        Err(_) => work(),
    }
}
