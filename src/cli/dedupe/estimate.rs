//! How many documents the files have, and what a run needs: for `--dry-run`, and to refuse a run for which
//! the disk is too small.
//!
//! Files are read for a time that each gets by its size. What is read to its end is counted exactly, as are
//! the rows of Parquet files. Of a plain file that is longer, parts at even distances count; of a compressed
//! one, its beginning. *Absent*: what will be dropped; all numbers are those of a run that keeps everything.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use memchr::memmem::Finder;

use super::super::Failure;
use super::DedupeArguments;
use super::folder::{parent, partial_of};
use super::inputs::{Input, Inputs};
use super::output::Sink;
use super::reader::Reader;
use super::record::{Maker, Raw};
use super::run::{fixed_bytes, memory};
use super::texts::{LINE_BYTES, stored_bytes};
use lookalike_files::{Counted, Format, Opens, Packing, columnar, shown};
use lookalike_spans::disk_bytes;
use lookalike_text::located;
use lookalike_wording::counted;

/// How long a dry run reads.
const DRY: Duration = Duration::from_secs(20);
/// How long a run reads before its work, if the disk may be too small.
const BEFORE: Duration = Duration::from_millis(300);
/// The bytes that are compressed again, to know how long the output is.
const PACKED: u64 = 32 << 20;
/// The number of parts that are read of a long file, and the bytes of each.
const PARTS: u64 = 256;
const PART: u64 = 64 << 10;
/// The bytes of the digest of an id, with the number of its record.
const DIGEST: u64 = 12;
/// The most records of a file whose ids are read.
const IDS: u64 = 1_000;
/// The bytes of the index and of the table of numbers for each kept document: for hashes of 64, 128 and 256
/// bits, and for each band of a signature (docs/performance.md).
const INDEX_BYTES: [u64; 3] = [46, 150, 360];
const BAND_BYTES: u64 = 7;

/// The bytes of a token in a file that is one text.
const TOKEN: f64 = 4.0;
/// The bytes of a note of `--annotate`.
const NOTE: f64 = 100.0;

/// The contents of files, counted or estimated.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    documents: f64,
    /// The records that were counted, and the bytes in which they are.
    counted: u64,
    read: u64,
    /// The bytes of the output.
    output: f64,
    /// The bytes of all ids.
    ids: f64,
    /// The bytes of the stored texts.
    texts: f64,
    /// The tokens of the texts.
    tokens: f64,
}

/// The part of a file that was read.
#[derive(Default)]
struct Sample {
    records: u64,
    /// Their bytes, and the places in them by which the rest of the file is counted.
    bytes: u64,
    marks: u64,
    /// The bytes that were compressed again, before and after.
    before: u64,
    after: u64,
    /// The bytes of the ids that were read, and their number.
    ids: (u64, u64),
    /// The bytes of the texts of these records as they are stored, and of the records.
    texts: (u64, u64),
    /// The tokens of these texts.
    tokens: u64,
    is_whole: bool,
}

/// Reads files within a time.
struct Estimator<'a> {
    maker: &'a Maker,
    start: Instant,
    time: Duration,
    /// The bytes of all files, and of those before the next one.
    all: u64,
    before: u64,
    /// The bytes that were compressed again.
    packed: u64,
}

