//! Reads texts and their labels from files.
//!
//! A labelled set is a folder: `docs.jsonl` or `docs.jsonl.gz` has a document per line, and `pairs.tsv` and
//! `similarity.tsv`, of which one may be missing, have two ids per line and what is known about the pair. Not
//! here: what follows from marks and similarities (`labels`).

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::{Labels, Pair, Set};

/// What is wrong with a file, and where.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(String);

/// A document. Other fields of the line are ignored.
#[derive(Deserialize)]
struct Document {
    id: String,
    text: String,
}

/// The name of a set: that of its file or folder.
pub fn set_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into())
}

/// The first `most` texts of a file of documents, or of the documents of a folder.
///
/// # Errors
/// [`ReadError`] if a line is no document, or if there are none.
pub fn read_texts(path: &Path, most: usize) -> Result<Vec<String>, ReadError> {
    let file = if path.is_dir() { documents_of(path)? } else { path.to_owned() };
    Ok(read_documents(&file, most)?.1)
}

/// A labelled set, with its first `most` texts, and the number of pairs that are skipped because their texts
/// were not read. `is_of_revisions` is that of [`Labels::read`].
///
/// # Errors
/// [`ReadError`] if a file is missing or wrong, or if no pair is to be found.
pub fn read_set(path: &Path, most: usize, is_of_revisions: bool) -> Result<(Set, u64), ReadError> {
    let (ids, texts) = read_documents(&documents_of(path)?, most)?;
    let numbers: HashMap<&str, u32> = ids.iter().map(String::as_str).zip(0..).collect();
    let mut skipped = 0;
    let marked = read_pairs(&path.join("pairs.tsv"), &numbers, &mut skipped, |kind| Ok(kind.to_owned()))?;
    let similar = read_pairs(&path.join("similarity.tsv"), &numbers, &mut skipped, similarity)?;
    let wrong = |detail: &str| ReadError(format!("{}: {detail}", path.display()));
    if marked.is_none() && similar.is_none() {
        return Err(wrong("neither pairs.tsv nor similarity.tsv exists; --edits makes labels"));
    }
    let is_kind = |kind: &str| {
        let first = kind.split(':').next().unwrap_or_default();
        !first.is_empty() && first.parse::<f64>().is_err()
    };
    let edits = marked.iter().flatten().filter(|(_, kind)| is_kind(kind)).cloned().collect();
    let marked: Option<Vec<Pair>> = marked.map(|rows| rows.into_iter().map(|row| row.0).collect());
    let labels = Labels::read(marked.as_deref(), similar.as_deref(), is_of_revisions);
    if labels.positive.is_empty() {
        return Err(wrong("none of the pairs is one to be found among the documents read"));
    }
    Ok((Set { name: set_name(path), texts, labels, edits }, skipped))
}

/// Parses a similarity.
fn similarity(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| format!("{text:?} is no similarity from 0 to 1"))
}

fn documents_of(folder: &Path) -> Result<PathBuf, ReadError> {
    let files = ["docs.jsonl", "docs.jsonl.gz"].map(|name| folder.join(name));
    let missing = || ReadError(format!("{}: neither docs.jsonl nor docs.jsonl.gz exists", folder.display()));
    files.into_iter().find(|file| file.exists()).ok_or_else(missing)
}

/// The ids and texts of the first `most` documents.
fn read_documents(path: &Path, most: usize) -> Result<(Vec<String>, Vec<String>), ReadError> {
    let file = File::open(path).map_err(|error| at(path, &error))?;
    let reader: Box<dyn Read> = if path.extension().is_some_and(|extension| extension == "gz") {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let (mut ids, mut texts) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(BufReader::new(reader).lines().take(most)) {
        let line = line.map_err(|error| at(path, &error))?;
        let document: Document = serde_json::from_str(&line)
            .map_err(|error| ReadError(format!("{}:{number}: {error}", path.display())))?;
        ids.push(document.id);
        texts.push(document.text);
    }
    if ids.is_empty() {
        return Err(ReadError(format!("{}: no document was read", path.display())));
    }
    Ok((ids, texts))
}

/// Reads lines of two ids and a field about the pair, separated by tabs; `None` if the file does not exist.
/// Pairs of texts that were not read are skipped and counted.
fn read_pairs<T>(
    path: &Path,
    numbers: &HashMap<&str, u32>,
    skipped: &mut u64,
    about: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<Vec<(Pair, T)>>, ReadError> {
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(path).map_err(|error| at(path, &error))?;
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |what: &str| ReadError(format!("{}:{number}: {what}", path.display()));
        let fields: Vec<&str> = line.split('\t').collect();
        let [a, b, ..] = fields[..] else { return Err(wrong("two ids separated by a tab are needed")) };
        if a == b {
            return Err(wrong("a document is paired with itself"));
        }
        let about = about(fields.get(2).copied().unwrap_or_default()).map_err(|what| wrong(&what))?;
        match (numbers.get(a), numbers.get(b)) {
            (Some(&a), Some(&b)) => rows.push(((a.min(b), a.max(b)), about)),
            _ => *skipped += 1,
        }
    }
    Ok(Some(rows))
}

fn at(path: &Path, error: &std::io::Error) -> ReadError {
    ReadError(format!("{}: {error}", path.display()))
}
