//! Quality: measures of profiles for those who work on them, on sets of texts in files.
//!
//! ```sh
//! cargo bench --bench quality -- PART SET… [OPTIONS]
//! cargo bench --bench quality -- --help
//! ```
//!
//! A set is what `lookalike eval` reads: a folder with `docs.jsonl(.gz)` and `pairs.tsv` or `similarity.tsv`,
//! or, for parts that make copies themselves, also a file of documents. The curves over k are those of
//! `lookalike eval`.

mod measures;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, ValueEnum};
use flate2::read::MultiGzDecoder;
use lookalike_eval::{
    ALIKE, CANDIDATES, Measured, MeasuredSigned, Set, measure, measure_signed, read_set, read_texts, report,
    set_aside_copies, set_name, signed_table,
};
use lookalike_run::machine::thread_time;
use lookalike_text::fingerprint::{Banding, MinHash, Profile, Profiles, check_takes_texts};
use lookalike_text::profiles;
use lookalike_text::{decode, main_text, visible_text};
use serde::Deserialize;

use measures::by_kind::{by_kind, kinds_table};
use measures::containment::containment_table;
use measures::dropped::dropped_table;
use measures::halves::{Split, halves, halves_table};
use measures::main_text::{ExtractedPage, main_text_table};
use measures::min_hash::{Banded, banded};
use measures::one_word::{table_by_length, with_one_word_replaced};
use measures::pages::with_pages;
use measures::second_check::{candidate_ks, second_check};
use measures::sentences::distinct_sentences;
use measures::tables::{self, CheckedWithin};
use measures::unchecked;

/// Measures profiles on sets of texts
#[derive(Debug, Parser)]
#[command(name = "quality")]
struct Arguments {
    /// What is measured
    part: Part,
    /// Folders with docs.jsonl(.gz) and pairs.tsv or similarity.tsv, or files of documents
    #[arg(required = true, value_name = "SET")]
    sets: Vec<PathBuf>,
    /// Profiles to measure; the default depends on the part
    #[arg(long, short, value_name = "PROFILE")]
    profile: Vec<String>,
    /// TOML file that defines your own profiles
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
    /// With pages and one-word, use each distinct sentence as a text
    #[arg(long)]
    sentences: bool,
    /// With pages, one-word and lengths, also measure the second check
    #[arg(long)]
    check: bool,
    /// Profile whose features the second check compares, and which sets aside copies without a label
    #[arg(long, value_name = "PROFILE", default_value = "pairs-64")]
    check_by: String,
    /// Seed for edits, pages and splits
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Maximum number of texts from each set
    #[arg(long, default_value_t = 50_000)]
    texts: usize,
    /// With halves, how often each set is split
    #[arg(long, default_value_t = 2)]
    splits: u64,
    /// With halves, the number of documents for which k is chosen; by default that of the other half
    #[arg(long)]
    documents: Option<u64>,
    /// With halves, the share of the documents that are assumed to have a copy
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    duplicate_share: f64,
    /// Set whose marked pairs have a common origin but need not be similar: similarity.tsv decides there
    #[arg(long, value_name = "SET")]
    revisions: Vec<String>,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The second check of pairs within 11 and 15 of 64 bits, or 23 and 31 of 128
    SecondCheck,
    /// Every `MinHash` recipe with each of three bandings
    #[value(name = "minhash")]
    MinHash,
    /// Each text in pages of two web sites, of which the main text is used
    PagesMain,
    /// The same with all visible text
    PagesVisible,
    /// A copy of each text with one word replaced, or one character where words are not separated
    OneWord,
    /// The same by the number of words of a text, and what the fingerprint predicts
    Lengths,
    /// The recall of each kind of edit
    Kinds,
    /// Texts in pages of other texts: whether they are found, by their share of the page
    Containment,
    /// The main text of pages in folders with ground-truth.json and html/NAME.html(.gz)
    MainText,
    /// How many of the documents that `dedupe` drops are copies, and how many of the copies it drops
    Dropped,
    /// Calibrations on one half of a labelled set, measured by the labels of the other half
    Halves,
}

type Failure = Box<dyn Error>;
type Chosen = Vec<&'static Profile>;

/// The profile whose features show which unmarked pairs are copies, in calibrations.
const ALIKE_BY: &str = "shingles-64";
/// The profiles of `kinds` if the command line names none.
const OF_KINDS: [&str; 3] = ["copies-64", "copies-128", "minhash-copies"];
/// The maximum number of articles of a set that are looked for in pages.
const ARTICLES: usize = 1_000;

