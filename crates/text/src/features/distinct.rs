//! The distinct ones of many digests, in no order, without their counts.
//!
//! Not here: counts and weights (`bag`).

use super::bag::{CROWDED, PROBES, pieces};
use super::digest::Digest;

/// Each digest once.
pub(crate) fn distinct<D: Digest>(mut digests: Vec<D>) -> Vec<D> {
    let mut found = Vec::with_capacity(digests.len());
    for (shared, piece) in pieces(&mut digests) {
        let count = first_of_each(piece, shared).unwrap_or_else(|| sorted(piece));
        found.extend_from_slice(&piece[..count]);
    }
    found
}

/// Moves the first of each digest of a piece to its front and returns their number, by a table of slots as in
/// `bag`. `None` if the digests are too many, or if an attacker must have chosen them; each is still there.
fn first_of_each<D: Digest>(piece: &mut [D], shared: u32) -> Option<usize> {
    if piece.is_empty() || piece.len() > CROWDED {
        return None;
    }
    let bits = (piece.len() * 4).next_power_of_two().ilog2();
    let mut slots = vec![0_u32; 1 << bits];
    let mask = slots.len() - 1;
    let (mut known, mut probes_left) = (0, piece.len() * PROBES);
    for at in 0..piece.len() {
        let digest = piece[at];
        // At or before its own place: what was there is known.
        piece[known] = digest;
        let mut slot = ((digest.top() << shared) >> (64 - bits)) as usize & mask;
        let found = loop {
            // A slot contains the index plus 1, or 0 if it is empty.
            let found = (slots[slot] as usize).wrapping_sub(1).min(known);
            if piece[found] == digest {
                break found;
            }
            probes_left = probes_left.checked_sub(1)?;
            slot = (slot + 1) & mask;
        };
        slots[slot] = found as u32 + 1;
        known += usize::from(found == known);
    }
    Some(known)
}

/// Moves each digest of a piece to its front once and returns their number.
fn sorted<D: Digest>(piece: &mut [D]) -> usize {
    piece.sort_unstable();
    let mut known = 0;
    for at in 0..piece.len() {
        if known == 0 || piece[at] != piece[known - 1] {
            piece[known] = piece[at];
            known += 1;
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{Kind, Limbs};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn is_right(digests: Vec<Limbs<1>>) {
        let mut expected = digests.clone();
        expected.sort_unstable();
        expected.dedup();
        let mut found = distinct(digests);
        found.sort_unstable();
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn each_digest_is_found_once(numbers in vec(0_u64..200, 0..600), spread in any::<bool>()) {
            // Digests that are not evenly distributed collide at one end of the table, and it is abandoned.
            let digest = |n: &u64| if spread { Limbs::<1>::of(Kind::Word, &n.to_string()) } else { [*n] };
            is_right(numbers.iter().map(digest).collect());
        }
    }

    #[test]
    fn many_digests_are_found_in_pieces() {
        is_right((0..300_000_u64).map(|n| Limbs::of(Kind::Word, &(n * n % 99_991).to_string())).collect());
        is_right((0..300_000).map(|n| [n % 70_000]).collect());
        is_right(vec![[7]; 300_000]);
    }

    #[test]
    fn digests_that_collide_are_sorted() {
        let mut crowded: Vec<Limbs<1>> = (0..10_000).map(|low| [low % 9_000]).collect();
        assert!(first_of_each(&mut crowded, 0).is_none());
        assert_eq!(sorted(&mut crowded), 9_000);
    }
}
