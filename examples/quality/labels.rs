//! The labelled sets: which articles there are and which pairs of them are copies.
//!
//! A pair is positive (to be found), ignored (neither answer counts), or, without a label, negative. The
//! scoring rules are those of the README beside the sets; nothing here depends on what a server answers.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::client::Failure;

/// Similarity from which a pair is a copy.
const COPY: f64 = 0.8;
/// Similarity from which people would disagree whether a pair is a copy.
const DOUBTFUL: f64 = 0.6;

/// Number of an article: its line in `docs.jsonl.gz`, from 0.
pub type Number = u32;
/// Two articles, the smaller number first.
pub type Pair = (Number, Number);

/// How the labels of a set are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The pairs of `pairs.tsv` are positive, all others negative.
    Marked,
    /// By `similarity.tsv`: from [`COPY`] positive, from [`DOUBTFUL`] ignored, all others negative.
    Similar,
    /// The pairs of `pairs.tsv` are positive; others that `similarity.tsv` has from [`COPY`] are ignored.
    MarkedOrSimilar,
}

/// A labelled set.
#[derive(Debug)]
pub struct Set {
    /// Its directory.
    pub name: &'static str,
    rule: Rule,
    /// A second reading ignores pairs of `pairs.tsv` that the rule makes negative.
    second_reading: bool,
}

/// All sets.
pub static SETS: [Set; 4] = [
    Set { name: "zh_edits", rule: Rule::Marked, second_reading: false },
    Set { name: "zh_revisions", rule: Rule::Similar, second_reading: true },
    Set { name: "en_abstracts", rule: Rule::MarkedOrSimilar, second_reading: false },
    Set { name: "en_reuters", rule: Rule::Similar, second_reading: false },
];

impl Set {
    /// The file of its articles.
    pub fn documents(&self, data: &Path) -> PathBuf {
        data.join(self.name).join("docs.jsonl.gz")
    }
}

/// What is known of a set.
#[derive(Debug)]
pub struct Labels {
    /// Which set it is.
    pub set: &'static Set,
    /// Where its articles are, gzipped NDJSON.
    pub path: PathBuf,
    /// Bytes of its articles as NDJSON, unpacked.
    pub bytes: u64,
    /// The ids of its articles by number.
    pub ids: Vec<String>,
    /// The numbers of its articles by id.
    pub numbers: HashMap<String, Number>,
    /// Pairs to be found.
    pub positive: HashSet<Pair>,
    /// Pairs that do not count.
    pub ignored: HashSet<Pair>,
    /// Pairs that do not count in the second reading either; they are negative in the first.
    pub also_ignored: Option<HashSet<Pair>>,
}

#[derive(Deserialize)]
struct Article {
    id: String,
}

impl Labels {
    /// Reads a set; `None` if it is not there.
    pub fn read(set: &'static Set, data: &Path) -> Result<Option<Labels>, Failure> {
        let path = set.documents(data);
        if !path.exists() {
            return Ok(None);
        }
        let (ids, bytes) = articles(&path)?;
        let numbers = ids.iter().cloned().zip(0..).collect();
        let mut labels = Labels {
            set,
            path,
            bytes,
            ids,
            numbers,
            positive: HashSet::new(),
            ignored: HashSet::new(),
            also_ignored: None,
        };
        labels.judge(&data.join(set.name))?;
        Ok(Some(labels))
    }

    /// The id of an article of this set.
    ///
    /// # Panics
    /// If there is no such article.
    pub fn id(&self, number: Number) -> &str {
        &self.ids[number as usize]
    }

    /// Fills in the pairs by the rule of the set.
    fn judge(&mut self, directory: &Path) -> Result<(), Failure> {
        let marked = || self.pairs(&directory.join("pairs.tsv"));
        let similar = || self.pairs(&directory.join("similarity.tsv"));
        let from = |rows: &[Row], least| rows.iter().filter(|row| row.1 >= least).map(|row| row.0).collect();
        let (positive, ignored): (HashSet<Pair>, HashSet<Pair>) = match self.set.rule {
            Rule::Marked => (from(&marked()?, 0.0), HashSet::new()),
            Rule::Similar => {
                let rows = similar()?;
                (from(&rows, COPY), from(&rows, DOUBTFUL))
            }
            Rule::MarkedOrSimilar => (from(&marked()?, 0.0), from(&similar()?, COPY)),
        };
        if self.set.second_reading {
            let known = |pair: &Pair| positive.contains(pair) || ignored.contains(pair);
            let marked = marked()?.into_iter().map(|row| row.0);
            self.also_ignored = Some(marked.filter(|pair| !known(pair)).collect());
        }
        self.ignored = ignored.difference(&positive).copied().collect();
        self.positive = positive;
        Ok(())
    }

    /// Reads lines of two ids and, in some files, a similarity; what is no number counts as 1.
    fn pairs(&self, path: &Path) -> Result<Vec<Row>, Failure> {
        let text = fs::read_to_string(path).map_err(|error| Failure::file(path, error))?;
        text.lines()
            .map(|line| {
                self.row(line).ok_or_else(|| Failure::Labels(format!("{}: {line:?}", path.display())))
            })
            .collect()
    }

    fn row(&self, line: &str) -> Option<Row> {
        let mut fields = line.split('\t');
        let (a, b) = (*self.numbers.get(fields.next()?)?, *self.numbers.get(fields.next()?)?);
        let similarity = fields.next().and_then(|field| field.parse().ok()).unwrap_or(1.0);
        (a != b).then_some(((a.min(b), a.max(b)), similarity))
    }
}

/// A pair and its similarity, 0 to 1.
type Row = (Pair, f64);

/// The ids of the articles of a file and the bytes of its lines.
fn articles(path: &Path) -> Result<(Vec<String>, u64), Failure> {
    let (mut ids, mut bytes) = (Vec::new(), 0);
    for line in unpacked(path)?.lines() {
        let line = line.map_err(|error| Failure::file(path, error))?;
        let article: Article =
            serde_json::from_str(&line).map_err(|error| Failure::file(path, error.into()))?;
        bytes += line.len() as u64 + 1;
        ids.push(article.id);
    }
    Ok((ids, bytes))
}

/// A gzipped file, unpacked.
pub fn unpacked(path: &Path) -> Result<impl BufRead + Send + use<>, Failure> {
    let file = File::open(path).map_err(|error| Failure::file(path, error))?;
    Ok(BufReader::new(MultiGzDecoder::new(BufReader::new(file))))
}
