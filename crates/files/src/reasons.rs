//! Why records are not read: one list for all commands, so that each counts and names the same ones.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Skipped;
use lookalike_wording::counted;

/// Why a record is not read. [`Reason::Skipped`] ones could have become documents and are passed over; all
/// others should have become documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reason {
    /// It could have become a document, and is passed over.
    Skipped(Skipped),
    /// It has bytes that are invalid in its charset.
    Bytes,
    /// It is not JSON.
    Json,
    /// It is JSON, but no object.
    Object,
    /// A name stands in it twice.
    Repeated,
    /// Its cells do not fit the columns.
    Row,
    /// It lacks a field.
    Field,
    /// A field has a value of another kind.
    Value,
    /// Its id cannot be used.
    Id,
    /// Its hash cannot be used.
    Hash,
    /// Its image cannot be read.
    Image,
    /// Its end is missing.
    Cut,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Skipped(skipped) => return skipped.fmt(f),
            Reason::Bytes => "with invalid bytes",
            Reason::Json => "not JSON",
            Reason::Object => "not an object",
            Reason::Repeated => "with a name twice",
            Reason::Row => "not a row of the table",
            Reason::Field => "without a field",
            Reason::Value => "with a value of another kind",
            Reason::Id => "with an id that cannot be used",
            Reason::Hash => "with a hash that cannot be used",
            Reason::Image => "with an image that cannot be read",
            Reason::Cut => "not read to the end",
        })
    }
}

impl Reason {
    /// Whether such a record is no error.
    pub fn is_passed_over(self) -> bool {
        matches!(self, Reason::Skipped(_))
    }

    /// The record that is not read for this reason.
    pub fn because(self, detail: impl Into<String>) -> Unread {
        Unread { reason: self, detail: detail.into() }
    }
}

/// A record that is not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// Why.
    pub reason: Reason,
    /// What is wrong with it, and what helps.
    pub detail: String,
}

impl From<Skipped> for Unread {
    fn from(skipped: Skipped) -> Unread {
        Reason::Skipped(skipped).because(skipped.to_string())
    }
}

/// The number of records that are not read, by reason.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<Reason, u64>);

impl Tally {
    /// Counts a record.
    pub fn add(&mut self, reason: Reason) {
        *self.0.entry(reason).or_default() += 1;
    }

    /// The sentences of a summary: what was not read, and what was passed over; none if it is nothing.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        let kind = |reason: Reason| match reason {
            Reason::Cut => 2,
            reason => usize::from(reason.is_passed_over()),
        };
        ["not read", "passed over", "not read to the end"].into_iter().enumerate().filter_map(
            move |(of, how)| {
                let such: Vec<_> = self.0.iter().filter(|(reason, _)| kind(**reason) == of).collect();
                let all: u64 = such.iter().map(|(_, count)| *count).sum();
                let reasons: Vec<String> =
                    such.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
                match of {
                    _ if all == 0 => None,
                    2 => Some(format!("{} {how}", counted(all, "file"))),
                    _ => Some(format!("{} {how}: {}", counted(all, "record"), reasons.join(", "))),
                }
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_has_a_sentence_for_each_kind() {
        let mut tally = Tally::default();
        assert_eq!(tally.sentences().count(), 0);
        let reasons =
            [Reason::Json, Reason::Repeated, Reason::Json, Reason::Skipped(Skipped::Type), Reason::Cut];
        reasons.into_iter().for_each(|reason| tally.add(reason));
        let expected = [
            "3 records not read: 2 not JSON, 1 with a name twice",
            "1 record passed over: 1 not pages",
            "1 file not read to the end",
        ];
        assert_eq!(tally.sentences().collect::<Vec<_>>(), expected);
    }
}
