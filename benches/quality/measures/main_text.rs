//! The main text of pages, measured against main text that people marked.
//!
//! A page is scored by its shingles of four words, with their counts: precision is the share of the
//! extracted shingles that are in the marked text, recall the share of the marked ones that were extracted.
//! Over pages both are averaged, and F1 is their harmonic mean: the figures of the article extraction
//! benchmark of Scrapinghub. Not here: files, and the extraction.

use std::collections::HashMap;
use std::fmt::Write;

/// The words of a shingle.
const WORDS: usize = 4;

/// A page: its name, the text that people marked, and what was extracted.
#[derive(Debug)]
pub struct ExtractedPage {
    /// The name of the page.
    pub name: String,
    /// The main text by people.
    pub marked: String,
    /// The main text that was extracted.
    pub main: String,
    /// All visible text.
    pub visible: String,
}

/// Precision and recall; `None` if nothing was extracted or marked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    pub precision: Option<f64>,
    pub recall: Option<f64>,
}

impl Score {
    pub fn of(marked: &str, extracted: &str) -> Score {
        let (marked_words, extracted_words) = (words(marked), words(extracted));
        let (marked, extracted) = (shingles(&marked_words), shingles(&extracted_words));
        let common =
            |(shingle, count): (_, &usize)| extracted.get(shingle).map_or(0, |other| *count.min(other));
        let shared: usize = marked.iter().map(common).sum();
        let share = |all: usize| (all > 0).then(|| shared as f64 / all as f64);
        Score { precision: share(extracted.values().sum()), recall: share(marked.values().sum()) }
    }

    /// The mean of scores. A page without a value does not count.
    fn mean(scores: &(impl Iterator<Item = Score> + Clone)) -> Score {
        let mean = |of: fn(Score) -> Option<f64>| {
            let (sum, count) =
                scores.clone().filter_map(of).fold((0.0, 0), |(s, n), value| (s + value, n + 1));
            (count > 0).then(|| sum / f64::from(count))
        };
        Score { precision: mean(|score| score.precision), recall: mean(|score| score.recall) }
    }

    fn f1(self) -> f64 {
        let (precision, recall) = (self.precision.unwrap_or(0.0), self.recall.unwrap_or(0.0));
        if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 }
    }

    fn cells(self) -> String {
        let cell = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.4}"));
        format!("{:.4} | {} | {}", self.f1(), cell(self.precision), cell(self.recall))
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

/// The shingles of a text and their counts. A text of fewer words is one shingle.
fn shingles<'a>(words: &'a [&'a str]) -> HashMap<&'a [&'a str], usize> {
    let mut counts = HashMap::new();
    let size = words.len().clamp(1, WORDS);
    words.windows(size).for_each(|shingle| *counts.entry(shingle).or_default() += 1);
    counts
}

/// A table with the scores of each page, of all pages, and of two halves of them: every second page in the
/// given order, and the others.
pub fn main_text_table(pages: &[ExtractedPage]) -> String {
    let score = |page: &ExtractedPage| {
        [&page.main, &page.visible].map(|extracted| Score::of(&page.marked, extracted))
    };
    let scores: Vec<[Score; 2]> = pages.iter().map(score).collect();
    let mut table =
        "| page | main text: F1 | precision | recall | all visible text: F1 | precision | recall |\n\
                     |---|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    let mut add = |name: &str, [main, visible]: [Score; 2]| {
        let _ = writeln!(table, "| {name} | {} | {} |", main.cells(), visible.cells());
    };
    pages.iter().zip(&scores).for_each(|(page, scores)| add(&page.name, *scores));
    for (name, first, step) in [("all", 0, 1), ("first half", 0, 2), ("second half", 1, 2)] {
        let part = scores.iter().skip(first).step_by(step);
        add(name, [0, 1].map(|way| Score::mean(&part.clone().map(move |scores| scores[way]))));
    }
    table
}
