//! The contract of a log, checked with the log in memory and with etcd: both behave alike.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use super::etcd::{EtcdLog, EtcdSettings};
use super::memory::MemoryLog;
use super::{Entry, Log, LogError, MAX_PAYLOAD, Position};

#[allow(dead_code, unreachable_pub, reason = "the other tests of the log use all of it")]
#[path = "../../../tests/replicas/etcd.rs"]
mod servers;

const PATIENT: Duration = Duration::from_secs(30);

async fn append(log: &dyn Log, payload: &'static str) -> Position {
    log.append(Bytes::from_static(payload.as_bytes()), PATIENT).await.unwrap()
}

async fn read(log: &dyn Log, after: Position, count: usize) -> Vec<Entry> {
    log.tail(after).take(count).map(Result::unwrap).collect().await
}

async fn first_error(log: &dyn Log, after: Position) -> LogError {
    let mut tail = log.tail(after);
    let error = tail.next().await.unwrap().unwrap_err();
    assert!(tail.next().await.is_none());
    error
}

async fn check(log: &dyn Log) {
    assert_eq!(log.end().await.unwrap(), Position(0));
    let mut open = log.tail(Position(0));
    let mut positions = Vec::new();
    for payload in ["a", "", "c", "d"] {
        positions.push(append(log, payload).await);
        let entry = open.next().await.unwrap().unwrap();
        assert_eq!(
            (entry.position, &entry.payload[..]),
            (positions[entry.number as usize - 1], payload.as_bytes())
        );
    }
    assert!(positions.is_sorted() && positions[0] > Position(0));
    assert_eq!(log.end().await.unwrap(), positions[3]);
    let entries = read(log, Position(0), 4).await;
    assert_eq!(entries.iter().map(|entry| entry.position).collect::<Vec<_>>(), positions);
    assert_eq!(read(log, positions[1], 2).await, entries[2..]);

    let error = log.append(vec![0; MAX_PAYLOAD + 1].into(), PATIENT).await.unwrap_err();
    assert!(matches!(error, LogError::TooLarge { .. }), "{error}");
    let beyond = Position(positions[3].0 + 300);
    assert!(matches!(first_error(log, beyond).await, LogError::Rewound { .. }));
    assert!(matches!(log.trim(beyond).await, Err(LogError::Rewound { .. })));

    log.trim(positions[1]).await.unwrap();
    log.trim(positions[0]).await.unwrap();
    assert_eq!(read(log, positions[1], 2).await, entries[2..]);
    assert!(matches!(first_error(log, positions[0]).await, LogError::Trimmed { .. }));
    assert!(matches!(first_error(log, Position(0)).await, LogError::Trimmed { .. }));
    log.trim(positions[3]).await.unwrap();
    assert_eq!(log.end().await.unwrap(), positions[3]);
    let last = append(log, "e").await;
    assert_eq!(open.next().await.unwrap().unwrap().position, last);
    assert_eq!(read(log, positions[3], 1).await[0].number, 5);
}

#[tokio::test]
async fn memory() {
    check(&MemoryLog::default()).await;
}

#[tokio::test]
async fn etcd() {
    if servers::is_installed() {
        let etcd = servers::Etcd::start(1, &[]).await;
        check(&EtcdLog::connect(EtcdSettings::new(etcd.endpoints(), "c", "s")).await.unwrap()).await;
    }
}
