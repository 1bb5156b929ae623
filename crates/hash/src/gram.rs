//! Letter grams, by which a text is found inside another one, and which of them a collection keeps.

use std::fmt;

/// A letter gram of a text, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gram {
    /// The hash of its letters.
    pub hash: u64,
    /// The number of its first character in the text.
    pub from: u32,
    /// The number of the character after its last one.
    pub to: u32,
}

/// Which letter grams of their texts documents keep, by which passages are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Passages {
    /// None.
    No,
    /// A sample, by which articles are found in pages.
    Sampled,
    /// At least one of every run of so many letters that a quotation has.
    Exact,
}

impl Passages {
    /// Those of a collection with this rule, or without one.
    pub fn of(rule: Option<GramRule>) -> Passages {
        match rule {
            None => Passages::No,
            Some(GramRule { is_exact: false, .. }) => Passages::Sampled,
            Some(GramRule { is_exact: true, .. }) => Passages::Exact,
        }
    }
}

impl fmt::Display for Passages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Passages::No => "false",
            Passages::Sampled => "true",
            Passages::Exact => "\"exact\"",
        })
    }
}

/// How the documents of a collection keep letter grams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct GramRule {
    /// Whether every run of letters has one, and not only a sample of them.
    pub is_exact: bool,
    /// The number of documents, unlike each other, that make what they share boilerplate.
    pub boilerplate: u32,
}
