//! Figures of the log on this machine: throughput, latency, delivery lag, and the memory that a backlog takes
//! in etcd. Run by hand: `cargo test --release --test replicas speed -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use lookalike_log::etcd::EtcdLog;
use lookalike_log::{Log, MAX_PAYLOAD, Position};

use crate::etcd::Etcd;
use crate::{PATIENT, connect};

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100].as_secs_f64() * 1e3
}

/// Random bytes that begin with the time since `epoch`.
fn stamped(size: usize, epoch: Instant) -> Bytes {
    let mut payload: Vec<u8> = (0..size).map(|_| fastrand::u8(..)).collect();
    payload[..8].copy_from_slice(&(epoch.elapsed().as_nanos() as u64).to_le_bytes());
    payload.into()
}

async fn measure(writer: &EtcdLog, reader: &EtcdLog, size: usize, in_flight: usize, count: usize) {
    let epoch = Instant::now();
    let mut tail = reader.tail(reader.end().await.unwrap());
    let reading = tokio::spawn(async move {
        let mut lags = Vec::new();
        while lags.len() < count {
            let entry = tail.next().await.unwrap().unwrap();
            let sent = u64::from_le_bytes(entry.payload[..8].try_into().unwrap());
            lags.push(epoch.elapsed().saturating_sub(Duration::from_nanos(sent)));
        }
        lags
    });
    let appends = stream::iter(0..count).map(|_| {
        let payload = stamped(size, epoch);
        async {
            let since = Instant::now();
            writer.append(payload, PATIENT).await.unwrap();
            since.elapsed()
        }
    });
    let since = Instant::now();
    let mut latencies: Vec<Duration> = appends.buffer_unordered(in_flight).collect().await;
    let seconds = since.elapsed().as_secs_f64();
    let mut lags = reading.await.unwrap();
    latencies.sort_unstable();
    lags.sort_unstable();
    println!(
        "| {} KB ×{in_flight} | {:.2} MB/s | {:.0} /s | {:.1} / {:.1} ms | {:.1} / {:.1} ms |",
        size / 1024,
        (size * count) as f64 / 1e6 / seconds,
        count as f64 / seconds,
        percentile(&latencies, 50),
        percentile(&latencies, 99),
        percentile(&lags, 50),
        percentile(&lags, 99),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn appends_and_delivery() {
    let etcd = Etcd::start(3, &[]).await;
    let (writer, reader) = (connect(&etcd, "a").await, connect(&etcd, "b").await);
    println!("| size × in flight | throughput | appends | latency p50 / p99 | sent to read p50 / p99 |");
    for (size, in_flight, count) in
        [(1 << 10, 1, 1000), (1 << 10, 4, 2000), (64 << 10, 1, 500), (512 << 10, 4, 200), (1 << 20, 4, 100)]
    {
        measure(&writer, &reader, size, in_flight, count).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn a_backlog() {
    for (size, count) in [(MAX_PAYLOAD, 400), (1 << 10, 20_000)] {
        let etcd = Etcd::start(1, &[]).await;
        let log = connect(&etcd, "a").await;
        let epoch = Instant::now();
        let appends = stream::iter(0..count).map(|_| log.append(stamped(size, epoch), PATIENT));
        appends.buffer_unordered(4).map(Result::unwrap).count().await;
        let written = epoch.elapsed().as_secs_f64();
        let (before, _) = etcd.memory(0);
        let since = Instant::now();
        let mut tail = log.tail(Position(0));
        for at in 0..count {
            assert_eq!(tail.next().await.unwrap().unwrap().number, at as u64 + 1);
        }
        let seconds = since.elapsed().as_secs_f64();
        let megabytes = (size * count) as f64 / 1e6;
        let (after, most) = etcd.memory(0);
        println!(
            "{count} entries of {} KB ({megabytes:.0} MB, written in {written:.1} s): read in \
             {seconds:.1} s, {:.0} MB/s; etcd's memory {} MB before, {} MB after, at most {} MB",
            size / 1024,
            megabytes / seconds,
            before >> 20,
            after >> 20,
            most >> 20,
        );
    }
}
