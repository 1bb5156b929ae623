//! Chinese words with their frequencies, and the most probable cut of a text into them: the same cuts as
//! jieba's.
//!
//! The cut maximises the product of the word probabilities, as if words were independent. This is a
//! shortest path through all words in the text, found from its end to its beginning. The logarithms are
//! added in the same order as in jieba, so the sums are equal to the last bit and the cuts are the same;
//! the tests compare them with jieba-rs. This version is faster: it finds words and adds their
//! probabilities in one pass, and the nodes of its trie are half as large.
//!
//! cppjieba's cut of the same words differs in two rules: see [`Lexicon::cut_like_cppjieba`]. Not here: the
//! hidden Markov model, which is that of jieba-rs, or that of `markov` for cppjieba.

use std::sync::LazyLock;

use jieba_rs::Jieba;

use super::ranked::Ranked;
use super::trie::Trie;

/// A dictionary without words, so that the hidden Markov model makes the whole cut.
static MODEL: LazyLock<Jieba> = LazyLock::new(Jieba::empty);

/// Words with frequencies.
#[derive(Debug)]
pub(super) struct Lexicon {
    trie: Trie,
    /// The logarithms of the probabilities of words, by their value in the trie.
    probabilities: Vec<f64>,
    /// The logarithm of the probability of a character that begins no word.
    unknown: f64,
}

/// The bytes of a text above which the places of a stretch are allocated at once, in their exact number.
const LONG: usize = 64 << 10;

/// A character of a stretch, and the best cut from here to the end of the stretch.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The logarithm of the probability of that cut.
    probability: f64,
    /// The end of its first word, in characters from the beginning of the stretch.
    end: u32,
    /// The position of the character, in bytes from the beginning of the stretch.
    at: u32,
    code: u32,
    is_alphanumeric: bool,
}

impl Lexicon {
    /// The lexicon of these words and their frequencies.
    pub(super) fn of(ranked: Ranked) -> Lexicon {
        let total = libm::log(ranked.total as f64);
        Lexicon::with_probabilities(ranked, 1, |frequency| libm::log(frequency as f64) - total)
    }

    /// As [`Lexicon::of`]. `probability` is the logarithm of the probability of a frequency, and `unknown`
    /// the frequency of a character that is no word.
    pub(super) fn with_probabilities(
        ranked: Ranked,
        unknown: usize,
        probability: impl Fn(usize) -> f64,
    ) -> Lexicon {
        let logarithms = ranked.frequencies.iter().map(|&frequency| probability(frequency));
        Lexicon {
            probabilities: std::iter::once(f64::NEG_INFINITY).chain(logarithms).collect(),
            unknown: probability(unknown),
            trie: ranked.trie,
        }
    }

    /// Whether the lexicon has a word.
    pub(super) fn has(&self, word: &str) -> bool {
        self.trie.value(word) > 0
    }

    /// Passes the words of a text to `each`, in order, and the text between them character by character.
    /// Adjacent ASCII letters and digits are one word.
    pub(super) fn cut(&self, text: &str, each: impl FnMut(&str)) {
        self.cut_stretches::<false>(text, each);
    }

    /// As [`Lexicon::cut`]; in addition the hidden Markov model joins single characters that are left over.
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
                self.find_cut::<false>(&mut places);
                self.emit::<GUESS>(stretch, &places, &mut each);
            }
            // The character that ended the stretch is passed alone; `\r\n` is passed as one piece.
            let single = if after.starts_with("\r\n") { 2 } else { stop.map_or(0, char::len_utf8) };
            if single > 0 {
                each(&after[..single]);
            }
            rest = &after[single..];
        }
    }

    /// Passes the words that cppjieba finds in a text to `each`, in order. Any character can be part of a
    /// word, a character that begins a word can stand alone even if it is no word itself, and the shortest of
    /// equally probable words wins. `places` is memory to be reused.
    pub(super) fn cut_like_cppjieba(&self, text: &str, places: &mut Vec<Place>, mut each: impl FnMut(&str)) {
        places.clear();
        if text.len() > LONG {
            places.reserve_exact(text.chars().count() + 1);
        }
        let place = |(at, c)| Place { at: at as u32, code: self.trie.code(c), ..END };
        places.extend(text.char_indices().map(place));
        self.find_cut::<true>(places);
        let mut start = 0;
        while start + 1 < places.len() {
            let end = places[start].end as usize;
            let after = if end + 1 < places.len() { places[end].at as usize } else { text.len() };
            each(&text[places[start].at as usize..after]);
            start = end;
        }
    }

    /// Reads characters that can be part of words; returns their length in bytes and the character after
    /// them.
    #[inline]
    fn read(&self, text: &str, places: &mut Vec<Place>) -> (usize, Option<char>) {
        places.clear();
        if text.len() > LONG {
            // Growth by doubling would copy, and allocate more than necessary.
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

    /// Finds the best cut from each place to the end of the stretch, last place first, and stores the end
    /// of its first word in the place. `CPPJIEBA` chooses its rules.
    fn find_cut<const CPPJIEBA: bool>(&self, places: &mut Vec<Place>) {
        let count = places.len();
        places.push(END);
        for start in (0..count).rev() {
            let mut best = f64::NEG_INFINITY;
            let mut end = 0;
            let mut node = self.trie.first(places[start].code);
            if CPPJIEBA && node.value() == 0 {
                (best, end) = (self.unknown + places[start + 1].probability, start + 1);
            }
            let mut next = start + 1;
            loop {
                let value = node.value();
                let Place { probability, code, .. } = places[next];
                if value > 0 {
                    let probability = self.probabilities[value as usize] + probability;
                    // Among equal probabilities the longer word wins in jieba.
                    if probability > best || (!CPPJIEBA && probability >= best) {
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

    /// Passes the words of the best cut to `each`. Adjacent single characters are collected and joined first.
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

    /// Passes a run of `count` single characters: as one word if it is one character or if the model is not
    /// used, otherwise as the model cuts it. A run that is itself a word of the lexicon is split into its
    /// characters, because the cut found these more probable than the word.
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

/// Passes the words that the hidden Markov model finds in a run of characters to `each`.
pub(super) fn guess(run: &str, mut each: impl FnMut(&str)) {
    MODEL.cut(run, true).iter().for_each(|token| each(token.word));
}

/// The place after the last character.
const END: Place = Place { probability: 0.0, end: 0, at: 0, code: 0, is_alphanumeric: false };

/// Whether jieba searches for words here: at Chinese characters, ASCII letters and digits, and a few other
/// signs.
#[inline]
fn can_be_of_word(c: char) -> bool {
    match c {
        '\u{4e00}'..='\u{9fff}' => true,
        '\0'..='\x7f' => c.is_ascii_alphanumeric() || matches!(c, '+' | '#' | '&' | '.' | '_' | '%' | '-'),
        _ => is_rare_ideograph(c),
    }
}

/// The other blocks of Chinese characters.
#[inline]
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
