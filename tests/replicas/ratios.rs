//! Replicas compared with a single one, in turns, on this machine: lookups, bulk loads, single
//! writes, and how fast a server that is behind catches up, compared with a restore. Prints medians. Run by
//! hand: `cargo test --release --locked --test replicas ratio -- --ignored --nocapture`.
//!
//! One shared log has a single replica, so that its figures are the price of the log. The other one has
//! three, which all apply each write on the same processors.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::{StreamExt, stream};
use reqwest::Client;
use serde_json::json;
use tokio::task::block_in_place;

use super::number;
use super::server::{self, Server};
use super::servers::{Replicas, copy};

const ROUNDS: usize = 6;
/// Documents of a stream.
const STREAM: u64 = 20_000;
/// The single server, and a replica of each shared log.
const SIDES: usize = 3;
/// Threads that send lookups.
const THREADS: u64 = 2;
const LOOKUPS_FOR: Duration = Duration::from_millis(1_500);

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn hash(number: u64) -> String {
    format!("{:016x}", (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn hashes(range: std::ops::Range<u64>) -> String {
    range.map(|n| format!("{}\n", json!({"id": format!("d{n}"), "hash": hash(n)}))).collect()
}

/// Documents with about 400 characters of text each.
fn texts(range: std::ops::Range<u64>) -> String {
    let text =
        |n: u64| (0..12).map(move |at| format!("word {} of the text {n} is here, ", hash(n * 13 + at)));
    range
        .map(|n| format!("{}\n", json!({"id": format!("t{n}"), "text": text(n).collect::<String>()})))
        .collect()
}

/// Lookups a second of threads that send one after the other.
fn lookups(server: &Server) -> f64 {
    let address = server.url.trim_start_matches("http://");
    let since = Instant::now();
    let counts: Vec<u64> = std::thread::scope(|scope| {
        let one = |thread: u64| {
            scope.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut count, mut random) = (0, fastrand::Rng::with_seed(thread));
                while since.elapsed() < LOOKUPS_FOR {
                    let of = hash(random.u64(0..STREAM));
                    let request = format!("GET /similar?hash={of}&k=3 HTTP/1.1\r\nHost: {address}\r\n\r\n");
                    stream.write_all(request.as_bytes()).unwrap();
                    expect_answer(&mut reader);
                    count += 1;
                }
                count
            })
        };
        let threads: Vec<_> = (0..THREADS).map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    counts.iter().sum::<u64>() as f64 / since.elapsed().as_secs_f64()
}

/// Reads an answer, which must be a success.
fn expect_answer(reader: &mut impl BufRead) {
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    assert!(body.windows(4).any(|part| part == b"\"id\""), "a stored hash was not found");
}

/// Documents a second of a stream, until the last is acknowledged.
async fn bulk(server: &Server, lines: String) -> f64 {
    let count = lines.lines().count();
    let since = Instant::now();
    let (_, summary) = server.stream("/documents", lines).await;
    assert_eq!(summary["errors"], 0, "{summary}");
    count as f64 / since.elapsed().as_secs_f64()
}

/// The milliseconds of each of `count` writes, with `in_flight` at a time.
async fn singles(server: &Server, from: u64, count: u64, in_flight: usize) -> Vec<f64> {
    let client = Client::new();
    let writes = stream::iter(from..from + count).map(|n| {
        let request = client.put(format!("{}/documents/s{n}", server.url)).json(&json!({"hash": hash(n)}));
        async move {
            let since = Instant::now();
            assert!(request.send().await.unwrap().status().is_success());
            since.elapsed().as_secs_f64() * 1e3
        }
    });
    writes.buffer_unordered(in_flight).collect().await
}

fn percentile(of: &mut [f64], percent: usize) -> f64 {
    of.sort_by(f64::total_cmp);
    of[(of.len() - 1) * percent / 100]
}

/// Prints the medians of the sides, and those of the ratios to the first side in each round.
fn print<const N: usize>(what: &str, aim: &str, sides: &[Vec<f64>; N]) {
    let ratio =
        |side: &Vec<f64>| median(side.iter().zip(&sides[0]).map(|(one, first)| one / first).collect());
    let ratios: Vec<String> = sides[1..].iter().map(|side| format!("{:.2}", ratio(side))).collect();
    let medians: Vec<String> = sides.iter().map(|side| format!("{:.0}", median(side.clone()))).collect();
    println!("| {what} | {} | {} | {aim} |", medians.join(" | "), ratios.join(" | "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn ratios_of_replicas_and_a_single_server() {
    let data = server::directory();
    let (single, alone) = (Server::start(data.path()).await, Replicas::start(1).await);
    let replicas = Replicas::start(3).await;
    let sides = [&single, alone.server(0), replicas.server(0)];
    for side in sides {
        bulk(side, hashes(0..STREAM)).await;
    }
    let mut figures = [const { [const { Vec::new() }; SIDES] }; 3];
    let mut latencies = [const { [const { Vec::new() }; SIDES] }; 2];
    for round in 0..ROUNDS as u64 {
        for turn in 0..SIDES {
            // The first of a round is another one each time.
            let at = (turn + round as usize) % SIDES;
            tokio::time::sleep(Duration::from_millis(300)).await;
            figures[0][at].push(block_in_place(|| lookups(sides[at])));
            let from = (round + 1) * STREAM;
            figures[1][at].push(bulk(sides[at], hashes(from..from + STREAM)).await);
            let from = round * STREAM / 5;
            figures[2][at].push(bulk(sides[at], texts(from..from + STREAM / 5)).await);
            latencies[0][at].extend(singles(sides[at], round * 10_000, 200, 1).await);
            latencies[1][at].extend(singles(sides[at], round * 10_000 + 5_000, 800, 8).await);
        }
    }
    println!("| | single | of one | of three | ratio of one | of three | aim |");
    println!("|---|---|---|---|---|---|---|");
    let [looked_up, of_hashes, of_texts] = figures;
    print("lookups /s, k=3, two connections", "0.97", &looked_up);
    print("stream of hashes, documents /s", "0.5", &of_hashes);
    print("stream of texts, documents /s", "0.5", &of_texts);
    for (mut sides, in_flight) in latencies.into_iter().zip([1, 8]) {
        for percent in [50, 99] {
            let figures = sides.each_mut().map(|side| percentile(side, percent));
            let ratios = figures[1..].iter().map(|one| one / figures[0]);
            let text: String = figures.iter().map(|figure| format!(" {figure:.2} |")).collect();
            let ratios: String = ratios.map(|ratio| format!(" {ratio:.1} |")).collect();
            println!("| a write, {in_flight} at a time, p{percent} in ms |{text}{ratios} |");
        }
    }
}

/// Three single servers that each take the whole stream at once do the work of three replicas without a
/// log: the limit of its bulk loads on one machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn ratio_of_three_single_servers_at_once_and_one() {
    let dirs = [(); 3].map(|()| server::directory());
    let servers = join_all(dirs.iter().map(|dir| Server::start(dir.path()))).await;
    for server in &servers {
        bulk(server, hashes(0..STREAM)).await;
    }
    let mut figures = [const { [const { Vec::new() }; 2] }; 2];
    for round in 0..ROUNDS as u64 {
        let (from, of_texts) = ((round + 1) * 2 * STREAM, round * 2 * STREAM / 5);
        for (sides, streams) in figures.iter_mut().zip([
            [hashes(from..from + STREAM), hashes(from + STREAM..from + 2 * STREAM)],
            [texts(of_texts..of_texts + STREAM / 5), texts(of_texts + STREAM / 5..of_texts + 2 * STREAM / 5)],
        ]) {
            let [of_one, of_all] = streams;
            sides[0].push(bulk(&servers[0], of_one).await);
            let (count, since) = (of_all.lines().count(), Instant::now());
            join_all(servers.iter().map(|server| bulk(server, of_all.clone()))).await;
            sides[1].push(count as f64 / since.elapsed().as_secs_f64());
        }
    }
    println!("| | one server | three at once | ratio | aim |");
    println!("|---|---|---|---|---|");
    for (what, sides) in
        ["stream of hashes, documents /s", "stream of texts, documents /s"].iter().zip(&figures)
    {
        print(what, "", sides);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn ratio_of_catching_up_and_a_restore() {
    let count = number("LOOKALIKE_TEST_DOCUMENTS", 400_000);
    let mut replicas = Replicas::start(3).await;
    bulk(replicas.server(0), hashes(0..1_000)).await;
    replicas.exports("default").await;
    replicas.stop(2);
    let behind = tempfile::tempdir().unwrap();
    copy(replicas.dir(2), behind.path());
    for from in (1_000..count).step_by(100_000) {
        bulk(replicas.server(0), hashes(from..count.min(from + 100_000))).await;
    }
    let backup = replicas.server(0).get("/collections/default/backup?linearizable=true").await;
    let backup = backup.bytes().await.unwrap();
    let (mut restores, mut catches, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        let data = server::directory();
        let single = Server::start(data.path()).await;
        let url = format!("{}/collections/restored/restore", single.url);
        let request =
            single.client.post(url).header("content-type", "application/x-tar").body(backup.clone());
        let since = Instant::now();
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
        restores.push(count as f64 / since.elapsed().as_secs_f64());
        drop(single);
        replicas.put_back(2, behind.path(), "");
        let since = Instant::now();
        replicas.restart(2).await;
        catches.push(count as f64 / since.elapsed().as_secs_f64());
        assert!(!replicas.server(2).log().contains("the data of another server is copied"));
        replicas.stop(2);
        // A start with nothing to catch up with.
        let since = Instant::now();
        replicas.restart(2).await;
        starts.push(since.elapsed().as_secs_f64());
        replicas.stop(2);
    }
    println!("{count} documents; a start that is not behind takes {:.2} s", median(starts));
    print(
        "restored, caught up with from the start of the process, documents /s",
        "0.5",
        &[restores, catches],
    );
}
