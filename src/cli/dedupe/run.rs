//! The course of a run: the prints of all records, the decisions, the output.
//!
//! With the rule `first` each record is decided and written as soon as it is read. The other rules read the
//! files twice: for the prints, and after the decisions for the output.

mod decide;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use indicatif::ProgressBar;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::super::signals::stop_on_signals;
use super::super::{Failure, printable, tell};
use super::against::Against;
use super::dropped::{Dropped, DroppedLine, Shown};
use super::folder::Folder;
use super::inputs::{Input, Inputs};
use super::manifest::{forget, prints};
use super::output::Outputs;
use super::progress::{bar, check};
use super::reader::Reader;
use super::record::{Content, Made, Maker, Raw};
use super::report::report;
use super::spool::{Kind, Name, Names, Prints, Stored};
use super::summary::Summary;
use super::target::{self, Target};
use super::{Clusters, DedupeArguments, distance, threads, weights};
pub(super) use decide::FIXED_BYTES;
use lookalike_corpus::{Decision, Documents, Kept};
use lookalike_dedupe::{Keep, Radius, second_check};
use lookalike_wording::counted;

/// The most invalid records that are printed; further ones are only counted.
const SHOWN: u64 = 20;
/// The number of records after which prints are made durable.
const SYNC_EVERY: u32 = 100_000;

/// Runs the command.
pub(super) fn run(
    arguments: &DedupeArguments,
    inputs: &Inputs,
    against: &mut Against,
    mut maker: Maker,
    radius: Radius,
) -> Result<(), Failure> {
    let folder = Folder::open(&arguments.output, &target::names(&arguments.targets()))?;
    against.fetch(&arguments.access, maker.profile, &folder.work(""))?;
    let against = &*against;
    let stop = stop_on_signals();
    let (weights, note) = weights::choose(arguments, inputs, against, &maker, &stop)?;
    let k = distance(radius, maker.profile, weights.is_some())?;
    maker.weights = weights;
    let mut run = Run::new(arguments, inputs, against, &maker, k, &folder, stop)?;
    run.summary.weights = note;
    let is_streamed = arguments.is_streamed();
    run.read_against(is_streamed)?;
    run.read(is_streamed, &folder)?;
    run.refuse_invalid()?;
    if !is_streamed {
        let decisions = run.decisions()?;
        run.write(&decisions)?;
    }
    run.finish(folder)
}

