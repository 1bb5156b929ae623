//! The steps of deduplication for engines, as functions from Arrow columns to Arrow columns
//! (`lookalike/_engines.py` composes them).
//!
//! Numbers and keys are signed, because not every engine has unsigned ones: the order is the same.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::arguments::{profile, threads, wrong};
use super::arrow;
use super::dedupe::{Learned, groups, keys, radius, refused, rule};
use super::texts::{Texts, kind};
use super::work::interruptible;
use lookalike_corpus::{Decision, Print};
use lookalike_dedupe::{Keep, Kernel, Lesson, Options, Stopped, Watch, contained};
use lookalike_hash::Hash;
use lookalike_text::fingerprint::{Profile, Signature, Status};

/// The most minima of a signature.
const MOST_MINIMA: usize = 65_536;

/// What the arguments of `lookalike.dedupe` mean for the steps. It is pickled as its arguments.
#[pyclass(frozen, module = "lookalike._lookalike", name = "Kernel")]
pub(crate) struct Steps {
    kernel: Kernel,
    k: Option<u32>,
    threshold: Option<f64>,
    keep: String,
    rule: Keep,
    check: Option<f64>,
    clusters: String,
    weights: Option<Py<Learned>>,
}

/// Columns with names, for pyarrow.record_batch.
#[pyclass(frozen, module = "lookalike._lookalike")]
pub(crate) struct Columns(StructArray);

#[pymethods]
impl Columns {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // The interface lets a producer answer with its own type.
        drop(requested_schema);
        arrow::capsules(py, &self.0)
    }
}

fn columns(named: Vec<(&str, ArrayRef)>) -> PyResult<Columns> {
    let batch = RecordBatch::try_from_iter(named).map_err(|error| wrong("columns", error))?;
    Ok(Columns(batch.into()))
}

#[pymethods]
impl Steps {
    #[new]
    #[pyo3(signature = (profile, k, threshold, check, keep, clusters, weights))]
    #[allow(clippy::too_many_arguments, reason = "each is an argument of lookalike.dedupe")]
    fn py_new(
        py: Python<'_>,
        profile: &str,
        k: Option<u32>,
        threshold: Option<f64>,
        check: Option<f64>,
        keep: &str,
        clusters: &str,
        weights: Option<Py<Learned>>,
    ) -> PyResult<Steps> {
        let rule = rule(keep)?;
        let options = Options {
            profile: self::profile(profile)?,
            radius: radius(k, threshold)?,
            check,
            groups: groups(clusters)?,
            is_central: rule == Keep::Central,
            ..Options::default()
        };
        let table = weights.as_ref().map(|weights| Arc::clone(&weights.bind(py).get().0));
        if table.is_some() && !options.profile.takes_weights() {
            let why = format!("{} takes no weights; minhash-copies does", options.profile.id());
            return Err(wrong("weights", why));
        }
        let kernel = Kernel::new(&options, table).map_err(|error| refused(&error))?;
        let (keep, clusters) = (keep.to_owned(), clusters.to_owned());
        Ok(Steps { kernel, k, threshold, keep, rule, check, clusters, weights })
    }

    /// The largest distance of near texts.
    #[getter]
    fn k(&self) -> u32 {
        self.kernel.k()
    }

    /// Whether texts that share no band are never near, so that an engine finds those that are near any.
    #[getter]
    fn meets(&self) -> bool {
        self.kernel.meets().is_some()
    }

    /// The similarity at a distance; None if the profile makes hashes.
    fn similarity(&self, distance: u32) -> Option<f64> {
        self.kernel.profile().signatures().map(|shape| shape.similarity(distance))
    }

