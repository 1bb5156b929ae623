//! Reads lines of a hash and a weight, and prints which hashes are kept if the heaviest of near ones is:
//!
//! ```sh
//! printf '%s\n' '00000000000000ff 10' '00000000000000fe 20' | cargo run -p lookalike-corpus --example keep
//! ```

use std::error::Error;
use std::io::{self, BufRead};

use lookalike_corpus::{Decision, Documents, Kept, Print, visiting_order};
use lookalike_hash::{Hash, Width};

/// The largest distance of two copies, in bits.
const K: u32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (hash, weight) = line.split_once(' ').ok_or("a line is a hash, a space and a weight")?;
        rows.push((hash.parse::<Hash>()?, weight.parse::<u64>()?));
    }
    for (decision, (hash, _)) in decided(&rows).iter().zip(&rows) {
        match decision {
            Decision::Kept => println!("{hash} is kept"),
            Decision::Dropped { by, distance } => {
                println!("{hash} is {distance} bits from {}", rows[*by as usize].0);
            }
        }
    }
    Ok(())
}

/// The decision about each row, in the order of the rows.
fn decided(rows: &[(Hash, u64)]) -> Vec<Decision> {
    let print = |(hash, _): &(Hash, u64)| Print { hash: *hash, signature: vec![], sketch: vec![] };
    let prints: Vec<Print> = rows.iter().map(print).collect();
    // The smallest key is visited first.
    let keys: Vec<u64> = rows.iter().map(|(_, weight)| u64::MAX - weight).collect();
    let order = visiting_order(&keys);
    let named: Vec<(u32, &Print)> = order.iter().map(|row| (*row, &prints[*row as usize])).collect();
    let visited = Kept::like(&Documents::new(Width::Bits64, None, K, None)).visit_all(&named, 1);
    let mut of_rows: Vec<_> = order.iter().zip(visited).collect();
    of_rows.sort_by_key(|(row, _)| **row);
    of_rows.into_iter().map(|(_, decision)| decision).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_of_near_hashes_is_kept() {
        let rows = [(0xff, 10), (0xfe, 20), (0xffff_0000, 1)].map(|(hash, at)| (Hash::from_u64(hash), at));
        let expected = [Decision::Dropped { by: 1, distance: 1 }, Decision::Kept, Decision::Kept];
        assert_eq!(decided(&rows), expected);
    }
}
