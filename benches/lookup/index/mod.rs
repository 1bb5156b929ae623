//! The index beside what people use today, in process: same hashes, same queries, in rounds that take turns.

mod data;
mod limits;
mod peers;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lookalike::index::{Filed, Index};

use crate::rounds::{ROUNDS, median, ratio};
use data::{Hash, Spread};
use peers::{Contender, FourMaps, Mih, Own, Scan};

/// How long one contender is asked in a round, and how many queries at least and at most.
const SLICE: Duration = Duration::from_millis(400);
const QUERIES: (usize, usize) = (12, 1_000_000);
/// Queries timed one by one for the median and the 99th percentile.
const TIMED: usize = 20_000;
/// Maps of single buckets take so much memory that they are left out beyond this many hashes.
const MAPS_TO: usize = 10_000_000;

const K64: [u32; 10] = [0, 3, 6, 7, 8, 10, 12, 14, 16, 20];
const K128: [u32; 5] = [3, 6, 15, 23, 31];

pub fn run(counts: &[usize]) {
    limits::report();
    for &count in counts {
        for spread in [Spread::Even, Spread::Skewed] {
            if spread == Spread::Even || count <= MAPS_TO {
                narrow(count, spread);
            }
        }
        if count <= MAPS_TO {
            wide(count);
        }
        beside(count);
    }
}

/// 64 bits, against every peer.
fn narrow(count: usize, spread: Spread) {
    println!("\n## {count} hashes of 64 bits, {spread}\n");
    let stored = data::hashes::<u64>(count, spread);
    let (index, built) = grown(&stored);
    let (mih, of_mih) = measured(count, || mih_rs::Index::new(stored.clone()).expect("there are hashes"));
    let mut contenders: Vec<Box<dyn Contender<u64> + '_>> = vec![Box::new(Own(&index, Vec::new()))];
    let mut lines = vec![("lookalike".to_owned(), built)];
    lines.push(("mih-rs".to_owned(), of_mih));
    contenders.push(Box::new(Mih(mih.range_searcher())));
    if count <= MAPS_TO {
        let (maps, built) = measured(count, || FourMaps::new(&stored));
        lines.push(("DashMap ×4".to_owned(), built));
        contenders.push(Box::new(maps));
    }
    let (scan, built) = measured(count, || Scan(stored.clone()));
    lines.push(("scan".to_owned(), built));
    contenders.push(Box::new(scan));
    print_built(&lines, index.bytes() as f64 / count as f64);
    print_lookups(&mut contenders, &stored, &K64);
}

/// 128 bits, against the scan: nobody else has them.
fn wide(count: usize) {
    println!("\n## {count} hashes of 128 bits, even\n");
    let stored = data::hashes::<u128>(count, Spread::Even);
    let (index, built) = grown(&stored);
    let (scan, of_scan) = measured(count, || Scan(stored.clone()));
    print_built(
        &[("lookalike".to_owned(), built), ("scan".to_owned(), of_scan)],
        index.bytes() as f64 / count as f64,
    );
    print_lookups(&mut [Box::new(Own(&index, Vec::new())), Box::new(scan)], &stored, &K128);
}

/// Two threads, and a writer beside a reader.
fn beside(count: usize) {
    println!("\n## {count} hashes of 64 bits, k = 3: threads\n");
    let stored = data::hashes::<u64>(count, Spread::Even);
    let index = Index::<u64>::new();
    index.insert_all(stored.iter().copied());
    let queries = data::queries(&stored, 200_000, 3, 7);
    let each = |queries: &[u64]| {
        let mut found = Vec::new();
        let start = Instant::now();
        for query in queries {
            found.clear();
            index.within(*query, 3, &mut found);
        }
        queries.len() as f64 / start.elapsed().as_secs_f64()
    };
    let mut own = Own(&index, Vec::new());
    let (mut scaled, mut slowed, mut quiet_p99, mut beside_p99) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let one = each(&queries);
        let both = std::thread::scope(|threads| {
            let (first, second) = queries.split_at(queries.len() / 2);
            let other = threads.spawn(|| each(second));
            each(first) + other.join().expect("the other thread asks as well")
        });
        scaled.push(both / one);
        quiet_p99.push(percentiles(&queries[..TIMED], |query| _ = own.look(query, 3))[1]);
        let done = AtomicBool::new(false);
        let written = Cell::new(0u64);
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| {
                let mut turns = 0u64;
                let fresh = data::hashes::<u64>(200_000, Spread::Fresh);
                while !done.load(Ordering::Relaxed) {
                    let hash = fresh[turns as usize % fresh.len()];
                    index.insert(hash);
                    index.remove(hash);
                    turns += 1;
                }
                turns
            });
            slowed.push(one / each(&queries));
            beside_p99.push(percentiles(&queries[..TIMED], |query| _ = own.look(query, 3))[1]);
            done.store(true, Ordering::Relaxed);
            written.set(writer.join().expect("the writer writes"));
        });
    }
    println!("| | |\n|---|---|");
    println!("| lookups a second of two threads ÷ of one | {:.2} |", median(scaled));
    println!("| time a lookup beside a writer at full speed ÷ quiet | {:.2} |", median(slowed));
    println!("| p99 beside a writer ÷ quiet | {:.2} |", ratio(&beside_p99, &quiet_p99));
}

