//! Digests of the content of a collection: equal on two servers exactly if they have the same documents and
//! marks, except for a chance of 2^-128.
//!
//! A digest is the sum, modulo 2^128, of a hash of each row and each mark. So a batch changes it by what it
//! adds and removes, whatever the order, and the store keeps it in `meta` beside the number of documents.
//! [`Store::check_digest`] reads all rows and makes the sum anew: it finds rows that were changed or lost
//! although every file has its checksum, and posting lists that do not fit the rows.
//!
//! A collection that an earlier version created has no digest, until [`Store::check_digest`] stores one.
//!
//! *Absent*: protection against those who choose documents so that their digests collide; a check of trees
//! that follow from the rows, except for posting lists of hashes.

use std::fmt;
use std::ops::Bound;
use std::str::FromStr;

use lsm_tree::{AbstractTree, SeqNo};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use super::Store;
use super::codec;
use super::error::StoreError;
use super::records::{CollectionRecord, Lists, PostingList, RowHead};
use super::trees::{Tree, Writes};
use super::view::View;
use lookalike_hash::{CollectionId, DocumentId};

/// A sum of hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest(u128);

impl Digest {
    /// The part of one entry.
    pub(super) fn of(key: &[u8], value: &[u8]) -> Digest {
        Digest(xxh3_128_with_seed(value, xxh3_64(key)))
    }

    /// Its bytes in `meta`.
    pub(super) fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Digest) -> Digest {
        Digest(self.0.wrapping_add(other.0))
    }

    /// The digest that, added to `other`, gives this one.
    #[must_use]
    pub(crate) fn minus(self, other: Digest) -> Digest {
        Digest(self.0.wrapping_sub(other.0))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Digest {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Digest, Self::Err> {
        u128::from_str_radix(text, 16).map(Digest)
    }
}

impl CollectionRecord {
    /// The part of the settings in a digest of several collections.
    pub fn digest(&self) -> Digest {
        Digest::of(&codec::collection_key(self.id), &codec::write(self))
    }
}

/// How the content of a collection compares with its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// It has this digest.
    Whole(Digest),
    /// The posting lists of hashes are not those of the rows.
    OtherLists,
}

impl Store {
    /// The digest of a collection; `None` if an earlier version created it.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub fn digest(&self, collection: CollectionId) -> Result<Option<Digest>, StoreError> {
        let value = self.core.trees.tree(Tree::Meta).get(codec::digest_key(collection), SeqNo::MAX)?;
        value.map(|value| read(&value)).transpose()
    }

    /// Compares the content of a collection with its digest, or stores the digest if there is none. Reads the
    /// whole collection. Nothing may be written meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Differs`] if they do not agree.
    pub fn check_digest(&self, of: &CollectionRecord) -> Result<(), StoreError> {
        let differs = |what| Err(StoreError::Differs { collection: of.name.clone(), what });
        let found = match self.view().content(of)? {
            Content::Whole(digest) => digest,
            Content::OtherLists => return differs("the posting lists are not those of its rows"),
        };
        match self.digest(of.id)? {
            Some(digest) if digest == found => Ok(()),
            Some(_) => differs("rows or marks are not those that were written"),
            None => {
                let mut writes = Writes::default();
                writes.insert(Tree::Meta, codec::digest_key(of.id), found.to_bytes());
                self.core.commit(&writes, || ())
            }
        }
    }
}

