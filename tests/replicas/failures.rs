//! The log while servers of etcd are killed, stopped and restarted: nothing acknowledged is lost, nothing is
//! appended twice, and tails have no gap.
//!
//! `LOOKALIKE_TORTURE_CYCLES` sets how often each failure is repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use lookalike_log::etcd::EtcdLog;
use lookalike_log::{Entry, Log, LogError, Position};
use tokio::time::sleep;

use crate::appends::{History, append_until, read};
use crate::etcd::{self, Etcd};
use crate::{PATIENT, connect, cycles, settings, trace};

/// Longer than etcd needs to elect a leader.
const MOMENT: Duration = Duration::from_secs(2);
/// How long an append of the impatient half may take: many of their outcomes are unknown.
const IMPATIENT: Duration = Duration::from_millis(300);

/// Appends from three logs, patiently and impatiently, while `disturb` works on etcd; then compares the log
/// with the outcomes, and with a tail that was open the whole time.
async fn append_during(title: &str, disturb: impl AsyncFnOnce(&mut Etcd)) {
    trace();
    let mut etcd = Etcd::start(3, &[]).await;
    let logs = [connect(&etcd, "a").await, connect(&etcd, "b").await, connect(&etcd, "c").await];
    let stop = Arc::new(AtomicBool::new(false));
    let appenders = (0..6).map(|at| {
        let (log, within) = (logs[at % 3].clone(), if at < 3 { PATIENT } else { IMPATIENT });
        tokio::spawn(append_until(log, format!("w{at}"), 20_000, within, Arc::clone(&stop)))
    });
    let appenders = join_all(appenders.collect::<Vec<_>>());
    // Reads until it is told where the log ends.
    let (tell_end, end_of_log) = tokio::sync::watch::channel(Position(u64::MAX));
    let open = logs[2].clone();
    let reading = tokio::spawn(async move {
        let mut tail = open.tail(Position(0));
        let mut entries: Vec<Entry> = Vec::new();
        let mut ended = end_of_log.clone();
        while entries.last().is_none_or(|last| last.position < *end_of_log.borrow()) {
            tokio::select! {
                entry = tail.next() => entries.push(entry.unwrap().unwrap()),
                _ = ended.changed() => {}
            }
        }
        entries
    });
    sleep(MOMENT / 4).await;
    disturb(&mut etcd).await;
    sleep(MOMENT / 4).await;
    stop.store(true, Ordering::Relaxed);
    let history = History::merge(appenders.await.into_iter().map(Result::unwrap).collect());
    // A late try of an append with an unknown outcome may still be on its way.
    sleep(MOMENT).await;
    let end = logs[1].end().await.unwrap();
    let entries = read(&logs[0], Position(0), end).await;
    history.check(title, &entries);
    tell_end.send(end).unwrap();
    assert!(reading.await.unwrap() == entries, "the tail that was open differs");
}

async fn kill_the_leader(etcd: &mut Etcd) {
    for _ in 0..cycles(2) {
        let leader = etcd.leader().await.unwrap();
        etcd.kill(leader);
        sleep(MOMENT).await;
        etcd.restart(leader);
        etcd.wait_until_healthy().await;
    }
}

async fn kill_two(etcd: &mut Etcd) {
    for (one, two) in [(0, 1), (1, 2)].into_iter().cycle().take(cycles(2) as usize) {
        etcd.kill(one);
        etcd.kill(two);
        sleep(MOMENT).await;
        etcd.restart(one);
        etcd.restart(two);
        etcd.wait_until_healthy().await;
        sleep(MOMENT / 2).await;
    }
}

async fn kill_all(etcd: &mut Etcd) {
    for _ in 0..cycles(2) {
        (0..3).for_each(|at| etcd.kill(at));
        sleep(MOMENT).await;
        (0..3).for_each(|at| etcd.restart(at));
        etcd.wait_until_healthy().await;
        sleep(MOMENT / 2).await;
    }
}

/// Stops the leader, another server, and two at once: the rest has no leader. Each stop is longer than the
/// first try of a request, so that it is sent to another server.
async fn pause(etcd: &mut Etcd) {
    for _ in 0..cycles(1) {
        let leader = etcd.leader().await.unwrap();
        let other = (leader + 1) % 3;
        for stopped in [&[leader][..], &[other], &[leader, other]] {
            stopped.iter().for_each(|&at| etcd.pause(at));
            sleep(2 * MOMENT).await;
            stopped.iter().for_each(|&at| etcd.resume(at));
            sleep(MOMENT / 2).await;
        }
        etcd.wait_until_healthy().await;
    }
}