impl Estimator<'_> {
    fn of(files: &[Input], maker: &Maker, time: Duration) -> Estimate {
        let all = files.iter().map(|input| input.state.bytes).sum();
        let mut own = Estimator { maker, start: Instant::now(), time, all, before: 0, packed: 0 };
        let (mut sum, mut at) = (Estimate::default(), 0);
        while let Some(first) = files.get(at) {
            // The members of an archive are read together.
            let of_archive = |input: &&Input| input.member.is_some() && input.path == first.path;
            let count = files[at..].iter().take_while(of_archive).count().max(1);
            let own = own.part(&files[at..at + count]);
            sum.documents += own.documents;
            sum.counted += own.counted;
            sum.read += own.read;
            sum.output += own.output;
            sum.ids += own.ids;
            sum.texts += own.texts;
            sum.tokens += own.tokens;
            at += count;
        }
        sum
    }

    /// The estimate for a file, or for all members of an archive.
    fn part(&mut self, files: &[Input]) -> Estimate {
        let (first, bytes) = (&files[0], files.iter().map(|input| input.state.bytes).sum::<u64>());
        self.before += bytes;
        if first.path.is_stream() {
            return Estimate::default();
        }
        let output = match first.member {
            Some(_) => of_archive(files),
            None => bytes as f64,
        };
        if first.format.is_whole() && first.packing == Packing::None && first.member.is_none() {
            let texts = if self.maker.gives_texts { output } else { 0.0 };
            let tokens = if first.format == Format::Text { output / TOKEN } else { 0.0 };
            return Estimate { documents: 1.0, counted: 1, read: bytes, output, ids: 0.0, texts, tokens };
        }
        let limit = self.time.mul_f64(self.before as f64 / self.all.max(1) as f64);
        let reader = Reader {
            inputs: files,
            from: 0,
            maker: self.maker,
            known: 0,
            threads: 1,
            passed: Arc::default(),
        };
        let sample = self.sample(&reader, first, limit);
        let passed = if sample.is_whole { bytes } else { reader.passed.load(Ordering::Relaxed).min(bytes) };
        let share = bytes as f64 / passed.max(1) as f64;
        let documents = match first.format {
            format if format.is_columnar() => columnar::count(&first.path, format).unwrap_or_default() as f64,
            _ if sample.is_whole => sample.records as f64,
            // Parts of an object are many requests.
            _ if first.is_plain_file() => {
                let marks = marks(first, &self.mark(first).0).unwrap_or_default();
                marks * sample.records as f64 / sample.marks.max(1) as f64
            }
            _ => sample.records as f64 * share,
        };
        let is_packed = first.member.is_none() && first.packing != Packing::None;
        let output = match first.format {
            format if format.is_columnar() => {
                columnar::copied_bytes(&first.path, format).map_or(output, |bytes| bytes as f64)
            }
            _ if is_packed && sample.before > 0 => {
                sample.after as f64 / sample.before as f64 * sample.bytes as f64 * share
            }
            _ => output,
        };
        let ids = sample.ids.0 as f64 / sample.ids.1.max(1) as f64 * documents;
        let counted = if first.format.is_columnar() { documents as u64 } else { sample.records };
        let read = if first.format.is_columnar() { bytes } else { passed };
        let of_bytes = |count: u64| count as f64 / sample.texts.1.max(1) as f64 * sample.bytes as f64 * share;
        let (texts, tokens) = (of_bytes(sample.texts.0), of_bytes(sample.tokens));
        Estimate { documents, counted, read, output, ids, texts, tokens }
    }

    fn sample(&mut self, reader: &Reader, first: &Input, limit: Duration) -> Sample {
        let mut sample = Sample::default();
        let (mark, own) = self.mark(first);
        let is_packed = first.packing != Packing::None && first.member.is_none();
        let (after, mut before, mut texts, mut lines) = (Arc::default(), 0, String::new(), 0);
        let mut sink = Sink::new(Counted(io::sink(), Arc::clone(&after)), first.packing);
        let stop = || Failure::new(String::new());
        let read = reader.each_raw(|raw, about| {
            let (bytes, is_record) = (bytes_of(&raw), raw.content.is_record());
            sample.records += u64::from(is_record);
            sample.bytes += bytes.len() as u64;
            sample.marks += mark.find_iter(bytes).count() as u64 + own;
            if is_packed && self.packed < PACKED {
                self.packed += bytes.len() as u64;
                before += bytes.len() as u64;
                sink.record(&raw).map_err(Failure::from)?;
            }
            if sample.ids.1 < IDS && is_record {
                let made = self.maker.make(&raw, about, true);
                sample.ids.0 += made.id.map_or(0, |id| id.len() as u64 + DIGEST);
                sample.ids.1 += 1;
                let is_line = raw.place.is_some() && first.is_plain_file();
                sample.tokens += self.maker.text(&raw, about).map_or(0, |text| located(&text).len() as u64);
                match made.text {
                    Some(_) if is_line => lines += 1,
                    text => texts.push_str(&text.unwrap_or_default()),
                }
                sample.texts.1 += bytes_of(&raw).len() as u64;
            }
            let is_in_time = !is_record || sample.records % 64 != 0 || self.start.elapsed() < limit;
            let is_enough = first.format.is_columnar() && sample.records >= IDS;
            if is_in_time && !is_enough { Ok(()) } else { Err(stop()) }
        });
        sample.is_whole = read.is_ok();
        let _ = sink.finish();
        sample.texts.0 = stored_bytes(&texts) + lines * LINE_BYTES;
        (sample.before, sample.after) = (before, after.load(Ordering::Relaxed));
        sample
    }

    /// A mark that occurs about once in each record of a plain file, and how many are outside its bytes.
    fn mark(&self, input: &Input) -> (Finder<'static>, u64) {
        let field = self.maker.content_field().0;
        let is_array = input.format == Format::Jsonl
            && input.path.open().is_ok_and(|mut read| {
                let mut start = [0; 64];
                let count = read.read(&mut start).unwrap_or_default();
                start[..count].trim_ascii_start().first() == Some(&b'[')
            });
        match input.format {
            Format::Warc => (Finder::new(b"\nWARC/1.").into_owned(), 1),
            _ if is_array => (Finder::new(format!("\"{field}\"").as_bytes()).into_owned(), 0),
            _ => (Finder::new(b"\n").into_owned(), 1),
        }
    }
}

