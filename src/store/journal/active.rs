//! The segment that is written to.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, fallocate};

use super::segment::HEAD;

/// Bytes that are written as zeros behind a record where nothing was written yet. Room that is only reserved costs a sync more:
/// the file system notes for each record that its place is written now, and waits for the note as well.
pub(super) const AHEAD: usize = 256 << 10;
static ZEROS: [u8; AHEAD] = [0; AHEAD];

/// The segment that is written to.
pub(super) struct Active {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) at: u64,
    pub(super) room: u64,
    /// Up to where it was written to, be it with zeros.
    pub(super) written: u64,
}

impl Active {
    /// Makes the file, with so much room and this head.
    pub(super) fn make(path: PathBuf, head: &[u8], room: u64) -> io::Result<Active> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        let is_reserved = match fallocate(&file, FallocateFlags::empty(), 0, room) {
            Ok(()) => true,
            // Where no room can be reserved a full disk is met at the write, and the record is taken back there.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => false,
            Err(error) => return Err(error.into()),
        };
        file.write_all_at(head, 0)?;
        file.sync_all()?;
        // Zeros that took room of their own would be in the way of records on a disk that is nearly full.
        let written = if is_reserved { HEAD as u64 } else { room };
        Ok(Active { file, path, at: HEAD as u64, room, written })
    }

    /// Writes a record behind the last one.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        self.file.write_all_at(record, self.at)?;
        self.at += record.len() as u64;
        self.write_ahead(record.len());
        Ok(())
    }

    /// Has the places of the next records written, after one of so many bytes. Of large ones each would have as much written
    /// again, for a sync that takes long anyway.
    fn write_ahead(&mut self, length: usize) {
        if self.at <= self.written {
            return;
        }
        let bytes = (AHEAD as u64).min(self.room.saturating_sub(self.at));
        self.written = self.at;
        if length < AHEAD / 2 {
            let written = self.file.write_all_at(&ZEROS[..bytes as usize], self.at);
            // Where it cannot be had, it is not tried again.
            self.written = if written.is_ok() { self.at + bytes } else { self.room };
        }
    }
}
