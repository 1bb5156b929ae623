//! The course of a run: the prints of all records, the decisions, the output.
//!
//! With the rule `first` each record is decided and written as soon as it is read, as long as the kept
//! documents fit in memory. What follows, and all of it with the other rules, is read twice: for the prints,
//! and after the decisions for the output.

mod against;
mod bench;
mod decide;
mod evidence;
pub(super) mod index;
mod invalid;
mod losses;
mod results;
pub(super) mod shard;
mod spans;
mod told;

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
use super::shards::Shards;
use super::sources::Sources;
use super::spool::{Kind, Name, Names, Prints, Stored};
use super::summary::Summary;
use super::tape::{Tape, Told};
use super::target;
use super::texts::Texts;
use super::{Clusters, DedupeArguments, distance, threads, weights};
pub(super) use decide::{fixed_bytes, memory};
use invalid::{SHOWN, refusal, show_invalid};
use lookalike_corpus::{Decision, Decisions, Documents, Kept, Named};
use lookalike_dedupe::{Comparison, Exact, Keep, Radius, second_check};
use lookalike_run::machine;
use lookalike_wording::counted;

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
    shards: Option<&Shards>,
) -> Result<(), Failure> {
    let folder = Folder::open(&arguments.output, &target::names(&arguments.targets()))?;
    against.fetch(&arguments.access, maker.profile, &folder.work(""))?;
    machine::disable_huge_pages();
    let stop = stop_on_signals();
    for files in [&mut *inputs, &mut against.inputs] {
        files.store_streams(|name| folder.work(name), &stop)?;
    }
    let (inputs, against) = (&*inputs, &*against);
    if shards.is_none() {
        tell(&readings(arguments, weights::are_learned(arguments, against, &maker)));
    }
    let learned = shards.map(|shards| shards.begin(arguments, inputs, &maker)).transpose()?;
    let (weights, note) = weights::choose(arguments, inputs, against, &maker, learned.as_deref(), &stop)?;
    against
        .indexes
        .iter()
        .try_for_each(|index| index.check(maker.profile, maker.sizes, weights.as_deref()))?;
    maker.weights = weights;
    let mut run = Run::new(arguments, inputs, against, &maker, radius, &folder, stop)?;
    run.summary.weights = note;
    if let Some(shards) = shards {
        run.recall(shards)?;
    } else {
        run.read_against()?;
        run.read(&folder)?;
    }
    run.refuse_invalid()?;
    if run.kept.is_none() || run.streamed.records < run.prints.len() {
        let decisions = run.decisions()?;
        run.refuse_losses(Some(&decisions))?;
        run.find_spans(&decisions, &folder)?;
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
    let (rest, count, perhaps) = match (arguments.is_streamed(), arguments.spans.spans) {
        (true, _) => ("for prints and output", 1, "; once more if the kept documents do not fit in --memory"),
        (false, None) => ("for prints, for output", 2, ""),
        (false, Some(_)) => ("for prints, for grams, for passages, for output", 4, ""),
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
    /// The files that are read: all, or those of a shard.
    part: Range<usize>,
    /// What a shard tells of its records.
    tape: Option<Tape>,
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
    /// What says of dropped texts whether they are parts of others, with `--contained-in`.
    parts: Option<Comparison<'a>>,
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
    /// The records that contain items of evaluation sets, in order, and the file that names them.
    contaminated: Vec<u32>,
    contaminated_file: Option<Lines>,
    /// The passages that are taken out of what is written.
    cutting: Option<spans::Cutting>,
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
        let k = distance(arguments, radius, maker.profile, maker.weights.is_some())?;
        let exact = Exact::of(maker.profile, radius, maker.weights.is_some());
        let texts = || Texts::create(&folder.work("texts"), maker.clone()).map(Arc::new);
        let texts = maker.gives_texts.then(texts).transpose()?;
        let comparison = exact.zip(texts.clone()).map(|(exact, texts)| {
            let text = move |number| texts.get(number).map(Cow::Owned);
            let exact = exact.or_contained_in(arguments.contained_in);
            exact.comparison(maker.profile, maker.weights.clone(), text)
        });
        let documents = Documents::new(maker.profile.width(), maker.profile.signatures(), k, check);
        let documents = documents.with_judge(comparison.as_ref().map(Comparison::judge));
        Ok(Run {
            arguments,
            inputs,
            against,
            maker,
            threads: threads(arguments),
            part: 0..inputs.files.len(),
            tape: None,
            prints,
            is_stale: false,
            names: Names::create(&folder.work(""))?,
            kept: arguments.is_streamed().then(|| Kept::like(&documents)),
            memory: memory(arguments),
            streamed: Streamed::default(),
            documents,
            parts: comparison.filter(|_| arguments.contained_in.is_some()),
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
            contaminated: Vec::new(),
            contaminated_file: arguments.bench.contaminated.as_deref().map(Lines::create).transpose()?,
            cutting: None,
            summary: Summary {
                is_linked: arguments.clusters == Clusters::Linked,
                shape: maker.profile.signatures(),
                ..Summary::default()
            },
            stop,
        })
    }

    fn reader(&self, inputs: &'a [Input], known: u32) -> Reader<'a> {
        let (maker, threads, passed) = (self.maker, self.threads, Arc::default());
        Reader { inputs, from: 0, maker, known, threads, passed }
    }

    /// Reads all records; decides and writes each of them as long as kept documents are held, and these fit
    /// in memory.
    fn read(&mut self, folder: &Folder) -> Result<(), Failure> {
        let known = self.prints.len();
        if known > 0 {
            tell(&format!("going on after {} of an earlier run", counted(known.into(), "record")));
        }
        let Range { start: from, end } = self.part;
        let reader = Reader { from, ..self.reader(&self.inputs.files[..end], known) };
        let bar = bar("read", self.inputs.files[self.part.clone()].iter().map(|file| file.state.bytes).sum());
        let (mut number, mut file) = (0, from as u32);
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
        if let Some(texts) = &self.texts {
            texts.push_of(raw, &self.inputs.files[raw.file as usize], made.text.as_deref())?;
        }
        let source = source(raw);
        let stored = match made.stored.filter(|_| number >= self.prints.len()) {
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
        let told =
            Told { file: raw.file, line: raw.line, id: made.id, source: made.source, unread: made.unread };
        self.tape.as_mut().map_or(Ok(()), |tape| tape.push(&told))?;
        self.tell(told, &stored, bar)?;
        self.without_items(number, made.contained, stored)
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
            (Kind::Invalid | Kind::Contaminated, _) => Ok(()),
            (_, Decision::Kept) => {
                self.summary.kept += u64::from(kind != Kind::Other);
                if kind == Kind::Other { self.outputs.write(raw) } else { self.keep(raw, number) }
            }
            (_, Decision::Dropped { by, distance }) => {
                let digest = digest.map_or_else(|| self.digest(number), Ok)?;
                let is_exact = distance == 0 && digest == self.digest(by)?;
                self.summary.dropped(by, distance, is_exact);
                let contained_in =
                    self.parts.as_ref().and_then(|parts| parts.contained_in(number, by, distance));
                if contained_in.is_some() {
                    *self.summary.also.entry("dropped as parts of longer texts").or_default() += 1;
                }
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
                let exact = is_exact;
                let line = DroppedLine { own, page, replaced_by, distance, similarity, contained_in, exact };
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
        reader.each_raw(|raw, about| {
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
            let (kind, decision) = (self.kind(number - 1, head.kind), decisions.get(all));
            let raw = self.without_spans(raw, about, all, decision)?;
            self.settle(&raw, kind, all, None, decision)
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
