//! A collection of the server: documents go in as a stream, neighbours come out page by page.
//!
//! Every answer is held to what the contract promises of it: matches sorted by distance, then id, the
//! document itself left out, each distance equal to that of the hashes it comes with. A breach is a failure
//! that names the request.

use std::collections::HashMap;
use std::io::{self, BufRead};

use futures::{StreamExt, stream};
use reqwest::{Body, Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::client::{Failure, Server, accepted, sent};
use super::labels::Number;

/// Bytes of articles sent at a time, about.
const PIECE: usize = 64 << 10;
/// Pieces read ahead.
const AHEAD: usize = 8;
/// Matches in a page: the most that the server gives by default.
const PAGE: &str = "1000";

/// A collection of the server.
#[derive(Debug)]
pub struct Collection<'a> {
    /// Where it is.
    pub server: &'a Server,
    /// Its name.
    name: String,
    /// What the server says of it.
    pub settings: Settings,
}

/// What the server says of a collection.
#[derive(Clone, Debug, Deserialize)]
pub struct Settings {
    /// Its profile with the version.
    pub profile: String,
    /// The width of its hashes.
    pub bits: u32,
    /// The distance of questions that name none.
    pub k: u32,
}

/// How an answer is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As the server sees fit.
    Usual,
    /// As the server sees fit, and it shall say how.
    Told,
    /// By linear scan.
    Scan,
}

/// A neighbour of a document and its distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Who it is.
    pub number: Number,
    /// The bits in which they differ.
    pub distance: u32,
}

/// All neighbours of a document.
#[derive(Debug)]
pub struct Answer {
    /// In the order of the answer.
    pub neighbours: Vec<Neighbour>,
    /// Pages in which they came.
    pub pages: u64,
    /// Whether they were found by index, if the server was to say how.
    pub by_index: bool,
}

/// A document as it is stored.
#[derive(Debug, Deserialize)]
pub struct Stored {
    /// `ok`, `short` or `empty`.
    pub status: String,
}

/// A line of the answer to a stream.
#[derive(Debug, Deserialize)]
pub struct Line {
    /// The line that it is about; none in the summary.
    pub index: Option<u64>,
    /// What was done.
    pub outcome: Option<String>,
    /// Why nothing was.
    pub error: Option<Problem>,
    /// The counts, in the last line.
    pub summary: Option<Value>,
}

/// Why a document was refused.
#[derive(Debug, Deserialize)]
pub struct Problem {
    /// The kind.
    pub code: String,
    /// The sentence.
    pub detail: String,
}

#[derive(Deserialize)]
struct Page {
    hash: String,
    k: u32,
    similar: Vec<Match>,
    next: Option<String>,
    stats: Option<Found>,
}

#[derive(Deserialize)]
struct Match {
    id: String,
    hash: String,
    distance: u32,
}

#[derive(Deserialize)]
struct Found {
    method: String,
}

