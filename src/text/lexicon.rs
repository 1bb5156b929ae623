//! Chinese words with their frequencies, and the most probable cut of a text into them: what jieba does, cut for cut.
//!
//! A text is cut where its words, taken for independent, are the most probable together: a shortest path through
//! all words that the text has, found from its end to its beginning. The probabilities are added in the order in
//! which jieba adds them, so that the cut is the same to the last bit; the tests hold it against jieba-rs. What is
//! different is the speed: words are looked up and weighed in one pass, in a trie whose nodes are half as large.
//!
//! Leaves out: the hidden Markov model, which is jieba-rs' own.

use std::sync::LazyLock;

use jieba_rs::Jieba;

use super::trie::{MAX_VALUE, Trie};

/// A dictionary without words, which leaves everything to the hidden Markov model.
static MODEL: LazyLock<Jieba> = LazyLock::new(Jieba::empty);

/// Words with frequencies.
#[derive(Debug)]
pub(super) struct Lexicon {
    trie: Trie,
    /// The logarithm of the probability of a word, by its value in the trie.
    probabilities: Vec<f64>,
    /// That of a character that begins no word.
    unknown: f64,
}

/// Bytes of a text from which on places for all characters of a stretch are made at once.
const LONG: usize = 64 << 10;

/// A character of a stretch, and the best cut from here to the end of the stretch.
#[derive(Clone, Copy)]
struct Place {
    /// The logarithm of its probability.
    probability: f64,
    /// Where its first word ends, in characters.
    end: u32,
    /// Where the character stands, in bytes.
    at: u32,
    code: u32,
    is_alphanumeric: bool,
}

impl Lexicon {
    /// The lexicon of these words and their frequencies, sorted by word, without two of the same and without the
    /// empty one. `None` if they are too many, or have too many frequencies: see [`Trie`].
    pub(super) fn of(words: Vec<(&str, usize)>) -> Option<Lexicon> {
        let mut frequencies: Vec<usize> = words.iter().map(|&(_, frequency)| frequency).collect();
        let total = libm::log(frequencies.iter().sum::<usize>() as f64);
        frequencies.sort_unstable();
        frequencies.dedup();
        frequencies.shrink_to_fit();
        u32::try_from(frequencies.len()).ok().filter(|&count| count <= MAX_VALUE)?;
        let value = |frequency| frequencies.partition_point(|&other| other < frequency) as u32 + 1;
        let values: Vec<(&str, u32)> =
            words.into_iter().map(|(word, frequency)| (word, value(frequency))).collect();
        let logarithms = frequencies.iter().map(|&frequency| libm::log(frequency as f64) - total);
        Some(Lexicon {
            trie: Trie::of(&values)?,
            probabilities: std::iter::once(f64::NEG_INFINITY).chain(logarithms).collect(),
            unknown: 0.0 - total,
        })
    }

    /// Whether it has a word.
    pub(super) fn has(&self, word: &str) -> bool {
        self.trie.value(word) > 0
    }

    /// Hands the words of a text to `each`, in order, and what stands between them character by character. Letters
    /// and digits of ASCII that stand together are one word.
    pub(super) fn cut(&self, text: &str, each: impl FnMut(&str)) {
        self.cut_stretches::<false>(text, each);
    }

    /// The same, and where single characters are left over, the hidden Markov model joins them.
    pub(super) fn cut_and_guess(&self, text: &str, each: impl FnMut(&str)) {
        self.cut_stretches::<true>(text, each);
    }

