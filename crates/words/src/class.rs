//! The class of a character: its writing system, or that it belongs to none.
//!
//! Script and general category come from the pinned Unicode tables of ICU, not from the standard library,
//! whose tables change with the compiler. Not here: runs, which `runs` builds from classes.

use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, Script};

/// The kinds of characters that the segmenters distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A Chinese character, in any language.
    Han,
    /// Hiragana or Katakana, with the prolonged sound mark.
    Kana,
    /// Thai, Lao, Khmer or Burmese.
    SouthEastAsian,
    /// A letter of any other script.
    Letter,
    /// A digit or another number.
    Digit,
    /// A combining mark, which belongs to the character before it.
    Mark,
    /// Punctuation, symbols, spaces, and unassigned characters.
    Other,
}

impl Class {
    /// The class of a character of a normalised text.
    #[inline]
    pub(super) fn of(c: char) -> Class {
        match c {
            '\u{4e00}'..='\u{9fff}' => Class::Han,
            'a'..='z' | 'A'..='Z' | '\u{ac00}'..='\u{d7a3}' => Class::Letter,
            '0'..='9' => Class::Digit,
            '\0'..='\x7f'
            | '\u{3001}'..='\u{3004}'
            | '\u{3008}'..='\u{3020}'
            | '\u{309b}'
            | '\u{309c}'
            | '・'
            | '゠' => Class::Other,
            '\u{3099}' | '\u{309a}' => Class::Mark,
            '\u{3041}'..='\u{30ff}' => Class::Kana,
            _ => Class::looked_up(c),
        }
    }

    fn looked_up(c: char) -> Class {
        use GeneralCategory as Category;
        let category = CodePointMapData::<Category>::new().get(c);
        let script = CodePointMapData::<Script>::new().get(c);
        match category {
            Category::NonspacingMark | Category::SpacingMark | Category::EnclosingMark => Class::Mark,
            Category::UppercaseLetter
            | Category::LowercaseLetter
            | Category::TitlecaseLetter
            | Category::ModifierLetter
            | Category::OtherLetter
            | Category::LetterNumber => Class::of_letter(script),
            Category::DecimalNumber | Category::OtherNumber => Class::Digit,
            _ => Class::Other,
        }
    }

    fn of_letter(script: Script) -> Class {
        match script {
            Script::Han => Class::Han,
            Script::Hiragana | Script::Katakana => Class::Kana,
            Script::Thai | Script::Lao | Script::Khmer | Script::Myanmar => Class::SouthEastAsian,
            _ => Class::Letter,
        }
    }

    /// Whether the character can be part of a word: true for every class except [`Class::Other`].
    #[inline]
    pub(super) fn is_in_word(self) -> bool {
        self != Class::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_have_their_class() {
        let cases = [
            ("中々〇\u{20000}", Class::Han),
            ("あアーｶヽ", Class::Kana),
            ("กລកမ", Class::SouthEastAsian),
            ("aéя한عहΩ", Class::Letter),
            ("1९๑½", Class::Digit),
            ("\u{301}\u{93e}\u{e31}\u{3099}", Class::Mark),
            (" ,。・「🙂€_\u{e000}", Class::Other),
        ];
        for (characters, class) in cases {
            for c in characters.chars() {
                assert_eq!(Class::of(c), class, "{c:?} U+{:04X}", u32::from(c));
            }
        }
    }
}
