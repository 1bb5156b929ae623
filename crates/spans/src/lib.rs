//! Passages that a corpus has twice, and items of evaluation sets in its texts.
//!
//! A passage is a run of a number of tokens ([`lookalike_text::located`]). [`Grams`], [`Places`], [`Windows`]
//! and [`Hits`] find the passages that stand further up in the corpus, in passes over its documents; each is
//! a sort on the disk, so a corpus of any size takes the memory that is allowed, and no pair of texts is ever
//! compared. [`cuts()`] says which tokens these are, [`removals`] and [`masks`] which bytes.
//!
//! ```
//! use lookalike_spans::{Grams, Windows, chosen_grams, cuts, edited, removals};
//! use lookalike_text::located;
//!
//! let texts = ["See: the ferry runs every hour.", "News! The ferry runs every HOUR; buses do not."];
//! let (folder, memory, length) = (std::env::temp_dir(), 1 << 20, 5);
//! let digests = |text: &str| located(text).iter().map(|token| token.digest).collect::<Vec<u64>>();
//! let mut grams = Grams::new(&folder, length, memory);
//! for (number, text) in (0..).zip(texts) {
//!     grams.add(number, &chosen_grams(&digests(text), length))?;
//! }
//! let mut windows = Windows::new(grams.places(&folder, memory)?, &folder, memory);
//! for (number, text) in (0..).zip(texts) {
//!     windows.add(number, &digests(text))?;
//! }
//! let mut hits = windows.hits(&folder, memory)?;
//! assert!(hits.of(0)?.is_empty());
//! let cuts = cuts(&hits.of(1)?, length);
//! assert_eq!(edited(texts[1], &removals(texts[1], &located(texts[1]), &cuts)), "News! buses do not.");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! [`Bench`] has the items of evaluation sets, and finds those that a text contains.

#![deny(unreachable_pub)]

mod bench;
mod cuts;
mod passages;
mod sorter;
mod windows;

pub use bench::{Bench, Contained, LEAST_TOKENS};
pub use cuts::{Cut, Edit, MASK, cuts, edited, left, masks, removals};
pub use passages::{Documents, Grams, Hit, Hits, Places, Windows, chosen_grams, disk_bytes};

#[cfg(test)]
mod tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
