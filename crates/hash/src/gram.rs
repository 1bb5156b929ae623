//! Letter grams, by which a text is found inside another one.

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
