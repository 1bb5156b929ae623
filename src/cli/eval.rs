//! `lookalike eval`: measures what profiles find, and at what cost, on labelled texts or on edited copies
//! of the user's texts.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::Failure;
use crate::eval::{
    ALIKE, Assumed, Banded, CANDIDATES, CERTAIN, Candidate, Checked, Labels, Measured, MeasuredSigned, Pair,
    Set, Split, banded, candidate_ks, containment_table, distinct_sentences, dropped_table, halves,
    halves_table, measure, measure_signed, promised_table, recommended_text, report, second_check,
    set_aside_copies, signed_table, svg, table_by_length, with_edits, with_one_word_replaced, with_pages,
};
use crate::fingerprint::{Banding, MinHash, Profile, Profiles, check_takes_texts};
use crate::machine::thread_time;
use crate::profiles;
use crate::text::{PageText, main_text, visible_text};
use crate::wording::{counted, plain};

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command")]
pub(super) struct EvalArguments {
    /// Folders with docs.jsonl(.gz) and pairs.tsv or similarity.tsv; with --edits or --pages, also files of
    /// documents
    #[arg(required = true, value_name = "SET")]
    pub(super) sets: Vec<PathBuf>,
    /// Profiles to measure; by default the newest version of each that finds copies with hashes of 64 or
    /// 128 bits
    #[arg(long, short, value_name = "PROFILE")]
    pub(super) profile: Vec<String>,
    /// TOML file that defines your own profiles
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
    /// Make one edited copy of each text instead of reading labels
    #[arg(long)]
    edits: bool,
    /// Put each text into pages of two web sites instead of reading labels, and use this part of each page
    #[arg(long, value_name = "WHAT", conflicts_with = "edits")]
    pages: Option<OfPage>,
    /// Put each of at most 1,000 texts into pages of other texts, and report by its share of the page
    /// whether it is found
    #[arg(long, conflicts_with_all = ["edits", "pages", "profile", "check", "minhash", "svg"])]
    containment: bool,
    /// Measure the main text of pages in folders with ground-truth.json and html/NAME.html(.gz)
    #[arg(long, conflicts_with_all = ["edits", "pages", "containment", "profile", "check", "minhash", "svg"])]
    main_text: bool,
    /// Report how many of the documents that `dedupe` drops from the sets are copies, and how many of the
    /// copies it drops
    #[arg(long, conflicts_with_all = ["edits", "pages", "containment", "main_text", "check", "minhash"])]
    dropped: bool,
    /// Split each labelled set this many times into halves, calibrate on the texts of one half, and measure
    /// the other half by its labels; by default with the profiles among which a calibration chooses
    #[arg(long, value_name = "N", conflicts_with_all = ["edits", "pages", "containment", "check", "svg"])]
    halves: Option<u64>,
    /// Make an edited copy of each text with each kind of edit, and report the recall of each kind
    #[arg(long, conflicts_with_all = ["edits", "pages", "containment", "check", "minhash", "svg"])]
    kinds: bool,
    /// With --edits or --halves, the share of the documents that are assumed to have a copy
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    duplicate_share: f64,
    /// With --edits, replace one word of each text (one character where words are not separated) instead of
    /// the edits of several kinds
    #[arg(long, requires = "edits")]
    one_word: bool,
    /// Report by the number of words of a text whether a copy with one word replaced is found, and what the
    /// fingerprint predicts; with --check also what a second check leaves of the pairs within a larger k
    #[arg(long, conflicts_with_all = ["edits", "pages", "containment", "minhash", "svg"])]
    lengths: bool,
    /// With --edits or --pages, use each distinct sentence as a text, to measure short texts
    #[arg(long)]
    sentences: bool,
    /// Seed for edits and pages
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Maximum number of texts from each set
    #[arg(long, default_value_t = 50_000)]
    pub(super) texts: usize,
    /// Number of documents for which a profile and k are recommended [default: 1000000, or with --halves
    /// that of the other half]
    #[arg(long)]
    documents: Option<u64>,
    /// Also measure the second check, on candidates within 11 and 15 of 64 bits or 23 and 31 of 128
    #[arg(long)]
    check: bool,
    /// Profile whose features the second check compares
    #[arg(long, value_name = "PROFILE", default_value = "pairs-64")]
    check_by: String,
    /// Also measure MinHash
    #[arg(long)]
    minhash: bool,
    /// Set whose marked pairs have a common origin but need not be similar: similarity.tsv decides there
    #[arg(long, value_name = "SET")]
    revisions: Vec<String>,
    /// SVG file for the curves
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The text of a page that is used.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum OfPage {
    /// The main text, as the server extracts it
    Main,
    /// All visible text
    Visible,
}

impl From<OfPage> for PageText {
    fn from(page: OfPage) -> PageText {
        match page {
            OfPage::Main => PageText::Main,
            OfPage::Visible => PageText::Visible,
        }
    }
}

/// A document. Other fields of the line are ignored.
#[derive(Deserialize)]
struct Document {
    id: String,
    text: String,
}

pub(super) fn run(arguments: &EvalArguments) -> Result<(), Failure> {
    if arguments.containment {
        return containment(arguments);
    }
    if arguments.main_text {
        return arguments.sets.iter().try_for_each(|folder| super::main_text::run(folder));
    }
    let known = profiles::load(arguments.profiles.as_deref()).map_err(|error| Failure::of(&error, 78))?;
    if !(arguments.duplicate_share > 0.0 && arguments.duplicate_share <= 1.0) {
        return Err(Failure::new("--duplicate-share is a share above 0 and at most 1".to_owned()));
    }
    if arguments.kinds {
        return super::eval_kinds::run(known, arguments);
    }
    if let Some(splits) = arguments.halves {
        return split(known, arguments, splits);
    }
    let (signed, profiles) = wanted(known, arguments)?;
    let by = named(known, &arguments.check_by)?;
    if arguments.lengths {
        return by_length(arguments, &profiles, by);
    }
    let names: Vec<String> = arguments.sets.iter().map(|path| name_of(path)).collect();
    if let Some(other) = arguments.revisions.iter().find(|name| !names.contains(name)) {
        let detail = format!("--revisions {other:?} is not one of the sets, which are {}", names.join(", "));
        return Err(Failure::new(detail));
    }
    let sets: Vec<Set> =
        arguments.sets.iter().map(|path| read_set(path, by, arguments)).collect::<Result<_, _>>()?;
    if arguments.dropped {
        let profiles: Chosen = profiles.into_iter().chain(signed).collect();
        std::io::stdout().lock().write_all(dropped_table(&sets, &profiles).as_bytes())?;
        return Ok(());
    }
    let mut measured: Vec<Vec<Measured>> = Vec::new();
    let mut checked = Vec::new();
    for set in &sets {
        let mut of_set = Vec::new();
        for profile in &profiles {
            eprintln!("{}: {}", set.name, profile.id());
            let Ok(of_profile) = measure(profile, set, thread_time, uninterrupted);
            of_set.push(of_profile);
        }
        measured.push(of_set);
        checked.push(if arguments.check { checks(&profiles, by, set) } else { Vec::new() });
    }
    let banded: Vec<Vec<Banded>> =
        sets.iter().map(|set| if arguments.minhash { bands(set) } else { Vec::new() }).collect();
    let documents = arguments.documents.unwrap_or(DOCUMENTS) as f64;
    if let Some(path) = &arguments.svg {
        fs::write(path, svg(&sets, &measured)).map_err(|error| at(path, &error))?;
    }
    let mut text = if profiles.is_empty() && !arguments.minhash {
        String::new()
    } else {
        report(&sets, &measured, &checked, &banded)
    };
    sets.iter().for_each(|set| text += &signed_table(set, &of_signatures(set, &signed)));
    if arguments.edits {
        for set in sets {
            text += &promised(known, arguments, set)?;
        }
    } else if !profiles.is_empty() {
        text += &recommended_text(&measured, documents);
    }
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// The default number of documents for which a profile and k are recommended.
const DOCUMENTS: u64 = 1_000_000;

/// The maximum number of articles of a set that are looked for in pages.
const ARTICLES: usize = 1_000;

fn containment(arguments: &EvalArguments) -> Result<(), Failure> {
    for path in &arguments.sets {
        let file = if path.is_dir() { documents_of(path)? } else { path.to_owned() };
        let (_, texts) = read_documents(&file, arguments.texts)?;
        eprintln!("{}: containment", name_of(path));
        let table = containment_table(&name_of(path), &texts, ARTICLES, arguments.seed);
        std::io::stdout().lock().write_all(table.as_bytes())?;
    }
    Ok(())
}

/// Calibrates on halves of labelled sets, and measures the other halves.
fn split(known: Profiles, arguments: &EvalArguments, splits: u64) -> Result<(), Failure> {
    let split = Split {
        profiles: candidates(known, arguments)?,
        alike_by: named(known, ALIKE_BY)?,
        documents: arguments.documents,
        duplicate_share: arguments.duplicate_share,
        splits,
        seed: arguments.seed,
    };
    let mut results = Vec::new();
    for path in &arguments.sets {
        let set = read_set(path, split.alike_by, arguments)?;
        eprintln!("{}: {splits} splits", set.name);
        results.extend(halves(&set, &split));
    }
    let text = halves_table(&results, arguments.duplicate_share);
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// The profile whose features show which unmarked pairs are copies, in calibrations.
const ALIKE_BY: &str = "shingles-64";

/// What the candidates promise for texts like those of a set with edited copies.
fn promised(known: Profiles, arguments: &EvalArguments, set: Set) -> Result<String, Failure> {
    let documents = arguments.documents.unwrap_or(DOCUMENTS);
    let assumed = Assumed { documents, duplicate_share: arguments.duplicate_share };
    let labels = Labels { positive: set.labels.positive, ..Labels::default() };
    let mut set = Set { labels, ..set };
    let Ok(_) = set_aside_copies(&mut set, named(known, ALIKE_BY)?, CERTAIN, uninterrupted);
    let measure = |profile: &'static Profile| {
        eprintln!("{}: intervals of {}", set.name, profile.id());
        let Ok(candidate) =
            Candidate::measure(profile, &set, assumed, arguments.seed, thread_time, uninterrupted);
        candidate
    };
    let measured: Vec<Candidate> = candidates(known, arguments)?.into_iter().map(measure).collect();
    Ok(promised_table(&set, &measured, assumed))
}

/// The profiles among which a calibration chooses: those of the command line, or the default ones.
fn candidates(known: Profiles, arguments: &EvalArguments) -> Result<Chosen, Failure> {
    if arguments.profile.is_empty() {
        return CANDIDATES.iter().map(|name| named(known, name)).collect();
    }
    arguments.profile.iter().map(|name| named(known, name)).collect()
}

type Chosen = Vec<&'static Profile>;

fn by_length(arguments: &EvalArguments, profiles: &[&'static Profile], by: &Profile) -> Result<(), Failure> {
    for path in &arguments.sets {
        let file = if path.is_dir() { documents_of(path)? } else { path.to_owned() };
        let (_, texts) = read_documents(&file, arguments.texts)?;
        eprintln!("{}: lengths", name_of(path));
        let table = table_by_length(&name_of(path), &texts, profiles, by, arguments.seed, arguments.check);
        std::io::stdout().lock().write_all(table.as_bytes())?;
    }
    Ok(())
}

/// The profiles of the command line that make signatures, and the others.
fn wanted(known: Profiles, arguments: &EvalArguments) -> Result<(Chosen, Chosen), Failure> {
    if arguments.profile.is_empty() {
        let by_hashes = |profile: &&'static Profile| {
            profile.signatures().is_none() && !profile.finds_topics() && profile.takes_texts()
        };
        return Ok((Vec::new(), known.iter().filter(by_hashes).collect()));
    }
    let profiles = arguments.profile.iter().map(|name| named(known, name));
    let profiles: Chosen = profiles.collect::<Result<_, _>>()?;
    Ok(profiles.into_iter().partition(|profile| profile.signatures().is_some()))
}

fn of_signatures(set: &Set, profiles: &[&'static Profile]) -> Vec<MeasuredSigned> {
    let measured = profiles.iter().filter_map(|profile| {
        eprintln!("{}: {}", set.name, profile.id());
        let Ok(measured) = measure_signed(profile, set, thread_time, uninterrupted);
        measured
    });
    measured.collect()
}

pub(super) fn named(known: Profiles, name: &str) -> Result<&'static Profile, Failure> {
    let profile = known.named(name).ok_or_else(|| {
        Failure::new(format!("there is no profile {name:?}; there are {}", known.listing()))
    })?;
    check_takes_texts(profile).map_err(Failure::new)?;
    Ok(profile)
}

/// The second check of candidates within each of [`candidate_ks`], at thresholds from 0.2 to 0.8.
fn checks(profiles: &[&'static Profile], by: &Profile, set: &Set) -> Vec<(String, u32, Vec<Checked>)> {
    let thresholds: Vec<f64> = (4..=16).map(|step| f64::from(step) / 20.0).collect();
    let of = |profile: &&'static Profile| {
        let id = profile.id().to_string();
        candidate_ks(profile)
            .into_iter()
            .map(|k| (id.clone(), k, second_check(profile, by, set, k, &thresholds)))
            .collect::<Vec<_>>()
    };
    profiles.iter().flat_map(of).collect()
}

/// The check of a measurement that is not cancelled.
#[allow(clippy::unnecessary_wraps, reason = "the type of a check")]
fn uninterrupted() -> Result<(), Infallible> {
    Ok(())
}

/// Every MinHash recipe with each of three bandings.
fn bands(set: &Set) -> Vec<Banded> {
    let thresholds: Vec<f64> = (0..=18).map(|step| f64::from(step) / 20.0).collect();
    let cut = |bands, rows| Banding { bands, rows };
    let bandings = [cut(16, 8), cut(32, 4), cut(50, 4)];
    let of = |recipe: &MinHash| {
        bandings
            .iter()
            .filter_map(|&banding| {
                let Ok(banded) = banded(recipe, banding, set, &thresholds, thread_time, uninterrupted);
                banded
            })
            .collect::<Vec<_>>()
    };
    eprintln!("{}: MinHash", set.name);
    MinHash::ALL.iter().flat_map(of).collect()
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into())
}

fn read_set(path: &Path, by: &Profile, arguments: &EvalArguments) -> Result<Set, Failure> {
    let name = name_of(path);
    if arguments.edits || arguments.pages.is_some() {
        let file = if path.is_dir() { documents_of(path)? } else { path.to_owned() };
        let (_, mut texts) = read_documents(&file, arguments.texts)?;
        if arguments.sentences {
            texts = distinct_sentences(&texts);
            texts.truncate(arguments.texts);
        }
        let mut set = match arguments.pages {
            None if arguments.one_word => with_one_word_replaced(&name, texts, arguments.seed),
            None => with_edits(&name, texts, arguments.seed),
            Some(OfPage::Main) => with_pages(&name, &texts, arguments.seed, main_text),
            Some(OfPage::Visible) => with_pages(&name, &texts, arguments.seed, visible_text),
        };
        // Texts that are near-duplicates before the edits are found correctly, so they do not count as
        // errors.
        let Ok(_) = set_aside_copies(&mut set, by, ALIKE, uninterrupted);
        return Ok(set);
    }
    let (ids, texts) = read_documents(&documents_of(path)?, arguments.texts)?;
    let numbers: HashMap<&str, u32> = ids.iter().map(String::as_str).zip(0..).collect();
    let marked = read_pairs(&path.join("pairs.tsv"), &numbers, |kind| Ok(kind.to_owned()))?;
    let similar = read_pairs(&path.join("similarity.tsv"), &numbers, similarity)?;
    if marked.is_none() && similar.is_none() {
        let detail = "neither pairs.tsv nor similarity.tsv exists; --edits makes labels";
        return Err(Failure::new(format!("{}: {detail}", path.display())));
    }
    let is_kind = |kind: &str| {
        let first = kind.split(':').next().unwrap_or_default();
        !first.is_empty() && first.parse::<f64>().is_err()
    };
    let kinds: Vec<(Pair, String)> =
        marked.iter().flatten().filter(|(_, kind)| is_kind(kind)).cloned().collect();
    let marked: Option<Vec<Pair>> = marked.map(|rows| rows.into_iter().map(|row| row.0).collect());
    let labels = Labels::read(marked.as_deref(), similar.as_deref(), arguments.revisions.contains(&name));
    if labels.positive.is_empty() {
        let detail = "none of the pairs is one to be found among the documents read";
        return Err(Failure::new(format!("{}: {detail}", path.display())));
    }
    Ok(Set { name, texts, labels, edits: kinds })
}

/// Parses a similarity.
fn similarity(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| format!("{text:?} is no similarity from 0 to 1"))
}

