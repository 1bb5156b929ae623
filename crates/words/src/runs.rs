//! Runs: a normalised text cut where the writing system changes, so that each segmenter gets only its own
//! scripts.
//!
//! Guarantees: the runs are in order, do not overlap, and contain every letter and digit of the text.
//! Between two runs, before the first and after the last there are only punctuation, symbols and spaces.
//! Digits and marks belong to the run before them, and digits at the beginning of the text to the first
//! run. Punctuation belongs to a run only if the run continues after it. Not here: words.
//!
//! Chinese characters are ambiguous: in a sentence with kana they are Japanese, otherwise Chinese. A
//! sentence ends at one of 。.!? or with the text; normalisation removes line breaks.

use super::bytes::{ideographs, leading};
use super::class::Class;

/// A writing system, as far as segmentation distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum System {
    /// Chinese characters in sentences without kana.
    Han,
    /// Kana, and Chinese characters in sentences with kana.
    Japanese,
    /// Thai, Lao, Khmer and Burmese, which do not put spaces between words.
    SouthEastAsian,
    /// Every script with spaces between words, and digits alone.
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
/// use lookalike_words::{runs, System};
/// let found: Vec<_> = runs("用 rust 写的 3 个程序。").map(|run| (run.system, run.text)).collect();
/// assert_eq!(found, [(System::Han, "用"), (System::Spaced, "rust"), (System::Han, "写的 3 个程序")]);
/// ```
pub fn runs(normalised: &str) -> impl Iterator<Item = Run<'_>> {
    Runs { text: normalised, at: 0, sentence: Sentence { end: 0, has_kana: false }, any_kana: None }
}

struct Runs<'a> {
    text: &'a str,
    /// Where the search for the next run begins.
    at: usize,
    /// The sentence around the last Chinese character or kana.
    sentence: Sentence,
    /// Whether the text has kana at all; `None` until it is first needed.
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

/// A run that is being read; its system is `None` while it has only digits and marks.
struct Open {
    system: Option<System>,
    start: usize,
    end: usize,
}

impl Open {
    /// Adds the ASCII letters and digits that follow, since no ASCII character ends a spaced run. Returns
    /// where the ASCII characters end.
    #[inline]
    fn skip_ascii(&mut self, text: &[u8]) -> usize {
        let ascii = leading(&text[self.end..], u8::is_ascii);
        let stretch = &text[self.end..self.end + ascii];
        let next = self.end + ascii;
        self.end += stretch.iter().rposition(u8::is_ascii_alphanumeric).map_or(0, |last| last + 1);
        next
    }

    /// Whether a character of this system, or of none, continues the run. A run without a system adopts
    /// this one.
    #[inline]
    fn takes(&mut self, system: Option<System>) -> bool {
        if self.system.is_none() {
            self.system = system;
        }
        system.is_none() || system == self.system
    }
}

impl Runs<'_> {
    /// The system of a character; `None` for a digit or mark, which takes the system of its neighbours.
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

    /// Whether the text has kana anywhere. Most texts have none, and then no sentence is read.
    fn any_kana(&mut self) -> bool {
        *self.any_kana.get_or_insert_with(|| has_bytes_of_kana(self.text.as_bytes()))
    }

    /// Reads to the end of the sentence, once for each sentence with Chinese characters or kana. The text
    /// before its first such character has no kana, so it is not read.
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

/// Whether two adjacent bytes are the first two of a character from U+3040 to U+30FF, as in all kana. Reads
/// a block at a time without a branch, because 0xe3 is also the first byte of much punctuation.
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
    fn kana_are_found_at_any_position() {
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
            (
                "設計するapi の名前",
                &[
                    (
                        Japanese,
                        "設計す\
                る",
                    ),
                    (Spaced, "api"),
                    (Japanese, "の名前"),
                ],
            ),
            (
                "ภาษาไทย 5 คำ ok",
                &[
                    (
                        SouthEastAsian,
                        "ภ\
                าษาไทย 5 คำ",
                    ),
                    (Spaced, "ok"),
                ],
            ),
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
            let letters =
                |text: &str| text.chars().filter(|&c| Class::of(c).is_in_word()).collect::<String>();
            let joined: String = runs(&text).map(|run| run.text).collect();
            prop_assert_eq!(letters(&joined), letters(&text));
        }
    }
}
