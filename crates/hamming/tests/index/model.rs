//! Compares sequences of operations with a plain set, through growth, removals and migrations of the layout.

use std::collections::BTreeSet;

use lookalike_hamming::{Filed, Index, Neighbour};
use lookalike_hash::U256;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, u16),
    InsertMany(u8, u16, u16),
    Remove(u8, u16),
    RemoveMany(u8, u16, u16),
    Ask(u8, u16, u32, u64),
    List,
}

fn step() -> impl Strategy<Value = Step> {
    let many = 1u16..900;
    prop_oneof![
        3 => (0u8..4, 0u16..600).prop_map(|(kind, number)| Step::Insert(kind, number)),
        2 => (0u8..4, 0u16..600, many.clone())
            .prop_map(|(kind, from, count)| Step::InsertMany(kind, from, count)),
        2 => (0u8..4, 0u16..600).prop_map(|(kind, number)| Step::Remove(kind, number)),
        1 => (0u8..4, 0u16..600, many).prop_map(|(kind, from, count)| Step::RemoveMany(kind, from, count)),
        4 => (0u8..4, 0u16..600, 0u32..36, any::<u64>())
            .prop_map(|(kind, number, k, flips)| Step::Ask(kind, number, k, flips)),
        1 => Just(Step::List),
    ]
}

/// A hash of a kind: evenly spread, consecutive, with a shared block, or near a centre.
fn narrow(kind: u8, number: u16) -> u64 {
    let number = u64::from(number);
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    match kind {
        0 => spread ^ spread >> 31,
        1 => number,
        2 => 0x1234 << 32 | spread & !(0xffff << 32),
        _ => 0x0f0f_3355_aa11_77ee ^ (1 << (number % 64)) ^ (1 << (number / 64 % 64)),
    }
}

fn wide(kind: u8, number: u16) -> u128 {
    match kind {
        1 => u128::from(number),
        _ => u128::from(narrow(kind, number)) << 64 | u128::from(narrow(kind, number ^ 0x55)),
    }
}

fn wider(kind: u8, number: u16) -> U256 {
    U256::from(wide(kind, number)) << 71 | U256::from(narrow(kind, number ^ 0x1f))
}

fn run<W: Filed>(
    hash: impl Fn(u8, u16) -> W,
    flip: impl Fn(u64) -> W,
    limit: usize,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let index = Index::<W>::with_limit(limit);
    let mut model = BTreeSet::new();
    for step in steps {
        match *step {
            Step::Insert(kind, number) => {
                let hash = hash(kind, number);
                prop_assert_eq!(index.insert(hash), model.insert(hash));
            }
            Step::InsertMany(kind, from, count) => {
                let all: Vec<W> = (from..from + count).map(|number| hash(kind, number)).collect();
                let new = all.iter().filter(|hash| model.insert(**hash)).count();
                prop_assert_eq!(index.insert_all(all), new);
            }
            Step::Remove(kind, number) => {
                let hash = hash(kind, number);
                prop_assert_eq!(index.remove(hash), model.remove(&hash));
            }
            Step::RemoveMany(kind, from, count) => {
                for number in from..from + count {
                    let hash = hash(kind, number);
                    prop_assert_eq!(index.remove(hash), model.remove(&hash));
                }
            }
            Step::Ask(kind, number, k, flips) => {
                let query = hash(kind, number) ^ flip(flips);
                let mut found = Vec::new();
                index.within(query, k, &mut found);
                found.sort_unstable();
                let mut expected: Vec<Neighbour<W>> = model
                    .iter()
                    .map(|&hash| Neighbour { distance: (hash ^ query).ones(), hash })
                    .filter(|near| near.distance <= k)
                    .collect();
                expected.sort_unstable();
                prop_assert_eq!(found, expected, "k = {}", k);
                prop_assert_eq!(index.contains(query), model.contains(&query));
            }
            Step::List => {
                let mut listed = Vec::new();
                index.for_each_sorted_run(|run| listed.extend_from_slice(run));
                prop_assert!(listed.iter().eq(model.iter()));
                let mut counts = vec![0; W::WIDTH.bits() as usize + 1];
                index.distances(hash(0, 7), &mut counts);
                prop_assert_eq!(counts.iter().sum::<u64>(), model.len() as u64);
            }
        }
        prop_assert_eq!(index.len(), model.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn an_index_is_a_set(steps in vec(step(), 1..80), limit in 0usize..100) {
        run(narrow, |flips| flips & flips >> 7 & flips >> 19, limit, &steps)?;
        run(wide, |flips| u128::from(flips & flips >> 9) << 31, limit, &steps)?;
        run(wider, |flips| U256::from(flips & flips >> 5) << 90, limit, &steps)?;
    }
}