/// The marks in a plain file, estimated from parts of it at even distances.
fn marks(input: &Input, mark: &Finder) -> io::Result<f64> {
    let (file, size) = (input.path.chunks()?, input.state.bytes);
    let (mut found, mut read, mut bytes) = (0, 0, Vec::new());
    for part in 0..PARTS {
        let at = size.saturating_sub(PART) * part / (PARTS - 1);
        bytes.clear();
        read += file.from(at).take(PART).read_to_end(&mut bytes)?;
        found += mark.find_iter(&bytes).count();
    }
    Ok(found as f64 / read.max(1) as f64 * size as f64)
}

/// The bytes of a record in its file.
fn bytes_of(raw: &Raw) -> &[u8] {
    raw.original.as_deref().unwrap_or_else(|| raw.content.bytes())
}

/// The size of an archive with these members: each has a header, and begins at a multiple of 512 bytes. A
/// compressed one has about the size of its original.
fn of_archive(members: &[Input]) -> f64 {
    let first = &members[0];
    if Packing::named(&first.path) != Packing::None {
        return first.path.state().bytes as f64;
    }
    members.iter().map(|input| 512 + input.state.bytes.next_multiple_of(512)).sum::<u64>() as f64 + 1024.0
}

struct Needs {
    of_inputs: Estimate,
    memory: u64,
    output: u64,
    working: u64,
    /// The most that `--spans` may need besides.
    spans: u64,
}

impl Needs {
    fn of(
        arguments: &DedupeArguments,
        inputs: &Inputs,
        against: &Inputs,
        maker: &Maker,
        time: Duration,
    ) -> Needs {
        let of_inputs = Estimator::of(&inputs.files, maker, time);
        let of_against = Estimator::of(&against.files, maker, time);
        let documents = of_inputs.documents + of_against.documents;
        let sizes = maker.sizes;
        let index = match (maker.profile.signatures(), sizes.hash) {
            (Some(shape), _) => u64::from(shape.bands) * BAND_BYTES,
            (None, 8) => INDEX_BYTES[0],
            (None, 16) => INDEX_BYTES[1],
            (None, _) => INDEX_BYTES[2],
        };
        let compared = if sizes.signature > 0 { sizes.signature } else { sizes.hash };
        // A kept document has a name of four bytes.
        let held = documents * ((compared + sizes.sketch + 4) as u64 + index) as f64;
        let of_order = documents * fixed_bytes(arguments) as f64;
        let is_streamed = arguments.is_streamed() && held <= memory(arguments) as f64;
        let memory = if is_streamed { held } else { (of_order + held).min(memory(arguments) as f64) };
        let notes = if arguments.about.annotate { of_inputs.documents * NOTE } else { 0.0 };
        // The print, the name, and where the name ends.
        let of_names = documents * (sizes.record() + 13 + 8) as f64 + of_inputs.ids + of_against.ids;
        let spans = match arguments.spans.spans {
            Some(_) => disk_bytes(of_inputs.tokens, arguments.spans.span_tokens.into()),
            None => (0.0, 0.0),
        };
        let working = of_names + of_inputs.texts + of_against.texts + spans.0;
        let manifest = serde_json::to_string(&inputs.states()).map_or(0, |text| text.len());
        Needs {
            of_inputs,
            memory: memory as u64,
            output: (of_inputs.output + notes) as u64,
            working: working as u64 + manifest as u64,
            spans: spans.1 as u64,
        }
    }
}

