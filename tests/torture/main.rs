//! Fault injection into the release binary: no acknowledged write is lost, and no damage is silent.
//!
//! Each module breaks one thing and compares the remaining data with the ledger, which this process keeps
//! and which is never killed. Short forms run in `./check`; `LOOKALIKE_TORTURE_CYCLES` sets the length of
//! the long forms, and `LOOKALIKE_TORTURE_SEED` selects another random sequence. `docs/testing.md` has the
//! commands.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics, in its helpers too")]
#![allow(
    clippy::needless_pass_by_value,
    clippy::single_match_else,
    clippy::duration_suboptimal_units,
    clippy::too_many_lines,
    reason = "a ticket is used once; tables and scenarios are long"
)]
#![allow(clippy::print_stderr, reason = "the tests report what they ran and skipped")]

mod audit;
mod backup;
mod bench;
mod concurrent;
mod crash;
mod damage;
mod derived;
mod disk;
mod faults;
mod full;
mod history;
mod kill;
mod ledger;
mod load;
mod power;
#[path = "../service/server.rs"]
#[allow(dead_code, reason = "the tests of the service use more of it")]
mod server;
#[path = "../service/skipped.rs"]
mod skipped;
mod strace;
