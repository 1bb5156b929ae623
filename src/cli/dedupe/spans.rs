//! The options for passages that stand in the corpus before: what becomes of them (ADR 68).

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::DedupeArguments;
use super::dropped::Shown;
use super::inputs::Inputs;
use lookalike_files::{Format, columnar};
use lookalike_wording::counted;

#[derive(Debug, Args)]
pub(super) struct SpanOptions {
    /// Passages of kept documents that stand in kept documents before, or in the same one: remove takes them
    /// out, mask writes [...] in their place
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(super) spans: Option<What>,
    /// The length of such a passage: words of scripts with spaces, characters of others
    #[arg(long, value_name = "N", default_value = "50", requires = "spans",
          value_parser = clap::value_parser!(u16).range(20..=1_000))]
    pub(super) span_tokens: u16,
    /// File for these passages: one JSON object per line for each document, with the places of the passages
    /// and the documents where they stand first
    #[arg(long, value_name = "FILE", requires = "spans")]
    pub(super) spans_file: Option<PathBuf>,
}

/// What becomes of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum What {
    Remove,
    Mask,
}

/// Why these options cannot be used with the others, or with these files.
pub(super) fn problems(arguments: &DedupeArguments, inputs: &Inputs) -> Vec<String> {
    if arguments.spans.spans.is_none() {
        return Vec::new();
    }
    let field = &arguments.read.text_field;
    let refusals = [
        (arguments.about.annotate, "--spans changes texts, and --annotate changes none: name one of them"),
        (arguments.hash_field.is_some(), "--spans needs texts, and --hash-field does not read them"),
        (arguments.read.html, "--spans changes no pages: extract their texts first, and leave out --html"),
    ];
    let refusals = refusals.into_iter().filter(|(is_given, _)| *is_given);
    let mut problems: Vec<String> = refusals.map(|(_, why)| why.to_owned()).collect();
    if field.contains("[]") {
        problems.push(format!(
            "--spans changes one text of a record, and --text-field {field} has several: write a record for \
             each"
        ));
    }
    for input in &inputs.files {
        let shown = &input.shown;
        if input.format == Format::Warc {
            problems.push(format!(
                "{shown}: --spans changes no web archives: extract their texts into JSON lines first"
            ));
        } else if input.format.is_columnar()
            && let Err(error) = columnar::check_replaced(&input.path, input.format, field)
        {
            problems.push(format!("{shown}: {error}, and --spans changes no others: --text-field names one"));
        }
    }
    problems
}

/// A line of `--spans-file`.
#[derive(Serialize)]
pub(super) struct SpansLine<'a> {
    #[serde(flatten)]
    pub(super) own: Shown<'a>,
    pub(super) spans: Vec<Span<'a>>,
    /// The tokens that stay.
    pub(super) tokens_left: usize,
}

/// A passage in the text that was read.
#[derive(Serialize)]
pub(super) struct Span<'a> {
    /// Its first character, and the one behind it.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) tokens: usize,
    /// Where its beginning stands first.
    pub(super) first: Shown<'a>,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) spans: u64,
    pub(super) tokens: u64,
    pub(super) characters: u64,
    pub(super) documents: u64,
    /// Documents of which nothing is left.
    pub(super) empty: u64,
    /// Documents whose records could not be changed.
    pub(super) unchanged: u64,
}

impl Counts {
    /// A line for the summary.
    pub(super) fn line(&self, what: What) -> String {
        let done = if what == What::Remove { "removed" } else { "masked" };
        let [spans, tokens, characters] = [
            counted(self.spans, "passage"),
            counted(self.tokens, "token"),
            counted(self.characters, "character"),
        ];
        let mut line = format!(
            "spans: {spans} {done} ({tokens}, {characters}) in {}",
            counted(self.documents, "document")
        );
        if self.empty > 0 {
            let _ = write!(line, "; nothing is left of {}", counted(self.empty, "document"));
        }
        if self.unchanged > 0 {
            let _ = write!(line, "; left as they are in {}", counted(self.unchanged, "document"));
        }
        line
    }
}
