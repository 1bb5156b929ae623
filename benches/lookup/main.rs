//! Lookups side by side, on the same hashes and queries, in rounds that take turns.
mod data;
use lookalike::index::*;
use std::sync::atomic::*;
use std::time::Instant;
fn main() {
    let n: usize = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(1_000_000);
    let stored: Vec<u64> = data::Even(1).take(n).collect();
    let index = Index::<u64>::new();
    let t = Instant::now();
    for &h in &stored {
        index.insert(h);
    }
    println!(
        "insert {:.2} M/s, {:.1} bytes a hash",
        n as f64 / t.elapsed().as_secs_f64() / 1e6,
        index.bytes() as f64 / n as f64
    );
    let mih = mih_rs::Index::new(stored.clone()).unwrap();
    for k in [0u32, 3, 7, 10] {
        let q = data::queries(
            &stored,
            if k <= 3 {
                1_000_000
            } else if k <= 7 {
                50_000
            } else {
                5_000
            },
            k,
        );
        let run = |f: &mut dyn FnMut(u64) -> usize| {
            let t = Instant::now();
            let mut s = 0;
            for &x in &q {
                s += f(x);
            }
            (t.elapsed().as_nanos() as f64 / q.len() as f64, s)
        };
        for _ in 0..3 {
            let mut found = Vec::new();
            let a = run(&mut |x| {
                found.clear();
                index.within(x, k, &mut found);
                found.len()
            });
            let mut s = mih.range_searcher();
            let b = run(&mut |x| s.run(x, k as usize).len());
            let stop = AtomicBool::new(false);
            let cnt = AtomicU64::new(0);
            let c = std::thread::scope(|sc| {
                sc.spawn(|| {
                    let mut e = data::Even(1 << 40);
                    while !stop.load(Ordering::Relaxed) {
                        let h = e.next().unwrap();
                        index.insert(h);
                        index.remove(h);
                        cnt.fetch_add(1, Ordering::Relaxed);
                    }
                });
                let r = run(&mut |x| {
                    found.clear();
                    index.within(x, k, &mut found);
                    found.len()
                });
                stop.store(true, Ordering::Relaxed);
                r
            });
            println!(
                "k={k} ours {:.0} ns ({}), mih {:.0} ns ({}), with writer {:.0} ns ({} writes)",
                a.0,
                a.1,
                b.0,
                b.1,
                c.0,
                cnt.load(Ordering::Relaxed)
            );
        }
    }
}
