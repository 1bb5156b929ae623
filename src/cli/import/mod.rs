//! `lookalike import`: files of documents to a server, resumable.
//!
//! The files are one stream of lines (`source`), whatever they are (`records`); what the server answered for is written down beside the first file every
//! second, so that a run that was cut goes on where it was. A line that the server answered for and that was
//! not yet written down is sent again: it updates the document it made, if it has an id.

mod records;
mod source;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use clap::Args;
use futures::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use reqwest::{Body, Method};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::Failure;
use super::client::{Server, collection_name, collection_route};
use crate::client::{Client, ClientError, Refusal};
use crate::ids::CollectionName;
use source::{Kind, Source};

/// Pieces read ahead.
const AHEAD: usize = 8;
/// How often progress is written down.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// Bad lines shown one by one; after that they are only counted.
const SHOWN: u64 = 20;

#[derive(Debug, Args)]
pub(super) struct ImportArguments {
    /// Files with a document a line, as POST /documents takes it, or of other kinds (--format); .gz and .zst are
    /// unpacked; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    kind: Kind,
    #[command(flatten)]
    server: Server,
    /// Collection to import into
    #[arg(long, default_value = "default", value_parser = collection_name)]
    collection: CollectionName,
    /// Do not store near-duplicates of stored documents
    #[arg(long)]
    skip_duplicates: bool,
    /// Distance for --skip-duplicates; the collection's if there is none
    #[arg(long, requires = "skip_duplicates")]
    k: Option<u32>,
    /// Begin anew, whatever an earlier run has done
    #[arg(long)]
    restart: bool,
}

/// What an earlier run has done.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    /// The route, so that another server or collection begins anew.
    target: String,
    /// The size of the file, so that another file of the same name begins anew.
    bytes: u64,
    /// Lines that the server has answered for.
    lines: u64,
}

#[derive(Deserialize)]
struct Line {
    index: Option<u64>,
    outcome: Option<String>,
    error: Option<Refusal>,
    summary: Option<serde_json::Value>,
}

/// Whether the same line may be taken another time.
fn says_later(refusal: &Refusal) -> bool {
    const LATER: [&str; 9] = [
        "busy",
        "starting",
        "shutting_down",
        "read_only",
        "outcome_unknown",
        "internal",
        "too_slow",
        "disk_full",
        "memory_full",
    ];
    LATER.contains(&refusal.code.as_str())
}

#[derive(Debug, Default)]
struct Counts {
    created: u64,
    updated: u64,
    duplicates: u64,
    bad: u64,
}

pub(super) async fn run(arguments: ImportArguments) -> Result<(), Failure> {
    let target = target(&arguments);
    let source = Source::open(&arguments.files, &arguments.kind)?;
    let client = arguments.server.clone().client()?;
    let saved = Saved::new(&arguments, &client.url(&target), source.bytes);
    let skip = saved.lines;
    if skip > 0 {
        eprintln!("going on after line {skip}; --restart begins anew");
    }
    let bar = bar(source.bytes);
    let (send, pieces) = mpsc::channel::<io::Result<Bytes>>(AHEAD);
    let sent = Arc::clone(&source.sent);
    let reader = {
        let bar = bar.clone();
        std::thread::spawn(move || source.send(skip, &send, &bar))
    };
    // A file that cannot be read on ends the body, and the connection with it: which of the two is met first is chance.
    let unreadable = Arc::new(Mutex::new(None));
    let body = futures::stream::unfold((pieces, Arc::clone(&unreadable)), |(mut pieces, unreadable)| async {
        let piece = pieces.recv().await?;
        if let Err(error) = &piece {
            *unreadable.lock() = Some(error.to_string());
        }
        Some((piece, (pieces, unreadable)))
    });
    let request = client.request(Method::POST, &target).header("content-type", "application/x-ndjson");
    let work = async {
        let response = client.send(request.body(Body::wrap_stream(body))).await?;
        follow(&client, response, saved, &sent, &bar).await
    };
    let counts = match (work.await, unreadable.lock().take()) {
        (Err(_), Some(error)) => return Err(Failure::new(error)),
        (result, _) => result?,
    };
    let _ = reader.join();
    bar.finish_and_clear();
    let Counts { created, updated, duplicates, bad } = counts;
    eprintln!("{created} created, {updated} updated, {duplicates} duplicates left out, {bad} bad lines");
    if bad > 0 { Err(Failure::new(format!("{bad} lines were not imported"))) } else { Ok(()) }
}

fn target(arguments: &ImportArguments) -> String {
    let mut url = collection_route(&arguments.collection, "/documents");
    if arguments.skip_duplicates {
        url.push_str("?on_duplicate=skip");
        if let Some(k) = arguments.k {
            url.push_str("&k=");
            url.push_str(&k.to_string());
        }
    }
    url
}

