//! Texts and sets for the tests of this module.

use super::{Labels, Set};

/// An invented word of seven letters and a space. Words of other numbers are different.
pub(super) fn word(number: usize) -> String {
    let letter = |at: usize| char::from(b'a' + (number.wrapping_mul(0x9e37_79b9) >> (5 * at)) as u8 % 26);
    (0..7).map(letter).collect::<String>() + " "
}

/// Two copies of one text, a text without features, and another text.
pub(super) fn two_copies() -> Set {
    let text = "A long sentence about harbours, with many words that others do not have. ";
    let texts = vec![text.repeat(2), text.repeat(3), String::new(), "。完全不同的文字".into()];
    let labels = Labels { positive: [(0, 1)].into(), ..Labels::default() };
    Set { name: "own".into(), texts, labels, edits: vec![] }
}
