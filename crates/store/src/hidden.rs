//! Collections of a replica that are being filled and are not visible yet.
//!
//! `meta` has an entry for each of them, which is part of a copy of the store. As in a single server, its
//! number is also listed as that of a deleted collection: a server that does not know the entry removes the
//! rows.
//!
//! *Absent*: what is filled and when (`engine/hidden`).

use serde::{Deserialize, Serialize};

use super::Store;
use super::batch::Batch;
use super::codec;
use super::digest::Digest;
use super::error::StoreError;
use super::records::CollectionRecord;
use super::trees::Tree;
use lookalike_hash::CollectionId;
use lsm_tree::Guard;

/// Prefix of the keys.
const HIDDEN: &[u8] = b"hidden/";

/// A collection that is being filled, and by whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HiddenRecord {
    /// The collection as it will be.
    pub record: CollectionRecord,
    /// The start of a server that fills it.
    pub owner: u128,
    /// The name of that server.
    pub server: String,
    /// The collection that it will replace, if it is one.
    pub source: Option<CollectionId>,
    /// Whether that one accepts no writes.
    pub is_frozen: bool,
}

fn key(CollectionId(number): CollectionId) -> Vec<u8> {
    [HIDDEN, &number.to_be_bytes()].concat()
}

impl HiddenRecord {
    fn to_bytes(&self) -> Vec<u8> {
        codec::write(self)
    }

    /// Its part in a digest of several collections.
    pub fn digest(&self) -> Digest {
        Digest::of(&key(self.record.id), &self.to_bytes())
    }
}

impl Store {
    /// The collections that are being filled through the shared log.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub fn hidden(&self) -> Result<Vec<HiddenRecord>, StoreError> {
        self.prefix(Tree::Meta, HIDDEN)
            .map(|entry| codec::read(&entry.value()?, "hidden collection"))
            .collect()
    }
}

impl Batch<'_> {
    /// Records a collection that is being filled.
    pub fn set_hidden(&mut self, hidden: &HiddenRecord) {
        self.writes.insert(Tree::Meta, key(hidden.record.id), hidden.to_bytes());
    }

    /// Forgets that a collection is being filled.
    pub fn remove_hidden(&mut self, id: CollectionId) {
        self.writes.remove(Tree::Meta, key(id));
    }
}
