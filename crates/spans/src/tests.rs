//! The passes against a program that compares all windows.

use std::collections::HashMap;

use lookalike_text::{Located, located};
use proptest::prelude::*;

use super::*;

fn digests(tokens: &[Located]) -> Vec<u64> {
    tokens.iter().map(|token| token.digest).collect()
}

/// The cuts of each text.
fn found(texts: &[String], length: usize, memory: usize) -> Vec<Vec<Cut>> {
    let folder = tempfile::tempdir().unwrap();
    let tokens: Vec<Vec<u64>> = texts.iter().map(|text| digests(&located(text))).collect();
    let mut grams = Grams::new(folder.path(), length, memory);
    for (number, digests) in (0..).zip(&tokens) {
        grams.add(number, &chosen_grams(digests, length)).unwrap();
    }
    let places = grams.places(folder.path(), memory).unwrap();
    let documents = places.documents();
    let mut windows = Windows::new(places, folder.path(), memory);
    for (number, digests) in (0..).zip(&tokens) {
        // A document without places need not be added.
        if documents.have(number) {
            windows.add(number, digests).unwrap();
        }
    }
    let mut hits = windows.hits(folder.path(), memory).unwrap();
    (0..texts.len() as u32).map(|number| cuts(&hits.of(number).unwrap(), length)).collect()
}

/// The same from a map with all windows.
fn naive(texts: &[String], length: usize) -> Vec<Vec<Cut>> {
    let mut seen: HashMap<Vec<u64>, u32> = HashMap::new();
    let mut of_text = |number: u32, text: &String| {
        let (digests, mut cut) = (digests(&located(text)), Vec::<Cut>::new());
        for (at, window) in digests.windows(length).enumerate() {
            let first = *seen.entry(window.to_vec()).or_insert(u32::MAX);
            if first == u32::MAX {
                seen.insert(window.to_vec(), number);
                continue;
            }
            match cut.last_mut().filter(|last| last.tokens.end >= at) {
                Some(last) => last.tokens.end = at + length,
                None => cut.push(Cut { tokens: at..at + length, first }),
            }
        }
        cut
    };
    (0..).zip(texts).map(|(number, text)| of_text(number, text)).collect()
}

/// Texts of several languages with planted passages.
fn texts() -> impl Strategy<Value = Vec<String>> {
    let part = prop_oneof![
        4 => (0_usize..6, 0_usize..50, 0_usize..60).prop_map(|(language, from, count)| {
            words(language, from, count)
        }),
        2 => (0_u64..u64::MAX, 0_usize..30).prop_map(|(seed, count)| {
            (0..count as u64).map(|at| format!("n{} ", seed.wrapping_mul(at + 1) % 100_000)).collect()
        }),
        1 => "\\PC{0,30}",
    ];
    proptest::collection::vec(proptest::collection::vec(part, 0..6).prop_map(|parts| parts.concat()), 0..12)
}

/// Some of the words of a fixed passage.
fn words(language: usize, from: usize, count: usize) -> String {
    let word = |at: usize| match language {
        0 => format!("Word{at}, "),
        1 => char::from_u32(0x4e00 + at as u32).unwrap().to_string(),
        2 => format!("слово{at} "),
        3 => char::from_u32(0xe01 + at as u32 % 40).unwrap().to_string(),
        4 => char::from_u32(0x3042 + at as u32 % 60).unwrap().to_string(),
        // A text that repeats itself.
        _ => format!("{} ", at % 3),
    };
    (from..from + count).map(word).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn cuts_are_those_of_all_windows(
        texts in texts(),
        length in prop_oneof![Just(20_usize), Just(21), Just(50)]
    ) {
        let expected = naive(&texts, length);
        for memory in [16 << 10, 1 << 20] {
            prop_assert_eq!(&found(&texts, length, memory), &expected);
        }
    }

    #[test]
    fn a_run_stands_once_in_what_is_left(texts in texts()) {
        let length = 20;
        let cut = found(&texts, length, 1 << 20);
        let (mut left, mut stood) = (HashMap::<Vec<u64>, usize>::new(), HashMap::<Vec<u64>, usize>::new());
        for (text, cuts) in texts.iter().zip(&cut) {
            let tokens = located(text);
            let is_cut = |at: usize| cuts.iter().any(|cut| cut.tokens.contains(&at));
            for (at, window) in digests(&tokens).windows(length).enumerate() {
                *stood.entry(window.to_vec()).or_default() += 1;
                if !(at..at + length).any(is_cut) {
                    *left.entry(window.to_vec()).or_default() += 1;
                }
            }
            // What is removed is whole tokens, and all others stay.
            let removed = edited(text, &removals(text, &tokens, cuts));
            let masked = edited(text, &masks(&tokens, cuts));
            let kept = (0..tokens.len()).filter(|at| !is_cut(*at)).map(|at| tokens[at].digest);
            let kept: Vec<u64> = kept.collect();
            prop_assert_eq!(&digests(&located(&removed)), &kept);
            prop_assert_eq!(&digests(&located(&masked)), &kept);
            prop_assert_eq!(masked.matches(MASK).count(), text.matches(MASK).count() + cuts.len());
            prop_assert!(!cuts.is_empty() || (&removed == text && &masked == text));
        }
        prop_assert!(left.values().all(|count| *count == 1));
        prop_assert_eq!(cut.iter().all(Vec::is_empty), stood.values().all(|count| *count == 1));
    }
}

#[test]
fn a_planted_passage_stays_where_it_stands_first() {
    let passage = words(0, 100, 50);
    let texts = [
        format!("a b {passage}c"),
        format!("{passage}{passage}d"),
        format!("中文{}e", words(1, 0, 49)),
        format!("中文{}e", words(1, 0, 60)),
        passage.replace(", ", "\n").to_uppercase(),
    ];
    let cut = found(&texts, 50, 1 << 20);
    assert_eq!(cut, naive(&texts, 50));
    let removed: Vec<String> = texts
        .iter()
        .zip(&cut)
        .map(|(text, cuts)| edited(text, &removals(text, &located(text), cuts)))
        .collect();
    assert_eq!((&removed[0], &*removed[1], &*removed[4]), (&texts[0], "d", ""));
    assert_eq!(removed[3], texts[3][texts[2].len() - 1..]);
    assert_eq!(cut[4][0].first, 0);
}

#[test]
fn two_words_do_not_become_one() {
    let tokens = located("abc中文def");
    let cut = [Cut { tokens: 1..3, first: 0 }];
    assert_eq!(edited("abc中文def", &removals("abc中文def", &tokens, &cut)), "abc def");
    let text = "abc\u{ad}中文def";
    assert_eq!(edited(text, &removals(text, &located(text), &cut)), "abc\u{ad} def");
    let text = "中abc文";
    assert_eq!(edited(text, &removals(text, &located(text), &[Cut { tokens: 1..2, first: 0 }])), "中文");
}

#[test]
fn a_million_equal_tokens_take_no_square_of_time() {
    let texts = ["a ".repeat(500_000), "a ".repeat(500_000)];
    let cut = found(&texts, 50, 8 << 20);
    assert_eq!(cut[0], [Cut { tokens: 1..500_000, first: 0 }]);
    assert_eq!(cut[1], [Cut { tokens: 0..500_000, first: 0 }]);
}
