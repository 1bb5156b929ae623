//! The objects that an argument such as `s3://bucket/crawl/` means: as for paths, a folder means what is
//! below it and has a known ending, and a pattern means what it matches.

use std::path::{Path, PathBuf};

use super::inputs::{Listed, last_name};
use super::original::Original;
use super::patterns::{is_pattern, parts, taken};
use super::{Failure, Listing};
use lookalike_remote::{Cloud, Object};

/// An argument that is a pattern: the folder in which it begins, and the rest.
fn pattern(url: &str) -> Option<(&str, &str)> {
    let is_listed = !url.starts_with("http");
    let at = url.find(['*', '?', '[']).filter(|_| is_listed && is_pattern(url))?;
    let slash = url[..at].rfind('/')?;
    Some(url.split_at(slash + 1))
}

/// The name of a file beside the user for an address: of the progress of an import, or of a working folder.
pub fn local_name(url: &str) -> PathBuf {
    let names = url.split(['/', ':']).filter(|name| !name.is_empty() && !name.starts_with('.'));
    names.collect::<Vec<_>>().join("-").into()
}

impl Listing {
    /// Adds what an address means.
    ///
    /// # Errors
    /// If there is nothing, or the store does not answer.
    pub(super) fn add_objects(
        &mut self,
        cloud: &Cloud,
        url: &str,
        takes: &dyn Fn(&Path) -> bool,
    ) -> Result<(), Failure> {
        let failed = |error: lookalike_remote::Error| Failure::new(error.to_string());
        let Some((folder, rest)) = pattern(url) else {
            let found = cloud.find(url).map_err(failed)?;
            let argument = url.trim_end_matches('/');
            found.objects.into_iter().for_each(|object| self.add_object(object, argument, takes));
            return Ok(());
        };
        let parts = parts(rest)?;
        let mut has_match = false;
        for object in cloud.find(folder).map_err(failed)?.objects {
            let names: Vec<&str> = object.url()[folder.len()..].split('/').collect();
            if let Some(count) = taken(&parts, &names) {
                has_match = true;
                let argument = format!("{folder}{}", names[..count].join("/"));
                self.add_object(object, argument.trim_end_matches('/'), takes);
            }
        }
        if has_match { Ok(()) } else { Err(Failure::new(format!("{url} matches no object"))) }
    }

    /// Adds an object that is an argument, or below it.
    fn add_object(&mut self, object: Object, argument: &str, takes: &dyn Fn(&Path) -> bool) {
        let below = object.url()[argument.len()..].trim_start_matches('/');
        if !below.is_empty() && !takes(Path::new(below)) {
            self.ignored += 1;
            return;
        }
        let mut place = last_name(Path::new(argument));
        if !below.is_empty() {
            place.push(below);
        }
        let bytes = object.bytes();
        self.files.push(Listed { path: Original::object(object), argument: argument.into(), place, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_takes_names_as_in_a_file_system() {
        for (pattern, path, expected) in [
            ("*.jsonl", "a.jsonl", Some(1)),
            ("*.jsonl", "x/a.jsonl", None),
            ("**/*.jsonl", "x/y/a.jsonl", Some(3)),
            ("**/*.jsonl", "a.jsonl", Some(1)),
            ("x*", "x1/y/a.jsonl", Some(1)),
            ("x?/[yz]", "x1/z/a.jsonl", Some(2)),
            ("x", "y", None),
            ("**", "x/a", Some(0)),
        ] {
            let names: Vec<&str> = path.split('/').collect();
            assert_eq!(taken(&parts(pattern).unwrap(), &names), expected, "{pattern} {path}");
        }
        assert_eq!(pattern("s3://b/a/x*/c"), Some(("s3://b/a/", "x*/c")));
        assert_eq!(pattern("https://e.org/a*"), None);
        assert_eq!(local_name("s3://b/a/x.jsonl"), Path::new("s3-b-a-x.jsonl"));
    }
}
