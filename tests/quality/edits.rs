//! Texts that are cut and edited to measure profiles: each edit does what it is called.

use lookalike_text::fingerprint::Profile;

use crate::measures::kinds::{EDIT_KINDS, Editable, Kind, SPELLING_KINDS};
use crate::measures::one_word::{
    characters, is_dense, table_by_length, texts_of_length, with_one_word_replaced, words,
};
use crate::measures::pages::with_pages;
use crate::measures::pieces::{pieces, sentences};
use crate::measures::sentences::distinct_sentences;
use crate::word;

fn texts() -> Vec<String> {
    let sentence = |n: usize| (0..9).map(|at| word(n * 9 + at)).collect::<String>().trim().to_owned();
    let text = |n: usize| (0..12).map(|at| format!("Item {n}: {}. ", sentence(n * 12 + at))).collect();
    (0..6).map(text).collect()
}

#[test]
fn every_edit_changes_a_text_and_leaves_an_empty_one() {
    let texts = texts();
    let editable = Editable::of(&texts);
    for kind in EDIT_KINDS {
        let copy = editable.edited(2, kind, 7);
        assert_ne!(copy, texts[2], "{}", kind.name());
        assert_eq!(copy, editable.edited(2, kind, 7), "{}", kind.name());
    }
    let with_empty: Vec<String> = texts[..2].iter().cloned().chain(vec![String::new(); 2]).collect();
    let editable = Editable::of(&with_empty);
    for kind in EDIT_KINDS.into_iter().chain(SPELLING_KINDS) {
        // Texts next to an empty one may be edited by its words, of which there are none.
        (0..3).for_each(|number| drop(editable.edited(number, kind, 7)));
        let is_added = matches!(kind, Kind::Boilerplate(..) | Kind::SentenceInserted);
        assert!(editable.edited(3, kind, 7).is_empty() || is_added, "{}", kind.name());
    }
}

#[test]
fn edits_do_what_they_are_called() {
    let texts = texts();
    let editable = Editable::of(&texts);
    let of = |kind| editable.edited(1, kind, 3);
    let words = |text: &str| text.split_whitespace().count();
    let own = words(&texts[1]);
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    assert_eq!(of(Kind::Characters(5)).chars().count(), texts[1].chars().count());
    assert_eq!(words(&of(Kind::Words(10))), own);
    assert!(words(&of(Kind::WordsDeleted(10))) < own && words(&of(Kind::WordsInserted(5))) > own);
    assert!(texts[1].starts_with(&of(Kind::CutEnd(10))) && texts[1].ends_with(&of(Kind::CutStart(10))));
    for kind in [Kind::Shuffled, Kind::SentenceMoved] {
        assert_eq!(sorted(&of(kind)), sorted(&texts[1]), "{}", kind.name());
    }
    assert!(of(Kind::Boilerplate(true, false)).ends_with(&texts[1]));
    assert_eq!(of(Kind::Capitals), texts[1].to_uppercase());
}

#[test]
fn one_word_is_replaced() {
    let texts: Vec<String> =
        (0..9).map(|n| (0..9).map(|w| format!("w{n}x{w}, ")).collect::<String>()).collect();
    let set = with_one_word_replaced("own", texts.clone(), 1);
    assert_eq!(set.labels.positive.len(), 9);
    for &(a, b) in &set.labels.positive {
        let [a, b] = [a, b].map(|at| words(&set.texts[at as usize]));
        assert_eq!(a.len(), b.len());
        assert_eq!(a.iter().zip(&b).filter(|(a, b)| a.1 != b.1).count(), 1);
    }
    assert!(with_one_word_replaced("own", vec!["。".to_owned(), String::new()], 1).edits.is_empty());
}

#[test]
fn one_character_is_replaced_where_words_are_not_separated() {
    let texts = vec!["今天的天气，很好".to_owned(), "明天我们去北京".to_owned()];
    let set = with_one_word_replaced("own", texts, 3);
    for &(a, b) in &set.labels.positive {
        let [a, b] = [a, b].map(|at| set.texts[at as usize].chars().collect::<Vec<_>>());
        assert_eq!(a.len(), b.len());
        assert_eq!(a.iter().zip(&b).filter(|(a, b)| a != b).count(), 1);
    }
}

