//! The identifiers that every layer shares: hashes, document ids, collection names, sequence numbers.
//!
//! Each is a type of its own with a fallible constructor, so that a value that exists is valid and no
//! two numbers can be confused. Nothing here knows where an identifier comes from or what it is used for.

mod hash;
mod names;
mod signature;

pub use hash::{Hash, HashError, Width, Word};
pub use names::{CollectionId, CollectionName, DocumentId, IdError, Sequence};
pub(crate) use signature::is_blank;
pub use signature::{SignatureShape, share_caught};
