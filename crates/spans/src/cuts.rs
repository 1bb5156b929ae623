//! What becomes of the hits of a document: ranges of its text that are cut out or masked.

use std::ops::Range;

use lookalike_text::{Located, located};

use super::Hit;

/// What stands in place of a passage that is masked.
pub const MASK: &str = "[...]";

/// Tokens that are cut, one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Their numbers.
    pub tokens: Range<usize>,
    /// The document where the first window of them stands first.
    pub first: u32,
}

/// A change of a text: what stands in place of a range of its bytes.
pub type Edit = (Range<usize>, &'static str);

/// The tokens in hits of windows of `length` tokens, which are in the order of their places.
pub fn cuts(hits: &[Hit], length: usize) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    for hit in hits {
        let tokens = hit.at as usize..hit.at as usize + length;
        match cuts.last_mut().filter(|last| tokens.start <= last.tokens.end) {
            Some(last) => last.tokens.end = tokens.end,
            None => cuts.push(Cut { tokens, first: hit.first }),
        }
    }
    cuts
}

/// The number of tokens that stay.
pub fn left(tokens: &[Located], cuts: &[Cut]) -> usize {
    tokens.len() - cuts.iter().map(|cut| cut.tokens.len()).sum::<usize>()
}

/// The changes that mask the cuts: from the first byte of a passage to its last one.
pub fn masks(tokens: &[Located], cuts: &[Cut]) -> Vec<Edit> {
    let of = |cut: &Cut| {
        let (first, last) = (&tokens[cut.tokens.start], &tokens[cut.tokens.end - 1]);
        (first.from as usize..last.to as usize, MASK)
    };
    cuts.iter().map(of).collect()
}

/// The changes that remove the cuts: each from the first byte of a passage to the next token, or to the end
/// of the text. Of a text without another token nothing is left. Two words that would become one get a space.
pub fn removals(text: &str, tokens: &[Located], cuts: &[Cut]) -> Vec<Edit> {
    if !cuts.is_empty() && left(tokens, cuts) == 0 {
        return vec![(0..text.len(), "")];
    }
    let of = |cut: &Cut| {
        let (first, next) = (&tokens[cut.tokens.start], tokens.get(cut.tokens.end));
        let to = next.map_or(text.len(), |next| next.from as usize);
        let before = cut.tokens.start.checked_sub(1).map(|before| &tokens[before]);
        // With what is between them: an invisible character ends no word.
        let is_joined = before.zip(next).is_some_and(|(before, next)| {
            let of_before = &text[before.from as usize..first.from as usize];
            located(&[of_before, &text[to..next.to as usize]].concat()).len() == 1
        });
        (first.from as usize..to, if is_joined { " " } else { "" })
    };
    cuts.iter().map(of).collect()
}

/// The text with these changes.
pub fn edited(text: &str, edits: &[Edit]) -> String {
    let (mut made, mut at) = (String::with_capacity(text.len()), 0);
    for (range, by) in edits {
        made.push_str(&text[at..range.start]);
        made.push_str(by);
        at = range.end;
    }
    made + &text[at..]
}
