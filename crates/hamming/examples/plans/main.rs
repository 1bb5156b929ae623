//! Builds plans of the literature for finding near hashes over the user's hashes, next to the index of this
//! project, checks that each finds what the linear scan finds, and prints their time, work and memory.
//!
//! ```sh
//! cargo run --release -p lookalike-hamming --example plans -- FILE [K] [MIB]
//! ```
//!
//! | module | plan |
//! |---|---|
//! | `scan` | compare every hash |
//! | `own` | the index of this project, and its scan |
//! | `blocks` | k + 1 blocks, a hash table for each |
//! | `tables` | sorted tables, in each of which other blocks come first |
//! | `ball` | look up every value within k in a set, with or without a Bloom filter (`bloom`) |
//! | `variants` | store every value within a radius of each hash |
//! | `one_bit` | a list for each bit, of the hashes that have it set |
//!
//! Guarantees: each plan returns exactly what [`scan`](lookalike_hamming::scan) returns, for every k and both
//! widths. A plan that needs more memory than allowed, or too many probes, is refused before it is built
//! ([`Design::refusal`]). `design` lists the plans, `bits` and `sample` have what they share, `measure` takes
//! their time.
//!
//! *Absent*: threads, and changes: a plan is built once, for one k. Plans that find a near hash only with a
//! probability, such as Charikar's sorted random permutations (STOC 2002).

mod ball;
mod bits;
mod blocks;
mod bloom;
mod design;
mod measure;
mod one_bit;
mod own;
mod read;
mod sample;
mod scan;
mod table;
mod tables;
#[cfg(test)]
mod tests;
mod variants;

use std::fs::File;
use std::io::{self, BufReader};
use std::process::ExitCode;

use lookalike_hamming::{Neighbour, Touched};
use lookalike_hash::{Hash, Word};

use bits::Bits;
use design::{Built, Design, MOST_K};
use measure::Bench;

const USAGE: &str = "\
Usage: plans FILE [K] [MIB]

  FILE  stored hashes of 64 or 128 bits: each line begins with the digits of one; - is standard input;
        random:COUNT takes so many random hashes of 64 bits
  K     the largest distance of a match, 0 to 31; 3 if it is not given
  MIB   the memory for a plan; 1024 if it is not given. Plans that need more are not run";

/// The number of queries that are drawn. Fewer would stay in the cache with all the memory that they read.
const DRAWN: usize = 200_000;

/// The command line.
#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    file: String,
    k: u32,
    /// In bytes.
    memory: u64,
}

impl Arguments {
    /// `None` if they are wrong.
    fn of(words: &[&str]) -> Option<Arguments> {
        let (file, k, mib) = match *words {
            [file] => (file, "3", "1024"),
            [file, k] => (file, k, "1024"),
            [file, k, mib] => (file, k, mib),
            _ => return None,
        };
        let k = k.parse().ok().filter(|k| *k <= MOST_K)?;
        let memory = mib.parse::<u64>().ok()?.checked_mul(1 << 20)?;
        (file == "-" || !file.starts_with('-')).then(|| Arguments { file: file.to_owned(), k, memory })
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(arguments) = Arguments::of(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&arguments) {
        Ok(table) => {
            print!("{table}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("plans: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<String, String> {
    let stored = stored(&arguments.file)?;
    match stored.first().map_or(0, |hash| hash.width().bits()) {
        64 => compare::<u64>(arguments, &stored),
        128 => compare::<u128>(arguments, &stored),
        bits => Err(format!("the plans are for hashes of 64 or 128 bits; these have {bits}")),
    }
}

/// The hashes that the command line names.
fn stored(file: &str) -> Result<Vec<Hash>, String> {
    if file == "-" {
        return read::hashes("standard input", io::stdin().lock());
    }
    if let Some(count) = file.strip_prefix("random:") {
        let count = count.parse::<u32>().ok().filter(|count| *count > 0);
        let count = count.ok_or_else(|| format!("{file}: a number above 0 follows the colon"))?;
        return Ok(sample::random_hashes::<u64>(count as usize).into_iter().map(Word::to_hash).collect());
    }
    let opened = File::open(file).map_err(|error| format!("{file}: {error}"))?;
    read::hashes(file, BufReader::new(opened))
}

/// Measures every plan. Returns the table of what was measured.
fn compare<W: Bits>(arguments: &Arguments, stored: &[Hash]) -> Result<String, String> {
    let k = arguments.k;
    let hashes = read::distinct::<W>(stored);
    let asked = sample::queries(&hashes, DRAWN, k);
    let bench = Bench::new(&hashes, &asked, k);
    let mut rows = Vec::new();
    for design in Design::all(k) {
        eprintln!("{}: {}", design.name(), design.description(k, W::WIDTH.bits()));
        let outcome = match design.refusal(&hashes, k, arguments.memory) {
            Some(refusal) => Err(refusal),
            None => Ok(bench.measure(design)?),
        };
        rows.push((design, outcome));
    }
    Ok(table::table(&bench, stored.len(), &rows))
}
