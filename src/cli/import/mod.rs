//! `lookalike import`: sends files of documents to a server, and can resume an interrupted run.
//!
//! All files form one stream of lines (`source`), whatever their format (`records`) and their fields
//! (`shape`). What was read and is not answered waits in a queue (`queue`), where the answers find it
//! (`answers`). The number of records that the server has answered is saved every second next to the first
//! file (`progress`), and the next run continues there. After a signal no more lines are sent, and the
//! answers to those that were sent are awaited, so that none is sent twice. After a crash, a line that was
//! answered but not yet saved is sent again: it updates its document if it has an id, and is stored twice
//! otherwise.
//!
//! If a server refuses temporarily (a key without units, a long start), the request is repeated after the
//! time that the server names. The refusal is the head of the answer. Lines are read only after that head
//! has arrived, or after a second without it. So no standard input is lost: once it has been read, the
//! request is not repeated, and the refusal is an error.

mod answers;
mod pictures;
mod progress;
mod queue;
mod records;
mod report;
mod seen;
mod shape;
mod source;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use clap::Args;
use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::{Body, Method, Response};
use tokio::sync::{mpsc, oneshot};

use super::Failure;
use super::client::{Server, collection_name, collection_route};
use super::signals::stop_on_signals;
use answers::{Answer, Answers};
use lookalike_client::{Client, ClientError, Refusal};
use lookalike_hash::{CollectionName, HashForm};
use progress::Saved;
use queue::Queue;
use report::Report;
use shape::Shape;
use source::{Piece, Source};

/// Pieces read ahead.
const AHEAD: usize = 8;
/// How often progress is saved.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// How often the program checks whether a signal has arrived.
const LOOK_EVERY: Duration = Duration::from_millis(50);
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
    /// Files, folders and patterns: JSON lines of any fields, JSON arrays, CSV, TSV, text, WARC, WET,
    /// Parquet, Arrow; .gz, .zst, .tar and .zip of them; s3://, gs://, az://, https:// and hf://
    /// addresses; - is standard input. A folder means the files in it with a
    /// known ending, in the order of names
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    shape: Shape,
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
    /// With --skip-duplicates, do not store documents either of which a stored one contains this share; the
    /// collection must keep passages
    #[arg(long, value_name = "SHARE", requires = "skip_duplicates")]
    min_containment: Option<f64>,
    /// Form of the hashes: hex, 0x, decimal, signed, base64; by default that of the header of an export, or
    /// any that cannot be mistaken for another one
    #[arg(long, value_name = "FORM")]
    hash_format: Option<HashForm>,
    /// File for what was not stored as a new document: a JSON object per line, with the file and line, the
    /// outcome, and what a duplicate duplicates or why a line is invalid
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Start from the first line, ignoring the progress of an earlier run
    #[arg(long)]
    restart: bool,
    /// Leave out the first lines or records, for standard input, which has no saved progress
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "restart")]
    skip: u64,
}

/// The state of the sender of a request.
#[derive(Clone, Default)]
struct Sent {
    /// The end of the last line that was sent.
    end: Arc<AtomicU64>,
    /// Whether lines were read.
    was_read: Arc<AtomicBool>,
    /// Whether the last line was sent.
    is_complete: Arc<AtomicBool>,
    queue: Queue,
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
    arguments.shape.check()?;
    let target = target(&arguments);
    let source = Source::open(&arguments.files, arguments.shape)?;
    let client = arguments.server.client()?;
    let restarts = arguments.restart || arguments.skip > 0;
    let mut saved = Saved::of(source.first().as_deref(), client.url(&target), source.bytes, restarts);
    saved.progress.lines = saved.progress.lines.max(arguments.skip);
    let skip = saved.progress.lines;
    let kept = if arguments.skip > 0 { u64::MAX } else { saved.progress.reported };
    // Not in the target that is saved with the progress: the next run may have another report.
    let errors = if target.contains('?') { "&errors=all" } else { "?errors=all" };
    let target = if arguments.report.is_some() { target + errors } else { target };
    let report = arguments.report.map(|path| Report::open(&path, kept)).transpose()?;
    if skip > 0 {
        eprintln!("going on after line {skip}; --restart begins with the first line");
    }
    let stop = stop_on_signals();
    let bar = bar(source.bytes);
    let mut answers = Answers::new(saved, report, bar.clone());
    let begun = begin(&client, &target, &source, skip, &bar, &stop).await;
    let (response, sent) = begun.inspect_err(|_| bar.finish_and_clear())?;
    let followed = follow(&client, response, &sent, &mut answers, &bar, &stop).await;
    bar.finish_and_clear();
    answers.sum_up();
    if let Some(warning) = source.missing_metadata() {
        eprintln!("{warning}");
    }
    let cut = match (followed, stop.load(Ordering::Relaxed)) {
        (Ok(()), 0) => return answers.finish(),
        (Ok(()), code) => Failure { message: "stopped".to_owned(), code },
        (Err(why), _) => why,
    };
    answers.save()?;
    Err(Failure { message: format!("{} {}", cut.message, answers.remedy()), ..cut })
}

