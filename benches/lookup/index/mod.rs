//! The index compared with common alternatives in one process, with the same hashes and queries, in turn.

pub mod data;
mod faiss;
mod limits;
mod minhash;
mod pairs;
mod peers;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lookalike_hamming::{Filed, Index, Progress};
use lookalike_hash::U256;

use crate::rounds::{ROUNDS, median, ratio};
use data::{Hash, Spread};
use peers::{Contender, FourMaps, Mih, Own, Scan};

/// The time that one contender answers queries in a round, and the minimum and maximum number of queries.
const SLICE: Duration = Duration::from_millis(400);
const QUERIES: (usize, usize) = (12, 1_000_000);
/// The number of queries timed one by one for the median and the 99th percentile.
const TIMED: usize = 20_000;
/// Beyond this number of hashes only the index, `mih-rs` and the scan are compared, with evenly spread hashes
/// of 64 bits. The other comparisons take more memory or time than a common machine has.
const MAPS_TO: usize = 10_000_000;

const K64: [u32; 10] = [0, 3, 6, 7, 8, 10, 12, 14, 16, 20];
const K128: [u32; 5] = [3, 6, 15, 23, 31];
const K256: [u32; 6] = [3, 7, 15, 31, 40, 48];

/// The parts that can be selected separately.
pub const PARTS: [&str; 8] = ["built", "even", "skewed", "wide", "wider", "threads", "pairs", "minhash"];

pub fn run(counts: &[usize], parts: &[&str]) {
    let wanted = |part: &str| parts.contains(&part);
    limits::report();
    for &count in counts {
        if wanted("built") {
            print_built(count);
        }
        for (part, spread) in [("even", Spread::Even), ("skewed", Spread::Skewed)] {
            if wanted(part) && (spread == Spread::Even || count <= MAPS_TO) {
                narrow(count, spread);
            }
        }
        if wanted("wide") && count <= MAPS_TO {
            wide(count);
        }
        if wanted("wider") && count <= MAPS_TO {
            wider(count);
        }
        if wanted("threads") && count <= MAPS_TO {
            beside(count);
        }
        if wanted("pairs") && count <= MAPS_TO {
            pairs::report(count);
        }
    }
    if wanted("minhash") && counts.iter().any(|&count| count <= MAPS_TO) {
        minhash::report(1_000_000);
    }
}

/// Compares lookups of 64 bits with every peer.
fn narrow(count: usize, spread: Spread) {
    println!("\n## {count} hashes of 64 bits, {spread}\n");
    let stored = data::hashes::<u64>(count, spread);
    let index = grown(&stored);
    let mih = mih_rs::Index::new(stored.clone()).expect("there are hashes");
    let mut contenders: Vec<Box<dyn Contender<u64> + '_>> =
        vec![Box::new(Own(&index, Vec::new())), Box::new(Mih(mih.range_searcher()))];
    if count <= MAPS_TO {
        contenders.push(Box::new(FourMaps::new(&stored)));
    }
    contenders.push(Box::new(Scan(stored.clone())));
    print_lookups(&mut contenders, &stored, &K64);
    drop(contenders);
    if count <= MAPS_TO {
        faiss::report(&index, &stored);
    }
}

/// Compares lookups of 128 bits with the scan. No peer supports them.
fn wide(count: usize) {
    println!("\n## {count} hashes of 128 bits, even\n");
    let stored = data::hashes::<u128>(count, Spread::Even);
    let index = grown(&stored);
    print_lookups(&mut [Box::new(Own(&index, Vec::new())), Box::new(Scan(stored.clone()))], &stored, &K128);
}

/// Compares lookups of 256 bits with the scan and with faiss.
fn wider(count: usize) {
    for spread in [Spread::Even, Spread::Skewed] {
        println!("\n## {count} hashes of 256 bits, {spread}\n");
        let stored = data::hashes::<U256>(count, spread);
        let index = built(&stored);
        println!("{:.1} bytes a hash by its own account\n", index.bytes() as f64 / count as f64);
        let mut contenders: [Box<dyn Contender<U256> + '_>; 2] =
            [Box::new(Own(&index, Vec::new())), Box::new(Scan(stored.clone()))];
        print_lookups(&mut contenders, &stored, &K256);
        drop(contenders);
        if spread == Spread::Even {
            faiss::report_wide(&index, &stored);
        }
    }
}

/// Compares two threads with one, and a reader during writes with a reader alone.
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
    let mut batched = vec![];
    for _ in 0..ROUNDS {
        let one = each(&queries);
        let start = Instant::now();
        let mut found = 0;
        in_groups(&index, &queries, 3, |near| found += near);
        batched.push(queries.len() as f64 / start.elapsed().as_secs_f64() / one);
        std::hint::black_box(found);
    }
    println!("| lookups a second in a batch ÷ one by one, one thread | {:.2} |", median(batched));
    println!("| p99 beside a writer ÷ quiet | {:.2} |", ratio(&beside_p99, &quiet_p99));
}