impl View<'_> {
    /// Reads all rows, marks and posting lists of hashes of a collection.
    fn content(&self, of: &CollectionRecord) -> Result<Content, StoreError> {
        let (mut digest, mut of_rows, mut of_lists) =
            (Digest::default(), Digest::default(), Digest::default());
        let posting = |hash: &[u8], id: &[u8]| Digest::of(id, hash);
        for entry in self.range(Tree::Rows, keys(of.id)) {
            let (key, value) = entry?;
            digest = digest.plus(Digest::of(&key, &value));
            of_rows = of_rows.plus(posting(codec::read_row_hash(&value)?, &key[4..]));
        }
        for entry in self.range(Tree::Marks, keys(of.id)) {
            let (key, value) = entry?;
            digest = digest.plus(Digest::of(&key, &value));
        }
        for entry in self.range(Lists::Hashes.tree(), keys(of.id)) {
            let (key, value) = entry?;
            if let PostingList::One(one) = codec::read_posting_list(&value)? {
                of_lists = of_lists.plus(posting(&key[4..], one.id.as_str().as_bytes()));
            }
        }
        for entry in self.range(Lists::Hashes.shared_tree(), keys(of.id)) {
            let (key, _) = entry?;
            let id = codec::read_posting_id(&key, of.settings.width)?;
            of_lists = of_lists.plus(posting(&key[4..4 + of.settings.width.bytes()], id));
        }
        Ok(if of_rows == of_lists { Content::Whole(digest) } else { Content::OtherLists })
    }

    /// The row of a document without its text, and its part of the digest; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails or the row does not read back.
    pub fn row_head_and_digest(
        &self,
        collection: CollectionId,
        id: &DocumentId,
    ) -> Result<Option<(RowHead, Digest)>, StoreError> {
        let key = codec::row_key(collection, id);
        let value = self.get(Tree::Rows, key.clone())?;
        value.map(|value| Ok((codec::read_row_head(&value)?, Digest::of(&key, &value)))).transpose()
    }
}

/// All keys of a collection. None has the greatest number.
fn keys(CollectionId(number): CollectionId) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let prefix = |number| codec::collection_prefix(CollectionId(number)).to_vec();
    (Bound::Included(prefix(number)), Bound::Excluded(prefix(number + 1)))
}

