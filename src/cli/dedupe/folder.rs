//! The folder of a run, `NAME.partial`, in which everything is until the output is complete.
//!
//! It guarantees that nothing appears under its final name before all of it is complete and on the disk, and
//! that only what this command wrote is ever removed or replaced: no file of the user, and nothing behind a
//! symbolic link. The lock file says that the folder was made by this command, and for which other files.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, OFlags, access};

use super::super::{Failure, tell};
use super::inputs::Input;
use crate::cli::at;
use lookalike_files::shown;

/// The first line of the lock file.
const MARK: &str = "lookalike dedupe";
/// The lock file.
const LOCK: &str = "lock";
/// The output of this run, and that of an earlier one which it replaces.
const FOLDERS: [&str; 2] = ["output", "replaced"];
/// The working files, besides those of `--against` and of pipes.
const FILES: [&str; 15] = [
    LOCK,
    "manifest.json",
    "prints",
    "against-prints",
    "against.idf",
    "names",
    "names-ends",
    "names-digests",
    "member",
    "sources",
    "pairs",
    "texts",
    "texts-blocks",
    "records",
    "notes",
];

/// The folder of a run.
pub(super) struct Folder {
    /// The final name.
    to: PathBuf,
    /// The folder with everything until the run is complete.
    partial: PathBuf,
    /// Keeps a second run away.
    _lock: File,
}

/// The name of the folder of a run, beside that of its output.
pub(super) fn partial_of(to: &Path) -> PathBuf {
    // Without a slash at the end, which would follow a symbolic link.
    to.components().as_path().with_added_extension("partial")
}

/// A path without symbolic links above its last name, whether there is something or not.
///
/// # Errors
/// If there is no folder to write to.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let name = path
        .file_name()
        .ok_or_else(|| Failure::new(format!("{} is no name of a file or folder to write", shown(path))))?;
    let above = parent(path);
    let own = fs::canonicalize(above).map_err(|error| at(above, &error))?;
    if !own.is_dir() {
        return Err(Failure::new(format!("{} is no folder", shown(above))));
    }
    access(&own, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        Failure::new(format!("{}: nothing can be written to this folder: {error}", shown(above)))
    })?;
    Ok(own.join(name))
}

/// The folder around a path.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The files other than the output that an unfinished run writes, by its lock file; `None` if the folder is
/// none of this command.
pub(super) fn targets_of(to: &Path) -> Option<Vec<String>> {
    let path = partial_of(to).join(LOCK);
    let mut text = String::new();
    let file = File::options().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path);
    file.ok()?.take(1 << 20).read_to_string(&mut text).ok()?;
    let mut lines = text.lines().map(str::to_owned);
    (lines.next()? == MARK).then(|| lines.collect())
}

/// Why the output cannot be written: what is there is not replaced, or the place is inside an input or around
/// one.
pub(super) fn problems(to: &Path, inputs: &[Input], is_forced: bool) -> Vec<String> {
    let own = match absolute(to) {
        Ok(own) => own,
        Err(error) => return vec![error.message],
    };
    let mut problems = Vec::new();
    let mut arguments: Vec<&Path> = inputs.iter().map(|input| &*input.argument).collect();
    arguments.dedup();
    for argument in arguments {
        let Ok(folder) = fs::canonicalize(argument) else { continue };
        if folder.starts_with(&own) || own.starts_with(&folder) || folder.starts_with(partial_of(&own)) {
            let (to, folder) = (shown(to), shown(&folder));
            problems.push(format!("the output {to} and the input {folder} contain each other"));
        }
    }
    problems.extend(kept_by_the_user(to, inputs, is_forced));
    problems.extend(not_made_here(to).err());
    problems
}

/// Why a folder that exists is not replaced.
fn kept_by_the_user(to: &Path, inputs: &[Input], is_forced: bool) -> Option<String> {
    let name = shown(to);
    let about = fs::symlink_metadata(to.components().as_path()).ok()?;
    if about.is_symlink() {
        return Some(format!("{name} is a symbolic link: name the folder itself"));
    }
    if !about.is_dir() {
        return Some(format!("{name} exists and is no folder"));
    }
    let mut files = Vec::new();
    if let Err(error) = each_file(to, &mut |file| files.push(file.to_owned())) {
        return Some(at(to, &error).message);
    }
    if !is_forced {
        return (!files.is_empty()).then(|| format!("{name} exists; --force replaces it"));
    }
    let places: HashSet<&Path> = inputs.iter().map(|input| &*input.to).collect();
    let other = files.iter().find(|file| !places.contains(file.strip_prefix(to).unwrap_or(file)))?;
    Some(format!(
        "{name} has a file that this command does not write, {}: --force does not remove it",
        shown(other)
    ))
}

/// Refuses a working folder that was not made by this command, or has other files.
fn not_made_here(to: &Path) -> Result<(), String> {
    let partial = partial_of(to);
    let Ok(about) = fs::symlink_metadata(&partial) else { return Ok(()) };
    let refused = |why: &str| {
        let partial = shown(&partial);
        Err(format!("{partial} {why}; the run would work in it: move it away, or name another output"))
    };
    if !about.is_dir() {
        return refused(if about.is_symlink() { "is a symbolic link" } else { "is no folder" });
    }
    let entries = fs::read_dir(&partial).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| at(&partial, &error).message)?;
    let is_marked = targets_of(to).is_some();
    for entry in &entries {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type().map_err(|error| at(&partial, &error).message)?;
        let is_own = (is_work(&name) && kind.is_file()) || (FOLDERS.contains(&&*name) && kind.is_dir());
        // A run that was killed at its first step leaves an empty lock file.
        let is_empty_lock =
            entries.len() == 1 && *name == *LOCK && entry.metadata().is_ok_and(|a| a.len() == 0);
        if !is_own || !(is_marked || is_empty_lock) {
            let name = shown(Path::new(&entry.file_name()));
            return refused(&format!("has something that this command did not write, {name}"));
        }
    }
    Ok(())
}

