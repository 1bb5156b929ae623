//! `lookalike merge`: the decisions and the output of a run whose prints shards have made.
//!
//! It is the command that made the shards, read from the first of them, with further options.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Command, FromArgMatches};

use super::super::{Failure, tell};
use super::shards::{Shards, folder_of};
use super::upload::Upload;
use super::{DedupeArguments, start};
use lookalike_files::shown;

#[derive(Debug, Args)]
pub(in super::super) struct MergeArguments {
    /// The output of the shards, as they name it
    #[arg(value_name = "OUTPUT")]
    output: PathBuf,
    /// Options of dedupe besides those of the shards, or in place of them, such as --memory 64GiB
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    options: Vec<OsString>,
}

/// Runs the command.
pub(in super::super) fn run(merge: MergeArguments) -> Result<(), Failure> {
    let folder = Upload::of(&merge.output)?.map_or_else(|| merge.output.clone(), |(_, folder)| folder);
    let shards = Shards::of(&folder)?;
    let mut words: Vec<OsString> = shards.command().iter().map(OsString::from).collect();
    let options = merge.options.into_iter().chain(["--output".into(), merge.output.into()]);
    // Behind `--` all words are inputs.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.splice(end..end, options);
    let command = Command::new("lookalike merge").no_binary_name(true).args_override_self(true);
    let matches = DedupeArguments::augment_args(command).try_get_matches_from(words);
    let arguments = matches.and_then(|matches| DedupeArguments::from_arg_matches(&matches));
    let arguments = arguments.unwrap_or_else(|error| error.exit());
    if arguments.shard.is_some() {
        return Err(Failure::new("--shard is no option of merge, which takes all shards"));
    }
    start(arguments, Some(&shards))?;
    let name = shown(&folder_of(&folder));
    tell(&format!("{name} stays for another merge: remove it when the output is as you want it"));
    Ok(())
}
