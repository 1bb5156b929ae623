//! What was acknowledged is never lost, and damage is never silent: the release binary, made to fail on purpose.
//!
//! Each module breaks one thing and compares what is left with the ledger, which this process keeps and which
//! is never killed. Short forms run in `./check`; `LOOKALIKE_TORTURE_CYCLES` sets the length of the long ones,
//! `LOOKALIKE_TORTURE_SEED` another course of events. `docs/testing.md` has the commands.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics, in its helpers too")]
#![allow(
    clippy::needless_pass_by_value,
    clippy::single_match_else,
    clippy::duration_suboptimal_units,
    clippy::too_many_lines,
    reason = "a ticket is spent; tables and scenarios are long"
)]
#![allow(clippy::print_stderr, reason = "what was run and what was left out is told")]

mod audit;
mod bench;
mod concurrent;
mod crash;
mod damage;
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
mod strace;
