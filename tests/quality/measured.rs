//! What is measured of profiles, on small sets with known results.

use lookalike_eval::{Judged, Labels, Set};
use lookalike_text::fingerprint::{Banding, MinHash, Profile};

use crate::measures::by_kind::by_kind;
use crate::measures::containment::containment_table;
use crate::measures::dropped::{dropped_pairs, dropped_table, judge};
use crate::measures::halves::{Split, halves, halves_table, part};
use crate::measures::kinds::{EDIT_KINDS, SPELLING_KINDS};
use crate::measures::main_text::{ExtractedPage, Score, main_text_table};
use crate::measures::min_hash::banded;
use crate::measures::second_check::second_check;
use crate::measures::tables::{self, f1_undisputed};
use crate::word;

/// Two copies of one text, a text without features, and another text.
fn two_copies() -> Set {
    let text = "A long sentence about harbours, with many words that others do not have. ";
    let texts = vec![text.repeat(2), text.repeat(3), String::new(), "。完全不同的文字".into()];
    let labels = Labels { positive: [(0, 1)].into(), ..Labels::default() };
    Set { name: "own".into(), texts, labels, edits: vec![] }
}

#[test]
fn spellings_are_found_and_other_texts_are_not() {
    let sentence = |n: usize| (0..12).map(|at| word(n * 12 + at)).collect::<String>() + "end. ";
    let text = |n: usize| (0..12).map(|at| sentence(n * 12 + at)).collect();
    let profiles = ["copies-64", "minhash-copies"].map(|name| Profile::named(name).unwrap());
    let by = Profile::named("shingles-64").unwrap();
    let found = by_kind(&profiles, by, "own", (0..30).map(text).collect(), 1);
    assert_eq!((found.kinds.len(), &found.wrong), (EDIT_KINDS.len() + SPELLING_KINDS.len(), &vec![0, 0]));
    let row = |name: &str| found.kinds.iter().find(|kind| kind.0 == name).unwrap();
    assert_eq!(row("capitals"), &("capitals".to_owned(), true, 30, vec![30, 30]));
    let (_, is_spelling, copies, right) = row("10 % of words replaced");
    assert!(!is_spelling && *copies == 30 && right[0] < right[1], "{right:?}");
    assert_eq!(row("tatweel").2, 0);
}

/// Texts of invented words, which share none.
fn texts() -> Vec<String> {
    let word = |number: u64| -> String {
        let seed = xxhash_rust::xxh3::xxh3_64(&number.to_le_bytes());
        (0..4)
            .map(|at| ["ba", "ko", "lu", "mi", "ne", "ra", "so", "ti"][(seed >> (3 * at + 20) & 7) as usize])
            .collect()
    };
    let sentence = |number: u64| -> String {
        (0..14).map(|at| word(number * 14 + at)).collect::<Vec<_>>().join(" ") + ". "
    };
    (0..24u64).map(|text| (text * 30..text * 30 + 30).map(sentence).collect()).collect()
}

#[test]
fn sampled_grams_find_an_article_in_a_tenth_of_a_page_and_no_other() {
    let table = containment_table("own", &texts(), 12, 1);
    let row = |start: &str| -> Vec<f64> {
        let row = table.lines().find(|line| line.starts_with(start)).unwrap();
        row.split('|').skip(3).filter_map(|cell| cell.trim().parse().ok()).collect()
    };
    let tenth = row("| 10 % | 0 % |");
    assert!(tenth[0] < 0.5 && tenth[2] > 0.9 && tenth[3] > 0.9 && tenth[4] > 0.9, "{table}");
    assert!(row("| 10 % | 5 % |")[2] > 0.9, "{table}");
    assert_eq!(row("| false hits |")[2..], [0.0; 3], "{table}");
    assert_eq!(containment_table("own", &texts(), 12, 1), table);
    assert!(containment_table("own", &["short".to_owned()], 12, 1).contains("Fewer than two"));
}

#[test]
fn dropped_documents_are_judged_by_the_labels() {
    let texts: Vec<String> =
        ["the harbour ferry will run every twenty minutes", "a quite different text of the town library"]
            .iter()
            .cycle()
            .take(4)
            .map(|text| (*text).to_owned())
            .collect();
    let positive = [(0, 2), (0, 1), (1, 2)].into();
    let set = Set {
        name: "a".to_owned(),
        texts,
        labels: Labels { positive, ..Labels::default() },
        edits: Vec::new(),
    };
    let pairs = dropped_pairs(&set, Profile::default_profile());
    assert_eq!(pairs, [(2, 0), (3, 1)]);
    // Document 1 is dropped by the labels, so its copy 2 is dropped for 0 alone.
    let judged = judge(&set, &pairs);
    assert_eq!((judged.precision, judged.recall), (0.5, 0.5));
    assert!(dropped_table(&[set], &[Profile::default_profile()]).contains("| 2 of 4 | 0.5000 |"));
}

