//! The working files of a run, which hold the prints and the names of all records outside memory. A later run
//! uses the prints again.
//!
//! With the print of a record goes the digest of its bytes, so that neither the print nor a decision about it
//! is ever used for another record. They have a checksum. After a crash the prints up to the first one that
//! does not read back are used, and the others are computed again. Names are written anew by every run.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use xxhash_rust::xxh3::xxh3_64;

use super::super::Failure;
use super::joined::Joined;
use super::remarks::Remarks;
use crate::cli::at;
use lookalike_corpus::Print;
use lookalike_files::shown;
use lookalike_hash::Hash;

/// The bytes that are held before they are written.
const HELD: usize = 1 << 20;

/// The approximate bytes of records that are read together.
const AHEAD: u64 = 1 << 16;

/// A file that is appended to and read at any place.
pub(super) struct Spool {
    pub(super) path: PathBuf,
    file: File,
    /// What is read in place of the file, if it is several.
    joined: Option<Joined>,
    written: u64,
    held: Vec<u8>,
}

impl Spool {
    pub(super) fn open(path: &Path, is_kept: bool) -> Result<Spool, Failure> {
        let options = File::options().read(true).write(true).create(true).truncate(!is_kept).open(path);
        let file = options.map_err(|error| at(path, &error))?;
        let written = file.metadata().map_err(|error| at(path, &error))?.len();
        Ok(Spool { path: path.to_owned(), file, joined: None, written, held: Vec::new() })
    }

    /// A file that is only read.
    fn of_file(path: &Path) -> Result<Spool, Failure> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (written, file) = opened.map_err(|error| at(path, &error))?;
        Ok(Spool { path: path.to_owned(), file, joined: None, written, held: Vec::new() })
    }

    /// Files that are only read, as if they were one.
    fn of_files(paths: &[PathBuf]) -> Result<Spool, Failure> {
        let joined = Joined::open(paths)?;
        let first = Spool::of_file(&paths[0])?;
        Ok(Spool { written: joined.len(), joined: Some(joined), ..first })
    }

    /// Appends parts of a record.
    pub(super) fn append(&mut self, parts: &[&[u8]]) -> Result<(), Failure> {
        parts.iter().for_each(|part| self.held.extend_from_slice(part));
        if self.held.len() >= HELD { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.file.write_all_at(&self.held, self.written).map_err(|error| at(&self.path, &error))?;
        self.written += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }

    pub(super) fn read(&self, from: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        let on_disk = (self.written.saturating_sub(from) as usize).min(bytes.len());
        let (of_file, of_memory) = bytes.split_at_mut(on_disk);
        if !of_memory.is_empty() {
            let held = (from + on_disk as u64 - self.written) as usize;
            of_memory.copy_from_slice(&self.held[held..][..of_memory.len()]);
        }
        if of_file.is_empty() {
            return Ok(());
        }
        match &self.joined {
            Some(joined) => joined.read_exact_at(of_file, from),
            None => self.file.read_exact_at(of_file, from).map_err(|error| at(&self.path, &error)),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.written + self.held.len() as u64
    }
}

/// The bytes of what is stored about a record before its hash: its kind, its key, the digest of its text and
/// that of its bytes, in words from these places on, and the remarks on it.
const FIXED: usize = 26;
const KEY: usize = 1;
const TEXT: usize = 9;
const SOURCE: usize = 17;
const REMARKS: usize = 25;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A document that is compared.
    Document,
    /// A document without features: it is kept, because it has no near-duplicates.
    Empty,
    /// A page with so little text that it is compared with nothing: it is kept.
    Little,
    /// A record that is no document, and is copied.
    Other,
    /// A record that cannot be read, and is not copied.
    Invalid,
    /// A document that contains an item of an evaluation set, and is not copied. No print says so.
    Contaminated,
}

const KINDS: [Kind; 5] = [Kind::Document, Kind::Empty, Kind::Little, Kind::Other, Kind::Invalid];

/// The stored facts about a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) kind: Kind,
    /// The key of the keep rule.
    pub(super) key: u64,
    /// The digest of the text: equal texts have equal digests.
    pub(super) digest: u64,
    pub(super) remarks: Remarks,
    pub(super) print: Print,
}

/// What stands before the print of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    /// The digest of the bytes of the record.
    pub(super) source: u64,
}

/// The sizes of the parts of a print, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) hash: usize,
    pub(super) signature: usize,
    pub(super) sketch: usize,
}

