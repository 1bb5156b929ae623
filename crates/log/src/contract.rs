//! The contract of a log, checked with the log in memory and with a folder: both behave alike.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use super::memory::MemoryLog;
use super::objects::ObjectLog;
use super::{Entry, Log, LogError, Position};

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

    let error = log.append(vec![0; log.max_payload() + 1].into(), PATIENT).await.unwrap_err();
    assert!(matches!(error, LogError::TooLarge { .. }), "{error}");
    let beyond = Position(positions[3].0 + 300);
    assert!(matches!(first_error(log, beyond).await, LogError::Rewound { .. }));

    let last = append(log, "e").await;
    assert_eq!(open.next().await.unwrap().unwrap().position, last);
    assert_eq!(read(log, positions[3], 1).await[0].number, 5);
}

async fn check_trim(log: &MemoryLog) {
    let entries = read(log, Position(0), 5).await;
    let positions: Vec<Position> = entries.iter().map(|entry| entry.position).collect();
    assert!(matches!(log.trim(Position(positions[4].0 + 300)), Err(LogError::Rewound { .. })));
    log.trim(positions[1]).unwrap();
    log.trim(positions[0]).unwrap();
    assert_eq!(read(log, positions[1], 2).await, entries[2..4]);
    assert!(matches!(first_error(log, positions[0]).await, LogError::Trimmed { .. }));
    assert!(matches!(first_error(log, Position(0)).await, LogError::Trimmed { .. }));
    log.trim(positions[4]).unwrap();
    assert_eq!(log.end().await.unwrap(), positions[4]);
    append(log, "f").await;
    assert_eq!(read(log, positions[4], 1).await[0].number, 6);
}

#[tokio::test]
async fn memory() {
    let log = MemoryLog::default();
    check(&log).await;
    check_trim(&log).await;
}

#[tokio::test]
async fn folder() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().display());
    check(&ObjectLog::new(&url, "a", 1).unwrap()).await;
}
