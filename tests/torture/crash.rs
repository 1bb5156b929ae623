//! Killed at the N-th call that changes the disk, for every N of a fixed scenario; and again in the recovery.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::time::Instant;

use fastrand::Rng;
use serde_json::Value;

use crate::audit::audit;
use crate::bench::{Bench, SHORT, cycles, seeded};
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
async fn record(origin: &Bench) -> Result<Vec<Point>, String> {
    let bench = origin.fork();
    let trace = bench.data.with_file_name("trace");
    let server = Server::launch(recorded(&serve(&bench.data, SHORT), &trace)).await.map_err(ended)?;
    scenario(server, &bench).await;
    // strace writes the last lines after the server has ended.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    Ok(points(&trace, &bench.data))
}

fn ended(ended: Ended) -> String {
    format!("no start: {}\n{}", ended.status, ended.log)
}

/// Starts it with a kill at a point and runs the scenario as far as it gets.
async fn run_into(bench: &Bench, point: &Point) -> Result<(), String> {
    let command = with_fault(&serve(&bench.data, SHORT), &bench.data, point, Fault::Kill);
    bench.ledger.note(&format!("killed at {point:?}"));
    match Server::launch(command).await {
        Ok(server) => scenario(server, bench).await,
        Err(end) if end.status.signal() == Some(9) => {}
        Err(end) => return Err(ended(end)),
    }
    Ok(())
}

/// Kills at a point of the scenario begun on `origin`, now and then at one of the recovery from it, and audits.
/// Whether it was killed twice.
async fn one(origin: &Bench, point: &Point, rng: &mut Rng) -> Result<bool, String> {
    let bench = origin.fork();
    run_into(&bench, point).await?;
    let mut twice = false;
    if rng.bool()
        && bench.data.exists()
        && let Some(second) = rng.choice(&record(&bench).await?)
    {
        run_into(&bench, second).await.map_err(|why| format!("then at {second:?}: {why}"))?;
        twice = true;
    }
    let server = Server::launch(serve(&bench.data, &[])).await.map_err(ended)?;
    audit(&server, &bench.ledger).await.map_err(|wrong| wrong.join("\n"))?;
    server.kill();
    Ok(twice)
}

async fn all_points(origin: &Bench, share: usize, rng: &mut Rng, name: &str) -> Vec<String> {
    let (started, mut at) = (Instant::now(), record(origin).await.unwrap());
    let all = at.len();
    rng.shuffle(&mut at);
    at.truncate(share);
    let (mut twice, mut wrong) = (0, Vec::new());
    for point in &at {
        match one(origin, point, rng).await {
            Ok(again) => twice += usize::from(again),
            Err(why) => wrong.push(format!("killed at {point:?}: {why}")),
        }
    }
    let kinds: BTreeSet<_> = at.iter().map(|point| (&point.call, &point.file)).collect();
    let (points, kinds) = (at.len(), kinds.len());
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
    let (mut rng, share) = (seeded(), cycles(60) / 2);
    let bench = Bench::new();
    let mut wrong = all_points(&bench, share, &mut rng, "from nothing").await;
    let server = Server::start_with(&bench.data, SHORT).await;
    Load::steps(&server.url, &bench.ledger, 60, &mut rng).await;
    server.post("/snapshots", Value::Null).await;
    Load::steps(&server.url, &bench.ledger, 20, &mut rng).await;
    bench.audit(&server, "before any kill").await;
    server.kill();
    wrong.extend(all_points(&bench, share, &mut rng, "recovery").await);
    assert!(wrong.is_empty(), "{} violations:\n{}", wrong.len(), wrong.join("\n"));
}
