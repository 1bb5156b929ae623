//! Reports tests that cannot run on this machine.

use std::io::Write;

/// Prints why a test is skipped. The line is not captured by the test harness, so it also appears when all
/// tests pass.
pub fn skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}
