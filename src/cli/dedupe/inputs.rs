//! The files of a run, in the order in which they are read, with the place of each in the output.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::Failure;
use super::super::files::{Format, Listed, Listing, Packing, is_input, is_tar, last_name};

/// A file to read.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) path: PathBuf,
    /// The path, as the user sees it.
    pub(super) shown: String,
    /// The argument that it comes from: itself, or a folder around it.
    pub(super) argument: PathBuf,
    /// Its place in the output.
    pub(super) to: PathBuf,
    pub(super) format: Format,
    pub(super) packing: Packing,
    pub(super) state: State,
}

/// What shows that a file has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    path: PathBuf,
    pub(super) bytes: u64,
    /// The time of the last change, in nanoseconds since 1970.
    modified: u64,
}

/// The files, and how many others are in the folders.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    pub(super) files: Vec<Input>,
    pub(super) ignored: u64,
}

impl Inputs {
    /// The files of the arguments; with `format`, every file has it.
    ///
    /// # Errors
    /// [`Failure`] for a file that cannot be read, or two that would have one place in the output.
    pub(super) fn of(arguments: &[PathBuf], format: Option<Format>) -> Result<Inputs, Failure> {
        let takes = |path: &Path| format.is_some() || Format::named(path).is_some();
        let Listing { files, ignored } = Listing::of(arguments, &takes)?;
        let files = files.into_iter().map(|listed| Input::new(listed, format));
        let inputs = Inputs { files: files.collect::<Result<_, _>>()?, ignored };
        let mut places: Vec<(&Path, &Path)> =
            inputs.files.iter().map(|input| (&*input.to, &*input.path)).collect();
        places.sort_unstable();
        if let Some(pair) = places.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Failure::new(format!(
                "{} and {} would both be written to {}: name a folder above both",
                pair[0].1.display(),
                pair[1].1.display(),
                pair[0].0.display()
            )));
        }
        Ok(inputs)
    }

    /// The size of all files in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|input| input.state.bytes).sum()
    }

    /// The places of the sources in the order of preference, by the number of the file; files of no named
    /// source come last.
    ///
    /// # Errors
    /// For a name that no argument has.
    pub(super) fn preferences(&self, names: &[String]) -> Result<Vec<u64>, Failure> {
        let is_named = |name: &String, input: &Input| {
            let source = last_name(&input.argument).display().to_string();
            source == *name || source.split_once('.').is_some_and(|(stem, _)| stem == name)
        };
        if let Some(name) = names.iter().find(|name| !self.files.iter().any(|input| is_named(name, input))) {
            return Err(Failure::new(format!(
                "source:{name}: no argument has this name; a source is the name of a file or folder given"
            )));
        }
        let place = |input: &Input| names.iter().position(|name| is_named(name, input));
        Ok(self.files.iter().map(|input| place(input).unwrap_or(names.len()) as u64).collect())
    }
}

impl Input {
    fn new(listed: Listed, format: Option<Format>) -> Result<Input, Failure> {
        let Listed { path, argument, place, bytes, modified } = listed;
        let shown = path.display().to_string();
        let is_piped = is_input(&path);
        if is_piped && format == Some(Format::Parquet) {
            return Err(Failure::new(
                "Parquet cannot be read from standard input, because its end comes first",
            ));
        }
        if format.is_none() && is_tar(&path) {
            return Err(Failure::new(format!(
                "{shown}: dedupe reads no tar archives; unpack it into a folder"
            )));
        }
        let format = format.or_else(|| Format::named(&path)).unwrap_or(Format::Jsonl);
        let packing = if format == Format::Parquet { Packing::None } else { Packing::named(&path) };
        let to = if is_piped { PathBuf::from("stdin.jsonl") } else { place };
        Ok(Input {
            shown,
            argument,
            to,
            format,
            packing,
            state: State { path: path.clone(), bytes, modified },
            path,
        })
    }
}
