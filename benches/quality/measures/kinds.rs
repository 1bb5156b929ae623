//! Kinds of edits in any language: what changes when texts are copied. Words, characters and sentences that
//! replace others come from other texts of the same set, so they are of the same language.
//!
//! Not here: the edits of calibrations (`lookalike_eval`), of which each text gets only one; the figures
//! (`by_kind`).

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use lookalike_eval::random::Random;
use lookalike_text::simplified;

use super::pieces::{is_unspaced, is_word, pieces, sentences};

/// A kind of edit; rates are in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Letters are replaced.
    Characters(usize),
    /// Letters are deleted.
    CharactersDeleted(usize),
    /// In words, two letters are exchanged, or one is doubled or left out.
    Typos(usize),
    /// Words are replaced.
    Words(usize),
    /// Words are deleted.
    WordsDeleted(usize),
    /// Words are inserted.
    WordsInserted(usize),
    /// Words change places with the next ones.
    WordsExchanged(usize),
    /// The words of greatest TF-IDF are replaced by such words of another text, wherever they occur.
    Names(usize),
    /// Every number is replaced by another one.
    Numbers,
    /// Sentences are deleted, at least one.
    SentencesDeleted(usize),
    /// A sentence of another text is inserted.
    SentenceInserted,
    /// A sentence is moved.
    SentenceMoved,
    /// The sentences are shuffled.
    Shuffled,
    /// The same line is put before or after all texts, or both.
    Boilerplate(bool, bool),
    /// The text ends earlier.
    CutEnd(usize),
    /// The text begins later.
    CutStart(usize),
    /// Punctuation and quotation marks are exchanged for others.
    Punctuation,
    /// Punctuation is deleted.
    NoPunctuation,
    /// All letters are capitals.
    Capitals,
    /// Lines have 30 characters. Scripts without spaces break inside words.
    Lines,
    /// An eighth of the words of six letters or more is hyphenated at the end of a line.
    Hyphens,
    /// A tatweel follows a tenth of the Arabic letters.
    Tatweel,
    /// Half of the Arabic letters have a vowel mark.
    Vowels,
    /// Alefs have no hamza or madda, teh marbuta is heh, alef maksura is yeh.
    ArabicLetters,
    /// Chinese characters are traditional.
    Traditional,
}

/// The kinds of edits that change words: the mean of their recall is the figure of a language.
pub const EDIT_KINDS: [Kind; 27] = [
    Kind::Characters(1),
    Kind::Characters(3),
    Kind::Characters(5),
    Kind::CharactersDeleted(1),
    Kind::Typos(5),
    Kind::Words(2),
    Kind::Words(5),
    Kind::Words(10),
    Kind::WordsDeleted(5),
    Kind::WordsDeleted(10),
    Kind::WordsInserted(5),
    Kind::WordsExchanged(5),
    Kind::Names(1),
    Kind::Names(3),
    Kind::Numbers,
    Kind::SentencesDeleted(1),
    Kind::SentencesDeleted(25),
    Kind::SentenceInserted,
    Kind::SentenceMoved,
    Kind::Shuffled,
    Kind::Boilerplate(true, false),
    Kind::Boilerplate(false, true),
    Kind::Boilerplate(true, true),
    Kind::CutEnd(5),
    Kind::CutEnd(10),
    Kind::CutEnd(25),
    Kind::CutStart(10),
];

/// The kinds of edits that only change how the same words are written.
pub const SPELLING_KINDS: [Kind; 9] = [
    Kind::Punctuation,
    Kind::NoPunctuation,
    Kind::Capitals,
    Kind::Lines,
    Kind::Hyphens,
    Kind::Tatweel,
    Kind::Vowels,
    Kind::ArabicLetters,
    Kind::Traditional,
];

