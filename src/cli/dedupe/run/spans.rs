//! The passes of `--spans` between the decisions and the output, and what they change in a record.

use std::io;
use std::sync::atomic::Ordering;

use super::super::super::{Failure, tell};
use super::super::dropped::Lines;
use super::super::estimate::free_bytes;
use super::super::folder::Folder;
use super::super::spans::{Counts, Span, SpansLine, What};
use super::{Content, Raw, Run, SHOWN, bar, fixed_bytes, unchanged};
use crate::cli::at;
use lookalike_corpus::{Decision, Decisions};
use lookalike_files::{About, Wants};
use lookalike_spans::{Grams, Hits, Windows, chosen_grams, cuts, edited, left, masks, removals};
use lookalike_text::located;

/// The least and the most memory for sorting.
const LEAST_BYTES: u64 = 1 << 20;
const MOST_BYTES: u64 = 1 << 30;

/// The passages that stand in the corpus before, and what becomes of them.
pub(super) struct Cutting {
    hits: Hits,
    length: usize,
    what: What,
    lines: Option<Lines>,
    counts: Counts,
}

impl Run<'_> {
    /// Finds the passages of kept documents, if they are wanted.
    pub(super) fn find_spans(&mut self, decisions: &Decisions, folder: &Folder) -> Result<(), Failure> {
        let Some(what) = self.arguments.spans.spans else { return Ok(()) };
        let length = usize::from(self.arguments.spans.span_tokens);
        let fixed = u64::from(self.prints.len()) * fixed_bytes(self.arguments);
        let memory = self.memory.saturating_sub(fixed).clamp(LEAST_BYTES, MOST_BYTES) as usize;
        let to = &folder.work("");
        let failed = |error: io::Error| at(to, &error);
        let mut grams = Grams::new(to, length, memory);
        let of = |_: u32, digests: Vec<u64>| chosen_grams(&digests, length);
        self.each_text(decisions, "grams", &|_| true, &of, |number, found| grams.add(number, &found))?;
        let places = grams.places(to, memory).map_err(failed)?;
        check_space(places.disk_bytes(), folder)?;
        let documents = places.documents();
        let mut windows = Windows::new(places, to, memory);
        let of = |_: u32, digests: Vec<u64>| digests;
        let has = |number: u32| documents.have(number);
        self.each_text(decisions, "passages", &has, &of, |number, digests| windows.add(number, &digests))?;
        let hits = windows.hits(to, memory).map_err(failed)?;
        let lines = self.arguments.spans.spans_file.as_deref().map(Lines::create).transpose()?;
        self.cutting = Some(Cutting { hits, length, what, lines, counts: Counts::default() });
        Ok(())
    }

    /// Calls `each` in order with what `of` makes of the digests of the tokens of kept documents for which
    /// `is_wanted` says so.
    fn each_text<T: Send>(
        &self,
        decisions: &Decisions,
        what: &'static str,
        is_wanted: &(dyn Fn(u32) -> bool + Sync),
        of: &(dyn Fn(u32, Vec<u64>) -> T + Sync),
        mut each: impl FnMut(u32, T) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let reader = self.reader(&self.inputs.files, u32::MAX);
        let bar = bar(what, self.inputs.bytes());
        let (maker, contaminated) = (self.maker, &self.contaminated);
        let (against, all) = (self.against_prints.len(), self.prints.len());
        let is_kept = |number: u32| {
            number < all
                && decisions.get(against + number) == Decision::Kept
                && contaminated.binary_search(&number).is_err()
        };
        let make = |number: u32, raw: &Raw, about: &About| {
            let is_wanted = raw.content.is_record() && is_kept(number) && is_wanted(number);
            let text = if is_wanted { maker.text(raw, about) } else { None };
            text.map(|text| of(number, located(&text).iter().map(|token| token.digest).collect()))
        };
        let mut number = 0;
        reader.each_of(&make, |records| {
            bar.set_position(reader.passed.load(Ordering::Relaxed));
            self.check_stop()?;
            for (raw, made) in records {
                number += u32::from(raw.content.is_record());
                let made = made.map_or(Ok(()), |made| each(number - 1, made));
                made.map_err(|error| Failure::new(format!("the working files of --spans: {error}")))?;
            }
            Ok::<_, Failure>(())
        })?;
        bar.finish_and_clear();
        unchanged(&self.inputs.files)
    }

    /// A record without the passages that stand before it, if it is kept.
    pub(super) fn without_spans(
        &mut self,
        raw: Raw,
        about: &About,
        number: u32,
        decision: Decision,
    ) -> Result<Raw, Failure> {
        let Some(mut cutting) = self.cutting.take_if(|_| decision == Decision::Kept) else { return Ok(raw) };
        let made = self.cut(&mut cutting, raw, about, number);
        self.cutting = Some(cutting);
        made
    }

    fn cut(&mut self, cutting: &mut Cutting, raw: Raw, about: &About, number: u32) -> Result<Raw, Failure> {
        let hits = cutting.hits.of(number - self.against_prints.len())?;
        let Some(text) = self.maker.text(&raw, about).filter(|_| !hits.is_empty()) else { return Ok(raw) };
        let (tokens, cuts) = (located(&text), cuts(&hits, cutting.length));
        let edits = match cutting.what {
            What::Remove => removals(&text, &tokens, &cuts),
            What::Mask => masks(&tokens, &cuts),
        };
        let field = &self.arguments.read.text_field;
        let made = if matches!(raw.content, Content::Values(_)) {
            self.outputs.replace(&raw, field, &edited(&text, &edits))?;
            None
        } else {
            match raw.edited(about, self.maker.how(), field, &edits) {
                Ok(made) => Some(made),
                Err(why) => {
                    cutting.counts.unchanged += 1;
                    if cutting.counts.unchanged <= SHOWN {
                        tell(&format!("{}: its passages stay: {why}", self.place(&raw)));
                    }
                    return Ok(raw);
                }
            }
        };
        let tokens_left = left(&tokens, &cuts);
        let counts = &mut cutting.counts;
        counts.documents += 1;
        counts.spans += cuts.len() as u64;
        counts.tokens += (tokens.len() - tokens_left) as u64;
        let characters = |range: std::ops::Range<usize>| text[range].chars().count();
        counts.characters += edits.iter().map(|(range, _)| characters(range.clone()) as u64).sum::<u64>();
        if tokens_left == 0 {
            counts.empty += 1;
            if counts.empty <= SHOWN {
                tell(&format!("{}: all of its text stands before it, and nothing is left", self.place(&raw)));
            }
        }
        if let Some(lines) = &mut cutting.lines {
            let (mut at, mut seen) = (0, 0);
            let spans = cuts.iter().map(|cut| {
                let range = tokens[cut.tokens.start].from as usize..tokens[cut.tokens.end - 1].to as usize;
                let from = seen + characters(at..range.start);
                (seen, at) = (from + characters(range.clone()), range.end);
                let first = self.shown(cut.first + self.against_prints.len())?;
                Ok(Span { from, to: seen, tokens: cut.tokens.len(), first })
            });
            let spans = spans.collect::<Result<_, Failure>>()?;
            lines.write(&SpansLine { own: self.shown(number)?, spans, tokens_left })?;
        }
        Ok(made.unwrap_or(raw))
    }

    /// Completes what is written about passages.
    pub(super) fn finish_spans(&mut self) -> Result<(), Failure> {
        let Some(Cutting { what, lines, counts, .. }) = self.cutting.take() else { return Ok(()) };
        self.summary.spans = Some(counts.line(what));
        lines.map_or(Ok(()), Lines::finish)
    }
}

/// Ends a run whose disk is too small for the windows of passages.
fn check_space(needed: u64, folder: &Folder) -> Result<(), Failure> {
    let free = free_bytes(&folder.work("")).filter(|free| *free < needed);
    free.map_or(Ok(()), |free| {
        Err(Failure::new(format!(
            "--spans may need about {} MiB for the passages that stand twice, and {} MiB are free: name an \
             --output on a larger disk, or a larger --span-tokens",
            needed.div_ceil(1 << 20),
            free >> 20
        )))
    })
}