impl Sizes {
    pub(super) fn record(self) -> usize {
        FIXED + self.hash + self.signature + self.sketch + 4
    }

    /// The print of a record that is not compared.
    pub(super) fn blank(self) -> Print {
        let hash = Hash::from_bytes(&vec![0; self.hash]).expect("8, 16 or 32 bytes");
        Print { hash, signature: vec![0; self.signature], sketch: vec![0; self.sketch] }
    }
}

/// The prints of all records, by their numbers.
pub(super) struct Prints {
    spool: Spool,
    sizes: Sizes,
    /// The record that is appended.
    record: Vec<u8>,
    /// The records that were read ahead, from a number on: most are read one after the other.
    ahead: RefCell<(u64, Vec<u8>)>,
    /// The thread that writes earlier records to the disk.
    syncing: Option<JoinHandle<io::Result<()>>>,
}

impl Prints {
    /// The prints of an earlier run, or none if `is_kept` is not set.
    pub(super) fn open(path: &Path, sizes: Sizes, is_kept: bool) -> Result<Prints, Failure> {
        let (spool, ahead) = (Spool::open(path, is_kept)?, RefCell::default());
        let mut prints = Prints { spool, sizes, record: Vec::new(), ahead, syncing: None };
        let size = sizes.record() as u64;
        let mut whole = 0;
        while (whole + 1) * size <= prints.spool.written && prints.read(whole)?.is_some() {
            whole += 1;
        }
        prints.spool.written = whole * size;
        prints.ahead.take();
        prints.spool.file.set_len(whole * size).map_err(|error| at(path, &error))?;
        Ok(prints)
    }

    /// The prints in a file that is only read.
    pub(super) fn of_file(path: &Path, sizes: Sizes) -> Result<Prints, Failure> {
        let (spool, ahead) = (Spool::of_file(path)?, RefCell::default());
        Ok(Prints { spool, sizes, record: Vec::new(), ahead, syncing: None })
    }

    /// The prints in several files that are only read: one file, or more.
    pub(super) fn of_files(paths: &[PathBuf], sizes: Sizes) -> Result<Prints, Failure> {
        let (spool, ahead) = (Spool::of_files(paths)?, RefCell::default());
        Ok(Prints { spool, sizes, record: Vec::new(), ahead, syncing: None })
    }

    /// The number of records.
    pub(super) fn len(&self) -> u32 {
        (self.spool.len() / self.sizes.record() as u64) as u32
    }

    /// Appends what is stored about a record, with the digest of its bytes.
    pub(super) fn push(&mut self, stored: &Stored, source: u64) -> Result<(), Failure> {
        let record = &mut self.record;
        record.clear();
        record.push(stored.kind as u8);
        record.extend_from_slice(&stored.key.to_be_bytes());
        record.extend_from_slice(&stored.digest.to_be_bytes());
        record.extend_from_slice(&source.to_be_bytes());
        record.push(stored.remarks.0);
        stored.print.hash.write_bytes(record);
        record.extend_from_slice(&stored.print.signature);
        record.extend_from_slice(&stored.print.sketch);
        let sum = (xxh3_64(record) as u32).to_be_bytes();
        assert_eq!(record.len() + sum.len(), self.sizes.record(), "prints of a run have one size");
        self.spool.append(&[record, &sum])
    }

    /// What stands before the print of a record.
    pub(super) fn head(&self, number: u32) -> Result<Head, Failure> {
        self.with_record(number.into(), |record| {
            let kind = KINDS.get(usize::from(record[0])).copied().unwrap_or(Kind::Invalid);
            Head { kind, source: word(record, SOURCE) }
        })
    }

    pub(super) fn get(&self, number: u32) -> Result<Stored, Failure> {
        let damaged = || Failure::new(format!("{} changed during the run", shown(&self.spool.path)));
        self.read(u64::from(number))?.ok_or_else(damaged)
    }

    fn read(&self, number: u64) -> Result<Option<Stored>, Failure> {
        self.with_record(number, |bytes| self.parsed(bytes))
    }

