//! The options for evaluation sets, of which no document may contain an item, and their files (ADR 68).

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use serde_json::Value as Json;

use super::super::{Failure, tell};
use super::DedupeArguments;
use super::about::share;
use super::dropped::Shown;
use super::inputs::{Input, Inputs};
use lookalike_files::{Cut, Event, Fields, How, Places, Said, Unread, Value, Wants, broken, unpacked};
use lookalike_spans::{Bench, LEAST_TOKENS};
use lookalike_wording::counted;

/// The most characters of a passage that are written.
const PASSAGE: usize = 300;
/// The name of the field that has the id of an item.
const ID: &str = "id";

#[derive(Debug, Args)]
pub(super) struct BenchOptions {
    /// Also drop documents that contain items of this evaluation set, a file or folder with a record for each
    /// item; may be given several times
    #[arg(long, value_name = "BENCH")]
    pub(super) decontaminate: Vec<PathBuf>,
    /// Field or column with the text of an item, such as question; may be given several times. By default all
    /// strings of a record
    #[arg(long, value_name = "FIELD", requires = "decontaminate")]
    decontaminate_field: Vec<String>,
    /// The least share of the runs of 13 tokens of an item that a document has which contains it, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.8", requires = "decontaminate",
          value_parser = share)]
    decontaminate_share: f64,
    /// File for the documents that contain items: one JSON object per line, with the item and the passage
    #[arg(long, value_name = "FILE", requires = "decontaminate")]
    pub(super) contaminated: Option<PathBuf>,
}

/// Why these options cannot be used with the others.
pub(super) fn problems(arguments: &DedupeArguments) -> Vec<String> {
    if arguments.bench.decontaminate.is_empty() {
        return Vec::new();
    }
    let refusals = [
        (arguments.about.annotate, "--decontaminate drops documents, and --annotate none: name one of them"),
        (arguments.hash_field.is_some(), "--decontaminate needs texts, and --hash-field does not read them"),
        (
            arguments.bench.decontaminate_share <= 0.0,
            "--decontaminate-share 0 would drop every document: name a share above 0, such as 0.8",
        ),
    ];
    refusals.into_iter().filter(|(is_given, _)| *is_given).map(|(_, why)| why.to_owned()).collect()
}

/// The items of all evaluation sets.
#[derive(Debug)]
pub(super) struct Items {
    bench: Bench,
    /// The file, the line and the id of each.
    names: Vec<(u32, u64, Option<String>)>,
    files: Vec<String>,
}

impl Items {
    /// The name of an item, for the user.
    pub(super) fn shown(&self, item: u32) -> Shown<'_> {
        let (file, line, id) = &self.names[item as usize];
        Shown { id: id.clone(), file: &self.files[*file as usize], line: *line }
    }
}

/// The item of which a text contains most.
#[derive(Clone, Debug)]
pub(super) struct InText {
    pub(super) item: u32,
    share: f64,
    items: usize,
    passage: String,
}

impl InText {
    pub(super) fn of(items: &Items, text: &str) -> Option<InText> {
        let found = items.bench.find(text)?;
        let passage = text[found.passage].chars().take(PASSAGE).collect();
        Some(InText { item: found.item, share: found.share, items: found.items, passage })
    }
}

/// A line of `--contaminated`.
#[derive(Serialize)]
pub(super) struct ContaminatedLine<'a> {
    #[serde(flatten)]
    own: Shown<'a>,
    item: Shown<'a>,
    /// The share of its runs of tokens in the document.
    share: f64,
    /// The number of items that the document contains.
    items: usize,
    passage: &'a str,
}

impl<'a> ContaminatedLine<'a> {
    pub(super) fn of(own: Shown<'a>, item: Shown<'a>, of: &'a InText) -> ContaminatedLine<'a> {
        ContaminatedLine { own, item, share: of.share, items: of.items, passage: &of.passage }
    }
}

impl BenchOptions {
    /// The items, if there are any evaluation sets; a line names those that are too short.
    ///
    /// # Errors
    /// If a file cannot be read, or has a record without these fields.
    pub(super) fn read(&self) -> Result<Option<Arc<Items>>, Failure> {
        if self.decontaminate.is_empty() {
            return Ok(None);
        }
        let inputs = Inputs::of(&self.decontaminate, None, false);
        if !inputs.problems.is_empty() {
            return Err(lookalike_files::Failure::all(&inputs.problems).into());
        }
        let files = inputs.files.iter().map(|input| input.shown.clone()).collect();
        let mut items = Items { bench: Bench::new(self.decontaminate_share), names: Vec::new(), files };
        let mut short = Vec::new();
        for (number, input) in (0..).zip(&inputs.files) {
            self.read_file(number, input, &mut items, &mut short)?;
        }
        if items.bench.is_empty() {
            return Err(Failure::new("--decontaminate: there is no item in these files"));
        }
        if let Some(first) = short.first() {
            tell(&format!(
                "--decontaminate: {} of {} with fewer than {LEAST_TOKENS} tokens cannot be found, the first \
                 of them {}",
                short.len(),
                counted(items.bench.len() as u64, "item"),
                items.shown(*first)
            ));
        }
        Ok(Some(Arc::new(items)))
    }

