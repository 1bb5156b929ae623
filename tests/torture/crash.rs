//! The server is killed at the N-th call that changes the disk, for every N of a fixed scenario, and again
//! during the recovery.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;

use crate::audit::audit;
use crate::bench::{Bench, SHORT, cycles, seeded};
use crate::load::Load;
use crate::server::{Ended, Server, serve};
use crate::strace::{self, Fault, Point, points, recorded, with_fault};

/// The scenario, the same in each run: writes, a snapshot, more writes, a graceful shutdown.
async fn scenario(server: Server, bench: &Bench) {
    let mut rng = Rng::with_seed(9);
    Load::steps(&server.url, &bench.ledger, 12, &mut rng).await;
    let snapshot = server.client.post(format!("{}/snapshots", server.url)).json(&Value::Null);
    let _ = snapshot.timeout(Duration::from_secs(60)).send().await;
    Load::steps(&server.url, &bench.ledger, 8, &mut rng).await;
    let _ = server.stop();
}

/// Records the scenario on a copy. Returns its points.
async fn record(origin: &Bench) -> Result<Vec<Point>, String> {
    let bench = origin.fork();
    let trace = bench.data.with_file_name("trace");
    let server = Server::launch(recorded(&serve(&bench.data, SHORT), &trace)).await.map_err(start_error)?;
    scenario(server, &bench).await;
    // strace writes the last lines after the server has ended.
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(points(&trace, &bench.data))
}

fn start_error(start_error: Ended) -> String {
    format!("no start: {}\n{}", start_error.status, start_error.log)
}

/// Starts the server with a kill at a point and runs the scenario until then.
async fn run_into(bench: &Bench, point: &Point) -> Result<(), String> {
    let command = with_fault(&serve(&bench.data, SHORT), &bench.data, point, Fault::Kill);
    bench.ledger.note(&format!("killed at {point:?}"));
    match Server::launch(command).await {
        Ok(server) => scenario(server, bench).await,
        Err(end) if end.status.signal() == Some(9) => {}
        Err(end) => return Err(start_error(end)),
    }
    Ok(())
}

/// Kills the server at a point of the scenario on a copy of `origin`, in half of the cases also at a point
/// of the recovery, and audits. Returns whether it was killed twice.
async fn check_point(origin: &Bench, point: &Point, rng: &mut Rng) -> Result<bool, String> {
    let bench = origin.fork();
    run_into(&bench, point).await?;
    let mut twice = false;
    if rng.bool()
        && bench.data.exists()
        && let Some(second) = rng.choice(&record(&bench).await?)
    {
        run_into(&bench, second).await.map_err(|reason| format!("then at {second:?}: {reason}"))?;
        twice = true;
    }
    let server = Server::launch(serve(&bench.data, &[])).await.map_err(start_error)?;
    audit(&server, &bench.ledger).await.map_err(|wrong| wrong.join("\n"))?;
    // Files that a crash left must not affect later writes, the next shutdown or the next start.
    scenario(server, &bench).await;
    let server = Server::launch(serve(&bench.data, SHORT)).await.map_err(start_error)?;
    audit(&server, &bench.ledger)
        .await
        .map_err(|wrong| format!("after more writes: {}", wrong.join("\n")))?;
    server.kill();
    Ok(twice)
}

async fn all_points(origin: &Bench, limit: usize, rng: &mut Rng, name: &str) -> Vec<String> {
    let (started, mut selected) = (Instant::now(), record(origin).await.unwrap());
    let all = selected.len();
    rng.shuffle(&mut selected);
    selected.truncate(limit);
    let (mut twice, mut wrong) = (0, Vec::new());
    for point in &selected {
        match check_point(origin, point, rng).await {
            Ok(was_killed_twice) => twice += usize::from(was_killed_twice),
            Err(reason) => wrong.push(format!("killed at {point:?}: {reason}")),
        }
    }
    let kinds: BTreeSet<_> = selected.iter().map(|point| (&point.call, &point.file)).collect();
    let (points, kinds) = (selected.len(), kinds.len());
    eprintln!(
        "{name}: {points} of {all} points ({kinds} calls and files), {twice} twice, {:?}",
        started.elapsed()
    );
    wrong
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_call_that_changes_the_disk_loses_nothing() {
    if !strace::available() {
        return;
    }
    let (mut rng, limit) = (seeded(), cycles(60) / 2);
    let bench = Bench::new();
    let mut wrong = all_points(&bench, limit, &mut rng, "from nothing").await;
    let server = Server::start_with(&bench.data, SHORT).await;
    Load::steps(&server.url, &bench.ledger, 60, &mut rng).await;
    server.post("/snapshots", Value::Null).await;
    Load::steps(&server.url, &bench.ledger, 20, &mut rng).await;
    bench.audit(&server, "before any kill").await;
    server.kill();
    wrong.extend(all_points(&bench, limit, &mut rng, "recovery").await);
    assert!(wrong.is_empty(), "{} violations:\n{}", wrong.len(), wrong.join("\n"));
}
