//! Hashes from Python and for Python: numbers, hexadecimal digits, bytes, `NumPy` and Arrow arrays.
//!
//! As bytes a hash has its most significant byte first, as its digits are read. An array of many is one
//! block of bytes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};

use super::arguments::wrong;
use super::arrow;
use super::texts::kind;
use lookalike_hash::{Hash, Width};

/// What makes a pickled object anew: a function, and its arguments, the bits and the bytes of hashes.
pub(crate) type Pickled<'py> = (Bound<'py, PyAny>, (u32, Bound<'py, PyBytes>));

/// How hashes are given to Python.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Int,
    Hex,
    Bytes,
    NumPy,
    Arrow,
}

impl Form {
    const NAMED: [(&str, Form); 5] = [
        ("int", Form::Int),
        ("hex", Form::Hex),
        ("bytes", Form::Bytes),
        ("numpy", Form::NumPy),
        ("arrow", Form::Arrow),
    ];

    pub(crate) fn named(name: &str) -> PyResult<Form> {
        let found = Form::NAMED.iter().find(|(own, _)| *own == name);
        let names = || Form::NAMED.map(|(name, _)| name).join(", ");
        found.map(|(_, form)| *form).ok_or_else(|| wrong("form", format!("{name:?} is none of {}", names())))
    }

    /// One hash in this form.
    pub(crate) fn one(self, py: Python<'_>, hash: Hash) -> PyResult<Py<PyAny>> {
        match self {
            Form::Int => number(py, hash),
            Form::Hex => Ok(PyString::new(py, &hash.to_string()).into_any().unbind()),
            Form::Bytes => Ok(PyBytes::new(py, &bytes(hash)).into_any().unbind()),
            Form::NumPy | Form::Arrow => {
                Err(wrong("form", "one text has one hash: take int, hex or bytes, or give a list of texts"))
            }
        }
    }

    /// Many hashes of one width in this form.
    pub(crate) fn many(self, py: Python<'_>, width: Width, hashes: &[Hash]) -> PyResult<Py<PyAny>> {
        match self {
            Form::NumPy => numpy(py, width, hashes),
            Form::Arrow => Ok(Py::new(py, Hashes::new(width, hashes)?)?.into_any()),
            form => {
                let made: Vec<_> = hashes.iter().map(|hash| form.one(py, *hash)).collect::<PyResult<_>>()?;
                Ok(made.into_pyobject(py)?.unbind())
            }
        }
    }
}

fn bytes(hash: Hash) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(hash.width().bytes());
    hash.write_bytes(&mut bytes);
    bytes
}

/// A hash as a number.
pub(crate) fn number(py: Python<'_>, hash: Hash) -> PyResult<Py<PyAny>> {
    match hash.width() {
        Width::Bits64 => Ok(hash.low().into_pyobject(py)?.into_any().unbind()),
        _ => Ok(py.get_type::<PyInt>().call_method1("from_bytes", (&bytes(hash)[..], "big"))?.unbind()),
    }
}

/// Hashes as a `NumPy` array: of 64 bits as uint64 of shape (n,), of others as uint8 of shape (n, bytes).
fn numpy(py: Python<'_>, width: Width, hashes: &[Hash]) -> PyResult<Py<PyAny>> {
    let block: Vec<u8> = match width {
        Width::Bits64 => hashes.iter().flat_map(|hash| hash.low().to_ne_bytes()).collect(),
        _ => hashes.iter().flat_map(|hash| bytes(*hash)).collect(),
    };
    let kind = if width == Width::Bits64 { "uint64" } else { "uint8" };
    let array = array_of(py, &block, kind)?;
    if width == Width::Bits64 {
        return Ok(array.unbind());
    }
    Ok(array.call_method1("reshape", (hashes.len(), width.bytes()))?.unbind())
}

/// A one-dimensional `NumPy` array of these bytes.
pub(crate) fn array_of<'py>(py: Python<'py>, block: &[u8], kind: &str) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy").map_err(|error| {
        let missing = wrong("form", "numpy is not installed: pip install numpy, or take another form");
        missing.set_cause(py, Some(error));
        missing
    })?;
    numpy.call_method1("frombuffer", (PyBytes::new(py, block), kind))
}

/// Hashes of one width in one block of memory, which Arrow libraries read without a copy.
///
/// It is a sequence of int. `pyarrow.array(hashes)` and `polars.Series(hashes)` take it as an array of
/// fixed-size binary values: 8, 16 or 32 bytes, the most significant first.
///
/// >>> import lookalike as la
/// >>> hashes = la.fingerprint(["Fish and chips", "鱼和薯条"], profile="copies-64", form="arrow")
/// >>> len(hashes), hashes.bits, hashes[0] == la.fingerprint("Fish and chips", profile="copies-64")
/// (2, 64, True)
#[pyclass(frozen, sequence, module = "lookalike")]
pub(crate) struct Hashes {
    width: Width,
    array: FixedSizeBinaryArray,
}

impl Hashes {
    pub(crate) fn new(width: Width, hashes: &[Hash]) -> PyResult<Hashes> {
        let block: Vec<u8> = hashes.iter().flat_map(|hash| bytes(*hash)).collect();
        Hashes::of_block(width, block)
    }

