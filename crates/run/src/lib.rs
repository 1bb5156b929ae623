//! How work runs on a machine: the bounded CPU pool, the request that work belongs to with the accountant of
//! its memory, and the limits of the machine.

#![deny(unreachable_pub)]

pub mod call;
pub mod machine;
pub mod pool;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