    /// What `of` makes of the bytes of a record.
    fn with_record<T>(&self, number: u64, of: impl FnOnce(&[u8]) -> T) -> Result<T, Failure> {
        let size = self.sizes.record() as u64;
        let mut ahead = self.ahead.borrow_mut();
        let (first, bytes) = &mut *ahead;
        let held = bytes.len() as u64 / size;
        if !(*first..*first + held).contains(&number) {
            // A record that does not follow those before it is read alone.
            let count = if number == *first + held { AHEAD / size + 1 } else { 1 };
            let all = self.spool.len() / size;
            bytes.resize((count.min(all.saturating_sub(number)).max(1) * size) as usize, 0);
            let read = self.spool.read(number * size, bytes);
            *first = number;
            if read.is_err() {
                bytes.clear();
            }
            read?;
        }
        Ok(of(&bytes[((number - *first) * size) as usize..][..size as usize]))
    }

    fn parsed(&self, bytes: &[u8]) -> Option<Stored> {
        let (record, sum) = bytes.split_at(bytes.len() - 4);
        if (xxh3_64(record) as u32).to_be_bytes() != sum {
            return None;
        }
        let (hash, rest) = record[FIXED..].split_at(self.sizes.hash);
        let (signature, sketch) = rest.split_at(self.sizes.signature);
        let parts = KINDS.get(usize::from(record[0])).copied().zip(Hash::from_bytes(hash));
        parts.map(|(kind, hash)| {
            let print = Print { hash, signature: signature.to_vec(), sketch: sketch.to_vec() };
            let remarks = Remarks(record[REMARKS]);
            Stored { kind, key: word(record, KEY), digest: word(record, TEXT), remarks, print }
        })
    }

    /// Writes what is held to the disk.
    pub(super) fn sync(&mut self) -> Result<(), Failure> {
        self.sync_in_background()?;
        self.wait_for_disk()
    }

    /// Lets a thread write what is held to the disk; at most one does so at a time.
    pub(super) fn sync_in_background(&mut self) -> Result<(), Failure> {
        self.wait_for_disk()?;
        self.spool.flush()?;
        let file = self.spool.file.try_clone().map_err(|error| at(&self.spool.path, &error))?;
        self.syncing = Some(std::thread::spawn(move || file.sync_data()));
        Ok(())
    }

    fn wait_for_disk(&mut self) -> Result<(), Failure> {
        let synced = self.syncing.take().map(|thread| thread.join().expect("syncing does not panic"));
        synced.unwrap_or(Ok(())).map_err(|error| at(&self.spool.path, &error))
    }
}

