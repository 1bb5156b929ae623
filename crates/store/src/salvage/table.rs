//! The tables of a tree: which of their blocks are readable, and what the other blocks lost.
//!
//! *Absent*: the layout of a block (`blocks`).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use xxhash_rust::xxh3::xxh3_128;

use super::loss::{Keys, Loss, LostPart};
use crate::blocks::{self, Entry, Kind, Value};
use crate::error::StoreError;
use crate::verify;

/// The readable data blocks of a table: first byte and length.
struct Table {
    path: PathBuf,
    blocks: Vec<(u64, usize)>,
}

/// The tables of a tree.
#[derive(Default)]
pub(super) struct Tables {
    readable: Vec<Table>,
    pub(super) losses: Vec<Loss>,
    /// Damage that apparently lost no entry.
    pub(super) doubts: Vec<StoreError>,
    /// The last batch that the tables have entries of.
    pub(super) newest: u64,
}

impl Tables {
    /// Scans the tables of the tree in `dir`, whose version is `least` or later, and passes every readable
    /// entry to `each`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the process has no permission to read a file.
    pub(super) fn scan(dir: &Path, least: u64, each: &mut dyn FnMut(&Entry)) -> Result<Tables, StoreError> {
        let mut tables = Tables::default();
        let folder = dir.join("tables");
        let files = match verify::files_of(dir, least) {
            Ok((files, _)) => files.into_iter().map(|(id, checksum)| (id, Some(checksum))).collect(),
            Err(error) if error.is_refused() => return Err(error),
            Err(error) => {
                // It is unknown which tables are in use, so all that exist are read.
                tables.doubts.push(error);
                numbers(&folder)?.into_iter().map(|id| (id, None)).collect::<Vec<_>>()
            }
        };
        for (id, checksum) in files {
            tables.add(id, folder.join(id.to_string()), checksum, each)?;
        }
        Ok(tables)
    }

    /// Whether certainly every entry is readable.
    pub(super) fn is_whole(&self) -> bool {
        self.losses.is_empty() && self.doubts.is_empty()
    }

    pub(super) fn readers(&self) -> impl Iterator<Item = Reader> {
        self.readable.iter().map(|table| Reader {
            path: table.path.clone(),
            blocks: table.blocks.clone().into_iter(),
            entries: Vec::new().into_iter(),
        })
    }

    fn add(
        &mut self,
        id: u64,
        path: PathBuf,
        checksum: Option<u128>,
        each: &mut dyn FnMut(&Entry),
    ) -> Result<(), StoreError> {
        let bytes = match fs::read(&path).map_err(|source| StoreError::io(&path, "read", source)) {
            Ok(bytes) => bytes,
            Err(error) if error.is_refused() => return Err(error),
            Err(_) => {
                self.losses.push(Loss::of_table(&path));
                return Ok(());
            }
        };
        let scan = Scan::of(&bytes);
        if scan.number(b"table_id").is_some_and(|found| found != id) {
            self.losses.push(Loss::of_table(&path));
            return Ok(());
        }
        self.newest = self.newest.max(scan.newest);
        scan.entries.iter().for_each(each);
        match scan.loss(&path) {
            Some(loss) => self.losses.push(loss),
            None if checksum.is_some_and(|checksum| checksum != xxh3_128(&bytes)) => {
                let what = "its checksum differs, but all of its entries read back".to_owned();
                self.doubts.push(StoreError::Damage {
                    path: path.clone(),
                    offset: verify::first_flaw(&bytes) as u64,
                    what,
                });
            }
            None => {}
        }
        self.readable.push(Table { path, blocks: scan.blocks });
        Ok(())
    }
}

/// The file names in a directory that are numbers.
fn numbers(folder: &Path) -> Result<Vec<u64>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(StoreError::io(folder, "listed", source)),
    };
    let names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

/// An unreadable part of a table that may have contained data blocks.
struct Gap {
    from: usize,
    to: usize,
    /// The last key before it.
    after: Option<Vec<u8>>,
    /// The first key after it.
    through: Option<Vec<u8>>,
}

/// One scan of the bytes of a table.
#[derive(Default)]
struct Scan {
    blocks: Vec<(u64, usize)>,
    entries: Vec<Entry>,
    gaps: Vec<Gap>,
    /// The metadata of the table, if it is readable.
    meta: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether a block was seen that follows the data blocks.
    is_past_data: bool,
    newest: u64,
    bytes: usize,
}

impl Scan {
    fn of(bytes: &[u8]) -> Scan {
        let mut scan = Scan::default();
        let mut at = 0;
        while at < bytes.len() {
            at = scan.step(bytes, at);
        }
        if !scan.is_past_data {
            scan.gap(bytes.len(), bytes.len());
        }
        scan.newest = scan.newest.max(scan.number(b"seqno#max").unwrap_or(0));
        scan
    }

