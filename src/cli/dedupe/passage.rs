//! The passage at which two texts begin to differ.

use lookalike_text::tokens;

/// The characters that are shown on each side of the difference.
const AROUND: usize = 80;

/// What each of two texts has where they begin to differ, with what is before and behind it, from a word to
/// a word; `None` if they are equal.
pub(super) fn first_difference<'a>(a: &'a str, b: &'a str) -> Option<[&'a str; 2]> {
    let common = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(own, _)| own.len_utf8()).sum();
    (a != b).then(|| [around(a, common), around(b, common)])
}

/// The words around a place of a text.
fn around(text: &str, place: usize) -> &str {
    let (before, after) = text.split_at(place);
    let from = before.char_indices().rev().take(AROUND).last().map_or(place, |(at, _)| at);
    let end = after.char_indices().nth(AROUND).map_or(text.len(), |(at, _)| place + at);
    let window = &text[from..end];
    let words = tokens(window);
    // A word at an end of the window may be a part of one, but a word that reaches the place is shown.
    let first = words.first().map_or(0, |word| word.len());
    let first = if from > 0 && from + first < place { first } else { 0 };
    let last = words.last().map_or(0, |word| word.len());
    let last = if end < text.len() && end - last > place { last } else { 0 };
    window[first..window.len() - last].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_are_of_whole_words_around_the_first_difference() {
        let text = |word: &str| {
            let many = |word: &str| format!("{word} ").repeat(60);
            format!("{}{word} {}", many("before"), many("after"))
        };
        let (a, b) = (text("ferry"), text("ferries"));
        let [of_a, of_b] = first_difference(&a, &b).unwrap();
        assert!(of_a.contains("before ferry after") && of_b.contains("before ferries after"), "{of_a}");
        for passage in [of_a, of_b] {
            assert!((130..=160).contains(&passage.chars().count()), "{passage}");
            assert!(passage.split(' ').all(|word| ["before", "after"].contains(&word) || word.len() < 8));
        }
        assert_eq!(first_difference(&a, &a), None);
        assert_eq!(first_difference("", "x"), Some(["", "x"]));
        assert_eq!(first_difference("a", "a b"), Some(["a", "a b"]));
    }

    #[test]
    fn chinese_is_cut_between_words() {
        let before = "市图书馆昨天宣布".repeat(20);
        let after = "延长周末的开放时间".repeat(20);
        let [a, b] = ["下个月", "明年"].map(|when| format!("{before}{when}{after}"));
        let [of_a, of_b] = first_difference(&a, &b).unwrap();
        assert!(of_a.contains("宣布下个月延长") && of_b.contains("宣布明年延长"));
        let words = tokens(&a);
        assert!(words.contains(&tokens(of_a)[0]), "{of_a}");
        let long = "字".repeat(500);
        assert!(around(&long, 750).chars().count() <= 160);
        let unbroken = "x".repeat(500);
        assert_eq!(around(&unbroken, 250).len(), 160);
    }
}
