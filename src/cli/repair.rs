//! `lookalike repair`: builds a new data directory from the readable parts of a damaged one.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::fingerprint::profile;
use super::serve::open_code;
use crate::config::Settings;
use crate::server;
use lookalike_engine::{LostPart, RepairReport, RepairedCollection};
use lookalike_hash::CollectionId;
use lookalike_wording::counted;

/// Exit code of a repair that did not recover everything, or cannot prove that it did.
const INCOMPLETE: u8 = 3;

#[derive(Debug, Args)]
pub(super) struct RepairArguments {
    /// Damaged data directory; it is never changed
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// New data directory; this command creates it
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Profile of a collection whose settings are lost, by the number of the collection, which is restored
    /// as recovered-NUMBER
    #[arg(long, value_name = "NUMBER=PROFILE", value_parser = lost_collection)]
    profile: Vec<(u32, String)>,
    /// TOML file that defines your own profiles
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
}

fn lost_collection(text: &str) -> Result<(u32, String), String> {
    let (number, name) = text.split_once('=').ok_or("write it as NUMBER=PROFILE, for example 7=copies-64")?;
    let number = number.parse().map_err(|_| format!("{number:?} is not the number of a collection"))?;
    Ok((number, name.to_owned()))
}

pub(super) fn run(arguments: &RepairArguments) -> Result<(), Failure> {
    let mut profiles = BTreeMap::new();
    for (number, name) in &arguments.profile {
        profiles.insert(CollectionId(*number), profile(arguments.profiles.as_deref(), name)?);
    }
    let settings = server::engine_settings(&Settings::default());
    let report = lookalike_engine::repair(&arguments.dir, &arguments.to, &settings, &profiles)
        .map_err(|error| Failure::of(&error, open_code(&error)))?;
    print(&report, &mut io::stdout().lock())?;
    let to = arguments.to.display();
    if report.is_complete() {
        println!("{to}: complete");
        return Ok(());
    }
    let message = format!(
        "{to} is not complete, or it cannot be proved that it is. Compare it with a backup before you use it"
    );
    Err(Failure { message, code: INCOMPLETE })
}

fn print(report: &RepairReport, out: &mut impl Write) -> io::Result<()> {
    for doubt in &report.doubts {
        writeln!(out, "damaged: {doubt}")?;
    }
    for loss in &report.losses {
        writeln!(out, "lost: {loss}")?;
    }
    for (id, of) in &report.collections {
        print_collection(*id, of, out)?;
    }
    let sum = |count: fn(&RepairedCollection) -> u64| report.collections.values().map(count).sum::<u64>();
    let (read, written) = (sum(|of| of.read), sum(|of| of.written));
    let (reduced, uncertain) = (sum(|of| of.reduced), sum(|of| of.uncertain));
    writeln!(
        out,
        "documents: {read} read, {written} in the new store, {reduced} of them reduced, {uncertain} uncertain"
    )?;
    let lost = Lost::of(report);
    let or_more = if lost.is_exact { "" } else { " or more" };
    let (blocks, entries) = (counted(lost.blocks, "block"), counted(lost.entries, "entry"));
    writeln!(out, "lost: {blocks}, {entries}{or_more}, {}", counted(lost.batches, "batch"))
}

fn print_collection(id: CollectionId, of: &RepairedCollection, out: &mut impl Write) -> io::Result<()> {
    let name = of.name.as_ref().map_or_else(|| "settings lost".to_owned(), ToString::to_string);
    write!(out, "collection {} ({name}): {} read, {} in the new store", id.0, of.read, of.written)?;
    match of.recorded {
        Some(recorded) => write!(out, "; the damaged store recorded {recorded}")?,
        None => write!(out, "; the original number is not known")?,
    }
    if of.uncertain > 0 {
        write!(out, "; {} uncertain: a later change or deletion may be lost", of.uncertain)?;
    }
    if of.reduced > 0 {
        write!(out, "; {} reduced to id and hash: metadata and text are lost", of.reduced)?;
    }
    if of.marks > 0 {
        write!(out, "; {}", counted(of.marks, "mark"))?;
    }
    if of.unreadable > 0 {
        write!(out, "; {} of which only the key reads back", of.unreadable)?;
    }
    writeln!(out)?;
    if of.name.is_none() {
        let number = id.0;
        writeln!(
            out,
            "collection {number} is left out: its settings are lost. If it was not deleted, repair again \
             with --profile {number}=PROFILE, the profile of its fingerprints"
        )?;
    }
    if of.is_renamed {
        writeln!(
            out,
            "collection {}: the name is new, k is the default of the profile, and documents do not expire by \
             default. Correct this with PUT /collections",
            id.0
        )?;
    }
    Ok(())
}

/// The sum of all losses.
#[derive(Default)]
struct Lost {
    blocks: u64,
    entries: u64,
    batches: u64,
    is_exact: bool,
}

impl Lost {
    fn of(report: &RepairReport) -> Lost {
        let mut sum = Lost { is_exact: true, ..Lost::default() };
        for loss in &report.losses {
            match loss.part {
                LostPart::Blocks { blocks, entries, is_exact, .. } => {
                    sum.blocks += blocks.unwrap_or(1);
                    sum.entries += entries.unwrap_or(0);
                    sum.is_exact &= is_exact;
                }
                LostPart::Table => sum.is_exact = false,
                LostPart::Batches(number) => {
                    sum.batches += number;
                    sum.is_exact = false;
                }
            }
        }
        sum
    }
}
