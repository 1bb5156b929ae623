//! One run: a set goes into a collection, every document is asked about, and the pairs are scored.
//!
//! The pairs of all distances come from one question a document, at the largest distance of the table; that
//! questions at smaller distances answer the same is for [`super::check`] to show.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};

use super::check::{self, Checks};
use super::client::Failure;
use super::collection::{Collection, Neighbour, Settings, Way};
use super::labels::{Labels, Number, Pair, unpacked};

/// How a run is made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Questions under way at a time.
    pub parallel: usize,
    /// Documents that are asked about at each distance, by index and by scan.
    pub sample: usize,
}

/// What a run measured.
#[derive(Debug)]
pub struct Measured {
    /// The collection.
    pub settings: Settings,
    /// How the documents went in.
    pub imported: Imported,
    /// Stored documents with too few features to be trusted.
    pub short: usize,
    /// All documents asked about at the largest distance.
    pub wide: Asked,
    /// All documents asked about at the collection's own distance, without naming it.
    pub usual: Asked,
    /// What the answers came to at each distance.
    pub scores: Vec<Score>,
    /// Whether answers agree with each other.
    pub checks: Checks,
    /// How often the server was too busy for a question, which was then repeated.
    pub busy: u64,
}

/// How documents went in.
#[derive(Debug, Default)]
pub struct Imported {
    /// The numbers of those that were stored.
    pub stored: Vec<Number>,
    /// How many were refused, by code, with one sentence of each.
    pub refused: BTreeMap<String, (u64, String)>,
    /// From the first byte sent to the last line of the answer.
    pub time: Duration,
}

/// Questions about all stored documents.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The distance.
    pub k: u32,
    /// Questions: documents asked about.
    pub questions: usize,
    /// Requests: pages of their answers.
    pub pages: u64,
    /// Matches in them.
    pub matches: usize,
    /// The time they took together.
    pub time: Duration,
}

/// Right and wrong pairs at a distance.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    /// The distance.
    pub k: u32,
    /// Positive pairs found.
    pub right: usize,
    /// Negative pairs found.
    pub wrong: usize,
    /// Those of them that the second reading ignores.
    pub doubtful: usize,
    /// Positive pairs not found.
    pub missed: usize,
}

/// A pair that was answered, once from each side, and its distance.
pub type FoundPair = (Pair, u32);

/// The distances of the table, for a width.
pub fn distances(bits: u32) -> &'static [u32] {
    if bits == 64 { &[0, 3, 5, 7, 9, 11, 13, 15] } else { &[7, 11, 15, 19, 23, 27, 31] }
}

/// Makes a run in an empty collection.
pub async fn measure(collection: &Collection<'_>, labels: &Labels, plan: Plan) -> Result<Measured, Failure> {
    let settings = collection.settings.clone();
    let busy_before = collection.server.busy();
    let step = |what: &str| eprintln!("{} {}: {what}", labels.set.name, settings.profile);
    step("importing");
    let imported = import(collection, labels).await?;
    step("reading documents back");
    let short = short(collection, labels, &imported.stored, plan).await?;
    let ks = distances(settings.bits);
    let largest = ks.iter().copied().max();
    step("asking about every document at the largest distance");
    let (wide, answers) = ask_all(collection, labels, &imported.stored, largest, plan).await?;
    step("asking about every document at the collection's distance");
    let (usual, usual_answers) = ask_all(collection, labels, &imported.stored, None, plan).await?;
    step("asking about a sample by linear scan");
    let mut checks = check::sample(collection, labels, &imported.stored, &answers, plan).await?;
    checks.usual_differs = check::differing(&answers, &usual_answers, usual.k);
    let pairs;
    (pairs, checks.one_sided) = pairs_of(&imported.stored, &answers);
    let scores = ks.iter().map(|k| Score::at(*k, &pairs, labels)).collect();
    let busy = collection.server.busy() - busy_before;
    Ok(Measured { settings, imported, short, wide, usual, scores, checks, busy })
}

impl Measured {
    /// Answers that contradict each other.
    pub fn contradictions(&self) -> usize {
        self.checks.one_sided
            + self.checks.usual_differs
            + self.checks.index_differs
            + self.checks.scan_differs
    }
}