    fn of_block(width: Width, block: Vec<u8>) -> PyResult<Hashes> {
        let array = FixedSizeBinaryArray::try_new(width.bytes() as i32, block.into(), None);
        Ok(Hashes { width, array: array.map_err(|error| wrong("data", error))? })
    }

    fn hashes(&self) -> Vec<Hash> {
        self.array.iter().flatten().filter_map(Hash::from_bytes).collect()
    }
}

#[pymethods]
impl Hashes {
    /// Hashes of `bits` bits (64, 128 or 256) from `data`, their bytes one after the other.
    ///
    /// Raises ValueError if `bits` is another number, or `data` ends within a hash.
    ///
    /// >>> import lookalike as la
    /// >>> la.Hashes(64, bytes(7) + b"\x03").tolist()
    /// [3]
    #[new]
    fn py_new(bits: u32, data: &[u8]) -> PyResult<Hashes> {
        let width = width(bits)?;
        if !data.len().is_multiple_of(width.bytes()) {
            let why =
                format!("{} bytes are not a whole number of hashes of {} bytes", data.len(), width.bytes());
            return Err(wrong("data", why));
        }
        Hashes::of_block(width, data.to_vec())
    }

    /// The bits of each hash: 64, 128 or 256.
    #[getter]
    fn bits(&self) -> u32 {
        self.width.bits()
    }

    /// The hashes as a list of int.
    ///
    /// >>> import lookalike as la
    /// >>> la.fingerprint([""], profile="copies-64", form="arrow").tolist()
    /// [0]
    fn tolist(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Form::Int.many(py, self.width, &self.hashes())
    }

    /// The hashes as a list of hexadecimal digits: 16, 32 or 64 each.
    ///
    /// >>> import lookalike as la
    /// >>> la.fingerprint([""], profile="copies-64", form="arrow").hex()
    /// ['0000000000000000']
    fn hex(&self) -> Vec<String> {
        self.hashes().iter().map(ToString::to_string).collect()
    }

    /// The hashes as a NumPy array: uint64 of shape (n,) for 64 bits, else uint8 of shape (n, bits / 8).
    ///
    /// Raises ValueError if NumPy is not installed.
    ///
    /// >>> import lookalike as la
    /// >>> la.fingerprint(["Fish and chips"], form="arrow").numpy().shape
    /// (1, 16)
    fn numpy(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        numpy(py, self.width, &self.hashes())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // The interface lets a producer answer with its own type: there is only one.
        drop(requested_schema);
        arrow::capsules(py, &self.array)
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Py<PyAny>> {
        let length = self.array.len();
        let place = if index < 0 { index.checked_add_unsigned(length) } else { Some(index) };
        let place = place.and_then(|place| usize::try_from(place).ok()).filter(|place| *place < length);
        let hash = place.and_then(|place| Hash::from_bytes(self.array.value(place)));
        let hash = hash.ok_or_else(|| {
            PyIndexError::new_err(format!("index {index} is out of range: there are {length} hashes"))
        })?;
        number(py, hash)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Hashes>().is_ok_and(|other| {
            let other = other.get();
            (self.width, &self.array) == (other.width, &other.array)
        })
    }

    fn __repr__(&self) -> String {
        format!("<lookalike.Hashes: {} of {} bits>", self.array.len(), self.width.bits())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Pickled<'py> {
        let block: Vec<u8> = self.array.iter().flatten().flatten().copied().collect();
        let class = py.get_type::<Hashes>().into_any();
        (class, (self.width.bits(), PyBytes::new(py, &block)))
    }
}

/// The width of this many bits.
pub(crate) fn width(bits: u32) -> PyResult<Width> {
    Width::from_bits(bits).ok_or_else(|| wrong("bits", format!("{bits} is none of 64, 128 and 256")))
}

/// Hashes that a caller gives: one or many.
pub(crate) enum Given {
    One(Hash),
    Many(Vec<Hash>),
}

impl Given {
    /// The hashes of an argument, which have this width.
    pub(crate) fn of(argument: &str, object: &Bound<'_, PyAny>, width: Width) -> PyResult<Given> {
        if let Some(hash) = one(argument, object, width)? {
            return Ok(Given::One(hash));
        }
        many(argument, object, width).map(Given::Many)
    }

