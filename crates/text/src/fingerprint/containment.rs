//! Containment: how much of one text is in another, and where.
//!
//! The texts are compared by their letters. Equal letter grams are seeds, which are extended as far as the
//! letters agree; stretches with small gaps between them are one passage. Time and memory are proportional
//! to the length of both texts.

use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::RandomState;

use crate::features::Letters;
use lookalike_hash::Gram;
use lookalike_pages::stop::{Check, Stop, stoppable};

/// The minimum size of a shared passage in units: a letter of an alphabet counts one, a Chinese character, a
/// kana or a Hangul syllable two. Shorter stretches are phrases that many texts have, unless such a stretch
/// is the whole of one of the texts.
const MIN_UNITS: usize = 40;
/// The most letters between two stretches of one passage, in each text.
const GAP: usize = 24;
/// Places of a gram in the second text that are tried.
const PLACES: usize = 8;
/// Sampled grams in a row that the other text may lack without an end of the passage. A changed word takes
/// one or two away.
const MISSED: usize = 3;
/// The fewest sampled grams that two texts share if they share a passage: a text of two must share both. One
/// alone may be a phrase.
pub const MIN_SHARED_GRAMS: usize = 2;
/// The number that texts of more grams must share.
const SHARED_GRAMS: usize = 3;
/// Grams between two calls of `check`.
const CHECK: usize = 4_096;

/// A passage of one text that the other one has too, with small differences.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedPassage {
    /// Where it is in the first text, in characters.
    pub a: Range<usize>,
    /// Where it is in the second text, in characters.
    pub b: Range<usize>,
    /// The share of the letters of the passage in the first text that are equal in the second, 0 to 1.
    pub equal: f64,
}

/// How much of two texts is in the other one.
#[derive(Clone, Debug, PartialEq)]
pub struct Containment {
    /// The share of the letters of the first text that are in shared passages, 0 to 1.
    pub a_in_b: f64,
    /// The share of the letters of the second text that are in shared passages, 0 to 1.
    pub b_in_a: f64,
    /// The shared passages in the order of the first text, which do not overlap there.
    pub shared: Vec<SharedPassage>,
}

/// What a text is to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRelation {
    /// Each stands in the other one to four fifths or more, or they are near and neither does.
    Duplicate,
    /// Four fifths of it or more are in the other one, but not the other way round.
    ContainedIn,
    /// Four fifths of the other one or more are in it, but not the other way round.
    Contains,
}

/// A stretch of letters: where it begins in both texts, where it ends, and how many letters are equal.
#[derive(Clone, Copy)]
struct Stretch {
    a: [usize; 2],
    b: [usize; 2],
    equal: usize,
}

impl Containment {
    /// The share of a text from which on it stands in another one.
    pub const PART: f64 = 0.8;

    /// Compares two texts. `check` is called every few thousand letters; its error ends the work.
    ///
    /// ```
    /// use lookalike_text::fingerprint::Containment;
    /// let quote = "tickets that were bought in advance remain valid until the end of the year";
    /// let page = format!("Menu. News. The council said that {quote}. Contact.");
    /// let found = Containment::of(quote, &page, || Ok::<_, ()>(())).unwrap();
    /// assert_eq!((found.a_in_b, &found.shared[0].b), (1.0, &(34..34 + quote.len())));
    /// ```
    ///
    /// # Errors
    /// The error of `check`.
    pub fn of<E>(a: &str, b: &str, check: impl Fn() -> Result<(), E>) -> Result<Containment, E> {
        stoppable(check, |check| Self::checked(a, b, check))
    }