impl Kind {
    /// The name of the kind, with its rate.
    pub fn name(self) -> String {
        match self {
            Kind::Characters(rate) => format!("{rate} % of letters replaced"),
            Kind::CharactersDeleted(rate) => format!("{rate} % of letters deleted"),
            Kind::Typos(rate) => format!("typing errors in {rate} % of words"),
            Kind::Words(rate) => format!("{rate} % of words replaced"),
            Kind::WordsDeleted(rate) => format!("{rate} % of words deleted"),
            Kind::WordsInserted(rate) => format!("{rate} % of words inserted"),
            Kind::WordsExchanged(rate) => format!("{rate} % of words exchanged with the next"),
            Kind::Names(1) => "1 name replaced everywhere".to_owned(),
            Kind::Names(count) => format!("{count} names replaced everywhere"),
            Kind::Numbers => "all numbers changed".to_owned(),
            Kind::SentencesDeleted(1) => "1 sentence deleted".to_owned(),
            Kind::SentencesDeleted(rate) => format!("{rate} % of sentences deleted"),
            Kind::SentenceInserted => "1 sentence inserted".to_owned(),
            Kind::SentenceMoved => "1 sentence moved".to_owned(),
            Kind::Shuffled => "sentences shuffled".to_owned(),
            Kind::Boilerplate(before, after) => match (before, after) {
                (true, true) => "boilerplate before and after".to_owned(),
                (true, false) => "boilerplate before".to_owned(),
                (false, _) => "boilerplate after".to_owned(),
            },
            Kind::CutEnd(rate) => format!("last {rate} % cut"),
            Kind::CutStart(rate) => format!("first {rate} % cut"),
            Kind::Punctuation => "other punctuation and quotation marks".to_owned(),
            Kind::NoPunctuation => "no punctuation".to_owned(),
            Kind::Capitals => "capitals".to_owned(),
            Kind::Lines => "lines of 30 characters".to_owned(),
            Kind::Hyphens => "hyphens at line ends".to_owned(),
            Kind::Tatweel => "tatweel".to_owned(),
            Kind::Vowels => "vowel marks".to_owned(),
            Kind::ArabicLetters => "alef, teh marbuta, alef maksura".to_owned(),
            Kind::Traditional => "traditional script".to_owned(),
        }
    }
}

/// The texts of a set, cut for edits.
pub struct Editable<'a> {
    texts: &'a [String],
    pieces: Vec<Vec<&'a str>>,
    /// The words of greatest TF-IDF of each text, the greatest first.
    names: Vec<Vec<&'a str>>,
    /// The line that `Boilerplate` adds.
    line: String,
}

/// The number of characters of the line that `Boilerplate` adds, at least; it ends with a word.
const LINE: usize = 60;

