//! The comparison of two texts word by word.
//!
//! The equal and removed parts are the first text, the equal and added ones the second. Of texts with up
//! to 8,000 tokens each, the fewest possible tokens are removed and added. Work and memory are bounded by the
//! lengths of the texts, and the result depends on the texts alone: no clock ends the search.
//!
//! Stretches between two equal stretches are compared by a longest common subsequence if their share of
//! [`Limits::total`] suffices. Longer ones are first divided, as in a patience diff: at sequences of 16
//! tokens that both sides have equally often, then at sequences of 4 and at single tokens that both have
//! once. A stretch that is too long even then is removed and added as a whole.
//!
//! *Absent*: moved passages; `containment` reports them.

use std::collections::HashMap;
use std::ops::Range;

use crate::tokens;

/// The lengths of the sequences that divide long stretches, in tokens.
const GRAMS: [usize; 3] = [16, 4, 1];
/// Maximum number of equal parts. Of more, the shortest ones count as changed.
const PARTS: usize = 8_000;
/// A table of 8 MiB for a stretch, and some 30 ms for all of them.
const LIMITS: Limits = Limits { cells: 1 << 26, total: 1 << 30 };

/// A part of a word-by-word comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is in both texts.
    Equal(String),
    /// It is only in the first text.
    Removed(String),
    /// It is only in the second text.
    Added(String),
}

/// Compares two texts word by word.
pub fn word_diff(a: &str, b: &str) -> Vec<Change> {
    let [a, b] = [a, b].map(tokens);
    let mut numbers = HashMap::new();
    let [of_a, of_b] = [&a, &b].map(|tokens| numbered(tokens, &mut numbers));
    let mut found = equal_stretches(&of_a, &of_b, LIMITS);
    drop_shortest(&mut found);
    align(&mut found, &a, &b);
    changes(&a, &b, &found)
}

/// Gives equal tokens equal numbers.
fn numbered<'a>(tokens: &[&'a str], numbers: &mut HashMap<&'a str, u32>) -> Vec<u32> {
    let mut number = |token: &&'a str| {
        let next = u32::try_from(numbers.len()).expect("a text has fewer than 2^32 tokens");
        *numbers.entry(token).or_insert(next)
    };
    tokens.iter().map(&mut number).collect()
}

/// Equal tokens of both sides: where they begin, and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Equal {
    a: usize,
    b: usize,
    len: usize,
}

/// Leaves out the shortest equal stretches until there are at most [`PARTS`].
fn drop_shortest(found: &mut Vec<Equal>) {
    let mut least = 1;
    while found.len() > PARTS {
        least *= 2;
        found.retain(|equal| equal.len >= least);
    }
}

/// Moves what is only removed or only added, and could as well begin earlier or later, to where a paragraph,
/// a sentence or a word begins.
fn align(found: &mut [Equal], a: &[&str], b: &[&str]) {
    for at in 1..found.len() {
        let [.., before, after] = &mut found[..=at] else { continue };
        let (start_a, start_b) = (before.a + before.len, before.b + before.len);
        let (tokens, start, end) = match (after.a - start_a, after.b - start_b) {
            (_, 0) => (a, start_a, after.a),
            (0, _) => (b, start_b, after.b),
            _ => continue,
        };
        let earlier = (1..before.len).take_while(|by| tokens[start - by] == tokens[end - by]).count();
        let later = (0..after.len - 1).take_while(|by| tokens[start + by] == tokens[end + by]).count();
        let places = start - earlier..=start + later;
        let best = places.max_by_key(|place| beginning(&tokens[..*place])).unwrap_or(start);
        before.len = before.len + best - start;
        after.len = after.len + start - best;
        (after.a, after.b) = (after.a + best - start, after.b + best - start);
    }
}

/// What begins after these tokens: 3 is a paragraph, 2 a sentence, 1 a word, 0 none of these.
fn beginning(before: &[&str]) -> u8 {
    let is_end = |mark: &str| matches!(mark, "." | "!" | "?" | "。" | "！" | "？");
    match before {
        [.., last] if last.contains('\n') => 3,
        [.., mark, " "] if is_end(mark) => 2,
        [.., mark] if is_end(mark) => 2,
        [.., last] if !last.ends_with(char::is_alphanumeric) => 1,
        _ => 0,
    }
}

