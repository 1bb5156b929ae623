//! Fuzz target for snapshots: arbitrary bytes, and arbitrary fields with correct checksums, so that the
//! input reaches the code behind the checksums.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use lookalike_hamming::Progress;
use lookalike_hamming::snapshot;
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

static DIRECTORY: LazyLock<TempDir> =
    LazyLock::new(|| TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a directory"));

/// The remaining input, read from the front. A number beyond its end is 0.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn number(&mut self, bytes: usize) -> u64 {
        self.bytes(bytes).iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }
}

/// A snapshot with the structure of `docs/formats.md`, arbitrary numbers, and correct checksums.
fn with_checksums(mut from: Input<'_>) -> Vec<u8> {
    let mut file = b"lklsnap\n".to_vec();
    let format = 1 + from.number(1) % 3;
    file.extend((format as u32).to_le_bytes());
    file.extend(from.number(2).to_le_bytes());
    let sections = from.number(1) % 4;
    file.extend((sections as u32).to_le_bytes());
    let mut hashes = 0;
    for _ in 0..sections {
        let mut section = Vec::new();
        section.extend((from.number(1) as u32).to_le_bytes());
        let bits: u32 = [64, 128, 0, 7][from.number(1) as usize % 4];
        section.extend(bits.to_le_bytes());
        let profile = from.bytes(from.0.first().map_or(0, |length| usize::from(*length) % 40));
        section.extend((profile.len() as u32).to_le_bytes());
        section.extend(profile);
        file.extend(&section);
        file.extend(xxh3_64(&section).to_le_bytes());
        for _ in 0..from.number(1) % 3 {
            let mut chunk = Vec::new();
            let count = from.number(2) as u32;
            hashes += u64::from(count);
            chunk.extend(count.to_le_bytes());
            if format == 1 {
                let body = from.bytes((count as usize).min(64) * bits as usize / 8);
                file.extend(&chunk);
                file.extend(body);
                file.extend(xxh3_64(body).to_le_bytes());
                continue;
            }
            chunk.push(from.number(1) as u8);
            let length = from.number(1) as usize;
            let first = from.bytes(bits as usize / 8);
            let body = from.bytes(length);
            chunk.extend((body.len() as u32).to_le_bytes());
            chunk.extend(first);
            chunk.extend(body);
            file.extend(&chunk);
            file.extend(xxh3_64(&chunk).to_le_bytes());
        }
        file.extend(0_u32.to_le_bytes());
    }
    if format != 1 {
        let stated = if from.number(1) == 7 { from.number(4) } else { hashes };
        file.extend(stated.to_le_bytes());
    }
    file.extend(from.number(2).to_le_bytes());
    let sum = xxh3_64(&file);
    file.extend(sum.to_le_bytes());
    file
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let file = if kind % 8 == 0 { bytes.to_vec() } else { with_checksums(Input(bytes)) };
    let path = DIRECTORY.path().join("1.snapshot");
    std::fs::write(&path, file).expect("a file");
    let _ = snapshot::load(&path, &Progress::default());
});
