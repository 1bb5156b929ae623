//! Races the index against a static peer, the loop that a user would write, and the limit of the memory.
//!
//! `cargo run --release -p lookalike-hamming --example race -- 128 100000 1000000 avx2`: a width (64, 128 or
//! 256), numbers of hashes, and perhaps a form, on one thread. Every contender answers the same queries in
//! turns, and the least time of the rounds counts; all must find the same number of hashes. Half of the
//! queries are within k of a stored hash. With `inserts` it only grows an index and shrinks it, in processor
//! time.
//!
//! *Floor*: as many cache lines as the plan begins runs, at random places of as much memory as the index
//! takes. That of lookups together reads whole runs, of the length that a query compares on average. That of
//! inserts writes as many lines as an insert without growth, each prefetched.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lookalike_hamming::{Filed, Form, Index, Neighbour, Touched, U256};

/// The time that a contender gets in a round.
const SLICE: Duration = Duration::from_millis(4);
const ROUNDS: usize = 25;

/// A generator of even numbers (`SplitMix`: Steele, Lea and Flood, OOPSLA 2014).
struct Even(u64);

impl Even {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// A width: how a hash is made of words, and the peer for it, if there is one.
trait Racer: Filed {
    const DISTANCES: [u32; 4];
    fn made(word: impl FnMut() -> u64) -> Self;
    fn bit(at: u64) -> Self;
    fn peer(_: &[Self]) -> Option<Box<dyn FnMut(Self, u32) -> usize + '_>> {
        None
    }
}

impl Racer for u64 {
    const DISTANCES: [u32; 4] = [3, 7, 10, 16];
    fn made(mut word: impl FnMut() -> u64) -> u64 {
        word()
    }
    fn bit(at: u64) -> u64 {
        1 << (at % 64)
    }
    fn peer(stored: &[u64]) -> Option<Box<dyn FnMut(u64, u32) -> usize + '_>> {
        // It lives as long as the program, which ends after the race.
        let index = Box::leak(Box::new(mih_rs::Index::new(stored.to_vec()).ok()?));
        let mut searcher = index.range_searcher();
        Some(Box::new(move |query, k| searcher.run(query, k as usize).len()))
    }
}

impl Racer for u128 {
    const DISTANCES: [u32; 4] = [7, 15, 23, 31];
    fn made(mut word: impl FnMut() -> u64) -> u128 {
        u128::from(word()) << 64 | u128::from(word())
    }
    fn bit(at: u64) -> u128 {
        1 << (at % 128)
    }
}

impl Racer for U256 {
    const DISTANCES: [u32; 4] = [15, 31, 40, 48];
    fn made(mut word: impl FnMut() -> u64) -> U256 {
        U256::from_words(std::array::from_fn(|_| word()))
    }
    fn bit(at: u64) -> U256 {
        U256::from(1) << (at % 256) as u32
    }
}

fn main() {
    let (mut numbers, mut only_inserts): (Vec<usize>, _) = (Vec::new(), false);
    for argument in std::env::args().skip(1) {
        if argument == "inserts" {
            only_inserts = true;
            continue;
        }
        if let Some(form) = Form::named(&argument) {
            assert!(form.prefer(), "this processor has no {argument}");
            continue;
        }
        numbers.push(argument.parse().unwrap_or_else(|_| panic!("`{argument}` is not a number")));
    }
    let (width, counts) = numbers.split_first().expect("a width and numbers of hashes");
    for &count in counts {
        match (width, only_inserts) {
            (64, false) => race::<u64>(count),
            (128, false) => race::<u128>(count),
            (_, false) => race::<U256>(count),
            (64, true) => inserts::<u64>(count),
            (128, true) => inserts::<u128>(count),
            (_, true) => inserts::<U256>(count),
        }
    }
}

