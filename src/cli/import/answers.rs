//! The answers of the server: each is matched with its record, counted, shown if it is an error, and
//! reported.
//!
//! Without `--report`, an answer lists at most about fifty errors and the first of each further code. A line
//! before an answered one that has no answer of its own was refused, and its error is not listed. Records
//! that became no line are counted when all records before them are answered, so that a run that goes on
//! counts each once.

use indicatif::ProgressBar;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::Failure;
use super::progress::Saved;
use super::queue::{Item, Queue, What};
use super::report::{Report, Reported};
use lookalike_client::Refusal;
use lookalike_files::{Reason, Tally, Unread};
use lookalike_http::CharsetOut;
use lookalike_wording::counted;

/// Bad lines that are printed, of the files and of the server each, and files that are passed over; further
/// ones are only counted.
const SHOWN: u64 = 20;
/// The code and the message of an error that the answer does not list.
const UNLISTED: (&str, &str) =
    ("unlisted", "the answer lists the first 40 errors and the first of each further code; --report has all");

/// A line of the answer.
#[derive(Deserialize)]
pub(super) struct Answer {
    pub(super) index: Option<u64>,
    id: Option<String>,
    outcome: Option<String>,
    pub(super) error: Option<Refusal>,
    /// `short` if the fingerprint of the document is not reliable.
    status: Option<String>,
    /// Whether the text is too short to be found by its passages, which the collection keeps.
    #[serde(default)]
    without_passages: bool,
    /// `visible` if that text of a page was used.
    page: Option<String>,
    similar: Option<Box<RawValue>>,
    pub(super) summary: Option<Summary>,
}

/// The part of the summary that the results do not have: an answer does not list every error.
#[derive(Deserialize)]
pub(super) struct Summary {
    pub(super) errors: u64,
}

/// The outcomes of records.
#[derive(Debug, Default)]
struct Counts {
    created: u64,
    updated: u64,
    duplicates: u64,
    /// Documents that stored ones contain.
    contained: u64,
    /// Documents with short texts among these.
    short: u64,
    /// Documents among these that are too short for passages.
    without_passages: u64,
    /// Texts and pages whose charset was guessed, and in which bytes were replaced.
    guessed: u64,
    replaced: u64,
    /// Pages that were read by their visible text.
    visible: u64,
    /// Lines that the server refused.
    refused: u64,
    /// Bad records, which were not sent.
    bad: u64,
    /// Files that could not be read to their end.
    cut: u64,
    /// Why records were not sent.
    unread: Tally,
    /// Files in archives that were passed over.
    files: u64,
}

/// The answers of a run, counted and reported.
pub(super) struct Answers {
    saved: Saved,
    report: Option<Report>,
    counts: Counts,
    bar: ProgressBar,
    /// The place of the last answered record.
    last: Option<(std::sync::Arc<str>, u64)>,
}

impl Answers {
    pub(super) fn new(saved: Saved, report: Option<Report>, bar: ProgressBar) -> Answers {
        Answers { saved, report, counts: Counts::default(), bar, last: None }
    }

    /// Takes the answer to the line with this place in the request.
    ///
    /// # Errors
    /// [`Failure`] if no such line was sent, or the report cannot be written.
    pub(super) fn take(&mut self, queue: &Queue, index: u64, answer: &Answer) -> Result<(), Failure> {
        self.pass(queue, index)?;
        let item = queue.pop_before(index + 1).filter(|item| matches!(item.what, What::Sent { .. }));
        let item = item.ok_or_else(|| {
            Failure::new("the server's answer cannot be matched: it names a line that was not sent, or twice")
        })?;
        self.settle(item, Some(answer))
    }

    /// Takes the records before this place in the request that have no answer.
    ///
    /// # Errors
    /// [`Failure`] if the report cannot be written.
    pub(super) fn pass(&mut self, queue: &Queue, end: u64) -> Result<(), Failure> {
        while let Some(item) = queue.pop_before(end) {
            self.settle(item, None)?;
        }
        Ok(())
    }

    /// The lines that the server refused, listed or not.
    pub(super) fn refused(&self) -> u64 {
        self.counts.refused
    }