/// Starts the stream of lines after the first `skip`, and repeats the request while the server refuses
/// temporarily. Returns the response, and what is known about the lines sent.
async fn begin(
    client: &Client,
    target: &str,
    source: &Source,
    skip: u64,
    bar: &ProgressBar,
    stop: &Arc<AtomicU8>,
) -> Result<(Response, Sent), Failure> {
    let mut waited = Duration::ZERO;
    loop {
        let source = source.restarted();
        let sent = Sent { queue: source.queue.clone(), ..Sent::default() };
        let can_repeat = !source.is_piped;
        let (opened, gate) = oneshot::channel();
        let body = body(source, skip, gate, sent.clone(), Arc::clone(stop));
        let request = client.request(Method::POST, target).header("content-type", "application/x-ndjson");
        let response = tokio::select! {
            response = client.send(request.body(body)) => response,
            code = stopped(stop) => return Err(unanswered(code)),
        };
        let error = match response {
            Ok(response) => {
                let _ = opened.send(());
                return Ok((response, sent));
            }
            Err(error) => error,
        };
        let was_read = sent.was_read.load(Ordering::SeqCst);
        let Some(wait) = retry_wait(&error).filter(|_| can_repeat || !was_read) else {
            return Err(error.into());
        };
        if waited >= PATIENCE {
            return Err(error.into());
        }
        if waited.is_zero() {
            bar.suspend(|| eprintln!("{error}; the request is repeated for up to 10 minutes"));
        }
        waited += wait;
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            code = stopped(stop) => return Err(unanswered(code)),
        }
    }
}

/// The failure of a run that a signal ended before the server answered.
fn unanswered(code: u8) -> Failure {
    let message = "stopped before the server answered; run the same command again to continue".to_owned();
    Failure { message, code }
}

/// Waits for a signal. Returns the exit code.
async fn stopped(stop: &AtomicU8) -> u8 {
    loop {
        match stop.load(Ordering::Relaxed) {
            0 => tokio::time::sleep(LOOK_EVERY).await,
            code => return code,
        }
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

/// The lines as a request body, which ends early after a signal. A separate thread reads them once the gate
/// is opened, or after [`HEAD`] without an answer.
fn body(source: Source, skip: u64, gate: oneshot::Receiver<()>, sent: Sent, stop: Arc<AtomicU8>) -> Body {
    let lines = async move {
        let (send, pieces) = mpsc::channel::<Piece>(AHEAD);
        // A dropped gate means that the request was refused: the lines are not needed.
        if !matches!(tokio::time::timeout(HEAD, gate).await, Ok(Err(_))) {
            sent.was_read.store(true, Ordering::SeqCst);
            std::thread::spawn(move || source.send(skip, &send));
        }
        stream::unfold(pieces, move |mut pieces| {
            let (stop, sent) = (Arc::clone(&stop), sent.clone());
            async move {
                let piece = tokio::select! {
                    biased;
                    _ = stopped(&stop) => return None,
                    piece = pieces.recv() => piece,
                };
                let Some(piece) = piece else {
                    sent.is_complete.store(true, Ordering::SeqCst);
                    return None;
                };
                sent.end.store(piece.end, Ordering::SeqCst);
                Some((Ok::<_, io::Error>(piece.bytes), pieces))
            }
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

/// Reads the answers as they arrive, and saves progress.
///
/// # Errors
/// [`Failure`], whose message the remedy follows, if the answer ends early.
async fn follow(
    client: &Client,
    response: Response,
    sent: &Sent,
    answers: &mut Answers,
    bar: &ProgressBar,
    stop: &AtomicU8,
) -> Result<(), Failure> {
    let mut body = response.bytes_stream();
    let (mut held, mut errors, mut saved) = (Vec::new(), None, Instant::now());
    let mut is_stopping = false;
    loop {
        let part = tokio::select! {
            part = body.next() => part,
            // Records that become no line have no answer.
            () = tokio::time::sleep(SAVE_EVERY) => Some(Ok(Bytes::new())),
            _ = stopped(stop), if !is_stopping => {
                is_stopping = true;
                let how = "the answers to what was sent are awaited; another signal ends at once";
                bar.suspend(|| eprintln!("stopping: {how}"));
                continue;
            }
        };
        let Some(part) = part else { break };
        let part = part.map_err(|error| cut(&client.broken(error)))?;
        held.extend_from_slice(&part);
        let end = memchr::memrchr(b'\n', &held).map_or(0, |end| end + 1);
        for line in held[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let answer: Answer = serde_json::from_slice(line)
                .map_err(|error| Failure::new(format!("the server's answer cannot be read: {error}")))?;
            errors = answer.summary.as_ref().map(|summary| summary.errors).or(errors);
            if let Some(problem) = answer.error.as_ref().filter(|refusal| is_temporary(refusal)) {
                // The line itself is not at fault: the next run resumes with it.
                let Refusal { code, detail } = problem;
                return Err(Failure::new(format!("the server accepted nothing ({code}: {detail})")));
            }
            if let Some(index) = answer.index {
                answers.take(&sent.queue, index, &answer)?;
            }
        }
        held.drain(..end);
        // Nothing that was sent is passed over here: its answer is still to come.
        answers.pass(&sent.queue, 0)?;
        if saved.elapsed() >= SAVE_EVERY {
            answers.save()?;
            saved = Instant::now();
        }
        answers.show_progress();
    }
    // A premature summary would look like success: all lines must have been sent, and each counted.
    let end = sent.end.load(Ordering::SeqCst);
    let is_whole = is_stopping || sent.is_complete.load(Ordering::SeqCst);
    if !is_whole || errors != Some(answers.refused() + sent.queue.sent_before(end)) {
        return Err(Failure::new("the server stopped"));
    }
    answers.pass(&sent.queue, end)
}

/// The failure of a connection that ended within the answer.
fn cut(error: &ClientError) -> Failure {
    let mut failure = Failure::of(error, 1);
    failure.message = format!("{}: cut", failure.message);
    failure
}

fn bar(bytes: u64) -> ProgressBar {
    let bar = if bytes > 0 { ProgressBar::new(bytes) } else { ProgressBar::new_spinner() };
    let style = ProgressStyle::with_template("{bar:30} {percent}% {msg}, {eta} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