fn main() -> ExitCode {
    // Among all benchmarks it has no sets: it says what it takes.
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        println!("{}", Arguments::command().render_help());
        return ExitCode::SUCCESS;
    }
    match run(&Arguments::parse()) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("quality: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<String, Failure> {
    let known = profiles::load(arguments.profiles.as_deref())?;
    match arguments.part {
        Part::SecondCheck => {
            let (profiles, by) = (wanted(known, arguments)?, named(known, &arguments.check_by)?);
            let sets = labelled(arguments)?;
            Ok(checks(&sets, &profiles, by))
        }
        Part::MinHash => {
            let sets = labelled(arguments)?;
            let banded: Vec<Vec<Banded>> = sets.iter().map(bands).collect();
            Ok(tables::min_hash(&sets, &banded))
        }
        Part::PagesMain | Part::PagesVisible | Part::OneWord => of_made_sets(known, arguments),
        Part::Lengths => {
            let (profiles, by) = (wanted(known, arguments)?, named(known, &arguments.check_by)?);
            of_texts(arguments, |name, texts| {
                Ok(table_by_length(name, &texts, &profiles, by, arguments.seed, arguments.check))
            })
        }
        Part::Kinds => kinds(known, arguments),
        Part::Containment => {
            of_texts(arguments, |name, texts| Ok(containment_table(name, &texts, ARTICLES, arguments.seed)))
        }
        Part::MainText => arguments.sets.iter().map(|folder| main_texts(folder)).collect(),
        Part::Dropped => Ok(dropped_table(&labelled(arguments)?, &wanted(known, arguments)?)),
        Part::Halves => split(known, arguments),
    }
}

/// Passes the name and the texts of each set to `table`, and joins what it returns.
fn of_texts(
    arguments: &Arguments,
    table: impl Fn(&str, Vec<String>) -> Result<String, Failure>,
) -> Result<String, Failure> {
    let of = |path: &PathBuf| {
        let name = set_name(path);
        eprintln!("{name}");
        table(&name, read_texts(path, arguments.texts)?)
    };
    arguments.sets.iter().map(of).collect()
}

/// The sets with the labels of their files.
fn labelled(arguments: &Arguments) -> Result<Vec<Set>, Failure> {
    let read = |path: &PathBuf| {
        let is_of_revisions = arguments.revisions.contains(&set_name(path));
        let (set, skipped) = read_set(path, arguments.texts, is_of_revisions)?;
        if skipped > 0 {
            eprintln!("{}: {skipped} pairs skipped, whose documents were not read", set.name);
        }
        Ok(set)
    };
    arguments.sets.iter().map(read).collect()
}

/// The curves, and if wanted the second check, of sets of pages or with one word replaced.
fn of_made_sets(known: Profiles, arguments: &Arguments) -> Result<String, Failure> {
    let by = named(known, &arguments.check_by)?;
    let (signed, profiles): (Chosen, Chosen) =
        wanted(known, arguments)?.into_iter().partition(|profile| profile.signatures().is_some());
    let made = |path: &PathBuf| -> Result<Set, Failure> {
        let (name, mut texts) = (set_name(path), read_texts(path, arguments.texts)?);
        if arguments.sentences {
            texts = distinct_sentences(&texts);
            texts.truncate(arguments.texts);
        }
        let mut set = match arguments.part {
            Part::PagesMain => with_pages(&name, &texts, arguments.seed, main_text),
            Part::PagesVisible => with_pages(&name, &texts, arguments.seed, visible_text),
            _ => with_one_word_replaced(&name, texts, arguments.seed),
        };
        // Texts that are near-duplicates before the edits are found correctly, so they are no errors.
        let Ok(_) = set_aside_copies(&mut set, by, ALIKE, unchecked);
        Ok(set)
    };
    let sets: Vec<Set> = arguments.sets.iter().map(made).collect::<Result<_, _>>()?;
    let of_hashes = |set: &Set| -> Vec<Measured> {
        let measured = profiles.iter().map(|profile| {
            eprintln!("{}: {}", set.name, profile.id());
            let Ok(measured) = measure(profile, set, thread_time, unchecked);
            measured
        });
        measured.collect()
    };
    let mut text = String::new();
    if !profiles.is_empty() {
        text += &report(&sets, &sets.iter().map(of_hashes).collect::<Vec<_>>());
    }
    for set in &sets {
        let measured = signed.iter().filter_map(|profile| {
            let Ok(measured) = measure_signed(profile, None, set, thread_time, unchecked);
            measured
        });
        text += &signed_table(set, &measured.collect::<Vec<MeasuredSigned>>());
    }
    if arguments.check {
        text += &checks(&sets, &profiles, by);
    }
    Ok(text)
}

