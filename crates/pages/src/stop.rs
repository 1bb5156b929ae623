//! Ends long work early, when the caller no longer needs it.
//!
//! Inside, the work knows one reason to stop. A function that is generic over the error of its caller would
//! be compiled again in every crate that calls it, with all tokenizers.

use std::cell::Cell;
use std::convert::Infallible;

/// The check of the caller has failed.
#[derive(Debug, PartialEq, Eq)]
pub struct Stop;

/// Is called between the steps of long work.
pub type Check<'a> = &'a dyn Fn() -> Result<(), Stop>;

/// Does work that stops with the error of `check`.
///
/// # Panics
/// If the work stops although no check has failed.
pub fn stoppable<T, E>(
    check: impl Fn() -> Result<(), E>,
    work: impl FnOnce(Check<'_>) -> Result<T, Stop>,
) -> Result<T, E> {
    let cause = Cell::new(None);
    let done = work(&|| {
        check().map_err(|error| {
            cause.set(Some(error));
            Stop
        })
    });
    done.map_err(|Stop| cause.take().expect("only a failed check stops the work"))
}

/// Does work to its end.
pub fn whole<T>(work: impl FnOnce(Check<'_>) -> Result<T, Stop>) -> T {
    let Ok(done) = stoppable(|| Ok::<_, Infallible>(()), work);
    done
}