async fn import(collection: &Collection<'_>, labels: &Labels) -> Result<Imported, Failure> {
    let mut imported = Imported::default();
    let begun = Instant::now();
    let lines = unpacked(&labels.path)?;
    let each = |line: super::collection::Line| {
        let number = line.index.and_then(|index| Number::try_from(index).ok());
        match (number, line.error) {
            (Some(number), None) if line.outcome.as_deref() == Some("created") => {
                imported.stored.push(number);
            }
            (Some(_), Some(problem)) => {
                imported.refused.entry(problem.code).or_insert((0, problem.detail)).0 += 1;
            }
            _ => {}
        }
    };
    collection.import(lines, each).await?;
    imported.time = begun.elapsed();
    let refused: u64 = imported.refused.values().map(|(count, _)| count).sum();
    if imported.stored.len() as u64 + refused != labels.ids.len() as u64 {
        let stored = imported.stored.len();
        return Err(Failure::Contract {
            request: "POST of the set as NDJSON".to_owned(),
            breach: format!(
                "{} documents were sent, the answer tells of {stored} stored and {refused} refused",
                labels.ids.len()
            ),
        });
    }
    Ok(imported)
}

/// How many stored documents are `short`, by reading each of them back.
async fn short(
    collection: &Collection<'_>,
    labels: &Labels,
    stored: &[Number],
    plan: Plan,
) -> Result<usize, Failure> {
    let read = stream::iter(stored).map(|number| collection.stored(labels.id(*number)));
    let short = read
        .buffer_unordered(plan.parallel)
        .try_fold(0, async |count, document| Ok(count + usize::from(document.status == "short")));
    short.await
}

/// Asks about all stored documents; the answers come in the order of `stored`.
async fn ask_all(
    collection: &Collection<'_>,
    labels: &Labels,
    stored: &[Number],
    k: Option<u32>,
    plan: Plan,
) -> Result<(Asked, Vec<Vec<Neighbour>>), Failure> {
    let begun = Instant::now();
    let ask = |number: &Number| collection.similar(labels.id(*number), k, Way::Usual, &labels.numbers);
    let mut asked = stream::iter(stored).map(ask).buffered(plan.parallel);
    let (mut answers, mut pages) = (Vec::with_capacity(stored.len()), 0);
    while let Some(answer) = asked.try_next().await? {
        pages += answer.pages;
        answers.push(answer.neighbours);
    }
    let asked = Asked {
        k: k.unwrap_or(collection.settings.k),
        questions: stored.len(),
        pages,
        matches: answers.iter().map(Vec::len).sum(),
        time: begun.elapsed(),
    };
    Ok((asked, answers))
}

/// The pairs of all answers, and how many of them were answered from one side only or at two distances.
fn pairs_of(stored: &[Number], answers: &[Vec<Neighbour>]) -> (Vec<FoundPair>, usize) {
    let pair = |a: Number, b: &Neighbour| ((a.min(b.number), a.max(b.number)), b.distance);
    let both_ways =
        stored.iter().zip(answers).flat_map(|(a, answer)| answer.iter().map(move |b| pair(*a, b)));
    let mut pairs: Vec<FoundPair> = both_ways.collect();
    pairs.sort_unstable();
    let one_sided = pairs.chunk_by(|a, b| a == b).filter(|same| same.len() != 2).count();
    pairs.dedup();
    (pairs, one_sided)
}

impl Score {
    fn at(k: u32, pairs: &[FoundPair], labels: &Labels) -> Score {
        let found = || pairs.iter().filter(|(_, distance)| *distance <= k).map(|(pair, _)| pair);
        let counts = |pair: &&Pair| !labels.positive.contains(pair) && !labels.ignored.contains(pair);
        let right = found().filter(|pair| labels.positive.contains(pair)).count();
        let doubtful = |also: &HashSet<Pair>| found().filter(|pair| also.contains(pair)).count();
        Score {
            k,
            right,
            wrong: found().filter(counts).count(),
            doubtful: labels.also_ignored.as_ref().map_or(0, doubtful),
            missed: labels.positive.len() - right,
        }
    }

    /// The share of the found pairs that is right; `None` if none was found.
    pub fn precision(&self) -> Option<f64> {
        ratio(self.right, self.right + self.wrong)
    }

    /// The precision by the second reading.
    pub fn second_precision(&self) -> Option<f64> {
        ratio(self.right, self.right + self.wrong - self.doubtful)
    }

    /// The share of the positive pairs that was found.
    pub fn recall(&self) -> Option<f64> {
        ratio(self.right, self.right + self.missed)
    }

    /// The harmonic mean of a precision and the recall.
    pub fn f1(&self, precision: Option<f64>) -> Option<f64> {
        let (precision, recall) = (precision?, self.recall()?);
        (precision + recall > 0.0).then(|| 2.0 * precision * recall / (precision + recall))
    }
}

fn ratio(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