/// The second check of candidates within each of [`candidate_ks`], at thresholds from 0.2 to 0.8.
fn checks(sets: &[Set], profiles: &[&'static Profile], by: &Profile) -> String {
    let thresholds: Vec<f64> = (4..=16).map(|step| f64::from(step) / 20.0).collect();
    let of_set = |set: &Set| -> Vec<CheckedWithin> {
        eprintln!("{}: the second check", set.name);
        let of_hashes = profiles.iter().filter(|profile| profile.signatures().is_none());
        let within = of_hashes.flat_map(|profile| candidate_ks(profile).map(|k| (*profile, k)));
        let checked = within.map(|(profile, k)| {
            (profile.id().to_string(), k, second_check(profile, by, set, k, &thresholds))
        });
        checked.collect()
    };
    tables::second_checks(sets, &sets.iter().map(of_set).collect::<Vec<_>>())
}

/// Every `MinHash` recipe with each of three bandings.
fn bands(set: &Set) -> Vec<Banded> {
    eprintln!("{}: MinHash", set.name);
    let thresholds: Vec<f64> = (0..=18).map(|step| f64::from(step) / 20.0).collect();
    let bandings = [(16, 8), (32, 4), (50, 4)].map(|(bands, rows)| Banding { bands, rows });
    let each = MinHash::ALL.iter().flat_map(|recipe| bandings.iter().map(move |banding| (recipe, *banding)));
    each.filter_map(|(recipe, banding)| banded(recipe, banding, set, &thresholds)).collect()
}

fn kinds(known: Profiles, arguments: &Arguments) -> Result<String, Failure> {
    let profiles = named_or(known, arguments, &OF_KINDS)?;
    let by = named(known, ALIKE_BY)?;
    let mut sets = Vec::new();
    for path in &arguments.sets {
        let name = set_name(path);
        let name = name.split('.').next().unwrap_or_default();
        eprintln!("{name}: kinds of edits");
        sets.push(by_kind(&profiles, by, name, read_texts(path, arguments.texts)?, arguments.seed));
    }
    Ok(kinds_table(&profiles, &sets))
}

/// Calibrates on halves of labelled sets, and measures the other halves.
fn split(known: Profiles, arguments: &Arguments) -> Result<String, Failure> {
    let split = Split {
        profiles: named_or(known, arguments, &CANDIDATES)?,
        alike_by: named(known, ALIKE_BY)?,
        documents: arguments.documents,
        duplicate_share: arguments.duplicate_share,
        splits: arguments.splits,
        seed: arguments.seed,
    };
    let mut results = Vec::new();
    for set in labelled(arguments)? {
        eprintln!("{}: {} splits", set.name, split.splits);
        results.extend(halves(&set, &split));
    }
    Ok(halves_table(&results, arguments.duplicate_share))
}

/// What people marked in a page. Other fields are ignored.
#[derive(Deserialize)]
struct Marked {
    #[serde(rename = "articleBody")]
    text: String,
}

/// The scores of the pages of a folder: `html/NAME.html` or `html/NAME.html.gz` for each name in
/// `ground-truth.json`.
fn main_texts(folder: &Path) -> Result<String, Failure> {
    let path = folder.join("ground-truth.json");
    let text = fs::read(&path).map_err(|error| at(&path, &error))?;
    let truth: BTreeMap<String, Marked> = serde_json::from_slice(&text).map_err(|error| at(&path, &error))?;
    let extracted = |(name, marked): (String, Marked)| {
        let page = page(folder, &name)?;
        Ok(ExtractedPage { name, marked: marked.text, main: main_text(&page), visible: visible_text(&page) })
    };
    let pages: Vec<ExtractedPage> = truth.into_iter().map(extracted).collect::<Result<_, Failure>>()?;
    Ok(main_text_table(&pages))
}

/// The decoded page of this name.
fn page(folder: &Path, name: &str) -> Result<String, Failure> {
    let mut path = folder.join("html").join(format!("{name}.html"));
    let mut bytes = Vec::new();
    let read = if path.exists() {
        File::open(&path).and_then(|mut file| file.read_to_end(&mut bytes))
    } else {
        path.add_extension("gz");
        File::open(&path).and_then(|file| MultiGzDecoder::new(file).read_to_end(&mut bytes))
    };
    read.map_err(|error| at(&path, &error))?;
    Ok(decode(&bytes, None, true).map_err(|error| at(&path, &error))?.text.into_owned())
}

fn at(path: &Path, error: &dyn Error) -> Failure {
    format!("{}: {error}", path.display()).into()
}

/// The profiles of the command line; by default each that finds copies with hashes.
fn wanted(known: Profiles, arguments: &Arguments) -> Result<Chosen, Failure> {
    if !arguments.profile.is_empty() {
        return named_or(known, arguments, &[]);
    }
    let by_hashes = |profile: &&'static Profile| {
        profile.signatures().is_none() && !profile.finds_topics() && profile.takes_texts()
    };
    Ok(known.iter().filter(by_hashes).collect())
}

/// The profiles of the command line, or these.
fn named_or(known: Profiles, arguments: &Arguments, others: &[&str]) -> Result<Chosen, Failure> {
    if arguments.profile.is_empty() {
        return others.iter().map(|name| named(known, name)).collect();
    }
    arguments.profile.iter().map(|name| named(known, name)).collect()
}

fn named(known: Profiles, name: &str) -> Result<&'static Profile, Failure> {
    let profile = known.named(name);
    let profile =
        profile.ok_or_else(|| format!("there is no profile {name:?}; there are {}", known.listing()))?;
    check_takes_texts(profile)?;
    Ok(profile)
}