/// Reads the results as they come, counts them, shows bad lines and writes progress down.
async fn follow(
    client: &Client,
    response: reqwest::Response,
    mut saved: Saved,
    sent: &AtomicU64,
    bar: &ProgressBar,
) -> Result<Counts, Failure> {
    let mut body = response.bytes_stream();
    let (mut held, mut counts, mut ended) = (Vec::new(), Counts::default(), false);
    let first = saved.lines;
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| saved.interrupted(&client.broken(error)))?;
        held.extend_from_slice(&part);
        while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = held.drain(..=end).collect();
            let line: Line = serde_json::from_slice(&line)
                .map_err(|error| Failure::new(format!("the server's answer cannot be read: {error}")))?;
            ended |= line.summary.is_some();
            if let Some(problem) = line.error.as_ref().filter(|refusal| says_later(refusal)) {
                // Not the line's fault: it and what comes after it are for the next run.
                saved.save();
                return Err(Failure::new(format!(
                    "the server took no more after line {} ({}: {}); run the same command again to go on",
                    saved.lines, problem.code, problem.detail
                )));
            }
            if let Some(index) = line.index {
                count(&mut counts, &line, first + index + 1, bar);
                saved.lines = first + index + 1;
            }
        }
        saved.save_now_and_then();
        let done = counts.created + counts.updated + counts.duplicates;
        bar.set_message(format!(
            "{done} documents, {:.0}/s",
            done as f64 / bar.elapsed().as_secs_f64().max(0.001)
        ));
    }
    // A summary that came early would look like success; what counts is an answer for every line.
    let answered = counts.created + counts.updated + counts.duplicates + counts.bad;
    if !ended || answered != sent.load(Ordering::SeqCst) {
        saved.save();
        return Err(Failure::new(format!(
            "the server stopped after line {}; run the same command again to go on",
            saved.lines
        )));
    }
    saved.forget();
    Ok(counts)
}

fn count(counts: &mut Counts, line: &Line, number: u64, bar: &ProgressBar) {
    match (line.outcome.as_deref(), &line.error) {
        (Some("created"), _) => counts.created += 1,
        (Some("updated"), _) => counts.updated += 1,
        (Some(_), _) => counts.duplicates += 1,
        (None, error) => {
            counts.bad += 1;
            if counts.bad <= SHOWN {
                let (code, detail) = error
                    .as_ref()
                    .map_or(("unknown", ""), |error| (error.code.as_str(), error.detail.as_str()));
                bar.suspend(|| eprintln!("line {number}: {code}: {detail}"));
            }
        }
    }
}

/// Progress on disk, beside the file.
struct Saved {
    path: Option<PathBuf>,
    target: String,
    bytes: u64,
    lines: u64,
    when: Instant,
}

impl Saved {
    fn new(arguments: &ImportArguments, target: &str, bytes: u64) -> Saved {
        let first = arguments.files.first().filter(|file| file.as_os_str() != "-");
        let path = first.map(|file| file.with_added_extension("import-progress"));
        let mut saved = Saved { path, target: target.to_owned(), bytes, lines: 0, when: Instant::now() };
        if !arguments.restart {
            saved.lines = saved.earlier().unwrap_or(0);
        }
        saved
    }

    fn earlier(&self) -> Option<u64> {
        let progress: Progress = serde_json::from_slice(&fs::read(self.path.as_ref()?).ok()?).ok()?;
        (progress.target == self.target && progress.bytes == self.bytes).then_some(progress.lines)
    }

    fn save_now_and_then(&mut self) {
        if self.when.elapsed() >= SAVE_EVERY {
            self.save();
            self.when = Instant::now();
        }
    }

    fn save(&self) {
        let Some(path) = &self.path else {
            return;
        };
        let progress = Progress { target: self.target.clone(), bytes: self.bytes, lines: self.lines };
        let written = serde_json::to_vec(&progress)
            .map_err(io::Error::from)
            .and_then(|bytes| write_whole(path, &bytes));
        if let Err(error) = written {
            eprintln!("lookalike: progress cannot be written to {}: {error}", path.display());
        }
    }

    fn forget(&self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }

    fn interrupted(&self, error: &ClientError) -> Failure {
        self.save();
        let mut failure = Failure::of(error, 1);
        failure.message = format!(
            "cut after line {}: {}; run the same command again to go on",
            self.lines, failure.message
        );
        failure
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_added_extension("partial");
    fs::write(&partial, bytes)?;
    fs::rename(partial, path)
}

fn bar(bytes: u64) -> ProgressBar {
    let bar = if bytes > 0 { ProgressBar::new(bytes) } else { ProgressBar::new_spinner() };
    let style = ProgressStyle::with_template("{bar:30} {percent}% {msg}, {eta} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
