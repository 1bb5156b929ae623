//! The course of a run: the prints of all records, the decisions, the output.
//!
//! With the rule `first` each record is decided and written as soon as it is read, as long as the kept
//! documents fit in memory. What follows, and all of it with the other rules, is read twice: for the prints,
//! and after the decisions for the output.

mod against;
mod decide;
mod evidence;
pub(super) mod index;
mod losses;
mod results;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use indicatif::ProgressBar;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::super::signals::stop_on_signals;
use super::super::{Failure, tell};
use super::against::Against;
use super::dropped::{DroppedLine, Lines};
use super::folder::Folder;
use super::inputs::{Input, Inputs, unchanged};
use super::kept_ids::KeptIds;
use super::manifest::{forget, prints};
use super::output::Outputs;
use super::pairs::{Pair, Pairs};
use super::progress::{bar, check};
use super::reader::Reader;
use super::record::{Content, Made, Maker, Raw};
use super::sources::Sources;
use super::spool::{Kind, Name, Names, Prints, Stored};
use super::summary::Summary;
use super::target;
use super::texts::Texts;
use super::{Clusters, DedupeArguments, distance, threads, weights};
pub(super) use decide::{fixed_bytes, memory};
use lookalike_corpus::{Decision, Decisions, Documents, Kept, Named};
use lookalike_dedupe::{Exact, Keep, Radius, second_check};
use lookalike_run::machine;
use lookalike_wording::counted;

/// The most invalid records that are printed; further ones are only counted.
const SHOWN: u64 = 20;
/// The parts of the memory of which all but one are for kept documents while each is decided when it is read.
const PARTS: u64 = 4;
/// The number of records after which prints are made durable.
const SYNC_EVERY: u32 = 100_000;

/// Runs the command.
pub(super) fn run(
    arguments: &DedupeArguments,
    inputs: &mut Inputs,
    against: &mut Against,
    mut maker: Maker,
    radius: Radius,
) -> Result<(), Failure> {
    let folder = Folder::open(&arguments.output, &target::names(&arguments.targets()))?;
    against.fetch(&arguments.access, maker.profile, &folder.work(""))?;
    machine::disable_huge_pages();
    let stop = stop_on_signals();
    for files in [&mut *inputs, &mut against.inputs] {
        files.store_streams(|name| folder.work(name), &stop)?;
    }
    let (inputs, against) = (&*inputs, &*against);
    tell(&readings(arguments, weights::are_learned(arguments, against, &maker)));
    let (weights, note) = weights::choose(arguments, inputs, against, &maker, &stop)?;
    against
        .indexes
        .iter()
        .try_for_each(|index| index.check(maker.profile, maker.sizes, weights.as_deref()))?;
    maker.weights = weights;
    let mut run = Run::new(arguments, inputs, against, &maker, radius, &folder, stop)?;
    run.summary.weights = note;
    run.read_against()?;
    run.read(&folder)?;
    run.refuse_invalid()?;
    if run.kept.is_none() || run.streamed.records < run.prints.len() {
        let decisions = run.decisions()?;
        run.refuse_losses(Some(&decisions))?;
        run.write(&decisions)?;
    }
    run.refuse_losses(None)?;
    run.write_evidence()?;
    run.write_groups()?;
    run.finish(folder)
}

/// How often the files are read, and for what.
fn readings(arguments: &DedupeArguments, learns: bool) -> String {
    let weights = if learns { "for the weights of features, " } else { "" };
    let (rest, count, perhaps) = match arguments.is_streamed() {
        true => ("for prints and output", 1, "; once more if the kept documents do not fit in --memory"),
        false => ("for prints, for output", 2, ""),
    };
    let times = counted(count + u64::from(learns), "time");
    format!("the files are read {times}: {weights}{rest}{perhaps}")
}