/// Whether a name is that of a working file.
fn is_work(name: &str) -> bool {
    let of_against = name.strip_prefix("against-").and_then(|rest| rest.strip_suffix(".jsonl"));
    let number = of_against.or_else(|| name.strip_prefix("piped-"));
    FILES.contains(&name) || number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn each_file(folder: &Path, each: &mut dyn FnMut(&Path)) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            each_file(&entry.path(), each)?;
        } else {
            each(&entry.path());
        }
    }
    Ok(())
}

/// Removes the files of an output, and the folders that are empty then.
fn remove_output(folder: &Path, inputs: &[Input]) -> io::Result<()> {
    let places: HashSet<&Path> = inputs.iter().map(|input| &*input.to).collect();
    remove_below(folder, folder, &places)
}

fn remove_below(root: &Path, folder: &Path, places: &HashSet<&Path>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_below(root, &path, places)?;
        } else if places.contains(path.strip_prefix(root).unwrap_or(&path)) {
            fs::remove_file(&path)?;
        }
    }
    // A folder that still has something stays.
    let _ = fs::remove_dir(folder);
    Ok(())
}

impl Folder {
    /// Creates the working folder, or opens that of an earlier run. `targets` are the other files that the
    /// run writes.
    ///
    /// # Errors
    /// If another run is at work.
    pub(super) fn open(to: &Path, targets: &[String]) -> Result<Folder, Failure> {
        let partial = partial_of(to);
        match fs::create_dir(&partial) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(at(&partial, &error)),
            _ => {}
        }
        not_made_here(to).map_err(Failure::new)?;
        let path = partial.join(LOCK);
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let lock = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&path);
        let mut lock = lock.map_err(|error| at(&path, &error))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::new(format!("another run writes to {}", shown(to))),
            // Such as that of a shared file system without locks.
            TryLockError::Error(error) => at(&path, &error),
        })?;
        let text = [&[MARK.to_owned()], targets].concat().join("\n") + "\n";
        let written = lock.rewind().and_then(|()| lock.write_all(text.as_bytes()));
        let written = written.and_then(|()| lock.set_len(text.len() as u64));
        written.map_err(|error| at(&path, &error))?;
        Ok(Folder { to: to.components().as_path().to_owned(), partial, _lock: lock })
    }

    /// A working file.
    pub(super) fn work(&self, name: &str) -> PathBuf {
        self.partial.join(name)
    }

    /// The folder of the output while it is incomplete, empty at the beginning.
    pub(super) fn fresh_output(&self) -> Result<PathBuf, Failure> {
        let output = self.partial.join("output");
        if output.exists() {
            fs::remove_dir_all(&output).map_err(|error| at(&output, &error))?;
        }
        fs::create_dir_all(&output).map_err(|error| at(&output, &error))?;
        Ok(output)
    }

    /// Gives the output its final name, and removes the working files.
    pub(super) fn finish(self, inputs: &[Input]) -> Result<(), Failure> {
        let (output, old) = (self.partial.join("output"), self.partial.join("replaced"));
        let all = File::open(&output).map_err(|error| at(&output, &error))?;
        // One call for the whole file system, instead of one for each file.
        rustix::fs::syncfs(&all).map_err(|error| at(&output, &error.into()))?;
        if fs::symlink_metadata(&self.to).is_ok() {
            // Left by a run that was killed here.
            if old.exists() {
                remove_output(&old, inputs).map_err(|error| at(&old, &error))?;
            }
            fs::rename(&self.to, &old).map_err(|error| at(&self.to, &error))?;
        }
        fs::rename(&output, &self.to).map_err(|error| at(&self.to, &error))?;
        sync_folder_of(&self.to)?;
        if old.exists() {
            remove_output(&old, inputs).map_err(|error| at(&old, &error))?;
        }
        self.remove_partial()
    }

    /// Removes everything, after the output is somewhere else.
    pub(super) fn remove(self) -> Result<(), Failure> {
        let output = self.partial.join("output");
        fs::remove_dir_all(&output).map_err(|error| at(&output, &error))?;
        self.remove_partial()
    }

    fn remove_partial(self) -> Result<(), Failure> {
        self.remove_work().map_err(|error| at(&self.partial, &error))?;
        if fs::remove_dir(&self.partial).is_err() {
            let partial = shown(&self.partial);
            tell(&format!("{partial} stays, because it has something that this command did not write"));
        }
        Ok(())
    }

    /// Removes the working files, the lock last.
    fn remove_work(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.partial)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| is_work(name) && name != LOCK) {
                fs::remove_file(entry.path())?;
            }
        }
        fs::remove_file(self.partial.join(LOCK))
    }
}

/// Makes the name of a file durable.
pub(super) fn sync_folder_of(path: &Path) -> Result<(), Failure> {
    let folder = parent(path);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| at(folder, &error))
}
