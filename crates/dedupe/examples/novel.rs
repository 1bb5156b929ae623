//! Prints the lines of standard input that resemble no earlier line, and names the others on standard error:
//! `cargo run --release -p lookalike-dedupe --example novel <FILE`.

use std::io::{self, BufRead, Write};

use lookalike_dedupe::NearMap;
use lookalike_text::fingerprint::Profile;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let profile = Profile::named("short-128").expect("it is built in");
    let mut lines = NearMap::new(profile, None)?;
    for (number, line) in (1_u64..).zip(io::stdin().lock().lines()) {
        let line = line?;
        match lines.insert_if_novel(number, &line, ())? {
            None => writeln!(io::stdout(), "{line}")?,
            Some(near) => {
                eprintln!("line {number} resembles line {}, at distance {}", near.id, near.distance);
            }
        }
    }
    Ok(())
}
