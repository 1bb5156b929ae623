//! Counts of a run: what the server answered, and which records became no line.
//!
//! The reader is ahead of the server, and reads the files again when a request is repeated. Each record is
//! still reported and counted only once, by its number.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

use indicatif::ProgressBar;
use parking_lot::Mutex;

use super::super::files::Skipped;
use super::records::Found;
use crate::wording::counted;

/// Bad lines that are printed, of the files and of the server each; further ones are only counted.
pub(super) const SHOWN: u64 = 20;

/// The outcomes of the lines that the server answered.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) created: u64,
    pub(super) updated: u64,
    pub(super) duplicates: u64,
    pub(super) bad: u64,
}

impl Counts {
    pub(super) fn answered(&self) -> u64 {
        self.created + self.updated + self.duplicates + self.bad
    }
}

/// The records that became no line. Shared with the thread that reads.
pub(super) struct Tally {
    bar: ProgressBar,
    so_far: Mutex<SoFar>,
}

#[derive(Default)]
struct SoFar {
    /// The last record that was reported or counted, in this run or an earlier one.
    number: u64,
    bad: u64,
    files: u64,
    passed: BTreeMap<Skipped, u64>,
}

impl Tally {
    /// Reports and counts the records after this one.
    pub(super) fn after(number: u64, bar: ProgressBar) -> Tally {
        Tally { bar, so_far: Mutex::new(SoFar { number, ..SoFar::default() }) }
    }

    /// Notes a record that is no line: the `place`th of its file, from 1.
    pub(super) fn take(&self, number: u64, path: &Path, place: u64, found: &io::Result<Found>) {
        let mut so_far = self.so_far.lock();
        if number <= so_far.number {
            return;
        }
        so_far.number = number;
        match found {
            Ok(Found::Line(_) | Found::Nothing) => {}
            Ok(Found::Skipped(reason)) => *so_far.passed.entry(*reason).or_default() += 1,
            Ok(Found::Bad(why)) => {
                so_far.bad += 1;
                if so_far.bad <= SHOWN {
                    self.bar.suspend(|| eprintln!("{}: {why}", path.display()));
                }
            }
            Err(error) => {
                so_far.files += 1;
                let sent = match place - 1 {
                    0 => "nothing of it is sent".to_owned(),
                    records => format!("what came before, {}, is sent", counted(records, "record")),
                };
                self.bar.suspend(|| eprintln!("{}: {error}; {sent}", path.display()));
            }
        }
    }

    /// The numbers of bad records, and of files that could not be read to their end.
    pub(super) fn failed(&self) -> (u64, u64) {
        let so_far = self.so_far.lock();
        (so_far.bad, so_far.files)
    }

    /// Prints the totals of a run, complete or not.
    pub(super) fn sum_up(&self, counts: &Counts) {
        let Counts { created, updated, duplicates, bad } = counts;
        let (unread, files) = self.failed();
        let bad = bad + unread;
        let cut = match files {
            0 => "",
            files => &format!(", {} not read to the end", counted(files, "file")),
        };
        eprintln!(
            "{created} created, {updated} updated, {} left out, {}{cut}",
            counted(*duplicates, "duplicate"),
            counted(bad, "bad line")
        );
        let passed = &self.so_far.lock().passed;
        if !passed.is_empty() {
            eprintln!("{}", SkippedRecords(passed));
        }
    }
}

struct SkippedRecords<'a>(&'a BTreeMap<Skipped, u64>);

impl fmt::Display for SkippedRecords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons: Vec<String> = self.0.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        write!(f, "{} passed over: {}", counted(self.0.values().sum(), "record"), reasons.join(", "))
    }
}
