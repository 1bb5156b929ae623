//! `lookalike backup`: a collection of a server as a file, checked when it is there.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use futures::StreamExt;
use reqwest::Method;

use super::Failure;
use super::client::{Server, collection_name, collection_route};
use super::restore;
use crate::ids::CollectionName;

#[derive(Debug, Args)]
pub(super) struct BackupArguments {
    /// File to write; a directory gets a file named after collection and time; - is standard output
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    server: Server,
    /// Collection to back up
    #[arg(long, default_value = "default", value_parser = collection_name)]
    collection: CollectionName,
}

pub(super) async fn run(arguments: BackupArguments) -> Result<(), Failure> {
    let client = arguments.server.client()?;
    let request = client.request(Method::GET, &collection_route(&arguments.collection, "/backup"));
    let mut body = client.send(request).await?.bytes_stream();
    let path = (arguments.to != Path::new("-")).then(|| target(&arguments.to, &arguments.collection));
    // A backup appears under its name when it is whole and verified: half a one must not look like one.
    let partial = path.as_ref().map(|path| path.with_added_extension("partial"));
    let file = partial.as_ref().map(|path| File::create(path).map_err(|e| failed(path, &e))).transpose()?;
    let mut out: Box<dyn Write> = match &file {
        Some(file) => Box::new(BufWriter::new(file)),
        None => Box::new(io::stdout().lock()),
    };
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| {
            let mut failure = Failure::of(&error, 1);
            failure.message = format!("the backup was cut off: {}", failure.message);
            failure
        })?;
        out.write_all(&part)?;
    }
    out.flush()?;
    drop(out);
    let (Some(file), Some(partial), Some(path)) = (file, partial, path) else {
        return Ok(());
    };
    file.sync_all().map_err(|error| failed(&partial, &error))?;
    let summary = restore::check(&partial)?;
    std::fs::rename(&partial, &path).map_err(|error| failed(&path, &error))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()?;
    eprintln!("{}: {} documents, {} bytes, verified", path.display(), summary.documents, summary.bytes);
    Ok(())
}

fn target(to: &Path, collection: &CollectionName) -> PathBuf {
    if !to.is_dir() {
        return to.to_path_buf();
    }
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    to.join(format!("{collection}-{}.tar", time.replace([':', '-'], "")))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{} cannot be written: {error}", path.display()))
}
