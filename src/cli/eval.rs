//! `lookalike eval`: measures what profiles find, and at what cost, on labelled texts or on edited copies
//! of the user's texts, and recommends a profile and k.

use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use lookalike_eval::{
    ALIKE, Assumed, CANDIDATES, CERTAIN, Candidate, Labels, Measured, MeasuredSigned, Set, measure,
    measure_signed, promised_table, read_set, read_texts, recommended_text, report, set_aside_copies,
    set_name, signed_table, svg, with_edits,
};
use lookalike_run::machine::thread_time;
use lookalike_text::fingerprint::{Profile, Profiles, check_takes_texts};
use lookalike_text::profiles;
use lookalike_wording::counted;

#[derive(Debug, Args)]
pub(super) struct EvalArguments {
    /// Folders with docs.jsonl(.gz) and pairs.tsv or similarity.tsv; with --edits, also files of documents
    #[arg(required = true, value_name = "SET")]
    sets: Vec<PathBuf>,
    /// Profiles to measure; by default the newest version of each that finds copies with hashes of 64 or
    /// 128 bits
    #[arg(long, short, value_name = "PROFILE")]
    profile: Vec<String>,
    /// TOML file that defines your own profiles
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
    /// Make one edited copy of each text instead of reading labels
    #[arg(long)]
    edits: bool,
    /// With --edits, the share of the documents that are assumed to have a copy
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    duplicate_share: f64,
    /// Seed for edits
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Maximum number of texts from each set
    #[arg(long, default_value_t = 50_000)]
    texts: usize,
    /// Number of documents for which a profile and k are recommended
    #[arg(long, default_value_t = 1_000_000)]
    documents: u64,
    /// Set whose marked pairs have a common origin but need not be similar: similarity.tsv decides there
    #[arg(long, value_name = "SET")]
    revisions: Vec<String>,
    /// SVG file for the curves
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The profile whose features show which unmarked pairs are copies, as in calibrations.
const ALIKE_BY: &str = "shingles-64";

type Chosen = Vec<&'static Profile>;

pub(super) fn run(arguments: &EvalArguments) -> Result<(), Failure> {
    let known = profiles::load(arguments.profiles.as_deref()).map_err(|error| Failure::of(&error, 78))?;
    if !(arguments.duplicate_share > 0.0 && arguments.duplicate_share <= 1.0) {
        return Err(Failure::new("--duplicate-share is a share above 0 and at most 1".to_owned()));
    }
    let (signed, profiles) = wanted(known, arguments)?;
    let names: Vec<String> = arguments.sets.iter().map(|path| set_name(path)).collect();
    if let Some(other) = arguments.revisions.iter().find(|name| !names.contains(name)) {
        let detail = format!("--revisions {other:?} is not one of the sets, which are {}", names.join(", "));
        return Err(Failure::new(detail));
    }
    let by = named(known, ALIKE_BY)?;
    let read = |path: &PathBuf| {
        if arguments.edits { edited(path, by, arguments) } else { labelled(path, arguments) }
    };
    let sets: Vec<Set> = arguments.sets.iter().map(read).collect::<Result<_, _>>()?;
    let of_hashes = |set: &Set| -> Vec<Measured> {
        let measured = profiles.iter().map(|profile| {
            eprintln!("{}: {}", set.name, profile.id());
            let Ok(measured) = measure(profile, set, thread_time, uninterrupted);
            measured
        });
        measured.collect()
    };
    let measured: Vec<Vec<Measured>> = sets.iter().map(of_hashes).collect();
    if let Some(path) = &arguments.svg {
        let failed = |error| Failure::new(format!("{}: {error}", path.display()));
        fs::write(path, svg(&sets, &measured)).map_err(failed)?;
    }
    let mut text = if profiles.is_empty() { String::new() } else { report(&sets, &measured) };
    sets.iter().for_each(|set| text += &signed_table(set, &of_signatures(set, &signed)));
    if arguments.edits {
        for set in sets {
            text += &promised(known, arguments, set)?;
        }
    } else if !profiles.is_empty() {
        text += &recommended_text(&measured, arguments.documents as f64);
    }
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// A set with the labels of its files.
fn labelled(path: &Path, arguments: &EvalArguments) -> Result<Set, Failure> {
    let is_of_revisions = arguments.revisions.contains(&set_name(path));
    let read = read_set(path, arguments.texts, is_of_revisions);
    let (set, skipped) = read.map_err(|error| Failure::of(&error, 1))?;
    if skipped > 0 {
        let pairs = counted(skipped, "pair");
        eprintln!("{}: {pairs} skipped, whose documents were not read", path.display());
    }
    Ok(set)
}

/// A set of texts with edited copies.
fn edited(path: &Path, by: &Profile, arguments: &EvalArguments) -> Result<Set, Failure> {
    let texts = read_texts(path, arguments.texts).map_err(|error| Failure::of(&error, 1))?;
    let mut set = with_edits(&set_name(path), texts, arguments.seed);
    // Texts that are near-duplicates before the edits are found correctly, so they do not count as errors.
    let Ok(_) = set_aside_copies(&mut set, by, ALIKE, uninterrupted);
    Ok(set)
}

/// The promises of the candidates for texts like those of a set with edited copies.
fn promised(known: Profiles, arguments: &EvalArguments, set: Set) -> Result<String, Failure> {
    let assumed = Assumed { documents: arguments.documents, duplicate_share: arguments.duplicate_share };
    let labels = Labels { positive: set.labels.positive, ..Labels::default() };
    let mut set = Set { labels, ..set };
    let Ok(_) = set_aside_copies(&mut set, named(known, ALIKE_BY)?, CERTAIN, uninterrupted);
    let measure = |profile: &'static Profile| {
        eprintln!("{}: intervals of {}", set.name, profile.id());
        let Ok(candidate) =
            Candidate::measure(profile, None, &set, assumed, arguments.seed, thread_time, uninterrupted);
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
        let Ok(measured) = measure_signed(profile, None, set, thread_time, uninterrupted);
        measured
    });
    measured.collect()
}

fn named(known: Profiles, name: &str) -> Result<&'static Profile, Failure> {
    let profile = known.named(name).ok_or_else(|| {
        Failure::new(format!("there is no profile {name:?}; there are {}", known.listing()))
    })?;
    check_takes_texts(profile).map_err(Failure::new)?;
    Ok(profile)
}

/// The check of a measurement that is not cancelled.
#[allow(clippy::unnecessary_wraps, reason = "the type of a check")]
fn uninterrupted() -> Result<(), Infallible> {
    Ok(())
}