    pub(crate) fn all(self) -> Vec<Hash> {
        match self {
            Given::One(hash) => vec![hash],
            Given::Many(hashes) => hashes,
        }
    }
}

/// One hash, as int, hexadecimal digits or bytes; `None` for an object of another type.
pub(crate) fn one(argument: &str, object: &Bound<'_, PyAny>, width: Width) -> PyResult<Option<Hash>> {
    let bits = width.bits();
    if let Ok(digits) = object.cast::<PyString>() {
        let hash: Hash = digits.to_str()?.parse().map_err(|error| wrong(argument, error))?;
        return fits(argument, hash, width).map(Some);
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        let hash = Hash::from_bytes(bytes.as_bytes()).filter(|hash| hash.width() == width);
        let why = || format!("{} bytes are no hash of {bits} bits", bytes.as_bytes().len());
        return hash.ok_or_else(|| wrong(argument, why())).map(Some);
    }
    // Numbers of NumPy are no int, but can be used as one. Arrays of one number can, too, and are many.
    if !object.is_instance_of::<PyInt>() && object.hasattr("__len__")? {
        return Ok(None);
    }
    let too_large =
        || wrong(argument, format!("{object} is not from 0 to 2**{bits} - 1: hashes have {bits} bits"));
    if width == Width::Bits64 {
        return match object.extract::<u64>() {
            Ok(word) => Ok(Some(Hash::from_u64(word))),
            Err(_) if object.is_instance_of::<PyInt>() => Err(too_large()),
            Err(_) => Ok(None),
        };
    }
    let Ok(number) = object.cast::<PyInt>() else { return Ok(None) };
    let block = number.call_method1("to_bytes", (width.bytes(), "big")).map_err(|_| too_large())?;
    Ok(Hash::from_bytes(block.cast::<PyBytes>()?.as_bytes()))
}

fn fits(argument: &str, hash: Hash, width: Width) -> PyResult<Hash> {
    let (own, wanted) = (hash.width().bits(), width.bits());
    let why = || format!("the hash {hash} has {own} bits, and {wanted} are wanted");
    (own == wanted).then_some(hash).ok_or_else(|| wrong(argument, why()))
}

fn many(argument: &str, object: &Bound<'_, PyAny>, width: Width) -> PyResult<Vec<Hash>> {
    if let Ok(hashes) = object.cast::<Hashes>() {
        let hashes = hashes.get();
        let why = format!("the hashes have {} bits, and {} are wanted", hashes.width.bits(), width.bits());
        return if hashes.width == width { Ok(hashes.hashes()) } else { Err(wrong(argument, why)) };
    }
    if let Some(arrays) = arrow::arrays(object)? {
        let mut hashes = Vec::new();
        for array in &arrays {
            append(argument, array, width, &mut hashes)?;
        }
        return Ok(hashes);
    }
    if let Some(hashes) = of_buffer(argument, object, width)? {
        return Ok(hashes);
    }
    let items = object.try_iter().map_err(|_| not_hashes(argument, object, width))?;
    let item = |item: PyResult<Bound<'_, PyAny>>| {
        let item = item?;
        one(argument, &item, width)?.ok_or_else(|| not_hashes(argument, &item, width))
    };
    items.map(item).collect()
}

fn not_hashes(argument: &str, object: &Bound<'_, PyAny>, width: Width) -> PyErr {
    let arrays = match width {
        Width::Bits64 => "an array of uint64".to_owned(),
        _ => format!("an array of uint8 of shape (n, {})", width.bytes()),
    };
    PyTypeError::new_err(format!(
        "{argument}: hashes of {} bits are int, hexadecimal digits, bytes, a list of them, {arrays}, or an \
         Arrow array of fixed-size binary values, not {}",
        width.bits(),
        kind(object)
    ))
}

/// Appends the hashes of an Arrow array.
fn append(argument: &str, array: &ArrayRef, width: Width, hashes: &mut Vec<Hash>) -> PyResult<()> {
    if array.null_count() > 0 {
        return Err(wrong(argument, "the array has nulls, which are no hashes: drop them first"));
    }
    if let Some(words) = array.as_primitive_opt::<UInt64Type>().filter(|_| width == Width::Bits64) {
        hashes.extend(words.values().iter().map(|word| Hash::from_u64(*word)));
        return Ok(());
    }
    let found = array.as_fixed_size_binary_opt().filter(|found| found.value_length() == width.bytes() as i32);
    let Some(found) = found else {
        let (kind, bytes) = (Arc::clone(array).data_type().to_string(), width.bytes());
        let why =
            format!("the Arrow type {kind} is no hash of {} bits: FixedSizeBinary({bytes}) is", width.bits());
        return Err(PyTypeError::new_err(format!("{argument}: {why}")));
    };
    hashes.extend(found.iter().flatten().filter_map(Hash::from_bytes));
    Ok(())
}

/// The hashes of an object with a buffer, such as a `NumPy` array; `None` if it has none.
fn of_buffer(argument: &str, object: &Bound<'_, PyAny>, width: Width) -> PyResult<Option<Vec<Hash>>> {
    let py = object.py();
    if let Ok(words) = PyBuffer::<u64>::get(object) {
        let is_list = words.dimensions() == 1 && width == Width::Bits64;
        return if is_list {
            Ok(Some(words.to_vec(py)?.into_iter().map(Hash::from_u64).collect()))
        } else {
            Err(not_hashes(argument, object, width))
        };
    }
    if let Ok(block) = PyBuffer::<u8>::get(object) {
        if block.dimensions() != 2 || block.shape()[1] != width.bytes() {
            return Err(wrong(argument, format!("the shape of the bytes is not (n, {})", width.bytes())));
        }
        let block = block.to_vec(py)?;
        return Ok(Some(block.chunks_exact(width.bytes()).filter_map(Hash::from_bytes).collect()));
    }
    Ok(None)
}
