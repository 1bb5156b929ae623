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
    documents.distance(a, b) <= documents.k() && documents.both_pass(a, b)
}

fn decided(documents: &Documents, prints: &[Print], order: &[u32]) -> Vec<Decision> {
    let mut decisions = vec![Decision::Kept; prints.len()];
    let mut kept = Kept::like(documents);
    for &number in order {
        decisions[number as usize] = kept.visit((number, &prints[number as usize]));
    }
    decisions
}

fn named<'a>(prints: &'a [Print], order: &[u32]) -> Vec<Named<'a>> {
    order.iter().map(|number| (*number, &prints[*number as usize])).collect()
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

fn documents(prints: &[Print], width: Width, k: u32, is_checked: bool) -> Documents<'static> {
    let is_near = std::sync::Arc::new(|a: &[u8], b: &[u8]| a == b);
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
            let decisions = decided(&documents, &prints, &order);
            prop_assert_eq!(&decisions, &by_definition(&documents, &order));
            for threads in [1, 3] {
                let together = Kept::like(&documents).visit_all(&named(&prints, &order), threads);
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
        always in 0..20usize, before in 0..120usize, threads in 1..4usize,
    ) {
        let all = documents(&prints, width, k, is_checked);
        let always = always.min(prints.len());
        let rest = visiting_order(&keys[..prints.len()]).into_iter().filter(|name| *name >= always as u32);
        let order: Vec<u32> = (0..always as u32).chain(rest).collect();
        let (documents, before) = (named(&prints, &order), before.clamp(always, prints.len()));
        let visit = |kept: &mut Kept, (place, document): (usize, &Named<'_>)| match place {
            place if place >= always => kept.visit(*document),
            _ => {
                kept.keep(*document);
                Decision::Kept
            }
        };
        let mut kept = Kept::like(&all);
        let mut expected = vec![Decision::Kept; prints.len()];
        for document in documents.iter().enumerate() {
            expected[document.1.0 as usize] = visit(&mut kept, document);
        }
        let mut decisions = Decisions::kept(prints.len());
        let read = |name: u32| Ok::<_, ()>(Some(prints[name as usize].clone()));
        let bounds = Bounds { bytes: most_bytes, threads };
        let all_of_them = Visit { order: Order::Listed(order.clone()), always, before: None };
        let rounds = decide_in_rounds(&all, all_of_them, bounds, read, &mut decisions).unwrap();
        prop_assert_eq!(decisions.iter().collect::<Vec<_>>(), expected.clone());
        let mut begun = Kept::like(&all);
        documents[..before].iter().enumerate().for_each(|document| _ = visit(&mut begun, document));
        let mut decisions = Decisions::kept(prints.len());
        let rest = order[before..].to_vec();
        let visit = Visit { order: Order::Listed(rest.clone()), always: 0, before: Some(begun) };
        decide_in_rounds(&all, visit, bounds, read, &mut decisions).unwrap();
        prop_assert!(rest.iter().all(|name| decisions.get(*name) == expected[*name as usize]));
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
        prop_assert_eq!(neighbour_counts(&all, &names, bounds, read).unwrap(), expected);
    }

    #[test]
    fn components_are_those_of_all_chains(
        (width, prints) in any_width(), k in 0..12u32, keys in prop::collection::vec(0..9u64, 120),
        is_checked: bool, bounds in any_bounds(),
    ) {
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
        prop_assert_eq!(linked(&documents, &order, bounds, read).unwrap(), expected);
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

/// Signatures that are copies of earlier ones with some cells changed, with their names.
fn signatures(count: u128, cells: usize, random: &mut fastrand::Rng) -> Vec<Print> {
    let mut prints: Vec<Print> = Vec::new();
    for number in 0..count {
        let mut signature: Vec<u8> = match prints.len() {
            0..20 => (0..cells).map(|_| random.u8(..)).collect(),
            earlier => prints[random.usize(..earlier)].signature.clone(),
        };
        (0..random.usize(..cells / 2)).for_each(|_| signature[random.usize(..cells)] = random.u8(..));
        prints.push(Print { hash: Hash::from_u128(number), signature, sketch: Vec::new() });
    }
    prints
}

/// One cell per band, so that every pair within k shares a band.
#[test]
fn signatures_that_share_a_band_are_kept_as_defined() {
    let shape = SignatureShape::of_minima(24, 1).unwrap();
    let mut documents = Documents::new(Width::Bits128, Some(shape), 9, None);
    let mut random = fastrand::Rng::with_seed(7);
    let prints = signatures(400, 24, &mut random);
    prints.iter().for_each(|print| _ = documents.push(print));
    let order = visiting_order(&(0..400).map(|_| random.u64(..50)).collect::<Vec<_>>());
    let decisions = decided(&documents, &prints, &order);
    assert_eq!(decisions, by_definition(&documents, &order));
    let together = Kept::like(&documents).visit_all(&named(&prints, &order), 3);
    assert!(order.iter().zip(together).all(|(number, decision)| decisions[*number as usize] == decision));
    let dropped = decisions.iter().filter(|decision| **decision != Decision::Kept).count();
    assert!((100..380).contains(&dropped), "{dropped}");
}

/// The index of the server is the twin: both find the same kept documents, whatever the shape is.
#[test]
fn signatures_are_found_as_the_index_of_hamming_finds_them() {
    let set = |cells, cell_bytes| SignatureShape { cells, cell_bytes, bands: cells, rows: 1, is_set: true };
    let minima = |bands, rows| SignatureShape::of_minima(bands, rows).unwrap();
    let wide = SignatureShape { cells: 7, cell_bytes: 2, bands: 3, rows: 2, is_set: false };
    let mut random = fastrand::Rng::with_seed(45);
    let mut found = 0;
    for shape in [minima(6, 2), minima(3, 4), minima(12, 1), wide, set(3, 2), set(6, 1)] {
        let k = u32::from(shape.cells) - 2;
        let documents = Documents::new(Width::Bits128, Some(shape), k, None);
        let twin = lookalike_hamming::Bands::new(shape);
        let mut kept = Kept::like(&documents);
        for (name, print) in (0..).zip(signatures(700, shape.bytes(), &mut random)) {
            let mut near = Vec::new();
            twin.within(&print.signature, k, &mut near);
            let nearest = near.iter().map(|near| (near.distance, near.hash.low() as u32)).min();
            let expected =
                nearest.map_or(Decision::Kept, |(distance, by)| Decision::Dropped { by, distance });
            assert_eq!(kept.visit((name, &print)), expected, "{shape:?} {name}");
            if nearest.is_none() {
                twin.insert(print.hash, &print.signature);
            }
            found += usize::from(nearest.is_some());
        }
    }
    assert!((500..4_000).contains(&found), "{found}");
}

/// Sets that have one element in common, and one of their own; the last one has also that of the one before.
#[test]
fn sets_are_decided_alike_in_batches_and_rounds_of_any_size() {
    let shape = SignatureShape { cells: 3, cell_bytes: 1, bands: 3, rows: 1, is_set: true };
    let sets: Vec<[u8; 3]> =
        (0..4 * BATCH as u8 - 1).map(|number| [1, 2 * number + 10, 2 * number + 11]).collect();
    let near = [1, sets[sets.len() - 1][1], 9];
    let print = |(hash, set): (u128, &[u8; 3])| Print {
        hash: Hash::from_u128(hash),
        signature: set.to_vec(),
        sketch: Vec::new(),
    };
    let prints: Vec<Print> = (0..).zip(sets.iter().chain([&near])).map(print).collect();
    assert!(sets.len() > SignatureShape::MAX_SHARED);
    let documents = Documents::new(Width::Bits128, Some(shape), 1, None);
    let numbers: Vec<u32> = (0..prints.len() as u32).collect();
    let expected = vec![Decision::Kept; numbers.len()];
    for size in [1, 2, BATCH, numbers.len()] {
        let mut kept = Kept::like(&documents);
        let decided = numbers.chunks(size).flat_map(|numbers| kept.visit_all(&named(&prints, numbers), 2));
        assert_eq!(decided.collect::<Vec<_>>(), expected, "batches of {size}");
    }
    let mut decisions = Decisions::kept(prints.len());
    let visit = Visit { order: Order::Ascending(0..prints.len() as u32), always: 0, before: None };
    let read = |name: u32| Ok::<_, ()>(Some(prints[name as usize].clone()));
    let bounds = Bounds { bytes: 0, threads: 2 };
    decide_in_rounds(&documents, visit, bounds, read, &mut decisions).unwrap();
    assert_eq!(decisions.iter().collect::<Vec<_>>(), expected);
}