/// Prints the estimate.
pub(super) fn print(
    arguments: &DedupeArguments,
    inputs: &Inputs,
    against: &Inputs,
    maker: &Maker,
) -> Result<(), Failure> {
    let Needs { of_inputs, memory, output, working, spans } =
        Needs::of(arguments, inputs, against, maker, DRY);
    let (documents, bytes) = (of_inputs.documents.round() as u64, inputs.bytes());
    let from = if of_inputs.read >= bytes {
        "counted".to_owned()
    } else {
        let share = of_inputs.read as f64 * 100.0 / bytes.max(1) as f64;
        format!("estimated from {} and {share:.1} % of the bytes", of_inputs.counted)
    };
    let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    // The nouns are labels of a column of numbers, and stay in the plural.
    let mut text = vec![
        format!("{:>12}  files, {}", inputs.files.len(), counted(bytes, "byte")),
        format!("{documents:>12}  documents, {from}"),
        format!("{:>12}  MiB of memory if all are kept", mebibytes(memory)),
        format!("{:>12}  MiB of disk space if all are kept:", mebibytes(output + working)),
        format!("{:>12}  MiB of output", mebibytes(output)),
        format!("{:>12}  MiB of working files during the run", mebibytes(working)),
    ];
    if arguments.spans.spans.is_some() {
        text.push(format!("{:>12}  MiB more if each passage stands twice", mebibytes(spans)));
    }
    Ok(io::stdout().write_all((text.join("\n") + "\n").as_bytes())?)
}

/// The free bytes of the disk with a folder, if it says so.
pub(super) fn free_bytes(folder: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(folder).ok()?;
    Some(about.f_bavail * about.f_frsize)
}

/// Why the free space of the disk is too small for a run.
pub(super) fn problem(
    arguments: &DedupeArguments,
    inputs: &Inputs,
    against: &Inputs,
    maker: &Maker,
) -> Option<String> {
    let folder = parent(&arguments.output);
    let free = free_bytes(folder)?;
    // The working files of small documents are several times as large as these.
    if free / 16 > inputs.bytes() + against.bytes() + (1 << 20) {
        return None;
    }
    let needs = Needs::of(arguments, inputs, against, maker, BEFORE);
    // The files of an interrupted run are used again, or replaced.
    let left: u64 = std::fs::read_dir(partial_of(&arguments.output))
        .map(|entries| {
            entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|about| about.len()).sum()
        })
        .unwrap_or_default();
    let (needed, free) = (needs.output + needs.working, free + left);
    (needed > free).then(|| {
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        format!(
            "{}: about {} MiB are needed if nothing is dropped ({} of output, {} of working files), and \
             {} MiB are free: name an --output on a larger disk",
            shown(folder),
            mebibytes(needed),
            mebibytes(needs.output),
            mebibytes(needs.working),
            free >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use lookalike_dedupe::Keep;
    use lookalike_text::fingerprint::Profile;

    fn maker() -> Maker {
        let profile = Profile::named("copies-64").unwrap();
        Maker {
            profile,
            keep: Keep::FIRST,
            text_field: "text".to_owned(),
            id_field: "id".to_owned(),
            needs_id: false,
            is_annotated: false,
            source_field: None,
            hash_field: None,
            image_field: None,
            min_quality: 0,
            hash_form: None,
            is_page: false,
            page: lookalike_text::PageText::Main,
            charset: None,
            is_exported: false,
            sizes: Maker::sizes(profile, false),
            weights: None,
            gives_texts: false,
            bench: None,
        }
    }

    /// Without time only the first records are read, and parts of plain files.
    #[test]
    fn files_that_are_sorted_by_length_are_estimated_from_parts() {
        const COUNT: usize = 30_000;
        let folder = tempfile::tempdir().unwrap();
        let text = |number: usize| "words ".repeat(5 + number / 100);
        let write = |name: &str, record: &dyn Fn(usize) -> String, around: [&str; 2]| -> PathBuf {
            let records: String = (0..COUNT).map(record).collect();
            let path = folder.path().join(name);
            fs::write(&path, format!("{}{}{}", around[0], records, around[1])).unwrap();
            path
        };
        let json = |number| format!("{{\"id\": {number}, \"text\": \"{}\"}}", text(number));
        let paths = [
            write("a.jsonl", &|number| json(number) + "\n", ["", ""]),
            write("a.json", &|number| json(number) + ",\n", ["[", "{\"text\": \"last\"}]"]),
            write(
                "a.csv",
                &|number| format!("{number},\"{}\n{}\"\n", number, text(number)),
                ["id,text\n", ""],
            ),
            write(
                "a.wet",
                &|number| {
                    let text = text(number);
                    format!(
                        "WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {}\r\n\r\n{text}\r\n\r\n",
                        text.len()
                    )
                },
                ["", ""],
            ),
        ];
        for path in paths {
            let inputs = Inputs::of(std::slice::from_ref(&path), None, false);
            for (time, most) in [(Duration::ZERO, 0.02), (Duration::from_mins(10), 0.0001)] {
                let found = Estimator::of(&inputs.files, &maker(), time).documents / COUNT as f64;
                assert!((found - 1.0).abs() < most, "{}: {found}", path.display());
            }
        }
    }
}
