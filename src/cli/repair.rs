//! `lookalike repair`: a new data directory of what can still be read of a damaged one.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::serve::open_code;
use crate::config::Settings;
use crate::engine::embedded;
use crate::server;

#[derive(Debug, Args)]
pub(super) struct RepairArguments {
    /// Damaged data directory; it stays as it is
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// New data directory, made by this command
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Say that what cannot be read may be left out, and that documents deleted before may come back
    #[arg(long)]
    accept_loss: bool,
}

pub(super) fn run(arguments: &RepairArguments) -> Result<(), Failure> {
    if !arguments.accept_loss {
        return Err(Failure {
            message: "a repair leaves out what cannot be read, and documents deleted before may come back; a backup loses \
                      less. If there is none, say --accept-loss"
                .to_owned(),
            code: 2,
        });
    }
    let settings = server::embedded(&Settings::default());
    let repaired = embedded::repair(&arguments.dir, &arguments.to, &settings, &mut |line| {
        // Whoever reads only the beginning must not end the repair.
        let _ = writeln!(std::io::stdout(), "{line}");
    });
    let repaired = repaired.map_err(|error| Failure::of(&error, open_code(&error)))?;
    println!(
        "{}: {} documents kept whole, {} with their hash alone, {} lost",
        arguments.to.display(),
        repaired.documents,
        repaired.bare,
        repaired.lost
    );
    Ok(())
}
