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
//! *Guarantee*: stores with equal rows in a range of keys have equal frames there, whatever is before and
//! after it, but for the first and the last ones. A tree is in the order of its keys and begins with a frame
//! of its own, and a frame ends where the key of a write decides. So copies of data of which little has
//! changed share most frames. The tree with the position is the last, since it always differs.
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

/// Bytes of a frame at least, and on average from there to its end.
const FRAME: usize = 1 << 20;
/// Bytes at which it ends in any case.
const FULL: usize = 8 << 20;
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
    /// Writes a copy of what the view sees, and flushes `out` before each frame.
    ///
    /// # Errors
    /// [`CopyError`] if the store cannot be read or `out` cannot be written.
    pub fn copy_to(&self, out: &mut impl Write) -> Result<(), CopyError> {
        let mut count = 0_u64;
        for tree in ALL.into_iter().rev().filter(|tree| *tree != Tree::History) {
            let mut writes = Writes::default();
            for entry in self.range(tree, (Bound::Unbounded, Bound::Unbounded)) {
                let (key, value) = entry?;
                let is_own = [HIGH_WATER, TRIMMED].contains(&&*key) || key.starts_with(UNSENT);
                if tree == Tree::Meta && is_own {
                    continue;
                }
                let before = writes.payload().len();
                writes.insert(tree, &key, &value);
                count += 1;
                if is_end(&key, before, writes.payload().len()) {
                    write_frame(out, &std::mem::take(&mut writes))?;
                }
            }
            if !writes.is_empty() {
                write_frame(out, &writes)?;
            }
        }
        out.write_all(&0_u32.to_le_bytes())?;
        out.write_all(&count.to_le_bytes())?;
        Ok(())
    }
}

/// Whether a frame ends with a write, which has made it longer. The chance grows with the length of the
/// write, so that large and small rows have frames of the same size.
fn is_end(key: &[u8], before: usize, after: usize) -> bool {
    let decides = || (u128::from(xxh3_64(key)) * FRAME as u128) >> 64 < (after - before) as u128;
    after >= FULL || before >= FRAME && decides()
}

fn write_frame(out: &mut impl Write, writes: &Writes) -> io::Result<()> {
    out.flush()?;
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const ROWS: u64 = 40_000;

    /// What is written until a flush.
    #[derive(Default)]
    struct Frames(Vec<Vec<u8>>);

    impl Write for Frames {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                self.0.push(Vec::new());
            }
            self.0.last_mut().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.push(Vec::new());
            Ok(())
        }
    }

    fn settings() -> StoreSettings {
        StoreSettings { cache_bytes: 1 << 20, reserve_bytes: 0, journal_bytes: 64 << 20, verify: false }
    }

    fn frames(store: &Store) -> Vec<Vec<u8>> {
        let mut frames = Frames::default();
        store.view().copy_to(&mut frames).unwrap();
        frames.0
    }

    /// Writes rows of some 500 bytes, and for each an entry at a place that its content decides.
    fn write(store: &Store, rows: impl Iterator<Item = u64>, version: u64) {
        let mut writes = Writes::default();
        for row in rows {
            let mut random = fastrand::Rng::with_seed(row << 8 | version);
            let value: Vec<u8> =
                std::iter::repeat_with(|| random.u8(..)).take(400 + row as usize % 200).collect();
            writes.insert(Tree::PostingLists, xxh3_64(&value).to_be_bytes(), [0; 8]);
            writes.insert(Tree::Rows, row.to_be_bytes(), value);
        }
        writes.insert(Tree::Meta, b"log_position", version.to_be_bytes());
        store.core.commit(&writes, || ()).unwrap();
    }

    /// A change, how many frames a copy then has, and how many of them are new.
    #[test]
    fn a_copy_has_most_frames_of_the_one_before_and_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("a"), settings(), Some(1)).unwrap();
        write(&store, 0..ROWS, 0);
        let mut before: HashSet<Vec<u8>> = frames(&store).into_iter().collect();
        assert!((10..22).contains(&before.len()), "{}", before.len());
        // Of 1 % of the rows in one place; new ones after all others; of 1 % all over the place.
        let hundredth = ROWS / 100;
        let changes: [(Box<dyn Iterator<Item = u64>>, _); 4] = [
            (Box::new(0..0), 1..=1),
            (Box::new(ROWS / 2..ROWS / 2 + hundredth), 3..=5),
            (Box::new(ROWS..ROWS + hundredth), 3..=4),
            (Box::new((0..ROWS).step_by(100)), 10..=22),
        ];
        for (version, (rows, expected)) in (1..).zip(changes) {
            write(&store, rows, version);
            let after = frames(&store);
            assert!(after.iter().all(|frame| frame.len() < FULL + 1_000));
            let new = after.iter().filter(|frame| !before.contains(*frame)).count();
            assert!(expected.contains(&new), "change {version}: {new} of {} frames are new", after.len());
            let copy = dir.path().join(version.to_string());
            Store::receive(&copy, settings(), 2, &mut &after.concat()[..]).unwrap();
            assert!(frames(&Store::open(&copy, settings(), None).unwrap()) == after);
            before = after.into_iter().collect();
        }
    }
}
