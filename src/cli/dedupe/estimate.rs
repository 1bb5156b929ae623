//! `--dry-run`: how many documents the files have, and what a run needs, from the beginning of each file.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::Failure;
use super::inputs::Inputs;
use super::keep::Keep;
use super::reader::Reader;
use super::record::Maker;
use crate::wording::counted;

/// The records that are read from a file.
const SAMPLED: u64 = 500;
/// The files that are read; the others count like their mean.
const FILES: usize = 100;
/// The bytes of the index and of the table of numbers for each kept document: for hashes of 64, 128 and 256
/// bits, and for signatures (docs/performance.md).
const INDEX_BYTES: [u64; 4] = [54, 183, 620, 1_240];

/// Prints the estimate.
pub(super) fn print(inputs: &Inputs, maker: &Maker) {
    let (mut records, mut bytes) = (0_u64, 0_u64);
    for input in inputs.files.iter().take(FILES) {
        let reader = Reader {
            inputs: std::slice::from_ref(input),
            maker,
            known: 0,
            threads: 1,
            passed: Arc::default(),
        };
        let mut count = 0;
        let is_enough = || Failure::new(String::new());
        let read = reader.each_raw(|raw| {
            count += u64::from(raw.content.is_record());
            if count >= SAMPLED { Err(is_enough()) } else { Ok(()) }
        });
        records += count;
        // The reader is ahead of the records; of a file that ends early it has read all bytes.
        let passed = reader.passed.load(Ordering::Relaxed);
        bytes += if read.is_ok() { input.state.bytes } else { passed };
    }
    let documents = (records as f64 * inputs.bytes() as f64 / bytes.max(1) as f64).round() as u64;
    let sizes = maker.sizes;
    let own = (sizes.hash + sizes.signature + sizes.sketch) as u64;
    let index = match (sizes.signature, sizes.hash) {
        (0, 8) => INDEX_BYTES[0],
        (0, 16) => INDEX_BYTES[1],
        (0, _) => INDEX_BYTES[2],
        _ => INDEX_BYTES[3],
    };
    // Two passes hold a key, a place in the order and a decision for each document.
    let of_order = if maker.keep == Keep::FIRST { 0 } else { 25 };
    let memory = documents * (own + index + of_order);
    let disk = documents * (own + 21 + 8 + 13 + 20);
    // The nouns are labels of a column of numbers, and stay in the plural.
    println!("{:>12}  files, {}", inputs.files.len(), counted(inputs.bytes(), "byte"));
    println!("{documents:>12}  documents, estimated from {records}");
    println!("{:>12}  MiB of memory if all are kept", memory.div_ceil(1 << 20));
    println!("{:>12}  MiB of working files, besides the output", disk.div_ceil(1 << 20));
}
