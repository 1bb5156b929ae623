//! `lookalike import`: sends files of documents to a server, and can resume an interrupted run.
//!
//! All files form one stream of lines (`source`), whatever their format (`records`). The number of lines
//! that the server has answered is saved every second next to the first file, and the next run continues
//! there. A line that was answered but not yet saved is sent again: it updates its document if it has an
//! id, and is stored twice otherwise.
//!
//! If a server refuses temporarily (a key without units, a long start), the request is repeated after the
//! time that the server names. The refusal is the head of the answer. Lines are read only after that head
//! has arrived, or after a second without it. So no standard input is lost: once it has been read, the
//! request is not repeated, and the refusal is an error.

mod records;
mod source;
mod tally;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::{Body, Method, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::Failure;
use super::client::{Server, collection_name, collection_route};
use crate::client::{Client, ClientError, Refusal};
use crate::ids::{CollectionName, HashForm};
use crate::wording::counted;
use source::{Inserted, Kind, Source};
use tally::{Counts, SHOWN, Tally};

/// Pieces read ahead.
const AHEAD: usize = 8;
/// How often progress is saved.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// How long to wait for the head of the answer before lines are sent. The server sends it at once, but a
/// proxy may withhold it until it has received lines.
const HEAD: Duration = Duration::from_secs(1);
/// The shortest wait before the request is repeated.
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait before the request is repeated, whatever the server says.
const WAIT: Duration = Duration::from_mins(1);
/// How long a server may refuse temporarily before the refusal is an error: a start with many documents
/// takes minutes.
const PATIENCE: Duration = Duration::from_mins(10);

#[derive(Debug, Args)]
pub(super) struct ImportArguments {
    /// Files with one document per line, as POST /documents takes it, or in other formats (--format); .gz
    /// and .zst are decompressed; - is standard input
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
    /// Distance for --skip-duplicates; by default that of the collection
    #[arg(long, requires = "skip_duplicates")]
    k: Option<u32>,
    /// With --skip-duplicates, a document of which a stored one contains this share is a near-duplicate too;
    /// the collection must keep passages
    #[arg(long, value_name = "SHARE", requires = "skip_duplicates")]
    min_containment: Option<f64>,
    /// Form of the hashes: hex, 0x, decimal, signed, base64; by default that of the header of an export, or
    /// any that cannot be mistaken for another one
    #[arg(long, value_name = "FORM")]
    hash_format: Option<HashForm>,
    /// Start from the first line, ignoring the progress of an earlier run
    #[arg(long)]
    restart: bool,
}

/// The progress of an earlier run.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    /// The URL of the route: with another server or collection the import starts from the first line.
    target: String,
    /// The total size of the files: if it differs, the import starts from the first line.
    bytes: u64,
    /// Lines that the server has answered.
    lines: u64,
}

#[derive(Deserialize)]
struct Line {
    index: Option<u64>,
    outcome: Option<String>,
    error: Option<Refusal>,
    summary: Option<Summary>,
}

/// The part of the summary that the results do not have: an answer does not list every error.
#[derive(Deserialize)]
struct Summary {
    errors: u64,
}

/// The lines sent so far.
struct Sent {
    lines: Arc<AtomicU64>,
    inserted: Inserted,
}

/// Whether the same line may succeed later.
fn is_temporary(refusal: &Refusal) -> bool {
    const LATER: [&str; 10] = [
        "busy",
        "starting",
        "shutting_down",
        "read_only",
        "log_unavailable",
        "outcome_unknown",
        "internal",
        "too_slow",
        "disk_full",
        "memory_full",
    ];
    LATER.contains(&refusal.code.as_str())
}

pub(super) async fn run(arguments: ImportArguments) -> Result<(), Failure> {
    let target = target(&arguments);
    let source = Source::open(&arguments.files, &arguments.kind)?;
    let client = arguments.server.clone().client()?;
    let mut saved = Saved::new(&arguments, &client.url(&target), source.bytes);
    if saved.lines > 0 {
        eprintln!("going on after line {}; --restart begins with the first line", saved.lines);
    }
    let bar = bar(source.bytes);
    let tally = Arc::new(Tally::after(saved.lines, bar.clone()));
    let mut counts = Counts::default();
    let begun = begin(&client, &target, &source, saved.lines, &tally, &bar).await;
    let (response, sent) = begun.inspect_err(|_| bar.finish_and_clear())?;
    let result = follow(&client, response, &mut saved, sent, &mut counts, &bar).await;
    bar.finish_and_clear();
    tally.sum_up(&counts);
    result?;
    match (tally.failed(), counts.bad) {
        ((0, 0), 0) => Ok(()),
        ((0, _), 0) => Err(Failure::new("not every file was read to its end")),
        ((unread, _), bad) => Err(Failure::new(format!("not imported: {}", counted(unread + bad, "line")))),
    }
}

