//! `lookalike replicas status`: the state of the replicas as a table.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Deserialize;

use super::Failure;
use super::client::Server;

#[derive(Debug, Args)]
pub(super) struct ReplicasArguments {
    #[command(subcommand)]
    command: ReplicasCommand,
}

#[derive(Debug, Subcommand)]
enum ReplicasCommand {
    /// Print the replicas, how far each is, and where the log ends.
    Status(StatusArguments),
}

#[derive(Debug, Args)]
struct StatusArguments {
    #[command(flatten)]
    server: Server,
    /// Print the answer of the server as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct State {
    url: String,
    server: String,
    end: Option<u64>,
    unsent: Option<Unsent>,
    trouble: Option<String>,
    servers: Vec<Member>,
}

#[derive(Deserialize)]
struct Unsent {
    entries: u64,
    bytes: u64,
    oldest_ms: u64,
}

#[derive(Deserialize)]
struct Member {
    name: String,
    address: String,
    version: String,
    position: u64,
    lag_entries: Option<u64>,
    behind_ms: u64,
    agreed: Option<u64>,
    is_diverged: bool,
}

pub(super) async fn run(arguments: ReplicasArguments) -> Result<(), Failure> {
    let ReplicasCommand::Status(arguments) = arguments.command;
    let client = arguments.server.client()?;
    let answer = client.send(client.request(Method::GET, "/replicas")).await?;
    let text = answer.text().await.map_err(|error| client.broken(error))?;
    if arguments.json {
        println!("{text}");
        return Ok(());
    }
    let state: State = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("the server's answer cannot be read: {error}")))?;
    print(&state);
    Ok(())
}

fn print(state: &State) {
    let end = state.end.map_or_else(|| "not known".to_owned(), |end| end.to_string());
    println!("replicas {}, asked {}; the log ends at {end}", state.url, state.server);
    if let Some(Unsent { entries, bytes, oldest_ms }) = &state.unsent {
        println!("it lacks {entries} entries of {bytes} bytes, the first for {oldest_ms} ms");
    }
    if let Some(trouble) = &state.trouble {
        println!("trouble: {trouble}");
    }
    let header = ["server", "position", "lag", "behind", "data", "version", "address"];
    let mut rows = vec![header.map(str::to_owned)];
    rows.extend(state.servers.iter().map(|server| {
        let Member { name, address, version, position, lag_entries, behind_ms, agreed, is_diverged } = server;
        let lag = lag_entries.map_or_else(|| "-".to_owned(), |lag| format!("{lag} entries"));
        let data = match (is_diverged, agreed) {
            (true, _) => "DIFFER".to_owned(),
            (false, Some(position)) => format!("same at {position}"),
            (false, None) => "not compared".to_owned(),
        };
        let (position, behind) = (position.to_string(), format!("{behind_ms} ms"));
        [name.clone(), position, lag, behind, data, version.clone(), address.clone()]
    }));
    print_table(&rows);
}

/// Prints rows in columns as wide as their widest cell.
fn print_table<const N: usize>(rows: &[[String; N]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("  {}", cells.join("  ").trim_end());
    }
}
