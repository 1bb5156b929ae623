//! Every plan compared with the definition, on even and skewed hashes of both widths; the program as a whole.

use std::collections::BTreeMap;

use lookalike_hamming::scan;

use super::design::{Refusal, first_difference};
use super::sample::{queries, random_hashes};
use super::*;

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
fn compare_with_scan<W: Bits>(hashes: &[W], distances: impl IntoIterator<Item = u32>, run: &mut Vec<String>) {
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
    compare_with_scan::<u64>(&random_hashes(3_000), 0..=9, &mut run);
    compare_with_scan::<u64>(&skewed(3_000), 0..=9, &mut run);
    compare_with_scan::<u64>(&skewed(400), [15, 21, 31], &mut run);
    // So few that all their variants fit.
    compare_with_scan::<u64>(&skewed(40), 0..=4, &mut run);
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
    compare_with_scan::<u128>(&random_hashes(1_000), [0, 1, 2, 3, 6], &mut run);
    compare_with_scan::<u128>(&skewed(1_000), [0, 1, 2, 3, 6, 15, 31], &mut run);
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

/// The rows of the table for these arguments, by the names of their plans, and the line before the table.
fn rows(stored: &[Hash], k: u32, memory: u64) -> (String, BTreeMap<String, Vec<String>>) {
    let arguments = Arguments { file: String::new(), k, memory };
    let out = match stored[0].width().bits() {
        64 => compare::<u64>(&arguments, stored),
        _ => compare::<u128>(&arguments, stored),
    };
    let out = out.unwrap();
    let (about, table) = out.split_once("\n\n").unwrap();
    // The lines have the same width, so that the table can be read as it is.
    let width = |line: &str| line.chars().count();
    assert!(table.lines().all(|line| width(line) == width(table.lines().next().unwrap())), "{table}");
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let rows = table.lines().skip(2).map(cells);
    (about.to_owned(), rows.map(|row| (row[0].clone(), row)).collect())
}

#[test]
fn every_plan_is_run_or_says_what_it_would_take() {
    let hashes: Vec<Hash> = random_hashes::<u64>(20_000).into_iter().map(Word::to_hash).collect();
    // Every hash twice: duplicates are compared once.
    let (about, rows) = rows(&hashes.repeat(2), 3, 64 << 20);
    let expected = "Hashes of 64 bits: 40000, of which 20000 are distinct; k = 3. Every plan";
    assert!(about.starts_with(expected) && about.contains("for 100 queries"), "{about}");
    let names = [
        "ball",
        "ball-bloom",
        "blocks",
        "index",
        "index-scan",
        "one-bit",
        "scan",
        "tables-1",
        "tables-2",
        "tables-3",
        "tables-twice",
        "variants-1",
        "variants-2",
        "variants-3",
    ];
    assert!(rows.keys().eq(names), "{:?}", rows.keys());
    for (plan, row) in &rows {
        assert_eq!(row.len(), 11, "{row:?}");
        let is_run = !["variants-2", "variants-3"].contains(&plan.as_str());
        assert_eq!((row[10].is_empty(), !row[4].is_empty()), (is_run, is_run), "{row:?}");
    }
    // 2,081 variants of 20,000 hashes are 41,620,000 entries of 8 bytes in 2^25 buckets of 4.
    assert_eq!(rows["variants-2"][10], "it takes 446 MiB, and 64 MiB are allowed");
    for (plan, probes) in [
        ("blocks", "4"),
        ("tables-1", "4"),
        ("tables-2", "10"),
        ("tables-twice", "16"),
        ("tables-3", "20"),
        ("ball", "43745"),
        ("ball-bloom", "43745"),
        ("variants-1", "2081"),
    ] {
        assert_eq!(rows[plan][7], probes, "{plan}");
    }
    // Both read the hashes that agree in a block of 16 bits.
    assert_eq!(rows["blocks"][8], rows["tables-1"][8]);
    assert_eq!(rows["scan"][8], "20000");
    let number = |plan: &str, column: usize| rows[plan][column].parse::<f64>().unwrap();
    assert!(number("one-bit", 8) > 200_000.0, "half of 32 lists of 10,000");
    for (plan, bytes) in [("scan", "8.0"), ("tables-1", "32.0"), ("tables-3", "160.0")] {
        assert_eq!(rows[plan][9], bytes, "{plan}");
    }
    // These plans do hundreds of times the work of the index.
    assert!(number("one-bit", 6) > 10.0 && number("ball", 6) > 10.0);
}

#[test]
fn the_table_says_what_was_measured() {
    let (_, rows) = rows(&stored("random:3000").unwrap(), 5, 1 << 20);
    assert_eq!(rows["tables-2"][1], "21 sorted tables: 7 blocks, 2 exact");
    assert_eq!(rows["tables-2"][2], "Manku et al. 2007, 3.1");
    assert_eq!((&*rows["tables-2"][9], &*rows["tables-2"][10]), ("168.0", ""));
    assert_eq!(rows["ball"][10], "a lookup probes 8303633 values, and the limit is 1000000");
    assert_eq!(rows["tables-3"][10], "it takes 2 MiB, and 1 MiB are allowed");
}

#[test]
fn hashes_of_128_bits_are_measured() {
    let hashes: Vec<Hash> = random_hashes::<u128>(50).into_iter().map(Word::to_hash).collect();
    let (about, rows) = rows(&hashes, 0, 1 << 20);
    // With k = 0 each query is a stored hash.
    assert!(about.starts_with("Hashes of 128 bits: 50,") && about.contains(", 1.00 hashes"), "{about}");
    assert_eq!(rows["ball"][7], "1");
}

#[test]
fn the_command_line_is_a_file_a_distance_and_a_memory() {
    let of = |words: &[&str]| Arguments::of(words).map(|found| (found.file, found.k, found.memory >> 20));
    assert_eq!(of(&["a"]), Some(("a".to_owned(), 3, 1024)));
    assert_eq!(of(&["-", "31", "64"]), Some(("-".to_owned(), 31, 64)));
    for wrong in [&[][..], &["a", "32"], &["a", "3", "much"], &["--help"], &["a", "3", "4", "5"]] {
        assert_eq!(of(wrong), None, "{wrong:?}");
    }
    assert!(stored("random:0").is_err_and(|error| error.contains("a number above 0")));
    assert!(stored("none").is_err_and(|error| error.starts_with("none: No such file")));
}
