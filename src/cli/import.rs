//! `lookalike import`: a file of documents to a server, resumable.
//!
//! The file is one stream of lines; what the server answered for is written down beside the file every
//! second, so that a run that was cut goes on where it was. A line that the server answered for and that was
//! not yet written down is sent again: it updates the document it made, if it has an id.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use clap::Args;
use flate2::read::MultiGzDecoder;
use futures::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Body;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::Failure;
use super::client::{Server, checked, client, collection_name};
use crate::ids::CollectionName;

/// Bytes sent at a time.
const PIECE: usize = 64 << 10;
/// Pieces read ahead.
const AHEAD: usize = 8;
/// How often progress is written down.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// Bad lines shown one by one; after that they are only counted.
const SHOWN: u64 = 20;

#[derive(Debug, Args)]
pub(super) struct ImportArguments {
    /// File with a document a line, as POST /documents takes it; .gz is unpacked; - is standard input
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,
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
    error: Option<Problem>,
    summary: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
}

impl Problem {
    /// Whether the same line may be taken another time.
    fn says_later(&self) -> bool {
        const LATER: [&str; 8] = [
            "busy",
            "starting",
            "shutting_down",
            "read_only",
            "outcome_unknown",
            "memory_full",
            "disk_full",
            "internal",
        ];
        LATER.contains(&self.code.as_str())
    }
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
    let source = Source::open(&arguments.file)?;
    let saved = Saved::new(&arguments, &target, source.bytes);
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
    let body = futures::stream::unfold(pieces, |mut pieces| async { Some((pieces.recv().await?, pieces)) });
    let request =
        client()?.post(&target).header("content-type", "application/x-ndjson").body(Body::wrap_stream(body));
    let response = request.send().await.map_err(|error| arguments.server.unreachable(&error))?;
    let counts = follow(checked(response).await?, saved, &sent, &bar).await?;
    let _ = reader.join();
    bar.finish_and_clear();
    let Counts { created, updated, duplicates, bad } = counts;
    eprintln!("{created} created, {updated} updated, {duplicates} duplicates left out, {bad} bad lines");
    if bad > 0 { Err(Failure::new(format!("{bad} lines were not imported"))) } else { Ok(()) }
}

fn target(arguments: &ImportArguments) -> String {
    let mut url = arguments.server.collection_route(&arguments.collection, "/documents");
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
    response: reqwest::Response,
    mut saved: Saved,
    sent: &AtomicU64,
    bar: &ProgressBar,
) -> Result<Counts, Failure> {
    let mut body = response.bytes_stream();
    let (mut held, mut counts, mut ended) = (Vec::new(), Counts::default(), false);
    let first = saved.lines;
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| saved.interrupted(&error))?;
        held.extend_from_slice(&part);
        while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = held.drain(..=end).collect();
            let line: Line = serde_json::from_slice(&line)
                .map_err(|error| Failure::new(format!("the server's answer cannot be read: {error}")))?;
            ended |= line.summary.is_some();
            if let Some(problem) = line.error.as_ref().filter(|problem| problem.says_later()) {
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
        let is_file = arguments.file.as_os_str() != "-";
        let path = is_file.then(|| arguments.file.with_added_extension("import-progress"));
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

    fn interrupted(&self, error: &reqwest::Error) -> Failure {
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

/// Where lines come from.
struct Source {
    read: Box<dyn BufRead + Send>,
    /// The size of the file; 0 for standard input.
    bytes: u64,
    /// Bytes read from the file so far, packed ones if it is packed.
    passed: Arc<AtomicU64>,
    /// Lines sent that are not empty: each gets an answer.
    sent: Arc<AtomicU64>,
}

/// Counts the bytes that pass through.
struct Counted<R>(R, Arc<AtomicU64>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Source {
    fn open(path: &Path) -> Result<Source, Failure> {
        let (passed, sent) = (Arc::default(), Arc::default());
        if path.as_os_str() == "-" {
            let read = Box::new(BufReader::new(Counted(io::stdin(), Arc::clone(&passed))));
            return Ok(Source { read, bytes: 0, passed, sent });
        }
        let file = File::open(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        let bytes = file.metadata()?.len();
        let counted = Counted(file, Arc::clone(&passed));
        let read: Box<dyn BufRead + Send> = if path.extension().is_some_and(|extension| extension == "gz") {
            Box::new(BufReader::new(MultiGzDecoder::new(BufReader::new(counted))))
        } else {
            Box::new(BufReader::new(counted))
        };
        Ok(Source { read, bytes, passed, sent })
    }

    /// Sends the lines after the first `skip`, whole ones, in pieces.
    fn send(mut self, skip: u64, to: &mpsc::Sender<io::Result<Bytes>>, bar: &ProgressBar) {
        let result = self.pass(skip, to, bar);
        if let Err(error) = result {
            // The stream must break, or the server would take what it has for all there is.
            let _ = to.blocking_send(Err(error));
        }
    }

    fn pass(&mut self, skip: u64, to: &mpsc::Sender<io::Result<Bytes>>, bar: &ProgressBar) -> io::Result<()> {
        let mut line = Vec::new();
        for _ in 0..skip {
            line.clear();
            self.read.read_until(b'\n', &mut line)?;
        }
        let mut piece = Vec::with_capacity(2 * PIECE);
        loop {
            let begin = piece.len();
            let more = self.read.read_until(b'\n', &mut piece)? > 0;
            if !piece[begin..].iter().all(u8::is_ascii_whitespace) {
                self.sent.fetch_add(1, Ordering::SeqCst);
            }
            if piece.len() >= PIECE || (!more && !piece.is_empty()) {
                let full = std::mem::replace(&mut piece, Vec::with_capacity(2 * PIECE));
                if to.blocking_send(Ok(full.into())).is_err() {
                    return Ok(());
                }
                bar.set_position(self.passed.load(Ordering::Relaxed));
            }
            if !more {
                return Ok(());
            }
        }
    }
}

fn bar(bytes: u64) -> ProgressBar {
    let bar = if bytes > 0 { ProgressBar::new(bytes) } else { ProgressBar::new_spinner() };
    let style = ProgressStyle::with_template("{bar:30} {percent}% {msg}, {eta} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
