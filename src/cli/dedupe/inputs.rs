//! The files of a run, in the order in which they are read, with the place of each in the output. Files of a
//! tar archive are files of the run, and their place is the archive.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::super::Failure;
use lookalike_files::{
    self, Format, Listed, Listing, Member, Original, Packing, Reason, Skipped, Tally, each_member, format_of,
    is_archive, last_name, shown, written_as,
};

/// The most files in archives that are named as passed over; further ones are only counted.
const SHOWN: usize = 20;

/// A file to read.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) path: Original,
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

/// What shows that a file was replaced or has changed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct State {
    shown: String,
    pub(super) bytes: u64,
    file: lookalike_files::State,
}

/// The files, and what else is to be told about the folders.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    pub(super) files: Vec<Input>,
    /// Files in archives that are not read, and why.
    passed_over: Vec<(String, Skipped)>,
    /// Lines about what is not read.
    pub(super) notes: Vec<String>,
    /// Why the files cannot be read, or cannot be written.
    pub(super) problems: Vec<String>,
}

impl Inputs {
    /// The files of the arguments; with `format`, every file has it. Of folders and archives, with `images`
    /// they are read in place of texts.
    pub(super) fn of(arguments: &[PathBuf], format: Option<Format>, images: bool) -> Inputs {
        let is_told = |path: &Path| Format::named(path).is_some_and(|format| format.is_for(images));
        let takes = |path: &Path| format.is_some() || is_told(path) || is_archive(path);
        let mut listing = Listing::with_problems(arguments, &takes);
        let problems = std::mem::take(&mut listing.problems);
        let mut inputs = Inputs { problems, ..Inputs::default() };
        let mut places: Vec<(PathBuf, &Path)> =
            listing.files.iter().map(|listed| (place_of(listed), &*listed.path)).collect();
        places.sort_unstable();
        // Names in a folder follow the name of the folder.
        for pair in places.windows(2).filter(|pair| pair[1].0.starts_with(&pair[0].0)) {
            inputs.problems.push(format!(
                "{} and {} would both be written to {}: name a folder above both",
                shown(pair[0].1),
                shown(pair[1].1),
                shown(&pair[0].0)
            ));
        }
        for listed in &listing.files {
            let added = if format.is_none() && is_archive(&listed.path) && listed.path.is_stream() {
                let path = shown(&listed.path);
                Err(Failure::new(format!("{path}: an archive is read twice, so it cannot be a pipe")))
            } else if format.is_none() && is_archive(&listed.path) {
                inputs.add_archive(listed, images)
            } else {
                Input::new(listed, format).map(|input| inputs.files.push(input))
            };
            inputs.problems.extend(added.err().map(|error| error.message));
        }
        inputs.problems.extend(inputs.of_one_name());
        inputs.notes = listing.notes();
        inputs
    }

    /// Adds the files of an archive, which is read once for that.
    ///
    /// # Errors
    /// [`Failure`] if the archive cannot be read, or no file in it is read.
    fn add_archive(&mut self, listed: &Listed, images: bool) -> Result<(), Failure> {
        let before = self.files.len();
        let listing = each_member(&listed.path, &Arc::default(), &mut |member, read| {
            match read.and_then(|_| format_of(&member.path, None, images)) {
                Ok(format) => self.files.push(Input::of_member(listed, member, format)),
                Err(reason) => {
                    self.passed_over.push((member.shown(&listed.path), reason));
                }
            }
            true
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

    /// Files of an archive that have one name in the output, where tar would extract only the second.
    fn of_one_name(&self) -> Vec<String> {
        let members =
            self.files.iter().filter_map(|file| Some((&file.to, file.member.as_ref()?.relative(), file)));
        let mut members: Vec<_> = members.collect();
        members.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        let same = members.windows(2).filter(|pair| (pair[0].0, &pair[0].1) == (pair[1].0, &pair[1].1));
        let problems = same.map(|pair| {
            format!(
                "{} and {} would both be extracted as {}, one in place of the other: extract the archive, \
                 and name the folder",
                pair[0].2.shown,
                pair[1].2.shown,
                shown(&pair[0].1)
            )
        });
        problems.collect()
    }

    /// Lines about the files in archives that are not read, and why.
    pub(super) fn passed_over(&self) -> Vec<String> {
        let of_file = |(name, reason): &(String, Skipped)| format!("{name}: passed over, {reason}");
        let mut lines: Vec<String> = self.passed_over.iter().take(SHOWN).map(of_file).collect();
        let mut all = Tally::default();
        self.passed_over.iter().for_each(|(_, reason)| all.add(Reason::Skipped(*reason)));
        lines.extend(all.sentences().map(|sentence| format!("{sentence}; the output does not have them")));
        lines
    }

    /// What shows that a file was replaced or has changed.
    pub(super) fn states(&self) -> Vec<&State> {
        self.files.iter().map(|input| &input.state).collect()
    }

    /// The same as far as every machine sees it that shares the files.
    pub(super) fn shared_states(&self) -> Vec<State> {
        let shared = |state: &State| State { file: state.file.shared(), ..state.clone() };
        self.files.iter().map(|input| shared(&input.state)).collect()
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
    fn new(listed: &Listed, format: Option<Format>) -> Result<Input, Failure> {
        let path = listed.path.clone();
        if path.is_stream() && format.or_else(|| Format::named(&path)).is_some_and(Format::is_columnar) {
            return Err(Failure::new(format!(
                "{}: Parquet and Arrow cannot be read from standard input or a pipe, because their end \
                 comes first",
                shown(&path)
            )));
        }
        let format = Format::of_file(&path, format);
        let packing = if format.is_columnar() { Packing::None } else { Packing::of_file(&path) };
        let (shown, bytes, file) = (shown(&path), listed.bytes, path.state());
        Ok(Input {
            argument: listed.argument.clone(),
            to: place_of(listed),
            format,
            packing,
            state: State { shown: shown.clone(), bytes, file },
            path,
            shown,
            member: None,
        })
    }

    /// Whether it is a file of this machine, neither compressed nor in an archive.
    pub(super) fn is_plain_file(&self) -> bool {
        self.packing == Packing::None && self.member.is_none() && self.path.as_object().is_none()
    }

    /// A file in an archive.
    fn of_member(listed: &Listed, member: &Member, format: Format) -> Input {
        let shown = member.shown(&listed.path);
        Input {
            argument: listed.argument.clone(),
            to: place_of(listed),
            format,
            packing: Packing::named(&member.path),
            state: State { shown: shown.clone(), bytes: member.bytes, file: listed.path.state() },
            shown,
            path: listed.path.clone(),
            member: Some(member.clone()),
        }
    }
}

/// Checks that files are as they were when they were listed.
pub(super) fn unchanged(files: &[Input]) -> Result<(), Failure> {
    files.iter().try_for_each(|input| Ok(input.path.check()?))
}

/// The place of a file in the output.
fn place_of(listed: &Listed) -> PathBuf {
    if lookalike_files::is_input(&listed.path) { "stdin.jsonl".into() } else { written_as(&listed.place) }
}
