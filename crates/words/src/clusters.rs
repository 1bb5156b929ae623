//! Clusters: Thai, Lao, Khmer and Burmese cut into the smallest stretches that are written together.
//!
//! A cluster is a letter with its marks. A vowel that is written before its consonant, and one that is
//! written after it, belong to its cluster, and so does a consonant that is stacked under another one. A
//! number is one cluster. Everything that is no letter, digit or mark is dropped.
//!
//! Guarantees: the clusters of a text depend on no dictionary, and a changed letter changes at most
//! three of them: its own and those beside it. Not here: words, which the dictionaries of `words` find.

use icu_properties::CodePointSetData;
use icu_properties::props::LogicalOrderException;

use super::class::Class;

/// Writes the letters of a text into `line`, and the positions in the line at which a cluster begins into
/// `starts`. Both are cleared first.
///
/// ```
/// use lookalike_words::clusters;
/// let (mut line, mut starts) = (String::new(), Vec::new());
/// clusters("เมือง ไทย 2023", &mut line, &mut starts);
/// assert_eq!((line.as_str(), starts), ("เมืองไทย2023", vec![0, 9, 12, 15, 21, 24]));
/// ```
pub fn clusters(text: &str, line: &mut String, starts: &mut Vec<usize>) {
    line.clear();
    starts.clear();
    let mut joins = Joins::Nothing;
    for c in text.chars() {
        let class = Class::of(c);
        if !class.is_in_word() {
            continue;
        }
        let continues = match class {
            Class::Mark => true,
            Class::Digit => joins == Joins::Digit,
            _ => joins == Joins::Letter || is_vowel_after(c),
        };
        if !continues || line.is_empty() {
            starts.push(line.len());
        }
        joins = match class {
            Class::Digit => Joins::Digit,
            _ if is_vowel_before(c) || is_stacker(c) => Joins::Letter,
            _ => Joins::Nothing,
        };
        line.push(c);
    }
}

/// How the cluster of a character continues, besides marks and vowels that are written after a consonant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joins {
    Nothing,
    Letter,
    Digit,
}

/// Thai and Lao vowels that are written before the consonant after which they are spoken.
fn is_vowel_before(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}') && CodePointSetData::new::<LogicalOrderException>().contains(c)
}

/// Thai and Lao vowels that are written after their consonant and are no marks, and the sign of repetition.
/// The vowel am is a mark and one of these in normal form.
fn is_vowel_after(c: char) -> bool {
    let of_thai = matches!(c, '\u{e30}' | '\u{e32}' | '\u{e33}' | '\u{e45}' | '\u{e46}');
    of_thai || matches!(c, '\u{eb0}' | '\u{eb2}' | '\u{eb3}' | '\u{ec6}')
}

/// The Burmese and Khmer marks that put the next consonant under the one before.
fn is_stacker(c: char) -> bool {
    matches!(c, '\u{1039}' | '\u{17d2}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalise;

    fn cut(text: &str) -> Vec<String> {
        let (mut line, mut starts) = (String::new(), Vec::new());
        clusters(text, &mut line, &mut starts);
        let ends = starts.iter().skip(1).copied().chain([line.len()]);
        starts.iter().zip(ends).map(|(&start, end)| line[start..end].to_owned()).collect()
    }

    #[test]
    fn letters_keep_their_marks_and_vowels() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("ภาษาไทย", &["ภา", "ษา", "ไท", "ย"]),
            ("เมือง, ที่ 2023", &["เมื", "อ", "ง", "ที่", "2023"]),
            ("น้ำและ", &["น\u{e49}\u{e4d}\u{e32}", "แล\u{e30}"]),
            ("ພາສາລາວ", &["ພາ", "ສາ", "ລາ", "ວ"]),
            ("ភាសាខ្មែរ", &["ភា", "សា", "ខ្មែ", "រ"]),
            ("မြန်မာ", &["မြ", "န်", "မာ"]),
            ("\u{e34}ก", &["\u{e34}", "ก"]),
        ];
        for (text, expected) in cases {
            let expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(cut(&normalise(text)), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn clusters_hold_every_letter_and_one_change_reaches_three(
            text in "[กขาะเไิ้ ក្មា2,]{0,20}",
            at in 0_usize..20,
            new in "[กขาะเไិ2]",
        ) {
            let all = cut(&text);
            let letters: String = text.chars().filter(|c| Class::of(*c).is_in_word()).collect();
            proptest::prop_assert_eq!(all.concat(), letters.as_str());
            let mut changed: Vec<char> = letters.chars().collect();
            if let Some(c) = changed.get_mut(at) {
                *c = new.chars().next().unwrap();
            }
            let changed = cut(&changed.iter().collect::<String>());
            let same = |(a, b): &(&String, &String)| a == b;
            let before = all.iter().zip(&changed).take_while(same).count();
            let after = all.iter().rev().zip(changed.iter().rev()).take_while(same).count();
            proptest::prop_assert!(before + after + 3 >= all.len(), "{all:?} {changed:?}");
        }
    }
}