    fn checked(a: &str, b: &str, check: Check<'_>) -> Result<Containment, Stop> {
        let [a, b] = [Letters::of(a), Letters::of(b)];
        check()?;
        let stretches = joined(&equal_stretches(&a, &b, check)?);
        let all = [&a, &b].map(|letters| letters.as_slice().len());
        let is_long = |stretch: &&Stretch| {
            let length = |[from, to]: [usize; 2]| to - from;
            a.units(stretch.a[0], stretch.a[1]) >= MIN_UNITS
                || length(stretch.a) == all[0]
                || length(stretch.b) == all[1]
        };
        let long: Vec<&Stretch> = stretches.iter().filter(is_long).collect();
        let passage = |stretch: &&Stretch| SharedPassage {
            a: a.chars(stretch.a[0], stretch.a[1]),
            b: b.chars(stretch.b[0], stretch.b[1]),
            equal: stretch.equal as f64 / (stretch.a[1] - stretch.a[0]) as f64,
        };
        let share = |covered: usize, all: &Letters| covered as f64 / all.as_slice().len().max(1) as f64;
        let of_a: usize = long.iter().map(|stretch| stretch.a[1] - stretch.a[0]).sum();
        let of_b = covered(long.iter().map(|stretch| stretch.b).collect());
        Ok(Containment {
            a_in_b: share(of_a, &a),
            b_in_a: share(of_b, &b),
            shared: long.iter().map(passage).collect(),
        })
    }

    /// What the first text is to the second, if that can be told from the shares: near texts of which neither
    /// stands in the other one are duplicates, others are not.
    pub fn relation(&self) -> Option<TextRelation> {
        match (self.a_in_b >= Self::PART, self.b_in_a >= Self::PART) {
            (true, true) => Some(TextRelation::Duplicate),
            (true, false) => Some(TextRelation::ContainedIn),
            (false, true) => Some(TextRelation::Contains),
            (false, false) => None,
        }
    }

    /// Estimates both shares, without passages, by the Jaccard similarity of two texts and their lengths in
    /// characters.
    ///
    /// ```
    /// use lookalike_text::fingerprint::{Containment, TextRelation};
    /// let of = |a, b| Containment::estimated(0.5, a, b).relation();
    /// assert_eq!(of(600, 1_200), Some(TextRelation::ContainedIn));
    /// assert_eq!((of(1_200, 600), of(600, 600)), (Some(TextRelation::Contains), None));
    /// ```
    pub fn estimated(similarity: f64, a: u32, b: u32) -> Containment {
        let [a, b] = [a, b].map(|characters| f64::from(characters.max(1)));
        let shared = similarity * (a + b) / (1.0 + similarity);
        let share = |all: f64| (shared / all).min(1.0);
        Containment { a_in_b: share(a), b_in_a: share(b), shared: Vec::new() }
    }

    /// Whether two texts of so many sampled grams share a passage if they have `shared` of them in common.
    pub fn shares_passage(shared: usize, a: usize, b: usize) -> bool {
        shared >= SHARED_GRAMS.min(a).min(b).max(MIN_SHARED_GRAMS)
    }

    /// Estimates the containment by the sampled grams of both texts, without those that `is_left_out` names.
    /// A passage begins and ends with a sampled gram, so it is shorter than in [`Containment::of`] by about a
    /// hundred letters.
    pub fn of_grams(a: &[Gram], b: &[Gram], is_left_out: impl Fn(u64) -> bool) -> Containment {
        let kept = |grams: &[Gram]| -> Vec<Gram> {
            grams.iter().filter(|gram| !is_left_out(gram.hash)).copied().collect()
        };
        let [a, b] = [kept(a), kept(b)];
        let places: HashMap<u64, usize, RandomState> = (b.iter().map(|gram| gram.hash)).zip(0..).collect();
        let mut stretches: Vec<Stretch> = Vec::new();
        for (at, gram) in a.iter().enumerate() {
            let Some(&to) = places.get(&gram.hash) else { continue };
            let follows = |last: &Stretch| {
                let is_near = |end: usize, next: usize| next >= end && next - end <= MISSED;
                is_near(last.a[1], at) && is_near(last.b[1], to)
            };
            match stretches.last_mut() {
                Some(last) if follows(last) => {
                    (last.a[1], last.b[1]) = (at + 1, to + 1);
                    last.equal += 1;
                }
                _ => stretches.push(Stretch { a: [at, at + 1], b: [to, to + 1], equal: 1 }),
            }
        }
        let chars =
            |grams: &[Gram], [from, to]: [usize; 2]| grams[from].from as usize..grams[to - 1].to as usize;
        let passage = |stretch: &Stretch| SharedPassage {
            a: chars(&a, stretch.a),
            b: chars(&b, stretch.b),
            equal: stretch.equal as f64 / (stretch.a[1] - stretch.a[0]) as f64,
        };
        let share = |of: fn(&Stretch) -> [usize; 2], all: &[Gram]| {
            covered(stretches.iter().map(of).collect()) as f64 / all.len().max(1) as f64
        };
        Containment {
            a_in_b: share(|stretch| stretch.a, &a),
            b_in_a: share(|stretch| stretch.b, &b),
            shared: stretches.iter().map(passage).collect(),
        }
    }
}