/// What building a contender took.
struct Built {
    resident: f64,
    rate: f64,
}

fn measured<T>(count: usize, build: impl FnOnce() -> T) -> (T, Built) {
    let (before, start) = (resident(), Instant::now());
    let built = build();
    let rate = count as f64 / start.elapsed().as_secs_f64() / 1e6;
    (built, Built { resident: (resident() - before) / count as f64, rate })
}

fn grown<W: Filed>(stored: &[W]) -> (Index<W>, Built) {
    measured(stored.len(), || {
        let index = Index::<W>::new();
        index.insert_all(stored.iter().copied());
        index
    })
}

/// Bytes of memory that the process occupies.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or_default() * 4_096.0
}

fn print_built(lines: &[(String, Built)], bytes: f64) {
    println!("| | resident bytes a hash | M inserts/s |\n|---|---|---|");
    for (name, Built { resident, rate }) in lines {
        println!("| {name} | {resident:.1} | {rate:.2} |");
    }
    println!("\nBy its own account the index has {bytes:.1} bytes a hash, room to grow included.\n");
}

fn print_lookups<W: Hash>(contenders: &mut [Box<dyn Contender<W> + '_>], stored: &[W], distances: &[u32]) {
    println!(
        "| k | contender | ns a query | its ns ÷ lookalike's | median | p99 | found | how |\n|---|---|---|---|---|---|---|---|"
    );
    for &k in distances {
        let mut figures = vec![Vec::new(); contenders.len()];
        let mut found = vec![0.0; contenders.len()];
        for round in 0..ROUNDS {
            for (contender, (figures, found)) in contenders.iter_mut().zip(figures.iter_mut().zip(&mut found))
            {
                let sample = data::queries(stored, QUERIES.0, k, 1_000 + round as u64);
                let start = Instant::now();
                sample.iter().for_each(|query| _ = contender.look(*query, k));
                let one = start.elapsed().as_secs_f64() / sample.len() as f64;
                let asked = ((SLICE.as_secs_f64() / one) as usize).clamp(QUERIES.0, QUERIES.1);
                let queries = data::queries(stored, asked, k, round as u64);
                let start = Instant::now();
                let matches: usize = queries.iter().map(|query| contender.look(*query, k)).sum();
                figures.push(start.elapsed().as_nanos() as f64 / asked as f64);
                *found = matches as f64 / asked as f64;
            }
        }
        // All must find the same: the first queries are the same for everyone.
        let check = data::queries(stored, QUERIES.0, k, 5);
        let own: Vec<usize> = check.iter().map(|query| contenders[0].look(*query, k)).collect();
        for contender in contenders.iter_mut() {
            let theirs: Vec<usize> = check.iter().map(|query| contender.look(*query, k)).collect();
            assert_eq!(own, theirs, "{} differs at k = {k}", contender.name());
        }
        for (number, contender) in contenders.iter_mut().enumerate() {
            let nanoseconds = median(figures[number].iter().copied());
            let asked = ((2e9 / nanoseconds) as usize).clamp(QUERIES.0, TIMED);
            let queries = data::queries(stored, asked, k, 77);
            let [middle, p99] = percentiles(&queries, |query| _ = contender.look(query, k));
            let against = ratio(&figures[number], &figures[0]);
            println!(
                "| {k} | {} | {nanoseconds:.0} | {against:.2} | {middle:.0} | {p99:.0} | {:.2} | {} |",
                contender.name(),
                found[number],
                contender.how(queries[0], k),
            );
        }
    }
}

/// The median and the 99th percentile of queries timed one by one, the clock's own time included.
fn percentiles<W: Copy>(queries: &[W], mut look: impl FnMut(W)) -> [f64; 2] {
    let mut times: Vec<u64> = Vec::with_capacity(queries.len());
    for query in queries {
        let start = Instant::now();
        look(*query);
        times.push(start.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    [times.len() / 2, times.len() * 99 / 100].map(|at| times[at] as f64)
}