    fn read_file(
        &self,
        number: u32,
        input: &Input,
        items: &mut Items,
        short: &mut Vec<u32>,
    ) -> Result<(), Failure> {
        if input.member.is_some() {
            let shown = &input.shown;
            return Err(Failure::new(format!(
                "--decontaminate {shown}: extract the archive, and name its files"
            )));
        }
        let (mut line, mut failure) = (0, None);
        let mut each = |event: Event<'_>| {
            let Event::Record(raw, about) = event else { return true };
            if !raw.content.is_record() || raw.content.is_blank() {
                return true;
            }
            match raw.said(about, self.how()).and_then(|said| self.strings(&said)) {
                Ok((strings, id)) => {
                    let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
                    items.names.push((number, raw.line, id));
                    if !items.bench.add(&strings) {
                        short.push(items.names.len() as u32 - 1);
                    }
                }
                Err(unread) if unread.reason.is_passed_over() => {}
                Err(unread) => {
                    failure =
                        Some(format!("--decontaminate {}:{}: {}", input.shown, raw.line, unread.detail));
                }
            }
            failure.is_none()
        };
        let mut cut =
            Cut { file: number, format: input.format, wants: self, line: &mut line, each: &mut each };
        let read = if input.format.is_columnar() {
            cut.rows(&input.path)
        } else {
            unpacked(&input.path, &Arc::default()).and_then(|read| cut.records((read, Places::default())))
        };
        let broken = |error| format!("--decontaminate {}: {}", input.shown, broken(&error, line));
        failure.or(read.err().map(broken)).map_or(Ok(()), |why| Err(Failure::new(why)))
    }

    /// The strings of an item, and its id.
    fn strings(&self, said: &Said<'_>) -> Result<(Vec<String>, Option<String>), Unread> {
        let fields = match said {
            Said::Fields(fields) => fields,
            Said::Text(text) | Said::Capture(_, _, text) => return Ok((vec![text.text.to_string()], None)),
            Said::Image(_) | Said::Nothing => return Ok((Vec::new(), None)),
        };
        let mut strings = Vec::new();
        let named = self.decontaminate_field.iter().filter_map(|name| fields.get(name));
        named.for_each(|value| add_strings(value, &mut strings));
        let first = self.decontaminate_field.first();
        match first.filter(|_| strings.is_empty()) {
            Some(name) => _ = fields.needed(name, "--decontaminate-field")?,
            None if first.is_none() => {
                fields.all.iter().for_each(|(_, value)| add_strings(*value, &mut strings));
            }
            None => {}
        }
        Ok((strings, fields.get(ID).filter(|id| !id.is_null()).map(Value::plain)))
    }
}

/// Adds all strings in a value.
fn add_strings(value: Value<'_>, strings: &mut Vec<String>) {
    fn add(json: Json, strings: &mut Vec<String>) {
        match json {
            Json::String(text) => strings.push(text),
            Json::Array(all) => all.into_iter().for_each(|one| add(one, strings)),
            Json::Object(all) => all.into_iter().for_each(|(_, one)| add(one, strings)),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
    match value {
        Value::Text(text) => strings.push(text.to_owned()),
        Value::Json(json) => add(serde_json::from_str(json).unwrap_or_default(), strings),
        Value::Null | Value::Column => {}
    }
}

impl Wants for BenchOptions {
    fn how(&self) -> How {
        How { charset: None, delimiter: None, is_page: false, block: 1 << 16, keeps_originals: false }
    }

    fn columns(&self, row: &Fields<'_>) -> Result<Vec<String>, Unread> {
        let named = self.decontaminate_field.iter().filter(|name| row.get(name).is_some());
        let mut names: Vec<String> = named.cloned().collect();
        match self.decontaminate_field.first() {
            Some(first) if names.is_empty() => _ = row.needed(first, "--decontaminate-field")?,
            Some(_) => names.extend(row.get(ID).map(|_| ID.to_owned())),
            None => names = row.names().map(str::to_owned).collect(),
        }
        Ok(names)
    }

    fn header(&self, _: &[u8]) -> Option<Result<(), String>> {
        None
    }
}
