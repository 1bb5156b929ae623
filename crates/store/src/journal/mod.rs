//! The journal (write-ahead log): every batch is written here and synced before it is acknowledged. Only
//! then is it applied to the trees.
//!
//! *Invariants*
//! - Records are numbered from 1 without a gap, across files. An unreadable record is damage if its
//!   number is up to the high-water mark, or if a later record follows it. Unreadable bytes at the very end
//!   are the remains of a batch that a crash cut short and that was never acknowledged; they are cut off.
//! - The disk space of a file is reserved when the file is created. So a full disk shows then, with
//!   nothing written. File systems that do not write in place report it at a write instead, and the record
//!   is taken back.
//! - A file is deleted only when all trees have its content on disk (`keeper`).
//!
//! *Absent*: what a payload means.

mod files;
mod format;
mod salvage;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::error::StoreError;
use files::{Active, HighWater};
use format::{HEAD, RECORD};
pub(super) use salvage::{Lost, salvage};

const SUFFIX: &str = ".journal";

/// A file that is no longer written to.
#[derive(Clone, Debug)]
struct Closed {
    path: PathBuf,
    /// The number after its last record.
    end: u64,
    bytes: u64,
}

/// The result of a scan of the journal, which changes nothing.
pub(super) struct Scan {
    closed: Vec<Closed>,
    next: u64,
    /// The last file and the end of its last record, if a crash left bytes after that.
    torn: Option<(PathBuf, u64)>,
    /// A file without a record that a crash left.
    stray: Option<PathBuf>,
}

impl Scan {
    /// The number of the last record.
    pub(super) fn last(&self) -> u64 {
        self.next - 1
    }
}

/// The journal of an open store.
pub(super) struct Journal {
    dir: PathBuf,
    store: u64,
    /// Bytes reserved for a file, unless a single record needs more.
    file_bytes: u64,
    closed: VecDeque<Closed>,
    active: Option<Active>,
    next: u64,
    high_water: HighWater,
    buffer: Vec<u8>,
}