    /// Of texts and the values of the keep rule: their keys, the names of those that are compared alike,
    /// hashes, signatures and sketches, and the texts if they are compared; whether each has no features, and
    /// is short.
    fn prints(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        values: Option<Vec<Option<String>>>,
    ) -> PyResult<Columns> {
        let held = Texts::of("text", texts)?;
        let mut texts = Vec::new();
        held.append_to("text", &mut texts)?;
        let texts = &texts[..];
        let mut keys = keys(&self.rule, &self.keep, values.as_deref(), texts)?;
        keys.resize(texts.len(), 0);
        let watch = &Watch::default();
        let work = || {
            let print = |text: &&str| {
                watch.add(1)?;
                Ok::<_, Stopped>(self.kernel.printer().print(text))
            };
            texts.iter().map(print).collect::<Result<Vec<_>, _>>()
        };
        let made = interruptible(py, watch, None, work)?.map_err(|error| wrong("text", error))?;
        let bytes = |of: &dyn Fn(&Print) -> Vec<u8>| -> ArrayRef {
            Arc::new(BinaryArray::from_iter_values(made.iter().map(|(_, print)| of(print))))
        };
        let status = |status: Status| -> ArrayRef {
            let has = made.iter().map(|(fingerprint, _)| Some(fingerprint.status == status));
            Arc::new(has.collect::<BooleanArray>())
        };
        let groups = texts.iter().zip(&made).map(|(text, (_, print))| self.kernel.group(text, print));
        let compared = texts.iter().map(|text| Some(*text).filter(|_| self.kernel.reads_texts()));
        columns(vec![
            ("key", Arc::new(Int64Array::from_iter_values(keys.into_iter().map(signed)))),
            ("group", Arc::new(BinaryArray::from_iter_values(groups))),
            ("hash", bytes(&|print| hash_bytes(print.hash))),
            ("signature", bytes(&|print| print.signature.clone())),
            ("sketch", bytes(&|print| print.sketch.clone())),
            ("text", Arc::new(compared.collect::<StringArray>())),
            ("is_empty", status(Status::Empty)),
            ("is_short", status(Status::Short)),
        ])
    }

    /// The bands of signatures: the row of each signature, repeated, and the key of each of its bands.
    fn bands(&self, signatures: &Bound<'_, PyAny>) -> PyResult<Columns> {
        let (mut rows, mut bands) = (Vec::new(), Vec::new());
        for (row, signature) in (0..).zip(Bytes::of("signature", signatures)?.all()) {
            for key in self.kernel.bucket_keys(signature) {
                rows.push(row);
                bands.push(signed(key));
            }
        }
        columns(vec![("row", Arc::new(Int64Array::from(rows))), ("band", Arc::new(Int64Array::from(bands)))])
    }

    /// Whether each of these signatures and sketches is near another one with the same band; and the number
    /// of comparisons.
    fn near(
        &self,
        py: Python<'_>,
        bands: &Bound<'_, PyAny>,
        signatures: &Bound<'_, PyAny>,
        sketches: &Bound<'_, PyAny>,
    ) -> PyResult<(Columns, u64)> {
        let bands = numbers("band", bands)?;
        let (signatures, sketches) = (Bytes::of("signature", signatures)?, Bytes::of("sketch", sketches)?);
        let met = bands.into_iter().map(unsigned).zip(signatures.all()).zip(sketches.all());
        let met: Vec<_> = met.map(|((key, signature), sketch)| (key, signature, sketch)).collect();
        let (marks, comparisons) = py.detach(|| self.kernel.mark_near(&met));
        Ok((columns(vec![("is_near", Arc::new(BooleanArray::from(marks)))])?, comparisons))
    }

