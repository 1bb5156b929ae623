//! All pairs of a list of hashes, compared with one lookup for each hash, each on one thread.

use std::hint::black_box;
use std::time::Instant;

use lookalike_hamming::{Index, near_pairs};
use lookalike_hash::Width;

use super::data::{self, Hash, Spread};
use super::grown;
use crate::rounds::{median, ratio, take_turns_in};

/// The most hashes of 128 bits, whose lookups take far longer.
const WIDE_TO: usize = 1_000_000;
/// The rounds of a comparison. Those of millions of hashes take long.
const ROUNDS: usize = 3;

pub fn report(count: usize) {
    println!("\n## All pairs of {count} hashes\n");
    println!(
        "| | k | join, s | a lookup for each hash, s | join ÷ lookups | pairs |\n|---|---|---|---|---|---|"
    );
    for spread in [Spread::Even, Spread::Skewed] {
        row::<u64>(count, spread, Width::Bits64, &[3, 7]);
    }
    if count <= WIDE_TO {
        row::<u128>(count, Spread::Even, Width::Bits128, &[15]);
    }
}

fn row<W: Hash>(count: usize, spread: Spread, width: Width, distances: &[u32]) {
    let mut hashes = data::hashes::<W>(count, spread);
    let index: Index<W> = grown(&hashes);
    hashes.sort_unstable();
    hashes.dedup();
    let mut list = near_pairs(width, None);
    hashes.iter().for_each(|hash| list.push(hash.to_hash(), &[]));
    for &k in distances {
        let (mut joined, mut looked_up) = (0, 0);
        let [join, lookups] = take_turns_in(
            ROUNDS,
            [
                &mut || {
                    let (start, mut found) = (Instant::now(), Vec::new());
                    joined = 0;
                    list.begin(k);
                    while list.step(k, &mut found) {
                        joined += found.drain(..).len();
                    }
                    joined += black_box(&found).len();
                    start.elapsed().as_secs_f64()
                },
                &mut || {
                    let start = Instant::now();
                    looked_up = 0;
                    let mut found = Vec::new();
                    for hash in &hashes {
                        found.clear();
                        index.within(*hash, k, &mut found);
                        looked_up += found.len();
                    }
                    start.elapsed().as_secs_f64()
                },
            ],
        );
        // A lookup finds its own hash, and each pair is found from both sides.
        assert_eq!(2 * joined + hashes.len(), looked_up, "both find the same pairs");
        println!(
            "| {} bits, {} | {k} | {:.2} | {:.2} | {:.2} | {joined} |",
            W::WIDTH.bits(),
            if spread == Spread::Even { "even" } else { "skewed" },
            median(join.clone()),
            median(lookups.clone()),
            ratio(&join, &lookups),
        );
    }
}
