//! `manual`: writes the man pages and the completions of shells, which `release/build` packs. It is not in
//! the list of commands.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Failure;

/// What `manual` takes.
#[derive(Debug, Args)]
pub(super) struct ManualArguments {
    /// A folder, for `man/*.1` and `completions/*`.
    folder: PathBuf,
}

/// Creates a folder in the one of the user.
fn created(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let path = folder.join(name);
    fs::create_dir_all(&path).map_err(|error| super::at(&path, &error))?;
    Ok(path)
}

pub(super) fn run(arguments: &ManualArguments) -> Result<(), Failure> {
    let pages = created(&arguments.folder, "man")?;
    clap_mangen::generate_to(super::Arguments::command(), &pages)
        .map_err(|error| super::at(&pages, &error))?;
    let completions = created(&arguments.folder, "completions")?;
    for shell in [Shell::Bash, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
        let mut command = super::Arguments::command();
        clap_complete::generate_to(shell, &mut command, "lookalike", &completions)
            .map_err(|error| super::at(&completions, &error))?;
    }
    Ok(())
}
