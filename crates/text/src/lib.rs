//! From a text or an HTML page to its fingerprint, of which near-duplicates share most bits: SimHash and
//! MinHash, for every language.
//!
//! A [`Profile`](fingerprint::Profile) is a recipe with a name and a version, and a
//! [`Fingerprint`](fingerprint::Fingerprint) depends on these and on the text alone: it is the same on every
//! machine, in every release, and with every set of features of this crate.
//!
//! ```
//! use lookalike_text::fingerprint::{Profile, Status};
//!
//! let text = "The harbour ferry will run every twenty minutes during the summer festival, the city council \
//!     said on Tuesday. Extra boats have been hired from a neighbouring town, and tickets bought in advance \
//!     stay valid on all of them.";
//! let profile = Profile::named("copies-64").expect("it is built in");
//! let stored = profile.try_fingerprint(text)?;
//! let edited = profile.try_fingerprint(&text.replace("twenty", "thirty"))?;
//! assert_eq!(stored.status, Status::Ok);
//! assert!(stored.hash.distance(edited.hash) <= Some(profile.default_k()));
//! # Ok::<(), lookalike_text::NeedsFeature>(())
//! ```
//!
//! The steps are there on their own, too: [`decode`] finds the charset of bytes, `page_text` the article in
//! a page, [`normalise()`] makes one form of equal letters, [`runs()`] cuts where the script changes,
//! [`words()`] cuts words, [`features`] weighs and hashes them.
//!
//! # Features
//!
//! All are on by default. Without any, English SimHash builds in seconds, and a text that needs more is an
//! error that names the feature, or a function that is not there.
//!
//! - `zh`: Chinese. Words, simplified for traditional characters, profiles of keywords, shared passages,
//!   comparisons word by word. Without it, only the functions of a profile that begin with `try_` are there,
//!   and they refuse texts with Chinese.
//! - `html`: the text of pages, `page_text`, `main_text` and `visible_text`.
//! - `charset`: charsets other than UTF-8. Without it, [`decode`] refuses everything but plain UTF-8.
//! - `profiles`: profiles that users define in a file. Brings `zh`, because they may name its tables.
//!
//! Everything depends on its arguments alone: no I/O but for files of profiles, no clock, no settings. The
//! dictionaries are embedded and are loaded on first use.

// Only the build with all features can find unused items: with fewer features, some items have no caller.
#![cfg_attr(all(feature = "charset", feature = "html", feature = "profiles"), deny(unreachable_pub))]
#![cfg_attr(not(all(feature = "charset", feature = "html", feature = "profiles")), allow(dead_code))]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod features;
pub mod fingerprint;
#[cfg(feature = "profiles")]
pub mod profiles;

mod needs;

#[cfg(feature = "charset")]
pub use lookalike_pages::{CharsetOf, detect, named};
pub use lookalike_pages::{Decoded, NeedsFeature, WrongBytes, decode};
#[cfg(feature = "html")]
pub use lookalike_pages::{
    PageRead, PageText, checked_page_text, main_text, memory_for_page, page_text, visible_text,
};

use lookalike_words::simplify;
pub use lookalike_words::{
    CutsWords, Edition, Located, NewWords, Preparation, Remembered, Run, System, clusters, folded,
    is_word_character, located, normalise, runs, words,
};
#[cfg(feature = "zh")]
pub use lookalike_words::{Dictionary, WrongWord, simplified, tokens};
#[cfg(not(feature = "zh"))]
use lookalike_words::{Dictionary, simplified};

#[cfg(feature = "zh")]
mod word_diff;
#[cfg(feature = "zh")]
pub use word_diff::{Change, word_diff};

#[cfg(all(doctest, feature = "zh"))]
#[doc = include_str!("../README.md")]
struct Readme;
