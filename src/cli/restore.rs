//! `lookalike restore`: a backup into a server, or only a verdict on it.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use futures::stream;
use reqwest::Body;
use serde_json::Value;
use tokio::sync::mpsc;

use super::Failure;
use super::client::{Server, client, collection_name};
use crate::backup::{self, BackupError, Summary};
use crate::ids::CollectionName;

/// Exit code for data that is damaged or too new.
const DATA: u8 = 65;
/// Bytes sent at a time.
const PIECE: usize = 64 << 10;
/// Pieces read ahead.
const AHEAD: usize = 8;

#[derive(Debug, Args)]
pub(super) struct RestoreArguments {
    /// File that `lookalike backup` wrote; - is standard input
    #[arg(value_name = "FROM")]
    from: PathBuf,
    #[command(flatten)]
    server: Server,
    /// Collection to make; the one that the backup is of if there is none
    #[arg(long, value_parser = collection_name)]
    collection: Option<CollectionName>,
    /// Only check that the backup is whole; needs no server
    #[arg(long)]
    check: bool,
}

pub(super) async fn run(arguments: RestoreArguments) -> Result<(), Failure> {
    let is_piped = arguments.from == Path::new("-");
    if arguments.check {
        let summary = if is_piped { verdict(io::stdin().lock(), "-")? } else { check(&arguments.from)? };
        let from = &summary.manifest;
        println!(
            "{}: whole; collection {}, profile {}, {} documents, change {}, {} bytes",
            arguments.from.display(),
            from.collection,
            from.profile,
            summary.documents,
            from.sequence,
            summary.bytes
        );
        return Ok(());
    }
    // Before anything is sent: the server would refuse it too, after all of it.
    let summary = if is_piped { None } else { Some(check(&arguments.from)?) };
    let collection = match (arguments.collection, &summary) {
        (Some(name), _) => name,
        (None, Some(summary)) => CollectionName::new(&summary.manifest.collection).map_err(|error| {
            let message =
                format!("the backup is of no possible collection: {error}; name one with --collection");
            Failure { message, code: DATA }
        })?,
        (None, None) => {
            let message = "a backup from standard input needs --collection NAME".to_owned();
            return Err(Failure { message, code: 2 });
        }
    };
    let body = if is_piped { body(io::stdin()) } else { body(open(&arguments.from)?) };
    let url = arguments.server.collection_route(&collection, "/restore");
    let request = client()?.post(url).header("content-type", "application/x-tar").body(body);
    let response = request.send().await.map_err(|error| arguments.server.unreachable(&error))?;
    let status = response.status();
    let text = response.text().await.unwrap_or_default();
    let answer: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    if status.is_success() {
        let (documents, expired) = (&answer["documents"], &answer["expired"]);
        eprintln!("{collection}: {documents} documents restored, {expired} had expired");
        return Ok(());
    }
    let detail = answer["detail"].as_str().unwrap_or(&text);
    let code = if answer["code"] == "invalid_backup" { DATA } else { 1 };
    Err(Failure { message: format!("the server answered {status}: {detail}"), code })
}

/// Verifies a backup to its last byte.
pub(super) fn check(path: &Path) -> Result<Summary, Failure> {
    verdict(open(path)?, &path.display().to_string())
}

fn verdict(input: impl Read, name: &str) -> Result<Summary, Failure> {
    let input = BufReader::with_capacity(1 << 20, input);
    let read = backup::read(input, |_| Ok(()), |_, _| Ok::<_, BackupError>(()));
    read.map_err(|error| {
        let code = if matches!(error, BackupError::Io(_)) { 1 } else { DATA };
        let mut failure = Failure::of(&error, code);
        failure.message = format!("{name}: {}", failure.message);
        failure
    })
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| Failure::new(format!("{} cannot be read: {error}", path.display())))
}

/// What is read, as a body that streams: by a thread of its own, because files and pipes block.
fn body(mut input: impl Read + Send + 'static) -> Body {
    let (send, receive) = mpsc::channel(AHEAD);
    std::thread::spawn(move || {
        loop {
            let mut piece = vec![0; PIECE];
            let read = input.read(&mut piece).map(|read| {
                piece.truncate(read);
                piece
            });
            let is_last = read.as_ref().map_or(true, Vec::is_empty);
            if read.as_ref().is_ok_and(Vec::is_empty) || send.blocking_send(read).is_err() || is_last {
                return;
            }
        }
    });
    Body::wrap_stream(stream::unfold(
        receive,
        |mut receive| async move { Some((receive.recv().await?, receive)) },
    ))
}
