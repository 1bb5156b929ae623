//! `lookalike restore`: sends a backup to a server, or only checks it; or makes backups from a shared log
//! (`moment`).

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use futures::stream;
use reqwest::{Body, Method};
use serde_json::Value;
use tokio::sync::mpsc;

use super::client::{Server, collection_name, collection_route};
use super::{Failure, moment};
use lookalike_client::ClientError;
use lookalike_hash::CollectionName;
use lookalike_store::backup::{self, BackupError, Summary};
use lookalike_wording::counted;

/// Exit code for data that is damaged or too new.
const DATA: u8 = 65;
/// Bytes per piece of the body.
const PIECE: usize = 64 << 10;
/// Pieces read ahead.
const AHEAD: usize = 8;

#[derive(Debug, Args)]
pub(super) struct RestoreArguments {
    /// File that `lookalike backup` wrote; - is standard input
    #[arg(value_name = "FROM", required_unless_present = "shared_log")]
    from: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
    /// Collection to create; by default the one named in the backup
    #[arg(long, value_parser = collection_name)]
    collection: Option<CollectionName>,
    /// Only check that the backup is complete and undamaged; needs no server
    #[arg(long)]
    check: bool,
    /// Write backups of all collections as they were, from this log of replicas; needs no server
    #[arg(long, value_name = "URL", requires_all = ["at", "to"], conflicts_with_all = ["from", "check"])]
    shared_log: Option<String>,
    /// The moment, such as 2026-11-20T12:00Z
    #[arg(long, value_name = "TIME", requires = "shared_log", value_parser = moment::moment)]
    at: Option<SystemTime>,
    /// New folder for these backups
    #[arg(long, value_name = "FOLDER", requires = "shared_log")]
    to: Option<PathBuf>,
}

pub(super) async fn run(arguments: RestoreArguments) -> Result<(), Failure> {
    if let (Some(url), Some(at), Some(to)) = (&arguments.shared_log, arguments.at, &arguments.to) {
        return moment::run(url, at, to).await;
    }
    let from = arguments.from.unwrap_or_else(|| "-".into());
    let is_piped = from == Path::new("-");
    if arguments.check {
        let summary = if is_piped { verdict(io::stdin().lock(), "-")? } else { check(&from)? };
        let manifest = &summary.manifest;
        println!(
            "{}: whole; collection {}, profile {}, {}, change {}, {}",
            from.display(),
            manifest.collection,
            manifest.settings.profile,
            counted(summary.documents, "document"),
            manifest.sequence,
            counted(summary.bytes, "byte")
        );
        return Ok(());
    }
    // Checked before anything is sent: the server would refuse a damaged backup only after receiving all of
    // it.
    let summary = if is_piped { None } else { Some(check(&from)?) };
    let collection = match (arguments.collection, &summary) {
        (Some(name), _) => name,
        (None, Some(summary)) => CollectionName::new(&summary.manifest.collection).map_err(|error| {
            let message =
                format!("the backup names no valid collection: {error}; choose one with --collection");
            Failure { message, code: DATA }
        })?,
        (None, None) => {
            let message = "a backup from standard input needs --collection NAME".to_owned();
            return Err(Failure { message, code: 2 });
        }
    };
    let body = if is_piped { body(io::stdin()) } else { body(open(&from)?) };
    let client = arguments.server.client()?;
    let request = client.request(Method::POST, &collection_route(&collection, "/restore"));
    let response = client.send(request.header("content-type", "application/x-tar").body(body)).await;
    let response = response.map_err(|error| {
        let is_damaged =
            matches!(&error, ClientError::Refused { refusal, .. } if refusal.code == "invalid_backup");
        let failure = Failure::from(error);
        if is_damaged { Failure { code: DATA, ..failure } } else { failure }
    })?;
    let answer: Value = response.json().await.map_err(|error| client.broken(error))?;
    let number = |field: &str| answer[field].as_u64().unwrap_or_default();
    let (documents, expired) = (counted(number("documents"), "document"), number("expired"));
    eprintln!("{collection}: {documents} restored, {expired} had expired");
    Ok(())
}

/// Verifies a backup to its last byte.
pub(super) fn check(path: &Path) -> Result<Summary, Failure> {
    verdict(open(path)?, &path.display().to_string())
}

fn verdict(input: impl Read, name: &str) -> Result<Summary, Failure> {
    let input = BufReader::with_capacity(1 << 20, input);
    let read = backup::read(input, backup::LINE_BYTES, |_| Ok(()), |_| Ok::<_, BackupError>(()));
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

/// The input as a streaming body. A separate thread reads it, because files and pipes block.
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
