//! What a join finds is held against two nested loops and against lookups.

use std::collections::BTreeSet;

use super::super::erased::{HashIndex, Subject, index_for};
use super::*;
use lookalike_hash::U256;

fn spread(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xd6e8_feb8_6659_fd93) ^ mixed >> 32
}

/// A whole pass, in which k falls to `later` after the first step.
fn pass(pairs: &mut dyn NearPairs, k: u32, later: u32) -> Vec<NearPair> {
    let mut found = Vec::new();
    pairs.begin(k);
    let mut now = k;
    while pairs.step(now, &mut found) {
        now = later;
    }
    let all = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), all, "each pair is found once");
    found
}

/// Groups of hashes within a few bits, many of which begin or end with the same bits.
fn hashes(count: u64, width: Width) -> Vec<Hash> {
    let made = |number: u64| {
        let group = spread(number / 20);
        let flips = (0..number % 20 % 7).fold(0, |all, flip| all ^ 1u64 << (spread(number * 8 + flip) % 64));
        let word = match number / 20 % 4 {
            0 => group << 24,
            1 => group >> 24,
            _ => group,
        } ^ flips;
        match width {
            Width::Bits64 => Hash::from_u64(word),
            Width::Bits128 => Hash::from_u128(u128::from(group) << 64 | u128::from(word)),
            Width::Bits256 => Hash::from_u256(U256::from_words([group, 7, word, group])),
        }
    };
    (0..count).map(made).collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn all_pairs_of_hashes_equal_those_of_two_nested_loops() {
    for width in Width::ALL {
        for count in [0, 1, 2, 3_000] {
            let stored = hashes(count, width);
            let mut pairs = near_pairs(width, None);
            stored.iter().for_each(|hash| pairs.push(*hash, &[]));
            for k in [0, 1, 3, 7, 12, 23, 31, 40, 64, 100, 128, 256] {
                let k = k.min(width.bits());
                let mut expected = Vec::new();
                for (second, b) in stored.iter().enumerate() {
                    for (first, a) in stored[..second].iter().enumerate() {
                        let distance = a.distance(*b).unwrap();
                        if distance <= k {
                            expected.push(NearPair { first: first as u32, second: second as u32, distance });
                        }
                    }
                }
                expected.sort_unstable();
                assert!(pass(&mut *pairs, k, k) == expected, "{count} hashes of {width:?}, k = {k}");
            }
        }
    }
}

#[test]
fn a_pass_of_many_hashes_equals_lookups_and_may_lower_k() {
    let stored = hashes(60_000, Width::Bits64);
    let index = index_for(Width::Bits64, None);
    index.insert_all(&mut stored.iter().copied());
    let mut pairs = near_pairs(Width::Bits64, None);
    stored.iter().for_each(|hash| pairs.push(*hash, &[]));
    for k in [0, 2, 6, 10] {
        let expected = by_lookups(&*index, &stored, &[], 0, k);
        assert!(pass(&mut *pairs, k, k) == expected, "k = {k}");
        let within = |pairs: &[NearPair]| -> Vec<NearPair> {
            pairs.iter().filter(|pair| pair.distance <= k / 2).copied().collect()
        };
        assert!(within(&pass(&mut *pairs, k, k / 2)) == within(&expected), "k = {k}");
    }
}

fn by_lookups(
    index: &dyn HashIndex,
    names: &[Hash],
    signatures: &[u8],
    bytes: usize,
    k: u32,
) -> Vec<NearPair> {
    let mut expected = Vec::new();
    for (first, name) in names.iter().enumerate() {
        let signature = (bytes > 0).then(|| &signatures[first * bytes..][..bytes]);
        let mut near = Vec::new();
        index.within(Subject { hash: *name, signature }, k, &mut near);
        for near in near.iter().filter(|near| near.hash > *name) {
            let second = names.binary_search(&near.hash).unwrap() as u32;
            expected.push(NearPair { first: first as u32, second, distance: near.distance });
        }
    }
    expected.sort_unstable();
    expected
}

#[test]
fn all_pairs_of_signatures_equal_those_of_lookups() {
    let minima = |bands, rows| SignatureShape::of_minima(bands, rows).unwrap();
    let set = SignatureShape { cells: 3, cell_bytes: 8, bands: 3, rows: 1, is_set: true };
    let spare = SignatureShape { bands: 20, ..minima(32, 4) };
    for shape in [minima(50, 4), minima(16, 8), minima(1, 1), spare, set] {
        let bytes = shape.bytes();
        let count = if shape.cells == 1 { 150 } else { 2_000u64 };
        // Sets have common elements, some of more than 20 of them, and each element once.
        let value = |number: u64, cell: u64| match (shape.is_set, spread(number * 300 + cell) % 10) {
            (true, 0..4) => 3 * (1 + spread(number / 6 + cell % 2) % 400) + cell,
            (true, 4) => 3 * spread(number % 2) + cell,
            (false, 0..7) => spread(number / 12 * 300 + cell),
            _ => 3 * spread((number << 20) + cell) + cell,
        };
        let signature = |number: u64| {
            let cells = (0..u64::from(shape.cells)).map(|cell| value(number, cell).to_le_bytes());
            cells.flat_map(|bytes| bytes.into_iter().take(usize::from(shape.cell_bytes))).collect::<Vec<u8>>()
        };
        let distinct: BTreeSet<Vec<u8>> = (0..count).map(signature).collect();
        let signatures: Vec<u8> = distinct.iter().flatten().copied().collect();
        let names: Vec<Hash> = (0..distinct.len() as u128).map(Hash::from_u128).collect();
        let index = index_for(Width::Bits128, Some(shape));
        let mut pairs = near_pairs(Width::Bits128, Some(shape));
        for (name, signature) in names.iter().zip(&distinct) {
            index.announce(*name, signature);
            index.insert(*name);
            pairs.push(*name, signature);
        }
        let most = u32::from(shape.cells) - u32::from(shape.is_set);
        for k in [0, most / 2, most] {
            let expected = by_lookups(&*index, &names, &signatures, bytes, k);
            assert!(k < most || most == 1 || !expected.is_empty(), "there are pairs");
            assert!(pass(&mut *pairs, k, k) == expected, "{shape:?}, k = {k}");
        }
    }
}
