//! The binary: parse, run, exit code.

use std::process::ExitCode;

/// A request makes some dozen small allocations on one thread and frees them on another; this allocator is
/// made for that (see docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    lookalike::cli::run()
}
