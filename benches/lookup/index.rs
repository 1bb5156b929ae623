//! The index beside `mih-rs` and the linear scan, in process, quiet and with a writer at full speed.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lookalike::index::{Index, scan};

use crate::data::{Even, queries};
use crate::rounds::{median, ratio, take_turns};

/// Distances, and how many queries of each a round asks: fewer where one takes longer.
const DISTANCES: [(u32, usize); 5] = [(0, 1_000_000), (3, 1_000_000), (7, 50_000), (10, 10_000), (12, 3_000)];
/// The scan is asked less: it takes a thousand times as long.
const SCANNED: usize = 50;

pub fn run(count: usize) {
    let stored: Vec<u64> = Even(1).take(count).collect();
    let index = Index::<u64>::new();
    let start = Instant::now();
    for &hash in &stored {
        index.insert(hash);
    }
    let inserts = count as f64 / start.elapsed().as_secs_f64() / 1e6;
    let bytes = index.bytes() as f64 / count as f64;
    println!("## In process, {count} uniform 64-bit hashes\n");
    println!("{bytes:.1} bytes a distinct hash in the tables; {inserts:.2} M inserts/s on one thread\n");
    println!(
        "| k | index, ns | beside a writer, ns | mih-rs, ns | scan, ns | mih-rs ÷ index | mih-rs ÷ index beside a writer |"
    );
    println!("|---|---|---|---|---|---|---|");
    let peer = mih_rs::Index::new(stored.clone()).expect("there are hashes");
    for (k, asked) in DISTANCES {
        let queries = queries(&stored, asked, k);
        let found = RefCell::new(Vec::new());
        let mut searcher = peer.range_searcher();
        let look = |query: u64| {
            let mut found = found.borrow_mut();
            found.clear();
            index.within(query, k, &mut found);
            found.len()
        };
        let (mut own_matches, mut peer_matches) = (0, 0);
        let figures = take_turns([
            &mut || each(&queries, &mut own_matches, look),
            &mut || beside_a_writer(&index, || each(&queries, &mut 0, look)),
            &mut || each(&queries, &mut peer_matches, |query| searcher.run(query, k as usize).len()),
            &mut || {
                each(&queries[..SCANNED], &mut 0, |query| {
                    let mut found = found.borrow_mut();
                    found.clear();
                    scan(&stored, query, k, &mut found);
                    found.len()
                })
            },
        ]);
        assert_eq!(own_matches, peer_matches, "the contenders differ");
        let [own, writer, mih, _] = &figures;
        let medians = figures.each_ref().map(|figures| median(figures.iter().copied()));
        let [a, b, c, d] = medians;
        let ratios = (ratio(mih, own), ratio(mih, writer));
        println!("| {k} | {a:.0} | {b:.0} | {c:.0} | {d:.0} | {:.2} | {:.2} |", ratios.0, ratios.1);
    }
    println!();
}

/// Nanoseconds a query; the matches are left in `total`.
fn each(queries: &[u64], total: &mut usize, mut look: impl FnMut(u64) -> usize) -> f64 {
    let start = Instant::now();
    *total = queries.iter().map(|query| look(*query)).sum();
    start.elapsed().as_nanos() as f64 / queries.len() as f64
}

/// Runs `work` while another thread inserts and removes hashes as fast as it can.
fn beside_a_writer(index: &Index<u64>, work: impl FnOnce() -> f64) -> f64 {
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut even = Even(1 << 40);
            while !done.load(Ordering::Relaxed) {
                let hash = even.next().unwrap_or_default();
                if index.insert(hash) {
                    index.remove(hash);
                }
            }
        });
        let figure = work();
        done.store(true, Ordering::Relaxed);
        figure
    })
}
