//! Labelled variants of arbitrary texts: each text and one edited copy of it, at fixed rates, from a seed.
//!
//! Not here: edits that need knowledge of the language, such as paraphrases.

use super::Set;
use super::labels::Labels;
use crate::random::Random;

/// An edit and its rate in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// This percentage of the characters is replaced by other characters of the text.
    Replace(u32),
    /// This percentage of the characters is deleted.
    Delete(u32),
    /// This percentage of the sentences is deleted.
    DropSentences(u32),
    /// The last part of the text, of this percentage of its characters, is deleted.
    Cut(u32),
    /// A sentence of another text is inserted before the text.
    Boilerplate,
    /// The sentences are shuffled.
    Shuffle,
}

/// All edits that are applied, each kind by increasing rate.
pub const EDITS: [Edit; 14] = [
    Edit::Replace(1),
    Edit::Replace(3),
    Edit::Replace(5),
    Edit::Replace(10),
    Edit::Delete(1),
    Edit::Delete(5),
    Edit::DropSentences(5),
    Edit::DropSentences(10),
    Edit::DropSentences(25),
    Edit::Cut(5),
    Edit::Cut(10),
    Edit::Cut(25),
    Edit::Boilerplate,
    Edit::Shuffle,
];

impl Edit {
    /// The name of the edit, with its rate.
    pub fn name(self) -> String {
        match self {
            Edit::Replace(rate) => format!("{rate} % of characters replaced"),
            Edit::Delete(rate) => format!("{rate} % of characters deleted"),
            Edit::DropSentences(rate) => format!("{rate} % of sentences deleted"),
            Edit::Cut(rate) => format!("cut by {rate} %"),
            Edit::Boilerplate => "one sentence of another text before it".to_owned(),
            Edit::Shuffle => "sentences shuffled".to_owned(),
        }
    }
}

/// A set of the texts and one variant of each. The edits are applied in turn. A text that its edit leaves
/// unchanged gets no variant.
pub fn with_edits(name: &str, texts: Vec<String>, seed: u64) -> Set {
    let count = texts.len();
    let mut set = Set { name: name.to_owned(), texts, labels: Labels::default(), edits: Vec::new() };
    let mut random = Random(seed);
    for number in 0..count {
        let edit = EDITS[number % EDITS.len()];
        let other = set.texts[random.below(count)].clone();
        let text = &set.texts[number];
        let variant = apply(edit, text, &other, &mut random);
        if variant == *text {
            continue;
        }
        let pair = (number as u32, set.texts.len() as u32);
        set.texts.push(variant);
        set.labels.positive.insert(pair);
        set.edits.push((pair, edit.name()));
    }
    set
}

fn apply(edit: Edit, text: &str, other: &str, random: &mut Random) -> String {
    match edit {
        Edit::Replace(rate) => {
            let characters: Vec<char> = text.chars().collect();
            let mut replaced = |&c: &char| {
                let any = characters[random.below(characters.len())];
                if random.below(100) < rate as usize { any } else { c }
            };
            characters.iter().map(&mut replaced).collect()
        }
        Edit::Delete(rate) => text.chars().filter(|_| random.below(100) >= rate as usize).collect(),
        Edit::DropSentences(rate) => {
            let all = sentences(text);
            let dropped = (all.len() * rate as usize).div_ceil(100);
            let mut kept: Vec<usize> = (0..all.len()).collect();
            for _ in 0..dropped.min(all.len().saturating_sub(1)) {
                kept.remove(random.below(kept.len()));
            }
            kept.into_iter().map(|at| all[at]).collect()
        }
        Edit::Cut(rate) => {
            let characters = text.chars().count();
            text.chars().take(characters - characters * rate as usize / 100).collect()
        }
        Edit::Boilerplate => {
            let all = sentences(other);
            if all.is_empty() { text.to_owned() } else { format!("{} {text}", all[random.below(all.len())]) }
        }
        Edit::Shuffle => {
            let mut all = sentences(text);
            for last in (1..all.len()).rev() {
                all.swap(last, random.below(last + 1));
            }
            all.concat()
        }
    }
}

/// The sentences of a text with their punctuation.
fn sentences(text: &str) -> Vec<&str> {
    text.split_inclusive(['。', '.', '!', '?', '！', '？', '\n'])
        .filter(|part| !part.trim().is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_a_different_variant_that_depends_on_the_seed() {
        let texts: Vec<String> = (0..28)
            .map(|n| (0..20).map(|s| format!("Sentence {s} of text {n} tells something. ")).collect())
            .collect();
        let set = with_edits("own", texts.clone(), 7);
        assert_eq!((set.texts.len(), set.labels.positive.len()), (56, 28));
        for &((a, b), _) in &set.edits {
            assert_ne!(set.texts[a as usize], set.texts[b as usize]);
        }
        assert_eq!(with_edits("own", texts.clone(), 7).texts, set.texts);
        assert_ne!(with_edits("own", texts, 8).texts, set.texts);
    }

    #[test]
    fn empty_texts_have_no_variant() {
        assert!(with_edits("own", vec![String::new(); 14], 1).labels.positive.is_empty());
    }
}
