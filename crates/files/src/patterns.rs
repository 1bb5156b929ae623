//! The paths that a pattern such as `crawl/**/*.jsonl` matches.
//!
//! A name that is not UTF-8 is matched with U+FFFD in place of what is invalid, so that `*` and `?` find it:
//! the library for patterns matches single names here, because it passes over others in folders.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use glob::Pattern;

use super::Failure;
use super::at;

/// What a part of a pattern between two separators means.
pub(super) enum Part<'p> {
    Name(&'p str),
    Names(Pattern),
    /// Any number of folders.
    Folders,
}

/// Whether a path is a pattern.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The paths, in the order of names.
///
/// # Errors
/// For a wrong pattern, one without a match, and a folder that cannot be read.
pub(super) fn matching(pattern: &str) -> Result<Vec<PathBuf>, Failure> {
    let parts = parts(pattern)?;
    let mut found = Vec::new();
    expand(if pattern.starts_with('/') { "/" } else { "" }.as_ref(), &parts, &mut found)?;
    if found.is_empty() { Err(Failure::new(format!("{pattern} matches no file"))) } else { Ok(found) }
}

/// How many names of a path a pattern takes, which then matches the folder of that many names, or the whole
/// path; `None` if it does not match.
pub(super) fn taken(parts: &[Part<'_>], names: &[&str]) -> Option<usize> {
    let Some((first, rest)) = parts.split_first() else { return Some(0) };
    let one = |is: bool| taken(rest, names.get(1..)?).filter(|_| is).map(|taken| taken + 1);
    match first {
        Part::Name(name) => one(names.first() == Some(name)),
        Part::Names(pattern) => one(pattern.matches(names.first()?)),
        Part::Folders => taken(rest, names).or_else(|| {
            let below = names.get(1..).filter(|below| !below.is_empty())?;
            taken(parts, below).map(|taken| taken + 1)
        }),
    }
}

/// The parts of a pattern between separators.
pub(super) fn parts(pattern: &str) -> Result<Vec<Part<'_>>, Failure> {
    let part = |part| match part {
        "**" => Ok(Part::Folders),
        part if is_pattern(part) => Pattern::new(part).map(Part::Names),
        part => Ok(Part::Name(part)),
    };
    let wrong = |error| Failure::new(format!("{pattern}: {error}"));
    pattern.split('/').filter(|part| !part.is_empty()).map(part).collect::<Result<_, _>>().map_err(wrong)
}

/// Adds what the parts match in a folder.
fn expand(folder: &Path, parts: &[Part<'_>], found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let Some((first, rest)) = parts.split_first() else {
        found.extend(fs::symlink_metadata(folder).is_ok().then(|| folder.to_owned()));
        return Ok(());
    };
    let names = match first {
        Part::Name(name) => return expand(&folder.join(name), rest, found),
        Part::Names(names) => Some(names),
        Part::Folders => {
            expand(folder, rest, found)?;
            None
        }
    };
    // A folder means what is in it and below it already.
    if rest.is_empty() && names.is_none() {
        return Ok(());
    }
    for path in entries(folder).map_err(|error| at(folder, &error))? {
        match names {
            None if path.is_dir() && !path.is_symlink() => expand(&path, parts, found)?,
            Some(names) if names.matches(&path.file_name().unwrap_or_default().to_string_lossy()) => {
                expand(&path, rest, found)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// What is in a folder, in the order of names; nothing if it is none.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let own = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if !own.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(own)?.map(|entry| entry.map(|entry| folder.join(entry.file_name())));
    let mut entries: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    entries.sort_unstable();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn patterns_match_names_of_any_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let own = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
        fs::create_dir_all(own(b"a/b/c")).unwrap();
        for name in [&b"a/x.txt"[..], b"a/caf\xe9.txt", b"a/b/y.txt", b"a/b/c/z.jsonl", b"top.txt"] {
            fs::write(own(name), "").unwrap();
        }
        let root = folder.path().to_str().unwrap();
        let found = |pattern: &str| -> Vec<PathBuf> {
            matching(&format!("{root}/{pattern}")).map_or(Vec::new(), |found| found)
        };
        let all = |names: &[&[u8]]| -> Vec<PathBuf> { names.iter().map(|name| own(name)).collect() };
        for (pattern, names) in [
            ("a/*.txt", &[&b"a/caf\xe9.txt"[..], b"a/x.txt"][..]),
            ("a/caf?.txt", &[b"a/caf\xe9.txt"]),
            ("**/*.txt", &[b"top.txt", b"a/caf\xe9.txt", b"a/x.txt", b"a/b/y.txt"]),
            ("*/b/[xyz].txt", &[b"a/b/y.txt"]),
            ("a/**/z.*", &[b"a/b/c/z.jsonl"]),
            ("a/b/**", &[b"a/b"]),
            ("a/*/c", &[b"a/b/c"]),
            ("nothing/*.txt", &[]),
        ] {
            assert_eq!(found(pattern), all(names), "{pattern}");
        }
        assert!(matching("[").unwrap_err().to_string().contains('['));
    }
}
