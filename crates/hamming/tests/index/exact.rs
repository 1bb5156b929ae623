//! Compares the index with the scan: random, clustered and adversarial sets, all widths, every k, every
//! split.

use lookalike_hamming::{Filed, Form, Index, Neighbour, scan};
use lookalike_hash::{U256, Word};
use proptest::collection::vec;
use proptest::prelude::*;

/// An evenly spread hash for each number (`SplitMix`: Steele, Lea and Flood, OOPSLA 2014).
fn spread(number: u64) -> u64 {
    let weyl = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (weyl ^ (weyl >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The hash that differs from `centre` in the bits of `flips`.
fn around(centre: u128, flips: &[u32]) -> u128 {
    flips.iter().fold(centre, |hash, bit| hash ^ (1 << bit))
}

/// A hash of 256 bits for each of 128: the distances between them stay, or double.
fn long(kind: u8, hash: u128) -> U256 {
    match kind % 3 {
        0 => U256::from(hash) << 128 | U256::from(0x5555_u64),
        1 => U256::from(hash) << 61,
        _ => U256::from(hash) << 128 | U256::from(hash),
    }
}

/// Sets of hashes as they occur: evenly spread, around a few centres, with shared blocks, or with few bits.
fn hashes() -> impl Strategy<Value = Vec<u128>> {
    let even = vec(any::<u128>(), 0..400);
    let clustered = (vec(any::<u128>(), 1..5), vec((any::<usize>(), vec(0u32..128, 0..12)), 0..400))
        .prop_map(|(centres, members)| {
            members.iter().map(|(at, flips)| around(centres[at % centres.len()], flips)).collect()
        });
    let shared_blocks = (any::<u128>(), vec((any::<u16>(), 0u32..8), 0..400)).prop_map(|(base, members)| {
        members.iter().map(|(value, block)| base ^ (u128::from(*value) << (16 * block))).collect()
    });
    let few_bits = vec(vec(0u32..128, 0..3), 0..400)
        .prop_map(|members| members.iter().map(|flips| around(0, flips)).collect());
    prop_oneof![even, clustered, shared_blocks, few_bits]
}

fn sorted<W: Word>(mut found: Vec<Neighbour<W>>) -> Vec<Neighbour<W>> {
    found.sort_unstable();
    found
}

/// An index of `stored` without `removed`, and the same hashes as a plain list.
fn filled<W: Filed>(stored: &[W], removed: &[W]) -> (Index<W>, Vec<W>) {
    // Limits so small that bins are split.
    let limits = [W::LIMIT, 0, 1, 2, 5, 16];
    let index = Index::with_limit(limits[stored.len() % limits.len()]).in_form(some_form(removed.len()));
    let mut list = Vec::new();
    for &hash in stored {
        let new = !list.contains(&hash);
        assert_eq!(index.insert(hash), new);
        if new {
            list.push(hash);
        }
    }
    for hash in removed {
        let there = list.contains(hash);
        assert_eq!(index.remove(*hash), there);
        list.retain(|stored| stored != hash);
    }
    assert_eq!(index.len(), list.len());
    (index, list)
}

/// A form that this processor has.
fn some_form(number: usize) -> Form {
    let forms: Vec<Form> = Form::ALL.into_iter().filter(|form| form.is_supported()).collect();
    forms[number % forms.len()]
}

/// Compares the answers of `within` and of the index's own scan with the oracle.
fn check<W: Filed>(index: &Index<W>, list: &[W], query: W, k: u32) -> Result<(), TestCaseError> {
    let mut expected = Vec::new();
    scan(list, query, k, &mut expected);
    let expected = sorted(expected);
    let ways: [&dyn Fn(&mut Vec<Neighbour<W>>); 2] = [
        &|found| {
            index.within(query, k, found);
        },
        &|found| {
            index.scan(query, k, found);
        },
    ];
    for way in ways {
        let mut found = Vec::new();
        way(&mut found);
        prop_assert_eq!(sorted(found), expected.clone(), "k = {}", k);
    }
    Ok(())
}

/// A query: a stored hash with some flipped bits if `near` is set, otherwise `seed`.
fn query_near<W: Word>(list: &[W], seed: W, pick: usize, near: bool, mask: W) -> W {
    if near && !list.is_empty() { list[pick % list.len()] ^ mask } else { seed }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_at_64_bits_equals_the_scan(
        stored in hashes(), removed in vec(any::<prop::sample::Index>(), 0..40),
        seed in any::<u64>(), pick in any::<usize>(), near in any::<bool>(), flips in vec(0u32..64, 0..9),
    ) {
        let stored: Vec<u64> = stored.iter().map(|&hash| hash as u64).collect();
        let removed: Vec<u64> =
            if stored.is_empty() { vec![] } else { removed.iter().map(|at| *at.get(&stored)).collect() };
        let (index, list) = filled(&stored, &removed);
        let mask = around(0, &flips) as u64;
        let query = query_near(&list, seed, pick, near, mask);
        for k in 0..=64 {
            check(&index, &list, query, k)?;
        }
    }

    #[test]
    fn every_answer_at_128_bits_equals_the_scan(
        stored in hashes(), removed in vec(any::<prop::sample::Index>(), 0..40),
        seed in any::<u128>(), pick in any::<usize>(), near in any::<bool>(), flips in vec(0u32..128, 0..30),
    ) {
        let removed: Vec<u128> =
            if stored.is_empty() { vec![] } else { removed.iter().map(|at| *at.get(&stored)).collect() };
        let (index, list) = filled(&stored, &removed);
        let query = query_near(&list, seed, pick, near, around(0, &flips));
        for k in (0..=128).step_by(3) {
            check(&index, &list, query, k)?;
        }
    }

    #[test]
    fn every_answer_at_256_bits_equals_the_scan(
        stored in hashes(), removed in vec(any::<prop::sample::Index>(), 0..40), kind in any::<u8>(),
        seed in any::<u128>(), pick in any::<usize>(), near in any::<bool>(), flips in vec(0u32..256, 0..50),
    ) {
        let stored: Vec<U256> = stored.iter().map(|&hash| long(kind, hash)).collect();
        let removed: Vec<U256> =
            if stored.is_empty() { vec![] } else { removed.iter().map(|at| *at.get(&stored)).collect() };
        let (index, list) = filled(&stored, &removed);
        let mask = flips.iter().fold(U256::default(), |mask, bit| mask ^ U256::from(1) << *bit);
        let query = query_near(&list, long(kind, seed), pick, near, mask);
        for k in (0..=256).step_by(5).chain([31]) {
            check(&index, &list, query, k)?;
        }
    }

    /// All radii that cover k give the answer of the scan.
    #[test]
    fn every_split_of_k_is_exact(
        stored in hashes(), k in 0u32..20, cuts in vec(any::<u8>(), 32), kind in any::<u8>(),
        pick in any::<usize>(), flips in vec(0u32..64, 0..12),
    ) {
        let narrow: Vec<u64> = stored.iter().map(|&hash| hash as u64).collect();
        every_split(&narrow, k.min(16), &cuts, pick, around(0, &flips) as u64)?;
        every_split(&stored, k, &cuts, pick, around(0, &flips))?;
        let long_ones: Vec<U256> = stored.iter().map(|&hash| long(kind, hash)).collect();
        every_split(&long_ones, k, &cuts, pick, long(1, around(0, &flips)))?;
    }
}

/// Compares the answer of one split of k over the blocks with the oracle.
fn every_split<W: Filed>(
    stored: &[W],
    k: u32,
    cuts: &[u8],
    pick: usize,
    mask: W,
) -> Result<(), TestCaseError> {
    let (index, list) = filled(stored, &[]);
    let widths = index.blocks();
    let mut radii = vec![-1i8; widths.len()];
    for cut in cuts.iter().take(k as usize + 1) {
        let block = usize::from(*cut) % widths.len();
        // Radii of more than 8 take millions of probes.
        let block = if radii[block] < 8 { block } else { (block + 1) % widths.len() };
        radii[block] += 1;
    }
    let query = query_near(&list, mask, pick, true, mask);
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    scan(&list, query, k, &mut expected);
    prop_assert!(index.within_radii(&radii, query, k, &mut found).is_some());
    prop_assert_eq!(sorted(found), sorted(expected), "radii {:?}", radii);
    let too_few: Vec<i8> = radii.iter().enumerate().map(|(at, radius)| radius - i8::from(at == 0)).collect();
    prop_assert!(index.within_radii(&too_few, query, k, &mut Vec::new()).is_none());
    Ok(())
}

/// The set is so large that position implies all bits of a block, and so skewed that some bins are long.
#[test]
fn a_large_skewed_set_is_exact_at_every_depth() {
    let mut state = 7u64;
    let mut next = || {
        state += 1;
        spread(state)
    };
    let centres: Vec<u64> = (0..50).map(|_| next()).collect();
    let stored: Vec<u64> = (0..120_000)
        .map(|i| match i % 10 {
            0..3 => centres[i % 50] ^ (next() & next() & next() & next()),
            3 => (0xbeef << 48) | (next() >> 16),
            _ => next(),
        })
        .collect();
    let mut list = stored.clone();
    list.sort_unstable();
    list.dedup();
    let indexes =
        [u64::LIMIT, 1, 10, 1_000].map(|limit| Index::<u64>::with_limit(limit).in_form(some_form(limit)));
    for (number, index) in indexes.iter().enumerate() {
        if number == 0 {
            assert_eq!(index.insert_all(stored.iter().copied()), list.len());
        } else {
            assert_eq!(stored.iter().filter(|hash| index.insert(**hash)).count(), list.len());
        }
        assert_eq!(index.len(), list.len());
    }
    for query in [centres[0], centres[7] ^ 5, stored[3], next(), 0, u64::MAX] {
        for k in [0, 1, 3, 4, 7, 8, 11, 15, 16, 24, 63, 64] {
            indexes.iter().for_each(|index| check(index, &list, query, k).unwrap());
        }
    }
    let [_, moving, _, _] = indexes;
    for gone in list.drain(..20_000) {
        assert!(moving.remove(gone) && !moving.remove(gone));
    }
    let more: Vec<u64> = (0..60_000).map(|_| next()).collect();
    assert_eq!(moving.insert_all(more.iter().copied()), more.len());
    list.extend(more);
    for query in [centres[0], list[0], list[119_000], next(), 0, u64::MAX] {
        [0, 3, 7, 12, 40].into_iter().for_each(|k| check(&moving, &list, query, k).unwrap());
    }
}

/// A tenth of the hashes agree in the 16 bits from `shift` on. For any block that these bits fill, a query
/// among those hashes reads about as little as any other query, because the plan probes the other blocks.
#[test]
fn the_plan_avoids_a_value_that_many_blocks_share() {
    for limit in [u64::LIMIT, 8] {
        for shift in [0, 5, 16, 21, 32, 42, 48] {
            let shared = |i: u64| (spread(i) & !(0xffff << shift)) | (0xbeef << shift);
            let index = Index::<u64>::with_limit(limit);
            index.insert_all((0..200_000).map(|i| if i % 10 == 0 { shared(i) } else { spread(i) }));
            for k in 0..3 {
                let mut found = Vec::new();
                let report = index.within(shared(70) ^ ((1 << k) - 1), k, &mut found);
                assert!(found.iter().any(|near| near.hash == shared(70)));
                let read = report.touched.candidates;
                assert!(read < 4_000, "{limit} {shift} k = {k}: {read} candidates by {:?}", report.plan);
            }
        }
    }
}

/// The lists are so long that they are inserted in many batches. They include stored hashes and duplicates.
fn long_lists_with_duplicates<W: Filed>(limit: usize, hash: impl Fn(u64) -> W, flip: impl Fn(W, u32) -> W) {
    let index = Index::<W>::with_limit(limit);
    let mut held = std::collections::BTreeSet::new();
    for (round, (from, to, step)) in
        [(0, 90_000, 1), (40_000, 420_000, 3), (0, 600_000, 2), (0, 600_000, 1)].into_iter().enumerate()
    {
        let mut list: Vec<W> = (from..to).step_by(step).map(&hash).collect();
        list.extend_from_within(list.len() / 3..list.len() / 2);
        let new = list.iter().filter(|hash| held.insert(**hash)).count();
        assert_eq!(index.insert_all(list.iter().copied()), new, "round {round}");
        assert_eq!(index.insert_all(list), 0, "round {round} again");
        for gone in (from..to).step_by(97).map(&hash) {
            assert_eq!(index.remove(gone), held.remove(&gone));
        }
        let mut runs = Vec::new();
        index.for_each_sorted_run(|run| runs.extend_from_slice(run));
        assert!(runs.iter().eq(&held), "round {round}: {} of {}", runs.len(), held.len());
    }
    // Each table must find hashes: the differing bits are in one block after another.
    for &stored in held.iter().step_by(held.len() / 50) {
        for bit in 0..W::WIDTH.bits() {
            let near = Neighbour { distance: 1, hash: stored };
            let mut found = Vec::new();
            index.within(flip(stored, bit), 3, &mut found);
            assert!(found.contains(&near), "{stored:?} by bit {bit}");
            // One bit in each of three blocks: only the table that is probed with radius 1 finds the hash.
            let far = [21, 42]
                .into_iter()
                .fold(flip(stored, bit), |hash, on| flip(hash, (bit + on) % W::WIDTH.bits()));
            let (near, mut found) = (Neighbour { distance: 3, hash: stored }, Vec::new());
            index.within(far, 3, &mut found);
            assert!(found.contains(&near), "{stored:?} by three bits from {bit}");
        }
    }
}

#[test]
fn long_lists_with_duplicates_are_sets_in_every_table() {
    for limit in [u64::LIMIT, 4] {
        long_lists_with_duplicates(limit, spread, |hash, bit| hash ^ 1 << bit);
    }
    let wide = |number| u128::from(spread(number)) << 50 ^ u128::from(number) << 3;
    long_lists_with_duplicates(u128::LIMIT, wide, |hash, bit| hash ^ 1 << bit);
    let wider = |number| long(2, wide(number));
    for limit in [U256::LIMIT, 2] {
        long_lists_with_duplicates(limit, wider, |hash, bit| hash ^ U256::from(1) << bit);
    }
}

/// Entries of 256 bits have a part of the hash. Here whole bins have the same part.
#[test]
fn hashes_of_256_bits_that_differ_where_entries_do_not_reach_are_told_apart() {
    let hash = |number: u64| U256::from(spread(7)) << 90 ^ U256::from(number) << 16;
    let all: Vec<U256> = (0..3_000).map(hash).collect();
    for limit in [U256::LIMIT, 2] {
        let index = Index::with_limit(limit);
        assert_eq!(index.insert_all(all.iter().copied()), all.len());
        let (left, gone) = all.split_at(2_000);
        gone.iter().for_each(|hash| assert!(index.remove(*hash) && !index.contains(*hash)));
        for query in [left[0], left[1_999], gone[5], U256::MAX] {
            [0, 1, 5, 31, 36, 37, 60, 256].into_iter().for_each(|k| check(&index, left, query, k).unwrap());
        }
        assert_eq!(index.insert_all(all.iter().copied()), gone.len());
        all.iter().for_each(|hash| assert!(index.remove(*hash)));
        assert!(index.is_empty());
    }
}

#[test]
fn sorted_runs_are_the_stored_hashes_in_order() {
    let index = Index::<u128>::new();
    let mut list: Vec<u128> =
        (0..5_000u128).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_0c62)).collect();
    list.iter().for_each(|&hash| {
        index.insert(hash);
    });
    let mut runs = Vec::new();
    index.for_each_sorted_run(|run| runs.extend_from_slice(run));
    list.sort_unstable();
    assert_eq!(runs, list);
}

#[test]
fn a_collection_of_a_few_documents_costs_kilobytes() {
    let (narrow, wide, wider) = (Index::<u64>::new(), Index::<u128>::new(), Index::<U256>::new());
    for number in 1..=20u64 {
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        narrow.insert(hash);
        wide.insert(u128::from(hash) << 64 | u128::from(!hash));
        wider.insert(U256::from_words([hash, !hash, number, hash]));
    }
    assert!(narrow.bytes() < 20 << 10, "{} bytes", narrow.bytes());
    assert!(wide.bytes() < 64 << 10, "{} bytes", wide.bytes());
    assert!(wider.bytes() < 128 << 10, "{} bytes", wider.bytes());
}
