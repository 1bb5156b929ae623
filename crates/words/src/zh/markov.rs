//! jieba's hidden Markov model: it cuts characters that the dictionary left over, as cppjieba cuts them.
//!
//! Each character is the beginning, the end or the middle of a word, or a word by itself. The Viterbi
//! algorithm finds the most probable sequence of these states. Sums, comparisons and their order are those of
//! cppjieba, because they decide the states around a character that the model does not know. Its probability
//! is the least number in all states, so the sums before it no longer count: the characters after it in the
//! run stay single, and the one before it ends a word.
//!
//! The model is that of jieba-rs, whose cut is the reference in the tests; jieba-rs leaves out unknown
//! characters. Not here: letters and digits, which never reach the model (`cppjieba`).

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;

static PACKED: &[u8] = include_bytes!("../../assets/hmm.txt.gz");
static MODEL: LazyLock<Model> = LazyLock::new(Model::load);

/// The states: the beginning, the end and the middle of a word, and a word of one character.
const STATES: usize = 4;
const END: u8 = 1;
const SINGLE: u8 = 3;

/// The logarithm of the probability of the impossible.
const NEVER: f64 = -3.14e100;

/// Logarithms of probabilities.
struct Model {
    /// That a run begins with a state.
    first: [f64; STATES],
    /// That a state, the first index, is followed by another one.
    next: [[f64; STATES]; STATES],
    /// The number of the row of each character from `least`; 0 for unknown ones.
    rows: Vec<u16>,
    least: u32,
    /// That a state yields a character.
    of_character: Vec<[f64; STATES]>,
}

impl Model {
    fn load() -> Model {
        let mut text = String::new();
        GzDecoder::new(PACKED).read_to_string(&mut text).expect("the embedded model is readable");
        let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut row = || {
            let mut numbers = lines.next().unwrap_or_default().split(' ').map(number);
            std::array::from_fn(|_| numbers.next().unwrap_or(NEVER))
        };
        let first = row();
        let next = std::array::from_fn(|_| row());
        let lists: Vec<Vec<(u32, f64)>> =
            lines.map(|line| line.split(',').filter_map(entry).collect()).collect();
        let characters = || lists.iter().flatten().map(|&(character, _)| character);
        let least = characters().min().unwrap_or(0);
        let count = characters().max().map_or(0, |most| most - least + 1);
        let mut model =
            Model { first, next, rows: vec![0; count as usize], least, of_character: vec![[NEVER; STATES]] };
        for (state, list) in lists.iter().enumerate().take(STATES) {
            for &(character, probability) in list {
                let row = &mut model.rows[(character - least) as usize];
                if *row == 0 {
                    *row = model.of_character.len() as u16;
                    model.of_character.push([NEVER; STATES]);
                }
                model.of_character[usize::from(*row)][state] = probability;
            }
        }
        model
    }

    #[inline]
    fn of(&self, c: char) -> &[f64; STATES] {
        let at = u32::from(c).wrapping_sub(self.least) as usize;
        &self.of_character[usize::from(self.rows.get(at).copied().unwrap_or(0))]
    }
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or(NEVER)
}

/// A character and a number, with a colon between them.
fn entry(text: &str) -> Option<(u32, f64)> {
    let (character, probability) = text.rsplit_once(':')?;
    Some((u32::from(character.chars().next()?), number(probability)))
}

/// Passes the words of a run of characters to `each`, in order.
pub(super) fn cut(run: &str, mut each: impl FnMut(&str)) {
    let mut start = 0;
    let states = states(run);
    for ((at, c), state) in run.char_indices().zip(states) {
        if state == END || state == SINGLE {
            let end = at + c.len_utf8();
            each(&run[start..end]);
            start = end;
        }
    }
}

/// The most probable state of each character. The last state is `END` or `SINGLE`.
fn states(run: &str) -> Vec<u8> {
    let model = &*MODEL;
    let mut characters = run.chars();
    let Some(first) = characters.next() else { return Vec::new() };
    let emissions = model.of(first);
    let mut sums: [f64; STATES] = std::array::from_fn(|state| model.first[state] + emissions[state]);
    // For each character but the first, the state before each of its states.
    let mut before: Vec<[u8; STATES]> = Vec::with_capacity(run.len() / 3);
    for c in characters {
        let emissions = model.of(c);
        let (mut next_sums, mut from) = ([NEVER; STATES], [END; STATES]);
        for state in 0..STATES {
            for (previous, sum) in sums.iter().enumerate() {
                let sum = sum + model.next[previous][state] + emissions[state];
                if sum > next_sums[state] {
                    (next_sums[state], from[state]) = (sum, previous as u8);
                }
            }
        }
        before.push(from);
        sums = next_sums;
    }
    let mut state = if sums[usize::from(END)] >= sums[usize::from(SINGLE)] { END } else { SINGLE };
    let mut states = vec![state];
    for from in before.iter().rev() {
        state = from[usize::from(state)];
        states.push(state);
    }
    states.reverse();
    states
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::lexicon::guess;
    use super::*;

    fn found(run: &str) -> Vec<String> {
        let mut found = Vec::new();
        cut(run, |word| found.push(word.to_owned()));
        found
    }

    /// The logarithm of the probability of a cut.
    fn probability(words: &[String]) -> f64 {
        let state = |word: &String, at: usize| match (at, word.chars().count() - at) {
            (0, 1) => 3,
            (0, _) => 0,
            (_, 1) => 1,
            _ => 2,
        };
        let states = words.iter().flat_map(|word| {
            word.chars().enumerate().map(move |(at, c)| (state(word, at), MODEL.of(c)[state(word, at)]))
        });
        let (mut sum, mut before) = (0.0, None);
        for (state, emission) in states {
            sum += emission + before.map_or(MODEL.first[state], |before: usize| MODEL.next[before][state]);
            before = Some(state);
        }
        sum
    }

    proptest! {
        /// Of cuts that are equally probable, jieba-rs takes another one than cppjieba.
        #[test]
        fn known_characters_are_cut_as_by_jieba(
            run in "[的一是不了人我在他中大网易杭研厦]{2,30}",
        ) {
            let (found, mut expected) = (found(&run), Vec::new());
            guess(&run, |word| expected.push(word.to_owned()));
            if found != expected {
                let (own, other) = (probability(&found), probability(&expected));
                prop_assert!((own - other).abs() < 1e-9, "{found:?} {own}, {expected:?} {other}");
            }
        }
    }

    #[test]
    fn of_equally_probable_cuts_that_of_cppjieba_is_taken() {
        let (own, other) = (["杭易易", "易易", "我"], ["杭易", "易易易", "我"]);
        let of = |words: [&str; 3]| probability(&words.map(str::to_owned));
        assert!((of(own) - of(other)).abs() < 1e-9);
        assert_eq!(found(&own.concat()), own);
    }

    #[test]
    fn nothing_is_known_after_an_unknown_character() {
        assert_eq!(found("杭研大厦"), ["杭研大厦"]);
        assert_eq!(found("“杭研大厦"), ["“", "杭", "研", "大", "厦"]);
        assert_eq!(found("杭研“大厦"), ["杭研", "“", "大", "厦"]);
        assert_eq!(found("的“"), ["的", "“"]);
        assert!(found("").is_empty());
    }
}
