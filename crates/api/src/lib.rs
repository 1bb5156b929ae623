//! The contract over HTTP: the JSON types of requests and answers with their conversion to those of the
//! service, errors, bodies, compression and conditions.
//!
//! *Absent*: routes, handlers, connections, checks that need a collection.

#![deny(unreachable_pub)]

pub mod body;
pub mod condition;
pub mod encoding;
pub mod error;
pub mod parse;
pub mod wire;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
