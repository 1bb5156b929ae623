//! Precision and recall over HTTP: what a user of a running server gets on labelled articles.
//!
//! For each labelled set and profile it makes a collection, streams the real articles into it, asks for the
//! neighbours of every one of them, and scores the answered pairs against the labels at each distance. It
//! knows the server by its routes alone and uses no code of the library. Markdown goes to standard output,
//! progress to standard error. Any answer that contradicts another or the contract ends the run with exit
//! code 1: figures from a server that is wrong somewhere would not be worth reading.
//!
//! It leaves out latency under load and larger numbers of documents: client and server share one machine.

mod check;
mod client;
mod collection;
mod labels;
mod measure;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use client::{Failure, Server};
use collection::Collection;
use labels::{Labels, SETS, Set};
use measure::Measured;

/// Measure the quality of answers of a running server on labelled articles.
#[derive(Debug, Parser)]
#[command(name = "quality")]
struct Arguments {
    /// The server
    #[arg(long, default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,
    /// Directory of the labelled sets
    #[arg(long, default_value = "../shared/data", value_name = "DIR")]
    data: PathBuf,
    /// Profiles to measure, separated by commas
    #[arg(long = "profile", value_delimiter = ',', value_name = "NAME",
          default_values = ["copies-64", "copies-128", "keywords-zh"])]
    profiles: Vec<String>,
    /// Sets to measure, separated by commas; all four if there is none
    #[arg(long = "set", value_delimiter = ',', value_name = "NAME")]
    sets: Vec<String>,
    /// Questions under way at a time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    parallel: u16,
    /// Documents of each set that are also asked about at each k, by index and by linear scan
    #[arg(long, default_value_t = 500, value_name = "N")]
    sample: usize,
    /// Leave the collections where they are
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("quality: {}", failure.with_causes());
            ExitCode::FAILURE
        }
    }
}

/// Measures everything that was asked for; whether no answer contradicted another.
async fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let server = Server::new(&arguments.url)?;
    println!("Server: {}.\n", server.version().await?);
    let mut all = Vec::new();
    for set in chosen(&arguments.sets)? {
        let Some(labels) = Labels::read(set, &arguments.data)? else {
            eprintln!("{}: skipped, {} is not there", set.name, set.documents(&arguments.data).display());
            continue;
        };
        print!("{}", report::set(&labels));
        for profile in &arguments.profiles {
            let measured = in_new_collection(&server, &labels, profile, arguments).await?;
            print!("{}", report::run(&labels, &measured));
            all.push((set.name, labels.bytes, measured));
        }
    }
    print!("{}", report::overview(&all));
    Ok(all.iter().all(|(_, _, measured)| measured.contradictions() == 0))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Set>, Failure> {
    let find = |name: &String| {
        let known = SETS.iter().find(|set| set.name == name);
        known.ok_or_else(|| Failure::Labels(format!("there is no set {name:?}")))
    };
    if names.is_empty() { Ok(SETS.iter().collect()) } else { names.iter().map(find).collect() }
}

/// Measures in a collection of its own, which goes afterwards even if the measurement failed.
async fn in_new_collection(
    server: &Server,
    labels: &Labels,
    profile: &str,
    arguments: &Arguments,
) -> Result<Measured, Failure> {
    let name = format!("quality-{}-{profile}", labels.set.name);
    let collection = Collection::make(server, &name, profile).await?;
    let plan = measure::Plan { parallel: arguments.parallel.into(), sample: arguments.sample };
    let measured = measure::measure(&collection, labels, plan).await;
    if !arguments.keep {
        collection.delete().await?;
    }
    measured
}
