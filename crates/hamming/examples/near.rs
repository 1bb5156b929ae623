//! Stores hashes, finds the near ones of a query, and keeps the index in a file.
//!
//! ```sh
//! cargo run -p lookalike-hamming --example near -- hashes.snapshot
//! ```

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use lookalike_hamming::{Hash, HashIndex, Neighbour, Width, of_width, snapshot};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("Usage: near FILE")?;
    let index = read_or_new(Path::new(&path))?;
    println!("{} hashes are stored", index.len());

    // These may be SimHashes of texts or perceptual hashes of images.
    for digits in ["f550dedebdee462d", "f550dedebdee462c", "0123456789abcdef"] {
        index.insert(digits.parse()?);
    }
    for near in nearest(&*index, "f550dedebdee460d".parse()?, 3) {
        println!("{} at distance {}", near.hash, near.distance);
    }
    snapshot::save(&index, Path::new(&path))?;
    Ok(())
}

/// The index in a file, or an empty one if there is no file.
fn read_or_new(path: &Path) -> Result<Arc<dyn HashIndex>, snapshot::SnapshotError> {
    if path.exists() { snapshot::open(path) } else { Ok(of_width(Width::Bits64)) }
}

/// The stored hashes within `k` bits, the nearest first.
fn nearest(index: &dyn HashIndex, query: Hash, k: u32) -> Vec<Neighbour<Hash>> {
    let mut found = Vec::new();
    index.within(query.into(), k, &mut found);
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hashes.snapshot");
        let index = read_or_new(&path).unwrap();
        assert!(index.is_empty());
        let hashes = [0b0000, 0b0001, 0b0111, 0xff00].map(Hash::from_u64);
        hashes.iter().for_each(|hash| assert!(index.insert(*hash)));
        snapshot::save(&index, &path).unwrap();

        let read = read_or_new(&path).unwrap();
        let found: Vec<_> =
            nearest(&*read, hashes[1], 2).iter().map(|near| (near.distance, near.hash)).collect();
        assert_eq!(found, [(0, hashes[1]), (1, hashes[0]), (2, hashes[2])]);
        index.remove(hashes[0]);
        assert_eq!((index.len(), read.len()), (3, 4), "the file is a copy");
    }
}
