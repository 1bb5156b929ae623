//! Near-duplicates of texts, from the texts themselves: of a whole corpus, and of texts as they arrive.
//!
//! - [`dedupe()`] decides about texts in memory. The result is that of the command `lookalike dedupe`.
//! - [`dedupe_hashes`] does so about hashes of images.
//! - [`NearMap`] stores texts under ids, and refuses those that resemble a stored one.
//! - [`Keep`], [`Printer`], [`Lesson`], [`Radius`] and [`decide()`] are the steps of [`dedupe()`], for
//!   programs whose texts do not fit in memory, and [`Kernel`] for those that run on many machines.
//! - [`FeatureSet`] compares two texts exactly, and [`Exact`] lets it decide about those near the limit.
//!
//! ```
//! use lookalike_dedupe::{Options, Watch, dedupe};
//!
//! let text = "The harbour ferry will run every twenty minutes during the summer festival, the city council \
//!     said on Tuesday. Extra boats have been hired from a neighbouring town.";
//! let result = dedupe(&[text, &text.to_uppercase()], &[], &Options::default(), &Watch::default())?;
//! assert_eq!((result.kept, result.dropped[0].by), (vec![0], 0));
//! # Ok::<(), lookalike_dedupe::DedupeError>(())
//! ```
//!
//! What is kept is defined in `lookalike-corpus`, without reference to an algorithm. Here are the parts that
//! need texts: what is compared of a text, which texts teach the weights of features, and how near is near.
//! Everything depends on its arguments alone. *Absent*: files, fields, pages, clocks, settings.

#![deny(unreachable_pub)]

mod alignment;
mod decide;
mod exact;
mod hashed;
mod keep;
mod kernel;
mod lesson;
mod near_map;
mod overlap;
mod parallel;
mod printer;
mod radius;
mod texts;

pub use decide::{Groups, Plan, decide};
pub use exact::{Comparison, Exact};
pub use hashed::{Hashed, dedupe_hashes};
pub use keep::Keep;
pub use kernel::Kernel;
pub use lesson::Lesson;
pub use near_map::{Near, NearMap, NearMapError};
pub use overlap::{FeatureSet, Overlap, contained};
pub use parallel::{Stopped, Watch, in_parallel, in_shares};
pub use printer::{Printer, SKETCH_BYTES, second_check};
pub use radius::{Radius, RadiusError};
pub use texts::{DedupeError, Deduped, Dropped, Options, Weights, dedupe};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