impl<'a> Editable<'a> {
    /// Cuts the texts.
    pub fn of(texts: &'a [String]) -> Editable<'a> {
        let pieces: Vec<Vec<&str>> = texts.iter().map(|text| pieces(text)).collect();
        let mut texts_with: HashMap<&str, usize> = HashMap::new();
        for pieces in &pieces {
            let own: HashSet<&str> = pieces.iter().copied().collect();
            own.into_iter().for_each(|piece| *texts_with.entry(piece).or_default() += 1);
        }
        let names = pieces.iter().map(|pieces| names(pieces, &texts_with, texts.len())).collect();
        let mut line = String::new();
        for piece in pieces.first().into_iter().flatten() {
            if line.chars().count() >= LINE {
                break;
            }
            line.push_str(if piece.contains('\n') { " " } else { piece });
        }
        Editable { texts, pieces, names, line }
    }

    /// The copy of a text with this edit. It is the text itself if the edit changes nothing.
    pub fn edited(&self, number: usize, kind: Kind, seed: u64) -> String {
        let mut random = Random(seed.wrapping_add((number as u64) << 20));
        let text = &self.texts[number];
        let other = (number + 1 + random.below(self.texts.len().saturating_sub(1))) % self.texts.len();
        let of_others = |random: &mut Random| self.word(random, number);
        let sentences = sentences(text);
        match kind {
            Kind::Characters(rate) => {
                let letters: Vec<char> = self.texts[other].chars().filter(|c| c.is_alphabetic()).collect();
                each_letter(text, rate, &mut random, |c, random| {
                    Some(*letters.get(random.below(letters.len())).unwrap_or(&c))
                })
            }
            Kind::CharactersDeleted(rate) => each_letter(text, rate, &mut random, |_, _| None),
            Kind::Typos(rate) => self.each_word(number, rate, &mut random, mistyped),
            Kind::Words(rate) => self.each_word(number, rate, &mut random, |_, random| of_others(random)),
            Kind::WordsDeleted(rate) => self.each_word(number, rate, &mut random, |_, _| String::new()),
            Kind::WordsInserted(rate) => self.each_word(number, rate, &mut random, |word, random| {
                let space = if word.chars().any(is_unspaced) { "" } else { " " };
                format!("{word}{space}{}", of_others(random))
            }),
            Kind::WordsExchanged(rate) => self.exchanged(number, rate, &mut random),
            Kind::Names(count) => {
                let new: HashMap<&str, &str> = self.names[number]
                    .iter()
                    .zip(&self.names[other])
                    .take(count)
                    .map(|(a, b)| (*a, *b))
                    .collect();
                self.pieces[number].iter().map(|piece| *new.get(piece).unwrap_or(piece)).collect()
            }
            Kind::Numbers => {
                let mut digit = || char::from(b'0' + random.below(10) as u8);
                text.chars().map(|c| if c.is_ascii_digit() { digit() } else { c }).collect()
            }
            Kind::SentencesDeleted(rate) => {
                let dropped = chosen(sentences.len(), rate, &mut random);
                let kept = sentences.iter().enumerate().filter(|(at, _)| !dropped.contains(at));
                kept.map(|(_, sentence)| *sentence).collect()
            }
            Kind::SentenceInserted => {
                let others = super::pieces::sentences(&self.texts[other]);
                let mut all = sentences;
                let at = random.below(all.len() + 1);
                all.splice(at..at, others.get(random.below(others.len())).copied());
                all.concat()
            }
            Kind::SentenceMoved => {
                let mut all = sentences;
                if !all.is_empty() {
                    let moved = all.remove(random.below(all.len()));
                    all.insert(random.below(all.len() + 1), moved);
                }
                all.concat()
            }
            Kind::Shuffled => {
                let mut all = sentences;
                (1..all.len()).rev().for_each(|last| all.swap(last, random.below(last + 1)));
                all.concat()
            }
            Kind::Boilerplate(before, after) => {
                let before = if before { format!("{}\n\n", self.line) } else { String::new() };
                let after = if after { format!("\n\n{}", self.line) } else { String::new() };
                format!("{before}{text}{after}")
            }
            Kind::CutEnd(rate) => {
                let characters = text.chars().count();
                text.chars().take(characters - characters * rate / 100).collect()
            }
            Kind::CutStart(rate) => text.chars().skip(text.chars().count() * rate / 100).collect(),
            _ => respelled(text, &self.pieces[number], kind, &mut random),
        }
    }

    /// A random word of a text other than this one.
    fn word(&self, random: &mut Random, number: usize) -> String {
        for _ in 0..100 {
            let text = random.below(self.pieces.len());
            let pieces = &self.pieces[text];
            if let Some(word) = pieces.get(random.below(pieces.len())).filter(|word| is_word(word))
                && text != number
            {
                return (*word).to_owned();
            }
        }
        String::new()
    }

    fn exchanged(&self, number: usize, rate: usize, random: &mut Random) -> String {
        let mut pieces = self.pieces[number].clone();
        let at: Vec<usize> = (0..pieces.len()).filter(|at| is_word(pieces[*at])).collect();
        let pairs = at.len().saturating_sub(1);
        let mut first: Vec<usize> = chosen(pairs, rate, random).into_iter().collect();
        first.sort_unstable();
        first.into_iter().for_each(|n| pieces.swap(at[n], at[n + 1]));
        pieces.concat()
    }

    /// Edits this percentage of the words.
    fn each_word(
        &self,
        number: usize,
        rate: usize,
        random: &mut Random,
        mut edit: impl FnMut(&str, &mut Random) -> String,
    ) -> String {
        let pieces = &self.pieces[number];
        let positions = chosen(pieces.iter().filter(|piece| is_word(piece)).count(), rate, random);
        let mut at = 0;
        let mut out = String::new();
        for piece in pieces {
            if is_word(piece) {
                at += 1;
                if positions.contains(&(at - 1)) {
                    out.push_str(&edit(piece, random));
                    continue;
                }
            }
            out.push_str(piece);
        }
        out
    }
}

/// The distinct words of a text by TF-IDF, the greatest first, without numbers and single letters.
fn names<'a>(pieces: &[&'a str], texts_with: &HashMap<&str, usize>, texts: usize) -> Vec<&'a str> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let is_name = |piece: &str| piece.chars().filter(|c| c.is_alphabetic()).nth(1).is_some();
    pieces.iter().filter(|piece| is_name(piece)).for_each(|piece| *counts.entry(piece).or_default() += 1);
    let weight = |(word, count): &(&str, usize)| {
        let with = texts_with.get(word).copied().unwrap_or(1);
        *count as f64 * (texts as f64 / with as f64).ln()
    };
    let mut all: Vec<(&str, usize)> = counts.into_iter().collect();
    all.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.0.cmp(b.0)));
    all.into_iter().map(|(word, _)| word).take(3).collect()
}

/// Distinct positions below `count`: this percentage of them, at least one.
fn chosen(count: usize, rate: usize, random: &mut Random) -> HashSet<usize> {
    let wanted = (count * rate).div_ceil(100).min(count);
    let mut found = HashSet::new();
    while found.len() < wanted {
        found.insert(random.below(count));
    }
    found
}

/// Replaces or deletes this percentage of the letters.
fn each_letter(
    text: &str,
    rate: usize,
    random: &mut Random,
    mut edit: impl FnMut(char, &mut Random) -> Option<char>,
) -> String {
    let positions = chosen(text.chars().filter(|c| c.is_alphabetic()).count(), rate, random);
    let mut at = 0;
    let edited = text.chars().filter_map(|c| {
        if !c.is_alphabetic() {
            return Some(c);
        }
        at += 1;
        if positions.contains(&(at - 1)) { edit(c, random) } else { Some(c) }
    });
    edited.collect()
}

