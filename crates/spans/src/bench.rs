//! Items of evaluation sets, and which of them a text contains.
//!
//! An item has some strings. The grams of an item are those of 13 tokens in each of its strings, so that what
//! a text has between a question and its answers makes no difference. Of an item without a string of 13
//! tokens, all tokens are one gram. A text contains an item if it has at least a stated share of these grams,
//! in any order. All items are held in memory; a text costs one look-up for each of its tokens.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use foldhash::fast::RandomState;
use lookalike_text::located;

use super::windows::grams;

/// The tokens of a gram.
const GRAM: usize = 13;
/// An item with fewer tokens says too little.
pub const LEAST_TOKENS: usize = 5;

/// Items of evaluation sets.
#[derive(Debug)]
pub struct Bench {
    share: f64,
    /// The items with each gram, by its length and hash.
    items: HashMap<(u8, u64), Vec<u32>, RandomState>,
    /// The lengths of grams.
    lengths: BTreeSet<u8>,
    /// The number of different grams of each item.
    counts: Vec<u32>,
}

/// An item that a text contains.
#[derive(Clone, Debug, PartialEq)]
pub struct Contained {
    /// Its number.
    pub item: u32,
    /// The share of its grams that the text has.
    pub share: f64,
    /// The bytes of the text from the first of these grams to the last one.
    pub passage: Range<usize>,
    /// The number of items that the text contains.
    pub items: usize,
}

impl Bench {
    /// No items, of which a text shall have this share, above 0 and up to 1.
    pub fn new(share: f64) -> Bench {
        Bench { share, items: HashMap::default(), lengths: BTreeSet::new(), counts: Vec::new() }
    }

    /// Adds an item, whose number is that of the items before. Returns whether it has enough tokens; without
    /// them it is never found.
    pub fn add(&mut self, strings: &[&str]) -> bool {
        let digests = |text: &str| located(text).iter().map(|token| token.digest).collect::<Vec<u64>>();
        let all: Vec<Vec<u64>> = strings.iter().map(|text| digests(text)).collect();
        let mut own: HashSet<(u8, u64), RandomState> = HashSet::default();
        for digests in all.iter().filter(|digests| digests.len() >= GRAM) {
            own.extend(grams(digests, GRAM).map(|hash| (GRAM as u8, hash)));
        }
        let joined = all.concat();
        if own.is_empty() && joined.len() >= LEAST_TOKENS {
            // Many short strings are one long item.
            let length = joined.len().min(GRAM);
            own.extend(grams(&joined, length).map(|hash| (length as u8, hash)));
        }
        let number = self.counts.len() as u32;
        self.counts.push(own.len() as u32);
        for gram in &own {
            self.lengths.insert(gram.0);
            self.items.entry(*gram).or_default().push(number);
        }
        !own.is_empty()
    }

