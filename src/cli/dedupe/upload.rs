//! The output in a store: it is complete in the working folder before the first object is written.
//!
//! Objects appear one by one, each whole, and `_SUCCESS` last; it is absent while others are replaced. After
//! a failure what was written is removed, as far as the store still answers. *Absent*: a lock against a run
//! on another machine.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU8;

use super::super::Failure;
use super::inputs::Input;
use super::progress::{bar, check};
use crate::cli::at;
use lookalike_files::{local_name, shown};
use lookalike_remote::{Cloud, Error, Folder, is_address};

/// The place of the output in a store.
#[derive(Clone, Debug)]
pub(super) struct Upload(Folder);

impl Upload {
    /// The place in a store that the option names, and the name of the working folder beside the user; `None`
    /// of a path.
    ///
    /// # Errors
    /// If nothing can be written there.
    pub(super) fn of(output: &Path) -> Result<Option<(Upload, PathBuf)>, Failure> {
        let Some(url) = output.to_str().filter(|name| is_address(name)) else { return Ok(None) };
        let folder = Folder::at(&Cloud::new()?, url).map_err(failed)?;
        Ok(Some((Upload(folder), local_name(url))))
    }

    /// Why the output cannot be written: what is there is not replaced, or it is an input.
    pub(super) fn problems(&self, inputs: &[Input], is_forced: bool) -> Vec<String> {
        let url = self.0.url();
        let objects = inputs.iter().filter_map(|input| Some((input, input.path.as_object()?)));
        let is_around = |argument: &Path| url.starts_with(&format!("{}/", shown(argument)));
        let own = objects.map(|(input, object)| (input, self.0.has(object) || is_around(&input.argument)));
        if let Some((input, _)) = own.into_iter().find(|(_, is_own)| *is_own) {
            let input = shown(&input.argument);
            return vec![format!("the output {url} and the input {input} contain each other")];
        }
        let names = match self.0.names() {
            Ok(names) => names,
            Err(error) => return vec![error.to_string()],
        };
        if !is_forced {
            return Vec::from_iter((!names.is_empty()).then(|| format!("{url} exists; --force replaces it")));
        }
        let places = places(inputs);
        let other = names.iter().find(|name| !places.contains(Path::new(name)));
        Vec::from_iter(other.map(|name| {
            let other = self.0.url_of(name);
            format!(
                "{url} has an object that this command does not write, {other}: --force does not remove it"
            )
        }))
    }

    /// Writes the files of a folder, and removes those of an earlier output.
    ///
    /// # Errors
    /// If the store does not take them. The folder stays.
    pub(super) fn send(&self, from: &Path, inputs: &[Input], stop: &AtomicU8) -> Result<(), Failure> {
        let mut files = Vec::new();
        files_in(from, Path::new(""), &mut files).map_err(|error| at(from, &error))?;
        files.sort();
        let earlier = self.0.names().map_err(failed)?;
        self.0.unmark().map_err(failed)?;
        let bar = bar("upload", files.iter().map(|(_, bytes)| bytes).sum());
        let mut sent: Vec<&str> = Vec::new();
        for (name, bytes) in &files {
            let put = check(stop).and_then(|()| self.0.put(name, &from.join(name)).map_err(failed));
            if let Err(failure) = put {
                bar.finish_and_clear();
                return Err(self.undone(&failure, &sent));
            }
            sent.push(name);
            bar.inc(*bytes);
        }
        bar.finish_and_clear();
        let places = places(inputs);
        let is_left = |name: &&String| !sent.contains(&name.as_str()) && places.contains(Path::new(name));
        earlier.iter().filter(is_left).try_for_each(|name| self.0.remove(name)).map_err(failed)?;
        self.0.mark().map_err(failed)
    }

    /// Removes what was sent before a failure.
    fn undone(&self, failure: &Failure, sent: &[&str]) -> Failure {
        let left = sent.iter().position(|name| self.0.remove(name).is_err());
        let left =
            left.map(|first| format!("; {} is left there and more may be", self.0.url_of(sent[first])));
        let way = "the working folder stays, and the same command goes on";
        Failure { message: format!("{}: {way}{}", failure.message, left.unwrap_or_default()), ..*failure }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "map_err passes it")]
fn failed(error: Error) -> Failure {
    Failure::new(error.to_string())
}

fn places(inputs: &[Input]) -> HashSet<&Path> {
    inputs.iter().map(|input| &*input.to).collect()
}

/// The names of the files in a folder and below it, with their sizes.
fn files_in(root: &Path, below: &Path, files: &mut Vec<(String, u64)>) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            files_in(root, &name, files)?;
        } else {
            let why = || std::io::Error::other(format!("{} is no name of an object", shown(&name)));
            files.push((name.to_str().ok_or_else(why)?.to_owned(), entry.metadata()?.len()));
        }
    }
    Ok(())
}
