//! The command line: one binary, and one file for each command.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong command line, 3 incomplete repair, 65 damaged data or data of
//! a newer version, 75 a server that did not stop in time or must start again, 78 wrong setting, 130, 141
//! and 143 ended by Ctrl-C, a closed pipe or SIGTERM.

mod backup;
mod client;
mod config;
mod dedupe;
mod eval;
mod export;
mod fingerprint;
mod healthcheck;
mod idf;
mod images;
mod import;
mod keys;
mod manual;
mod moment;
mod output;
mod repair;
mod replicas;
mod restore;
mod serve;
mod signals;
mod verify;
mod vote;

use std::borrow::Cow;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exact near-duplicate lookup over HTTP.
#[derive(Debug, Parser)]
#[command(name = "lookalike", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve over HTTP; the default command.
    Serve(serve::ServeArguments),
    /// Print the fingerprints of files.
    Fingerprint(fingerprint::FingerprintArguments),
    /// Print the fingerprint of features with weights.
    Vote(vote::VoteArguments),
    /// Compute word weights from your texts, for a profile with TF-IDF.
    Idf(idf::IdfArguments),
    /// Measure what profiles find on labelled texts, or on edited copies of your texts.
    Eval(eval::EvalArguments),
    /// Copy files of documents without near-duplicates; needs no server.
    Dedupe(Box<dedupe::DedupeArguments>),
    /// Decide about the files of all shards of dedupe, and write its output.
    Merge(dedupe::MergeArguments),
    /// Make an index of files of documents, with which dedupe compares later ones.
    Index(dedupe::IndexArguments),
    /// Send a file of documents to a server.
    Import(import::ImportArguments),
    /// Write all documents of a collection as NDJSON.
    Export(export::ExportArguments),
    /// Check a data directory for damage; changes nothing.
    Verify(verify::VerifyArguments),
    /// Build a new data directory from the readable parts of a damaged one.
    Repair(repair::RepairArguments),
    /// Back up a collection of a server.
    Backup(backup::BackupArguments),
    /// Create a collection from a backup, or check a backup.
    Restore(restore::RestoreArguments),
    /// Create, list and revoke keys.
    Keys(keys::KeysArguments),
    /// Show the state of the replicas that share a log.
    Replicas(replicas::ReplicasArguments),
    /// Show the settings.
    Config(config::ConfigArguments),
    /// Print the API description, openapi.yaml.
    Openapi,
    /// Check whether a server is ready; exit code 0 if it is.
    Healthcheck(healthcheck::HealthcheckArguments),
    /// Write man pages and completions of shells.
    #[command(hide = true)]
    Manual(manual::ManualArguments),
}

/// Exit code when the output pipe is closed: 128 + SIGPIPE, as in a shell.
const CLOSED_PIPE: u8 = 141;

/// A failure with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// An error with all its causes in one line.
    fn of(error: &dyn Error, code: u8) -> Failure {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.ends_with(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = error.source();
        }
        Failure { message, code }
    }

    fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: 1 }
    }
}

impl From<lookalike_files::Failure> for Failure {
    fn from(failure: lookalike_files::Failure) -> Failure {
        Failure::new(failure.to_string())
    }
}

/// A failure at a path.
fn at(path: &Path, error: &std::io::Error) -> Failure {
    lookalike_files::at(path, error).into()
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            // The reader has closed the pipe: end silently, as tools do that SIGPIPE kills.
            return Failure { message: String::new(), code: CLOSED_PIPE };
        }
        Failure::of(&error, 1)
    }
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    let command = arguments.command.unwrap_or(Command::Serve(arguments.serve));
    let result = match command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Fingerprint(arguments) => fingerprint::run(&arguments),
        Command::Vote(arguments) => vote::run(&arguments),
        Command::Idf(arguments) => idf::run(&arguments),
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Dedupe(arguments) => dedupe::run(*arguments),
        Command::Merge(arguments) => dedupe::run_merge(arguments),
        Command::Index(arguments) => dedupe::run_index(&arguments),
        Command::Import(arguments) => client::block_on(import::run(arguments)),
        Command::Export(arguments) => client::block_on(export::run(arguments)),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Repair(arguments) => repair::run(&arguments),
        Command::Backup(arguments) => client::block_on(backup::run(arguments)),
        Command::Restore(arguments) => client::block_on(restore::run(arguments)),
        Command::Keys(arguments) => keys::run(arguments),
        Command::Replicas(arguments) => client::block_on(replicas::run(arguments)),
        Command::Config(arguments) => config::run(arguments),
        Command::Openapi => print_contract(),
        Command::Healthcheck(arguments) => client::block_on(healthcheck::run(arguments)),
        Command::Manual(arguments) => manual::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if failure.code != CLOSED_PIPE {
                // The message may quote a URL that contains a password.
                tell(&format!("lookalike: {}", crate::config::redacted(&failure.message)));
            }
            ExitCode::from(failure.code)
        }
    }
}

/// Writes a line to standard error, without the control characters of names and texts of strangers. If
/// nobody reads it any more, the work goes on.
fn tell(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{}", printable(line));
}

/// A text with control characters escaped, except line breaks and tabs.
fn printable(text: &str) -> Cow<'_, str> {
    let is_control = |character: char| {
        // Those that change the direction of the text hide what a name is.
        let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || (character.is_control() && !matches!(character, '\n' | '\t'))
    };
    if !text.contains(is_control) {
        return text.into();
    }
    let escaped = |character: char| -> Cow<'_, str> {
        let escape = || character.escape_default().to_string().into();
        if is_control(character) { escape() } else { character.to_string().into() }
    };
    text.chars().map(escaped).collect::<String>().into()
}

fn print_contract() -> Result<(), Failure> {
    use std::io::Write;
    Ok(std::io::stdout().write_all(lookalike_http::openapi_yaml().as_bytes())?)
}
