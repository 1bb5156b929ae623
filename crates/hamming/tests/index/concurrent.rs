//! Readers concurrent with writers find every hash that is stored all the time, and none that never is.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lookalike_hamming::{Filed, Index};
use lookalike_hash::U256;

const STEADY: u64 = 2_000;
const ROUNDS: u64 = 60;

/// A hash near a shared centre, so that readers and writers meet in the same buckets.
fn member(kind: u64, number: u64) -> u64 {
    (number % 7) << 48 | (number % 11) << 32 | (kind << 28) | number
}

/// One thread inserts and removes its own hashes, and two others query. Every answer must have the steady
/// hashes. No answer may have a hash that was absent, according to the progress of the writer before and
/// after.
fn history<W: Filed>(limit: usize, hash: impl Fn(u64, u64) -> W + Sync) {
    let index = Index::<W>::with_limit(limit);
    for number in 0..STEADY {
        assert!(index.insert(hash(0, number)));
    }
    let (steps, done, start) = (AtomicU64::new(0), AtomicBool::new(false), Barrier::new(3));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            start.wait();
            for round in 0..ROUNDS {
                for number in 0..200 {
                    assert!(index.insert(hash(1, number)));
                    steps.store(round * 1_000 + number + 1, Ordering::SeqCst);
                }
                for number in 0..200 {
                    assert!(index.remove(hash(1, number)));
                    steps.store(round * 1_000 + 500 + number + 1, Ordering::SeqCst);
                }
            }
            done.store(true, Ordering::SeqCst);
        });
        for reader in 0..2u64 {
            let (index, hash, steps, done, start) = (&index, &hash, &steps, &done, &start);
            threads.spawn(move || {
                start.wait();
                let mut asked = reader;
                while !done.load(Ordering::SeqCst) {
                    asked = (asked + 37) % STEADY;
                    let (query, k) = (hash(0, asked), [0, 2, 3, 5, 9, 40][asked as usize % 6]);
                    let before = steps.load(Ordering::SeqCst);
                    let mut found = Vec::new();
                    index.within(query, k, &mut found);
                    let after = steps.load(Ordering::SeqCst);
                    let has = |wanted: W| found.iter().filter(|near| near.hash == wanted).count();
                    for number in 0..STEADY {
                        let near = (hash(0, number) ^ query).ones() <= k;
                        assert_eq!(has(hash(0, number)), usize::from(near), "steady {number}, k {k}");
                    }
                    // The writer made at most one step, so all its other hashes were unchanged.
                    if after <= before + 1 && before / 1_000 == after / 1_000 && before % 1_000 > 1 {
                        // Hash 0 changes between two rounds, which `steps` does not show.
                        for number in 1..200 {
                            let step = before % 1_000;
                            let settled = (number + 2 < step.min(500)) && step < 500
                                || (number > step.saturating_sub(500) + 2 && step >= 501);
                            let gone = step >= 501 && number + 2 < step - 500;
                            let near = (hash(1, number) ^ query).ones() <= k;
                            let times = has(hash(1, number));
                            assert!(times <= 1);
                            assert!(!settled || times == usize::from(near), "moving {number} at {step}");
                            assert!(!gone || times == 0, "removed {number} at {step}");
                        }
                    }
                }
            });
        }
    });
    assert_eq!(index.len(), STEADY as usize);
}

#[test]
fn readers_of_64_bits_find_exactly_the_stable_hashes() {
    // The last two limits are so small that racks are replaced all the time.
    for limit in [u64::LIMIT, 8, 1] {
        history::<u64>(limit, member);
    }
}

#[test]
fn readers_of_128_bits_find_exactly_the_stable_hashes() {
    for limit in [u128::LIMIT, 8, 1] {
        let hash = |kind, number| u128::from(member(kind, number)) << 40 | u128::from(kind << 9);
        history::<u128>(limit, hash);
    }
}

#[test]
fn readers_of_256_bits_find_exactly_the_stable_hashes() {
    for limit in [U256::LIMIT, 8, 1] {
        let hash = |kind, number| U256::from(member(kind, number)) << 150 | U256::from(kind << 9);
        history::<U256>(limit, hash);
    }
}

/// Threads that insert and remove the same hashes leave the same contents in every table.
#[test]
fn writers_of_the_same_hashes_leave_all_tables_equal() {
    [u64::LIMIT, 1].into_iter().for_each(writers_of_the_same_hashes);
}

fn writers_of_the_same_hashes(limit: usize) {
    let index = Index::<u64>::with_limit(limit);
    let net: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|threads| {
        for writer in 0..3u64 {
            let (index, net) = (&index, &net);
            threads.spawn(move || {
                let mut state = writer + 1;
                for _ in 0..60_000 {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let number = (state >> 40) % 64;
                    let hash = member(0, number);
                    if state >> 63 == 0 {
                        if index.insert(hash) {
                            net[number as usize].fetch_add(1, Ordering::SeqCst);
                        }
                    } else if index.remove(hash) {
                        net[number as usize].fetch_sub(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let mut stored = 0;
    for (number, net) in net.iter().enumerate() {
        let there = net.load(Ordering::SeqCst) == 1;
        let hash = member(0, number as u64);
        assert_eq!(index.contains(hash), there);
        stored += usize::from(there);
        for k in [0, 3, 7] {
            let mut found = Vec::new();
            index.within(hash, k, &mut found);
            assert_eq!(found.iter().filter(|near| near.hash == hash).count(), usize::from(there));
        }
    }
    assert_eq!(index.len(), stored);
}
