//! What a run found: counts, groups and distances, as text.

use std::collections::HashMap;
use std::fmt;

use foldhash::fast::RandomState;

use super::super::files::Tally;

/// The groups that are listed.
const LISTED: usize = 10;

/// The counts of a run.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) read: u64,
    pub(super) kept: u64,
    /// Dropped documents whose text is that of the document that replaces them.
    pub(super) exact: u64,
    /// Other dropped documents.
    pub(super) near: u64,
    pub(super) invalid: u64,
    /// Kept documents without features.
    pub(super) empty: u64,
    /// Records that are no documents, and are copied.
    pub(super) other: u64,
    /// The number of dropped documents at each distance.
    pub(super) distances: Vec<u64>,
    /// The number of documents that each kept one replaces, if there are any.
    pub(super) groups: HashMap<u32, u64, RandomState>,
    /// Why records are not read.
    pub(super) unread: Tally,
    /// Whether groups are connected components.
    pub(super) is_linked: bool,
}

impl Summary {
    pub(super) fn dropped(&mut self, by: u32, distance: u32, is_exact: bool) {
        if is_exact {
            self.exact += 1;
        } else {
            self.near += 1;
        }
        *self.groups.entry(by).or_default() += 1;
        let at = distance as usize;
        self.distances.resize(self.distances.len().max(at + 1), 0);
        self.distances[at] += 1;
    }

    /// The largest groups: the number of the kept document, and of the documents that it replaces.
    pub(super) fn largest(&self) -> Vec<(u32, u64)> {
        let mut groups: Vec<(u32, u64)> = self.groups.iter().map(|(by, count)| (*by, *count)).collect();
        groups.sort_unstable_by_key(|(by, count)| (!count, *by));
        groups.truncate(LISTED);
        groups
    }

    /// The counts, with their names.
    pub(super) fn rows(&self) -> Vec<(&'static str, u64)> {
        let mut rows = vec![
            ("read", self.read),
            ("kept", self.kept),
            ("dropped, equal text", self.exact),
            ("dropped, near", self.near),
            ("invalid", self.invalid),
        ];
        if self.empty > 0 {
            rows.push(("kept without features", self.empty));
        }
        if self.other > 0 {
            rows.push(("other records, copied", self.other));
        }
        rows
    }
}

/// The summary, with the names of the kept documents of the largest groups.
pub(super) struct WithGroups<'a>(pub(super) &'a Summary, pub(super) &'a [(String, u64)]);

impl fmt::Display for WithGroups<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WithGroups(summary, groups) = self;
        for (name, count) in summary.rows() {
            writeln!(f, "{count:>12}  {name}")?;
        }
        summary.unread.sentences().try_for_each(|sentence| writeln!(f, "{sentence}"))?;
        if !groups.is_empty() {
            writeln!(f, "largest groups, by the documents that one replaces")?;
            groups.iter().try_for_each(|(name, count)| writeln!(f, "{count:>12}  {name}"))?;
            writeln!(f, "dropped documents by distance")?;
            let most = summary.distances.iter().max().copied().unwrap_or(1).max(1);
            for (distance, count) in summary.distances.iter().enumerate().filter(|(_, count)| **count > 0) {
                let bar = "#".repeat((count * 40).div_ceil(most) as usize);
                writeln!(f, "{distance:>12}  {bar} {count}")?;
            }
        }
        Ok(())
    }
}
