//! The words of a text, for two recipes that need the same ones: they are cut once and read again.
//!
//! Not here: the cut (`words`).

use std::cell::RefCell;

use super::Dictionary;
use super::runs::{Run, System};
use super::words::{NewWords, words};

/// Cuts runs into words.
pub trait CutsWords {
    /// Passes the words of a run to `each`, in order, as [`words`] does.
    fn words(&self, run: Run<'_>, new_words: NewWords, each: impl FnMut(&str));

    /// The dictionary that cuts Chinese.
    fn dictionary(&self) -> &Dictionary;
}

impl CutsWords for Dictionary {
    #[inline]
    fn words(&self, run: Run<'_>, new_words: NewWords, each: impl FnMut(&str)) {
        words(run, self, new_words, each);
    }

    fn dictionary(&self) -> &Dictionary {
        self
    }
}

/// A dictionary that keeps the words of each Chinese and Japanese run of one text, and passes them again
/// without another cut. It holds up to 4 bytes for each byte of the text.
#[derive(Debug)]
pub struct Remembered<'a> {
    dictionary: &'a Dictionary,
    kept: RefCell<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The kept words, without anything between them.
    letters: String,
    /// Where each of them ends.
    ends: Vec<u32>,
    /// The runs: where each is in memory, and its words.
    runs: Vec<(*const u8, std::ops::Range<usize>)>,
}

impl<'a> Remembered<'a> {
    /// A dictionary that has no words yet.
    pub fn new(dictionary: &'a Dictionary) -> Remembered<'a> {
        Remembered { dictionary, kept: RefCell::default() }
    }
}

impl CutsWords for Remembered<'_> {
    fn words(&self, run: Run<'_>, new_words: NewWords, mut each: impl FnMut(&str)) {
        let is_kept = matches!(run.system, System::Han | System::Japanese) && new_words == NewWords::Split;
        if !is_kept {
            return words(run, self.dictionary, new_words, each);
        }
        let place = run.text.as_ptr();
        if !self.kept.borrow().pass(place, &mut each) {
            self.kept.borrow_mut().cut(run, self.dictionary, each);
        }
    }

    fn dictionary(&self) -> &Dictionary {
        self.dictionary
    }
}

impl Kept {
    /// Passes the words of the run at this place; false if it was not cut.
    fn pass(&self, place: *const u8, each: &mut impl FnMut(&str)) -> bool {
        let Ok(at) = self.runs.binary_search_by_key(&place, |(place, _)| *place) else { return false };
        let of_run = self.runs[at].1.clone();
        let mut start = match of_run.start {
            0 => 0,
            first => self.ends[first - 1] as usize,
        };
        for &end in &self.ends[of_run] {
            each(&self.letters[start..end as usize]);
            start = end as usize;
        }
        true
    }

    /// Cuts a run behind those that are kept.
    fn cut(&mut self, run: Run<'_>, dictionary: &Dictionary, mut each: impl FnMut(&str)) {
        let first = self.ends.len();
        words(run, dictionary, NewWords::Split, |word| {
            self.letters.push_str(word);
            self.ends.push(u32::try_from(self.letters.len()).expect("a text has less than 4 GiB"));
            each(word);
        });
        self.runs.push((run.text.as_ptr(), first..self.ends.len()));
    }
}

#[cfg(feature = "zh")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{normalise, runs};

    fn found(normalised: &str, by: &impl CutsWords, new_words: NewWords) -> Vec<String> {
        let mut found = Vec::new();
        runs(normalised).for_each(|run| by.words(run, new_words, |word| found.push(word.to_owned())));
        found
    }

    proptest::proptest! {
        #[test]
        fn the_words_of_each_reading_are_those_of_the_dictionary(
            text in "([我来到北京清华大学臺灣电脑]{0,9}|[a-c ]{0,5}|\
                [東京タワーへ]{0,5}|[ภาษาไทย]{0,4}|[。,! ]){0,9}",
        ) {
            let (text, dictionary) = (normalise(&text), Dictionary::built_in());
            for new_words in [NewWords::Split, NewWords::Guess] {
                let remembered = Remembered::new(dictionary);
                let expected = found(&text, dictionary, new_words);
                for _ in 0..3 {
                    proptest::prop_assert_eq!(&found(&text, &remembered, new_words), &expected);
                }
            }
        }
    }
}