/// The parts that these equal stretches divide the texts into.
fn changes(a: &[&str], b: &[&str], found: &[Equal]) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut push = |tokens: &[&str], change: fn(String) -> Change| {
        if !tokens.is_empty() {
            changes.push(change(tokens.concat()));
        }
    };
    let (mut at_a, mut at_b) = (0, 0);
    let end = Equal { a: a.len(), b: b.len(), len: 0 };
    for equal in found.iter().chain([&end]) {
        push(&a[at_a..equal.a], Change::Removed);
        push(&b[at_b..equal.b], Change::Added);
        (at_a, at_b) = (equal.a + equal.len, equal.b + equal.len);
        push(&a[equal.a..at_a], Change::Equal);
    }
    changes
}

/// Limits of the search for a longest common subsequence, in cells: a cell is a token of one side and one
/// of the other side. 64 cells are computed at a time and stored in 8 bytes.
#[derive(Clone, Copy)]
struct Limits {
    /// The most cells of a stretch.
    cells: usize,
    /// The most cells of all stretches. A stretch gets the share of it that it has of the texts.
    total: usize,
}

/// The equal stretches of two sequences, in order.
fn equal_stretches(a: &[u32], b: &[u32], limits: Limits) -> Vec<Equal> {
    let share = limits.total / (a.len() + b.len()).max(1);
    let mut search = Search { a, b, most: limits.cells, share, found: Vec::new() };
    search.between(0..a.len(), 0..b.len(), &GRAMS);
    search.found
}

struct Search<'a> {
    a: &'a [u32],
    b: &'a [u32],
    /// Maximum number of cells of a stretch.
    most: usize,
    /// Maximum number of cells of a stretch for each of its tokens.
    share: usize,
    found: Vec<Equal>,
}

impl Search<'_> {
    fn push(&mut self, a: usize, b: usize, len: usize) {
        match self.found.last_mut() {
            Some(last) if (last.a + last.len, last.b + last.len) == (a, b) => last.len += len,
            _ if len > 0 => self.found.push(Equal { a, b, len }),
            _ => {}
        }
    }

    /// Finds what is equal in two ranges. `grams` are the lengths at which they may be divided.
    fn between(&mut self, mut a: Range<usize>, mut b: Range<usize>, grams: &[usize]) {
        let start = equal_at_start(&self.a[a.clone()], &self.b[b.clone()]);
        self.push(a.start, b.start, start);
        (a.start, b.start) = (a.start + start, b.start + start);
        let end = equal_at_end(&self.a[a.clone()], &self.b[b.clone()]);
        (a.end, b.end) = (a.end - end, b.end - end);
        let (cells, tokens) = (a.len().saturating_mul(b.len()), a.len() + b.len());
        let after = (a.end, b.end);
        if cells <= self.most.min(self.share.saturating_mul(tokens)) {
            self.subsequence(a, b);
        } else if let [gram, finer @ ..] = grams {
            self.divide(a, b, *gram, finer);
        }
        self.push(after.0, after.1, end);
    }

    /// Divides two ranges at sequences of `gram` tokens that are in both.
    fn divide(&mut self, a: Range<usize>, b: Range<usize>, gram: usize, finer: &[usize]) {
        let both = in_both(&self.a[a.clone()], &self.b[b.clone()], gram);
        let (mut at_a, mut at_b) = (a.start, b.start);
        for (in_a, in_b) in increasing(&both) {
            let (next_a, next_b) = (a.start + in_a, b.start + in_b);
            if next_a < at_a || next_b < at_b {
                continue;
            }
            self.between(at_a..next_a, at_b..next_b, finer);
            let len = equal_at_start(&self.a[next_a..a.end], &self.b[next_b..b.end]);
            self.push(next_a, next_b, len);
            (at_a, at_b) = (next_a + len, next_b + len);
        }
        self.between(at_a..a.end, at_b..b.end, finer);
    }

    /// Finds a longest common subsequence of two ranges.
    fn subsequence(&mut self, a: Range<usize>, b: Range<usize>) {
        // The table has the fewest unused bits if its rows are the longer side.
        let is_longer = a.len() >= b.len();
        let [part_a, part_b] = [&self.a[a.clone()], &self.b[b.clone()]];
        let [long, short] = if is_longer { [part_a, part_b] } else { [part_b, part_a] };
        for (in_long, in_short) in common_subsequence(long, short) {
            let (in_a, in_b) = if is_longer { (in_long, in_short) } else { (in_short, in_long) };
            self.push(a.start + in_a, b.start + in_b, 1);
        }
    }
}