    /// The decisions about documents with these keys, whose prints are the rows `print_of` of the hashes,
    /// signatures, sketches and texts: the row that replaces each, or null, and the distance to it.
    #[pyo3(signature = (keys, print_of, hashes, signatures, sketches, texts, *, threads=None))]
    #[allow(clippy::too_many_arguments, reason = "each is a column")]
    fn decide(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        print_of: &Bound<'_, PyAny>,
        hashes: &Bound<'_, PyAny>,
        signatures: &Bound<'_, PyAny>,
        sketches: &Bound<'_, PyAny>,
        texts: &Bound<'_, PyAny>,
        threads: Option<usize>,
    ) -> PyResult<Columns> {
        let held = Texts::of("text", texts)?;
        let mut texts = Vec::new();
        if self.kernel.reads_texts() {
            held.append_to("text", &mut texts)?;
        }
        let keys: Vec<u64> = numbers("keys", keys)?.into_iter().map(unsigned).collect();
        let print_of: Vec<u32> = numbers("print_of", print_of)?
            .into_iter()
            .map(|row| u32::try_from(row).map_err(|_| wrong("print_of", "there are too many texts")))
            .collect::<PyResult<_>>()?;
        let [hashes, signatures, sketches] =
            [("hash", hashes), ("signature", signatures), ("sketch", sketches)]
                .map(|(name, column)| Bytes::of(name, column));
        let (hashes, signatures, sketches) = (hashes?, signatures?, sketches?);
        let print = |((hash, signature), sketch): ((&[u8], &[u8]), &[u8])| {
            let hash = Hash::from_bytes(hash).ok_or_else(|| wrong("hash", "it has no width of a hash"))?;
            PyResult::Ok(Print { hash, signature: signature.to_vec(), sketch: sketch.to_vec() })
        };
        texts.resize(print_of.len(), "");
        let prints = hashes.all().zip(signatures.all()).zip(sketches.all()).map(print);
        let prints: Vec<(&str, Print)> =
            texts.iter().zip(prints).map(|(text, print)| Ok((*text, print?))).collect::<PyResult<_>>()?;
        let (threads, watch) = (self::threads(threads)?, &Watch::default());
        let work = || self.kernel.decide(keys, &print_of, &prints, threads, watch);
        let decisions = interruptible(py, watch, None, work)?.map_err(|error| wrong("text", error))?;
        let told = |decision: &Decision| match *decision {
            Decision::Kept => None,
            Decision::Dropped { by, distance } => Some((i64::from(by), i64::from(distance))),
        };
        let by = decisions.iter().map(|own| told(own).map(|(by, _)| by)).collect::<Int64Array>();
        let distance = decisions.iter().map(|own| told(own).map(|(_, far)| far)).collect::<Int64Array>();
        columns(vec![("by", Arc::new(by)), ("distance", Arc::new(distance))])
    }

    /// What is told of dropped texts, the texts that replace them, and the distances: the similarity, or
    /// null, whether both are equal, and the share of the dropped one in the other.
    fn told(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        by: &Bound<'_, PyAny>,
        distances: &Bound<'_, PyAny>,
    ) -> PyResult<Columns> {
        let distances = numbers("distance", distances)?;
        let (texts, by) = (Texts::of("text", texts)?, Texts::of("text", by)?);
        let (mut own, mut others) = (Vec::new(), Vec::new());
        texts.append_to("text", &mut own)?;
        by.append_to("text", &mut others)?;
        let profile = self.kernel.profile();
        let shape = profile.signatures();
        let shares: Vec<f64> = py.detach(|| {
            let pairs = own.iter().zip(&others);
            pairs.flat_map(|(text, by)| contained(profile, by, [*text])).collect()
        });
        let similar = |distance: &i64| shape.map(|shape| shape.similarity(*distance as u32));
        let exact = own.iter().zip(&others).zip(&distances);
        let exact = exact.map(|((text, by), distance)| Some(*distance == 0 && text == by));
        columns(vec![
            ("similarity", Arc::new(distances.iter().map(similar).collect::<Float64Array>())),
            ("exact", Arc::new(exact.collect::<BooleanArray>())),
            ("contained", Arc::new(Float64Array::from(shares))),
        ])
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (profile, k, threshold) = (self.kernel.profile().id().to_string(), self.k, self.threshold);
        let weights = self.weights.as_ref().map(|weights| weights.clone_ref(py));
        let arguments =
            (profile, k, threshold, self.check, self.keep.as_str(), self.clusters.as_str(), weights);
        Ok((py.get_type::<Steps>().into_any(), arguments.into_pyobject(py)?))
    }
}

/// The minima of texts by a profile, `minima` numbers of 32 bits each, the least significant byte first; null
/// if a text has no features.
#[pyfunction]
pub(crate) fn minima(
    py: Python<'_>,
    texts: &Bound<'_, PyAny>,
    profile: &str,
    minima: usize,
) -> PyResult<Columns> {
    let profile = self::profile(profile)?;
    if !(1..=MOST_MINIMA).contains(&minima) {
        return Err(wrong("minima", format!("{minima} is not from 1 to {MOST_MINIMA}")));
    }
    let held = Texts::of("text", texts)?;
    let mut texts = Vec::new();
    held.append_to("text", &mut texts)?;
    let made = py.detach(|| {
        let of_text = |text: &&str| {
            let set = profile.feature_set(text);
            let made = (!set.is_empty()).then(|| Signature::of(&set, minima))?;
            Some(made.minima().iter().flat_map(|own| own.to_le_bytes()).collect::<Vec<u8>>())
        };
        texts.iter().map(of_text).collect::<BinaryArray>()
    });
    columns(vec![("minima", Arc::new(made))])
}

