//! Salvage: what can still be read of a damaged store, as a store of its own in a working directory.
//!
//! Nothing of the damaged store is changed. Tables that are not what was written are left out whole, blob files are kept
//! as long as their lists read back (each blob has a checksum of its own), records of the journal that do not read back are
//! passed over. What is left may contradict itself and may show documents that had been deleted; the caller makes a new
//! store of it.

use std::fs;
use std::io::{self, Cursor, Write};
use std::path::Path;
use std::sync::Arc;

use lsm_tree::Guard;
use xxhash_rust::xxh3::xxh3_128;

use super::codec;
use super::journal::{self, Journal};
use super::keeper::Core;
use super::manifest::Manifest;
use super::records::{Bearer, CollectionRecord, Row};
use super::room::Room;
use super::trees::{NAMES, TREES, Tree, Trees};
use super::{Store, StoreError, lock, verify};
use crate::ids::{CollectionId, DocumentId, Hash};

/// Bytes of cache: enough for one look at everything.
const CACHE: u64 = 64 << 20;
/// Runs in a level: their number is a byte.
const RUNS: usize = 255;
/// Levels of a tree.
const LEVELS: usize = 7;

/// A row that does not read back.
#[derive(Debug)]
pub struct LostRow {
    /// The document, if at least its id reads back.
    pub id: Option<DocumentId>,
    /// Why not.
    pub error: StoreError,
}

impl StoreError {
    /// Whether it is of a file of the store in `dir` that tells nothing which the rows do not tell as well.
    pub fn spares_rows(&self, dir: &Path) -> bool {
        let (StoreError::Io { path, .. } | StoreError::Damage { path, .. }) = self else { return false };
        let made_again =
            [Tree::Postings, Tree::Bearers, Tree::Expiries, Tree::Log].map(|tree| NAMES[tree as usize]);
        path.strip_prefix(dir).is_ok_and(|path| made_again.iter().any(|name| path.starts_with(name)))
    }
}

impl Store {
    /// Opens what can be read of the store in `from` in the directory `work`, which is made; every flaw goes to `found`.
    ///
    /// # Errors
    /// [`StoreError`] if it is in use, or if `work` cannot be written.
    pub fn salvage(from: &Path, work: &Path, found: &mut dyn FnMut(StoreError)) -> Result<Store, StoreError> {
        let held = lock(from)?;
        let written = |source| StoreError::write(work, source);
        fs::create_dir_all(work).map_err(written)?;
        let manifest = match Manifest::read(from) {
            Ok(Some(manifest)) => {
                verify::verify(from, &manifest, found);
                Some(manifest)
            }
            Ok(None) => {
                found(verify::missing(&Manifest::path(from)));
                None
            }
            Err(flaw) => {
                found(flaw);
                None
            }
        };
        let salvaged = |whole_blobs: bool| {
            for (place, name) in NAMES.iter().enumerate() {
                let blobs = (place == Tree::Rows as usize).then_some(whole_blobs);
                salvage_tree(&from.join(name), &work.join(name), blobs).map_err(written)?;
            }
            Trees::open(work, CACHE)
        };
        // A blob file may have lost its own description; then it goes as a whole, with all that it could still tell.
        let trees = salvaged(false).or_else(|_| {
            for name in NAMES {
                fs::remove_dir_all(work.join(name)).map_err(written)?;
            }
            salvaged(true)
        })?;
        let journal_dir = from.join("journal");
        let needed = manifest.as_ref().map_or(1, |manifest| manifest.replay_from);
        journal::salvage(&journal_dir, needed, &mut |seqno, payload| {
            // What the trees make no sense of is passed over like what does not read back.
            let _ = trees.replay(seqno, payload);
        });
        let manifest = Manifest { store: 0, replay_from: 1, versions: [0; TREES] };
        let journal_dir = work.join("journal");
        Journal::create(&journal_dir, manifest.store).map_err(written)?;
        let scan = journal::scan(&journal_dir, manifest.store, 1, |_, _, _| Ok(()))?;
        let journal = Journal::open(&journal_dir, manifest.store, 1 << 20, scan)?;
        let room = Room::new(work.to_path_buf(), 0);
        let core = Arc::new(Core::new(work.to_path_buf(), &manifest, trees, journal, room, u64::MAX, held));
        Ok(Store { core, keeper: parking_lot::Mutex::new(None) })
    }

    /// The collections that read back.
    pub fn salvaged_collections(&self) -> Vec<CollectionRecord> {
        let entries = self.prefix(Tree::Meta, codec::COLLECTION);
        entries.filter_map(|entry| codec::read_collection(&entry.value().ok()?).ok()).collect()
    }