    /// The number of items, with those that are too short.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The item of which a text contains most; of several, the first.
    pub fn find(&self, text: &str) -> Option<Contained> {
        let tokens = located(text);
        let digests: Vec<u64> = tokens.iter().map(|token| token.digest).collect();
        // The different grams of each item in the text, and the tokens around them.
        let mut found: HashMap<u32, (u32, Range<usize>), RandomState> = HashMap::default();
        let mut seen: HashSet<(u8, u64), RandomState> = HashSet::default();
        for length in self.lengths.iter().filter(|length| usize::from(**length) <= digests.len()) {
            for (at, hash) in grams(&digests, (*length).into()).enumerate() {
                let Some(items) = self.items.get(&(*length, hash)) else { continue };
                if !seen.insert((*length, hash)) {
                    continue;
                }
                let end = at + usize::from(*length);
                for item in items {
                    let (count, range) = found.entry(*item).or_insert((0, at..end));
                    *count += 1;
                    range.end = end;
                }
            }
        }
        let share = |(item, (count, _)): &(&u32, &(u32, Range<usize>))| {
            f64::from(*count) / f64::from(self.counts[**item as usize])
        };
        let contained: Vec<_> = found.iter().filter(|own| share(own) >= self.share).collect();
        let best = contained.iter().max_by(|a, b| share(a).total_cmp(&share(b)).then(b.0.cmp(a.0)))?;
        let (item, (_, range)) = *best;
        let passage = tokens[range.start].from as usize..tokens[range.end - 1].to as usize;
        Some(Contained { item: *item, share: share(best), passage, items: contained.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every string of tokens, compared with every other one.
    fn naive(items: &[Vec<String>], share: f64, text: &str) -> Option<(u32, f64)> {
        let words = |text: &str| -> Vec<String> {
            located(text)
                .iter()
                .map(|token| text[token.from as usize..token.to as usize].to_lowercase())
                .collect()
        };
        let own = words(text);
        let mut best: Option<(u32, f64)> = None;
        for (number, item) in (0..).zip(items) {
            let strings: Vec<Vec<String>> = item.iter().map(|text| words(text)).collect();
            let mut all: Vec<Vec<String>> = Vec::new();
            strings.iter().for_each(|words| all.extend(words.windows(13).map(<[String]>::to_vec)));
            let joined = strings.concat();
            if all.is_empty() && joined.len() >= 5 {
                all.extend(joined.windows(joined.len().min(13)).map(<[String]>::to_vec));
            }
            all.sort();
            all.dedup();
            let is_in = |gram: &&Vec<String>| own.windows(gram.len()).any(|window| window == *gram);
            let found = all.iter().filter(is_in).count() as f64 / all.len().max(1) as f64;
            if found >= share && best.is_none_or(|(_, before)| found > before) {
                best = Some((number, found));
            }
        }
        best
    }

    #[test]
    fn a_text_contains_what_a_comparison_of_all_grams_finds() {
        let mut random = fastrand::Rng::with_seed(13);
        let mut found = 0;
        for round in 0..60 {
            // Few words, so that grams are repeated; Chinese in every other round.
            let word = |random: &mut fastrand::Rng| match round % 2 {
                0 => format!("w{} ", random.u32(..30)),
                _ => char::from_u32(0x4e00 + random.u32(..30)).unwrap().to_string(),
            };
            let string = |random: &mut fastrand::Rng, most: usize| -> String {
                (0..random.usize(..=most)).map(|_| word(random)).collect()
            };
            let items: Vec<Vec<String>> =
                (0..20).map(|_| (0..random.usize(1..4)).map(|_| string(&mut random, 40)).collect()).collect();
            let mut bench = Bench::new(0.8);
            for item in &items {
                let strings: Vec<&str> = item.iter().map(String::as_str).collect();
                let tokens: usize = strings.iter().map(|text| located(text).len()).sum();
                assert_eq!(bench.add(&strings), tokens >= LEAST_TOKENS);
            }
            assert_eq!(bench.len(), items.len());
            for _ in 0..20 {
                let mut text = string(&mut random, 30);
                for part in random.choice(&items).unwrap() {
                    let cut = (0..=part.len().min(6)).rev().find(|at| part.is_char_boundary(*at)).unwrap();
                    text += &part[if random.bool() { cut } else { 0 }..];
                    text += &string(&mut random, 3).to_uppercase();
                }
                let own = bench.find(&text);
                assert_eq!(
                    own.as_ref().map(|own| (own.item, own.share)),
                    naive(&items, 0.8, &text),
                    "{text}"
                );
                found += usize::from(own.is_some());
            }
        }
        assert!((300..1_150).contains(&found), "{found}");
    }

    #[test]
    fn the_passage_is_a_part_of_the_text() {
        let mut bench = Bench::new(0.8);
        assert!(!bench.add(&["too short", "x"]));
        assert!(bench.add(&["Which planet is the largest?", "Mars", "Jupiter"]));
        let text = "Quiz — which PLANET is the largest? Mars; Jupiter. End";
        let found = bench.find(text).unwrap();
        assert_eq!((found.item, found.items), (1, 1));
        assert_eq!(&text[found.passage], "which PLANET is the largest? Mars; Jupiter");
        assert_eq!(bench.find("Which planet is the largest? Mars or Jupiter"), None);
        assert_eq!(bench.find(""), None);
    }
}