/// The weights of features that are being learned, from texts with numbers.
#[pyclass(module = "lookalike._lookalike", name = "Lesson")]
pub(crate) struct Taught {
    profile: &'static Profile,
    lesson: Lesson,
}

#[pymethods]
impl Taught {
    #[new]
    fn py_new(profile: &str) -> PyResult<Taught> {
        let profile = self::profile(profile)?;
        Ok(Taught { profile, lesson: Lesson::of(profile) })
    }

    /// Whether the profile has weights.
    #[getter]
    fn takes_weights(&self) -> bool {
        self.profile.takes_weights()
    }

    /// Whether each of the texts with these numbers teaches.
    #[staticmethod]
    fn counts(numbers: &Bound<'_, PyAny>) -> PyResult<Columns> {
        let counts = self::numbers("number", numbers)?.into_iter().map(|number| {
            let number = u32::try_from(number).map_err(|_| wrong("text", "at most 4294967295 are possible"));
            Ok(Some(Lesson::counts(number?)))
        });
        columns(vec![("counts", Arc::new(counts.collect::<PyResult<BooleanArray>>()?))])
    }

    /// Adds texts that teach, in the order of their numbers. Returns whether further ones change nothing.
    #[pyo3(signature = (texts, *, threads=None))]
    fn add(&mut self, py: Python<'_>, texts: &Bound<'_, PyAny>, threads: Option<usize>) -> PyResult<bool> {
        let held = Texts::of("text", texts)?;
        let mut texts = Vec::new();
        held.append_to("text", &mut texts)?;
        let (threads, watch, profile) = (self::threads(threads)?, &Watch::default(), self.profile);
        let work = || self.lesson.add_texts(profile, &texts, threads, watch);
        interruptible(py, watch, None, work)?.map_err(|error| wrong("text", error))?;
        Ok(self.lesson.is_full())
    }

    /// How many different texts taught.
    #[getter]
    fn documents(&self) -> u32 {
        self.lesson.documents()
    }

    /// The weights, and an empty lesson; None if the texts were too few.
    fn table(&mut self) -> Option<Learned> {
        std::mem::replace(&mut self.lesson, Lesson::of(self.profile))
            .table()
            .map(|table| Learned(Arc::new(table)))
    }
}

/// A key as a signed number of the same order.
fn signed(key: u64) -> i64 {
    (key ^ 1 << 63).cast_signed()
}

fn unsigned(key: i64) -> u64 {
    key.cast_unsigned() ^ 1 << 63
}

fn hash_bytes(hash: Hash) -> Vec<u8> {
    let mut bytes = Vec::new();
    hash.write_bytes(&mut bytes);
    bytes
}

fn given(argument: &str, column: &Bound<'_, PyAny>) -> PyResult<Vec<ArrayRef>> {
    let none = || PyTypeError::new_err(format!("{argument}: {} is no Arrow array", kind(column)));
    arrow::arrays(column)?.ok_or_else(none)
}

fn numbers(argument: &str, column: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let mut numbers = Vec::new();
    for array in given(argument, column)? {
        let none = || PyTypeError::new_err(format!("{argument}: the column has no int64"));
        numbers.extend(array.as_primitive_opt::<Int64Type>().ok_or_else(none)?.iter().flatten());
    }
    Ok(numbers)
}

/// A column of bytes.
struct Bytes(Vec<ArrayRef>);

impl Bytes {
    fn of(argument: &str, column: &Bound<'_, PyAny>) -> PyResult<Bytes> {
        let arrays = given(argument, column)?;
        let are_bytes = |array: &ArrayRef| {
            array.as_binary_opt::<i32>().is_some() || array.as_binary_opt::<i64>().is_some()
        };
        if !arrays.iter().all(are_bytes) {
            return Err(PyTypeError::new_err(format!("{argument}: the column has no bytes")));
        }
        Ok(Bytes(arrays))
    }

    /// The values, in their order.
    fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().flat_map(|array| {
            let short = array.as_binary_opt::<i32>().into_iter().flat_map(|own| own.iter().flatten());
            let long = array.as_binary_opt::<i64>().into_iter().flat_map(|own| own.iter().flatten());
            short.chain(long)
        })
    }
}
