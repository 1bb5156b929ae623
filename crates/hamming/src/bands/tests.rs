//! What the bands find is held against a comparison of all signatures.

use super::*;

const SET: SignatureShape = SignatureShape { cells: 3, cell_bytes: 8, bands: 3, rows: 1, is_set: true };

fn shapes() -> [SignatureShape; 5] {
    let minima = |bands, rows| SignatureShape::of_minima(bands, rows).unwrap();
    let spare = SignatureShape { bands: 20, ..minima(32, 4) };
    [minima(50, 4), minima(16, 8), minima(1, 1), spare, SET]
}

/// Signatures, some of which share cells. A signature is named by its position.
fn signatures(count: u32, shape: SignatureShape) -> Vec<Vec<u8>> {
    let cell = |group: u32, own: u32, row: u32| {
        let shared = (row * 7 + own * 3) % 10 < own % 11;
        let seed = if shared { group } else { group.wrapping_mul(31).wrapping_add(own + 1) << 8 };
        // Each set has its elements in another order.
        let row = if shape.is_set { row.wrapping_add(own) % 3 } else { row };
        let value = u64::from(seed ^ row << 24).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        value.to_le_bytes().into_iter().take(usize::from(shape.cell_bytes))
    };
    (0..count)
        .map(|number| {
            (0..u32::from(shape.cells)).flat_map(|row| cell(number / 12, number % 12, row)).collect()
        })
        .collect()
}

fn name(number: usize) -> Hash {
    Hash::from_u128(number as u128)
}

/// Whether two signatures agree in a band: the definition, for comparison.
fn share_band(shape: SignatureShape, a: &[u8], b: &[u8]) -> bool {
    let band = usize::from(shape.cell_bytes) * usize::from(shape.rows);
    if shape.is_set {
        return a.chunks(band).any(|cell| !is_blank(cell) && b.chunks(band).any(|other| other == cell));
    }
    a.chunks(band).zip(b.chunks(band)).take(usize::from(shape.bands)).any(|(a, b)| a == b)
}

#[test]
fn elements_of_many_signatures_do_not_count() {
    let signature = |cells: [u64; 3]| cells.map(u64::to_le_bytes).concat();
    let index = Bands::new(SET);
    let most = SignatureShape::MAX_SHARED;
    // All share element 1; the first two share 2 as well.
    let all: Vec<Vec<u8>> = (0..=most as u64)
        .map(|number| signature([100 + number, 1, if number < 2 { 2 } else { 200 + number }]))
        .collect();
    let found = |query: &[u8], k| {
        let by_bands = sorted(|found| _ = index.within(query, k, found));
        assert_eq!(sorted(|found| _ = index.scan(query, k, found)), by_bands);
        for near in &by_bands {
            let subject = Subject { hash: name(999), signature: Some(query) };
            assert_eq!(HashIndex::distance(&index, subject, near.hash), Some(near.distance));
        }
        by_bands.iter().map(|near| (near.distance, near.hash.low() as usize)).collect::<Vec<_>>()
    };
    (0..most).for_each(|number| assert!(index.insert(name(number), &all[number])));
    assert_eq!(found(&all[0], 1), [(0, 0), (1, 1)]);
    assert_eq!(found(&all[0], 2).len(), most);
    // One more signature with element 1 makes it a standing phrase, until one is removed.
    index.insert(name(most), &all[most]);
    assert_eq!(found(&all[0], 2), [(0, 0), (2, 1)]);
    assert_eq!(found(&signature([1, 0, 0]), 2), []);
    index.remove(name(5));
    assert_eq!(found(&all[0], 1), [(0, 0), (1, 1)]);
    // Equal signatures are found even if all of their elements are standing phrases.
    (0..=most)
        .for_each(|number| _ = index.insert(name(50 + number), &signature([1, 0, 900 + number as u64])));
    index.insert(name(40), &signature([1, 0, 0]));
    assert_eq!(found(&signature([1, 0, 0]), 2), [(0, 40)]);
}

fn sorted(find: impl FnOnce(&mut Vec<Neighbour<Hash>>)) -> Vec<Neighbour<Hash>> {
    let mut found = Vec::new();
    find(&mut found);
    found.sort_unstable();
    found
}

