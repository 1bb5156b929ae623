//! `lookalike.Index`.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use super::arguments::{radius, threads, wrong};
use super::hashes::{Form, Given, Hashes, Pickled, array_of, number, width};
use super::work::interruptible;
use lookalike_dedupe::{Watch, in_shares};
use lookalike_hamming::{HashIndex, NearPair, Neighbour, Subject, near_pairs, of_width, snapshot};
use lookalike_hash::Hash;

/// From so many hashes on, a call takes long enough for Ctrl+C.
const MANY: usize = 4_096;
/// The most queries that a thread takes at a time.
const TOGETHER: u64 = 1 << 14;

/// An exact index of distinct hashes: it finds every stored hash within Hamming distance k of a query.
///
/// `bits` is the width of the hashes: 64, 128 or 256. k belongs to the query, from 0 to the width. Every
/// answer equals that of a scan of all hashes. Several threads may read and write at the same time.
///
/// Hashes are int, hexadecimal digits, bytes, a list of these, a NumPy array (uint64 of shape (n,) for 64
/// bits, else uint8 of shape (n, bits / 8)), `Hashes`, or an Arrow array (uint64 for 64 bits, or fixed-size
/// binary values). Raises ValueError if a hash has another width.
///
/// >>> import lookalike as la
/// >>> index = la.Index(bits=64)
/// >>> index.add([0b1011, 0b0000, 2**64 - 1])
/// 3
/// >>> index.within(0b1000, k=2)
/// [(0, 1), (11, 2)]
#[pyclass(frozen, module = "lookalike")]
pub(crate) struct Index(Arc<dyn HashIndex>);

/// The near hashes of one query, the nearest first.
type Found = Vec<Neighbour<Hash>>;

impl Index {
    fn given(&self, argument: &str, hashes: &Bound<'_, PyAny>) -> PyResult<Given> {
        Given::of(argument, hashes, self.0.width())
    }

    /// All hashes, ascending.
    fn ascending(&self) -> Vec<Hash> {
        let mut hashes = Vec::with_capacity(self.0.len());
        self.0.for_each_sorted_run(&mut |run| hashes.extend(run));
        hashes
    }

    fn near(&self, hash: Hash, k: u32) -> Found {
        let mut found = Vec::new();
        self.0.within(hash.into(), k, &mut found);
        found.sort_unstable_by_key(|near| (near.distance, near.hash));
        found
    }

    fn near_many(&self, hashes: &[Hash], k: u32) -> Vec<Found> {
        let queries: Vec<Subject<'_>> = hashes.iter().map(|hash| (*hash).into()).collect();
        let mut all = Vec::with_capacity(queries.len());
        self.0.within_many(&queries, k, &mut |_, found| all.push(std::mem::take(found)));
        all
    }
}

/// The form of an answer with several columns.
fn as_columns(form: &str) -> PyResult<bool> {
    match form {
        "list" => Ok(false),
        "numpy" => Ok(true),
        _ => Err(wrong("form", format!("{form:?} is none of list, numpy"))),
    }
}

/// What `work` makes of hashes. Ctrl+C ends it if they are many: a thread that waits for signals takes longer
/// than a few hashes.
fn of_all(
    py: Python<'_>,
    hashes: Vec<Hash>,
    work: impl FnOnce(&mut dyn Iterator<Item = Hash>) -> usize + Send,
) -> PyResult<usize> {
    if hashes.len() < MANY {
        return Ok(py.detach(|| work(&mut hashes.into_iter())));
    }
    let watch = Watch::default();
    let mut left = hashes.into_iter().take_while(|_| watch.add(0).is_ok());
    interruptible(py, &watch, None, || work(&mut left))
}

fn pairs_of(py: Python<'_>, found: &Found) -> PyResult<Vec<(Py<PyAny>, u32)>> {
    found.iter().map(|near| Ok((number(py, near.hash)?, near.distance))).collect()
}

/// A `NumPy` array of these numbers.
fn column(py: Python<'_>, numbers: impl Iterator<Item = u32>) -> PyResult<Py<PyAny>> {
    let block: Vec<u8> = numbers.flat_map(u32::to_ne_bytes).collect();
    Ok(array_of(py, &block, "uint32")?.unbind())
}

#[pymethods]
impl Index {
    #[new]
    #[pyo3(signature = (bits=64))]
    fn py_new(bits: u32) -> PyResult<Index> {
        Ok(Index(of_width(width(bits)?)))
    }

    /// The bits of its hashes.
    #[getter]
    fn bits(&self) -> u32 {
        self.0.width().bits()
    }

