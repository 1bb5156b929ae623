//! The files that the journal writes: the active one, which records are appended to, and the high-water mark
//! next to the others, which is the number of the last acknowledged record.
//!
//! The high-water mark distinguishes a lost record from one that was never acknowledged. It is written after
//! a record is durable and before the record is acknowledged, without its own sync. After a crash of the
//! process it is exact; after a power failure it may be too low, never too high. Writes alternate between two
//! slots, so one of them is always whole.
//!
//! *Absent*: when they are written and synced (the journal), and what a record contains (`format`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::format::HEAD;
use crate::error::StoreError;

/// Bytes of zeros that are written after a record, over space that is only reserved. A record in space that
/// was never written makes the sync slower: the file system must log that the space is written now, and the
/// sync waits for that log entry too.
pub(super) const AHEAD: usize = 256 << 10;
static ZEROS: [u8; AHEAD] = [0; AHEAD];

/// Each slot has its own sector, so a torn write damages only one.
const SLOT: u64 = 512;
const SLOT_BYTES: usize = 24;

/// The active file.
pub(super) struct Active {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) at: u64,
    pub(super) room: u64,
    /// The end of the written bytes, including zeros.
    pub(super) written: u64,
}

impl Active {
    /// Creates the file with this header, and reserves `room` bytes for it.
    pub(super) fn make(path: PathBuf, head: &[u8], room: u64) -> io::Result<Active> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        let is_reserved = match fallocate(&file, FallocateFlags::empty(), 0, room) {
            Ok(()) => true,
            // Without reservation a full disk shows when a record is written, and the caller takes the
            // record back.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => false,
            Err(error) => return Err(error.into()),
        };
        file.write_all_at(head, 0)?;
        file.sync_all()?;
        // Without reservation, zeros would take space from the records on a disk that is nearly full.
        let written = if is_reserved { HEAD as u64 } else { room };
        Ok(Active { file, path, at: HEAD as u64, room, written })
    }

    /// Writes a record after the last one.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        self.file.write_all_at(record, self.at)?;
        self.at += record.len() as u64;
        self.write_ahead(record.len());
        Ok(())
    }

    /// Writes zeros for the next records, after a record of `length` bytes. Large records are excluded:
    /// each would cause as many zeros again, for a sync that takes long anyway.
    fn write_ahead(&mut self, length: usize) {
        if self.at <= self.written {
            return;
        }
        let bytes = (AHEAD as u64).min(self.room.saturating_sub(self.at));
        self.written = self.at;
        if length < AHEAD / 2 {
            let written = self.file.write_all_at(&ZEROS[..bytes as usize], self.at);
            // Zeros are optional: after an error they are not tried again in this file.
            self.written = if written.is_ok() { self.at + bytes } else { self.room };
        }
    }
}

/// The high-water mark of a store.
pub(super) struct HighWater {
    file: File,
    store: u64,
}

impl HighWater {
    /// The high-water mark's path in the directory of the journal.
    pub(super) fn path(dir: &Path) -> PathBuf {
        dir.join("mark")
    }

    /// Creates the high-water mark, with the number 0.
    pub(super) fn create(dir: &Path, store: u64) -> io::Result<()> {
        let file = File::create(HighWater::path(dir))?;
        file.set_len(2 * SLOT)?;
        for slot in 0..2 {
            file.write_all_at(&slot_of(store, 0), slot * SLOT)?;
        }
        file.sync_all()
    }

    /// Reads the number without changing anything.
    pub(super) fn read(dir: &Path, store: u64) -> Result<u64, StoreError> {
        let path = HighWater::path(dir);
        let bytes = std::fs::read(&path).map_err(|source| StoreError::io(&path, "read", source))?;
        let slots =
            [0, SLOT as usize].map(|at| bytes.get(at..at + SLOT_BYTES).and_then(|slot| read(slot, store)));
        slots.into_iter().flatten().max().ok_or(StoreError::Damage {
            path,
            offset: 0,
            what: "neither of its slots is readable".into(),
        })
    }

    pub(super) fn open(dir: &Path, store: u64) -> io::Result<HighWater> {
        Ok(HighWater { file: OpenOptions::new().write(true).open(HighWater::path(dir))?, store })
    }

    /// Records that the records up to `number` are acknowledged.
    pub(super) fn set(&self, number: u64) -> io::Result<()> {
        self.file.write_all_at(&slot_of(self.store, number), number % 2 * SLOT)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn slot_of(store: u64, number: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(&number.to_le_bytes());
    slot[8..16].copy_from_slice(&store.to_le_bytes());
    let checksum = xxh3_64_with_seed(&slot[..16], store);
    slot[16..].copy_from_slice(&checksum.to_le_bytes());
    slot
}

fn read(slot: &[u8], store: u64) -> Option<u64> {
    let number = u64::from_le_bytes(slot[..8].try_into().ok()?);
    (slot == slot_of(store, number)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_damaged_slot_is_harmless_and_two_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        HighWater::create(dir.path(), 9).unwrap();
        let high_water = HighWater::open(dir.path(), 9).unwrap();
        for number in 1..=5 {
            high_water.set(number).unwrap();
            assert_eq!(HighWater::read(dir.path(), 9).unwrap(), number);
        }
        let path = HighWater::path(dir.path());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[SLOT as usize + 1] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(HighWater::read(dir.path(), 9).unwrap(), 4);
        bytes[3] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = HighWater::read(dir.path(), 9).unwrap_err();
        assert!(error.to_string().contains("mark"), "{error}");
        assert!(matches!(error, StoreError::Damage { .. }));
    }
}
