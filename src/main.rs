//! The binary: sets up the allocator, runs the command line, and returns its exit code.

#![allow(unsafe_code, reason = "the allocator is C, and its options can be set in no other way")]

use std::ffi::{c_int, c_long};
use std::process::ExitCode;

/// A request makes some dozen small allocations on one thread and frees them on another, which is the case
/// that this allocator is made for (see docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

// SAFETY: the declarations match mimalloc.h. Any number is allowed: an option that does not exist is not
// set. The options are atomic, so any thread may set them at any time.
unsafe extern "C" {
    safe fn mi_option_get(option: c_int) -> c_long;
    safe fn mi_option_set(option: c_int, value: c_long);
}

/// The option `mi_option_purge_delay`: the milliseconds after which free memory is returned to the system.
const PURGE_DELAY: c_int = 15;
/// The default of the allocator. With it, a server exceeds a small memory budget for a long time after a
/// burst.
const DEFAULT_DELAY: c_long = 1_000;
/// The delay that this program sets: none. With 60 clients with large batches, a server with a budget of
/// 205 MiB grows to 172 MiB; with a delay of 10 ms to 238 MiB. Imports take about a twentieth longer.
const DELAY: c_long = 0;

fn main() -> ExitCode {
    // `dedupe` passes batches from thread to thread: of 147 MB it takes 1.10 to 1.15 s with the default and
    // 1.19 s and more without a delay. The variable `MIMALLOC_PURGE_DELAY` takes precedence.
    let is_dedupe = std::env::args_os().nth(1).is_some_and(|command| command == "dedupe");
    if !is_dedupe && mi_option_get(PURGE_DELAY) == DEFAULT_DELAY {
        mi_option_set(PURGE_DELAY, DELAY);
    }
    lookalike::cli::run()
}