/// Grows an index one by one to eight tenths, then by a tenth, by another one of many at once, which it
/// removes and inserts again.
fn inserts<W: Racer>(count: usize) {
    let mut even = Even(7);
    let stored: Vec<W> = (0..count).map(|_| W::made(|| even.next())).collect();
    let (first, rest) = stored.split_at(count / 10 * 8);
    let (next, last) = rest.split_at(rest.len() / 2);
    let index = Index::<W>::new();
    let (mut longest, mut long) = (Duration::ZERO, 0);
    let mut insert = |hashes: &[W]| {
        for few in hashes.chunks(16) {
            let start = Instant::now();
            few.iter().for_each(|hash| assert!(index.insert(*hash)));
            longest = longest.max(start.elapsed());
            long += usize::from(start.elapsed() > Duration::from_millis(5));
        }
    };
    let rates = [
        rate(first.len(), || insert(first)),
        rate(next.len(), || insert(next)),
        rate(last.len(), || assert_eq!(index.insert_all(last.iter().copied()), last.len())),
        rate(last.len(), || last.iter().for_each(|hash| assert!(index.remove(*hash)))),
        rate(last.len(), || last.iter().for_each(|hash| assert!(index.insert(*hash)))),
    ];
    let bytes = index.bytes();
    let lines = W::BLOCKS.len() * (2 + W::FIRST.div_ceil(2) + (W::PLANES - W::FIRST).div_ceil(2));
    let lines_of_all = bytes / 64 + 1;
    let (mut memory, mut places) = (vec![[7u64; 8]; lines_of_all], vec![0; lines]);
    let floor = rate(1 << 20, || {
        for _ in 0..1 << 20 {
            places.fill_with(|| ((u128::from(even.next()) * lines_of_all as u128) >> 64) as usize);
            places.iter().for_each(|place| _ = black_box(memory[*place][0]));
            places.iter().for_each(|place| memory[*place][1] += 1);
        }
    });
    println!(
        "{} bits, {count}: {:.1} bytes each; M/s: {rates:.3?} (to eight tenths, one more, one of many \
         at once, removed, again), floor {floor:.3}; longest sixteen {longest:.1?}, {long} above 5 ms",
        W::WIDTH.bits(),
        bytes as f64 / count as f64,
    );
}

/// Millions a second of processor time.
fn rate(count: usize, work: impl FnOnce()) -> f64 {
    let start = processor_time();
    work();
    1e3 * count as f64 / (processor_time() - start)
}

fn race<W: Racer>(count: usize) {
    let mut even = Even(7);
    let stored: Vec<W> = (0..count).map(|_| W::made(|| even.next())).collect();
    let index = Index::<W>::new();
    let start = Instant::now();
    for hash in &stored {
        index.insert(*hash);
    }
    let rate = count as f64 / start.elapsed().as_secs_f64() / 1e6;
    let bytes = index.bytes();
    println!(
        "\n## {count} hashes of {} bits: {:.1} bytes each, {rate:.2} M inserts/s, {}\n",
        W::WIDTH.bits(),
        bytes as f64 / count as f64,
        Form::preferred().name()
    );
    println!(
        "| k | ours, ns | mih-rs ÷ ours | loop ÷ ours | scan ÷ ours | ours ÷ floor | probes | entries \
         | expected, ns | plan |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|"
    );
    let line = line_cost(bytes);
    let mut peer = W::peer(&stored);
    for k in W::DISTANCES {
        let queries: Vec<W> = (0..20_000).map(|number| query(&stored, number, k, &mut even)).collect();
        let mut found: Vec<Neighbour<W>> = Vec::new();
        let mut own = |query: W| {
            found.clear();
            index.within(query, k, &mut found);
            found.len()
        };
        let mut all: Vec<Neighbour<W>> = Vec::new();
        let mut scan = |query: W| {
            all.clear();
            index.scan(query, k, &mut all);
            all.len()
        };
        let mut plain = |query: W| stored.iter().filter(|hash| (**hash ^ query).ones() <= k).count();
        let mut contenders: Vec<&mut dyn FnMut(W) -> usize> = vec![&mut own, &mut plain, &mut scan];
        let mut by_peer = peer.as_mut().map(|peer| move |query: W| peer(query, k));
        if let Some(peer) = &mut by_peer {
            contenders.push(peer);
        }
        let mut times = [f64::INFINITY; 4];
        for _ in 0..ROUNDS {
            for (contender, least) in contenders.iter_mut().zip(&mut times) {
                *least = least.min(time(&queries, contender));
            }
        }
        for query in queries.iter().take(6) {
            let found: Vec<usize> = contenders.iter_mut().map(|contender| contender(*query)).collect();
            assert!(found.iter().all(|count| *count == found[0]), "k = {k}: {found:?}");
        }
        let report = index.within(queries[0], k, &mut Vec::new());
        let plan =
            report.plan.map_or("scan".to_owned(), |plan| format!("{:?} of {:?}", plan.radii(), plan.bits()));
        let [ours, plain, scan, peer] = times;
        println!(
            "| {k} | {ours:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {} | {} | {} | {plan} |",
            peer / ours,
            plain / ours,
            scan / ours,
            ours / (line * report.touched.probes as f64),
            report.touched.probes,
            report.touched.candidates,
            index.cost(k),
        );
    }
    together(&index, &stored, &mut even);
}

