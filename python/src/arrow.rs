//! Arrow arrays of other libraries without copies, by the `PyCapsule` interface, and ours for them.
//!
//! The only unsafe code of the package. What crosses is two or three C structures whose layout Arrow fixes;
//! `arrow-array` checks their contents. *Absent*: tables, which callers take apart into columns.
#![allow(unsafe_code, reason = "structures of C are read from the memory of another library")]

use std::ffi::CStr;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayRef, make_array};
use pyo3::exceptions::{PyImportError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

/// The names that the interface gives to capsules.
const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// The arrays of an object, one or several; `None` if it has none to give.
pub(crate) fn arrays(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<ArrayRef>>> {
    if let Some(method) = object.getattr_opt("__arrow_c_array__")? {
        let Some(made) = unless_uninstalled(object.py(), method.call0())? else { return Ok(None) };
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = made.extract()?;
        return Ok(Some(vec![of_capsules(&schema, &array)?]));
    }
    if let Some(method) = object.getattr_opt("__arrow_c_stream__")? {
        let Some(made) = unless_uninstalled(object.py(), method.call0())? else { return Ok(None) };
        return of_stream(made.cast()?).map(Some);
    }
    Ok(None)
}

/// pandas has the method, but needs pyarrow to answer: without it, its values are read one by one.
fn unless_uninstalled<'py>(
    py: Python<'py>,
    made: PyResult<Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match made {
        Err(error) if error.is_instance_of::<PyImportError>(py) => Ok(None),
        made => made.map(Some),
    }
}

fn of_capsules(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<ArrayRef> {
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: a capsule of this name holds a valid structure of this kind, which lives as long as the
    // capsule, and this thread holds Python's lock. The array is moved out, as the interface prescribes:
    // what stays in the capsule is marked as released, so that it is released once. The contents belong to
    // the schema, because one call of the interface gave both.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    Ok(make_array(data.map_err(unreadable)?))
}

fn of_stream(stream: &Bound<'_, PyCapsule>) -> PyResult<Vec<ArrayRef>> {
    let stream = stream.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: as for arrays: a capsule of this name holds a valid stream, which is moved out and released
    // once.
    let reader = unsafe { ArrayStreamReader::from_raw(stream.as_ptr()) };
    reader.map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)
}

/// The two capsules of an array: its schema and its contents, which are not copied.
pub(crate) fn capsules<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyTuple>> {
    let (array, schema) = to_ffi(&array.to_data()).map_err(unreadable)?;
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    PyTuple::new(py, [schema, array])
}

fn unreadable(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("the Arrow data cannot be read: {error}"))
}
