//! Runs: a normalised text cut where the writing system changes, so that each segmenter gets only what it knows.
//!
//! Promises: the runs stand in order, do not overlap, and hold every letter and digit of the text. What stands
//! between two runs and before the first is punctuation, symbols or spaces. Digits, marks and punctuation
//! belong to the run before them, and digits at the beginning to the run after them. Leaves out: words.
//!
//! Han is ambiguous: in a sentence with kana it is Japanese, otherwise Chinese. A sentence ends at one of
//! 。.!? or with the text; line breaks do not survive normalisation.

use super::bytes::{ideographs, leading};
use super::class::Class;

/// A writing system, as far as segmentation must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum System {
    /// Chinese characters in sentences without kana.
    Han,
    /// Kana, and Chinese characters in sentences with kana.
    Japanese,
    /// Thai, Lao, Khmer and Burmese, which do not put spaces between words.
    SouthEastAsian,
    /// Every script that does, and digits alone.
    Spaced,
}

/// A stretch of a text in one writing system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// The writing system.
    pub system: System,
    /// The stretch; it begins and ends with a letter, digit or mark.
    pub text: &'a str,
}

/// The runs of a normalised text, in order.
///
/// ```
/// use lookalike::text::{runs, System};
/// let found: Vec<_> = runs("用 rust 写的 3 个程序。").map(|run| (run.system, run.text)).collect();
/// assert_eq!(found, [(System::Han, "用"), (System::Spaced, "rust"), (System::Han, "写的 3 个程序")]);
/// ```
pub fn runs(normalised: &str) -> impl Iterator<Item = Run<'_>> {
    Runs { text: normalised, at: 0, sentence: Sentence { end: 0, has_kana: false }, any_kana: None }
}

struct Runs<'a> {
    text: &'a str,
    /// Where the next run is looked for.
    at: usize,
    /// The sentence that holds the Chinese character looked at last.
    sentence: Sentence,
    /// Whether the text has kana at all, once somebody has asked.
    any_kana: Option<bool>,
}

struct Sentence {
    end: usize,
    has_kana: bool,
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        let mut open: Option<Open> = None;
        let text = self.text;
        let mut next = self.at;
        while let Some(c) = text[next..].chars().next() {
            let at = next;
            next += c.len_utf8();
            let class = Class::of(c);
            if !class.is_in_word() {
                continue;
            }
            let system = self.system(class, at);
            let run = open.get_or_insert(Open { system, start: at, end: at });
            if !run.takes(system) {
                break;
            }
            run.end = next;
            match run.system {
                Some(System::Spaced) => next = run.skip_ascii(text.as_bytes()),
                Some(System::Han) if self.any_kana == Some(false) => {
                    next += ideographs(&text.as_bytes()[next..]);
                    run.end = next;
                }
                _ => {}
            }
        }
        let run = open?;
        self.at = run.end;
        Some(Run { system: run.system.unwrap_or(System::Spaced), text: &text[run.start..run.end] })
    }
}

/// A run that is being read; it has no system as long as it is of digits only.
struct Open {
    system: Option<System>,
    start: usize,
    end: usize,
}

impl Open {
    /// Takes all ASCII that follows, none of which can end a spaced run, and returns where it ends.
    #[inline]
    fn skip_ascii(&mut self, text: &[u8]) -> usize {
        let ascii = leading(&text[self.end..], u8::is_ascii);
        let stretch = &text[self.end..self.end + ascii];
        let next = self.end + ascii;
        self.end += stretch.iter().rposition(u8::is_ascii_alphanumeric).map_or(0, |last| last + 1);
        next
    }

    /// Whether a character of this system, or of none, continues the run.
    #[inline]
    fn takes(&mut self, system: Option<System>) -> bool {
        if self.system.is_none() {
            self.system = system;
        }
        system.is_none() || system == self.system
    }
}

