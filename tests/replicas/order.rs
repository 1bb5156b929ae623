//! The order and completeness of the log while all servers run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use lookalike_log::{Log, LogError, MAX_PAYLOAD, Position};

use crate::appends::{History, append_until, read};
use crate::etcd::{self, Etcd};
use crate::{PATIENT, connect, trace};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_tails_read_the_same_log() {
    if !etcd::is_installed() {
        return;
    }
    trace();
    let etcd = Etcd::start(3, &[]).await;
    let logs = [connect(&etcd, "a").await, connect(&etcd, "b").await, connect(&etcd, "c").await];
    assert_eq!(logs[0].etcd_cluster(), logs[2].etcd_cluster());
    assert_eq!(logs[0].end().await.unwrap(), Position(0));
    let stop = Arc::new(AtomicBool::new(false));
    let appenders = (0..8).map(|at| {
        let log = logs[at % 3].clone();
        tokio::spawn(append_until(log, format!("w{at}"), 20_000, PATIENT, Arc::clone(&stop)))
    });
    let appenders = join_all(appenders);
    // One tail starts before the first entry, and one in the middle of the work.
    let early = logs[1].tail(Position(0));
    let work = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let middle = logs[0].end().await.unwrap();
        let late = logs[2].tail(middle);
        tokio::time::sleep(Duration::from_secs(2)).await;
        stop.store(true, Ordering::Relaxed);
        (middle, late)
    };
    let (histories, (middle, late)) = futures::join!(appenders, work);
    let history = History::merge(histories.into_iter().map(Result::unwrap).collect());
    let end = logs[2].end().await.unwrap();
    let entries = read(&logs[0], Position(0), end).await;
    history.check("8 appenders, 3 logs", &entries);
    let early: Vec<_> = early.take(entries.len()).map(Result::unwrap).collect().await;
    assert!(early == entries, "two tails differ");
    let expected: Vec<_> = entries.iter().filter(|entry| entry.position > middle).cloned().collect();
    let late: Vec<_> = late.take(expected.len()).map(Result::unwrap).collect().await;
    assert!(!expected.is_empty() && late == expected, "a tail from the middle differs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_every_size_are_delivered() {
    if !etcd::is_installed() {
        return;
    }
    let etcd = Etcd::start(1, &[]).await;
    let log = connect(&etcd, "a").await;
    let sizes = [0, 1, 2, 3, 1000, 65_536, MAX_PAYLOAD - 1, MAX_PAYLOAD];
    // The catch-up of 24 MiB must not become one message.
    let sizes: Vec<usize> = sizes.into_iter().chain([MAX_PAYLOAD; 24]).collect();
    let mut expected = Vec::new();
    for (at, &size) in sizes.iter().enumerate() {
        let payload = Bytes::from(vec![at as u8; size]);
        expected.push((log.append(payload.clone(), PATIENT).await.unwrap(), payload));
    }
    let error = log.append(Bytes::from(vec![0; MAX_PAYLOAD + 1]), PATIENT).await.unwrap_err();
    assert!(matches!(error, LogError::TooLarge { bytes } if bytes == MAX_PAYLOAD + 1), "{error}");
    let entries = read(&log, Position(0), log.end().await.unwrap()).await;
    let entries: Vec<_> = entries.into_iter().map(|entry| (entry.position, entry.payload)).collect();
    assert!(entries == expected);
}

#[tokio::test]
async fn a_request_limit_below_an_entry_is_reported() {
    if !etcd::is_installed() {
        return;
    }
    let etcd = Etcd::start(1, &["--max-request-bytes", "100000"]).await;
    let log = connect(&etcd, "a").await;
    let error = log.append(Bytes::from(vec![0; 200_000]), PATIENT).await.unwrap_err();
    assert!(matches!(error, LogError::RequestLimit { bytes: 200_000 }), "{error}");
    log.append(Bytes::from_static(b"small"), PATIENT).await.unwrap();
}

#[tokio::test]
async fn a_dropped_append_does_not_disturb_others() {
    if !etcd::is_installed() {
        return;
    }
    let etcd = Etcd::start(1, &[]).await;
    let log = connect(&etcd, "a").await;
    for at in 0..200_u64 {
        let append = log.append(Bytes::from(format!("dropped {at}")), PATIENT);
        let _ = tokio::time::timeout(Duration::from_micros(at * 50), append).await;
    }
    let kept = log.append(Bytes::from_static(b"kept"), PATIENT).await.unwrap();
    let entries = read(&log, Position(0), kept).await;
    let mut payloads: Vec<_> = entries.iter().map(|entry| entry.payload.clone()).collect();
    println!("200 dropped appends: {} are in the log", entries.len() - 1);
    payloads.sort_unstable();
    payloads.dedup();
    assert_eq!(payloads.len(), entries.len(), "an entry is in the log twice");
}
