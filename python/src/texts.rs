//! Texts from Python: strings, or Arrow arrays of strings, whose bytes are read where they are.
//!
//! Costs: Python keeps a UTF-8 copy of a string that is not ASCII, as long as the string lives. Arrow arrays
//! are UTF-8 already.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping, PyString};

use super::arguments::wrong;
use super::arrow::arrays;

/// Texts, held by Python objects or Arrow arrays.
pub(crate) enum Texts<'py> {
    Strings(Vec<Bound<'py, PyString>>),
    Arrays(Vec<ArrayRef>),
}

impl<'py> Texts<'py> {
    /// The texts of an object. `argument` is its name for errors.
    pub(crate) fn of(argument: &str, object: &Bound<'py, PyAny>) -> PyResult<Texts<'py>> {
        if let Some(arrays) = arrays(object)? {
            return Ok(Texts::Arrays(arrays));
        }
        let is_one = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
        let items = object.try_iter().ok().filter(|_| !is_one && object.cast::<PyMapping>().is_err());
        let items = items.ok_or_else(|| {
            let kind = kind(object);
            PyTypeError::new_err(format!(
                "{argument}: texts are a list of str or a column of strings (Arrow, polars, pandas), not \
                 {kind}"
            ))
        })?;
        let string = |(row, item): (usize, PyResult<Bound<'py, PyAny>>)| {
            let item = item?;
            item.cast_into::<PyString>().map_err(|error| {
                let item = error.into_inner();
                if item.is_none() {
                    return null(argument, row);
                }
                let kind = kind(&item);
                PyTypeError::new_err(format!(
                    "{argument}: row {row} is {kind}, not str; convert it with str()"
                ))
            })
        };
        Ok(Texts::Strings(items.enumerate().map(string).collect::<PyResult<_>>()?))
    }

    /// Appends the texts. `argument` is their name for errors.
    pub(crate) fn append_to<'a>(&'a self, argument: &str, texts: &mut Vec<&'a str>) -> PyResult<()> {
        match self {
            Texts::Strings(strings) => {
                for (row, string) in strings.iter().enumerate() {
                    let text = string.to_str().map_err(|error| {
                        wrong(argument, format!("row {row} is not Unicode ({error}); replace its surrogates"))
                    })?;
                    texts.push(text);
                }
            }
            Texts::Arrays(arrays) => {
                let mut first = 0;
                for array in arrays {
                    append_array(argument, array, first, texts)?;
                    first += array.len();
                }
            }
        }
        Ok(())
    }
}

/// Appends the texts of an array whose first row has this number.
fn append_array<'a>(
    argument: &str,
    array: &'a ArrayRef,
    first: usize,
    texts: &mut Vec<&'a str>,
) -> PyResult<()> {
    if array.null_count() > 0 {
        let row = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or_default();
        return Err(null(argument, first + row));
    }
    if let Some(strings) = array.as_string_opt::<i32>() {
        texts.extend(strings.iter().flatten());
    } else if let Some(strings) = array.as_string_opt::<i64>() {
        texts.extend(strings.iter().flatten());
    } else if let Some(strings) = array.as_string_view_opt() {
        texts.extend(strings.iter().flatten());
    } else if !array.is_empty() {
        let kind = array.data_type();
        return Err(PyTypeError::new_err(format!(
            "{argument}: the column has the Arrow type {kind}, and texts are strings: cast it to string first"
        )));
    }
    Ok(())
}

fn null(argument: &str, row: usize) -> PyErr {
    wrong(argument, format!("row {row} has no text (null): leave such rows out, or give them an empty text"))
}

/// The type of an object, for messages.
pub(crate) fn kind(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().fully_qualified_name();
    name.map_or_else(|_| "an object of another type".to_owned(), |name| name.to_string())
}
