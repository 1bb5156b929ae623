//! Fuzz target for backups: arbitrary bytes as a tar, and arbitrary entries with correct checksums.
#![no_main]

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;
use lookalike_store::backup::{self, BackupError, Item};
use xxhash_rust::xxh3::xxh3_64;

fn read(tar: &[u8]) {
    let (mut last, mut last_mark) = (None, None);
    let take = |item| {
        match item {
            Item::Document(id, _) => {
                assert!(last.as_ref().is_none_or(|last| *last < id) && last_mark.is_none(), "out of order");
                last = Some(id);
            }
            Item::Mark(mark, _) => {
                assert!(last_mark.as_ref().is_none_or(|last| *last < mark), "marks do not ascend");
                last_mark = Some(mark);
            }
        }
        Ok::<_, BackupError>(())
    };
    let _ = backup::read(tar, backup::LINE_BYTES, |_| Ok(()), take);
}

/// A backup with this manifest and these lines, and correct checksums.
fn with_checksums(manifest: &[u8], lines: &[u8]) -> Vec<u8> {
    let mut compressed = GzEncoder::new(Vec::new(), Compression::none());
    compressed.write_all(lines).expect("memory");
    let compressed = compressed.finish().expect("memory");
    let documents = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    let part = "documents/00000001.ndjson.gz";
    let checksum = |bytes: &[u8]| format!("{:016x}", xxh3_64(bytes));
    let end = serde_json::json!({
        "manifest_xxh3": checksum(manifest), "documents": documents,
        "parts": [{
            "name": part, "bytes": compressed.len(), "documents": documents, "xxh3": checksum(&compressed),
        }],
    });
    let end = end.to_string().into_bytes();
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in [("manifest.json", manifest), (part, &compressed), ("end.json", &end)] {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, bytes).expect("memory");
    }
    tar.into_inner().expect("memory")
}

const MANIFEST: &str = "{\"format\":\"lookalike backup\",\"version\":1,\"software\":\"x\",\
    \"collection\":\"news\",\"settings\":{\"profile\":\"copies-64@1\",\"bits\":64,\"signatures\":null,\
    \"k\":7,\"threshold\":null,\"sketch_bytes\":null,\"grams\":null,\"clusters\":null,\
    \"keep_text\":true,\"expires_in\":null},\"created_ms\":1,\"sequence\":3,\"taken_ms\":2}";

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => read(bytes),
        1 => read(&with_checksums(bytes, b"")),
        _ => read(&with_checksums(MANIFEST.as_bytes(), bytes)),
    }
});
