//! The course of a run: the prints of all records, the decisions, the output.
//!
//! With the rule `first` each record is decided and written as soon as it is read. The other rules read the
//! files twice: for the prints, and after the decisions for the output.

use std::fs::{self, File};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;

use super::super::Failure;
use super::super::files::at;
use super::super::signals::stop_on_signals;
use super::against::Against;
use super::dropped::{Dropped, DroppedLine, Shown};
use super::inputs::{Input, Inputs};
use super::keep::Keep;
use super::manifest::{MANIFEST, prints};
use super::output::{Folder, Outputs};
use super::progress::{bar, check};
use super::reader::Reader;
use super::record::{Made, Maker, Raw, SKETCH_BITS, SKETCH_BYTES};
use super::report::report;
use super::spool::{Kind, Name, Names, Prints, Stored};
use super::summary::{Summary, WithGroups};
use super::{Clusters, DedupeArguments};
use crate::corpus::{
    Bounds, Check, Decision, Documents, Kept, decide_in_rounds, linked, neighbour_counts, visiting_order,
};
use crate::fingerprint::Sketch;
use crate::wording::counted;

/// The invalid records that are printed; further ones are only counted.
const SHOWN: u64 = 20;
/// The records after which prints are made durable.
const SYNC_EVERY: u32 = 100_000;
/// The bytes that a run with `--memory` holds for each record: its kind, its key, its decision, and twice its
/// place in the order; with `--clusters linked` instead of the key its parent, and two names.
const FIXED_BYTES: u64 = 1 + 8 + 12 + 8;
const LINKED_BYTES: u64 = 1 + 4 + 8 + 4 + 12 + 8;
/// The least memory for prints and the index of a round.
const LEAST_BYTES: u64 = 1 << 20;

/// Runs the command.
pub(super) fn run(
    arguments: &DedupeArguments,
    inputs: &Inputs,
    maker: &Maker,
    k: u32,
) -> Result<(), Failure> {
    // A run that was killed at its end may have left one of its files, which is then written again.
    let goes_on = arguments.output.with_added_extension("partial").join(MANIFEST).exists();
    for path in [&arguments.duplicates, &arguments.report].into_iter().flatten() {
        if path.exists() && !arguments.force && !goes_on {
            return Err(Failure::new(format!("{} exists; --force replaces it", path.display())));
        }
    }
    let folder = Folder::open(&arguments.output, &inputs.files, arguments.force)?;
    let (format, access) = (arguments.format, &arguments.access);
    let against = Against::fetched(&arguments.against, format, access, maker.profile, &folder.work(""))?;
    let mut run = Run::new(arguments, inputs, &against, maker, k, &folder)?;
    let is_streamed =
        arguments.keep == Keep::FIRST && arguments.clusters == Clusters::Greedy && arguments.memory.is_none();
    run.read_against(is_streamed)?;
    run.read(is_streamed)?;
    run.refuse_invalid()?;
    if !is_streamed {
        let decisions = run.decisions()?;
        run.write(&decisions)?;
    }
    run.finish(folder)
}

/// A run.
struct Run<'a> {
    arguments: &'a DedupeArguments,
    inputs: &'a Inputs,
    against: &'a Against,
    maker: &'a Maker,
    threads: usize,
    prints: Prints,
    names: Names,
    documents: Documents,
    kept: Kept,
    /// The prints of the documents of `--against`, which have the first numbers.
    against_prints: Prints,
    /// For each record that is read: what it is, and the key of the keep rule. Not needed by `first`.
    kinds: Vec<Kind>,
    keys: Vec<u64>,
    preferences: Vec<u64>,
    outputs: Outputs<'a>,
    dropped: Option<Dropped>,
    summary: Summary,
    stop: Arc<AtomicU8>,
}

