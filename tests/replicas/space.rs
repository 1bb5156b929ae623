//! Trimming the log, and etcd without space.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use lookalike_log::etcd::EtcdLog;
use lookalike_log::{Log, LogError, Position};

use crate::appends::read;
use crate::etcd::{self, Etcd};
use crate::{PATIENT, connect, trace};

async fn append_many(log: &EtcdLog, count: usize, size: usize) -> Vec<Position> {
    let mut positions = Vec::new();
    for at in 0..count {
        let mut payload = vec![0; size];
        payload[..8].copy_from_slice(&(at as u64).to_le_bytes());
        positions.push(log.append(payload.into(), PATIENT).await.unwrap());
    }
    positions
}

/// The error with which a tail begins.
async fn first_error(log: &EtcdLog, after: Position) -> LogError {
    let mut tail = log.tail(after);
    let error = tail.next().await.unwrap().unwrap_err();
    assert!(tail.next().await.is_none(), "a tail ends after an error");
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trimmed_log_is_read_from_the_trim_on() {
    if !etcd::is_installed() {
        return;
    }
    let etcd = Etcd::start(1, &[]).await;
    let log = connect(&etcd, "a").await;
    let positions = append_many(&log, 50, 100).await;
    log.trim(positions[20]).await.unwrap();
    log.trim(positions[20]).await.unwrap();
    log.trim(positions[3]).await.unwrap();
    for trimmed in [Position(0), positions[0], positions[19]] {
        let error = first_error(&log, trimmed).await;
        assert!(matches!(error, LogError::Trimmed { after } if after == trimmed), "{error}");
    }
    for from in [20, 21, 48] {
        let entries = read(&log, positions[from], positions[49]).await;
        let found: Vec<_> = entries.iter().map(|entry| entry.position).collect();
        assert_eq!(found, positions[from + 1..]);
        assert_eq!(entries[0].number, from as u64 + 2);
    }
    log.trim(positions[49]).await.unwrap();
    let mut tail = log.tail(positions[49]);
    let next = append_many(&log, 1, 100).await[0];
    let entry = tail.next().await.unwrap().unwrap();
    assert_eq!((entry.position, entry.number), (next, 51));
    let error = log.trim(Position(10_000)).await.unwrap_err();
    assert!(matches!(error, LogError::Rewound { position: Position(10_000), end } if end == next), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_that_the_log_does_not_have_is_refused() {
    if !etcd::is_installed() {
        return;
    }
    let etcd = Etcd::start(1, &[]).await;
    let log = connect(&etcd, "a").await;
    let end = append_many(&log, 3, 100).await[2];
    // The revision before the first entry is that of a lane.
    for wrong in [Position(1), Position(end.0 + 1), Position(end.0 + 1_000)] {
        let error = first_error(&log, wrong).await;
        assert!(matches!(error, LogError::Rewound { position, .. } if position == wrong), "{error}");
    }
}

/// etcd before 3.4.31 may skip entries of a slow watch when they are compacted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_tail_has_no_gap_when_the_log_is_trimmed() {
    if !etcd::is_installed() {
        return;
    }
    trace();
    let etcd = Etcd::start(1, &[]).await;
    let log = connect(&etcd, "a").await;
    let mut tail = log.tail(Position(0));
    let first = append_many(&log, 1, 100).await[0];
    assert_eq!(tail.next().await.unwrap().unwrap().position, first);
    let mut last = 1;
    let mut was_trimmed = false;
    for round in 0..10 {
        let positions = append_many(&log, 60, 1_000_000).await;
        log.trim(positions[59]).await.unwrap();
        for _ in 0..40 {
            match tokio::time::timeout(Duration::from_secs(2), tail.next()).await {
                Ok(Some(Ok(entry))) => {
                    assert_eq!(entry.number, last + 1, "a gap in round {round}");
                    last = entry.number;
                }
                Ok(Some(Err(LogError::Trimmed { .. }))) => was_trimmed = true,
                Ok(None) => break,
                other => panic!("{other:?}"),
            }
        }
        if was_trimmed {
            println!("the slow tail was told after entry {last} that the next one is trimmed");
            return;
        }
    }
    panic!("the tail was never behind a trim");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_works_again_after_a_trim() {
    if !etcd::is_installed() {
        return;
    }
    trace();
    let etcd = Etcd::start(3, &["--quota-backend-bytes", "16000000"]).await;
    let log = connect(&etcd, "a").await;
    let mut acknowledged = Vec::new();
    let full = loop {
        match log.append(vec![7; 500_000].into(), PATIENT).await {
            Ok(position) => acknowledged.push(position),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, LogError::Full), "{full}");
    println!("full after {} entries of 500 KB with a quota of 16 MB: {full}", acknowledged.len());
    let end = *acknowledged.last().unwrap();
    assert_eq!(log.end().await.unwrap(), end);
    let found: Vec<_> = read(&log, Position(0), end).await.iter().map(|entry| entry.position).collect();
    assert_eq!(found, acknowledged, "what was acknowledged is still there");
    let status = log.status().await.unwrap();
    assert!(status.is_full() && status.quota_bytes == 16_000_000, "{status:?}");
    assert!(status.used_percent() > 90 && status.reachable().count() == 3, "{status:?}");

    let other = connect(&etcd, "b").await;
    let error = other.append(Bytes::from_static(b"small"), PATIENT).await.unwrap_err();
    assert!(matches!(error, LogError::Full), "a new server is told, too: {error}");
    let nothing = log.reclaim().await.unwrap();
    assert!(!nothing.is_alarm_cleared, "nothing was trimmed: {nothing:?}");
    log.trim(end).await.unwrap();
    let reclaimed = loop {
        let reclaimed = log.reclaim().await.unwrap();
        println!("{reclaimed:?}");
        if reclaimed.is_alarm_cleared {
            break reclaimed;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    assert!(reclaimed.bytes > 20_000_000, "{reclaimed:?}");
    let next = log.append(Bytes::from_static(b"next"), PATIENT).await.unwrap();
    let entries = read(&log, end, next).await;
    assert_eq!((entries.len(), entries[0].number), (1, acknowledged.len() as u64 + 1));
    let status = log.status().await.unwrap();
    assert!(!status.is_full() && status.used_percent() < 20, "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_names_servers_that_do_not_answer() {
    if !etcd::is_installed() {
        return;
    }
    let mut etcd = Etcd::start(3, &[]).await;
    let log = connect(&etcd, "c").await;
    let status = log.status().await.unwrap();
    assert_eq!((status.reachable().count(), status.quota_bytes), (3, 2 << 30));
    assert!(status.reachable().all(|member| member.leader != 0 && member.version.starts_with("3.")));
    etcd.kill(1);
    // The first request may still be on the connection from before.
    let mut failures = Vec::new();
    for _ in 0..3 {
        let status = log.status().await.unwrap();
        let dead = status.endpoints.iter().find(|endpoint| endpoint.url == etcd.endpoint(1)).unwrap();
        failures.push(dead.state.as_ref().unwrap_err().to_string());
        assert_eq!(status.reachable().count(), 2, "{failures:?}");
    }
    assert!(failures[2].contains("no server answers"), "{failures:?}");
}
