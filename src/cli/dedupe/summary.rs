//! The results of a run: counts, groups and distances, as text of at most twelve lines. The report has all of
//! it.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

use lookalike_files::Tally;
use lookalike_hash::SignatureShape;

/// The most lines of the text, and the most groups among them.
const LINES: usize = 12;
const GROUPS: usize = 5;
/// The most groups in the report.
pub(super) const LISTED: usize = 100;
/// The first of each class of distances in bits.
const BITS: [u32; 6] = [0, 1, 4, 8, 16, 32];

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
    /// Other counts of documents, such as kept ones without features.
    pub(super) also: BTreeMap<&'static str, u64>,
    /// The number of dropped documents at each distance.
    pub(super) distances: Vec<u64>,
    /// The number of documents that each kept one replaces, if there are any.
    pub(super) groups: HashMap<u32, u64, RandomState>,
    /// Why records are not read.
    pub(super) unread: Tally,
    /// Whether groups are connected components.
    pub(super) is_linked: bool,
    /// The shape of signatures; `None` if distances are numbers of bits.
    pub(super) shape: Option<SignatureShape>,
    /// A line about the weights of features.
    pub(super) weights: Option<String>,
    /// A line about passages that stood twice.
    pub(super) spans: Option<String>,
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
        vec![
            ("read", self.read),
            ("kept", self.kept),
            ("dropped, equal text", self.exact),
            ("dropped, near", self.near),
            ("invalid", self.invalid),
        ]
    }

    /// The text, with what was not read, and the names of the kept documents of the largest groups.
    pub(super) fn text(&self, notes: &[String], groups: &[(String, u64)]) -> String {
        let mut lines: Vec<String> =
            self.rows().into_iter().map(|(name, count)| format!("{count:>12}  {name}")).collect();
        lines.extend(self.also());
        lines.extend(self.similarity());
        lines.extend(self.weights.iter().chain(&self.spans).cloned());
        lines.extend(self.unread.sentences());
        lines.extend(notes.iter().cloned());
        let shown = (LINES - lines.len().min(LINES)).saturating_sub(1).min(GROUPS).min(groups.len());
        if shown > 0 {
            lines.push("largest groups, by the documents that one replaces".to_owned());
            lines.extend(groups[..shown].iter().map(|(name, count)| format!("{count:>12}  {name}")));
        }
        lines.join("\n") + "\n"
    }

    /// A line of the other counts, if there are any.
    pub(super) fn also(&self) -> Option<String> {
        let counts: Vec<String> = self.also.iter().map(|(what, count)| format!("{count} {what}")).collect();
        (!counts.is_empty()).then(|| format!("of these: {}", counts.join(", ")))
    }

    /// A line of how near the dropped documents are, if there are any.
    pub(super) fn similarity(&self) -> Option<String> {
        let mut classes: BTreeMap<u32, u64> = BTreeMap::new();
        for (distance, count) in (0..).zip(&self.distances) {
            let near = if distance == 0 { count - self.exact } else { *count };
            *classes.entry(self.class(distance)).or_default() += near;
        }
        let mut parts = vec![format!("{} with equal text", self.exact)];
        let found = classes.iter().filter(|(_, count)| **count > 0);
        parts.extend(found.map(|(class, count)| format!("{count} at {}", self.label(*class))));
        let what = if self.shape.is_some() { "similarity" } else { "distance" };
        (self.exact + self.near > 0).then(|| format!("{what} of the dropped: {}", parts.join(", ")))
    }

    /// The name of a class of distances.
    pub(super) fn label(&self, class: u32) -> String {
        let class = class as usize;
        match (self.shape, BITS.get(class + 1)) {
            (Some(_), _) if class == 0 => ".9 to 1".to_owned(),
            (Some(_), _) => format!(".{} to .{}", 9 - class, 10 - class),
            (None, Some(next)) if next - BITS[class] == 1 => format!("{} bits", BITS[class]),
            (None, Some(next)) => format!("{} to {} bits", BITS[class], next - 1),
            (None, None) => format!("{} bits or more", BITS[class]),
        }
    }

    /// The class of a distance, the nearest one first: tenths of similarity, or some numbers of bits.
    pub(super) fn class(&self, distance: u32) -> u32 {
        match self.shape {
            Some(shape) => 9 - ((shape.similarity(distance) * 10.0) as u32).min(9),
            None => BITS.iter().filter(|first| **first <= distance).count() as u32 - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_at_most_twelve_lines_with_the_counts_first() {
        let mut summary = Summary { read: 40, kept: 3, ..Summary::default() };
        (0..30).for_each(|number| summary.dropped(number % 7, number % 9, number == 0));
        (0..7).for_each(|number| summary.dropped(number, 40 + number, false));
        summary.also.insert("kept without features", 2);
        let names: Vec<(String, u64)> = (0..50).map(|number| (format!("n{number}"), number)).collect();
        let notes = ["not read: 3 not pages".to_owned(), "passed over: 1".to_owned()];
        let text = summary.text(&notes, &names);
        assert_eq!(text.lines().count(), 12, "{text}");
        assert!(
            text.starts_with("          40  read\n           3  kept\n           1  dropped, equal"),
            "{text}"
        );
        assert!(text.contains("of these: 2 kept without features\n"), "{text}");
        let distances = "distance of the dropped: 1 with equal text, 3 at 0 bits, 11 at 1 to 3 bits, \
                         12 at 4 to 7 bits, 3 at 8 to 15 bits, 7 at 32 bits or more\n";
        assert!(text.contains(distances), "{text}");
        let text = Summary { also: BTreeMap::new(), ..summary }.text(&[], &names);
        assert_eq!(text.lines().count(), 12, "{text}");
        assert!(text.ends_with("           4  n4\n"), "{text}");
    }

    #[test]
    fn similarity_is_told_in_tenths() {
        let shape = lookalike_text::fingerprint::Profile::named("minhash-copies")
            .and_then(lookalike_text::fingerprint::Profile::signatures);
        let mut summary = Summary { shape, ..Summary::default() };
        assert_eq!(summary.similarity(), None);
        let shape = shape.unwrap();
        let at =
            |least: f64| (0..u32::from(shape.cells)).rev().find(|d| shape.similarity(*d) >= least).unwrap();
        summary.dropped(1, 0, true);
        summary.dropped(1, 0, false);
        summary.dropped(1, at(0.9), false);
        summary.dropped(1, at(0.81), false);
        summary.dropped(1, at(0.5), false);
        assert_eq!(
            summary.similarity().unwrap(),
            "similarity of the dropped: 1 with equal text, 2 at .9 to 1, 1 at .8 to .9, 1 at .5 to .6"
        );
    }
}
