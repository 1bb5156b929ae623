//! A copy of a store: everything in it at one moment, as a stream, for a server that joins its replicas.
//!
//! ```text
//! each frame    u32 length, XXH3 of the payload as u64, payload: writes to the trees (see `trees`)
//! the end       u32 0, number of writes as u64
//! ```
//!
//! The copy includes the position in the shared log, up to which it is complete. It leaves out the history of
//! the index, so the new store begins without changes, and entries that the log does not have yet.
//!
//! *Absent*: who copies from whom (`replica`).

use std::io::{self, Read, Write};
use std::ops::Bound;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::codec::{HIGH_WATER, TRIMMED};
use super::error::StoreError;
use super::trees::{ALL, Tree, Writes, next_write};
use super::unsent::UNSENT;
use super::view::View;
use super::{Store, StoreSettings};

/// Bytes of writes at which a frame is complete.
const FRAME: usize = 1 << 20;
/// Maximum bytes of a frame: a row with a text of the greatest size that settings allow, and its metadata.
const MAX_FRAME: usize = 2 << 30;

/// Why a copy was not made.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The stream cannot be read or written.
    #[error("the copy was cut off")]
    Stream(#[from] io::Error),
    /// The stream is not a copy, or was changed on its way.
    #[error("the copy is damaged: {0}")]
    Damaged(&'static str),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl View<'_> {
    /// Writes a copy of what the view sees.
    ///
    /// # Errors
    /// [`CopyError`] if the store cannot be read or `out` cannot be written.
    pub fn copy_to(&self, out: &mut impl Write) -> Result<(), CopyError> {
        let (mut writes, mut count) = (Writes::default(), 0_u64);
        for tree in ALL.into_iter().filter(|tree| *tree != Tree::History) {
            for entry in self.range(tree, (Bound::Unbounded, Bound::Unbounded)) {
                let (key, value) = entry?;
                let is_own = [HIGH_WATER, TRIMMED].contains(&&*key) || key.starts_with(UNSENT);
                if tree == Tree::Meta && is_own {
                    continue;
                }
                writes.insert(tree, &key, &value);
                count += 1;
                if writes.payload().len() >= FRAME {
                    write_frame(out, &std::mem::take(&mut writes))?;
                }
            }
        }
        if !writes.is_empty() {
            write_frame(out, &writes)?;
        }
        out.write_all(&0_u32.to_le_bytes())?;
        out.write_all(&count.to_le_bytes())?;
        Ok(())
    }
}

fn write_frame(out: &mut impl Write, writes: &Writes) -> io::Result<()> {
    let payload = writes.payload();
    let length = u32::try_from(payload.len()).map_err(|_| io::Error::other("a row is too large to copy"))?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&xxh3_64(payload).to_le_bytes())?;
    out.write_all(payload)
}

impl Store {
    /// Makes a store in `dir`, which has none, from a copy. If it fails, the remains must be deleted.
    ///
    /// # Errors
    /// [`CopyError`] if the stream ends early or is damaged, or if the store cannot be written.
    pub fn receive(
        dir: &Path,
        settings: StoreSettings,
        new_store: u64,
        copy: &mut impl Read,
    ) -> Result<(), CopyError> {
        let store = Store::open(dir, settings, Some(new_store))?;
        let mut count = 0_u64;
        loop {
            let length = u32::from_le_bytes(read_array(copy)?) as usize;
            let number = u64::from_le_bytes(read_array(copy)?);
            if length == 0 {
                store.close();
                return if number == count { Ok(()) } else { Err(CopyError::Damaged("writes are missing")) };
            }
            if length > MAX_FRAME {
                return Err(CopyError::Damaged("the length of a frame"));
            }
            let mut payload = vec![0; length];
            copy.read_exact(&mut payload)?;
            if xxh3_64(&payload) != number {
                return Err(CopyError::Damaged("a checksum differs"));
            }
            count += checked(&payload)?;
            store.core.commit(&Writes::of(payload), || ())?;
        }
    }
}

fn read_array<const N: usize>(copy: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    copy.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The number of writes in a payload, all of which insert something that a copy may have.
fn checked(mut payload: &[u8]) -> Result<u64, CopyError> {
    let mut count = 0;
    while !payload.is_empty() {
        let write =
            next_write(&mut payload).filter(|write| write.value.is_some() && write.tree != Tree::History);
        write.ok_or(CopyError::Damaged("a write"))?;
        count += 1;
    }
    Ok(count)
}
