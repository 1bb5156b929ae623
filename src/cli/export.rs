//! `lookalike export`: writes every document of a collection as NDJSON, which `import` accepts. The first
//! line states the profile of the hashes.

use std::path::PathBuf;

use clap::Args;
use futures::StreamExt;
use reqwest::Method;

use super::Failure;
use super::client::{Server, collection_name, collection_route};
use super::output::{self, Output};
use lookalike_hash::{CollectionName, HashForm};
use lookalike_http::ExportHeader;
use lookalike_wording::counted;

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
    /// Form of the hashes: hex, 0x, decimal, signed, base64
    #[arg(long, value_name = "FORM")]
    hash_format: Option<HashForm>,
}

pub(super) async fn run(arguments: ExportArguments) -> Result<(), Failure> {
    let output = Output::open(arguments.output)?;
    let ExportArguments { server, collection, hash_format, .. } = arguments;
    let form = hash_format.map(|form| format!("?hash_format={form}")).unwrap_or_default();
    let route = collection_route(&collection, &format!("/export{form}"));
    output::interruptible(output, |output| fetch(server, route, output)).await
}

async fn fetch(server: Server, route: String, mut output: Output) -> Result<(), Failure> {
    let client = server.client()?;
    let request = client.request(Method::GET, &route);
    let mut body = client.send(request).await?.bytes_stream();
    // The first line is the header, which is no document.
    let (mut lines, mut header) = (0_u64, Some(Vec::new()));
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| client.broken(error))?;
        if let Some(begun) = &mut header {
            begun.extend_from_slice(&part);
            if let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
                say_what_is_missing(&begun[..end]);
                header = None;
            }
        }
        lines += part.split(|byte| *byte == b'\n').count() as u64 - 1;
        output.write(&part)?;
    }
    output.finish(|_| Ok(())).await?;
    eprintln!("{} exported", counted(lines.saturating_sub(1), "document"));
    Ok(())
}

/// Says what the export does not have.
fn say_what_is_missing(header: &[u8]) {
    let Some(Ok(Some(header))) = ExportHeader::of(header) else { return };
    if header.marks > 0 {
        eprintln!(
            "the collection has {}, which the export does not have; GET /marks lists them in the form that \
             POST /marks takes, and a backup has them",
            counted(header.marks, "mark")
        );
    }
}
