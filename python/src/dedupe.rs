//! The decisions behind `lookalike.dedupe`. Frames are taken apart and put together in Python
//! (`lookalike/_dedupe.py`).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::arguments::{profile, threads, wrong};
use super::images;
use super::texts::Texts;
use super::work::interruptible;
use lookalike_dedupe::{
    DedupeError, Deduped, Groups, Hashed, Keep, Options, Radius, RadiusError, Watch, Weights, dedupe,
    dedupe_hashes,
};
use lookalike_hash::KeepRule;
use lookalike_text::features::Frequencies;

/// Which rows are kept, and what replaces the others. All lists of dropped rows have one order.
#[pyclass(frozen, module = "lookalike._lookalike")]
pub(crate) struct Decisions {
    /// The rows that are kept, ascending.
    #[pyo3(get)]
    kept: Vec<u32>,
    /// The rows that are dropped, ascending.
    #[pyo3(get)]
    dropped: Vec<u32>,
    /// The row that replaces each of them.
    #[pyo3(get)]
    replaced_by: Vec<u32>,
    /// The distance to it.
    #[pyo3(get)]
    distance: Vec<u32>,
    /// The estimated similarity, 0 to 1; None if the profile makes hashes.
    #[pyo3(get)]
    similarity: Option<Vec<f64>>,
    /// Whether both texts are equal.
    #[pyo3(get)]
    exact: Vec<bool>,
    /// The share of its features that the text that replaces it has, 0 to 1; None if it is not told.
    #[pyo3(get)]
    contained: Option<Vec<f64>>,
    /// The largest distance of near texts.
    #[pyo3(get)]
    k: u32,
    /// How many kept texts have no features.
    #[pyo3(get)]
    without_features: u32,
    /// How many texts are short for the profile.
    #[pyo3(get)]
    short: u32,
    /// The weights of features; None without weights.
    #[pyo3(get)]
    weights: Option<Py<Learned>>,
}

/// Weights of features that texts taught.
#[pyclass(frozen, module = "lookalike._lookalike", name = "Weights")]
pub(crate) struct Learned(pub(crate) Arc<Frequencies>);

#[pymethods]
impl Learned {
    /// How many different texts taught them.
    #[getter]
    fn documents(&self) -> u32 {
        self.0.documents()
    }

    /// Writes them into a file, as the command does with --save-weights.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| fs::write(&path, self.0.to_bytes())).map_err(|error| failed(&path, &error))
    }

    /// The weights of a file.
    #[staticmethod]
    fn load(path: &str) -> PyResult<Learned> {
        read(path).map(Learned)
    }

    /// The weights of the bytes of a file, which pickling uses, too.
    #[staticmethod]
    fn of_bytes(data: &[u8]) -> PyResult<Learned> {
        let table = Frequencies::from_bytes(data).map_err(|error| wrong("weights", error))?;
        Ok(Learned(Arc::new(table)))
    }

    /// The bytes of a file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let restore = py.get_type::<Learned>().getattr("of_bytes")?;
        Ok((restore, (self.to_bytes(py),)))
    }
}

/// Decides about the rows of several columns of texts, one after the other. `values` are those of the field
/// of the keep rule.
#[pyfunction]
#[pyo3(signature = (
    columns, values, *, argument, keep, profile, k, threshold, check, contained_in, weights, clusters,
    contained, min_quality, threads, progress
))]
#[allow(clippy::too_many_arguments, reason = "each is an argument of lookalike.dedupe")]
pub(crate) fn decide(
    py: Python<'_>,
    columns: Vec<Bound<'_, PyAny>>,
    values: Option<Vec<Option<String>>>,
    argument: &str,
    keep: &str,
    profile: &str,
    k: Option<u32>,
    threshold: Option<f64>,
    check: Option<f64>,
    contained_in: Option<f64>,
    weights: Option<&str>,
    clusters: &str,
    contained: bool,
    min_quality: u8,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Decisions> {
    let rule = rule(keep)?;
    let options = Options {
        profile: self::profile(profile)?,
        radius: radius(k, threshold)?,
        check,
        contained_in,
        weights: table(weights)?,
        groups: groups(clusters)?,
        is_central: rule == Keep::Central,
        is_contained_told: contained,
        threads: self::threads(threads)?,
    };
    if contained_in.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
        return Err(wrong("contained_in", "a share is a number from 0 to 1"));
    }
    if contained_in.is_some() && rule != Keep::By(KeepRule::Longest) {
        let why = "it needs keep=\"longest\": otherwise a longer text could be dropped for a part of it";
        return Err(wrong("contained_in", why));
    }
    if options.profile.takes_images() {
        let refused = [("check", check.is_some()), ("weights", weights.is_some())];
        if let Some((name, _)) = refused.iter().find(|(_, is_given)| *is_given) {
            return Err(wrong(name, "it is for texts, and the profile takes images"));
        }
        if rule == Keep::By(KeepRule::Longest) {
            return Err(wrong("keep", "\"longest\" is for texts, and the profile takes images"));
        }
        let made = images::many(argument, &columns, options.profile, options.threads, progress.as_ref())?;
        let keys = keys(&rule, keep, values.as_deref(), &vec![""; made.len()])?;
        let of = |made: images::Made| {
            let is_compared = made.quality >= min_quality;
            Hashed { hash: made.hash, is_compared, digest: made.digest }
        };
        let all: Vec<Hashed> = made.into_iter().map(of).collect();
        let result = py.detach(|| dedupe_hashes(&all, &keys, &options));
        return decisions(py, result.map_err(|error| self::refused(&error))?);
    }
    let held: Vec<Texts<'_>> =
        columns.iter().map(|column| Texts::of(argument, column)).collect::<PyResult<_>>()?;
    let mut texts = Vec::new();
    held.iter().try_for_each(|held| held.append_to(argument, &mut texts))?;
    let (texts, watch) = (&texts[..], &Watch::default());
    let keys = keys(&rule, keep, values.as_deref(), texts)?;
    let work = || dedupe(texts, &keys, &options, watch);
    let result = interruptible(py, watch, progress.as_ref(), work)?;
    decisions(py, result.map_err(|error| refused(&error))?)
}