    /// Adds hashes, one or many, and returns how many of them were not stored. After Ctrl+C some are stored.
    ///
    /// >>> import lookalike as la
    /// >>> index = la.Index(bits=64)
    /// >>> index.add([1, 2, 2]), index.add("00000000000000ff"), index.add(1)
    /// (2, 1, 0)
    fn add(&self, py: Python<'_>, hashes: &Bound<'_, PyAny>) -> PyResult<usize> {
        let hashes = self.given("hashes", hashes)?.all();
        of_all(py, hashes, |hashes| self.0.insert_all(hashes))
    }

    /// Removes hashes, one or many, and returns how many of them were stored. After Ctrl+C some are removed.
    ///
    /// >>> import lookalike as la
    /// >>> index = la.Index(bits=64)
    /// >>> index.add([1, 2, 3]), index.remove([2, 9]), len(index)
    /// (3, 1, 2)
    fn remove(&self, py: Python<'_>, hashes: &Bound<'_, PyAny>) -> PyResult<usize> {
        let hashes = self.given("hashes", hashes)?.all();
        of_all(py, hashes, |hashes| hashes.filter(|hash| self.0.remove(*hash)).count())
    }

    /// The stored hashes within `k` bits of one hash: a list of (hash, distance), the nearest first, and the
    /// smaller of two hashes at one distance first.
    ///
    /// Raises ValueError if `k` is larger than the bits of the index.
    ///
    /// >>> import lookalike as la
    /// >>> index = la.Index(bits=64)
    /// >>> index.add([0, 1, 3])
    /// 3
    /// >>> index.within(1, k=1)
    /// [(1, 0), (0, 1), (3, 1)]
    fn within(&self, py: Python<'_>, hash: &Bound<'_, PyAny>, k: u32) -> PyResult<Vec<(Py<PyAny>, u32)>> {
        let k = radius(k, self.bits())?;
        let Given::One(hash) = self.given("hash", hash)? else {
            return Err(wrong("hash", "within takes one hash; within_many takes many"));
        };
        pairs_of(py, &py.detach(|| self.near(hash, k)))
    }

    /// The stored hashes within `k` bits of each of many hashes.
    ///
    /// With `form` "list", a list with the answer of `within` for each hash. With "numpy", three arrays with
    /// an element for each near hash: the number of the query (uint32), the hash (uint64 for 64 bits, else
    /// uint8 of shape (n, bits / 8)), and the distance (uint32). `threads` changes no answer; None is one for
    /// each processor.
    ///
    /// >>> import lookalike as la
    /// >>> index = la.Index(bits=64)
    /// >>> index.add([0, 1, 3])
    /// 3
    /// >>> index.within_many([0, 255], k=1)
    /// [[(0, 0), (1, 1)], []]
    #[pyo3(signature = (hashes, k, *, form="list", threads=None))]
    fn within_many(
        &self,
        py: Python<'_>,
        hashes: &Bound<'_, PyAny>,
        k: u32,
        form: &str,
        threads: Option<usize>,
    ) -> PyResult<Py<PyAny>> {
        let (k, as_columns, threads) = (radius(k, self.bits())?, as_columns(form)?, self::threads(threads)?);
        let queries = self.given("hashes", hashes)?.all();
        let watch = Watch::default();
        let found = interruptible(py, &watch, None, || {
            // Each thread looks many up together, which takes less than a second.
            let most = (1_000_000_000 / self.0.cost(k).max(1)).clamp(1, TOGETHER) as usize;
            let share = queries.len().div_ceil(threads).clamp(1, most);
            in_shares(queries.len(), (threads, share), &watch, |share| self.near_many(&queries[share], k))
        })?;
        let found = found.unwrap_or_default();
        if !as_columns {
            let found: Vec<_> = found.iter().map(|found| pairs_of(py, found)).collect::<PyResult<_>>()?;
            return Ok(found.into_pyobject(py)?.unbind());
        }
        let numbers = (0..).zip(&found).flat_map(|(query, found)| found.iter().map(move |_| query));
        let hashes: Vec<Hash> = found.iter().flatten().map(|near| near.hash).collect();
        let distances = found.iter().flatten().map(|near| near.distance);
        let hashes = Form::NumPy.many(py, self.0.width(), &hashes)?;
        Ok((column(py, numbers)?, hashes, column(py, distances)?).into_pyobject(py)?.into_any().unbind())
    }

