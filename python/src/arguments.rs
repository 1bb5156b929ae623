//! Arguments that several functions take, and the errors that name them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use lookalike_text::fingerprint::{Profile, Profiles};

/// The most threads of a call.
const MOST_THREADS: usize = 1_024;

/// An error of a value, which names the argument.
pub(crate) fn wrong(argument: &str, why: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{argument}: {why}"))
}

/// The built-in profile with this name or id.
pub(crate) fn profile(name: &str) -> PyResult<&'static Profile> {
    Profile::named(name).ok_or_else(|| {
        wrong("profile", format!("there is no profile {name:?}; there are {}", Profiles::default().listing()))
    })
}

/// The number of threads; by default one for each processor that this process may use.
pub(crate) fn threads(threads: Option<usize>) -> PyResult<usize> {
    match threads {
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        Some(threads @ 1..=MOST_THREADS) => Ok(threads),
        Some(threads) => {
            let why = format!("{threads} is not from 1 to {MOST_THREADS}; None is one for each processor");
            Err(wrong("threads", why))
        }
    }
}

/// A distance in an index or map with hashes of this many bits.
pub(crate) fn radius(k: u32, most: u32) -> PyResult<u32> {
    if k <= most {
        Ok(k)
    } else {
        Err(wrong("k", format!("{k} is larger than {most}, the largest distance")))
    }
}
