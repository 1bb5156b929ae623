//! The index of `MinHash` signatures compared with `gaoya`, with the same signatures and queries.

use std::time::Instant;

use gaoya::minhash::MinHashIndex;
use lookalike_hamming::Bands;
use lookalike_hash::{Hash, SignatureShape};

use crate::data::Even;
use crate::rounds::{ROUNDS, median, ratio};

const BANDS: usize = 50;
const ROWS: usize = 4;
const LEAST: f64 = 0.5;
/// The number of documents of one original, copies included. 40 to 100 % of the minima of a copy agree with
/// the original.
const COPIES: usize = 5;
const ASKED: usize = 20_000;

pub fn report(count: usize) {
    println!(
        "\n## {count} MinHash signatures, {BANDS} bands of {ROWS} minima, similarity {LEAST} and more\n"
    );
    let signatures = signatures(count);
    // This index stores one byte of each minimum; the peer stores whole minima.
    let bytes: Vec<Vec<u8>> =
        signatures.iter().map(|all| all.iter().map(|minimum| *minimum as u8).collect()).collect();
    let start = Instant::now();
    let shape = SignatureShape::of_minima(BANDS as u16, ROWS as u16).expect("a shape");
    let own = Bands::new(shape);
    for (number, signature) in bytes.iter().enumerate() {
        own.insert(Hash::from_u128(number as u128), signature);
    }
    let own_rate = count as f64 / start.elapsed().as_secs_f64() / 1e3;
    let start = Instant::now();
    let mut peer: MinHashIndex<u32, u32> = MinHashIndex::new(BANDS, ROWS, LEAST);
    for (number, signature) in (0..).zip(&signatures) {
        peer.insert(number, signature.clone());
    }
    let peer_rate = count as f64 / start.elapsed().as_secs_f64() / 1e3;
    let (mut own_figures, mut peer_figures, mut found) = (vec![], vec![], [0, 0]);
    for round in 0..ROUNDS {
        let asked: Vec<usize> =
            Even::seeded(round as u64 + 7).take(ASKED).map(|at| at as usize % count).collect();
        let start = Instant::now();
        let mut near = Vec::new();
        asked.iter().for_each(|at| _ = own.within(&bytes[*at], shape.distance_for(LEAST), &mut near));
        found[0] = near.len();
        own_figures.push(start.elapsed().as_nanos() as f64 / ASKED as f64);
        let start = Instant::now();
        found[1] =
            asked.iter().map(|at| peer.query_owned_return_similarity(&signatures[*at]).len()).sum::<usize>();
        peer_figures.push(start.elapsed().as_nanos() as f64 / ASKED as f64);
        // One byte in 256 agrees by chance, which the estimate from bytes subtracts. Whole minima do not
        // agree by chance. So pairs directly at the threshold may be found by one of the two only.
        assert!(found[0].abs_diff(found[1]) * 100 < found[1], "both find the same: {found:?}");
    }
    let per_query = found.map(|found| found as f64 / ASKED as f64);
    println!("| | ns a query | found | thousand inserts/s |\n|---|---|---|---|");
    println!("| lookalike | {:.0} | {:.2} | {own_rate:.0} |", median(own_figures.clone()), per_query[0]);
    println!("| gaoya | {:.0} | {:.2} | {peer_rate:.0} |", median(peer_figures.clone()), per_query[1]);
    println!("\ngaoya ÷ lookalike: {:.2}", ratio(&peer_figures, &own_figures));
    println!("Bytes a signature, its 200 of minima included: {:.0}", own.bytes() as f64 / count as f64);
}

fn signatures(count: usize) -> Vec<Vec<u32>> {
    let mut even = Even::seeded(11);
    let mut next = move || even.next().unwrap_or_default();
    let mut all: Vec<Vec<u32>> = Vec::with_capacity(count);
    for number in 0..count {
        let copy = number % COPIES;
        let mut signature: Vec<u32> = (0..BANDS * ROWS).map(|_| next() as u32).collect();
        if copy > 0 {
            let (original, kept) = (&all[number - copy], 40 + next() % 61);
            for (minimum, original) in signature.iter_mut().zip(original) {
                if next() % 100 < kept {
                    *minimum = *original;
                }
            }
        }
        all.push(signature);
    }
    all
}