    /// All pairs of stored hashes within `k` bits, each once.
    ///
    /// With `form` "list", a list of (smaller hash, larger hash, distance), ascending. With "numpy", three
    /// arrays with an element for each pair: both hashes as in `within_many`, and the distance (uint32).
    ///
    /// >>> import lookalike as la
    /// >>> index = la.Index(bits=64)
    /// >>> index.add([0, 1, 255])
    /// 3
    /// >>> index.pairs(k=1)
    /// [(0, 1, 1)]
    #[pyo3(signature = (k, *, form="list"))]
    fn pairs(&self, py: Python<'_>, k: u32, form: &str) -> PyResult<Py<PyAny>> {
        let (k, as_columns) = (radius(k, self.bits())?, as_columns(form)?);
        let watch = Watch::default();
        let (hashes, mut found) = interruptible(py, &watch, None, || {
            let hashes = self.ascending();
            let mut list = near_pairs(self.0.width(), None);
            hashes.iter().for_each(|hash| list.push(*hash, &[]));
            list.begin(k);
            let mut found: Vec<NearPair> = Vec::new();
            while watch.add(0).is_ok() && list.step(k, &mut found) {}
            (hashes, found)
        })?;
        found.sort_unstable();
        let sides = |side: fn(&NearPair) -> u32| {
            found.iter().map(|pair| hashes[side(pair) as usize]).collect::<Vec<Hash>>()
        };
        let [first, second] = [sides(|pair| pair.first), sides(|pair| pair.second)];
        let distances = found.iter().map(|pair| pair.distance);
        if as_columns {
            let [first, second] = [first, second].map(|side| Form::NumPy.many(py, self.0.width(), &side));
            return Ok((first?, second?, column(py, distances)?).into_pyobject(py)?.into_any().unbind());
        }
        let pair =
            |((a, b), distance): ((&Hash, &Hash), u32)| Ok((number(py, *a)?, number(py, *b)?, distance));
        let pairs: Vec<_> = first.iter().zip(&second).zip(distances).map(pair).collect::<PyResult<_>>()?;
        Ok(pairs.into_pyobject(py)?.unbind())
    }

    /// All stored hashes, ascending.
    ///
    /// >>> import lookalike as la
    /// >>> index = la.Index(bits=64)
    /// >>> index.add([5, 2])
    /// 2
    /// >>> index.hashes().tolist()
    /// [2, 5]
    fn hashes(&self, py: Python<'_>) -> PyResult<Hashes> {
        let hashes = py.detach(|| self.ascending());
        Hashes::new(self.0.width(), &hashes)
    }

    /// Saves the index in a file, in place of what the file held: after a failure it holds the old bytes.
    ///
    /// Raises OSError if the file cannot be written.
    ///
    /// >>> import lookalike as la, os, tempfile
    /// >>> index = la.Index(bits=64)
    /// >>> index.add([5, 2])
    /// 2
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     file = os.path.join(folder, "hashes.index")
    /// ...     index.save(file)
    /// ...     len(la.Index.load(file))
    /// 2
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| snapshot::save(&self.0, &path)).map_err(|error| failed(&error))
    }

    /// The index of a file that `save` wrote, by all processors.
    ///
    /// Raises OSError if the file cannot be read, is damaged, or is of a newer version.
    ///
    /// >>> import lookalike as la
    /// >>> la.Index.load("no such file")
    /// Traceback (most recent call last):
    ///     ...
    /// OSError: no such file cannot be opened: No such file or directory (os error 2)
    #[classmethod]
    fn load(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf) -> PyResult<Index> {
        py.detach(|| snapshot::open(&path)).map(Index).map_err(|error| failed(&error))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __contains__(&self, hash: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self.given("hash", hash)? {
            Given::One(hash) => Ok(self.0.contains(hash)),
            Given::Many(_) => Err(wrong("hash", "one hash is in an index or not: ask for each")),
        }
    }

    fn __repr__(&self) -> String {
        format!("<lookalike.Index: {} hashes of {} bits>", self.0.len(), self.bits())
    }

    /// Rebuilds a pickled index.
    #[classmethod]
    fn _of_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bits: u32, data: &[u8]) -> PyResult<Index> {
        let index = Index(of_width(width(bits)?));
        let bytes = index.0.width().bytes();
        py.detach(|| index.0.insert_all(&mut data.chunks_exact(bytes).filter_map(Hash::from_bytes)));
        Ok(index)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Pickled<'py>> {
        let mut block = Vec::new();
        self.ascending().iter().for_each(|hash| hash.write_bytes(&mut block));
        let restore = py.get_type::<Index>().getattr("_of_bytes")?;
        Ok((restore, (self.bits(), PyBytes::new(py, &block))))
    }
}

/// The error of a file, with its cause.
fn failed(error: &snapshot::SnapshotError) -> PyErr {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    PyOSError::new_err(format!("{error}{cause}"))
}