    fn cut_stretches<const GUESS: bool>(&self, text: &str, mut each: impl FnMut(&str)) {
        let mut places = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (length, stop) = self.read(rest, &mut places);
            let (stretch, after) = rest.split_at(length);
            if !stretch.is_empty() {
                self.find_cut(&mut places);
                self.emit::<GUESS>(stretch, &places, &mut each);
            }
            // What ended the stretch is not of words; a line's end of two characters is one.
            let single = if after.starts_with("\r\n") { 2 } else { stop.map_or(0, char::len_utf8) };
            if single > 0 {
                each(&after[..single]);
            }
            rest = &after[single..];
        }
    }

    /// Reads characters that can be of words; returns their length in bytes and what stands behind them.
    #[inline]
    fn read(&self, text: &str, places: &mut Vec<Place>) -> (usize, Option<char>) {
        places.clear();
        if text.len() > LONG {
            // Doubling would hold half as much again, and copy.
            places.reserve_exact(text.chars().take_while(|&c| can_be_of_word(c)).count() + 1);
        }
        for (at, c) in text.char_indices() {
            if !can_be_of_word(c) {
                return (at, Some(c));
            }
            places.push(Place {
                at: at as u32,
                code: self.trie.code(c),
                is_alphanumeric: c.is_ascii_alphanumeric(),
                ..END
            });
        }
        (text.len(), None)
    }

    /// Finds the best cut from every place on, from the last to the first, and leaves the end of its first word there.
    fn find_cut(&self, places: &mut Vec<Place>) {
        let count = places.len();
        places.push(END);
        for start in (0..count).rev() {
            let mut best = f64::NEG_INFINITY;
            let mut end = 0;
            let mut node = self.trie.first(places[start].code);
            let mut next = start + 1;
            loop {
                let value = node.value();
                let Place { probability, code, .. } = places[next];
                if value > 0 {
                    let probability = self.probabilities[value as usize] + probability;
                    // Of equals the longer word is taken.
                    if probability >= best {
                        (best, end) = (probability, next);
                    }
                }
                let Some(child) = self.trie.step(node, code) else { break };
                node = child;
                next += 1;
            }
            let place = &mut places[start];
            (place.probability, place.end) = (best, end as u32);
            if end == 0 {
                let probability = self.unknown + places[start + 1].probability;
                let place = &mut places[start];
                (place.probability, place.end) = (probability, start as u32 + 1);
            }
        }
    }

    /// Hands out the words of the best cut. Single characters in a row that are to be joined are kept back.
    #[inline]
    fn emit<const GUESS: bool>(&self, stretch: &str, places: &[Place], each: &mut impl FnMut(&str)) {
        let byte =
            |place: usize| if place + 1 < places.len() { places[place].at as usize } else { stretch.len() };
        let mut start = 0;
        let mut kept = None;
        while start + 1 < places.len() {
            let end = places[start].end as usize;
            if end - start == 1 && (GUESS || places[start].is_alphanumeric) {
                kept.get_or_insert(start);
            } else {
                if let Some(kept) = kept.take() {
                    self.join::<GUESS>(&stretch[byte(kept)..byte(start)], start - kept, each);
                }
                each(&stretch[byte(start)..byte(end)]);
            }
            start = end;
        }
        if let Some(kept) = kept {
            self.join::<GUESS>(&stretch[byte(kept)..], start - kept, each);
        }
    }

    /// Hands out so many single characters: one alone as it is, and others as one word or as the model cuts them, but
    /// for a word that the lexicon has, which was less probable than its characters.
    #[inline]
    fn join<const GUESS: bool>(&self, run: &str, count: usize, each: &mut impl FnMut(&str)) {
        if !GUESS || count == 1 {
            each(run);
        } else if self.has(run) {
            run.char_indices().for_each(|(at, c)| each(&run[at..at + c.len_utf8()]));
        } else {
            guess(run, each);
        }
    }
}

/// Hands out the words that the hidden Markov model finds in a run of characters.
pub(super) fn guess(run: &str, mut each: impl FnMut(&str)) {
    MODEL.cut(run, true).iter().for_each(|token| each(token.word));
}

/// What stands behind the last character.
const END: Place = Place { probability: 0.0, end: 0, at: 0, code: 0, is_alphanumeric: false };

/// Whether jieba looks for words here: Chinese characters, letters and digits of ASCII and a few marks.
#[inline]
fn can_be_of_word(c: char) -> bool {
    match c {
        '\u{4e00}'..='\u{9fff}' => true,
        '\0'..='\x7f' => c.is_ascii_alphanumeric() || matches!(c, '+' | '#' | '&' | '.' | '_' | '%' | '-'),
        _ => is_rare_ideograph(c),
    }
}

/// The other blocks of Chinese characters.
fn is_rare_ideograph(c: char) -> bool {
    matches!(
        c,
        '\u{3400}'..='\u{4dbf}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{2a6df}'
            | '\u{2a700}'..='\u{2ebef}'
            | '\u{2f800}'..='\u{2fa1f}'
    )
}
