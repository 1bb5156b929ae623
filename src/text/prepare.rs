//! Preparation of a text before it is cut: this project's normalisation, or that of another program.
//!
//! Not here: conversion of traditional to simplified Chinese, which the segmenter does.

use std::borrow::Cow;

use super::class::Class;
use super::normalise;

/// A way to prepare a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Preparation {
    /// [`normalise()`]: one form for all texts that a reader regards as the same letters.
    #[default]
    Normalise,
    /// Lower case, nothing else.
    LowerCase,
    /// Lower case, and only letters, numbers and `_` are kept, as by `\w` in Python.
    WordCharacters,
    /// The unchanged text.
    Nothing,
}

impl Preparation {
    /// All preparations, with their names in profile definitions.
    pub const NAMES: [(&'static str, Preparation); 4] = [
        ("full", Preparation::Normalise),
        ("lower-case", Preparation::LowerCase),
        ("word-characters", Preparation::WordCharacters),
        ("none", Preparation::Nothing),
    ];

    /// The prepared text.
    pub fn apply(self, text: &str) -> Cow<'_, str> {
        match self {
            Preparation::Normalise => normalise(text).into(),
            Preparation::LowerCase => text.to_lowercase().into(),
            Preparation::WordCharacters => {
                text.to_lowercase().chars().filter(|&c| is_of_word(c)).collect::<String>().into()
            }
            Preparation::Nothing => text.into(),
        }
    }
}

fn is_of_word(c: char) -> bool {
    let class = Class::of(c);
    c == '_' || (class.is_in_word() && class != Class::Mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_preparation_has_its_result() {
        let text = "Ａ_Ünï ½! हिन्दी";
        let cases = [
            (Preparation::Normalise, "a_ünï 1⁄2! हिन्दी"),
            (Preparation::LowerCase, "ａ_ünï ½! हिन्दी"),
            (Preparation::WordCharacters, "ａ_ünï½हनद"),
            (Preparation::Nothing, text),
        ];
        for (preparation, expected) in cases {
            assert_eq!(preparation.apply(text), expected);
        }
    }
}
