//! Prints PDQ, quality and `phash-64` of image files, one line each:
//! `cargo run --release --example pdq FILE…`. With `--times N` first, each is made so often, and the last
//! line has the files a second.

use std::time::Instant;

use lookalike_images::{Header, Pdq, Refusal, phash_64};

/// The most pixels of a file.
const MOST: u64 = 100_000_000;

fn line(file: &[u8]) -> Result<String, Refusal> {
    let raster = Header::read(file, MOST)?.decode()?;
    let pdq = Pdq::of(&raster);
    Ok(format!("{} {} {}", pdq.hash(), pdq.quality(), phash_64(&raster)))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let is_timed = files.first().is_some_and(|first| first == "--times");
    let times = if is_timed { files.drain(..2).next_back().unwrap_or_default().parse()? } else { 1 };
    let mut seconds = 0.0;
    for name in &files {
        let bytes = std::fs::read(name)?;
        let started = Instant::now();
        if is_timed {
            for _ in 0..times {
                std::hint::black_box(Pdq::of(&Header::read(&bytes, MOST)?.decode()?).hash());
            }
        } else {
            println!("{} {name}", line(&bytes).unwrap_or_else(|refusal| refusal.to_string()));
        }
        seconds += started.elapsed().as_secs_f64();
    }
    if is_timed {
        println!("{:.1} files/s", (files.len() * times) as f64 / seconds);
    }
    Ok(())
}

#[test]
fn a_line_has_both_hashes_and_the_quality() {
    let line = line(include_bytes!("../testdata/rings.png")).unwrap();
    let widths: Vec<usize> = line.split(' ').map(str::len).collect();
    assert_eq!(widths, [64, 3, 16], "{line}");
}