impl Journal {
    /// Creates the directory of an empty journal.
    pub(super) fn create(dir: &Path, store: u64) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        HighWater::create(dir, store)?;
        sync_directory(dir)
    }

    /// Opens the journal that `scan` describes, and cuts off the remains of a crash at its end.
    pub(super) fn open(dir: &Path, store: u64, file_bytes: u64, scan: Scan) -> Result<Journal, StoreError> {
        if let Some((path, length)) = &scan.torn {
            let cut = || {
                let file = OpenOptions::new().write(true).open(path)?;
                file.set_len(*length)?;
                file.sync_all()
            };
            cut().map_err(|source| StoreError::io(path, "truncated", source))?;
        }
        if let Some(path) = &scan.stray {
            fs::remove_file(path).map_err(|source| StoreError::io(path, "deleted", source))?;
        }
        let high_water_path = HighWater::path(dir);
        let high_water = HighWater::open(dir, store)
            .map_err(|source| StoreError::io(&high_water_path, "opened", source))?;
        // Every readable record is replayed and answers queries from here on. So it counts as acknowledged,
        // and the next crash must not lose it.
        for closed in &scan.closed {
            // A killed process did not free the reserved space of its file. If freeing fails now, the
            // file only takes more of the disk.
            let _ = free_unused(closed);
            let synced = File::open(&closed.path).and_then(|file| file.sync_all());
            synced.map_err(|source| StoreError::io(&closed.path, "synced", source))?;
        }
        let written = high_water.set(scan.last()).and_then(|()| high_water.sync());
        written.map_err(|source| StoreError::io(&high_water_path, "written", source))?;
        let closed = scan.closed.into();
        Ok(Journal {
            dir: dir.to_path_buf(),
            store,
            file_bytes,
            closed,
            active: None,
            next: scan.next,
            high_water,
            buffer: Vec::new(),
        })
    }

    /// The number of the last record.
    pub(super) fn last(&self) -> u64 {
        self.next - 1
    }

    /// The bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        let active = self.active.as_ref().map_or(0, |active| active.at);
        active + self.closed.iter().map(|closed| closed.bytes).sum::<u64>()
    }

    /// Appends a record. It becomes durable with [`Journal::sync`].
    ///
    /// # Errors
    /// [`StoreError::Full`] if the disk has no space: then nothing was appended. After any other error the
    /// caller must not append anything.
    pub(super) fn append(&mut self, seqno: u64, payload: &[u8]) -> Result<(), StoreError> {
        self.buffer.clear();
        format::frame(&mut self.buffer, self.store, self.next, seqno, payload);
        let length = self.buffer.len() as u64;
        if self.active.as_ref().is_none_or(|active| active.at + length > active.room) {
            self.begin_file(length)?;
        }
        let active = self.active.as_mut().expect("a file was begun");
        active.append(&self.buffer).map_err(|source| StoreError::write(&active.path, source))?;
        self.next += 1;
        Ok(())
    }

    /// Whether a payload of this many bytes fits a file of the usual size.
    pub(super) fn is_usual(&self, payload: usize) -> bool {
        (HEAD + RECORD + payload) as u64 <= self.file_bytes
    }

    /// Begins a file before there are records for it. This shows whether the disk has space for one
    /// again.
    ///
    /// # Errors
    /// [`StoreError::Full`] if it has not. In that case nothing was changed.
    pub(super) fn renew(&mut self) -> Result<(), StoreError> {
        self.begin_file(0)
    }

    /// Makes all appended records durable, and then sets the high-water mark.
    ///
    /// # Errors
    /// [`StoreError::Io`]: it is unknown what is durable, and the caller must not append anything.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        if let Some(active) = &self.active {
            active.file.sync_data().map_err(|source| StoreError::io(&active.path, "synced", source))?;
        }
        let last = self.last();
        self.high_water
            .set(last)
            .map_err(|source| StoreError::io(&HighWater::path(&self.dir), "written", source))
    }

    /// Makes the high-water mark durable.
    pub(super) fn sync_mark(&self) -> io::Result<()> {
        self.high_water.sync()
    }

    /// Removes the files whose records all have numbers up to `through`. The caller deletes the returned
    /// files.
    pub(super) fn retire(&mut self, through: u64) -> Vec<PathBuf> {
        let mut retired = Vec::new();
        while self.closed.front().is_some_and(|closed| closed.end <= through + 1) {
            retired.extend(self.closed.pop_front().map(|closed| closed.path));
        }
        retired
    }

    fn begin_file(&mut self, least: u64) -> Result<(), StoreError> {
        let path = path_of(&self.dir, self.next);
        // A file without a record has the path of the new one. It must not be written to after its file
        // is replaced.
        self.active.take_if(|active| active.path == path);
        let room = (HEAD as u64 + least).max(self.file_bytes);
        let made = Active::make(path.clone(), &format::head(self.store, self.next), room);
        let active = made.and_then(|made| sync_directory(&self.dir).map(|()| made)).map_err(|source| {
            // The file has no records, and it would keep its space from the next try.
            let _ = fs::remove_file(&path);
            StoreError::write(&path, source)
        })?;
        self.end_file();
        self.active = Some(active);
        Ok(())
    }

    /// Ends the active file and frees its unused space. If freeing fails, the file only takes more of
    /// the disk.
    pub(super) fn end_file(&mut self) {
        // A file without a record stays active: the next record is the one in its name.
        if let Some(active) = self.active.take_if(|active| active.at > HEAD as u64) {
            let _ = active.file.set_len(active.at);
            self.closed.push_back(Closed { path: active.path, end: self.next, bytes: active.at });
        }
    }
}

