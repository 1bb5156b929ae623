//! The service as users meet it: the real binary, over HTTP and on the command line.
#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    clippy::type_complexity,
    clippy::precedence,
    clippy::duration_suboptimal_units,
    missing_docs,
    reason = "a test that cannot go on panics, and tables of cases are long"
)]

mod bad_input;
mod bulk;
mod command_line;
mod contract;
mod damage;
mod duplicates;
mod kill;
mod road;
mod server;