/// The stretches of equal letters, in the order of the first text.
fn equal_stretches(a: &Letters, b: &Letters, check: Check<'_>) -> Result<Vec<Stretch>, Stop> {
    // Sorted pairs of a gram and its place take a third of the memory of a hash map.
    let mut places: Vec<(u64, u32)> = Vec::with_capacity(b.as_slice().len());
    places.extend(b.grams().map(|(from, gram)| (gram, from as u32)));
    places.sort_unstable();
    // A filter with eight bits for each gram rejects most other grams without a search, which waits for
    // memory.
    let mut present = vec![0_u64; (places.len() / 8).next_power_of_two()];
    let last = present.len() - 1;
    let slot = |gram: u64| (gram as usize & last, 1_u64 << (gram >> 58));
    for (gram, _) in &places {
        let (at, bit) = slot(*gram);
        present[at] |= bit;
    }
    let [a_letters, b_letters] = [a.as_slice(), b.as_slice()];
    let mut found: Vec<Stretch> = Vec::new();
    let (mut free_from, mut diagonal) = (0, None);
    for (number, (from, gram)) in a.grams().enumerate() {
        if number % CHECK == 0 {
            check()?;
        }
        let (at, bit) = slot(gram);
        if from < free_from || present[at] & bit == 0 {
            continue;
        }
        let first = places.partition_point(|(other, _)| *other < gram);
        let of_gram = places[first..].iter().take(PLACES).take_while(|(other, _)| *other == gram);
        let length =
            |to: usize| a_letters[from..].iter().zip(&b_letters[to..]).take_while(|(a, b)| a == b).count();
        // The place that continues the passage before, or else the longest.
        let starts = of_gram.map(|(_, to)| *to as usize);
        let continues = |to: usize| diagonal == Some(to as isize - from as isize);
        let Some((length, to)) =
            starts.map(|to| (length(to), to)).max_by_key(|(length, to)| (continues(*to), *length))
        else {
            continue;
        };
        if length == 0 {
            continue;
        }
        // Letters before the gram that agree too, up to the stretch before.
        let before = a_letters[free_from..from].iter().rev().zip(b_letters[..to].iter().rev());
        let before = before.take_while(|(a, b)| a == b).count();
        found.push(Stretch {
            a: [from - before, from + length],
            b: [to - before, to + length],
            equal: before + length,
        });
        free_from = from + length;
        diagonal = Some(to as isize - from as isize);
    }
    Ok(found)
}

/// Joins stretches that follow each other in both texts with small gaps.
fn joined(stretches: &[Stretch]) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    for &next in stretches {
        let follows = |last: &Stretch| {
            let gap = |last: [usize; 2], next: [usize; 2]| {
                next[0].checked_sub(last[1]).is_some_and(|gap| gap <= GAP)
            };
            gap(last.a, next.a) && gap(last.b, next.b)
        };
        match found.last_mut() {
            Some(last) if follows(last) => {
                (last.a[1], last.b[1]) = (next.a[1], next.b[1]);
                last.equal += next.equal;
            }
            _ => found.push(next),
        }
    }
    found
}

