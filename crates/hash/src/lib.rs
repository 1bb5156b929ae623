//! Hashes of 64, 128 and 256 bits that are compared by Hamming distance, and the small types around them.
//!
//! - [`struct@Hash`] is a fingerprint that knows its width: a SimHash, a perceptual hash of an image, the
//!   name of a MinHash signature. [`HashForm`] reads and writes it as other systems do: decimal, signed,
//!   base64.
//! - [`SignatureShape`] is the shape of a MinHash signature: its cells and bands, and which similarity they
//!   find.
//! - [`DocumentId`], [`CollectionName`] and [`Sequence`] identify what has a hash. Each is a type of its own,
//!   so that two numbers cannot be confused, and valid by construction.
//!
//! ```
//! use lookalike_hash::{Hash, Width};
//!
//! let stored: Hash = "a1b2c3d4e5f60718".parse()?;
//! assert_eq!(stored.width(), Width::Bits64);
//! assert_eq!(stored.distance(Hash::from_u64(0xa1b2_c3d4_e5f6_0719)), Some(1));
//! assert_eq!(stored.distance(Hash::from_u128(1)), None, "hashes of different widths are not compared");
//! # Ok::<(), lookalike_hash::HashError>(())
//! ```
//!
//! Everything is a value without I/O. To find the near ones among millions of hashes, see
//! `lookalike-hamming`; to make hashes of texts, `lookalike-text`.

#![deny(unreachable_pub)]

mod check;
mod forms;
mod frequencies;
mod gram;
mod hash;
mod keep;
mod mark;
mod names;
mod signature;
#[cfg(feature = "serde")]
mod stored;
mod times;
mod u256;
mod wide;

pub use check::{SketchCheck, are_duplicates, reach, sketch_similarity};
pub use forms::{FormError, HashForm, NoForm};
pub use frequencies::{Frequencies, WrongFrequencies};
pub use gram::{Gram, GramRule, Passages};
pub use hash::{Hash, HashError, Width, Word};
pub use keep::{ClusterRule, KeepRule};
pub use mark::Mark;
pub use names::{CollectionId, CollectionName, DocumentId, IdError, Sequence};
pub use signature::{SignatureShape, is_blank, share_caught};
pub use times::seconds;
pub use u256::U256;
pub use wide::WideHash;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