#[test]
fn signatures_that_share_a_band_are_found_after_insertions_and_removals() {
    let layouts = |shape: SignatureShape| [(shape, BUCKETS_FROM), (shape, 1_500)];
    for (shape, buckets_from) in shapes().into_iter().flat_map(layouts) {
        let all = signatures(if cfg!(miri) { 40 } else { 2_400 }, shape);
        let index = Bands::with_buckets_from(shape, buckets_from);
        for (number, signature) in all.iter().enumerate() {
            assert!(index.insert(name(number), signature) && !index.insert(name(number), signature));
        }
        // A third is removed. Half of that third is inserted again and reuses numbers of others.
        (0..all.len()).step_by(3).for_each(|number| assert!(index.remove(name(number))));
        for number in (0..all.len()).step_by(6).collect::<Vec<_>>().into_iter().rev() {
            index.insert(name(number), &all[number]);
        }
        let is_present = |number: usize| !number.is_multiple_of(3) || number.is_multiple_of(6);
        assert_eq!(index.len(), (0..all.len()).filter(|number| is_present(*number)).count());
        for (subject, query) in all.iter().enumerate().step_by(if cfg!(miri) { 7 } else { 17 }) {
            for k in [0, u32::from(shape.cells) / 2, u32::from(shape.cells)] {
                let near = |in_a_band: bool| -> Vec<Neighbour<Hash>> {
                    let stored = all.iter().enumerate().filter(|(number, _)| is_present(*number));
                    let candidates =
                        stored.filter(|(_, other)| !in_a_band || share_band(shape, query, other));
                    let mut near: Vec<_> = candidates
                        .map(|(number, other)| Neighbour {
                            distance: shape.distance(query, other),
                            hash: name(number),
                        })
                        .filter(|near| near.distance <= k)
                        .collect();
                    near.sort_unstable();
                    near
                };
                assert_eq!(sorted(|found| _ = index.within(query, k, found)), near(true));
                assert_eq!(sorted(|found| _ = index.scan(query, k, found)), near(false));
                if is_present(subject) {
                    let by_name = sorted(|found| {
                        HashIndex::within(&index, name(subject).into(), k, found);
                    });
                    assert_eq!(by_name, near(true));
                }
            }
        }
    }
}

#[test]
fn a_name_is_inserted_with_its_announced_signature() {
    let shape = SignatureShape::of_minima(2, 2).unwrap();
    let index = index_of(shape);
    assert!(!index.insert(name(1)), "its signature was not announced");
    index.announce(name(1), &[1, 2, 3, 4]);
    assert_eq!(index.distance(Subject { hash: name(2), signature: Some(&[1, 2, 3, 5]) }, name(1)), Some(1));
    assert!(index.insert(name(1)) && index.contains(name(1)));
    index.announce(name(2), &[1, 2, 3, 5]);
    assert_eq!(index.distance(name(1).into(), name(2)), Some(1));
    index.remove(name(2));
    assert_eq!(index.distance(name(1).into(), name(2)), None);
    let mut counts = [0; 5];
    index.distances(name(1).into(), &mut counts);
    assert_eq!(counts, [1, 0, 0, 0, 0]);
    assert!(index.bytes() < 64 << 10 && index.most() == 4);
}

fn index_of(shape: SignatureShape) -> std::sync::Arc<dyn HashIndex> {
    super::super::index_for(Width::Bits128, Some(shape))
}

#[test]
fn readers_find_unchanged_signatures_while_a_writer_runs() {
    // In segments, in buckets, and while entries move from segments to buckets.
    [BUCKETS_FROM, 0, 700].into_iter().for_each(find_unchanged_signatures);
}

fn find_unchanged_signatures(buckets_from: usize) {
    let shape = SignatureShape::of_minima(8, 2).unwrap();
    let all = signatures(if cfg!(miri) { 24 } else { 1_200 }, shape);
    let index = Bands::with_buckets_from(shape, buckets_from);
    let (unchanged, changing) = all.split_at(all.len() / 2);
    for (number, signature) in unchanged.iter().enumerate() {
        index.insert(name(number), signature);
    }
    let rounds = if cfg!(miri) { 2 } else { 20 };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                for (number, signature) in changing.iter().enumerate() {
                    index.insert(name(10_000 + number), signature);
                }
                (0..changing.len()).for_each(|number| _ = index.remove(name(10_000 + number)));
            }
        });
        for (number, query) in unchanged.iter().enumerate().cycle().take(unchanged.len() * rounds) {
            let mut found = Vec::new();
            index.within(query, 0, &mut found);
            assert!(found.contains(&Neighbour { distance: 0, hash: name(number) }));
            assert!(found.iter().all(|near| near.distance == 0));
        }
    });
    assert_eq!(index.len(), unchanged.len());
}
