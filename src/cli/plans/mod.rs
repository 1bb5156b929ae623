//! `lookalike plans`: builds the plans of the literature over the user's hashes, checks that each finds what
//! the linear scan finds, and prints their time, work and memory; needs no server.

mod measure;
mod read;
mod table;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::dedupe::size;
use crate::ids::{Hash, Word};
use crate::plans::{Bits, Design, MOST_K, queries, random_hashes};
use lookalike_files::is_input;
use measure::Bench;

/// The number of queries that are drawn. Fewer would stay in the cache with all the memory that they read.
const DRAWN: usize = 200_000;

#[derive(Debug, Args)]
pub(super) struct PlansArguments {
    /// File of stored hashes of 64 or 128 bits: a hash, or a JSON object with a field "hash", begins each
    /// line; - is standard input, .gz and .zst are decompressed
    #[arg(long, value_name = "FILE", required_unless_present = "random")]
    hashes: Option<PathBuf>,
    /// Use this many random hashes of 64 bits, the same in every run, instead of a file
    #[arg(long, value_name = "COUNT", conflicts_with = "hashes")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    random: Option<u32>,
    /// File of queries, of the same form; by default stored hashes with 0 to k bits flipped, the same in
    /// every run
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Largest Hamming distance of a match
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_K)))]
    k: u32,
    /// Memory for a plan, such as 4GiB; plans that need more are not run
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    memory: u64,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &PlansArguments) -> Result<(), Failure> {
    let paths = [&arguments.hashes, &arguments.queries];
    if paths.into_iter().flatten().filter(|path| is_input(path)).count() > 1 {
        return Err(Failure::new(
            "standard input can be read only once: name a file for --hashes or --queries",
        ));
    }
    let stored = match (&arguments.hashes, arguments.random) {
        (Some(path), _) => read::hashes(path)?,
        (None, count) => {
            random_hashes::<u64>(count.unwrap_or_default() as usize).into_iter().map(Word::to_hash).collect()
        }
    };
    match stored.first().map_or(0, |hash| hash.width().bits()) {
        64 => compare::<u64>(arguments, &stored),
        128 => compare::<u128>(arguments, &stored),
        bits => Err(Failure::new(format!("plans compares hashes of 64 or 128 bits; these have {bits}"))),
    }
}

/// Measures every plan, and prints what was measured.
fn compare<W: Bits>(arguments: &PlansArguments, stored: &[Hash]) -> Result<(), Failure> {
    let k = arguments.k;
    let hashes = read::distinct::<W>(stored);
    let asked: Vec<W> = match &arguments.queries {
        Some(path) => read::words(path, &read::hashes(path)?)?,
        None => queries(&hashes, DRAWN, k),
    };
    let bench = Bench::new(&hashes, &asked, k);
    let mut rows = Vec::new();
    for design in Design::all(k) {
        eprintln!("{}: {}", design.name(), design.description(k, W::WIDTH.bits()));
        let outcome = match design.refusal(&hashes, k, arguments.memory) {
            Some(refusal) => Err(refusal),
            None => Ok(bench.measure(design)?),
        };
        if arguments.json {
            writeln!(io::stdout().lock(), "{}", table::line(design, &bench, &outcome))?;
        }
        rows.push((design, outcome));
    }
    if !arguments.json {
        io::stdout().lock().write_all(table::table(&bench, stored.len(), &rows).as_bytes())?;
    }
    Ok(())
}
