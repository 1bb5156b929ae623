//! The speed of the machine's memory, which limits the speed of a lookup.

use std::hint::black_box;
use std::time::Instant;

use crate::data::Even;

/// The number of words in the memory that is read: more than any cache holds.
const WORDS: usize = 1 << 26;
const READS: usize = 3_000_000;
const LINE: usize = 8;

pub fn report() {
    let memory: Vec<u64> = Even::seeded(3).take(WORDS).collect();
    let lines = WORDS / LINE;
    let at = |number: u64| (number as usize % lines) * LINE;
    let nanoseconds = |start: Instant| start.elapsed().as_nanos() as f64;
    let start = Instant::now();
    let mut last = 0;
    for _ in 0..READS {
        last = memory[at(last)] ^ (last >> 7);
    }
    let alone = nanoseconds(start) / READS as f64;
    black_box(last);
    let start = Instant::now();
    let sum = Even::seeded(5).take(READS).fold(0u64, |sum, number| sum.wrapping_add(memory[at(number)]));
    let many = nanoseconds(start) / READS as f64;
    black_box(sum);
    let start = Instant::now();
    let sum = memory.iter().step_by(LINE).fold(0u64, |sum, word| sum.wrapping_add(*word));
    let row = nanoseconds(start) / lines as f64;
    black_box(sum);
    println!(
        "The memory of this machine, in this run: a line read alone {alone:.0} ns, many under way {many:.1} \
         ns each,"
    );
    println!("in a row {row:.1} ns each ({:.1} GB/s).", 64.0 / row);
}