impl<'a> Collection<'a> {
    /// Makes a collection; one of this name that an earlier run left goes first.
    pub async fn make(server: &'a Server, name: &str, profile: &str) -> Result<Collection<'a>, Failure> {
        let route = ["collections", name];
        let url = server.route(&route, &[]);
        let request = format!("DELETE {url}");
        let response = sent(&request, server.client.delete(url)).await?;
        if response.status() != StatusCode::NOT_FOUND {
            accepted(&request, response).await?;
        }
        let body = json!({"profile": profile});
        let settings = server.json(Method::PUT, &route, &[], Some(&body)).await?;
        Ok(Collection { server, name: name.to_owned(), settings })
    }

    /// Deletes it with all its documents.
    pub async fn delete(&self) -> Result<(), Failure> {
        let url = self.server.route(&["collections", &self.name], &[]);
        let request = || self.server.client.delete(url.clone());
        self.server.patiently(&format!("DELETE {url}"), request).await.map(|_| ())
    }

    /// Sends all lines of a reader as one stream and gives the lines of the answer to `each`, as they come.
    /// The last one is the summary: by then all that was stored is durable.
    pub async fn import(
        &self,
        lines: impl BufRead + Send + 'static,
        mut each: impl FnMut(Line),
    ) -> Result<(), Failure> {
        let url = self.server.route(&["collections", &self.name, "documents"], &[]);
        let name = format!("POST {url}");
        let request = self.server.client.post(url).header("content-type", "application/x-ndjson");
        let response = sent(&name, request.body(body(lines))).await?;
        let mut parts = accepted(&name, response).await?.bytes_stream();
        let (mut held, mut ended) = (Vec::new(), false);
        while let Some(part) = parts.next().await {
            held.extend(part.map_err(|source| Failure::Transport { request: name.clone(), source })?);
            for line in whole_lines(&mut held).map_err(|breach| breach_of(&name, breach))? {
                ended |= line.summary.is_some();
                each(line);
            }
        }
        if ended { Ok(()) } else { Err(breach_of(&name, "the answer ended without its summary".into())) }
    }

    /// A document as it is stored.
    pub async fn stored(&self, id: &str) -> Result<Stored, Failure> {
        self.server.json(Method::GET, &["collections", &self.name, "documents", id], &[], None).await
    }

    /// All neighbours of a document within `k`, or within the collection's distance if there is none.
    pub async fn similar(
        &self,
        id: &str,
        k: Option<u32>,
        way: Way,
        numbers: &HashMap<String, Number>,
    ) -> Result<Answer, Failure> {
        let route = ["collections", &self.name, "documents", id, "similar"];
        let given = k.map(|k| k.to_string());
        let mut query = vec![("limit", PAGE)];
        query.extend(given.as_deref().map(|k| ("k", k)));
        query.extend((way == Way::Told).then_some(("stats", "true")));
        query.extend((way == Way::Scan).then_some(("verify", "scan")));
        let breach = |breach| breach_of(&format!("GET {}", self.server.route(&route, &query)), breach);
        let (mut matches, mut pages, mut by_index) = (Vec::new(), 0, false);
        let mut cursor = None::<String>;
        while pages == 0 || cursor.is_some() {
            let next = cursor.as_deref().map(|cursor| ("cursor", cursor));
            let query: Vec<_> = query.iter().copied().chain(next).collect();
            let page: Page = self.server.json(Method::GET, &route, &query, None).await?;
            page.keeps_to(k.unwrap_or(self.settings.k)).map_err(breach)?;
            by_index |= page.stats.is_some_and(|found| found.method == "index");
            matches.extend(page.similar);
            (pages, cursor) = (pages + 1, page.next);
        }
        in_order(id, &matches).map_err(breach)?;
        Ok(Answer { neighbours: numbered(&matches, numbers).map_err(breach)?, pages, by_index })
    }
}

impl Page {
    /// Whether the distances are those of the hashes and none is beyond `k`.
    fn keeps_to(&self, k: u32) -> Result<(), String> {
        if self.k != k {
            return Err(format!("k is to be {k}, the answer is for {}", self.k));
        }
        for found in &self.similar {
            let distance = distance(&self.hash, &found.hash);
            if distance != Some(found.distance) || found.distance > k {
                return Err(format!("{:?}: distance {}, by hash {distance:?}", found.id, found.distance));
            }
        }
        Ok(())
    }
}

/// The bits in which two hashes differ; `None` if one is no hash or they are of two widths.
fn distance(a: &str, b: &str) -> Option<u32> {
    let value = |text| u128::from_str_radix(text, 16).ok();
    if a.len() == b.len() { Some((value(a)? ^ value(b)?).count_ones()) } else { None }
}

/// Whether matches come by distance, then id, each once, and `asked` is none of them.
fn in_order(asked: &str, matches: &[Match]) -> Result<(), String> {
    let late = |two: &&[Match]| (two[0].distance, &two[0].id) >= (two[1].distance, &two[1].id);
    if let Some(two) = matches.windows(2).find(late) {
        return Err(format!("{:?} and {:?} are out of order", two[0].id, two[1].id));
    }
    if matches.iter().any(|found| found.id == asked) {
        return Err("the document is its own neighbour".to_owned());
    }
    Ok(())
}

fn numbered(matches: &[Match], numbers: &HashMap<String, Number>) -> Result<Vec<Neighbour>, String> {
    let neighbour = |found: &Match| match numbers.get(&found.id) {
        Some(number) => Ok(Neighbour { number: *number, distance: found.distance }),
        None => Err(format!("{:?} was never sent", found.id)),
    };
    matches.iter().map(neighbour).collect()
}

fn breach_of(request: &str, breach: String) -> Failure {
    Failure::Contract { request: request.to_owned(), breach }
}

/// Takes the whole lines out of what was received so far.
fn whole_lines(held: &mut Vec<u8>) -> Result<Vec<Line>, String> {
    let whole = held.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = held[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines: Result<Vec<Line>, _> = lines.map(serde_json::from_slice).collect();
    held.drain(..whole);
    lines.map_err(|error| format!("a line of the answer: {error}"))
}

/// A body that a thread of its own reads: unpacking would hold up the answers otherwise.
fn body(lines: impl BufRead + Send + 'static) -> Body {
    let (send, pieces) = mpsc::channel(AHEAD);
    std::thread::spawn(move || pass(lines, &send));
    Body::wrap_stream(stream::unfold(pieces, |mut pieces| async { Some((pieces.recv().await?, pieces)) }))
}

/// Sends whole lines on, piece by piece, as `lookalike import` does. An error is sent on too: the stream must
/// break, or the server would take what it has for all there is.
fn pass(mut from: impl BufRead, to: &mpsc::Sender<io::Result<Vec<u8>>>) {
    loop {
        let piece = lines(&mut from);
        let last = piece.as_ref().map_or(true, Vec::is_empty);
        // A closed channel means that nobody wants more.
        if piece.as_ref().is_ok_and(Vec::is_empty) || to.blocking_send(piece).is_err() || last {
            return;
        }
    }
}

/// Whole lines of [`PIECE`] bytes together or a little more; nothing at the end.
fn lines(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut piece = Vec::with_capacity(2 * PIECE);
    while piece.len() < PIECE && from.read_until(b'\n', &mut piece)? > 0 {}
    Ok(piece)
}
