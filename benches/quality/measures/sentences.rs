//! The sentences of a text by their marks, as the edits of calibrations cut it.

use std::collections::HashSet;

/// The distinct sentences of texts, in order, as separate texts: realistic short texts.
pub fn distinct_sentences(texts: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    let all = texts.iter().flat_map(|text| sentences(text)).map(str::trim);
    all.filter(|sentence| seen.insert(*sentence)).map(str::to_owned).collect()
}

/// The sentences of a text with their punctuation.
pub fn sentences(text: &str) -> Vec<&str> {
    text.split_inclusive(['。', '.', '!', '?', '！', '？', '\n'])
        .filter(|part| !part.trim().is_empty())
        .collect()
}
