//! Fuzz target for images: arbitrary bytes after the beginning of each format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lookalike_images::{Header, Pdq, phash_64};

const BEGINNINGS: [&[u8]; 4] = [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF\xff\0\0\0WEBP"];

fn hash(file: &[u8]) {
    if let Ok(raster) = Header::read(file, 1 << 20).and_then(Header::decode) {
        let pdq = Pdq::of(&raster);
        assert!(pdq.quality() <= 100 && pdq.dihedral()[0] == pdq.hash());
        phash_64(&raster);
    }
}

fuzz_target!(|bytes: &[u8]| {
    hash(bytes);
    let Some((kind, bytes)) = bytes.split_first() else { return };
    hash(&[BEGINNINGS[usize::from(*kind) % BEGINNINGS.len()], bytes].concat());
});
