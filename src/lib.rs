//! lookalike: exact near-duplicate lookup. Which stored documents lie within Hamming distance k of this one.
//!
//! Two roads run through the crate. The pure one goes from text to neighbours, without I/O, clock or async:
//!
//! - [`text`]: pages to main text, normalisation, script runs, segmentation
//! - [`features`]: words, pairs, character grams, keywords; their weights and hashes
//! - [`fingerprint`]: SimHash by a named, versioned [`fingerprint::Profile`]
//! - [`index`]: the concurrent pigeonhole index, exact for every k
//!
//! The other serves it: [`http`] calls [`service`], which fingerprints on the [`pool`] and asks the [`engine`],
//! which holds the index, the durable [`store`] and [`snapshot`]s of the index. [`server`] puts it together from
//! [`config`], [`profiles`] and what the [`machine`] gives; [`cli`] is the binary. [`ids`] and [`telemetry`] are used by all. `ARCHITECTURE.md` says who may
//! import whom, and `tests/architecture.rs` enforces it.
//!
//! The whole road in a few lines:
//!
//! ```
//! use lookalike::fingerprint::Profile;
//! use lookalike::index::of_width;
//!
//! let profile = Profile::default_profile();
//! let stored = "The harbour ferry will run every twenty minutes during the summer festival, the council said.";
//! let edited = "The harbour ferry will run every twenty minutes during the summer festival, the council says.";
//!
//! let index = of_width(profile.width());
//! index.insert(profile.fingerprint(stored).hash);
//!
//! let mut found = Vec::new();
//! index.within(profile.fingerprint(edited).hash.into(), 16, &mut found);
//! assert_eq!(found.len(), 1);
//! ```

pub mod backup;
pub mod call;
pub mod cli;
pub mod client;
pub mod config;
pub mod engine;
pub mod eval;
pub mod features;
pub mod fingerprint;
pub mod http;
pub mod ids;
pub mod index;
pub mod keys;
pub mod machine;
pub mod pool;
pub mod profiles;
pub mod server;
pub mod service;
pub mod snapshot;
pub mod store;
pub mod telemetry;
pub mod text;