/// Looks up queries one by one, and so many of them together. Other programs run longer than a round, so that
/// the time of the processor counts, not that of the clock.
fn together<W: Racer>(index: &Index<W>, stored: &[W], even: &mut Even) {
    const SIZES: [usize; 4] = [64, 1_024, 4_096, 16_384];
    const ROUNDS: usize = 3;
    println!("\nOne by one ÷ together, of {SIZES:?} queries; floor ÷ one by one:\n");
    println!("| k | one by one, ns | 64 | 1,024 | 4,096 | 16,384 | floor |\n|--:|--:|--:|--:|--:|--:|--:|");
    for k in W::DISTANCES.into_iter().take(3) {
        let total = (300_000_000 / index.cost(k).max(1) as usize).clamp(SIZES[0], 1 << 18);
        let queries: Vec<W> = (0..total).map(|number| query(stored, number, k, even)).collect();
        let mut found = Vec::new();
        let touched = index.within(queries[0], k, &mut found).touched;
        let mut times = [f64::INFINITY; SIZES.len() + 2];
        for _ in 0..ROUNDS {
            let [of_floor, alone, of_sizes @ ..] = &mut times;
            *of_floor = of_floor.min(runs_cost::<W>(index.bytes(), touched) * touched.probes as f64);
            let (start, mut expected) = (processor_time(), 0);
            for query in &queries {
                found.clear();
                index.within(*query, k, &mut found);
                expected += found.len();
            }
            *alone = alone.min((processor_time() - start) / total as f64);
            for (size, least) in SIZES.into_iter().zip(of_sizes).filter(|(size, _)| *size <= total) {
                let (start, mut near) = (processor_time(), 0);
                for group in queries.chunks(size) {
                    index.within_many(group, k, |_, found| near += found.len());
                }
                *least = least.min((processor_time() - start) / total as f64);
                assert_eq!(near, expected, "{size} together, k = {k}");
            }
        }
        let [floor, alone, of_sizes @ ..] = times;
        let ratios = of_sizes
            .map(|time| if time.is_finite() { format!("{:.2}", alone / time) } else { String::new() });
        println!("| {k} | {alone:.0} | {} | {:.2} |", ratios.join(" | "), floor / alone);
    }
}

/// A random hash, or a stored one with 0 to `k` bits flipped.
fn query<W: Racer>(stored: &[W], number: usize, k: u32, even: &mut Even) -> W {
    if number % 2 == 1 {
        return W::made(|| even.next());
    }
    let hash = stored[(even.next() % stored.len() as u64) as usize];
    (0..even.next() % u64::from(k + 1)).fold(hash, |hash, _| hash ^ W::bit(even.next()))
}

/// Nanoseconds a query: as many of the queries as a slice of time has room for.
fn time<W: Copy>(queries: &[W], look: &mut dyn FnMut(W) -> usize) -> f64 {
    let queries = &queries[start_of(queries.len())..];
    let (start, mut done) = (Instant::now(), 0);
    for group in queries.chunks(2) {
        group.iter().for_each(|query| _ = black_box(look(*query)));
        done += group.len();
        if start.elapsed() > SLICE {
            break;
        }
    }
    start.elapsed().as_nanos() as f64 / done as f64
}

/// Where a round begins: each contender sees the same queries over time, and no cache keeps them.
fn start_of(queries: usize) -> usize {
    static ROUND: AtomicUsize = AtomicUsize::new(0);
    ROUND.fetch_add(1, Ordering::Relaxed) * 331 % (queries / 2)
}

/// The nanoseconds for which this thread has run; 0 if this is not Linux.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or_default()
}

/// Nanoseconds for a run of memory at a random place, as long as those of a query, of this many bytes.
fn runs_cost<W: Filed>(bytes: usize, touched: Touched) -> f64 {
    let entries = touched.candidates as usize / touched.probes.max(1) as usize;
    let lines = (entries * W::FIRST * size_of::<u16>()).div_ceil(64);
    let memory = vec![[7u64; 8]; bytes / 64 + lines + 1];
    let mut even = Even(3);
    let start = processor_time();
    let runs = (1 << 23) / lines.max(1);
    let run = |_| {
        let place = (even.next() % (memory.len() - lines) as u64) as usize;
        memory[place..place + lines].iter().flatten().fold(0, |all, word| all ^ word)
    };
    black_box((0..runs).map(run).fold(0, |all, run| all ^ run));
    (processor_time() - start) / runs as f64
}

/// Nanoseconds for reading a random cache line of this many bytes, with many under way.
fn line_cost(bytes: usize) -> f64 {
    let memory = vec![[7u64; 8]; bytes / 64 + 1];
    let mut even = Even(1);
    let reads: Vec<u32> = (0..1 << 18).map(|_| (even.next() % memory.len() as u64) as u32).collect();
    let round = |_| {
        let start = Instant::now();
        let near = |at: &u32| memory[*at as usize].iter().map(|cell| (cell ^ 5).count_ones()).sum::<u32>();
        black_box(reads.iter().map(near).sum::<u32>());
        start.elapsed().as_nanos() as f64 / reads.len() as f64
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}