/// The contenders, each of which is built in a separate process to measure its memory.
const BUILT: [&str; 6] =
    ["lookalike", "mih-rs", "DashMap ×4", "lookalike, 128 bits", "lookalike, 256 bits", "lookalike, skewed"];

/// Builds one contender in this process, which does nothing else, and prints the bytes of memory per hash and
/// the hashes per second.
pub fn build(name: &str, count: usize) {
    let spread = if name.ends_with("skewed") { Spread::Skewed } else { Spread::Even };
    let wide: Vec<u128> = if name.ends_with("128 bits") { data::hashes(count, spread) } else { Vec::new() };
    let wider: Vec<U256> = if name.ends_with("256 bits") { data::hashes(count, spread) } else { Vec::new() };
    let is_narrow = wide.is_empty() && wider.is_empty();
    let narrow: Vec<u64> = if is_narrow { data::hashes(count, spread) } else { Vec::new() };
    let (before, start) = (resident(), Instant::now());
    let built: (Box<dyn std::any::Any>, usize) = match name {
        "mih-rs" => (Box::new(mih_rs::Index::new(narrow.clone()).expect("there are hashes")), 0),
        "DashMap ×4" => (Box::new(FourMaps::new(&narrow)), 0),
        "lookalike, 128 bits" => {
            let index = grown(&wide);
            let bytes = index.bytes();
            (Box::new(index), bytes)
        }
        "lookalike, 256 bits" => {
            let index = grown(&wider);
            let bytes = index.bytes();
            (Box::new(index), bytes)
        }
        _ => {
            let index = Index::new();
            index.insert_all(narrow.iter().copied());
            let bytes = index.bytes();
            (Box::new(index), bytes)
        }
    };
    let rate = count as f64 / start.elapsed().as_secs_f64() / 1e6;
    // Tables that were replaced during growth are freed with a delay, so wait as long as a server would.
    std::thread::sleep(Duration::from_secs(2));
    let taken = (resident() - before) / count as f64;
    println!("{taken:.1} | {:.1} | {rate:.2}", built.1 as f64 / count as f64);
}

fn print_built(count: usize) {
    println!("\n## {count} hashes: memory and building, each in a process of its own\n");
    println!("| | resident bytes a hash | by its own account | M inserts/s, one thread |\n|---|---|---|---|");
    for name in BUILT.iter().take(if count <= MAPS_TO { BUILT.len() } else { 2 }) {
        let own = std::env::current_exe().expect("this program has a file");
        let output = std::process::Command::new(own).args(["build", name, &count.to_string()]).output();
        let output = output.expect("this program can be run");
        println!("| {name} | {} |", String::from_utf8_lossy(&output.stdout).trim());
    }
}

fn grown<W: Filed>(stored: &[W]) -> Index<W> {
    let index = Index::<W>::new();
    index.insert_all(stored.iter().copied());
    index
}

/// The index built at once, as at the start of a server.
fn built<W: Filed>(stored: &[W]) -> Index<W> {
    let mut sorted = stored.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let runs: Vec<Vec<W>> = sorted.chunks(1 << 14).map(<[W]>::to_vec).collect();
    Index::built(&runs, 2, &Progress::default()).expect("the runs ascend")
}

/// Looks up all queries together, and passes on how many hashes each finds.
fn in_groups<W: Filed>(index: &Index<W>, queries: &[W], k: u32, mut each: impl FnMut(usize)) {
    index.within_many(queries, k, |_, found| each(found.len()));
}

/// Bytes of memory that the process occupies.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or_default() * 4_096.0
}

fn print_lookups<W: Hash>(contenders: &mut [Box<dyn Contender<W> + '_>], stored: &[W], distances: &[u32]) {
    println!(
        "| k | contender | ns a query | its ns ÷ lookalike's | median | p99 | found | how |\n\
         |---|---|---|---|---|---|---|---|"
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
        // All contenders must find the same number of hashes for the same queries.
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

/// The median and the 99th percentile of queries timed one by one, including the time to read the clock.
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
