//! The keep rules of a corpus: those of [`KeepRule`], and those that depend on the whole input.

use std::str::FromStr;

use lookalike_hash::KeepRule;

/// A keep rule: which of near documents is kept.
///
/// ```
/// use lookalike_dedupe::Keep;
///
/// let keep: Keep = "max:votes".parse()?;
/// assert_eq!(keep.field(), Some("votes"));
/// assert!(keep.key(Some("12"), "")? < keep.key(Some("9"), "")?);
/// assert!("best".parse::<Keep>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// By a property of each document. [`KeepRule::First`] is the order of the input, in one pass.
    By(KeepRule),
    /// The sources in this order, and then all others.
    Source(Vec<String>),
    /// The document with the most neighbours first.
    Central,
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Keep, String> {
        match text.split_once(':').unwrap_or((text, "")) {
            ("central", "") => Ok(Keep::Central),
            ("source", "") => Err("source needs names: source:a,b,c".to_owned()),
            ("source", names) => Ok(Keep::Source(names.split(',').map(str::to_owned).collect())),
            (rule, _) => text.parse().map(Keep::By).map_err(|why: String| match rule {
                "newest" | "oldest" | "max" | "min" => why,
                _ => format!("{why}; also source:a,b,c and central"),
            }),
        }
    }
}

impl Keep {
    /// The order of the input.
    pub const FIRST: Keep = Keep::By(KeepRule::First);

    /// The field that the rule reads.
    pub fn field(&self) -> Option<&str> {
        match self {
            Keep::By(rule) => rule.field(),
            Keep::Source(_) | Keep::Central => None,
        }
    }

    /// The key of a document by the value of the field, or by its text. Smaller keys come first.
    ///
    /// # Errors
    /// If the value is not of the kind that the rule compares.
    pub fn key(&self, value: Option<&str>, text: &str) -> Result<u64, String> {
        match self {
            Keep::By(rule) => {
                let characters = if *rule == KeepRule::Longest { text.chars().count() as u64 } else { 0 };
                rule.key(value, characters)
            }
            Keep::Source(_) | Keep::Central => Ok(0),
        }
    }
}