impl<'a> Run<'a> {
    fn new(
        arguments: &'a DedupeArguments,
        inputs: &'a Inputs,
        against: &'a Against,
        maker: &'a Maker,
        k: u32,
        folder: &Folder,
    ) -> Result<Run<'a>, Failure> {
        let preferences = match &arguments.keep {
            Keep::Source(names) => inputs.preferences(names)?,
            _ => Vec::new(),
        };
        let prints = prints(arguments, inputs, maker, folder)?;
        let check = arguments.check.map(second_check);
        let documents = Documents::new(maker.profile.width(), maker.profile.signatures(), k, check);
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Run {
            arguments,
            inputs,
            against,
            maker,
            threads: arguments.threads.map_or(all, usize::from),
            prints,
            names: Names::create(&folder.work(""))?,
            kept: Kept::none_of(&documents),
            documents,
            against_prints: Prints::open(&folder.work("against-prints"), maker.sizes, false)?,
            kinds: Vec::new(),
            keys: Vec::new(),
            preferences,
            outputs: Outputs::new(folder.fresh_output()?, &inputs.files),
            dropped: arguments.duplicates.as_deref().map(Dropped::create).transpose()?,
            summary: Summary { is_linked: arguments.clusters == Clusters::Linked, ..Summary::default() },
            stop: stop_on_signals(),
        })
    }

    fn reader(&self, inputs: &'a [Input], known: u32) -> Reader<'a> {
        Reader { inputs, maker: self.maker, known, threads: self.threads, passed: Arc::default() }
    }

    /// Reads the documents of `--against`: all of them count as kept, and none is written.
    fn read_against(&mut self, is_streamed: bool) -> Result<(), Failure> {
        let (files, exported) = self.against.inputs.files.split_at(self.against.exported_from);
        let plain = Maker { keep: Keep::FIRST, needs_id: false, ..self.maker.clone() };
        let of_server = Maker { is_exported: true, charset: None, ..plain.clone() };
        let bar = bar("against", self.against.inputs.bytes());
        let mut invalid = 0;
        for (first, files, maker) in [(0, files, &plain), (files.len(), exported, &of_server)] {
            let reader = Reader { inputs: files, maker, ..self.reader(&[], 0) };
            reader.each(|records| {
                bar.set_position(reader.passed.load(Ordering::Relaxed));
                self.check_stop()?;
                for (raw, made) in records {
                    let file = first + raw.file as usize;
                    if let Some(unread) = made.unread.filter(|unread| !unread.reason.is_passed_over()) {
                        invalid += 1;
                        bar.suspend(|| {
                            show_invalid(&self.against.names[file], &raw, &unread.detail, invalid)
                        });
                    }
                    let Some(stored) = made.stored.filter(|stored| stored.kind == Kind::Document) else {
                        continue;
                    };
                    if is_streamed {
                        let number = self.documents.push(&stored.print);
                        self.kept.keep(&self.documents, number);
                    }
                    self.against_prints.push(&stored)?;
                    self.names.push(file as u32, raw.line, made.id.as_deref())?;
                }
                Ok(())
            })?;
        }
        bar.finish_and_clear();
        if invalid > 0 && !self.arguments.skip_invalid {
            return Err(refusal(invalid, " of --against"));
        }
        Ok(())
    }

    /// Reads all records; decides and writes each of them if `is_streamed`.
    fn read(&mut self, is_streamed: bool) -> Result<(), Failure> {
        let known = self.prints.len();
        if known > 0 {
            eprintln!("going on after {} of an earlier run", counted(known.into(), "record"));
        }
        let reader = self.reader(&self.inputs.files, known);
        let bar = bar("read", self.inputs.bytes());
        let mut number = 0;
        let result = reader.each(|records| {
            bar.set_position(reader.passed.load(Ordering::Relaxed));
            self.check_stop()?;
            let before = number;
            let mut taken = Vec::with_capacity(records.len());
            for (raw, made) in records {
                let stored = if raw.content.is_record() {
                    number += 1;
                    Some(self.take(number - 1, &raw, made, is_streamed, &bar)?)
                } else {
                    None
                };
                taken.push((raw, stored));
            }
            if number / SYNC_EVERY > before.max(known) / SYNC_EVERY {
                self.prints.sync_in_background()?;
            }
            if is_streamed { self.stream(&taken, self.against_prints.len() + before) } else { Ok(()) }
        });
        bar.finish_and_clear();
        // Whatever ended the run, the prints serve the next one.
        let synced = self.prints.sync();
        result.and(synced)
    }

    /// Decides about records, which are numbered from `first`, and writes them. Headers have no number.
    fn stream(&mut self, records: &[(Raw, Option<(Kind, u64)>)], first: u32) -> Result<(), Failure> {
        let numbered = (first..).zip(records.iter().filter_map(|(_, stored)| *stored));
        let compared = numbered.filter(|(_, (kind, _))| *kind == Kind::Document);
        let compared: Vec<u32> = compared.map(|(number, _)| number).collect();
        let mut decisions = self.kept.visit_all(&self.documents, &compared, self.threads).into_iter();
        let mut number = first;
        for (raw, stored) in records {
            let Some((kind, digest)) = *stored else {
                self.outputs.write(raw)?;
                continue;
            };
            let decision = if kind == Kind::Document { decisions.next() } else { None };
            self.settle(raw, kind, number, Some(digest), decision.unwrap_or(Decision::Kept))?;
            number += 1;
        }
        Ok(())
    }

    /// Takes the next record: its print, its name, and its place in the counts. Returns what it is, and the
    /// digest of its text.
    fn take(
        &mut self,
        number: u32,
        raw: &Raw,
        made: Made,
        is_streamed: bool,
        bar: &ProgressBar,
    ) -> Result<(Kind, u64), Failure> {
        let Made { id, stored, unread } = made;
        let stored = match stored.filter(|_| number >= self.prints.len()) {
            Some(stored) => {
                self.prints.push(&stored)?;
                stored
            }
            None => self.prints.get(number)?,
        };
        let file = raw.file + self.against.names.len() as u32;
        let id = id.filter(|_| matches!(stored.kind, Kind::Document | Kind::Empty));
        self.names.push(file, raw.line, id.as_deref())?;
        if is_streamed {
            self.documents.push(&stored.print);
        }
        match stored.kind {
            Kind::Document => self.summary.read += 1,
            Kind::Empty => {
                self.summary.read += 1;
                self.summary.empty += 1;
            }
            Kind::Other => self.summary.other += 1,
            Kind::Invalid => {
                self.summary.read += 1;
                self.summary.invalid += 1;
                let (count, file) = (self.summary.invalid, &self.inputs.files[raw.file as usize].shown);
                let why = unread.as_ref().map_or("", |unread| &unread.detail);
                bar.suspend(|| show_invalid(file, raw, why, count));
            }
        }
        if let Some(unread) = unread {
            self.summary.unread.add(unread.reason);
        }
        if !is_streamed {
            self.kinds.push(stored.kind);
            self.keys.push(self.preferences.get(raw.file as usize).copied().unwrap_or(stored.key));
        }
        Ok((stored.kind, stored.digest))
    }

    /// Writes a record that is kept, or the line of one that is dropped.
    fn settle(
        &mut self,
        raw: &Raw,
        kind: Kind,
        number: u32,
        digest: Option<u64>,
        decision: Decision,
    ) -> Result<(), Failure> {
        self.outputs.start(raw.file)?;
        match (kind, decision) {
            (Kind::Invalid, _) => Ok(()),
            (_, Decision::Kept) => {
                self.summary.kept += u64::from(kind != Kind::Other);
                self.outputs.write(raw)
            }
            (_, Decision::Dropped { by, distance }) => {
                let digest = digest.map_or_else(|| self.digest(number), Ok)?;
                let is_exact = distance == 0 && digest == self.digest(by)?;
                self.summary.dropped(by, distance, is_exact);
                if self.dropped.is_none() {
                    return Ok(());
                }
                let (own, replaced_by) = (self.shown(number)?, self.shown(by)?);
                let similarity = self.maker.profile.signatures().map(|shape| shape.similarity(distance));
                let line = DroppedLine { own, replaced_by, distance, similarity, exact: is_exact };
                self.dropped.as_mut().map_or(Ok(()), |file| file.write(&line))
            }
        }
    }

    fn digest(&self, number: u32) -> Result<u64, Failure> {
        Ok(print_of(&self.against_prints, &self.prints, number)?.digest)
    }

    /// The name of a document, for the user.
    fn shown(&self, number: u32) -> Result<Shown<'a>, Failure> {
        let Name { file, line, id } = self.names.get(number)?;
        let file = match self.against.names.get(file as usize) {
            Some(name) => name,
            None => &self.inputs.files[file as usize - self.against.names.len()].shown,
        };
        Ok(Shown { id, file, line })
    }

    /// The decision about each record that was read, within the memory that is allowed.
    fn decisions(&mut self) -> Result<Vec<Decision>, Failure> {
        let spinner = ProgressBar::new_spinner().with_message("deciding");
        spinner.enable_steady_tick(Duration::from_millis(200));
        let (first, bounds) = (self.against_prints.len(), self.bounds()?);
        let is_compared = |number: &u32| self.kinds[(number - first) as usize] == Kind::Document;
        let print = |number| {
            check(&self.stop)?;
            Ok::<_, Failure>(print_of(&self.against_prints, &self.prints, number)?.print)
        };
        if self.arguments.keep == Keep::Central {
            let all = first + self.kinds.len() as u32;
            let among: Vec<u32> = (first..all).filter(is_compared).collect();
            let counts = neighbour_counts(&mut self.documents, &among, bounds, print)?;
            for (number, count) in among.iter().zip(counts) {
                self.keys[(number - first) as usize] = !u64::from(count);
            }
        }
        let order = visiting_order(&self.keys).into_iter().map(|number| number + first).filter(is_compared);
        let order: Vec<u32> = (0..first).chain(order).collect();
        self.keys = Vec::new();
        let mut decisions = vec![Decision::Kept; first as usize + self.kinds.len()];
        self.documents.clear();
        if self.arguments.clusters == Clusters::Linked {
            let names = linked(&mut self.documents, &order, bounds, print)?;
            for (number, by) in order.into_iter().zip(names).filter(|(own, by)| own >= &first && by != own) {
                self.documents.clear();
                let [own, other] =
                    [number, by].map(|number| print(number).map(|print| self.documents.push(&print)));
                let distance = self.documents.distance(own?, other?);
                decisions[number as usize] = Decision::Dropped { by, distance };
            }
        } else {
            let order = (&order[..], first as usize);
            let rounds = decide_in_rounds(&mut self.documents, order, bounds, print, &mut decisions)?;
            if rounds > 1 {
                eprintln!("decided in {rounds} rounds, because of --memory");
            }
        }
        spinner.finish_and_clear();
        Ok(decisions.split_off(first as usize))
    }

    /// The memory for prints and the index, after what is held for each record.
    fn bounds(&self) -> Result<Bounds, Failure> {
        let (first, records) = (u64::from(self.against_prints.len()), self.kinds.len() as u64);
        let fixed = if self.arguments.clusters == Clusters::Linked { LINKED_BYTES } else { FIXED_BYTES };
        let fixed = (records + first) * fixed;
        let rest = self.arguments.memory.unwrap_or(u64::MAX).checked_sub(fixed);
        let bytes = rest.filter(|rest| *rest >= LEAST_BYTES).ok_or_else(|| {
            let least = (fixed + LEAST_BYTES).div_ceil(1 << 20);
            Failure::new(format!("--memory must be {least}MiB or more for {}", counted(records, "record")))
        })?;
        Ok(Bounds { bytes: bytes as usize, threads: self.threads })
    }

    /// Reads the files again and writes them by the decisions.
    fn write(&mut self, decisions: &[Decision]) -> Result<(), Failure> {
        let reader = self.reader(&self.inputs.files, u32::MAX);
        let bar = bar("write", self.inputs.bytes());
        let mut number = 0;
        let changed = || Failure::new("the files changed during the run: start it again");
        reader.each_raw(|raw| {
            bar.set_position(reader.passed.load(Ordering::Relaxed));
            self.check_stop()?;
            if !raw.content.is_record() {
                return self.outputs.write(&raw);
            }
            let (kind, decision) =
                self.kinds.get(number).copied().zip(decisions.get(number).copied()).ok_or_else(changed)?;
            let all = self.against_prints.len() + number as u32;
            number += 1;
            self.settle(&raw, kind, all, None, decision)
        })?;
        bar.finish_and_clear();
        if number == decisions.len() { Ok(()) } else { Err(changed()) }
    }

    /// Ends the run if records are invalid, or ids are repeated.
    fn refuse_invalid(&self) -> Result<(), Failure> {
        if self.summary.invalid > 0 && !self.arguments.skip_invalid {
            return Err(refusal(self.summary.invalid, ""));
        }
        let Some((a, b)) = self.names.repeated(self.against_prints.len())? else { return Ok(()) };
        let place = |name: &Name| {
            let file = &self.inputs.files[name.file as usize - self.against.names.len()].shown;
            format!("{file}:{}", name.line)
        };
        Err(Failure::new(format!(
            "the id {:?} is repeated, at {} and {}; name another --id-field, or one that no document has to \
             name documents by file and line; no output is written",
            a.id.as_deref().unwrap_or_default(),
            place(&a),
            place(&b)
        )))
    }

    fn finish(mut self, folder: Folder) -> Result<(), Failure> {
        self.outputs.finish()?;
        let name = |(number, count): (u32, u64)| Ok((self.shown(number)?.to_string(), count));
        let groups: Vec<(String, u64)> =
            self.summary.largest().into_iter().map(name).collect::<Result<_, Failure>>()?;
        if let Some(path) = &self.arguments.report {
            let partial = path.with_added_extension("partial");
            let page =
                report(&self.summary, &groups, &self.maker.profile.id().to_string(), self.documents.k());
            let written = File::create(&partial).and_then(|mut file| {
                file.write_all(page.as_bytes())?;
                file.sync_all()
            });
            written.and_then(|()| fs::rename(&partial, path)).map_err(|error| at(&partial, &error))?;
        }
        if let Some(dropped) = self.dropped.take() {
            dropped.finish()?;
        }
        folder.finish()?;
        print!("{}", WithGroups(&self.summary, &groups));
        Ok(())
    }

    fn check_stop(&self) -> Result<(), Failure> {
        check(&self.stop)
    }
}

/// The print of a document, of `--against` or of the input.
fn print_of(against: &Prints, own: &Prints, number: u32) -> Result<Stored, Failure> {
    match number.checked_sub(against.len()) {
        Some(number) => own.get(number),
        None => against.get(number),
    }
}

fn refusal(invalid: u64, of: &str) -> Failure {
    Failure::new(format!(
        "{}{of}, and no output is written; --skip-invalid leaves such records out (the same command with it \
         goes on with what was read)",
        counted(invalid, "invalid record")
    ))
}

fn show_invalid(file: &str, raw: &Raw, why: &str, count: u64) {
    if count <= SHOWN {
        eprintln!("{file}:{}: {why}", raw.line);
    }
}

/// Near documents must also have this estimated similarity.
fn second_check(least: f64) -> Check {
    let sketch = |bytes: &[u8]| Sketch::from_bytes(SKETCH_BITS, bytes.to_vec());
    let is_near = move |a: &[u8], b: &[u8]| sketch(a).similarity(&sketch(b)) >= least;
    Check { bytes: SKETCH_BYTES, is_near: Box::new(is_near) }
}
