//! Every function against its definition, on random hashes and signatures with near copies.

use proptest::prelude::*;

use super::kept::BATCH;
use super::*;
use lookalike_hash::{Hash, SignatureShape, U256, Width};

/// The definition of the result: visits in order and compares with every kept document.
fn by_definition(documents: &Documents, order: &[u32]) -> Vec<Decision> {
    let mut decisions = vec![Decision::Kept; documents.len() as usize];
    let mut kept: Vec<u32> = Vec::new();
    for &number in order {
        let near = kept.iter().filter(|other| is_near(documents, number, **other));
        match near.map(|other| (documents.distance(number, *other), *other)).min() {
            Some((distance, by)) => decisions[number as usize] = Decision::Dropped { by, distance },
            None => kept.push(number),
        }
    }
    decisions
}

fn is_near(documents: &Documents, a: u32, b: u32) -> bool {
    documents.distance(a, b) <= documents.k() && documents.passes(a, b)
}

fn decided(documents: &Documents, order: &[u32]) -> Vec<Decision> {
    let mut decisions = vec![Decision::Kept; documents.len() as usize];
    let mut kept = Kept::none_of(documents);
    for &number in order {
        decisions[number as usize] = kept.visit(documents, number);
    }
    decisions
}

/// Hashes that are copies of earlier ones with a few bits changed, or new.
fn prints(width: Width) -> impl Strategy<Value = Vec<Print>> {
    let one =
        (any::<u128>(), any::<prop::sample::Index>(), prop::collection::vec(0..width.bits(), 0..9), 0..4u8);
    prop::collection::vec((one, 0..3u8), 1..120).prop_map(move |seeds| {
        let mut values: Vec<U256> = Vec::new();
        let new_value = |new: u128| match width {
            Width::Bits64 => U256::from(new as u64),
            Width::Bits128 => U256::from(new),
            Width::Bits256 => U256::from(new) << 128 | U256::from(!new),
        };
        let mut prints = Vec::new();
        for ((new, at, bits, kind), sketch) in seeds {
            let value = match kind {
                0 => new_value(new),
                _ if values.is_empty() => new_value(new),
                _ => bits
                    .iter()
                    .fold(values[at.index(values.len())], |value, bit| value ^ U256::from(1) << *bit),
            };
            values.push(value);
            let hash = match width {
                Width::Bits64 => Hash::from_u64(value.low()),
                Width::Bits128 => Hash::from_u128(value.low_128()),
                Width::Bits256 => Hash::from_u256(value),
            };
            prints.push(Print { hash, signature: Vec::new(), sketch: vec![sketch] });
        }
        prints
    })
}

fn documents(prints: &[Print], width: Width, k: u32, is_checked: bool) -> Documents {
    let is_near = Box::new(|a: &[u8], b: &[u8]| a == b);
    let mut documents = Documents::new(width, None, k, is_checked.then_some(Check { bytes: 1, is_near }));
    prints.iter().for_each(|print| _ = documents.push(print));
    documents
}

fn any_width() -> impl Strategy<Value = (Width, Vec<Print>)> {
    prop::sample::select(&Width::ALL[..]).prop_flat_map(|width| (Just(width), prints(width)))
}

/// Memory for one document, for some, and for all.
fn any_bounds() -> impl Strategy<Value = Bounds> {
    let bytes = prop_oneof![Just(0), 10_000..60_000usize, Just(usize::MAX)];
    (bytes, 1..4usize).prop_map(|(bytes, threads)| Bounds { bytes, threads })
}