    /// Saves the progress, and before it what was reported about it.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        if let Some(report) = &mut self.report {
            self.saved.progress.reported = report.flush()?;
        }
        self.saved.save();
        Ok(())
    }

    /// How to go on after the run was cut.
    pub(super) fn remedy(&self) -> String {
        let lines = self.saved.progress.lines;
        let place = self.last.as_ref().map(|(file, line)| format!(" ({file}:{line})")).unwrap_or_default();
        let how = if self.saved.is_kept() {
            "run the same command again to continue".to_owned()
        } else {
            format!("the same command with --skip {lines} continues")
        };
        format!("after line {lines}{place}; {how}")
    }

    pub(super) fn show_progress(&self) {
        let Counts { created, updated, duplicates, contained, .. } = &self.counts;
        let done = created + updated + duplicates + contained;
        let rate = done as f64 / self.bar.elapsed().as_secs_f64().max(0.001);
        self.bar.set_message(format!("{}, {rate:.0}/s", counted(done, "document")));
    }

    fn settle(&mut self, item: Item, answer: Option<&Answer>) -> Result<(), Failure> {
        let Item { number, file, line, passed, what } = item;
        self.bar.set_position(passed);
        self.saved.progress.lines = number;
        let place = Reported {
            file: &file,
            line,
            id: None,
            outcome: "",
            status: None,
            charset: None,
            code: None,
            detail: None,
            similar: None,
        };
        match &what {
            What::Sent { id, is_mapped, charset, .. } => {
                let place = Reported { id: id.as_deref(), charset: charset.map(CharsetOut::from), ..place };
                self.counts.guessed += u64::from(charset.is_some_and(|charset| charset.is_guessed));
                self.counts.replaced += u64::from(charset.is_some_and(|charset| charset.replaced > 0));
                self.answered(place, answer, *is_mapped)?;
            }
            What::Unread(Unread { reason, detail }) => {
                let is_cut = *reason == Reason::Cut;
                let (outcome, code) = if reason.is_passed_over() {
                    ("skipped", None)
                } else {
                    (if is_cut { "cut" } else { "invalid" }, Some("unreadable"))
                };
                let is_bad = code.is_some() && !is_cut;
                (self.counts.bad, self.counts.cut) =
                    (self.counts.bad + u64::from(is_bad), self.counts.cut + u64::from(is_cut));
                if !is_cut {
                    self.counts.unread.add(*reason);
                }
                if is_cut || (is_bad && self.counts.bad <= SHOWN) {
                    self.bar.suspend(|| eprintln!("{file}:{line}: {detail}"));
                }
                let is_file = matches!(reason, Reason::Skipped(skipped) if skipped.is_of_file());
                self.counts.files += u64::from(is_file);
                if is_file && self.counts.files <= SHOWN {
                    self.bar.suspend(|| eprintln!("{file}: passed over, {detail}"));
                }
                self.write(&Reported { outcome, code, detail: Some(detail), ..place })?;
            }
        }
        self.last = Some((file, line));
        Ok(())
    }

    /// Counts, shows and reports the answer to a line; `None` if it was refused with an error that is not
    /// listed.
    fn answered(
        &mut self,
        place: Reported<'_>,
        answer: Option<&Answer>,
        is_mapped: bool,
    ) -> Result<(), Failure> {
        let error = answer.and_then(|answer| answer.error.as_ref());
        let (Some(answer), None) = (answer, error) else {
            self.counts.refused += 1;
            let (code, detail) = error.map_or(UNLISTED, |error| (&error.code, &error.detail));
            let remedy = if is_mapped && detail.starts_with("metadata ") {
                "; --metadata lists the fields that are stored, --metadata none leaves all out"
            } else {
                ""
            };
            let detail = format!("{detail}{remedy}");
            if self.counts.refused <= SHOWN {
                let Reported { file, line, .. } = place;
                self.bar.suspend(|| eprintln!("{file}:{line}: {code}: {detail}"));
            }
            return self.write(&Reported {
                outcome: "invalid",
                code: Some(code),
                detail: Some(&detail),
                ..place
            });
        };
        let outcome = answer.outcome.as_deref().unwrap_or_default();
        let status = answer.status.as_deref().filter(|status| *status == "short");
        self.counts.short += u64::from(status.is_some());
        self.counts.without_passages += u64::from(answer.without_passages);
        self.counts.visible += u64::from(answer.page.as_deref() == Some("visible"));
        match outcome {
            "created" => self.counts.created += 1,
            "updated" => self.counts.updated += 1,
            "contained_in" => self.counts.contained += 1,
            _ => self.counts.duplicates += 1,
        }
        if outcome == "created" && status.is_none() && place.charset.is_none() {
            return Ok(());
        }
        let is_stored = !matches!(outcome, "duplicate" | "contained_in");
        let id = answer.id.as_deref().filter(|_| is_stored).or(place.id);
        self.write(&Reported { id, outcome, status, similar: answer.similar.as_deref(), ..place })
    }

    fn write(&mut self, line: &Reported) -> Result<(), Failure> {
        self.report.as_mut().map_or(Ok(()), |report| report.write(line))
    }

    /// Prints the totals of a run, complete or not.
    pub(super) fn sum_up(&self) {
        let Counts {
            created,
            updated,
            duplicates,
            contained,
            short,
            without_passages,
            guessed,
            replaced,
            visible,
            refused,
            bad,
            cut,
            ..
        } = &self.counts;
        let unread = &self.counts.unread;
        let bad = refused + bad;
        let cut = match *cut {
            0 => "",
            files => &format!(", {} not read to the end", counted(files, "file")),
        };
        let contained = match contained {
            0 => String::new(),
            contained => format!("{contained} contained in others left out, "),
        };
        eprintln!(
            "{created} created, {updated} updated, {} left out, {contained}{}{cut}",
            counted(*duplicates, "duplicate"),
            counted(bad, "bad line")
        );
        if *short > 0 {
            let short = counted(*short, "short text");
            eprintln!("{short}: a changed word may move the hash beyond k");
        }
        if *without_passages > 0 {
            eprintln!("{} too short to be found by its passages", counted(*without_passages, "text"));
        }
        if *visible > 0 {
            eprintln!("{} compared by all visible text", counted(*visible, "page"));
        }
        if *guessed > 0 {
            let guessed = counted(*guessed, "text");
            eprintln!("{guessed} of a guessed charset; --charset names the charset of files");
        }
        if *replaced > 0 {
            let replaced = counted(*replaced, "text");
            eprintln!("{replaced} with bytes invalid in the charset, replaced by U+FFFD");
        }
        unread.sentences().for_each(|sentence| eprintln!("{sentence}"));
    }

    /// Ends a complete run. Says whether every record was imported, or why not.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.report.as_mut().map_or(Ok(0), Report::flush)?;
        self.saved.forget();
        let Counts { refused, bad, cut, .. } = &self.counts;
        match (refused + bad, cut) {
            (0, 0) => Ok(()),
            (0, _) => Err(Failure::new("not every file was read to its end")),
            (bad, _) => Err(Failure::new(format!("not imported: {}", counted(bad, "line")))),
        }
    }
}
