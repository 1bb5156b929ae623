//! The binary: parse, run, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    lookalike::cli::run()
}