fn equal_at_start(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn equal_at_end(a: &[u32], b: &[u32]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

/// The positions of sequences of `gram` tokens that are in both sides, in the order of `a`: of the longest
/// ones those that occur equally often, the first with the first and so on, of others those that occur once.
fn in_both(a: &[u32], b: &[u32], gram: usize) -> Vec<(usize, usize)> {
    let mut all: Vec<(u64, usize)> = Vec::with_capacity(a.len() + b.len());
    all.extend(a.windows(gram).map(digest).zip(0..));
    all.extend(b.windows(gram).map(digest).zip(a.len()..));
    all.sort_unstable();
    let mut found = Vec::new();
    for same in all.chunk_by(|(one, _), (other, _)| one == other) {
        let (in_a, in_b) = same.split_at(same.partition_point(|(_, at)| *at < a.len()));
        if in_a.len() == in_b.len() && (in_a.len() == 1 || gram == GRAMS[0]) {
            found.extend(in_a.iter().zip(in_b).map(|((_, in_a), (_, in_b))| (*in_a, in_b - a.len())));
        }
    }
    // Different sequences may have equal digests.
    found.retain(|(in_a, in_b)| a[*in_a..in_a + gram] == b[*in_b..in_b + gram]);
    found.sort_unstable();
    found
}

/// A number that is nearly always different for different sequences.
fn digest(tokens: &[u32]) -> u64 {
    tokens.iter().fold(0, |sum: u64, token| {
        (sum ^ u64::from(*token)).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    })
}

/// A longest sequence of pairs in which both positions grow. The pairs are in the order of the first one.
fn increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The last pair of the best sequence of each length, and the pair before each pair.
    let mut last: Vec<usize> = Vec::new();
    let mut before = Vec::with_capacity(pairs.len());
    for (number, (_, in_b)) in pairs.iter().enumerate() {
        let length = last.partition_point(|other| pairs[*other].1 < *in_b);
        before.push(length.checked_sub(1).map(|shorter| last[shorter]));
        match last.get_mut(length) {
            Some(end) => *end = number,
            None => last.push(number),
        }
    }
    let mut found: Vec<(usize, usize)> =
        std::iter::successors(last.last().copied(), |number| before[*number]).map(|at| pairs[at]).collect();
    found.reverse();
    found
}

/// A longest common subsequence, as positions in both sides, in order.
///
/// H. Hyyrö, "Bit-parallel LCS-length computation revisited" (2004), with all rows kept: bit `i` of row `j`
/// is 0 if the first `j` tokens of `short` have one more in common with the first `i + 1` of `long` than
/// with the first `i`.
fn common_subsequence(long: &[u32], short: &[u32]) -> Vec<(usize, usize)> {
    let words = long.len().div_ceil(64);
    let places = Places::of(long);
    let mut rows = Vec::with_capacity((short.len() + 1) * words);
    rows.resize(words, u64::MAX);
    let mut equal = vec![0; words];
    for token in short {
        places.mark(*token, &mut equal);
        push_row(&mut rows, &equal);
    }
    let grows = |i: usize, j: usize| rows[j * words + i / 64] >> (i % 64) & 1 == 0;
    let (mut i, mut j) = (long.len(), short.len());
    let mut found = Vec::new();
    while i > 0 && j > 0 {
        if long[i - 1] == short[j - 1] {
            (i, j) = (i - 1, j - 1);
            found.push((i, j));
        } else if grows(i - 1, j) {
            j -= 1;
        } else {
            i -= 1;
        }
    }
    found.reverse();
    found
}

/// Computes the next row from the last one; `equal` has a bit for each token of `long` that is that of the
/// row.
fn push_row(rows: &mut Vec<u64>, equal: &[u64]) {
    let last = rows.len() - equal.len();
    let mut carry = 0;
    for (word, equal) in equal.iter().enumerate() {
        let before = rows[last + word];
        let (sum, over) = before.overflowing_add(before & equal);
        let (sum, more) = sum.overflowing_add(carry);
        carry = u64::from(over | more);
        rows.push(sum | (before & !equal));
    }
}

/// The positions of each token in a sequence.
struct Places(HashMap<u32, Vec<usize>>, HashMap<u32, Vec<u64>>);

impl Places {
    /// Tokens with more positions than a row has words have a bit mask: there are at most 64 such tokens.
    fn of(sequence: &[u32]) -> Places {
        let words = sequence.len().div_ceil(64);
        let mut few: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, token) in sequence.iter().enumerate() {
            few.entry(*token).or_default().push(at);
        }
        let many = few.extract_if(|_, places| places.len() > words);
        let many = many.map(|(token, places)| {
            let mut mask = vec![0; words];
            places.iter().for_each(|at| mask[at / 64] |= 1 << (at % 64));
            (token, mask)
        });
        let many = many.collect();
        Places(few, many)
    }

    /// Sets the bits of a token and no others.
    fn mark(&self, token: u32, bits: &mut [u64]) {
        match (self.0.get(&token), self.1.get(&token)) {
            (_, Some(mask)) => bits.copy_from_slice(mask),
            (places, None) => {
                bits.fill(0);
                places.into_iter().flatten().for_each(|at| bits[at / 64] |= 1 << (at % 64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The length of a longest common subsequence, by the table of the textbook.
    fn longest(a: &[u32], b: &[u32]) -> usize {
        let mut row = vec![0; b.len() + 1];
        for token in a {
            let before = row.clone();
            for (at, other) in b.iter().enumerate() {
                let same = before[at] + usize::from(token == other);
                row[at + 1] = if token == other { same } else { before[at + 1].max(row[at]) };
            }
        }
        row[b.len()]
    }

    /// Fails unless the stretches are equal, in order, and apart from each other.
    fn check(a: &[u32], b: &[u32], found: &[Equal]) {
        let (mut at_a, mut at_b) = (0, 0);
        for equal in found {
            assert!(equal.len > 0 && equal.a >= at_a && equal.b >= at_b, "{found:?}");
            assert!(at_a == 0 && at_b == 0 || equal.a > at_a || equal.b > at_b, "{found:?}");
            (at_a, at_b) = (equal.a + equal.len, equal.b + equal.len);
            assert_eq!(a[equal.a..at_a], b[equal.b..at_b]);
        }
    }

    /// Both texts, put together from the parts.
    fn joined(changes: &[Change]) -> [String; 2] {
        let [mut a, mut b] = [String::new(), String::new()];
        for change in changes {
            match change {
                Change::Equal(text) => {
                    a.push_str(text);
                    b.push_str(text);
                }
                Change::Removed(text) => a.push_str(text),
                Change::Added(text) => b.push_str(text),
            }
        }
        [a, b]
    }

    fn tokens_of(most: u32, length: usize) -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(0..most, 0..length)
    }

    fn pairs() -> impl Strategy<Value = (Vec<u32>, Vec<u32>)> {
        (1_u32..60).prop_flat_map(|most| (tokens_of(most, 300), tokens_of(most, 300)))
    }

    /// Texts, and copies of them with some words replaced, left out and repeated.
    fn edited(words: &[&str], edits: &[(usize, u8)]) -> [String; 2] {
        let mut copy: Vec<&str> = words.to_vec();
        for (at, edit) in edits {
            let at = at % copy.len();
            match edit % 3 {
                0 => copy[at] = "另外",
                1 => copy.insert(at, words[(at * 7) % words.len()]),
                _ => drop(copy.splice(at..(at + 9).min(copy.len() - 1), [])),
            }
        }
        [words.concat(), copy.concat()]
    }

    proptest! {
        #[test]
        fn the_fewest_tokens_change((a, b) in pairs()) {
            let found = equal_stretches(&a, &b, LIMITS);
            check(&a, &b, &found);
            prop_assert_eq!(found.iter().map(|equal| equal.len).sum::<usize>(), longest(&a, &b));
        }

        #[test]
        fn any_limit_leaves_both_sides_whole(
            (a, b) in pairs(),
            (cells, total) in (0_usize..2_000, 0_usize..9_000),
        ) {
            let found = equal_stretches(&a, &b, Limits { cells, total });
            check(&a, &b, &found);
            prop_assert!(found.iter().map(|equal| equal.len).sum::<usize>() <= longest(&a, &b));
        }

        #[test]
        fn the_parts_are_both_texts(a in "[ab 船。\\n]{0,80}", b in "[ab 船。\\n]{0,80}") {
            let changes = word_diff(&a, &b);
            prop_assert_eq!(joined(&changes), [a, b]);
            let is_equal = |change: &Change| matches!(change, Change::Equal(_));
            prop_assert!(changes.windows(2).all(|two| !(is_equal(&two[0]) && is_equal(&two[1]))));
        }

        #[test]
        fn edits_of_a_long_text_are_found(edits in prop::collection::vec((0..60_000_usize, 0_u8..3), 1..40)) {
            let words: Vec<String> = (0..30_000).map(|n| format!("word{} ", n * 7_919 % 4_001)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let [a, b] = edited(&words, &edits);
            let changes = word_diff(&a, &b);
            prop_assert_eq!(joined(&changes), [a, b]);
            let changed: usize = changes.iter().map(|change| match change {
                Change::Equal(_) => 0,
                Change::Removed(text) | Change::Added(text) => tokens(text).len(),
            }).sum();
            // An edit removes at most 9 words with their spaces, or puts a word for another one.
            prop_assert!(changed <= edits.len() * 18, "{changed} of {} edits", edits.len());
        }
    }

    #[test]
    fn the_longest_increasing_pairs_are_found() {
        let pairs: Vec<(usize, usize)> = [3, 0, 4, 1, 2, 9, 8, 5].into_iter().enumerate().collect();
        assert_eq!(increasing(&pairs), [(1, 0), (3, 1), (4, 2), (7, 5)]);
        assert_eq!(increasing(&[]), []);
    }

    #[test]
    fn texts_of_1_mib_made_to_be_slow_stay_whole_and_have_few_parts() {
        let numbered = |seed: usize, most: usize| -> String {
            let word = |n: usize| (n ^ seed).wrapping_mul(0x9E37_79B9) >> 7 & most;
            (0..(1 << 20) / 8).map(|n| format!("{:<7} ", format!("w{}", word(n)))).collect()
        };
        let letters = |seed: usize| -> String {
            (0..1 << 19)
                .map(|n: usize| if n.wrapping_mul(n ^ seed) >> 9 & 1 == 0 { "a " } else { "b " })
                .collect()
        };
        let texts = [
            ("one word", ["a ".repeat(1 << 19), "a ".repeat(1 << 18)]),
            ("no common word", [numbered(0, usize::MAX), "b ".repeat(1 << 19)]),
            ("two words", [letters(5), letters(77)]),
            ("a thousand words", [numbered(1, 1023), numbered(70, 1023)]),
            ("the same words in another order", [numbered(0, 0xF_FFFF), numbered(0xFFF, 0xF_FFFF)]),
        ];
        for (name, [a, b]) in texts {
            let changes = word_diff(&a, &b);
            println!("{name}: {} parts", changes.len());
            assert!(changes.len() <= 3 * PARTS + 2, "{name}: {} parts", changes.len());
            assert!(joined(&changes) == [a, b], "{name}");
        }
    }

    #[test]
    fn what_is_added_begins_where_a_line_or_a_sentence_begins() {
        let equal = |text: &str| Change::Equal(text.to_owned());
        for [before, new, after] in [
            ["A b.\n", "X b.\n", "C b.\n"],
            ["It is. ", "He is. ", "She is."],
            ["船很老。", "桥很老。", "路很老。"],
        ] {
            let whole = format!("{before}{new}{after}");
            let changes = word_diff(&whole, &format!("{before}{after}"));
            assert_eq!(changes, [equal(before), Change::Removed(new.to_owned()), equal(after)]);
            let changes = word_diff(&format!("{before}{after}"), &whole);
            assert_eq!(changes, [equal(before), Change::Added(new.to_owned()), equal(after)]);
        }
    }

    #[test]
    fn nothing_is_compared_with_something() {
        assert_eq!(word_diff("", ""), []);
        assert_eq!(word_diff("船", ""), [Change::Removed("船".to_owned())]);
        assert_eq!(word_diff("", "船"), [Change::Added("船".to_owned())]);
    }
}
