//! The order and completeness of the log: all tails read the same, and of a store that stops nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use lookalike_log::objects::ObjectLog;
use lookalike_log::{Log, LogError, Position};

use crate::appends::{History, append_until, read};
use crate::{PATIENT, trace};

/// Logs of several processes in a folder.
fn logs<const N: usize>(dir: &std::path::Path) -> [ObjectLog; N] {
    let url = format!("file://{}", dir.display());
    std::array::from_fn(|at| ObjectLog::new(&url, &format!("s{at}"), at as u128 + 1).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_tails_read_the_same_log() {
    trace();
    let dir = tempfile::tempdir().unwrap();
    let logs: [ObjectLog; 3] = logs(dir.path());
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
    let dir = tempfile::tempdir().unwrap();
    let [log]: [ObjectLog; 1] = logs(dir.path());
    let most = log.max_payload();
    let mut expected = Vec::new();
    for (at, size) in [0, 1, 2, 3, 1000, 65_536, most - 1, most, most].into_iter().enumerate() {
        let payload = Bytes::from(vec![at as u8; size]);
        expected.push((log.append(payload.clone(), PATIENT).await.unwrap(), payload));
    }
    let error = log.append(Bytes::from(vec![0; most + 1]), PATIENT).await.unwrap_err();
    assert!(matches!(error, LogError::TooLarge { bytes, .. } if bytes == most + 1), "{error}");
    let entries = read(&log, Position(0), log.end().await.unwrap()).await;
    let entries: Vec<_> = entries.into_iter().map(|entry| (entry.position, entry.payload)).collect();
    assert!(entries == expected);
}

#[tokio::test]
async fn a_dropped_append_does_not_disturb_others() {
    let dir = tempfile::tempdir().unwrap();
    let [log]: [ObjectLog; 1] = logs(dir.path());
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_agree_and_know_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b]: [ObjectLog; 2] = logs(dir.path());
    let identity = a.begin("first").await.unwrap();
    let error = b.begin("second").await.unwrap_err();
    assert!(matches!(&error, LogError::Format { found, .. } if found == "first"), "{error}");
    assert_eq!(b.begin("first").await.unwrap(), identity);
    let listed = async || {
        let members = a.members().await.unwrap().into_iter();
        members.map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(&value))).collect::<Vec<_>>()
    };
    a.tell(b"1").await.unwrap();
    b.tell(b"2").await.unwrap();
    b.tell(b"3").await.unwrap();
    assert_eq!(listed().await, ["s0=1", "s1=3"]);
    assert!(a.ahead_ms().unwrap().abs() < 1_000);
    b.leave().await.unwrap();
    assert_eq!(listed().await, ["s0=1"]);
    let url = format!("file://{}", dir.path().display());
    let restarted = ObjectLog::new(&url, "s0", 9).unwrap();
    restarted.tell(b"5").await.unwrap();
    let error = a.tell(b"6").await.unwrap_err();
    assert!(matches!(error, LogError::NameTaken { .. }), "{error}");
    assert_eq!(listed().await, ["s0=5"]);
    // One that expects another log appends nothing, and reads nothing.
    let end = a.append("1".into(), PATIENT).await.unwrap();
    for (identity, is_same) in [(identity.as_str(), true), ("other", false)] {
        let log = ObjectLog::new(&url, "s2", 10).unwrap();
        assert_eq!(log.expect(identity, "first").await.is_ok(), is_same);
        assert_eq!(log.append("2".into(), PATIENT).await.is_ok(), is_same);
        let first = log.tail(Position(0)).next().await.unwrap();
        assert_eq!(matches!(first, Err(LogError::Replaced { .. })), !is_same);
    }
    assert_eq!(a.end().await.unwrap(), Position(end.0 + 1));
}

/// A tail that polls once a second is as fast as a hint, whether that is true or not.
#[tokio::test]
async fn a_hint_wakes_a_tail_and_a_false_one_only_makes_it_look() {
    let dir = tempfile::tempdir().unwrap();
    let [writer, reader]: [ObjectLog; 2] = logs(dir.path());
    writer.append("1".into(), PATIENT).await.unwrap();
    let mut tail = reader.tail(Position(0));
    assert_eq!(tail.next().await.unwrap().unwrap().number, 1);
    // Longer than the wait between two looks takes to grow.
    assert!(tokio::time::timeout(Duration::from_secs(4), tail.next()).await.is_err());
    let reading = tokio::spawn(async move { tail.next().await.unwrap().unwrap() });
    reader.hint(u64::MAX);
    let position = writer.append("2".into(), PATIENT).await.unwrap();
    assert_eq!(*writer.appended().borrow(), position.0);
    reader.hint(position.0 + 500);
    assert_eq!(reading.await.unwrap().position, position);
    // What was said does not move the end of the log.
    assert_eq!(reader.append("3".into(), PATIENT).await.unwrap(), Position(3));
}
