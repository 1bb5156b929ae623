//! The files that the arguments of a command mean, in the order in which they are read.
//!
//! A folder means every file in it and below it that the command takes, in the order of names. A pattern
//! means what it matches, in the order of names. Symbolic links are followed; a link to a folder above
//! itself is an error.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::super::Failure;
use super::patterns::{self, is_pattern};
use super::{at, is_input, shown};

/// A file to read, or standard input.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Listed {
    pub(in crate::cli) path: PathBuf,
    /// The argument that it comes from: itself, or a folder around it.
    pub(in crate::cli) argument: PathBuf,
    /// The last name of the argument, and the path below it.
    pub(in crate::cli) place: PathBuf,
    /// Its size; 0 of standard input.
    pub(in crate::cli) bytes: u64,
    /// The time of its last change, in nanoseconds since 1970.
    pub(in crate::cli) modified: u64,
}

/// The files, and how many others are in the folders.
#[derive(Debug, Default)]
pub(in crate::cli) struct Listing {
    pub(in crate::cli) files: Vec<Listed>,
    pub(in crate::cli) ignored: u64,
}

impl Listing {
    /// The files of the arguments; of folders, those that `takes` accepts by their names.
    ///
    /// # Errors
    /// [`Failure`] for a file that cannot be read, a pattern without a match, or no file at all.
    pub(in crate::cli) fn of(
        arguments: &[PathBuf],
        takes: &dyn Fn(&Path) -> bool,
    ) -> Result<Listing, Failure> {
        let mut listing = Listing::default();
        for argument in arguments {
            for path in matching(argument)? {
                listing.add(&path, takes)?;
            }
        }
        if listing.files.is_empty() {
            return Err(Failure::new("there is no file of documents among the arguments"));
        }
        Ok(listing)
    }

    fn add(&mut self, path: &Path, takes: &dyn Fn(&Path) -> bool) -> Result<(), Failure> {
        let own = || path.to_owned();
        if is_input(path) {
            self.files.push(Listed { path: own(), argument: own(), place: own(), bytes: 0, modified: 0 });
            return Ok(());
        }
        let about = fs::metadata(path).map_err(|error| at(path, &error))?;
        let place = last_name(path);
        if about.is_dir() {
            let own = fs::canonicalize(path).map_err(|error| at(path, &error))?;
            return self.add_folder(path, path, &place, takes, &mut vec![own]);
        }
        self.push(path, path, place, &about)
    }

    fn add_folder(
        &mut self,
        argument: &Path,
        folder: &Path,
        place: &Path,
        takes: &dyn Fn(&Path) -> bool,
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
                        shown(&path),
                        shown(&own)
                    )));
                }
                above.push(own);
                self.add_folder(argument, &path, &place, takes, above)?;
                above.pop();
            } else if about.is_file() && takes(&path) {
                self.push(argument, &path, place, &about)?;
            } else {
                self.ignored += 1;
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        argument: &Path,
        path: &Path,
        place: PathBuf,
        about: &fs::Metadata,
    ) -> Result<(), Failure> {
        // Opened once, so that a file without the right to read it is an error before the work begins.
        fs::File::open(path).map_err(|error| at(path, &error))?;
        let modified = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        self.files.push(Listed {
            path: path.to_owned(),
            argument: argument.to_owned(),
            place,
            bytes: about.len(),
            modified: modified.map_or(0, |time| time.as_nanos() as u64),
        });
        Ok(())
    }
}

/// The last name in a path; empty for `.` and `..`.
pub(in crate::cli) fn last_name(path: &Path) -> PathBuf {
    let names = path.components().rev().find_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        _ => None,
    });
    names.unwrap_or_default()
}

/// The paths that an argument means: itself, or what its pattern matches.
fn matching(argument: &Path) -> Result<Vec<PathBuf>, Failure> {
    let is_there = is_input(argument) || fs::symlink_metadata(argument).is_ok();
    match argument.to_str().filter(|name| !is_there && is_pattern(name)) {
        Some(pattern) => patterns::matching(pattern),
        None => Ok(vec![argument.to_owned()]),
    }
}
