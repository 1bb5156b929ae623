//! lookalike: exact near-duplicate lookup. It finds the stored documents within Hamming distance k of a
//! given one.
//!
//! This is the library of the binary: its commands ([`cli`]) and settings ([`config`]), and [`server`], which
//! builds a server from the crates of the workspace. The pure crates turn text into neighbours, without I/O,
//! clock or async:
//!
//! - [`lookalike_text`]: pages to main text, normalisation, segmentation; features; SimHash by a named,
//!   versioned profile
//! - [`lookalike_hamming`]: the concurrent pigeonhole index, exact for every k, and its snapshots
//! - [`lookalike_corpus`]: which documents of a whole corpus are kept, and what replaces the others
//!
//! The others serve it: [`lookalike_http`] calls [`lookalike_service`], which computes fingerprints on the
//! pool of [`lookalike_run`] and queries the [`lookalike_engine`], which holds the index and the durable
//! [`lookalike_store`]. `ARCHITECTURE.md` lists which crate and which module may use which; Cargo and
//! `tests/architecture.rs` enforce it.
//!
//! The pure crates in a few lines:
//!
//! ```
//! use lookalike_text::fingerprint::Profile;
//! use lookalike_hamming::of_width;
//!
//! let profile = Profile::default_profile();
//! let stored = "The harbour ferry will run every twenty minutes during the summer festival, \
//!               the council said.";
//! let edited = "The harbour ferry will run every twenty minutes during the summer festival, \
//!               the council says.";
//!
//! let index = of_width(profile.width());
//! index.insert(profile.fingerprint(stored).hash);
//!
//! let mut found = Vec::new();
//! index.within(profile.fingerprint(edited).hash.into(), 23, &mut found);
//! assert_eq!(found.len(), 1);
//! ```

#![deny(unreachable_pub)]

pub mod cli;
pub mod config;
pub mod server;
pub mod telemetry;