struct Run<'a> {
    arguments: &'a DedupeArguments,
    inputs: &'a Inputs,
    against: &'a Against,
    maker: &'a Maker,
    threads: usize,
    prints: Prints,
    /// Whether the prints of an earlier run are of other records.
    is_stale: bool,
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
        stop: Arc<AtomicU8>,
    ) -> Result<Run<'a>, Failure> {
        let preferences = match &arguments.keep {
            Keep::Source(names) => inputs.preferences(names)?,
            _ => Vec::new(),
        };
        let prints = prints(arguments, inputs, maker, folder)?;
        let check = arguments.check.map(second_check);
        let documents = Documents::new(maker.profile.width(), maker.profile.signatures(), k, check);
        Ok(Run {
            arguments,
            inputs,
            against,
            maker,
            threads: threads(arguments),
            prints,
            is_stale: false,
            names: Names::create(&folder.work(""))?,
            kept: Kept::none_of(&documents),
            documents,
            against_prints: Prints::open(&folder.work("against-prints"), maker.sizes, false)?,
            kinds: Vec::new(),
            keys: Vec::new(),
            preferences,
            outputs: Outputs::new(folder.fresh_output()?, &inputs.files),
            dropped: arguments.duplicates.as_deref().map(Dropped::create).transpose()?,
            summary: Summary {
                is_linked: arguments.clusters == Clusters::Linked,
                shape: maker.profile.signatures(),
                ..Summary::default()
            },
            stop,
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
                            show_invalid(&self.against.names[file], &raw, &unread.detail, invalid);
                        });
                    }
                    let Some(stored) = made.stored.filter(|stored| stored.kind == Kind::Document) else {
                        continue;
                    };
                    if is_streamed {
                        let number = self.documents.push(&stored.print);
                        self.kept.keep(&self.documents, number);
                    }
                    self.against_prints.push(&stored, 0)?;
                    self.names.push(file as u32, raw.line, made.id.as_deref())?;
                }
                Ok(())
            })?;
        }
        bar.finish_and_clear();
        unchanged(&self.against.inputs.files)?;
        if invalid > 0 && !self.arguments.skip_invalid {
            return Err(refusal(invalid, " of --against"));
        }
        Ok(())
    }

    /// Reads all records; decides and writes each of them if `is_streamed`.
    fn read(&mut self, is_streamed: bool, folder: &Folder) -> Result<(), Failure> {
        let known = self.prints.len();
        if known > 0 {
            tell(&format!("going on after {} of an earlier run", counted(known.into(), "record")));
        }
        let reader = self.reader(&self.inputs.files, known);
        let bar = bar("read", self.inputs.bytes());
        let (mut number, mut file) = (0, 0);
        let result = reader.each(|records| {
            bar.set_position(reader.passed.load(Ordering::Relaxed));
            self.check_stop()?;
            let before = number;
            if let Some((raw, _)) = records.last().filter(|(raw, _)| raw.file > file) {
                unchanged(&self.inputs.files[file as usize..raw.file as usize])?;
                file = raw.file;
            }
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
        let result = result.and_then(|()| unchanged(&self.inputs.files));
        if self.is_stale {
            forget(folder);
            return result;
        }
        // Synced even if the run failed: the next run uses the prints.
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
        let source = source(raw);
        let stored = match stored.filter(|_| number >= self.prints.len()) {
            Some(stored) => {
                self.prints.push(&stored, source)?;
                stored
            }
            None if self.prints.source(number)? == source => self.prints.get(number)?,
            None => {
                self.is_stale = true;
                return Err(Failure::new(format!(
                    "{}: the interrupted run read another record here, and its work is not used: start again",
                    self.place(raw)
                )));
            }
        };
        let file = raw.file + self.against.names.len() as u32;
        let id = id.filter(|_| matches!(stored.kind, Kind::Document | Kind::Empty | Kind::Little));
        self.names.push(file, raw.line, id.as_deref())?;
        if is_streamed {
            self.documents.push(&stored.print);
        }
        for remark in stored.remarks.names() {
            *self.summary.also.entry(remark).or_default() += 1;
        }
        match stored.kind {
            Kind::Document => self.summary.read += 1,
            Kind::Empty => {
                self.summary.read += 1;
                *self.summary.also.entry("kept without features").or_default() += 1;
            }
            Kind::Little => {
                self.summary.read += 1;
                *self.summary.also.entry("kept with too little text to compare").or_default() += 1;
            }
            Kind::Other => *self.summary.also.entry("copied without comparison").or_default() += 1,
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
                let page = print_of(&self.against_prints, &self.prints, number)?.remarks.page();
                let line = DroppedLine { own, page, replaced_by, distance, similarity, exact: is_exact };
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

    /// Reads the files again and writes them by the decisions.
    fn write(&mut self, decisions: &[Decision]) -> Result<(), Failure> {
        let reader = self.reader(&self.inputs.files, u32::MAX);
        let bar = bar("write", self.inputs.bytes());
        let mut number = 0;
        reader.each_raw(|raw, _| {
            bar.set_position(reader.passed.load(Ordering::Relaxed));
            self.check_stop()?;
            if !raw.content.is_record() {
                return self.outputs.write(&raw);
            }
            // A decision is about the bytes that were read first, and is used for no others.
            let is_same = number < decisions.len() && self.prints.source(number as u32)? == source(&raw);
            if !is_same {
                return Err(self.changed(&raw));
            }
            let (kind, decision) = (self.kinds[number], decisions[number]);
            let all = self.against_prints.len() + number as u32;
            number += 1;
            self.settle(&raw, kind, all, None, decision)
        })?;
        bar.finish_and_clear();
        unchanged(&self.inputs.files)?;
        if number == decisions.len() {
            return Ok(());
        }
        let Name { file, line, .. } = self.names.get(self.against_prints.len() + number as u32)?;
        Err(self.changed(&Raw::new(
            file - self.against.names.len() as u32,
            line,
            Content::Broken(String::new()),
        )))
    }

    /// The error of a record that is another one in the second pass.
    fn changed(&self, raw: &Raw) -> Failure {
        let inputs = &self.inputs.files;
        let known = inputs[raw.file as usize].path.check().err().map(Failure::from);
        known.unwrap_or_else(|| {
            Failure::new(format!(
                "{}: the file changed during the run, so no output is written; start it again when no \
                 program writes to the file, or with a copy of it",
                self.place(raw)
            ))
        })
    }

    fn place(&self, raw: &Raw) -> String {
        format!("{}:{}", self.inputs.files[raw.file as usize].shown, raw.line)
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
        unchanged(&self.inputs.files)?;
        let name = |(number, count): (u32, u64)| Ok((self.shown(number)?.to_string(), count));
        let groups: Vec<(String, u64)> =
            self.summary.largest().into_iter().map(name).collect::<Result<_, Failure>>()?;
        let notes = &self.inputs.notes;
        if let Some(path) = &self.arguments.report {
            let profile = self.maker.profile.id().to_string();
            let page = report(&self.summary, notes, &groups, &profile, self.documents.k());
            let mut file = Target::create(path)?;
            file.write_all(page.as_bytes()).map_err(|error| file.failed(&error))?;
            file.finish()?;
        }
        if let Some(dropped) = self.dropped.take() {
            dropped.finish()?;
        }
        folder.finish(&self.inputs.files)?;
        // The work is done, even if nobody reads the summary.
        let text = self.summary.text(notes, &groups);
        Ok(io::stdout().write_all(printable(&text).as_bytes())?)
    }

    fn check_stop(&self) -> Result<(), Failure> {
        check(&self.stop)
    }
}

/// The digest of the bytes of a record.
fn source(raw: &Raw) -> u64 {
    match &raw.content {
        Content::Values(values) => {
            values.iter().flatten().fold(0, |sum, value| xxh3_64_with_seed(value.as_bytes(), sum))
        }
        content => xxh3_64(raw.original.as_deref().unwrap_or_else(|| content.bytes())),
    }
}

/// Checks that files are as they were when they were listed.
fn unchanged(files: &[Input]) -> Result<(), Failure> {
    files.iter().try_for_each(|input| Ok(input.path.check()?))
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
        tell(&format!("{file}:{}: {why}", raw.line));
    }
}