#[test]
fn scripts_without_spaces_are_dense() {
    assert!(is_dense("用rust写的字") && !is_dense("rust 写"));
    assert_eq!(characters("a写。"), [(1, "写")]);
}

#[test]
fn texts_have_their_length() {
    let texts = vec!["one two three four".to_owned(), "five six seven".to_owned()];
    assert_eq!(texts_of_length(&texts, 3), ["one two three", "four five six"]);
    let texts = vec!["今天的天气,很好".to_owned(), "我来到北京。用 rust 写".to_owned()];
    assert_eq!(texts_of_length(&texts, 4), ["今天的天气,很", "好\n我来到北京。"]);
}

#[test]
fn a_sentence_without_spaces_is_no_word() {
    assert_eq!(words("(one) とtwo, three。"), [(1, "one"), (14, "three")]);
    assert_eq!(words("좋은 날 ㅋㅋ"), [(0, "좋은"), (7, "날"), (11, "ㅋㅋ")]);
}

#[test]
fn the_table_has_a_row_for_each_length() {
    let texts: Vec<String> = (0..40).map(|n| format!("word{n} and others{n}")).collect();
    let profile = Profile::named("copies-64").unwrap();
    let by = Profile::named("pairs-64").unwrap();
    for (checks, columns) in [(false, 7), (true, 9)] {
        let table = table_by_length("own", &texts, &[profile], by, 1, checks);
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
        // 120 words: the lengths 8 to 50 and 100, but one text of 100 words has no other one.
        assert_eq!(rows.len(), 2 + 7, "{table}");
        assert!(rows[2].starts_with("| 8 | 15 |"), "{table}");
        assert!(rows.iter().all(|row| row.matches('|').count() == columns + 1), "{table}");
    }
}

#[test]
fn each_text_is_on_pages_of_two_sites() {
    let texts: Vec<String> = (0..12).map(|n| format!("Text {n} < & > says this. And that.")).collect();
    let set = with_pages("own", &texts, 3, str::to_owned);
    assert_eq!((set.texts.len(), set.labels.positive.len()), (24, 12));
    for (number, page) in set.texts.iter().enumerate() {
        assert!(page.contains(&format!("Text {} &lt; &amp; &gt; says", number / 2)), "{page}");
    }
    for ((a, b), sites) in &set.edits {
        assert_ne!(set.texts[*a as usize][..200], set.texts[*b as usize][..200], "{sites}");
    }
    assert_eq!(with_pages("own", &texts, 3, str::to_owned).texts, set.texts);
}

#[test]
fn sentences_are_taken_once() {
    let texts = ["One. Two! 三。".to_owned(), "Two!\n四?".to_owned()];
    assert_eq!(distinct_sentences(&texts), ["One.", "Two!", "三。", "四?"]);
}

#[test]
fn pieces_are_words_and_what_is_between_them() {
    let cases: &[(&str, &[&str])] = &[
        ("Fish, and 3 chips!", &["Fish", ", ", "and", " ", "3", " ", "chips", "!"]),
        ("我来到北京,", &["我", "来到", "北京", ","]),
        ("東京へ行く。", &["東京", "へ", "行く", "。"]),
        ("- ภาษาไทย ok", &["- ", "ภาษา", "ไทย", " ", "ok"]),
        ("", &[]),
    ];
    for (text, expected) in cases {
        assert_eq!(&pieces(text), expected);
    }
}

#[test]
fn sentences_end_at_marks_and_after_thai_at_spaces() {
    assert_eq!(sentences("One. Two! 三。"), ["One.", " Two!", " 三。"]);
    assert_eq!(sentences("ภาษา ไทย a b"), ["ภาษา ", "ไทย ", "a b"]);
}

proptest::proptest! {
    #[test]
    fn nothing_is_lost(text in "[a-c1 。.,中国のกา\u{301}\n-]{0,30}|\\PC{0,30}") {
        proptest::prop_assert_eq!(pieces(&text).concat(), text.clone());
        proptest::prop_assert_eq!(sentences(&text).concat(), text);
    }
}