impl Runs<'_> {
    /// The system of a character; `None` for a digit or mark, which goes with its neighbours.
    #[inline]
    fn system(&mut self, class: Class, at: usize) -> Option<System> {
        match class {
            Class::Han if self.has_kana(at) => Some(System::Japanese),
            Class::Han => Some(System::Han),
            Class::Kana => {
                self.read_sentence(at);
                Some(System::Japanese)
            }
            Class::SouthEastAsian => Some(System::SouthEastAsian),
            Class::Letter => Some(System::Spaced),
            Class::Digit | Class::Mark | Class::Other => None,
        }
    }

    /// Whether the sentence around the Chinese character at `at` has kana.
    #[inline]
    fn has_kana(&mut self, at: usize) -> bool {
        self.read_sentence(at);
        self.sentence.has_kana
    }

    /// Whether there are kana anywhere. Most texts have none, and then no sentence is read.
    fn any_kana(&mut self) -> bool {
        *self.any_kana.get_or_insert_with(|| has_bytes_of_kana(self.text.as_bytes()))
    }

    /// Reads on to the end of the sentence, once for each sentence with Chinese characters or kana. What
    /// stands before its first such character has no kana, so that there is nothing to read backwards.
    #[inline]
    fn read_sentence(&mut self, at: usize) {
        if at < self.sentence.end || !self.any_kana() {
            return;
        }
        let rest = &self.text[at..];
        let length = rest.find(['。', '.', '!', '?']).unwrap_or(rest.len());
        let has_kana = rest[..length]
            .chars()
            .any(|c| matches!(c, '\u{3041}'..='\u{30ff}') && Class::of(c) == Class::Kana);
        self.sentence = Sentence { end: at + length, has_kana };
    }
}

/// Whether two bytes stand together as in all kana, U+3040 to U+30FF; a block at a time without a branch, since 0xe3 is
/// the first byte of much punctuation as well.
fn has_bytes_of_kana(text: &[u8]) -> bool {
    const BLOCK: usize = 64;
    let next = text.get(1..).unwrap_or_default();
    text.chunks(BLOCK).zip(next.chunks(BLOCK)).any(|(firsts, seconds)| {
        let pairs = firsts.iter().zip(seconds);
        pairs.fold(false, |any, (&first, &second)| any | ((first == 0xe3) & (0x81..=0x83).contains(&second)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kana_are_seen_wherever_they_stand() {
        for before in 0..200 {
            for text in ["ぁ", "ヿ", "\u{3040}"] {
                assert!(
                    has_bytes_of_kana(format!("{}{text}", "。".repeat(before)).as_bytes()),
                    "{before} {text}"
                );
            }
            assert!(!has_bytes_of_kana("、中。".repeat(before).as_bytes()));
        }
        assert!(!has_bytes_of_kana(b"") && !has_bytes_of_kana(b"\xe3"));
    }

    #[test]
    fn a_text_is_cut_where_the_writing_system_changes() {
        use System::{Han, Japanese, SouthEastAsian, Spaced};
        let cases: &[(&str, &[(System, &str)])] = &[
            ("", &[]),
            ("。!? 🙂", &[]),
            ("hello, world!", &[(Spaced, "hello, world")]),
            ("2023年10月", &[(Han, "2023年10月")]),
            ("covid-19疫情", &[(Spaced, "covid-19"), (Han, "疫情")]),
            ("42", &[(Spaced, "42")]),
            ("東京へ行く。東京大学。", &[(Japanese, "東京へ行く"), (Han, "東京大学")]),
            ("設計するapi の名前", &[(Japanese, "設計する"), (Spaced, "api"), (Japanese, "の名前")]),
            ("ภาษาไทย 5 คำ ok", &[(SouthEastAsian, "ภาษาไทย 5 คำ"), (Spaced, "ok")]),
            ("привет мир 세계", &[(Spaced, "привет мир 세계")]),
            ("你好,世界", &[(Han, "你好,世界")]),
        ];
        for (text, expected) in cases {
            let found: Vec<_> = runs(text).map(|run| (run.system, run.text)).collect();
            assert_eq!(&found, expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn runs_hold_every_letter_in_order(text in "[a-c1 。.,中国のกא\u{301}]{0,30}|\\PC{0,30}") {
            let letters = |text: &str| text.chars().filter(|&c| Class::of(c).is_in_word()).collect::<String>();
            let joined: String = runs(&text).map(|run| run.text).collect();
            prop_assert_eq!(letters(&joined), letters(&text));
        }
    }
}
