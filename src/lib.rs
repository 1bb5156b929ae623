//! lookalike: exact near-duplicate lookup. It finds the stored documents within Hamming distance k of a
//! given one.
//!
//! This is the library of the binary: its commands and settings, and every crate of the workspace under the
//! name of its subject. The pure crates turn text into neighbours, without I/O, clock or async:
//!
//! - [`text`]: pages to main text, normalisation, script runs, segmentation
//! - [`features`]: words, pairs, character grams, keywords; their weights and hashes
//! - [`fingerprint`]: SimHash by a named, versioned [`fingerprint::Profile`]
//! - [`index`]: the concurrent pigeonhole index, exact for every k
//! - [`corpus`]: which documents of a whole corpus are kept, and what replaces the others
//!
//! The others serve it: [`http`] calls [`service`], which computes fingerprints on the [`pool`] and
//! queries the [`engine`], which holds the index, the durable [`store`] and [`snapshot`]s of the index.
//! [`server`] builds all of it from [`config`], [`profiles`] and the limits of the [`machine`]; [`cli`] is
//! the binary. [`ids`] has shared types, and [`telemetry`] has logs, metrics and traces. `ARCHITECTURE.md`
//! lists which crate and which module may use which; Cargo and `tests/architecture.rs` enforce it.
//!
//! The pure crates in a few lines:
//!
//! ```
//! use lookalike::fingerprint::Profile;
//! use lookalike::index::of_width;
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

pub use lookalike_run::call;
pub use lookalike_store::backup;
pub mod cli;
pub use lookalike_client as client;
pub mod config;
pub use lookalike_corpus as corpus;
pub use lookalike_engine as engine;
pub use lookalike_eval as eval;
pub use lookalike_eval::random;
pub use lookalike_hamming as index;
pub use lookalike_hash as ids;
pub use lookalike_http as http;
pub use lookalike_keys as keys;
pub use lookalike_log as log;
pub use lookalike_replica as replicas;
pub use lookalike_run::machine;
pub use lookalike_run::pool;
pub use lookalike_text::features;
pub use lookalike_text::fingerprint;
pub use lookalike_text::profiles;
pub mod server;
pub use lookalike_hamming::snapshot;
pub use lookalike_service as service;
pub use lookalike_store as store;
pub mod telemetry;
pub use lookalike_text as text;
pub use lookalike_wording as wording;