/// The number of letters in these ranges, each counted once.
fn covered(mut ranges: Vec<[usize; 2]>) -> usize {
    ranges.sort_unstable();
    let mut end = 0;
    let mut sum = 0;
    for [from, to] in ranges {
        sum += to.saturating_sub(from.max(end));
        end = end.max(to);
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::features::sampled_grams;

    fn containment(a: &str, b: &str) -> Containment {
        let Ok(found) = Containment::of(a, b, || Ok::<_, Infallible>(()));
        found
    }

    /// Sentences of invented words, which share none with those of other numbers.
    fn article(from: u64, sentences: u64) -> String {
        let word = |number: u64| -> String {
            let seed = xxhash_rust::xxh3::xxh3_64(&number.to_le_bytes());
            let syllables = ["ba", "ko", "lu", "mi", "ne", "ra", "so", "ti"];
            (0..4).map(|at| syllables[(seed >> (3 * at + 20) & 7) as usize]).collect()
        };
        let sentence =
            |number: u64| (0..14).map(|at| word(number * 14 + at)).collect::<Vec<_>>().join(" ") + ". ";
        (from..from + sentences).map(sentence).collect()
    }

    fn part(text: &str, range: &Range<usize>) -> String {
        text.chars().skip(range.start).take(range.len()).collect()
    }

    #[test]
    fn an_article_is_found_inside_a_page_at_its_place() {
        let (own, start) = (article(0, 10), article(1_000, 50));
        let page = start.clone() + &own + &article(3_000, 50);
        let found = containment(&own, &page);
        assert!(found.a_in_b > 0.999 && (0.08..0.1).contains(&found.b_in_a), "{found:?}");
        let [shared] = &found.shared[..] else { panic!("{found:?}") };
        assert!(shared.equal > 0.999);
        assert_eq!(part(&page, &shared.b), part(&own, &shared.a));
        assert!(shared.b.start.abs_diff(start.len()) < 20, "{shared:?} {}", start.len());
    }

    #[test]
    fn changed_words_do_not_break_a_passage() {
        let own = article(0, 20);
        let words: Vec<&str> = own.split(' ').collect();
        let edited: Vec<&str> =
            words.iter().enumerate().map(|(at, word)| if at % 15 == 7 { "other" } else { word }).collect();
        let found = containment(&own, &edited.join(" "));
        assert_eq!(found.shared.len(), 1, "{found:?}");
        assert!(found.a_in_b > 0.95 && (0.85..0.97).contains(&found.shared[0].equal), "{found:?}");
    }

    #[test]
    fn the_other_script_and_other_marks_are_the_same_passage() {
        let simplified = "渡轮将在夏季期间每二十分钟开一班,乘客可以提前\
                在售票处购买车票。去年买的旧车票仍然有效。";
        let traditional = "渡輪將在夏季期間每二十分鐘開一班，乘客可以提前\
                在售票處\n購買車票！去年買的舊車票仍然有效";
        let found = containment(simplified, &format!("首页 新闻 {traditional} 联系我们"));
        assert!(found.a_in_b > 0.999 && found.shared.len() == 1, "{found:?}");
    }

    #[test]
    fn other_texts_share_nothing() {
        let found = containment(&article(0, 30), &article(500, 30));
        assert!(found.shared.is_empty() && found.a_in_b < 1e-9, "{found:?}");
        assert!(containment("", "").shared.is_empty());
        // A phrase alone is no passage.
        assert!(containment("the end of the year. Yes", "Before the end of the year, no").shared.is_empty());
        assert!(containment(&"a".repeat(100_000), &"a".repeat(90_000)).a_in_b > 0.8);
    }

    fn by_grams(a: &str, b: &str) -> Containment {
        Containment::of_grams(&sampled_grams(a), &sampled_grams(b), |_| false)
    }

    #[test]
    fn sampled_grams_estimate_the_shares_and_the_places() {
        let (own, start) = (article(0, 20), article(1_000, 50));
        let page = start.clone() + &own + &article(3_000, 50);
        let found = by_grams(&own, &page);
        assert!(found.a_in_b > 0.999 && (0.1..0.25).contains(&found.b_in_a), "{found:?}");
        let [shared] = &found.shared[..] else { panic!("{found:?}") };
        assert_eq!(part(&page, &shared.b), part(&own, &shared.a));
        assert!(shared.b.start >= start.len() && shared.a.len() + 400 > own.len(), "{shared:?}");
        let back = by_grams(&page, &own);
        assert_eq!((back.a_in_b, back.b_in_a), (found.b_in_a, found.a_in_b));
        assert!(by_grams(&own, &start).shared.is_empty() && by_grams("", &page).a_in_b < 1e-9);
    }

    #[test]
    fn grams_that_are_left_out_count_for_neither_text() {
        let (menu, a, b) = (article(5_000, 15), article(0, 20), article(100, 20));
        let common: Vec<u64> = sampled_grams(&menu).iter().map(|gram| gram.hash).collect();
        let [one, two] = [&a, &b].map(|text| sampled_grams(&format!("{menu}{text}")));
        let with = Containment::of_grams(&one, &two, |_| false);
        let without = Containment::of_grams(&one, &two, |hash| common.contains(&hash));
        assert!(with.a_in_b > 0.2 && without.a_in_b < 0.1, "{with:?} {without:?}");
        let article = sampled_grams(&a);
        let contained = Containment::of_grams(&article, &one, |hash| common.contains(&hash));
        assert!(contained.b_in_a > 0.9 && contained.a_in_b > 0.99, "{contained:?}");
    }

    #[test]
    fn changed_words_do_not_break_a_passage_of_grams() {
        let own = article(0, 60);
        let words: Vec<&str> = own.split(' ').collect();
        let edited: Vec<&str> =
            words.iter().enumerate().map(|(at, word)| if at % 20 == 7 { "other" } else { word }).collect();
        let found = by_grams(&own, &edited.join(" "));
        let equal: f64 = found.shared.iter().map(|shared| shared.equal).sum();
        assert!(found.a_in_b > 0.9 && found.shared.len() < 4, "{found:?}");
        assert!(equal < found.shared.len() as f64, "{found:?}");
    }

    proptest! {
        #[test]
        fn estimates_are_in_range(
            (a, b) in (prop::collection::vec(0_u64..20, 0..30), prop::collection::vec(0_u64..20, 0..30))
        ) {
            let grams = |hashes: Vec<u64>| -> Vec<Gram> {
                let mut seen = HashSet::new();
                let once = hashes.into_iter().filter(|hash| seen.insert(*hash));
                (0..).zip(once).map(|(at, hash)| Gram { hash, from: at * 5, to: at * 5 + 16 }).collect()
            };
            let (a, b) = (grams(a), grams(b));
            let found = Containment::of_grams(&a, &b, |hash| hash == 3);
            prop_assert!((0.0..=1.0).contains(&found.a_in_b) && (0.0..=1.0).contains(&found.b_in_a));
            let both = |gram: &&Gram| gram.hash != 3 && b.iter().any(|other| other.hash == gram.hash);
            let shared = a.iter().filter(both).count() as f64;
            let own = a.iter().filter(|gram| gram.hash != 3).count().max(1) as f64;
            prop_assert!(found.a_in_b >= shared / own - 1e-9);
        }

        #[test]
        fn shares_and_places_are_in_range(
            (a, b, c) in ("[a-c字 ]{0,90}", "[a-c字 ]{0,90}", "[a-c字 ]{0,60}")
        ) {
            let (one, two) = (format!("{a}{c}"), format!("{c}{b}"));
            let found = containment(&one, &two);
            prop_assert!((0.0..=1.0).contains(&found.a_in_b) && (0.0..=1.0).contains(&found.b_in_a));
            let mut end = 0;
            for shared in &found.shared {
                prop_assert!(shared.a.start >= end && shared.a.end <= one.chars().count());
                prop_assert!(shared.b.start < shared.b.end && shared.b.end <= two.chars().count());
                prop_assert!(shared.equal > 0.0 && shared.equal <= 1.0);
                end = shared.a.end;
            }
        }
    }
}
