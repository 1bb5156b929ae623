//! The binary: its allocator; parse, run, exit code.

#![allow(unsafe_code, reason = "an option of the allocator, which is C, can be set in no other way")]

use std::ffi::{c_int, c_long};
use std::process::ExitCode;

/// A request makes some dozen small allocations on one thread and frees them on another; this allocator is
/// made for that (see docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

// SAFETY: the declarations are those of mimalloc.h. Any number is allowed: an option that does not exist is not set. The
// options are atomic, so any thread may set them at any time.
unsafe extern "C" {
    safe fn mi_option_get(option: c_int) -> c_long;
    safe fn mi_option_set(option: c_int, value: c_long);
}

/// After how many milliseconds free memory is given back to the system: `mi_option_purge_delay`.
const PURGE_DELAY: c_int = 15;
/// The allocator's own default, under which a server stays over a small memory budget long after a burst.
const DEFAULT_DELAY: c_long = 1_000;
const DELAY: c_long = 10;

fn main() -> ExitCode {
    // `MIMALLOC_PURGE_DELAY` of the environment goes before.
    if mi_option_get(PURGE_DELAY) == DEFAULT_DELAY {
        mi_option_set(PURGE_DELAY, DELAY);
    }
    lookalike::cli::run()
}
