//! The files of a run, in the order in which they are read, with the place of each in the output. Files of a
//! tar archive are files of the run, and their place is the archive.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::Failure;
use super::super::files::{
    Format, Listed, Listing, Member, Packing, Reason, Skipped, Tally, each_file, format_of, is_input, is_tar,
    last_name, shown, unpacked,
};

/// The files in archives that are named as passed over; further ones are only counted.
const SHOWN: usize = 20;

/// A file to read.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) path: PathBuf,
    /// The file of a tar archive, whose path `path` is then.
    pub(super) member: Option<Member>,
    /// The path, as the user sees it.
    pub(super) shown: String,
    /// The argument that it comes from: itself, or a folder around it.
    pub(super) argument: PathBuf,
    /// Its place in the output, or that of its archive.
    pub(super) to: PathBuf,
    pub(super) format: Format,
    pub(super) packing: Packing,
    pub(super) state: State,
}

/// What shows that a file has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// As the user sees it.
    path: String,
    pub(super) bytes: u64,
    /// The time of the last change, in nanoseconds since 1970.
    modified: u64,
}

/// The files, and how many others are in the folders.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    pub(super) files: Vec<Input>,
    pub(super) ignored: u64,
    /// Files in archives that are not read, and why.
    pub(super) passed_over: Vec<(String, Skipped)>,
}

impl Inputs {
    /// The files of the arguments; with `format`, every file has it.
    ///
    /// # Errors
    /// [`Failure`] for a file that cannot be read, or two that would have one place in the output.
    pub(super) fn of(arguments: &[PathBuf], format: Option<Format>) -> Result<Inputs, Failure> {
        let takes = |path: &Path| format.is_some() || Format::named(path).is_some() || is_tar(path);
        let Listing { files, ignored } = Listing::of(arguments, &takes)?;
        let mut inputs = Inputs { files: Vec::with_capacity(files.len()), ignored, passed_over: Vec::new() };
        let mut places: Vec<(&Path, &Path)> =
            files.iter().map(|listed| (place_of(listed), &*listed.path)).collect();
        places.sort_unstable();
        if let Some(pair) = places.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Failure::new(format!(
                "{} and {} would both be written to {}: name a folder above both",
                shown(pair[0].1),
                shown(pair[1].1),
                shown(pair[0].0)
            )));
        }
        for listed in files {
            if format.is_none() && is_tar(&listed.path) {
                inputs.add_archive(&listed)?;
            } else {
                inputs.files.push(Input::new(listed, format)?);
            }
        }
        Ok(inputs)
    }

    /// Adds the files of an archive, which is read once for that.
    ///
    /// # Errors
    /// [`Failure`] if the archive cannot be read, or no file in it is read.
    fn add_archive(&mut self, listed: &Listed) -> Result<(), Failure> {
        let before = self.files.len();
        let listing = unpacked(&listed.path, &Arc::default()).and_then(|read| {
            each_file(read, &mut |member, read| {
                match read.and_then(|_| format_of(&member.path, None)) {
                    Ok(format) => self.files.push(Input::of_member(listed, member, format)),
                    Err(reason) => {
                        self.passed_over.push((member.shown(&listed.path), reason));
                    }
                }
                true
            })
        });
        listing.map_err(|error| {
            Failure::new(format!("{}: the archive cannot be read: {error}", shown(&listed.path)))
        })?;
        if self.files.len() == before {
            let shown = shown(&listed.path);
            return Err(Failure::new(format!("{shown}: there is no file of documents in the archive")));
        }
        Ok(())
    }

    /// Checks that no two files of an archive have one name in the output, where tar would extract only the
    /// second.
    ///
    /// # Errors
    /// [`Failure`] that names both.
    pub(super) fn check_names(&self) -> Result<(), Failure> {
        let members =
            self.files.iter().filter_map(|file| Some((&file.to, file.member.as_ref()?.relative(), file)));
        let mut members: Vec<_> = members.collect();
        members.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        match members.windows(2).find(|pair| (pair[0].0, &pair[0].1) == (pair[1].0, &pair[1].1)) {
            None => Ok(()),
            Some(pair) => Err(Failure::new(format!(
                "{} and {} would both be extracted as {}, one in place of the other: extract the archive, \
                 and name the folder",
                pair[0].2.shown,
                pair[1].2.shown,
                shown(&pair[0].1)
            ))),
        }
    }

    /// Prints which files in archives are not read, and why, and `what` that means.
    pub(super) fn name_passed_over(&self, what: &str) {
        for (name, reason) in self.passed_over.iter().take(SHOWN) {
            eprintln!("{name}: passed over, {reason}");
        }
        let mut all = Tally::default();
        self.passed_over.iter().for_each(|(_, reason)| all.add(Reason::Skipped(*reason)));
        all.sentences().for_each(|sentence| eprintln!("{sentence}{what}"));
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
            let source = shown(&last_name(&input.argument));
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
        let to = place_of(&listed).to_owned();
        let Listed { path, argument, bytes, modified, .. } = listed;
        let shown = shown(&path);
        let is_piped = is_input(&path);
        if is_piped && format == Some(Format::Parquet) {
            return Err(Failure::new(
                "Parquet cannot be read from standard input, because its end comes first",
            ));
        }
        let format = Format::of_file(&path, format);
        let packing = if format == Format::Parquet { Packing::None } else { Packing::of_file(&path) };
        Ok(Input {
            argument,
            to,
            format,
            packing,
            state: State { path: shown.clone(), bytes, modified },
            path,
            shown,
            member: None,
        })
    }

    /// A file in an archive.
    fn of_member(listed: &Listed, member: &Member, format: Format) -> Input {
        let shown = member.shown(&listed.path);
        Input {
            argument: listed.argument.clone(),
            to: listed.place.clone(),
            format,
            packing: Packing::named(&member.path),
            state: State { path: shown.clone(), bytes: member.bytes, modified: listed.modified },
            shown,
            path: listed.path.clone(),
            member: Some(member.clone()),
        }
    }
}

/// The place of a file in the output.
fn place_of(listed: &Listed) -> &Path {
    if is_input(&listed.path) { Path::new("stdin.jsonl") } else { &listed.place }
}