proptest! {
    #[test]
    fn documents_are_kept_as_defined(
        (width, prints) in any_width(), k in 0..12u32, keys in prop::collection::vec(0..9u64, 120),
        is_checked: bool,
    ) {
        let documents = documents(&prints, width, k, is_checked);
        for order in [visiting_order(&vec![0; prints.len()]), visiting_order(&keys[..prints.len()])] {
            let decisions = decided(&documents, &order);
            prop_assert_eq!(&decisions, &by_definition(&documents, &order));
            for threads in [1, 3] {
                let together = Kept::none_of(&documents).visit_all(&documents, &order, threads);
                let expected = order.iter().map(|number| decisions[*number as usize]);
                prop_assert_eq!(together, expected.collect::<Vec<_>>());
            }
            let kept: Vec<u32> =
                (0..documents.len()).filter(|n| decisions[*n as usize] == Decision::Kept).collect();
            for (at, a) in kept.iter().enumerate() {
                prop_assert!(kept[..at].iter().all(|b| !is_near(&documents, *a, *b)));
            }
        }
    }

    #[test]
    fn rounds_decide_as_one_pass_does(
        (width, prints) in any_width(), k in 0..12u32, keys in prop::collection::vec(0..9u64, 120),
        is_checked: bool, most_bytes in prop_oneof![Just(0), 10_000..60_000usize, Just(usize::MAX)],
        always in 0..20usize, threads in 1..4usize,
    ) {
        let all = documents(&prints, width, k, is_checked);
        let always = always.min(prints.len());
        let rest = visiting_order(&keys[..prints.len()]).into_iter().filter(|name| *name >= always as u32);
        let order: Vec<u32> = (0..always as u32).chain(rest).collect();
        let mut expected = vec![Decision::Kept; prints.len()];
        let mut kept = Kept::none_of(&all);
        for (place, &number) in order.iter().enumerate() {
            if place < always {
                kept.keep(&all, number);
            } else {
                expected[number as usize] = kept.visit(&all, number);
            }
        }
        let mut decisions = vec![Decision::Kept; prints.len()];
        let read = |name: u32| Ok::<_, ()>(prints[name as usize].clone());
        let mut held = documents(&[], width, k, is_checked);
        let bounds = Bounds { bytes: most_bytes, threads };
        let rounds = decide_in_rounds(&mut held, (&order, always), bounds, read, &mut decisions).unwrap();
        prop_assert_eq!(decisions, expected);
        prop_assert!(most_bytes != 0 || rounds > 1 || prints.len() <= BATCH);
    }

    #[test]
    fn neighbours_are_counted_as_defined(
        (width, prints) in any_width(), k in 0..12u32, is_checked: bool, bounds in any_bounds(),
    ) {
        let all = documents(&prints, width, k, is_checked);
        let near = |a: u32| (0..all.len()).filter(|b| a != *b && is_near(&all, a, *b)).count();
        let expected: Vec<u32> = (0..all.len()).map(|number| near(number) as u32).collect();
        let names: Vec<u32> = (0..all.len()).collect();
        let read = |name: u32| Ok::<_, ()>(prints[name as usize].clone());
        let mut held = documents(&[], width, k, is_checked);
        prop_assert_eq!(neighbour_counts(&mut held, &names, bounds, read).unwrap(), expected);
    }

    #[test]
    fn components_are_those_of_all_chains(
        (width, prints) in any_width(), k in 0..12u32, keys in prop::collection::vec(0..9u64, 120),
        is_checked: bool, bounds in any_bounds(),
    ) {
        let mut held = documents(&[], width, k, is_checked);
        let documents = documents(&prints, width, k, is_checked);
        let order = visiting_order(&keys[..prints.len()]);
        // The definition: names spread along near pairs until none changes.
        let rank = |number: &u32| order.iter().position(|other| other == number);
        let mut names: Vec<u32> = (0..documents.len()).collect();
        loop {
            let before = names.clone();
            for a in 0..documents.len() {
                for b in 0..documents.len() {
                    if is_near(&documents, a, b) {
                        let least = names[a as usize].min_by_rank(names[b as usize], rank);
                        (names[a as usize], names[b as usize]) = (least, least);
                    }
                }
            }
            if names == before {
                break;
            }
        }
        let expected: Vec<u32> = order.iter().map(|number| names[*number as usize]).collect();
        let read = |name: u32| Ok::<_, ()>(prints[name as usize].clone());
        prop_assert_eq!(linked(&mut held, &order, bounds, read).unwrap(), expected);
    }
}

trait ByRank {
    fn min_by_rank(self, other: u32, rank: impl Fn(&u32) -> Option<usize>) -> u32;
}

impl ByRank for u32 {
    fn min_by_rank(self, other: u32, rank: impl Fn(&u32) -> Option<usize>) -> u32 {
        if rank(&self) <= rank(&other) { self } else { other }
    }
}

#[test]
fn signatures_that_share_a_band_are_kept_as_defined() {
    // One cell per band, so that every pair within k shares a band.
    let shape = SignatureShape::of_minima(24, 1).unwrap();
    let mut documents = Documents::new(Width::Bits128, Some(shape), 9, None);
    let mut random = fastrand::Rng::with_seed(7);
    let mut signatures: Vec<Vec<u8>> = Vec::new();
    for number in 0..400_u128 {
        let mut signature: Vec<u8> = match signatures.len() {
            0..20 => (0..24).map(|_| random.u8(..)).collect(),
            earlier => signatures[random.usize(..earlier)].clone(),
        };
        (0..random.usize(..8)).for_each(|_| signature[random.usize(..24)] = random.u8(..));
        signatures.push(signature.clone());
        documents.push(&Print { hash: Hash::from_u128(number), signature, sketch: Vec::new() });
    }
    let order = visiting_order(&(0..400).map(|_| random.u64(..50)).collect::<Vec<_>>());
    let decisions = decided(&documents, &order);
    assert_eq!(decisions, by_definition(&documents, &order));
    let together = Kept::none_of(&documents).visit_all(&documents, &order, 3);
    assert!(order.iter().zip(together).all(|(number, decision)| decisions[*number as usize] == decision));
    let dropped = decisions.iter().filter(|decision| **decision != Decision::Kept).count();
    assert!((100..380).contains(&dropped), "{dropped}");
}

/// Sets that have one element in common, and one of their own; the last one has also that of the one before.
#[test]
fn sets_are_decided_alike_in_batches_of_any_size() {
    let shape = SignatureShape { cells: 3, cell_bytes: 1, bands: 3, rows: 1, is_set: true };
    let sets: Vec<[u8; 3]> =
        (0..4 * BATCH as u8 - 1).map(|number| [1, 2 * number + 10, 2 * number + 11]).collect();
    let near = [1, sets[sets.len() - 1][1], 9];
    let mut documents = Documents::new(Width::Bits128, Some(shape), 1, None);
    for (number, set) in (0..).zip(sets.iter().chain([&near])) {
        let (hash, signature) = (Hash::from_u128(number), set.to_vec());
        documents.push(&Print { hash, signature, sketch: Vec::new() });
    }
    assert!(sets.len() > SignatureShape::MAX_SHARED);
    let numbers: Vec<u32> = (0..documents.len()).collect();
    let expected = vec![Decision::Kept; numbers.len()];
    for size in [1, 2, BATCH, numbers.len()] {
        let mut kept = Kept::none_of(&documents);
        let decided = numbers.chunks(size).flat_map(|numbers| kept.visit_all(&documents, numbers, 2));
        assert_eq!(decided.collect::<Vec<_>>(), expected, "batches of {size}");
    }
}
