//! `lookalike export`: writes every document of a collection as NDJSON, which `import` accepts.

use std::path::PathBuf;

use clap::Args;
use futures::StreamExt;
use reqwest::Method;

use super::Failure;
use super::client::{Server, collection_name, collection_route};
use super::output::{self, Output};
use crate::ids::CollectionName;

#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    #[command(flatten)]
    server: Server,
    /// Collection to export
    #[arg(long, default_value = "default", value_parser = collection_name)]
    collection: CollectionName,
    /// Output file; by default standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) async fn run(arguments: ExportArguments) -> Result<(), Failure> {
    let output = Output::open(arguments.output)?;
    output::interruptible(output, |output| fetch(arguments.server, arguments.collection, output)).await
}

async fn fetch(server: Server, collection: CollectionName, mut output: Output) -> Result<(), Failure> {
    let client = server.client()?;
    let request = client.request(Method::GET, &collection_route(&collection, "/export"));
    let mut body = client.send(request).await?.bytes_stream();
    let mut documents = 0;
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| client.broken(error))?;
        documents += part.split(|byte| *byte == b'\n').count() - 1;
        output.write(&part)?;
    }
    output.finish(|_| Ok(())).await?;
    eprintln!("{documents} documents exported");
    Ok(())
}
