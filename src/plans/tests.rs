//! Every plan compared with the definition, on even and skewed hashes of both widths.

use super::*;
use crate::index::scan;

/// A tenth within 4 bits of one of three hashes, a tenth with the same first 16 bits, a tenth with few set
/// bits, the rest even.
fn skewed<W: Bits>(count: usize) -> Vec<W> {
    let centres: Vec<W> = random_hashes(3);
    let mut hashes: Vec<W> = random_hashes(count + 3).split_off(3);
    let bits = W::WIDTH.bits();
    for (number, hash) in hashes.iter_mut().enumerate() {
        let number = number as u32;
        let flips =
            |hash: W| (0..number % 5).fold(hash, |hash, turn| hash.flipped((number * 7 + turn * 11) % bits));
        *hash = match number % 10 {
            0 => flips(centres[number as usize % 3]),
            1 => W::ZERO.followed_by(hash.piece(0, bits - 16), bits),
            2 => flips(W::ZERO),
            _ => *hash,
        };
    }
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Queries near the hashes, and far from them.
fn all_queries<W: Bits>(hashes: &[W], count: usize, k: u32) -> Vec<W> {
    let mut all = queries(hashes, count, k + 2);
    all.extend(random_hashes::<W>(5_000).split_off(5_000 - count / 4));
    all.extend([W::ZERO, hashes[0], hashes[hashes.len() - 1]]);
    all
}

fn sorted<W: Bits>(mut found: Vec<Neighbour<W>>) -> Vec<Neighbour<W>> {
    found.sort_unstable();
    found
}

/// A plan is refused with less memory than it takes, and not with four times as much.
fn is_near_the_estimate<W: Bits>(design: Design, bytes: u64, hashes: &[W], k: u32) {
    if !matches!(design, Design::Scan | Design::Index | Design::IndexScan) {
        let refusal = |memory| design.refusal(hashes, k, memory);
        assert!(matches!(refusal(bytes - 1), Some(Refusal::Memory { .. })), "{design:?}: {bytes}, k = {k}");
        assert_eq!(refusal(4 * bytes), None, "{design:?}: {bytes}, k = {k}");
    }
}

/// Compares every plan that takes at most 64 MiB with the scan, and its bytes with the estimate.
fn compare<W: Bits>(hashes: &[W], distances: impl IntoIterator<Item = u32>, run: &mut Vec<String>) {
    for k in distances {
        let allowed = 64 << 20;
        for design in Design::all(k) {
            if design.refusal(hashes, k, allowed).is_some() {
                continue;
            }
            let plan = design.build(hashes, k);
            is_near_the_estimate(design, plan.bytes() as u64, hashes, k);
            let enumerates = matches!(design, Design::Ball | Design::FilteredBall | Design::Variants { .. });
            let is_slow = enumerates && k > 2;
            for query in all_queries(hashes, if is_slow { 12 } else { 120 }, k) {
                let (mut expected, mut found) = (Vec::new(), vec![]);
                scan(hashes, query, k, &mut expected);
                let touched = plan.within(query, &mut found);
                // The hash without set bits is in no list of a bit.
                let is_read = design == Design::OneBit || touched.candidates >= found.len() as u64;
                assert!(is_read && (touched.probes > 0 || query == W::ZERO), "{design:?}: {touched:?}");
                assert_eq!(sorted(found), sorted(expected), "{design:?}, k = {k}, {query:?}");
            }
            run.push(format!("{} {k}", design.name()));
        }
    }
}

#[test]
fn every_plan_finds_what_the_scan_finds() {
    let mut run = Vec::new();
    compare::<u64>(&random_hashes(3_000), 0..=9, &mut run);
    compare::<u64>(&skewed(3_000), 0..=9, &mut run);
    compare::<u64>(&skewed(400), [15, 21, 31], &mut run);
    // So few that all their variants fit.
    compare::<u64>(&skewed(40), 0..=4, &mut run);
    for wanted in [
        "scan 31",
        "index 31",
        "index-scan 31",
        "blocks 31",
        "tables-1 31",
        "tables-2 15",
        "tables-3 9",
        "tables-twice 9",
        "ball 0",
        "ball 4",
        "ball-bloom 4",
        "variants-1 1",
        "variants-1 4",
        "variants-2 3",
        "variants-3 3",
        "one-bit 31",
    ] {
        assert!(run.iter().any(|name| name == wanted), "{wanted} is not among {run:?}");
    }
}

#[test]
fn every_plan_finds_what_the_scan_finds_among_wide_hashes() {
    let mut run = Vec::new();
    compare::<u128>(&random_hashes(1_000), [0, 1, 2, 3, 6], &mut run);
    compare::<u128>(&skewed(1_000), [0, 1, 2, 3, 6, 15, 31], &mut run);
    for wanted in
        ["blocks 31", "tables-1 31", "tables-3 3", "tables-twice 15", "ball 3", "variants-1 2", "one-bit 31"]
    {
        assert!(run.iter().any(|name| name == wanted), "{wanted} is not among {run:?}");
    }
}

#[test]
fn every_k_has_the_tables_of_the_paper() {
    let about =
        |k: u32| -> Vec<String> { Design::all(k).iter().map(|design| design.description(k, 64)).collect() };
    for expected in [
        "4 hash tables of blocks of 16 bits",
        "4 sorted tables: 4 blocks, 1 exact",
        "10 sorted tables: 5 blocks, 2 exact",
        "16 sorted tables: one block of 4 exact, one of 4 of the rest",
        "20 sorted tables: 6 blocks, 3 exact",
        "all 43745 values within k looked up in a set",
        "43745 variants of each hash stored, 1 of the query looked up",
    ] {
        assert!(about(3).iter().any(|about| about == expected), "{expected} is not among {:?}", about(3));
    }
    assert!(about(4).contains(&"5 hash tables of blocks of 12 to 13 bits".to_owned()));
}

#[test]
fn plans_that_would_take_too_much_are_refused_with_what_they_would_take() {
    let hashes: Vec<u64> = random_hashes(1_000);
    let refused = |design: Design, k| design.refusal(&hashes, k, 1 << 20);
    assert_eq!(refused(Design::Ball, 4), None);
    assert_eq!(refused(Design::Ball, 5), Some(Refusal::Probes(8_303_633)));
    assert_eq!(refused(Design::Variants { radius: 1 }, 3), None);
    let too_large = Refusal::Memory { needed: 462, allowed: 1 };
    // 43,745,000 entries of 8 bytes, and 2^25 buckets of 4.
    assert_eq!(refused(Design::Variants { radius: 3 }, 3), Some(too_large));
    assert!(matches!(refused(Design::Variants { radius: 31 }, 31), Some(Refusal::Memory { .. })));
    assert_eq!(Design::Scan.refusal(&hashes, 31, 0), None);
    assert!(matches!(Design::OneBit.refusal(&hashes, 3, 0), Some(Refusal::Memory { .. })));
}

/// A plan that forgets one stored hash, or finds one twice.
struct Wrong(Box<dyn Built<u64>>, fn(&mut Vec<Neighbour<u64>>));

impl Built<u64> for Wrong {
    fn within(&self, query: u64, found: &mut Vec<Neighbour<u64>>) -> Touched {
        let touched = self.0.within(query, found);
        self.1(found);
        touched
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

#[test]
fn a_plan_that_differs_is_noticed() {
    let hashes: Vec<u64> = random_hashes(500);
    let queries = queries(&hashes, 50, 3);
    let scan = Design::Scan.build(&hashes, 3);
    let plan = || Design::Blocks.build(&hashes, 3);
    assert_eq!(first_difference(&*plan(), &*scan, &queries), None);
    let last = Wrong(plan(), |found| found.retain(|near| near.distance < 3));
    let missed = first_difference(&last, &*scan, &queries);
    assert!(missed.is_some_and(|query| hashes.iter().any(|hash| (hash ^ query).count_ones() == 3)));
    let twice = Wrong(plan(), |found| found.extend(found.first().copied()));
    assert_eq!(first_difference(&twice, &*scan, &queries), Some(queries[0]));
}

#[test]
fn large_numbers_have_two_digits() {
    let ball = Design::Ball;
    assert_eq!(ball.description(3, 64), "all 43745 values within k looked up in a set");
    assert_eq!(ball.description(31, 64), "all 8.3e18 values within k looked up in a set");
    let refusal = ball.refusal(&[0_u64], 31, 1 << 30).unwrap();
    assert_eq!(refusal.to_string(), "a lookup probes 8.3e18 values, and the limit is 1000000");
    let variants = Design::Variants { radius: 31 };
    assert_eq!(variants.description(31, 64), "8.3e18 variants of each hash stored, 1 of the query looked up");
}
