//! Entries of this server whose effect the store has, and which the shared log may not have yet.
//!
//! They are written in the batch with their effect, so one sync makes both durable. An entry has parts, one
//! for each command that was applied.
//!
//! *Absent*: sending them (`replica/order`). A copy of a store has none of them.

use lsm_tree::Guard;

use super::Store;
use super::batch::Batch;
use super::codec;
use super::error::StoreError;
use super::trees::Tree;

/// Prefix of the keys in the tree `meta`.
pub(super) const UNSENT: &[u8] = b"unsent/";

fn entry_prefix(entry: u64) -> Vec<u8> {
    [UNSENT, &entry.to_be_bytes()].concat()
}

fn key(entry: u64, part: u32) -> Vec<u8> {
    [&entry_prefix(entry)[..], &part.to_be_bytes()].concat()
}

impl Batch<'_> {
    /// Keeps a part of an entry until it is sent.
    pub fn keep_unsent(&mut self, (entry, part): (u64, u32), bytes: &[u8]) {
        self.writes.insert(Tree::Meta, key(entry, part), bytes);
    }

    /// Removes an entry with this number of parts.
    pub fn remove_unsent(&mut self, entry: u64, parts: u32) {
        (0..parts).for_each(|part| self.writes.remove(Tree::Meta, key(entry, part)));
    }
}

impl Store {
    /// The parts of an entry.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read, here and below.
    pub fn unsent(&self, entry: u64) -> Result<Vec<Vec<u8>>, StoreError> {
        self.prefix(Tree::Meta, entry_prefix(entry)).map(|one| Ok(one.value()?.to_vec())).collect()
    }

    /// The entries in their order, each with the number of its parts and of their bytes.
    pub fn unsent_entries(&self) -> Result<Vec<(u64, u32, u64)>, StoreError> {
        let mut entries: Vec<(u64, u32, u64)> = Vec::new();
        for one in self.prefix(Tree::Meta, UNSENT) {
            let (key, value) = one.into_inner()?;
            let number = key.get(UNSENT.len()..UNSENT.len() + 8).unwrap_or_default();
            let (entry, bytes) = (codec::read_number(number)?, value.len() as u64);
            match entries.last_mut() {
                Some(last) if last.0 == entry => *last = (entry, last.1 + 1, last.2 + bytes),
                _ => entries.push((entry, 1, bytes)),
            }
        }
        Ok(entries)
    }
}