/// Scans the journal and passes the records from `from` on to `visit`. Changes nothing.
///
/// # Errors
/// [`StoreError::Damage`] with the place of a required record that is missing or damaged;
/// [`StoreError::Io`]; any error of `visit`.
pub(super) fn scan(
    dir: &Path,
    store: u64,
    from: u64,
    mut visit: impl FnMut(u64, u64, &[u8]) -> Result<(), StoreError>,
) -> Result<Scan, StoreError> {
    let high_water = HighWater::read(dir, store)?;
    let mut scan = Scan { closed: Vec::new(), next: from, torn: None, stray: None };
    let files = list(dir)?;
    for (place, (first, path)) in files.iter().enumerate() {
        let follows = files.get(place + 1).map(|(first, _)| *first);
        if follows.is_some_and(|follows| follows <= from) {
            // All trees have its content; the next checkpoint would have deleted it. It is opened
            // nevertheless, so that a file that cannot be opened is reported before anything is changed.
            let opened = File::open(path).and_then(|file| file.metadata());
            let bytes = opened.map_err(|source| StoreError::io(path, "opened", source))?.len();
            scan.closed.push(Closed { path: path.clone(), end: follows.unwrap_or(from), bytes });
            continue;
        }
        if *first > scan.next {
            return Err(gap(dir, scan.next));
        }
        let bytes = fs::read(path).map_err(|source| StoreError::io(path, "read", source))?;
        let damage = |offset: usize, what: &str| {
            Err(StoreError::Damage { path: path.clone(), offset: offset as u64, what: what.into() })
        };
        match format::read_head(&bytes, store) {
            Ok(head) if head == *first => {}
            Ok(_) => return damage(0, "its name does not match its header"),
            // A crash interrupted its creation: none of its records was ever synced.
            Err(_) if follows.is_none() && *first == scan.next && *first > high_water && is_empty(&bytes) => {
                scan.stray = Some(path.clone());
                break;
            }
            Err(what) => return damage(0, what),
        }
        let (mut at, mut number) = (HEAD, *first);
        while let Some(record) = format::record(&bytes, at, store).filter(|record| record.number == number) {
            if number >= from {
                visit(number, record.seqno, record.payload)?;
            }
            at = record.end;
            number += 1;
        }
        scan.next = scan.next.max(number);
        // Records before `from` are in the trees. A file that could not be deleted may be left there
        // without its successors.
        let lost = follows.is_some_and(|follows| follows != number);
        if lost || number.max(from) <= high_water && follows.is_none() {
            return damage(at, "a record that was acknowledged is missing or damaged here");
        }
        // Each record is durable before the next one is written, so a later record proves that this one was
        // durable.
        if format::later(&bytes, at, store, number + 1).is_some() {
            return damage(at, "a record is damaged here, and later ones follow");
        }
        // The next record begins a file with this same name. In the list of closed files it would be
        // deleted while it is written to.
        if follows.is_none() && number == *first {
            scan.stray = Some(path.clone());
            break;
        }
        let rest = &bytes[at..];
        if follows.is_none() && rest.iter().any(|byte| *byte != 0) {
            scan.torn = Some((path.clone(), at as u64));
        }
        scan.closed.push(Closed { path: path.clone(), end: number, bytes: at as u64 });
    }
    if scan.last() < high_water {
        return Err(gap(dir, scan.next));
    }
    Ok(scan)
}

/// Whether nothing was written after the place of the header.
fn is_empty(bytes: &[u8]) -> bool {
    bytes.iter().skip(HEAD).all(|byte| *byte == 0)
}

fn gap(dir: &Path, number: u64) -> StoreError {
    let what = format!(
        "record {number} and those after it are missing: the file that held them is gone or an older copy"
    );
    StoreError::Damage { path: dir.to_path_buf(), offset: 0, what }
}

