//! `lookalike index`: makes an index of files of documents, for `--against` of later runs, and shows what one
//! has. Work of an interrupted `build` is used again.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, FromArgMatches, Subcommand};

use super::super::super::fingerprint::profile;
use super::super::super::signals::stop_on_signals;
use super::super::super::{Failure, printable, tell};
use super::super::against::Against;
use super::super::folder::{self, Folder};
use super::super::index::{AboutIndex, FILES, Index, WEIGHTS};
use super::super::inputs::Inputs;
use super::super::record::Maker;
use super::super::spool::Kind;
use super::super::weights;
use super::super::{DedupeArguments, ReadArguments, checks};
use super::{Run, refusal};
use crate::cli::at;
use lookalike_dedupe::Radius;
use lookalike_files::shown;
use lookalike_wording::counted;

#[derive(Debug, Args)]
pub(in super::super::super) struct IndexArguments {
    #[command(subcommand)]
    command: IndexCommand,
}

#[derive(Debug, Subcommand)]
enum IndexCommand {
    /// Make an index of files of documents.
    Build(Box<Build>),
    /// Check an index, and show what it has.
    Info {
        /// The folder of the index
        index: PathBuf,
    },
}

/// The options of `build`, which mean what those of `dedupe` mean.
#[derive(Debug, Args)]
struct Build {
    /// Files and folders of documents, as for dedupe
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Folder for the index
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,
    #[command(flatten)]
    read: ReadArguments,
}

impl Build {
    /// A run that reads the same, and keeps all.
    fn as_run(&self) -> DedupeArguments {
        let command = DedupeArguments::augment_args(clap::Command::new("index"));
        let matches = command.get_matches_from(["index", "-", "-o", "-"]);
        let defaults = DedupeArguments::from_arg_matches(&matches).expect("other options have defaults");
        DedupeArguments {
            inputs: self.inputs.clone(),
            output: self.output.clone(),
            read: self.read.clone(),
            ..defaults
        }
    }
}

/// Runs the command.
pub(in super::super::super) fn run(arguments: &IndexArguments) -> Result<(), Failure> {
    match &arguments.command {
        IndexCommand::Build(build) => self::build(&build.as_run()),
        IndexCommand::Info { index } => info(&Index::open(index)?),
    }
}

fn info(index: &Index) -> Result<(), Failure> {
    let about = &index.about;
    let text = [
        format!("{:>12}  documents", about.documents),
        format!("{:>12}  files", about.files.len()),
        format!("{:>12}  bytes", index.bytes()),
        format!("profile {}", about.profile),
        format!("weights of features: {}", about.weights.as_deref().unwrap_or("none")),
        format!("made by lookalike {}", about.program),
    ];
    Ok(io::stdout().write_all(printable(&(text.join("\n") + "\n")).as_bytes())?)
}

fn build(arguments: &DedupeArguments) -> Result<(), Failure> {
    let profile = profile(arguments.read.profiles.as_deref(), &arguments.read.profile)?;
    if !profile.takes_texts() {
        let profile = profile.id();
        return Err(Failure::new(format!(
            "{profile} takes only hashes that were made earlier, and no texts"
        )));
    }
    let mut inputs = Inputs::of(&arguments.inputs, arguments.read.format, false);
    inputs.passed_over().iter().chain(&inputs.notes).for_each(|note| tell(note));
    let mut maker = Maker::of(arguments, profile, false);
    let mut problems = inputs.problems.clone();
    problems.extend(checks::of_records(&inputs.files, &maker, arguments.read.skip_invalid));
    if fs::symlink_metadata(&arguments.output).is_ok() {
        let output = shown(&arguments.output);
        problems.push(format!("{output} exists: name another folder, or remove it first"));
    } else {
        problems.extend(folder::problems(&arguments.output, &inputs.files, false));
    }
    checks::refuse(problems)?;
    let folder = Folder::open(&arguments.output, &[])?;
    let (stop, against) = (stop_on_signals(), Against::default());
    inputs.store_streams(|name| folder.work(name), &stop)?;
    let (table, note) = weights::choose(arguments, &inputs, &against, &maker, None, &stop)?;
    maker.weights = table;
    let mut run = Run::new(arguments, &inputs, &against, &maker, Radius::Distance(0), &folder, stop)?;
    run.kept = None;
    run.read(&folder)?;
    if run.summary.invalid > 0 && !arguments.read.skip_invalid {
        return Err(refusal(run.summary.invalid, ""));
    }
    let mut documents = 0;
    for number in 0..run.prints.len() {
        documents += u64::from(run.prints.head(number)?.kind == Kind::Document);
    }
    run.names.flush()?;
    drop(run);
    let output = folder.work("output");
    for name in FILES {
        let (from, to) = (folder.work(name), output.join(name));
        fs::rename(&from, &to).map_err(|error| at(&to, &error))?;
    }
    if let Some(table) = &maker.weights {
        let path = output.join(WEIGHTS);
        fs::write(&path, table.to_bytes()).map_err(|error| at(&path, &error))?;
    }
    let files = inputs.files.iter().map(|input| input.shown.clone()).collect();
    let about =
        AboutIndex::of(&output, maker.profile, maker.sizes, maker.weights.as_deref(), documents, files)?;
    about.write(&output)?;
    folder.finish(&[])?;
    let mut text = format!("{} in {}", counted(documents, "document"), shown(&arguments.output));
    note.iter().for_each(|note| text = format!("{text}\n{note}"));
    Ok(io::stdout().write_all((printable(&text).into_owned() + "\n").as_bytes())?)
}