    /// The rows of a collection, and those of which no more than the id reads back.
    pub fn salvaged_rows(
        &self,
        collection: CollectionId,
    ) -> impl Iterator<Item = Result<(DocumentId, Row), LostRow>> + use<> {
        self.prefix(Tree::Rows, codec::collection_prefix(collection)).map(|entry| {
            let seen = std::cell::RefCell::new(None);
            let value = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                // The trees give up on a value whose file is gone.
                entry.into_inner_if(|key| {
                    *seen.borrow_mut() = codec::read_row_key(key).ok();
                    true
                })
            }));
            let id = seen.into_inner();
            let read = match value {
                Ok(Ok((_, Some(value)))) => codec::read_row(&value),
                Ok(Ok((_, None))) | Err(_) => Err(StoreError::Damaged("document row")),
                Ok(Err(error)) => Err(error.into()),
            };
            match (id, read) {
                (Some(id), Ok(row)) => Ok((id, row)),
                (id, Ok(_)) => Err(LostRow { id, error: StoreError::Damaged("row key") }),
                (id, Err(error)) => Err(LostRow { id, error }),
            }
        })
    }

    /// Which documents bore which hashes, as far as that reads back.
    pub fn salvaged_bearers(&self, of: &CollectionRecord) -> impl Iterator<Item = (Hash, Bearer)> + use<> {
        let bytes = of.width.bytes();
        let prefix = codec::collection_prefix(of.id);
        let sole = self.prefix(Tree::Postings, prefix).filter_map(move |entry| {
            let (key, value) = entry.into_inner().ok()?;
            let hash = codec::read_posting_hash(&key, bytes).ok()?;
            match codec::read_posting(&value).ok()? {
                super::Posting::Sole(bearer) => Some((hash, bearer)),
                super::Posting::Shared(_) => None,
            }
        });
        let shared = self.prefix(Tree::Bearers, prefix).filter_map(move |entry| {
            let (key, value) = entry.into_inner().ok()?;
            let hash = codec::read_posting_hash(&key, bytes).ok()?;
            Some((hash, codec::read_bearer(key.get(4 + bytes..)?, &value).ok()?))
        });
        sole.chain(shared)
    }
}

/// Puts the whole tables of a tree into `work`, under a version that lists them.
/// `blobs` tells of a tree that has blob files whether only those that are as they were written are kept.
fn salvage_tree(from: &Path, work: &Path, blobs: Option<bool>) -> io::Result<()> {
    let has_blobs = blobs.is_some();
    let listed = verify::files_of(from);
    let tables = keep(&from.join("tables"), &work.join("tables"), |id, path| match &listed {
        Some((tables, _)) => {
            let expected = tables.iter().find(|(table, _)| *table == id)?;
            (xxh3_128(&fs::read(path).ok()?) == expected.1).then_some(expected.1)
        }
        // Nobody knows which tables count: those that read back.
        None => fs::read(path).ok().filter(|bytes| verify::reads_back(bytes)).map(|bytes| xxh3_128(&bytes)),
    })?;
    let blob_files = if has_blobs {
        keep(&from.join("blobs"), &work.join("blobs"), |id, path| {
            let bytes = fs::read(path).ok()?;
            let checksum = xxh3_128(&bytes);
            let expected = listed.as_ref().and_then(|(_, blobs)| blobs.iter().find(|(blob, _)| *blob == id));
            let whole = expected.is_some_and(|(_, expected)| *expected == checksum);
            (whole || blobs == Some(false) && verify::has_list(&bytes)).then_some(checksum)
        })?
    } else {
        Vec::new()
    };
    let version = version(&tables, &blob_files, has_blobs)?;
    fs::write(work.join("v0"), &version)?;
    let mut current = 0u64.to_le_bytes().to_vec();
    current.extend(xxh3_128(&version).to_le_bytes());
    current.push(0);
    fs::write(work.join("current"), current)
}

/// Links or copies the files of `from` that `wanted` gives a checksum.
fn keep(from: &Path, to: &Path, wanted: impl Fn(u64, &Path) -> Option<u128>) -> io::Result<Vec<(u64, u128)>> {
    fs::create_dir_all(to)?;
    let mut kept = Vec::new();
    let Ok(entries) = fs::read_dir(from) else {
        return Ok(kept);
    };
    for entry in entries {
        let path = entry?.path();
        let id = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        if let Some(id) = id
            && let Some(checksum) = wanted(id, &path)
        {
            let place = to.join(id.to_string());
            if fs::hard_link(&path, &place).is_err() {
                fs::copy(&path, &place)?;
            }
            kept.push((id, checksum));
        }
    }
    kept.sort_unstable();
    Ok(kept)
}

/// A version of a tree in which every table is a run of its own: entries carry their age, so their order does not matter.
fn version(tables: &[(u64, u128)], blobs: &[(u64, u128)], has_blobs: bool) -> io::Result<Vec<u8>> {
    let mut out = sfa::Writer::from_writer(Cursor::new(Vec::new()));
    let mut section = |name: &str, bytes: &[u8]| {
        out.start(name)?;
        out.write_all(bytes)
    };
    section("format_version", &[3])?;
    section("crate_version", b"3")?;
    section("tree_type", &[u8::from(has_blobs)])?;
    section("level_count", &[LEVELS as u8])?;
    section("filter_hash_type", &[0])?;
    let mut list = vec![LEVELS as u8];
    let mut runs = tables.iter().rev();
    for _ in 0..LEVELS {
        let level: Vec<_> = runs.by_ref().take(RUNS).collect();
        list.push(level.len() as u8);
        for (id, checksum) in level {
            list.extend(1u32.to_le_bytes());
            file(&mut list, *id, *checksum);
            list.extend(0u64.to_le_bytes());
        }
    }
    section("tables", &list)?;
    let mut list = (blobs.len() as u32).to_le_bytes().to_vec();
    for (id, checksum) in blobs {
        file(&mut list, *id, *checksum);
    }
    section("blob_files", &list)?;
    section("blob_gc_stats", &0u32.to_le_bytes())?;
    let written = out.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(written.into_inner())
}

fn file(list: &mut Vec<u8>, id: u64, checksum: u128) {
    list.extend(id.to_le_bytes());
    list.push(0);
    list.extend(checksum.to_le_bytes());
}
