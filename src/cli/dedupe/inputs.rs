//! The files of a run: those that the arguments name, in the order in which they are read, and the place of
//! each in the output.
//!
//! A folder means every file in it and below it whose name tells a format, in the order of names. Symbolic
//! links are followed; a link to a folder above itself is an error.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::super::Failure;
use super::super::files::{Format, Packing, is_input};
use super::spool::at;

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
        let mut inputs = Inputs::default();
        for argument in arguments {
            for path in matching(argument)? {
                inputs.add(&path, format)?;
            }
        }
        if inputs.files.is_empty() {
            return Err(Failure::new("there is no file of documents among the arguments"));
        }
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

    fn add(&mut self, path: &Path, format: Option<Format>) -> Result<(), Failure> {
        if is_input(path) && format == Some(Format::Parquet) {
            return Err(Failure::new(
                "Parquet cannot be read from standard input, because its end comes first",
            ));
        }
        if is_input(path) {
            let to = PathBuf::from("stdin.jsonl");
            self.push(path, path, to, format.unwrap_or(Format::Jsonl), (0, 0));
            return Ok(());
        }
        let about = fs::metadata(path).map_err(|error| at(path, &error))?;
        let place = last_name(path);
        if about.is_dir() {
            let own = fs::canonicalize(path).map_err(|error| at(path, &error))?;
            return self.add_folder(path, path, &place, format, &mut vec![own]);
        }
        let format = format.or_else(|| Format::named(path)).unwrap_or(Format::Jsonl);
        self.push_file(path, path, place, format, &about)
    }

    fn add_folder(
        &mut self,
        argument: &Path,
        folder: &Path,
        place: &Path,
        format: Option<Format>,
        above: &mut Vec<PathBuf>,
    ) -> Result<(), Failure> {
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut names: Vec<_> = entries.map_err(|error| at(folder, &error))?;
        names.sort_unstable_by_key(fs::DirEntry::file_name);
        for entry in names {
            let (path, place) = (entry.path(), place.join(entry.file_name()));
            let about = fs::metadata(&path).map_err(|error| at(&path, &error))?;
            if about.is_dir() {
                let own = fs::canonicalize(&path).map_err(|error| at(&path, &error))?;
                if above.contains(&own) {
                    return Err(Failure::new(format!(
                        "{} is a link to a folder above it, {}: the folder has no end",
                        path.display(),
                        own.display()
                    )));
                }
                above.push(own);
                self.add_folder(argument, &path, &place, format, above)?;
                above.pop();
            } else if let Some(format) = format.or_else(|| Format::named(&path)).filter(|_| about.is_file()) {
                self.push_file(argument, &path, place, format, &about)?;
            } else {
                self.ignored += 1;
            }
        }
        Ok(())
    }

    fn push_file(
        &mut self,
        argument: &Path,
        path: &Path,
        to: PathBuf,
        format: Format,
        about: &fs::Metadata,
    ) -> Result<(), Failure> {
        // Opened once, so that a file without the right to read it is an error before the work begins.
        fs::File::open(path).map_err(|error| at(path, &error))?;
        let modified = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = modified.map_or(0, |time| time.as_nanos() as u64);
        self.push(argument, path, to, format, (about.len(), modified));
        Ok(())
    }

    fn push(
        &mut self,
        argument: &Path,
        path: &Path,
        to: PathBuf,
        format: Format,
        (bytes, modified): (u64, u64),
    ) {
        self.files.push(Input {
            path: path.to_owned(),
            shown: path.display().to_string(),
            argument: argument.to_owned(),
            to,
            format,
            packing: if format == Format::Parquet { Packing::None } else { Packing::named(path) },
            state: State { path: path.to_owned(), bytes, modified },
        });
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

/// The last name in a path; empty for `.` and `..`.
fn last_name(path: &Path) -> PathBuf {
    let names = path.components().rev().find_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        _ => None,
    });
    names.unwrap_or_default()
}

/// The paths that an argument means: itself, or what its pattern matches.
fn matching(argument: &Path) -> Result<Vec<PathBuf>, Failure> {
    let pattern = argument.to_string_lossy();
    if is_input(argument) || fs::symlink_metadata(argument).is_ok() || !pattern.contains(['*', '?', '[']) {
        return Ok(vec![argument.to_owned()]);
    }
    let paths = glob::glob(&pattern).map_err(|error| Failure::new(format!("{pattern}: {error}")))?;
    let found = paths.collect::<Result<Vec<_>, _>>().map_err(|error| Failure::new(error.to_string()))?;
    if found.is_empty() { Err(Failure::new(format!("{pattern} matches no file"))) } else { Ok(found) }
}
