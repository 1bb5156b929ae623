//! Killed at the N-th call that changes the disk, for every N of a fixed scenario; and again in the recovery.

use std::time::Instant;

use fastrand::Rng;
use serde_json::Value;

use crate::bench::{Bench, cycles, seeded};
use crate::load::Load;
use crate::server::{Ended, Server, serve};
use crate::strace::{self, Fault, Point, points, recorded, with_fault};

/// What the server goes through, the same each time: writes, a snapshot, more writes, a stop in order.
async fn scenario(server: Server, bench: &Bench) {
    let mut rng = Rng::with_seed(9);
    Load::steps(&server.url, &bench.ledger, 12, &mut rng).await;
    let snapshot = server.client.post(format!("{}/snapshots", server.url)).json(&Value::Null);
    let _ = snapshot.send().await;
    Load::steps(&server.url, &bench.ledger, 8, &mut rng).await;
    let _ = server.stop();
}

/// Runs the scenario on a copy, recorded; the points it goes through.
async fn record(origin: &Bench) -> Vec<Point> {
    let bench = origin.fork();
    let trace = bench.data.with_file_name("trace");
    let server = Server::launch(recorded(&serve(&bench.data, &[]), &trace)).await.unwrap();
    scenario(server, &bench).await;
    // strace writes the last lines after the server has ended.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    points(&trace, &bench.data)
}

/// Starts it with a kill at a point and runs the scenario as far as it gets.
async fn run_into(bench: &Bench, point: &Point) {
    let command = with_fault(&serve(&bench.data, &[]), &bench.data, point, Fault::Kill);
    bench.ledger.note(&format!("killed at {point:?}"));
    match Server::launch(command).await {
        Ok(server) => scenario(server, bench).await,
        Err(Ended { status, log }) => {
            let killed = std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
            assert!(killed, "the start failed by itself at {point:?}: {status}\n{log}");
        }
    }
}

/// Kills at points of the scenario begun on `origin`, then at one of the recovery, and audits.
async fn all_points(origin: &Bench, share: usize, rng: &mut Rng, name: &str) {
    let (started, mut at) = (Instant::now(), record(origin).await);
    let all = at.len();
    rng.shuffle(&mut at);
    at.truncate(share);
    let mut twice = 0;
    for point in &at {
        let bench = origin.fork();
        run_into(&bench, point).await;
        // Half of them a second time, in the recovery from the first.
        if rng.bool() && bench.data.exists() {
            let recovery = record(&bench).await;
            if let Some(second) = rng.choice(&recovery) {
                run_into(&bench, second).await;
                twice += 1;
            }
        }
        let server = Server::launch(serve(&bench.data, &[])).await;
        let server = server.unwrap_or_else(|ended| panic!("no start after a kill at {point:?}: {ended:?}"));
        bench.audit(&server, &format!("killed at {point:?}")).await;
        server.kill();
    }
    let kinds: std::collections::BTreeSet<_> = at.iter().map(|point| (&point.call, &point.file)).collect();
    eprintln!(
        "{name}: {} of {all} points ({} calls and files), {twice} twice, {:?}",
        at.len(),
        kinds.len(),
        started.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_call_that_changes_the_disk_loses_nothing() {
    if !strace::available() {
        return;
    }
    let (mut rng, share) = (seeded(), cycles(60) / 2);
    let bench = Bench::new();
    all_points(&bench, share, &mut rng, "from nothing").await;
    let server = Server::start(&bench.data).await;
    Load::steps(&server.url, &bench.ledger, 60, &mut rng).await;
    server.post("/snapshots", Value::Null).await;
    Load::steps(&server.url, &bench.ledger, 20, &mut rng).await;
    bench.audit(&server, "before any kill").await;
    server.kill();
    all_points(&bench, share, &mut rng, "recovery").await;
}