    /// Reads the block at `at`, and returns where it ends.
    fn step(&mut self, bytes: &[u8], at: usize) -> usize {
        let rest = &bytes[at..];
        let Some(block) = blocks::block(rest) else {
            let to = match blocks::damaged_block(rest) {
                Some((_, length)) => (at + length).min(bytes.len()),
                None => blocks::next_block(bytes, at + 1).unwrap_or(bytes.len()),
            };
            match blocks::damaged_block(rest) {
                Some((Kind::Meta | Kind::Other, _)) => self.is_past_data = true,
                _ if !self.is_past_data => self.gap(at, to),
                _ => {}
            }
            return to;
        };
        let to = at + block.length;
        match block.kind {
            Kind::Data if !self.is_past_data => match block.entries() {
                Some(entries) => self.data(at, block.length, entries),
                None => self.gap(at, to),
            },
            Kind::Data => {}
            Kind::Meta | Kind::Other => {
                self.is_past_data = true;
                let metadata = if block.kind == Kind::Meta { block.entries() } else { None };
                for entry in metadata.into_iter().flatten() {
                    if let Value::Bytes(value) = entry.value {
                        self.meta.insert(entry.key, value);
                    }
                }
            }
        }
        to
    }

    fn data(&mut self, at: usize, length: usize, entries: Vec<Entry>) {
        if let (Some(gap), Some(first)) = (self.gaps.last_mut(), entries.first()) {
            gap.through.get_or_insert_with(|| first.key.clone());
        }
        self.blocks.push((at as u64, length));
        self.bytes += length;
        self.newest = entries.iter().map(|entry| entry.seqno).fold(self.newest, u64::max);
        self.entries.extend(entries);
    }

    fn gap(&mut self, from: usize, to: usize) {
        if let Some(gap) = self.gaps.last_mut().filter(|gap| gap.to == from) {
            gap.to = to;
            return;
        }
        let after = self.entries.last().map(|entry| entry.key.clone());
        self.gaps.push(Gap { from, to, after, through: None });
    }

    /// A number from the metadata of the table.
    fn number(&self, key: &[u8]) -> Option<u64> {
        let bytes = self.meta.get(key)?;
        Some(u64::from_le_bytes(bytes.as_slice().try_into().ok()?))
    }

    /// The loss of this table, if entries are missing.
    fn loss(&self, path: &Path) -> Option<Loss> {
        let deletions = self.entries.iter().filter(|entry| entry.value == Value::Deleted).count() as u64;
        let read = self.entries.len() as u64;
        let of = |key: &[u8], read: u64| self.number(key).map(|all| all.saturating_sub(read));
        let entries = of(b"item_count", read);
        // With a known count and all entries read, the gaps are blocks of other kinds, and nothing is lost.
        if entries == Some(0) || entries.is_none() && self.gaps.is_empty() {
            return None;
        }
        let gap_bytes: usize = self.gaps.iter().map(|gap| gap.to - gap.from).sum();
        let about = (gap_bytes as u64 * read).checked_div(self.bytes as u64).filter(|about| *about > 0);
        let keys = self.gaps.iter().map(|gap| self.keys(gap)).collect();
        Some(Loss {
            path: path.to_path_buf(),
            places: self.gaps.iter().map(|gap| (gap.from as u64, gap.to as u64)).collect(),
            part: LostPart::Blocks {
                blocks: of(b"block_count#data", self.blocks.len() as u64),
                entries: entries.or(about),
                deletions: of(b"tombstone_count", deletions),
                is_exact: entries.is_some(),
            },
            keys,
            newest: self.number(b"seqno#max").unwrap_or(u64::MAX),
        })
    }

    fn keys(&self, gap: &Gap) -> Keys {
        let from_meta = |key: &[u8]| self.meta.get(key).cloned().map_or(Bound::Unbounded, Bound::Included);
        let from = gap.after.clone().map_or_else(|| from_meta(b"key#min"), Bound::Excluded);
        // The versions of a key are stored newest first. So the newest version of the first key after a gap
        // may have been in the gap, unless the table has only one version of each key.
        let is_single =
            self.number(b"key_count").is_some() && self.number(b"key_count") == self.number(b"item_count");
        let next = if is_single { Bound::Excluded } else { Bound::Included };
        (from, gap.through.clone().map_or_else(|| from_meta(b"key#max"), next))
    }
}

/// Reads the entries of a table, one block in memory at a time.
pub(super) struct Reader {
    path: PathBuf,
    blocks: IntoIter<(u64, usize)>,
    entries: IntoIter<Entry>,
}

impl Reader {
    pub(super) fn next(&mut self) -> Result<Option<Entry>, StoreError> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Ok(Some(entry));
            }
            let Some((at, length)) = self.blocks.next() else { return Ok(None) };
            let mut bytes = vec![0; length];
            let read = File::open(&self.path).and_then(|file| file.read_exact_at(&mut bytes, at));
            read.map_err(|source| StoreError::io(&self.path, "read", source))?;
            let entries = blocks::block(&bytes).and_then(|block| block.entries());
            let what = || "it was readable before and is not any more".to_owned();
            let changed = || StoreError::Damage { path: self.path.clone(), offset: at, what: what() };
            self.entries = entries.ok_or_else(changed)?.into_iter();
        }
    }
}