/// Starts the stream of lines after the first `skip`, and repeats the request while the server refuses
/// temporarily. Returns the response, and what counts the lines sent.
async fn begin(
    client: &Client,
    target: &str,
    source: &Source,
    skip: u64,
    tally: &Arc<Tally>,
    bar: &ProgressBar,
) -> Result<(Response, Sent), Failure> {
    let mut waited = Duration::ZERO;
    loop {
        let source = source.restarted();
        let sent = Sent { lines: Arc::clone(&source.sent), inserted: source.inserted.clone() };
        let was_read = Arc::<AtomicBool>::default();
        let can_repeat = !source.is_piped;
        let (opened, gate) = oneshot::channel();
        let body = body(source, skip, gate, Arc::clone(&was_read), Arc::clone(tally), bar.clone());
        let request = client.request(Method::POST, target).header("content-type", "application/x-ndjson");
        let error = match client.send(request.body(body)).await {
            Ok(response) => {
                let _ = opened.send(());
                return Ok((response, sent));
            }
            Err(error) => error,
        };
        let Some(wait) = retry_wait(&error).filter(|_| can_repeat || !was_read.load(Ordering::SeqCst)) else {
            return Err(error.into());
        };
        if waited >= PATIENCE {
            return Err(error.into());
        }
        if waited.is_zero() {
            bar.suspend(|| eprintln!("{error}; the request is repeated for up to 10 minutes"));
        }
        waited += wait;
        tokio::time::sleep(wait).await;
    }
}

/// How long to wait before the same request may succeed, if the server names a time. It does so for
/// temporary refusals (429, 503) only.
fn retry_wait(error: &ClientError) -> Option<Duration> {
    match error {
        ClientError::Refused { retry_after, .. } => retry_after.map(|wait| wait.clamp(LEAST_WAIT, WAIT)),
        _ => None,
    }
}

/// The lines as a request body. A separate thread reads them once the gate is opened, or after [`HEAD`]
/// without an answer.
fn body(
    source: Source,
    skip: u64,
    gate: oneshot::Receiver<()>,
    was_read: Arc<AtomicBool>,
    tally: Arc<Tally>,
    bar: ProgressBar,
) -> Body {
    let lines = async move {
        let (send, pieces) = mpsc::channel(AHEAD);
        // A dropped gate means that the request was refused: the lines are not needed.
        if !matches!(tokio::time::timeout(HEAD, gate).await, Ok(Err(_))) {
            was_read.store(true, Ordering::SeqCst);
            std::thread::spawn(move || source.send(skip, &send, &tally, &bar));
        }
        stream::unfold(pieces, |mut pieces| async {
            Some((Ok::<_, io::Error>(pieces.recv().await?), pieces))
        })
    };
    Body::wrap_stream(stream::once(lines).flatten())
}

fn target(arguments: &ImportArguments) -> String {
    let mut url = collection_route(&arguments.collection, "/documents");
    let mut add = |name: &str, value: String| {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(name);
        url.push('=');
        url.push_str(&value);
    };
    if arguments.skip_duplicates {
        add("on_duplicate", "skip".to_owned());
        arguments.k.iter().for_each(|k| add("k", k.to_string()));
        arguments.min_containment.iter().for_each(|share| add("min_containment", share.to_string()));
    }
    arguments.hash_format.iter().for_each(|form| add("hash_format", form.to_string()));
    url
}

/// Reads the results as they arrive, counts them, prints bad lines and saves progress.
async fn follow(
    client: &Client,
    response: Response,
    saved: &mut Saved,
    sent: Sent,
    counts: &mut Counts,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let mut body = response.bytes_stream();
    let (mut held, mut ended) = (Vec::new(), false);
    let first = saved.lines;
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| saved.interrupted(&client.broken(error)))?;
        held.extend_from_slice(&part);
        while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = held.drain(..=end).collect();
            let line: Line = serde_json::from_slice(&line)
                .map_err(|error| Failure::new(format!("the server's answer cannot be read: {error}")))?;
            if let Some(summary) = &line.summary {
                (counts.bad, ended) = (summary.errors, true);
            }
            if let Some(problem) = line.error.as_ref().filter(|refusal| is_temporary(refusal)) {
                // The line itself is not at fault: the next run resumes with it.
                saved.save();
                return Err(Failure::new(format!(
                    "the server accepted nothing after line {} ({}: {}); run the same command again \
                     to continue",
                    saved.lines, problem.code, problem.detail
                )));
            }
            if let Some(index) = line.index {
                let number = first + sent.inserted.own_before(index) + 1;
                count(counts, &line, number, bar);
                saved.lines = number;
            }
        }
        saved.save_now_and_then();
        let done = counts.created + counts.updated + counts.duplicates;
        bar.set_message(format!(
            "{}, {:.0}/s",
            counted(done, "document"),
            done as f64 / bar.elapsed().as_secs_f64().max(0.001)
        ));
    }
    // A premature summary would look like success: every line must have been counted.
    if !ended || counts.answered() != sent.lines.load(Ordering::SeqCst) {
        saved.save();
        return Err(Failure::new(format!(
            "the server stopped after line {}; run the same command again to continue",
            saved.lines
        )));
    }
    saved.forget();
    Ok(())
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

/// Progress on disk, next to the first file.
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
            "cut after line {}: {}; run the same command again to continue",
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
