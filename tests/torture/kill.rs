//! Repeated `kill -9` under load, at random times.

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
        // Kill after a number of acknowledgements, which does not depend on the speed of the machine; in
        // some cycles before or shortly after the first one.
        let wanted = bench.ledger.acknowledged() + rng.u64(0..if cycle % 8 == 0 { 12 } else { 620 });
        for _ in 0..900 {
            if bench.ledger.acknowledged() >= wanted {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_micros(rng.u64(..4_000))).await;
        bench.ledger.note("kill -9");
        if cycle % 4 == 0 {
            // Kill during a graceful shutdown, which flushes the memtables.
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
    assert!(seen.documents > 50 && acknowledged > 80 * cycles as u64, "the clients hardly wrote");
    assert!(server.stop().success());
}
