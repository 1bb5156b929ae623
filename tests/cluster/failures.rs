//! The log while servers of etcd are killed, stopped and restarted: nothing acknowledged is lost, nothing is
//! appended twice, and tails have no gap.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use lookalike::log::{Log, LogError, Position};
use tokio::time::sleep;

use crate::appends::{History, append_until, read};
use crate::etcd::{self, Etcd};
use crate::{PATIENT, connect, trace};

const MOMENT: Duration = Duration::from_secs(2);

/// Appends from three logs while `disturb` works on etcd; then compares the log with the outcomes, and with
/// a tail that was open the whole time.
async fn append_during(title: &str, within: Duration, disturb: impl AsyncFnOnce(&mut Etcd)) {
    trace();
    let mut etcd = Etcd::start(3, &[]).await;
    let logs = [connect(&etcd, "a").await, connect(&etcd, "b").await, connect(&etcd, "c").await];
    let stop = Arc::new(AtomicBool::new(false));
    let appenders = (0..6).map(|at| {
        let log = logs[at % 3].clone();
        tokio::spawn(append_until(log, format!("w{at}"), 20_000, within, Arc::clone(&stop)))
    });
    let appenders = join_all(appenders.collect::<Vec<_>>());
    let open = logs[2].clone();
    let stop_reading = Arc::clone(&stop);
    let reading = tokio::spawn(async move {
        let mut tail = open.tail(Position(0));
        let mut entries = Vec::new();
        loop {
            match tokio::time::timeout(Duration::from_secs(20), tail.next()).await {
                Ok(entry) => entries.push(entry.unwrap().unwrap()),
                Err(_) if stop_reading.load(Ordering::Relaxed) => return entries,
                Err(_) => {}
            }
        }
    });
    sleep(MOMENT).await;
    disturb(&mut etcd).await;
    sleep(MOMENT).await;
    stop.store(true, Ordering::Relaxed);
    let history = History::merge(appenders.await.into_iter().map(Result::unwrap).collect());
    // A late try of an append with an unknown outcome may still be on its way.
    sleep(MOMENT).await;
    let entries = read(&logs[0], Position(0), logs[1].end().await.unwrap()).await;
    history.check(title, &entries);
    assert!(reading.await.unwrap() == entries, "the tail that was open differs");
}

async fn kill_the_leader(etcd: &mut Etcd) {
    for _ in 0..3 {
        let leader = etcd.leader().await.unwrap();
        etcd.kill(leader);
        sleep(MOMENT).await;
        etcd.restart(leader);
        etcd.wait_until_healthy().await;
    }
}

async fn kill_two(etcd: &mut Etcd) {
    for (one, two) in [(0, 1), (1, 2)] {
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
    for _ in 0..2 {
        (0..3).for_each(|at| etcd.kill(at));
        sleep(MOMENT).await;
        (0..3).for_each(|at| etcd.restart(at));
        etcd.wait_until_healthy().await;
        sleep(MOMENT / 2).await;
    }
}

/// Stops each server in turn, and then two at once: the rest has no leader.
async fn pause(etcd: &mut Etcd) {
    for stopped in [&[0][..], &[1], &[2], &[0, 1]] {
        stopped.iter().for_each(|&at| etcd.pause(at));
        sleep(3 * MOMENT).await;
        stopped.iter().for_each(|&at| etcd.resume(at));
        sleep(MOMENT).await;
    }
    etcd.wait_until_healthy().await;
}

/// Stops all servers for most of the time: every request is slow.
async fn slow_down(etcd: &mut Etcd) {
    for _ in 0..12 {
        (0..3).for_each(|at| etcd.pause(at));
        sleep(Duration::from_millis(600)).await;
        (0..3).for_each(|at| etcd.resume(at));
        sleep(Duration::from_millis(150)).await;
    }
}

/// A name, how long an append may take, and what happens to etcd. With the short time, many outcomes are
/// unknown.
macro_rules! failures {
    ($($name:ident: $within:expr, $disturb:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if etcd::is_installed() {
                    append_during(stringify!($name), $within, async |etcd| $disturb(etcd).await).await;
                }
            }
        )*
    };
}

failures! {
    the_leader_is_killed: PATIENT, kill_the_leader;
    two_servers_are_killed: PATIENT, kill_two;
    all_servers_are_killed: PATIENT, kill_all;
    servers_stop: PATIENT, pause;
    all_servers_are_slow: PATIENT, slow_down;
    impatient_while_the_leader_is_killed: Duration::from_millis(300), kill_the_leader;
    impatient_while_all_servers_are_killed: Duration::from_millis(300), kill_all;
    impatient_while_servers_stop: Duration::from_millis(300), pause;
    impatient_while_all_servers_are_slow: Duration::from_millis(300), slow_down;
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
        sleep(MOMENT).await;
    }
}