fn read(value: &[u8]) -> Result<Digest, StoreError> {
    let bytes = value.try_into().map_err(|_| StoreError::Damaged("digest"))?;
    Ok(Digest(u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::StoreSettings;
    use super::super::batch::Batch;
    use super::super::lifetime::Lifetime;
    use super::super::marks;
    use super::super::records::{CollectionSettings, Posting, Row};
    use super::*;
    use lookalike_hash::{CollectionName, Hash, Mark, Width};

    fn open(dir: &Path) -> Store {
        let settings =
            StoreSettings { cache_bytes: 1 << 20, reserve_bytes: 0, journal_bytes: 1 << 20, verify: true };
        Store::open(dir, settings, Some(7)).unwrap()
    }

    fn record(id: u32) -> CollectionRecord {
        CollectionRecord {
            id: CollectionId(id),
            name: CollectionName::new(&format!("c{id}")).unwrap(),
            settings: CollectionSettings {
                keep_text: true,
                ..CollectionSettings::of("plain@1".into(), Width::Bits64)
            },
            created_ms: 1,
        }
    }

    fn id(number: u8) -> DocumentId {
        DocumentId::new(&format!("d{number}")).unwrap()
    }

    /// Hashes of all magnitudes: keys of posting lists begin with any byte.
    fn hash(number: u8) -> Hash {
        Hash::from_u64(u64::from(number).wrapping_mul(0x0101_0101_0101_0101))
    }

    fn row(number: u8, text: &str) -> Row {
        Row {
            hash: hash(number),
            features: None,
            short: false,
            characters: None,
            place: 1,
            written_ms: 5,
            lifetime: Lifetime::Endless,
            metadata: None,
            grams: Vec::new(),
            text: Some(text.to_owned()),
            sketch: None,
            thumbnail: None,
        }
    }

    /// Writes a document with its posting list.
    fn put(batch: &mut Batch<'_>, of: &CollectionRecord, number: u8, text: &str, before: Option<Digest>) {
        batch.put_row(of.id, &id(number), &row(number, text), before);
        let posting = Posting { id: id(number), has_metadata: false, expires_ms: None };
        batch.set_posting_list(Lists::Hashes, of.id, hash(number), Some(&PostingList::One(posting)));
    }

    fn stored(store: &Store, of: &CollectionRecord, number: u8) -> Option<Digest> {
        store.view().row_head_and_digest(of.id, &id(number)).unwrap().map(|(_, digest)| digest)
    }

    /// A store with two collections of three documents each, with texts of all sizes, and a mark.
    fn filled(dir: &Path) -> Store {
        let store = open(dir);
        let mut batch = store.batch().unwrap();
        for record in [record(1), record(2)] {
            batch.create_collection(&record);
            for number in [1, 128, 255] {
                put(&mut batch, &record, number, &"页".repeat(usize::from(number) * 40), None);
            }
            batch.add_mark(record.id, &Mark::pair(id(1), id(255)).unwrap(), 9);
        }
        batch.commit().unwrap();
        store
    }

    #[test]
    fn a_digest_is_that_of_the_content_after_any_batches() {
        let dir = tempfile::tempdir().unwrap();
        let (store, records) = (filled(dir.path()), [record(1), record(2)]);
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..200 {
            let mut batch = store.batch().unwrap();
            // A plan writes each document of a batch once.
            let first = random.u8(..);
            for number in (0..random.u8(1..20)).map(|n| first.wrapping_add(n)) {
                let of = &records[random.usize(0..2)];
                let before = stored(&store, of, number);
                let mark = Mark::pair(id(number), id(number ^ 1)).unwrap();
                let marked = store.view().marked_ms(of.id, &mark).unwrap();
                match (random.u8(0..4), before, marked) {
                    (0, Some(digest), _) => {
                        batch.delete_row(of.id, &id(number), digest);
                        batch.set_posting_list(Lists::Hashes, of.id, hash(number), None);
                    }
                    (1, _, None) if number % 2 == 0 => batch.add_mark(of.id, &mark, round),
                    (1, _, Some(at)) if number % 2 == 0 => batch.remove_mark(of.id, &mark, at),
                    _ => put(&mut batch, of, number, &format!("{round}"), before),
                }
            }
            batch.commit().unwrap();
            records.iter().for_each(|record| store.check_digest(record).unwrap());
        }
        assert_ne!(store.digest(records[0].id).unwrap(), store.digest(records[1].id).unwrap());
        store.close();
        drop(store);
        super::super::wait_until_closed(dir.path()).unwrap();
        let store = open(dir.path());
        records.iter().for_each(|record| store.check_digest(record).unwrap());
    }

    #[test]
    fn what_is_not_as_it_was_written_is_found() {
        type Damage = fn(&Store, &CollectionRecord);
        let commit = |store: &Store, writes: &Writes| store.core.commit(writes, || ()).unwrap();
        let damages: [(&str, Damage); 5] = [
            ("a row is lost", |store, of| {
                let mut writes = Writes::default();
                writes.remove(Tree::Rows, codec::row_key(of.id, &id(1)));
                store.core.commit(&writes, || ()).unwrap();
            }),
            ("a row is another one", |store, of| {
                let mut batch = store.batch().unwrap();
                let digest = Digest::of(&codec::row_key(of.id, &id(1)), &row(1, "other").to_bytes());
                batch.put_row(of.id, &id(1), &row(1, "other"), Some(digest));
                batch.commit().unwrap();
            }),
            ("two rows are exchanged", |store, of| {
                let mut writes = Writes::default();
                for (number, other) in [(1, 128), (128, 1)] {
                    let value =
                        store.view().get(Tree::Rows, codec::row_key(of.id, &id(other))).unwrap().unwrap();
                    writes.insert(Tree::Rows, codec::row_key(of.id, &id(number)), value);
                }
                store.core.commit(&writes, || ()).unwrap();
            }),
            ("a mark is lost", |store, of| {
                let mut writes = Writes::default();
                let mark = Mark::pair(id(1), id(255)).unwrap();
                marks::keys(of.id, &mark).for_each(|key| writes.remove(Tree::Marks, key));
                store.core.commit(&writes, || ()).unwrap();
            }),
            ("a posting list is lost", |store, of| {
                let mut batch = store.batch().unwrap();
                batch.set_posting_list(Lists::Hashes, of.id, hash(255), None);
                batch.commit().unwrap();
            }),
        ];
        for (what, damage) in damages {
            let dir = tempfile::tempdir().unwrap();
            let (store, damaged) = (filled(dir.path()), record(2));
            damage(&store, &damaged);
            store.check_digest(&record(1)).unwrap();
            let error = store.check_digest(&damaged).unwrap_err();
            assert!(
                matches!(&error, StoreError::Differs { collection, .. } if collection.as_str() == "c2"),
                "{what}"
            );
        }
        // A collection of an earlier version gets its digest.
        let dir = tempfile::tempdir().unwrap();
        let (store, of) = (filled(dir.path()), record(2));
        let digest = store.digest(of.id).unwrap();
        let mut writes = Writes::default();
        writes.remove(Tree::Meta, codec::digest_key(of.id));
        commit(&store, &writes);
        assert_eq!(store.digest(of.id).unwrap(), None);
        store.check_digest(&of).unwrap();
        assert_eq!(store.digest(of.id).unwrap(), digest);
    }
}
