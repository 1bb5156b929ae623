//! Power loss: the file system of the server stops at a random time and loses all writes that are not
//! durable. With `LOOKALIKE_TEST_REPLICAS=1` it is that of three servers and the folder of their log.

use std::time::{Duration, Instant};

use crate::bench::{Bench, OFTEN, cycles, seeded};
use crate::disk::Disk;
use crate::load::Load;
use crate::server::{Server, directory, is_replicated};

const CLIENTS: u64 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_by_a_loss_of_power() {
    let dir = directory();
    let (megabytes, times, least) = if is_replicated() { (1_024, 500..2_000, 5) } else { (256, 1..500, 20) };
    let Some(disk) = Disk::ext4(dir.path(), megabytes) else {
        return;
    };
    let (bench, cycles, mut rng) = (Bench::on(&disk.root), cycles(8), seeded());
    let started = Instant::now();
    for cycle in 0..cycles {
        let server = Server::start_with(&bench.data, OFTEN).await;
        bench.audit(&server, &format!("after {cycle} losses of power")).await;
        let load = Load::start(&server.url, &bench.ledger, CLIENTS, &mut rng);
        tokio::time::sleep(Duration::from_millis(rng.u64(times.clone()))).await;
        bench.ledger.ignore_acknowledgements("power loss");
        disk.cut_power();
        // The server detects the loss by the I/O errors.
        tokio::time::sleep(Duration::from_millis(rng.u64(1..60))).await;
        server.kill();
        load.join().await;
        disk.remount();
        bench.ledger.count_acknowledgements();
    }
    let server = Server::start_with(&bench.data, OFTEN).await;
    let seen = bench.audit(&server, "at the end").await;
    let acknowledged = bench.ledger.acknowledged();
    eprintln!(
        "{cycles} losses of power, {acknowledged} acknowledged changes, {seen:?}, {:?}",
        started.elapsed()
    );
    assert!(acknowledged > least * cycles as u64, "the clients hardly wrote");
    assert!(server.stop().success());
}