pub(super) fn documents_of(folder: &Path) -> Result<PathBuf, Failure> {
    let files = ["docs.jsonl", "docs.jsonl.gz"].map(|name| folder.join(name));
    let missing =
        || Failure::new(format!("{}: neither docs.jsonl nor docs.jsonl.gz exists", folder.display()));
    files.into_iter().find(|file| file.exists()).ok_or_else(missing)
}

/// The ids and texts of the first `most` documents.
pub(super) fn read_documents(path: &Path, most: usize) -> Result<(Vec<String>, Vec<String>), Failure> {
    let file = File::open(path).map_err(|error| at(path, &error))?;
    let reader: Box<dyn Read> = if path.extension().is_some_and(|extension| extension == "gz") {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let (mut ids, mut texts) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(BufReader::new(reader).lines().take(most)) {
        let line = line.map_err(|error| at(path, &error))?;
        let document: Document = serde_json::from_str(&line).map_err(|error| {
            Failure::new(format!("{}:{number}: {}", path.display(), plain(&error.to_string())))
        })?;
        ids.push(document.id);
        texts.push(document.text);
    }
    if ids.is_empty() {
        return Err(Failure::new(format!("{}: no document was read", path.display())));
    }
    Ok((ids, texts))
}

/// Reads lines of two ids and a field about the pair, separated by tabs; `None` if the file does not exist.
/// Pairs of texts that were not read are skipped, and their number is printed.
fn read_pairs<T>(
    path: &Path,
    numbers: &HashMap<&str, u32>,
    about: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<Vec<(Pair, T)>>, Failure> {
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(path).map_err(|error| at(path, &error))?;
    let (mut rows, mut unknown) = (Vec::new(), 0);
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |what: &str| Failure::new(format!("{}:{number}: {what}", path.display()));
        let fields: Vec<&str> = line.split('\t').collect();
        let [a, b, ..] = fields[..] else { return Err(wrong("two ids separated by a tab are needed")) };
        if a == b {
            return Err(wrong("a document is paired with itself"));
        }
        let about = about(fields.get(2).copied().unwrap_or_default()).map_err(|what| wrong(&what))?;
        match (numbers.get(a), numbers.get(b)) {
            (Some(&a), Some(&b)) => rows.push(((a.min(b), a.max(b)), about)),
            _ => unknown += 1,
        }
    }
    if unknown > 0 {
        eprintln!("{}: {} skipped, whose documents were not read", path.display(), counted(unknown, "pair"));
    }
    Ok(Some(rows))
}

fn at(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}
