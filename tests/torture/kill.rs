//! kill -9 at any time, again and again, under load.

use std::time::{Duration, Instant};

use crate::bench::{Bench, OFTEN, cycles, seeded};
use crate::load::Load;
use crate::server::Server;

const CLIENTS: u64 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_by_kills_at_any_time() {
    let (bench, cycles, mut rng) = (Bench::new(), cycles(200), seeded());
    let started = Instant::now();
    for cycle in 0..cycles {
        let server = Server::start_with(&bench.data, OFTEN).await;
        bench.audit(&server, &format!("after {cycle} kills")).await;
        let load = Load::start(&server.url, &bench.ledger, CLIENTS, &mut rng);
        // Now and then before the first write is through, or after many.
        let span = if cycle % 8 == 0 { 15 } else { 260 };
        tokio::time::sleep(Duration::from_millis(rng.u64(1..span))).await;
        bench.ledger.note("kill -9");
        if cycle % 4 == 0 {
            // In the middle of a stop in order, which writes out what is in memory.
            server.terminate();
            tokio::time::sleep(Duration::from_millis(rng.u64(..40))).await;
        }
        server.kill();
        load.join().await;
    }
    let server = Server::start_with(&bench.data, OFTEN).await;
    let seen = bench.audit(&server, "at the end").await;
    let acknowledged = bench.ledger.acknowledged();
    eprintln!("{cycles} kills, {acknowledged} acknowledged changes, {seen:?}, {:?}", started.elapsed());
    assert!(seen.documents > 50 && acknowledged > 100 * cycles as u64, "the clients hardly wrote");
    assert!(server.stop().success());
}
