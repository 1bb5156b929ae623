//! `lookalike backup`: writes a collection of a server to a file, and verifies the file.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use futures::StreamExt;
use reqwest::Method;

use super::Failure;
use super::client::{Server, collection_name, collection_route};
use super::output::{self, Output};
use super::restore;
use lookalike_hash::CollectionName;
use lookalike_wording::counted;

#[derive(Debug, Args)]
pub(super) struct BackupArguments {
    /// Output file; in a directory, a file named after the collection and the time; - is standard output
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    server: Server,
    /// Collection to back up
    #[arg(long, default_value = "default", value_parser = collection_name)]
    collection: CollectionName,
}

pub(super) async fn run(arguments: BackupArguments) -> Result<(), Failure> {
    let path = (arguments.to != Path::new("-")).then(|| target(&arguments.to, &arguments.collection));
    let output = Output::open(path.clone())?;
    let fetch = |output| fetch(arguments.server, arguments.collection, output, path);
    output::interruptible(output, fetch).await
}

async fn fetch(
    server: Server,
    collection: CollectionName,
    mut output: Output,
    path: Option<PathBuf>,
) -> Result<(), Failure> {
    let client = server.client()?;
    let request = client.request(Method::GET, &collection_route(&collection, "/backup"));
    let mut body = client.send(request).await?.bytes_stream();
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| {
            let mut failure = Failure::of(&error, 1);
            failure.message = format!("the backup was cut off: {}", failure.message);
            failure
        })?;
        output.write(&part)?;
    }
    let summary = output.finish(restore::check).await?;
    if let (Some(summary), Some(path)) = (summary, path) {
        let (documents, bytes) = (counted(summary.documents, "document"), counted(summary.bytes, "byte"));
        eprintln!("{}: {documents}, {bytes}, verified", path.display());
    }
    Ok(())
}

fn target(to: &Path, collection: &CollectionName) -> PathBuf {
    if !to.is_dir() {
        return to.to_path_buf();
    }
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    to.join(format!("{collection}-{}.tar", time.replace([':', '-'], "")))
}