fn mistyped(word: &str, random: &mut Random) -> String {
    let mut letters: Vec<char> = word.chars().collect();
    let at = random.below(letters.len());
    match random.below(3) {
        0 if at > 0 => letters.swap(at - 1, at),
        1 if letters.len() > 1 => drop(letters.remove(at)),
        _ => letters.insert(at, letters[at]),
    }
    letters.into_iter().collect()
}

/// The same words in another spelling.
fn respelled(text: &str, pieces: &[&str], kind: Kind, random: &mut Random) -> String {
    match kind {
        Kind::Punctuation => text.chars().map(other_mark).collect(),
        Kind::NoPunctuation => without_marks(text),
        Kind::Capitals => text.to_uppercase(),
        Kind::Lines => lines(text),
        Kind::Hyphens => {
            let hyphenated = |piece: &str| {
                let letters: Vec<char> = piece.chars().collect();
                if letters.len() < 6 || !letters.iter().all(|c| c.is_alphabetic() && !is_unspaced(*c)) {
                    return piece.to_owned();
                }
                if random.below(8) > 0 {
                    return piece.to_owned();
                }
                let (before, after) = letters.split_at(letters.len() / 2);
                before.iter().chain(&['-', '\n']).chain(after).collect()
            };
            pieces.iter().copied().map(hyphenated).collect()
        }
        Kind::Tatweel | Kind::Vowels => {
            let mut out = String::new();
            for c in text.chars() {
                out.push(c);
                let is_arabic = matches!(c, '\u{620}'..='\u{64a}');
                if is_arabic && kind == Kind::Tatweel && random.below(10) == 0 {
                    out.push('\u{640}');
                } else if is_arabic && kind == Kind::Vowels && random.below(2) == 0 {
                    out.push(['\u{64e}', '\u{64f}', '\u{650}', '\u{652}'][random.below(4)]);
                }
            }
            out
        }
        Kind::ArabicLetters => text
            .chars()
            .map(|c| match c {
                'أ' | 'إ' | 'آ' => 'ا',
                'ة' => 'ه',
                'ى' => 'ي',
                _ => c,
            })
            .collect(),
        // Japanese is not converted.
        Kind::Traditional if text.contains(|c| matches!(c, 'ぁ'..='ヿ')) => text.to_owned(),
        Kind::Traditional => text.chars().map(|c| *TRADITIONAL.get(&c).unwrap_or(&c)).collect(),
        _ => text.to_owned(),
    }
}

/// The text without punctuation, except between two letters or digits of scripts with spaces.
fn without_marks(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars();
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && !is_unspaced(c));
    while let Some(c) = rest.next() {
        let is_mark = other_mark(c) != c || matches!(c, ')' | ']' | '—' | '!' | '?');
        if !is_mark || joins(out.chars().next_back()) && joins(rest.clone().next()) {
            out.push(c);
        }
    }
    out
}

fn other_mark(c: char) -> char {
    match c {
        '"' => '”',
        '“' => '「',
        '”' => '」',
        '\'' => '’',
        '，' | '、' | '；' | ';' | '،' => ',',
        ',' => ';',
        '.' => '!',
        '。' | '।' => '.',
        '：' | ':' => '-',
        '（' | '(' => '[',
        '）' | ')' => ']',
        '؟' => '?',
        _ => c,
    }
}

/// Lines of 30 characters or more. A line breaks at a space, or between two characters of scripts without
/// spaces.
fn lines(text: &str) -> String {
    let mut out = String::new();
    let (mut length, mut last) = (0, ' ');
    for c in text.chars() {
        if length >= 30 && c == ' ' {
            (length, last) = (0, c);
            out.push('\n');
            continue;
        }
        if length >= 30 && is_unspaced(c) && is_unspaced(last) {
            length = 0;
            out.push('\n');
        }
        length = if c == '\n' { 0 } else { length + 1 };
        last = c;
        out.push(c);
    }
    out
}

/// For characters of simplified script, a traditional character that is simplified to it.
static TRADITIONAL: LazyLock<HashMap<char, char>> = LazyLock::new(|| {
    let mut found = HashMap::new();
    for c in '\u{4e00}'..='\u{9fff}' {
        let form = simplified(c.encode_utf8(&mut [0; 4]));
        let mut letters = form.chars();
        if let (Some(simple), None) = (letters.next(), letters.next())
            && simple != c
        {
            found.entry(simple).or_insert(c);
        }
    }
    found
});
