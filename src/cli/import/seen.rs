//! The fields of `--metadata` that no line of a run had: a misspelt name would otherwise store documents
//! without the field, and no one would notice.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of fields of lines that a message lists.
const LISTED: usize = 20;

/// The names of fields that the lines of a run had. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Arc<Mutex<Names>>);

#[derive(Debug, Default)]
struct Names {
    /// Listed fields that a line had.
    listed: BTreeSet<String>,
    /// The first [`LISTED`] names of all.
    some: BTreeSet<String>,
}

impl Seen {
    /// Records a line: which of the listed fields it had, and the names of all its fields.
    pub(super) fn note<'a>(
        &self,
        listed: &[String],
        found: impl Iterator<Item = &'a str>,
        all: impl Iterator<Item = &'a str>,
    ) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.listed.len() == listed.len() {
            return;
        }
        seen.listed.extend(found.map(str::to_owned));
        for name in all {
            if seen.some.len() < LISTED {
                seen.some.insert(name.to_owned());
            }
        }
    }

    /// The warning about listed fields that no line had; `None` without lines.
    pub(super) fn missing(&self, listed: &[String]) -> Option<String> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<&str> =
            listed.iter().map(String::as_str).filter(|name| !seen.listed.contains(*name)).collect();
        if missing.is_empty() || seen.some.is_empty() {
            return None;
        }
        let some: Vec<&str> = seen.some.iter().map(String::as_str).collect();
        let field = if missing.len() == 1 { "field" } else { "fields" };
        Some(format!(
            "no line has the {field} {}, which --metadata names; there are {}",
            missing.join(", "),
            some.join(", ")
        ))
    }
}