fn decisions(py: Python<'_>, result: Deduped) -> PyResult<Decisions> {
    let Deduped { kept, dropped, without_features, short, k, weights } = result;
    Ok(Decisions {
        kept,
        dropped: dropped.iter().map(|own| own.number).collect(),
        replaced_by: dropped.iter().map(|own| own.by).collect(),
        distance: dropped.iter().map(|own| own.distance).collect(),
        similarity: dropped.iter().map(|own| own.similarity).collect::<Option<Vec<f64>>>(),
        exact: dropped.iter().map(|own| own.is_exact).collect(),
        contained: dropped.iter().map(|own| own.contained).collect::<Option<Vec<f64>>>(),
        k,
        without_features,
        short,
        weights: weights.map(|table| Py::new(py, Learned(table))).transpose()?,
    })
}

pub(crate) fn rule(keep: &str) -> PyResult<Keep> {
    match keep.parse::<Keep>().map_err(|why| wrong("keep", why))? {
        Keep::Source(_) => {
            let why = "rows of a frame have no source file: number your sources in a column, and keep \
                       \"min:COLUMN\"";
            Err(wrong("keep", why))
        }
        rule => Ok(rule),
    }
}

/// The keys of the rule; none if rows are visited in their order.
pub(crate) fn keys(
    rule: &Keep,
    keep: &str,
    values: Option<&[Option<String>]>,
    texts: &[&str],
) -> PyResult<Vec<u64>> {
    if *rule == Keep::FIRST || *rule == Keep::Central {
        return Ok(Vec::new());
    }
    if *rule != Keep::By(KeepRule::Longest) && values.is_none_or(|values| values.len() != texts.len()) {
        return Err(wrong("keep", format!("{keep:?} needs a value for each text")));
    }
    let key = |(row, text): (usize, &&str)| {
        let value = values.and_then(|values| values[row].as_deref());
        rule.key(value, text).map_err(|why| wrong("keep", format!("{keep}: row {row}: {why}")))
    };
    texts.iter().enumerate().map(key).collect()
}

pub(crate) fn radius(k: Option<u32>, threshold: Option<f64>) -> PyResult<Radius> {
    match (k, threshold) {
        (Some(_), Some(_)) => Err(wrong("threshold", "k says the same as a distance: give only one of them")),
        (Some(k), None) => Ok(Radius::Distance(k)),
        (None, Some(threshold)) => Ok(Radius::Similarity(threshold)),
        (None, None) => Ok(Radius::OfProfile),
    }
}

pub(crate) fn groups(clusters: &str) -> PyResult<Groups> {
    match clusters {
        "greedy" => Ok(Groups::Greedy),
        "linked" => Ok(Groups::Linked),
        _ => Err(wrong("clusters", format!("{clusters:?} is none of greedy, linked"))),
    }
}

fn table(weights: Option<&str>) -> PyResult<Weights> {
    match weights {
        None => Ok(Weights::IfTaught),
        Some("learned") => Ok(Weights::Learned),
        Some("none") => Ok(Weights::None),
        Some(path) => read(path).map(Weights::Table),
    }
}

fn read(path: &str) -> PyResult<Arc<Frequencies>> {
    let bytes = fs::read(path).map_err(|error| failed(Path::new(path), &error))?;
    let table = Frequencies::from_bytes(&bytes).map_err(|error| wrong("weights", format!("{path}: {error}")));
    table.map(Arc::new)
}

pub(crate) fn refused(error: &DedupeError) -> PyErr {
    let argument = match error {
        DedupeError::Radius(RadiusError::TooFar { .. }) => "k",
        DedupeError::Radius(RadiusError::FindsNoParts { .. }) | DedupeError::PartsOfGroups => "contained_in",
        DedupeError::Radius(_) => "threshold",
        DedupeError::TakesNoTexts(_) => "profile",
        DedupeError::Check => "check",
        DedupeError::TakesNoWeights { .. }
        | DedupeError::OtherFeatures { .. }
        | DedupeError::TooFew { .. } => "weights",
        DedupeError::TooMany(_) | DedupeError::Stopped(_) => "data",
    };
    wrong(argument, error)
}

fn failed(path: &Path, error: &std::io::Error) -> PyErr {
    PyOSError::new_err(format!("weights: {}: {error}", path.display()))
}
