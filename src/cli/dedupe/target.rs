//! A file besides the output: the dropped documents, or the report.
//!
//! It guarantees that the file appears under its name when it is complete and on the disk, and that a failure
//! leaves nothing of it. Only a run that is killed leaves `NAME.partial`, which the next one replaces. No
//! other file is replaced without `--force`, and never an input, a device, or the target of a link.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::super::Failure;
use super::folder::{absolute, partial_of, sync_folder_of, targets_of};
use crate::cli::at;
use lookalike_files::shown;

/// A file that is written.
pub(super) struct Target {
    to: PathBuf,
    partial: PathBuf,
    file: File,
    is_whole: bool,
}

/// Why these files, which the named options ask for, cannot be written beside this output.
pub(super) fn problems(
    targets: &[(&'static str, &Path)],
    output: &Path,
    inputs: &dyn Fn(&Path) -> bool,
    is_forced: bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut places: Vec<(PathBuf, &str)> = Vec::new();
    // The files of an unfinished run with the same output, which are written again.
    let unfinished = targets_of(output).unwrap_or_default();
    let of_output = absolute(output).ok();
    for (option, path) in targets {
        let name = shown(path);
        let own = match absolute(path) {
            Ok(own) => own,
            Err(error) => {
                problems.push(format!("{option}: {}", error.message));
                continue;
            }
        };
        let (partial, is_known) = (partial_of(&own), unfinished.contains(&shown(&own)));
        let is_within = |output: &PathBuf| own.starts_with(output) || own.starts_with(partial_of(output));
        if of_output.as_ref().is_some_and(is_within) {
            problems.push(format!("{option} {name} is inside the output: name a file outside of it"));
        }
        let is_taken = |place: &PathBuf| *place == own || *place == partial || partial_of(place) == own;
        if let Some((_, other)) = places.iter().find(|(place, _)| is_taken(place)) {
            problems.push(format!("{option} and {other} name the same file, {name}"));
        }
        if let Ok(about) = fs::symlink_metadata(&own) {
            if inputs(&own) {
                problems.push(format!("{option} {name} is an input: name another file"));
            } else if !about.is_file() {
                let what = if about.is_symlink() { "a symbolic link" } else { "no regular file" };
                problems.push(format!("{option} {name} is {what}: name a file"));
            } else if !is_forced && !is_known {
                problems.push(format!("{name} exists; --force replaces it"));
            }
        }
        if fs::symlink_metadata(&partial).is_ok() && !is_known {
            problems.push(format!(
                "{} exists, and {option} would be written under this name first: move it away, or name \
                 another file",
                shown(&partial)
            ));
        }
        places.push((own, option));
    }
    problems
}

/// The names of files as the lock file of a run has them.
pub(super) fn names(targets: &[(&'static str, &Path)]) -> Vec<String> {
    targets.iter().filter_map(|(_, path)| absolute(path).ok()).map(|path| shown(&path)).collect()
}

impl Target {
    pub(super) fn create(to: &Path) -> Result<Target, Failure> {
        let partial = partial_of(to);
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&partial, &error)),
            _ => {}
        }
        let file = File::create_new(&partial).map_err(|error| at(&partial, &error))?;
        Ok(Target { to: to.to_owned(), partial, file, is_whole: false })
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let named = self.file.sync_all().and_then(|()| fs::rename(&self.partial, &self.to));
        named.map_err(|error| self.failed(&error))?;
        self.is_whole = true;
        sync_folder_of(&self.to)
    }

    pub(super) fn failed(&self, error: &io::Error) -> Failure {
        at(&self.partial, error)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_whole {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