/// How much of the input was decided and written when it was read.
#[derive(Clone, Copy, Debug, Default)]
struct Streamed {
    /// Records.
    records: u32,
    /// Records, and what else stands in files, such as the headers of tables.
    all: u64,
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
    /// What is near.
    documents: Documents<'static>,
    /// The texts of all documents, if they decide what is near, or are evidence.
    texts: Option<Arc<Texts>>,
    /// The documents that are kept so far, while each is decided when it is read.
    kept: Option<Kept<'static>>,
    /// The memory for them.
    memory: u64,
    /// What was decided when it was read.
    streamed: Streamed,
    /// The prints of the documents of `--against`, which have the first numbers.
    against_prints: Prints,
    /// Those of indexes among them, which have no texts.
    of_indexes: Range<u32>,
    /// The keys of the keep rule, unless it is `first`.
    keys: Vec<u64>,
    preferences: Vec<u64>,
    outputs: Outputs<'a>,
    dropped: Option<Lines>,
    kept_ids: Option<KeptIds>,
    pairs: Option<Pairs>,
    sources: Sources,
    summary: Summary,
    stop: Arc<AtomicU8>,
}

impl<'a> Run<'a> {
    fn new(
        arguments: &'a DedupeArguments,
        inputs: &'a Inputs,
        against: &'a Against,
        maker: &'a Maker,
        radius: Radius,
        folder: &Folder,
        stop: Arc<AtomicU8>,
    ) -> Result<Run<'a>, Failure> {
        let preferences = match &arguments.keep {
            Keep::Source(names) => inputs.preferences(names)?,
            _ => Vec::new(),
        };
        let prints = prints(arguments, inputs, maker, folder)?;
        let check = arguments.check.map(second_check);
        let k = distance(radius, maker.profile, maker.weights.is_some())?;
        let exact = Exact::of(maker.profile, radius, maker.weights.is_some());
        let texts = || Texts::create(&folder.work("texts"), maker.clone()).map(Arc::new);
        let texts = maker.gives_texts.then(texts).transpose()?;
        let judge = exact.zip(texts.clone()).map(|(exact, texts)| {
            exact.judge(maker.profile, maker.weights.clone(), move |number| texts.get(number).map(Cow::Owned))
        });
        let documents = Documents::new(maker.profile.width(), maker.profile.signatures(), k, check);
        let documents = documents.with_judge(judge);
        Ok(Run {
            arguments,
            inputs,
            against,
            maker,
            threads: threads(arguments),
            prints,
            is_stale: false,
            names: Names::create(&folder.work(""))?,
            kept: arguments.is_streamed().then(|| Kept::like(&documents)),
            memory: memory(arguments),
            streamed: Streamed::default(),
            documents,
            texts,
            against_prints: Prints::open(&folder.work("against-prints"), maker.sizes, false)?,
            of_indexes: 0..0,
            keys: Vec::new(),
            preferences,
            outputs: Outputs::new(folder.fresh_output()?, &inputs.files, arguments.about.annotate),
            dropped: arguments.duplicates.as_deref().map(Lines::create).transpose()?,
            kept_ids: arguments.about.keep_ids.as_deref().map(KeptIds::create).transpose()?,
            pairs: arguments.about.pairs(folder)?,
            sources: Sources::create(&folder.work("sources"))?,
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

    /// Reads all records; decides and writes each of them as long as kept documents are held, and these fit
    /// in memory.
    fn read(&mut self, folder: &Folder) -> Result<(), Failure> {
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
                // A store that does not answer is no fault of the record: the next run goes on before it.
                if matches!(raw.content, Content::Broken(_)) {
                    unchanged(&self.inputs.files[raw.file as usize..=raw.file as usize])?;
                }
                let stored = if raw.content.is_record() {
                    number += 1;
                    Some(self.take(number - 1, &raw, made, &bar)?)
                } else {
                    None
                };
                taken.push((raw, stored));
            }
            if number / SYNC_EVERY > before.max(known) / SYNC_EVERY {
                self.prints.sync_in_background()?;
            }
            if self.streamed.records == before { self.stream(&taken) } else { Ok(()) }
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

    /// Decides about the next records and writes them, if kept documents are held and fit in memory.
    fn stream(&mut self, records: &[(Raw, Option<Stored>)]) -> Result<(), Failure> {
        let memory = (self.memory / PARTS * (PARTS - 1)) as usize;
        let Some(kept) = &mut self.kept else { return Ok(()) };
        if kept.is_full(memory) {
            return Ok(());
        }
        let first = self.against_prints.len() + self.streamed.records;
        let numbered = (first..).zip(records.iter().filter_map(|(_, stored)| stored.as_ref()));
        let compared = numbered.filter(|(_, stored)| stored.kind == Kind::Document);
        let compared: Vec<Named<'_>> = compared.map(|(number, stored)| (number, &stored.print)).collect();
        let mut decisions = kept.visit_all(&compared, self.threads).into_iter();
        self.texts.as_ref().map_or(Ok(()), |texts| texts.check())?;
        let mut number = first;
        for (raw, stored) in records {
            let Some(stored) = stored else {
                self.outputs.write(raw)?;
                continue;
            };
            let decision = if stored.kind == Kind::Document { decisions.next() } else { None };
            let decision = decision.unwrap_or(Decision::Kept);
            self.count_loss(number, decision)?;
            self.settle(raw, stored.kind, number, Some(stored.digest), decision)?;
            number += 1;
        }
        self.streamed.records += number - first;
        self.streamed.all += records.len() as u64;
        Ok(())
    }

    /// Takes the next record: its print, its name, and its place in the counts. Returns what is stored about
    /// it.
    fn take(&mut self, number: u32, raw: &Raw, made: Made, bar: &ProgressBar) -> Result<Stored, Failure> {
        let Made { id, source: of, stored, text, unread } = made;
        if let Some(texts) = &self.texts {
            texts.push_of(raw, &self.inputs.files[raw.file as usize], text.as_deref())?;
        }
        let source = source(raw);
        let stored = match stored.filter(|_| number >= self.prints.len()) {
            Some(stored) => {
                self.prints.push(&stored, source)?;
                stored
            }
            None if self.prints.head(number)?.source == source => self.prints.get(number)?,
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
        self.names.push(file, raw.line, id.as_deref(), true)?;
        self.count_source(raw, stored.kind, of)?;
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
        if self.arguments.keep != Keep::FIRST {
            self.keys.push(self.preferences.get(raw.file as usize).copied().unwrap_or(stored.key));
        }
        Ok(stored)
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
                if kind == Kind::Other { self.outputs.write(raw) } else { self.keep(raw, number) }
            }
            (_, Decision::Dropped { by, distance }) => {
                let digest = digest.map_or_else(|| self.digest(number), Ok)?;
                let is_exact = distance == 0 && digest == self.digest(by)?;
                self.summary.dropped(by, distance, is_exact);
                if let Some(pairs) = &mut self.pairs {
                    pairs.push(Pair { own: number, by, distance, is_exact })?;
                }
                if self.arguments.about.annotate {
                    self.annotate(raw, number, decision)?;
                }
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

    /// Reads the files again and writes them by the decisions, from the first record on that is not written.
    fn write(&mut self, decisions: &Decisions) -> Result<(), Failure> {
        let reader = self.reader(&self.inputs.files, u32::MAX);
        let bar = bar("write", self.inputs.bytes());
        let (mut number, mut at) = (0, 0);
        let (against, records) = (self.against_prints.len(), self.prints.len());
        reader.each_raw(|raw, _| {
            bar.set_position(reader.passed.load(Ordering::Relaxed));
            self.check_stop()?;
            at += 1;
            let is_record = raw.content.is_record();
            if at <= self.streamed.all {
                number += u32::from(is_record);
                return Ok(());
            }
            if !is_record {
                return self.outputs.write(&raw);
            }
            // A decision is about the bytes that were read first, and is used for no others.
            let head = if number < records { Some(self.prints.head(number)?) } else { None };
            let Some(head) = head.filter(|head| head.source == source(&raw)) else {
                return Err(self.changed(&raw));
            };
            number += 1;
            let all = against + number - 1;
            self.settle(&raw, head.kind, all, None, decisions.get(all))
        })?;
        bar.finish_and_clear();
        unchanged(&self.inputs.files)?;
        if number == records {
            return Ok(());
        }
        let Name { file, line, .. } = self.names.get(against + number)?;
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
        if self.summary.invalid > 0 && !self.arguments.read.skip_invalid {
            return Err(refusal(self.summary.invalid, ""));
        }
        let Some((a, b)) = self.names.repeated(self.memory / PARTS)? else { return Ok(()) };
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
