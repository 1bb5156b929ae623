//! `lookalike config print`: prints every setting in force and where it was set, and checks whether `serve`
//! would start with them.

use std::io::Write;

use clap::{Args, Subcommand};

use super::Failure;
use super::serve::{ServeArguments, check};
use crate::config::Given;

#[derive(Debug, Args)]
pub(super) struct ConfigArguments {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print the settings that `serve` would use with the same flags and environment, as TOML; the comment
    /// after each says where it was set. If `serve` would not start with them, the command ends with the
    /// message and exit code of `serve`.
    Print(ServeArguments),
}

pub(super) fn run(arguments: ConfigArguments) -> Result<(), Failure> {
    let ConfigCommand::Print(arguments) = arguments.command;
    let (settings, given) = arguments.explained()?;
    write(&given)?;
    check(&settings)
}

fn write(given: &[Given]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let mut section = "";
    for given in given {
        let (of, name) = given.key.split_once('.').unwrap_or(("", given.key));
        if of != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            writeln!(out, "{gap}[{of}]")?;
            section = of;
        }
        writeln!(out, "{name} = {}  # {}", toml_value(&given.written), given.origin)?;
    }
    Ok(())
}

/// The value as it would be in a file: variables and flags are strings, even for numbers and switches.
fn toml_value(written: &str) -> &str {
    let bare = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let is_plain = |text: &&str| text.parse::<i64>().is_ok() || matches!(*text, "true" | "false");
    bare.filter(is_plain).unwrap_or(written)
}