/// The files, sorted by the numbers of their first records.
fn list(dir: &Path) -> Result<Vec<(u64, PathBuf)>, StoreError> {
    let failed = |source| StoreError::io(dir, "listed", source);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(first) = name.strip_suffix(SUFFIX).and_then(|digits| digits.parse().ok()) {
            found.push((first, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether `dir` has a journal with a file.
pub(super) fn has_files(dir: &Path) -> bool {
    list(dir).is_ok_and(|files| !files.is_empty())
}

fn path_of(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}{SUFFIX}"))
}

/// Frees the reserved space after the last record of a closed file.
fn free_unused(closed: &Closed) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(&closed.path)?;
    if file.metadata()?.len() > closed.bytes { file.set_len(closed.bytes) } else { Ok(()) }
}

pub(super) fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::files::AHEAD;
    use super::*;

    const STORE: u64 = 11;

    fn payload(number: u64) -> Vec<u8> {
        format!("record {number} {}", "x".repeat((number % 7) as usize)).into_bytes()
    }

    /// A journal of `count` records in several files, as a killed process leaves it.
    fn written(dir: &Path, count: u64) {
        Journal::create(dir, STORE).unwrap();
        let mut journal = reopened(dir, 1).0;
        for number in 1..=count {
            if number % 10 == 0 {
                journal.end_file();
            }
            journal.append(100 + number, &payload(number)).unwrap();
            journal.sync().unwrap();
        }
    }

    fn reopened(dir: &Path, from: u64) -> (Journal, Vec<u64>) {
        let mut seen = Vec::new();
        let found = scan(dir, STORE, from, |number, seqno, bytes| {
            assert_eq!((seqno, bytes), (100 + number, &payload(number)[..]));
            seen.push(number);
            Ok(())
        });
        (Journal::open(dir, STORE, 1 << 16, found.unwrap()).unwrap(), seen)
    }

    fn refused(dir: &Path) -> String {
        let Err(error) = scan(dir, STORE, 1, |_, _, _| Ok(())) else {
            panic!("the damage was not noticed");
        };
        assert!(matches!(error, StoreError::Damage { .. }), "{error}");
        error.to_string()
    }

    #[test]
    fn bytes_written_ahead_are_zero_and_do_not_obstruct_records() {
        let dir = tempfile::tempdir().unwrap();
        Journal::create(dir.path(), STORE).unwrap();
        let scan = |visit: &mut dyn FnMut(&[u8])| {
            let visit = |_: u64, _: u64, payload: &[u8]| {
                visit(payload);
                Ok(())
            };
            scan(dir.path(), STORE, 1, visit).unwrap()
        };
        let mut journal = Journal::open(dir.path(), STORE, 1 << 20, scan(&mut |_| ())).unwrap();
        let lengths =
            [10, 100_000, 90_000, 60_000, 30_000, 150_000, 7, AHEAD, 50, 90_000, 130_000, 80_000, 20];
        let (mut ahead, mut crossed) = (0, 0);
        for (number, length) in (1u8..).zip(lengths) {
            let before = journal.active.as_ref().map(|active| (active.path.clone(), active.written));
            let until =
                |path: &PathBuf| before.as_ref().filter(|(of, _)| of == path).map(|(_, until)| *until);
            journal.append(number.into(), &vec![number; length]).unwrap();
            let Active { path, at, room, written, .. } = journal.active.as_ref().unwrap();
            assert!((*at..=*room).contains(written), "{at} {written} {room}");
            let bytes = fs::read(path).unwrap();
            assert!(bytes[*at as usize..].iter().all(|byte| *byte == 0));
            ahead += usize::from(written > at);
            crossed += usize::from(until(path).is_some_and(|until| until < *at));
            if length >= AHEAD / 2 {
                assert!(written == at || until(path).is_some_and(|until| until >= *at));
            }
        }
        journal.sync().unwrap();
        assert!(ahead > 5 && crossed > 2, "{ahead} {crossed}");
        drop(journal);
        let mut found = Vec::new();
        assert_eq!(scan(&mut |payload| found.push((payload[0], payload.len()))).last(), lengths.len() as u64);
        assert_eq!(found, (1u8..).zip(lengths).collect::<Vec<_>>());
    }

    #[test]
    fn records_are_replayed_in_order_from_any_number() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), 35);
        assert_eq!(reopened(dir.path(), 1).1, (1..=35).collect::<Vec<_>>());
        let (mut journal, seen) = reopened(dir.path(), 25);
        assert_eq!(seen, (25..=35).collect::<Vec<_>>());
        for path in journal.retire(24) {
            fs::remove_file(path).unwrap();
        }
        journal.append(136, &payload(36)).unwrap();
        journal.sync().unwrap();
        drop(journal);
        assert_eq!(reopened(dir.path(), 25).1, (25..=36).collect::<Vec<_>>());
    }

    /// A crash before the first record of a file, and one in the middle of that record.
    #[test]
    fn a_file_without_records_is_not_retired_after_it_is_written_to() {
        for torn in [&b""[..], b"half a record"] {
            let dir = tempfile::tempdir().unwrap();
            written(dir.path(), 5);
            let mut journal = reopened(dir.path(), 1).0;
            journal.begin_file(1).unwrap();
            let begun = journal.active.take().unwrap();
            begun.file.write_all_at(torn, HEAD as u64).unwrap();
            drop(journal);
            let mut journal = reopened(dir.path(), 1).0;
            for number in 6..=7 {
                journal.append(100 + number, &payload(number)).unwrap();
                journal.sync().unwrap();
            }
            for path in journal.retire(5) {
                fs::remove_file(path).unwrap();
            }
            drop(journal);
            assert_eq!(reopened(dir.path(), 6).1, [6, 7]);
        }
    }

    #[test]
    fn repeated_kills_do_not_accumulate_reserved_space() {
        let dir = tempfile::tempdir().unwrap();
        Journal::create(dir.path(), STORE).unwrap();
        for number in 1..=20 {
            let (mut journal, seen) = reopened(dir.path(), 1);
            assert_eq!(seen.len() as u64, number - 1);
            journal.append(100 + number, &payload(number)).unwrap();
            journal.sync().unwrap();
            // Dropped without an end, as by a kill: only one file has reserved space.
            let sizes = list(dir.path()).unwrap().into_iter().map(|(_, path)| path.metadata().unwrap().len());
            assert!(sizes.sum::<u64>() < (1 << 16) + number * 200);
        }
    }

    #[test]
    fn a_file_that_could_not_be_deleted_is_skipped_without_its_successors() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), 60);
        let files = list(dir.path()).unwrap();
        assert!(files.len() > 3);
        // All files but the oldest were deleted after everything was in the trees.
        files[1..].iter().for_each(|(_, path)| fs::remove_file(path).unwrap());
        let (mut journal, seen) = reopened(dir.path(), 61);
        assert!(seen.is_empty() && journal.last() == 60);
        journal.append(161, &payload(61)).unwrap();
        journal.sync().unwrap();
        assert_eq!(journal.retire(60), [files[0].1.clone()]);
        drop(journal);
        assert_eq!(reopened(dir.path(), 61).1, [61]);
        // If the trees do not have these records, it is a loss and is refused.
        let scanned = scan(dir.path(), STORE, 40, |_, _, _| Ok(()));
        assert!(matches!(scanned, Err(StoreError::Damage { .. })));
    }

    #[test]
    fn a_torn_end_is_cut_off_at_every_byte_and_appends_continue() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), 12);
        let (_, last) = list(dir.path()).unwrap().pop().unwrap();
        let whole = fs::read(&last).unwrap();
        let twelve =
            format::record(&whole, format::record(&whole, HEAD, STORE).unwrap().end, STORE).unwrap().end;
        // A thirteenth record was being written when the process died, after any number of bytes.
        let mut thirteenth = Vec::new();
        format::frame(&mut thirteenth, STORE, 13, 113, &payload(13));
        let end = whole[..].iter().rposition(|byte| *byte != 0).unwrap() + 1;
        assert!(end >= twelve);
        for cut in 0..=thirteenth.len() {
            let mut bytes = whole.clone();
            bytes[end..end + cut].copy_from_slice(&thirteenth[..cut]);
            fs::write(&last, &bytes).unwrap();
            let (mut journal, seen) = reopened(dir.path(), 1);
            let whole_record = cut == thirteenth.len();
            assert_eq!(seen.last(), Some(&(12 + u64::from(whole_record))), "cut at {cut}");
            let next = journal.last() + 1;
            journal.append(100 + next, &payload(next)).unwrap();
            journal.sync().unwrap();
            drop(journal);
            assert_eq!(reopened(dir.path(), 1).1, (1..=next).collect::<Vec<_>>());
            for (first, path) in list(dir.path()).unwrap() {
                if first > 12 {
                    fs::remove_file(path).unwrap();
                }
            }
            HighWater::open(dir.path(), STORE).unwrap().set(12).unwrap();
            HighWater::open(dir.path(), STORE).unwrap().set(11).unwrap();
        }
    }

    #[test]
    fn any_damage_to_acknowledged_records_is_refused_and_named() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), 25);
        for (_, path) in list(dir.path()).unwrap() {
            let good = fs::read(&path).unwrap();
            let used = good.iter().rposition(|byte| *byte != 0).unwrap() + 1;
            for at in 0..used {
                let mut bad = good.clone();
                bad[at] ^= 0x08;
                fs::write(&path, &bad).unwrap();
                let message = refused(dir.path());
                assert!(message.contains(path.file_name().unwrap().to_str().unwrap()), "{message}");
            }
            for length in [0, 3, HEAD, used / 2, used - 1] {
                fs::write(&path, &good[..length]).unwrap();
                refused(dir.path());
            }
            fs::remove_file(&path).unwrap();
            refused(dir.path());
            fs::write(&path, &good).unwrap();
        }
        reopened(dir.path(), 1);
    }
}
