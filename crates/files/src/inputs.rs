//! The files that the arguments of a command mean, in the order in which they are read.
//!
//! A folder means every file in it and below it that the command takes, in the order of names. A pattern
//! means what it matches, in the order of names. Symbolic links are followed, also out of a folder, which is
//! told; a link to nothing is passed over in a folder and told; a link to a folder above itself is an error.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::Failure;
use super::original::{Budget, Original};
use super::patterns::{self, is_pattern};
use super::{at, is_input, shown};
use lookalike_remote::{Cloud, is_address};
use lookalike_wording::counted;

/// A file to read, or standard input.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The opened file.
    pub path: Original,
    /// The argument that it comes from: itself, or a folder around it.
    pub argument: PathBuf,
    /// The last name of the argument, and the path below it.
    pub place: PathBuf,
    /// Its size; 0 of standard input.
    pub bytes: u64,
}

/// The files, and what else is in the folders.
#[derive(Debug, Default)]
pub struct Listing {
    /// The files.
    pub files: Vec<Listed>,
    /// The number of files with another ending.
    pub(super) ignored: u64,
    /// Links to nothing, pipes and devices in the folders, which are not read.
    unread: Vec<PathBuf>,
    /// Links that lead out of their folder.
    outward: Vec<PathBuf>,
    /// Why arguments cannot be read.
    pub problems: Vec<String>,
}

/// The folder of an argument, while its files are listed.
struct Root<'a> {
    argument: &'a Path,
    /// Where it is without links.
    own: PathBuf,
    /// Whether a name is that of a file to read.
    takes: &'a dyn Fn(&Path) -> bool,
    /// The folders around the one that is listed, without links.
    above: Vec<PathBuf>,
}

impl Listing {
    /// The files of the arguments; of folders, those that `takes` accepts by their names.
    ///
    /// # Errors
    /// [`Failure`] with all files that cannot be read and patterns without a match, or if there is no file.
    pub fn of(arguments: &[PathBuf], takes: &dyn Fn(&Path) -> bool) -> Result<Listing, Failure> {
        let listing = Listing::with_problems(arguments, takes);
        if listing.problems.is_empty() { Ok(listing) } else { Err(Failure::all(&listing.problems)) }
    }

    /// [`Listing::of`] that lists the problems in place of an error.
    pub fn with_problems(arguments: &[PathBuf], takes: &dyn Fn(&Path) -> bool) -> Listing {
        let (mut listing, mut budget) = (Listing::default(), Budget::new());
        let mut cloud = None;
        for argument in arguments {
            if let Some(url) = argument.to_str().filter(|name| is_address(name)) {
                let own = cloud.take().map_or_else(Cloud::new, Ok).map_err(Failure::from);
                let added = own.and_then(|own| listing.add_objects(cloud.insert(own), url, takes));
                listing.problems.extend(added.err().map(|error| error.to_string()));
                continue;
            }
            let added = matching(argument)
                .and_then(|paths| paths.iter().try_for_each(|path| listing.add(path, takes, &mut budget)));
            listing.problems.extend(added.err().map(|error| error.to_string()));
        }
        if listing.files.is_empty() && listing.problems.is_empty() {
            listing.problems.push("there is no file of documents among the arguments".to_owned());
        }
        listing
    }

    /// Lines about what the folders have besides the files.
    pub fn notes(&self) -> Vec<String> {
        let such = |paths: &[PathBuf]| {
            let names: Vec<String> = paths.iter().take(3).map(|path| shown(path)).collect();
            names.join(", ") + if paths.len() > names.len() { ", …" } else { "" }
        };
        let mut notes = Vec::new();
        if self.ignored > 0 {
            let count = counted(self.ignored, "file");
            notes.push(format!("not read, by the ending: {count} in the folders"));
        }
        if !self.unread.is_empty() {
            let (count, such) = (counted(self.unread.len() as u64, "name"), such(&self.unread));
            notes.push(format!("not read, links to nothing, pipes and devices: {count}, {such}"));
        }
        if !self.outward.is_empty() {
            let (count, such) = (counted(self.outward.len() as u64, "link"), such(&self.outward));
            notes.push(format!("followed out of the folders: {count}, {such}"));
        }
        notes
    }

    fn add(
        &mut self,
        path: &Path,
        takes: &dyn Fn(&Path) -> bool,
        budget: &mut Budget,
    ) -> Result<(), Failure> {
        if is_input(path) {
            let (own, argument) = (Original::input(path), path.to_owned());
            self.files.push(Listed { path: own, place: argument.clone(), argument, bytes: 0 });
            return Ok(());
        }
        let about = fs::metadata(path).map_err(|error| at(path, &error))?;
        let place = last_name(path);
        if about.is_dir() {
            let own = fs::canonicalize(path).map_err(|error| at(path, &error))?;
            let mut root = Root { argument: path, own: own.clone(), takes, above: vec![own] };
            self.add_folder(&mut root, path, &place, budget);
            return Ok(());
        }
        self.push(path, path, place, &about, budget)
    }

    /// Adds what is in a folder. What cannot be read is a problem, and the rest is listed.
    fn add_folder(&mut self, root: &mut Root<'_>, folder: &Path, place: &Path, budget: &mut Budget) {
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut names: Vec<_> = entries.unwrap_or_else(|error| {
            self.problems.push(at(folder, &error).to_string());
            Vec::new()
        });
        names.sort_unstable_by_key(fs::DirEntry::file_name);
        for entry in names {
            let added = self.add_entry(root, &entry, place, budget);
            self.problems.extend(added.err().map(|error| error.to_string()));
        }
    }

    fn add_entry(
        &mut self,
        root: &mut Root<'_>,
        entry: &fs::DirEntry,
        place: &Path,
        budget: &mut Budget,
    ) -> Result<(), Failure> {
        let (path, place) = (entry.path(), place.join(entry.file_name()));
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let about = match fs::metadata(&path) {
            Ok(about) => about,
            Err(_) if is_link && fs::canonicalize(&path).is_err() => {
                self.unread.push(path);
                return Ok(());
            }
            Err(error) => return Err(at(&path, &error)),
        };
        let is_read = about.is_dir() || (about.is_file() && (root.takes)(&path));
        let own = if is_read && (is_link || about.is_dir()) {
            fs::canonicalize(&path).map_err(|error| at(&path, &error))?
        } else {
            PathBuf::new()
        };
        if is_read && is_link && !own.starts_with(&root.own) {
            self.outward.push(path.clone());
        }
        if about.is_dir() {
            if root.above.contains(&own) {
                return Err(Failure::new(format!(
                    "{} is a link to a folder above it, {}: the folder has no end",
                    shown(&path),
                    shown(&own)
                )));
            }
            root.above.push(own);
            self.add_folder(root, &path, &place, budget);
            root.above.pop();
        } else if is_read {
            self.push(root.argument, &path, place, &about, budget)?;
        } else if (root.takes)(&path) {
            self.unread.push(path);
        } else {
            self.ignored += 1;
        }
        Ok(())
    }

    fn push(
        &mut self,
        argument: &Path,
        path: &Path,
        place: PathBuf,
        about: &fs::Metadata,
        budget: &mut Budget,
    ) -> Result<(), Failure> {
        // Opened at once, so that a file without the right to read it is an error before the work begins.
        let path = Original::open(path, about, budget).map_err(|error| at(path, &error))?;
        let bytes = path.state().bytes;
        self.files.push(Listed { path, argument: argument.to_owned(), place, bytes });
        Ok(())
    }
}

/// The last name in a path; empty for `.` and `..`.
pub fn last_name(path: &Path) -> PathBuf {
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
