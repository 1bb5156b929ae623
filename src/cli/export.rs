//! `lookalike export`: every document of a collection as NDJSON, which `import` takes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use futures::StreamExt;
use reqwest::Method;

use super::Failure;
use super::client::{Server, collection_name, collection_route};
use crate::ids::CollectionName;

#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    #[command(flatten)]
    server: Server,
    /// Collection to export
    #[arg(long, default_value = "default", value_parser = collection_name)]
    collection: CollectionName,
    /// File to write; standard output if there is none
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) async fn run(arguments: ExportArguments) -> Result<(), Failure> {
    let client = arguments.server.client()?;
    let request = client.request(Method::GET, &collection_route(&arguments.collection, "/export"));
    let mut body = client.send(request).await?.bytes_stream();
    // A file appears under its name when it is whole: half an export must not look like one.
    let partial = arguments.output.as_ref().map(|path| path.with_added_extension("partial"));
    let mut out: Box<dyn Write> = match &partial {
        Some(path) => Box::new(BufWriter::new(File::create(path)?)),
        None => Box::new(io::stdout().lock()),
    };
    let mut documents = 0;
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| client.broken(error))?;
        documents += part.split(|byte| *byte == b'\n').count() - 1;
        out.write_all(&part)?;
    }
    out.flush()?;
    drop(out);
    if let (Some(partial), Some(path)) = (partial, arguments.output) {
        std::fs::rename(partial, path)?;
    }
    eprintln!("{documents} documents exported");
    Ok(())
}
