//! The position of a store in the shared log.
//!
//! The position is written in the batch with the effect of an entry, so a store has the effect of exactly the
//! entries up to it. Entries without an effect do not move it, unless documents expire after them; they may
//! be applied again and have no effect again.
//!
//! *Absent*: the log (`replica/order`).

use lsm_tree::{AbstractTree, SeqNo};

use super::Store;
use super::batch::Batch;
use super::codec;
use super::error::StoreError;
use super::trees::Tree;

/// The key in the tree `meta`.
const KEY: &[u8] = b"log_position";

/// The last entry of the shared log whose effect a store has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// The position of the entry; 0 if there is none.
    pub entry: u64,
    /// The least place of the next new document, which follows from the entries up to this one.
    pub next_place: u64,
}

impl Batch<'_> {
    /// Records that the batch is the effect of an entry of the shared log.
    pub fn record_position(&mut self, position: LogPosition) {
        let value = [position.entry, position.next_place].map(u64::to_be_bytes).concat();
        self.writes.insert(Tree::Meta, KEY, value);
    }
}

impl Store {
    /// The last entry of the shared log whose effect the store has; `None` if it has none.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub fn log_position(&self) -> Result<Option<LogPosition>, StoreError> {
        let value = self.core.trees.tree(Tree::Meta).get(KEY, SeqNo::MAX)?;
        let read = |value: lsm_tree::UserValue| {
            let (entry, next_place) = value.split_at_checked(8).ok_or(StoreError::Damaged("log position"))?;
            Ok(LogPosition { entry: codec::read_number(entry)?, next_place: codec::read_number(next_place)? })
        };
        value.map(read).transpose()
    }
}