/// The word of eight bytes at a place of a record.
fn word(record: &[u8], at: usize) -> u64 {
    record[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The name of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// The number of its file.
    pub(super) file: u32,
    /// Its line; in an archive the number of the record.
    pub(super) line: u64,
    pub(super) id: Option<String>,
}

/// The names of all records, by their numbers.
pub(super) struct Names {
    ends: Spool,
    bytes: Spool,
    /// The digests of the ids whose repetition is an error, with the numbers of their records.
    /// Not needed of names that are only read.
    digests: Option<Spool>,
}

impl Names {
    /// Empty files for names in a directory.
    pub(super) fn create(directory: &Path) -> Result<Names, Failure> {
        let open = |name: &str| Spool::open(&directory.join(name), false);
        let (ends, bytes, digests) = (open("names-ends")?, open("names")?, Some(open("names-digests")?));
        let mut names = Names { ends, bytes, digests };
        names.ends.append(&[&[0; 8]])?;
        Ok(names)
    }

    /// The names in files that are only read.
    pub(super) fn of_files(directory: &Path) -> Result<Names, Failure> {
        let open = |name: &str| Spool::of_file(&directory.join(name));
        Ok(Names { ends: open("names-ends")?, bytes: open("names")?, digests: None })
    }

    /// Writes what is held into the files.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.ends.flush()?;
        self.bytes.flush()
    }

    /// Appends the name of the next record; if `is_unique`, no other one with this may have its id.
    pub(super) fn push(
        &mut self,
        file: u32,
        line: u64,
        id: Option<&str>,
        is_unique: bool,
    ) -> Result<(), Failure> {
        let id = id.map(str::as_bytes);
        if let (Some(id), Some(digests)) = (id.filter(|_| is_unique), &mut self.digests) {
            let (digest, number) = (xxh3_64(id), (self.ends.len() / 8 - 1) as u32);
            digests.append(&[&digest.to_be_bytes(), &number.to_be_bytes()])?;
        }
        let (file, line, has_id) = (file.to_be_bytes(), line.to_be_bytes(), [u8::from(id.is_some())]);
        self.bytes.append(&[&file[..], &line, &has_id, id.unwrap_or_default()])?;
        self.ends.append(&[&self.bytes.len().to_be_bytes()])
    }

    pub(super) fn get(&self, number: u32) -> Result<Name, Failure> {
        // The end of the previous name, and its own. The file begins with a 0, the end of no name.
        let mut ends = [0; 16];
        self.ends.read(u64::from(number) * 8, &mut ends)?;
        let [from, end] =
            [&ends[..8], &ends[8..]].map(|end| end.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        let mut bytes = vec![0; (end - from) as usize];
        self.bytes.read(from, &mut bytes)?;
        let word = |range: &[u8]| range.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let id = (bytes[12] == 1).then(|| String::from_utf8_lossy(&bytes[13..]).into_owned());
        Ok(Name { file: word(&bytes[..4]) as u32, line: word(&bytes[4..12]), id })
    }

    /// Two records with the same id, if there are any. It reads the digests as often as they do not fit in
    /// `memory`.
    pub(super) fn repeated(&self, memory: u64) -> Result<Option<(Name, Name)>, Failure> {
        const SIZE: u64 = 12;
        let Some(digests) = &self.digests else { return Ok(None) };
        let parts = digests.len() / memory.max(1) + 1;
        for part in 0..parts {
            let mut found: Vec<[u8; SIZE as usize]> = Vec::new();
            let mut at = 0;
            while at < digests.len() {
                let mut bytes = vec![0; (digests.len() - at).min(AHEAD * SIZE) as usize];
                digests.read(at, &mut bytes)?;
                at += bytes.len() as u64;
                found.extend(bytes.as_chunks().0.iter().filter(|entry| word(&entry[..], 0) % parts == part));
            }
            found.sort_unstable();
            for pair in found.windows(2).filter(|pair| pair[0][..8] == pair[1][..8]) {
                let number = |entry: &[u8]| (word(entry, 4) & u64::from(u32::MAX)) as u32;
                let (a, b) = (self.get(number(&pair[0]))?, self.get(number(&pair[1]))?);
                if a.id == b.id {
                    return Ok(Some((a, b)));
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { hash: 8, signature: 3, sketch: 2 };

    fn stored(number: u64) -> Stored {
        let print = Print { hash: Hash::from_u64(number), signature: vec![1, 2, 3], sketch: vec![4, 5] };
        let (kind, remarks) = (KINDS[number as usize % 5], Remarks(number as u8 % 4));
        Stored { kind, key: number * 7, digest: !number, remarks, print }
    }

    #[test]
    fn prints_before_damage_are_used_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prints");
        let mut prints = Prints::open(&path, SIZES, false).unwrap();
        (0..100).for_each(|number| prints.push(&stored(number), number * 3).unwrap());
        assert_eq!(prints.get(40).unwrap(), stored(40));
        prints.sync().unwrap();
        assert_eq!(prints.get(41).unwrap(), stored(41));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[SIZES.record() * 60 + 5] ^= 1;
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let mut prints = Prints::open(&path, SIZES, true).unwrap();
        assert_eq!(prints.len(), 60);
        prints.push(&stored(60), 180).unwrap();
        let source = |number| prints.head(number).unwrap().source;
        assert_eq!((source(59), source(60)), (177, 180));
        assert_eq!((prints.get(59).unwrap(), prints.get(60).unwrap()), (stored(59), stored(60)));
    }

    #[test]
    fn names_are_read_back_and_repeated_ids_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let mut names = Names::create(directory.path()).unwrap();
        let name = |line: u64, id: Option<&str>| Name { file: 3, line, id: id.map(str::to_owned) };
        let push = |names: &mut Names, name: Name| {
            names.push(name.file, name.line, name.id.as_deref(), true).unwrap();
        };
        let all = [name(1, Some("a")), name(2, None), name(3, Some("")), name(4, None), name(5, Some("b"))];
        all.iter().for_each(|name| push(&mut names, name.clone()));
        for (number, name) in all.iter().enumerate() {
            assert_eq!(&names.get(number as u32).unwrap(), name);
        }
        assert_eq!(names.repeated(100).unwrap(), None);
        names.push(9, 1, Some("a"), false).unwrap();
        assert_eq!(names.repeated(100).unwrap(), None);
        (0..200_000).for_each(|line| push(&mut names, name(line, None)));
        for number in (0..200_000).step_by(331) {
            assert_eq!(names.get(6 + number).unwrap(), name(u64::from(number), None));
        }
        push(&mut names, name(6, Some("a")));
        assert_eq!(names.repeated(100).unwrap(), Some((name(1, Some("a")), name(6, Some("a")))));
    }
}