/// Stops all servers for most of the time: every request is slow.
async fn slow_down(etcd: &mut Etcd) {
    for _ in 0..8 * cycles(1) {
        (0..3).for_each(|at| etcd.pause(at));
        sleep(Duration::from_millis(600)).await;
        (0..3).for_each(|at| etcd.resume(at));
        sleep(Duration::from_millis(150)).await;
    }
}

/// A name, and what happens to etcd.
macro_rules! failures {
    ($($name:ident: $disturb:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if etcd::is_installed() {
                    append_during(stringify!($name), async |etcd| $disturb(etcd).await).await;
                }
            }
        )*
    };
}

failures! {
    the_leader_is_killed: kill_the_leader;
    two_servers_are_killed: kill_two;
    all_servers_are_killed: kill_all;
    servers_stop: pause;
    all_servers_are_slow: slow_down;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_errors_are_clear_and_tails_wait() {
    if !etcd::is_installed() {
        return;
    }
    let mut etcd = Etcd::start(3, &[]).await;
    let log = connect(&etcd, "a").await;
    let first = log.append(Bytes::from_static(b"1"), PATIENT).await.unwrap();
    let mut tail = log.tail(Position(0));
    assert_eq!(tail.next().await.unwrap().unwrap().position, first);
    (0..3).for_each(|at| etcd.kill(at));
    let error = log.append(Bytes::from_static(b"2"), MOMENT).await.unwrap_err();
    assert!(matches!(error, LogError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("Nothing was written"), "{error}");
    println!("{error}");
    assert!(tokio::time::timeout(MOMENT, tail.next()).await.is_err(), "the tail waits");
    (0..3).for_each(|at| etcd.restart(at));
    let third = log.append(Bytes::from_static(b"3"), PATIENT).await.unwrap();
    let entry = tail.next().await.unwrap().unwrap();
    assert_eq!((entry.position, entry.number, &entry.payload[..]), (third, 2, &b"3"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_outcome_does_not_come_after_the_next_append() {
    if !etcd::is_installed() {
        return;
    }
    trace();
    let etcd = Etcd::start(3, &[]).await;
    let leader = etcd.leader().await.unwrap();
    for follower in (0..3).filter(|at| *at != leader) {
        let mut endpoints = etcd.endpoints();
        endpoints.swap(0, follower);
        let log = EtcdLog::connect(settings(endpoints, "a")).await.unwrap();
        // An append opens the lane.
        let start = log.append(Bytes::from_static(b"0"), PATIENT).await.unwrap();
        etcd.pause(follower);
        let unknown = log.append(Bytes::from_static(b"late"), IMPATIENT).await;
        assert!(matches!(unknown, Err(LogError::Unknown(_))), "{unknown:?}");
        let next = log.append(Bytes::from_static(b"next"), PATIENT).await.unwrap();
        // The server that was stopped has the request of the first append.
        etcd.resume(follower);
        sleep(MOMENT).await;
        etcd.wait_until_healthy().await;
        let last = log.append(Bytes::from_static(b"last"), PATIENT).await.unwrap();
        let entries = read(&log, start, last).await;
        let after: Vec<_> = entries.iter().filter(|entry| entry.position > next).collect();
        assert!(after.len() == 1 && after[0].payload == "last", "{entries:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_at_a_server_that_is_cut_off_moves_on() {
    if !etcd::is_installed() {
        return;
    }
    trace();
    let etcd = Etcd::start(3, &[]).await;
    let reader = connect(&etcd, "a").await;
    let writer = connect(&etcd, "b").await;
    let mut tail = reader.tail(Position(0));
    let first = writer.append(Bytes::from_static(b"1"), PATIENT).await.unwrap();
    assert_eq!(tail.next().await.unwrap().unwrap().position, first);
    // Whichever server has the watch stops once.
    for at in 0..3 {
        etcd.pause(at);
        let position = writer.append(Bytes::from_static(b"2"), PATIENT).await.unwrap();
        let since = std::time::Instant::now();
        assert_eq!(tail.next().await.unwrap().unwrap().position, position);
        println!("server {at} stopped: the entry came after {:.1} s", since.elapsed().as_secs_f64());
        etcd.resume(at);
        etcd.wait_until_healthy().await;
    }
}