#[test]
fn each_text_is_in_one_half_with_its_copies() {
    let text = |n: usize| -> String { (0..60).map(|at| word(n / 2 * 60 + at)).collect() };
    let texts: Vec<String> = (0..400).map(text).collect();
    let labels = Labels { positive: (0..200).map(|n| (2 * n, 2 * n + 1)).collect(), ..Labels::default() };
    let set = Set { name: "own".to_owned(), texts, labels, edits: Vec::new() };
    let side = |text: usize| (text / 2).is_multiple_of(3);
    let (one, other) = (part(&set, side), part(&set, |text| !side(text)));
    assert_eq!((one.texts.len(), one.labels.positive.len()), (134, 67));
    assert_eq!((other.texts.len(), other.labels.positive.len()), (266, 133));
    assert!(one.labels.positive.iter().all(|&(a, b)| one.texts[a as usize] == one.texts[b as usize]));
    let split = Split {
        profiles: vec![Profile::named("copies-128").unwrap()],
        alike_by: Profile::named("shingles-64").unwrap(),
        documents: None,
        duplicate_share: 1.0,
        splits: 1,
        seed: 1,
    };
    let results = halves(&set, &split);
    assert_eq!(results.len(), 2);
    let found = results[0].found.expect("a k is chosen");
    assert!(found.iter().all(|figure| *figure > 0.99), "{found:?}");
    assert!(halves_table(&results, 1.0).contains("is kept in 2 of 2 halves"));
}

#[test]
fn shingles_are_counted() {
    for (marked, extracted, precision, recall) in [
        ("a b c d e", "a b c d e", Some(1.0), Some(1.0)),
        ("a b c d e", "x a b c d", Some(0.5), Some(0.5)),
        ("a b c d", "a b c d a b c d", Some(0.2), Some(1.0)),
        ("a, b. c-d", "a b (c) d!", Some(1.0), Some(1.0)),
        ("a b", "a b", Some(1.0), Some(1.0)),
        ("a b", "", None, Some(0.0)),
        ("", "a b", Some(0.0), None),
        ("", "", None, None),
    ] {
        assert_eq!(Score::of(marked, extracted), Score { precision, recall }, "{marked} | {extracted}");
    }
}

#[test]
fn pages_are_averaged() {
    let page = |main: &str| ExtractedPage {
        name: "p".to_owned(),
        marked: "a b c d".to_owned(),
        main: main.to_owned(),
        visible: String::new(),
    };
    let table = main_text_table(&[page("a b c d"), page("a b c d e")]);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 7, "{table}");
    // Two shingles are extracted from the second page, of which one is marked.
    assert_eq!(rows[4], "| all | 0.8571 | 0.7500 | 1.0000 | 0.0000 | – | 0.0000 |");
    assert!(rows[5].starts_with("| first half | 1.0000 |") && rows[6].contains("0.6667"), "{table}");
}

#[test]
fn copies_agree_in_a_band_and_others_do_not() {
    let set = two_copies();
    let banding = Banding { bands: 32, rows: 4 };
    let found = banded(&MinHash::ALL[1], banding, &set, &[0.2, 1.1]).unwrap();
    let all = Judged { precision: 1.0, precision_undisputed: 1.0, recall: 1.0 };
    assert_eq!(found.thresholds, [(0.2, all), (1.1, Judged { recall: 0.0, ..all })]);
    let table = tables::min_hash(&[set], &[vec![found]]);
    assert!(table.contains("| 0.20 | 1.000/1.000, 1.000 |"), "{table}");
}

#[test]
fn a_second_check_keeps_copies_and_its_table_has_the_best_threshold() {
    let mut set = two_copies();
    let [profile, by] = ["copies-64", "pairs-64"].map(|name| Profile::named(name).unwrap());
    let checked = second_check(profile, by, &set, 64, &[0.2, 0.9, 1.1]);
    let exact: Vec<&Judged> =
        checked.iter().filter(|check| check.by == "exact").map(|check| &check.found).collect();
    // Within 64 bits are all pairs of the three texts that have features.
    assert!(exact[0].recall > 0.99 && exact[0].precision > 0.99, "{exact:?}");
    assert!(exact[2].recall.abs() < 1e-9, "no similarity is above 1: {exact:?}");
    set.labels.disputed.insert((0, 3));
    let table = tables::second_checks(&[set], &[vec![("copies-64@1".to_owned(), 64, checked)]]);
    let row = table.lines().find(|line| line.contains("| exact |")).unwrap();
    assert!(row.starts_with("| `copies-64@1` k=64 | exact | the text |"), "{table}");
    assert!(row.ends_with("1.000/1.000, 1.000 (1.000) |"), "{table}");
}

#[test]
fn disputed_pairs_do_not_count_by_the_second_reading() {
    let found = Judged { precision: 1.0 / 3.0, precision_undisputed: 0.5, recall: 0.5 };
    assert!((f1_undisputed(&found) - 0.5).abs() < 1e-9);
}
