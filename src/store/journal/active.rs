//! The active segment, which records are appended to.
//!
//! *Absent*: syncs, and what a record contains (`segment`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, fallocate};

use super::segment::HEAD;

/// Bytes of zeros that are written after a record, over space that is only reserved. A record in space that
/// was never written makes the sync slower: the file system must log that the space is written now, and the
/// sync waits for that log entry too.
pub(super) const AHEAD: usize = 256 << 10;
static ZEROS: [u8; AHEAD] = [0; AHEAD];

/// The active segment.
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
            // Zeros are optional: after an error they are not tried again in this segment.
            self.written = if written.is_ok() { self.at + bytes } else { self.room };
        }
    }
}
