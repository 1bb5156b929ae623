//! From the bytes of an HTML page, or of a text in any charset, to its text.
//!
//! [`decode`] makes characters of bytes, and `page_text` the text of a page of them: its article, or all that
//! is visible. Both are defined for every input, without a panic and in nearly linear time.
//!
//! ```
//! # #[cfg(all(feature = "charset", feature = "html"))] {
//! use lookalike_pages::{decode, main_text};
//!
//! let bytes = b"<title>\xb9\xab\xb8\xe6</title><p>\xc4\xe3\xba\xc3</p>";
//! let page = decode(bytes, Some("gbk"), true).unwrap();
//! assert_eq!(main_text(&page.text).trim(), "你好");
//! # }
//! ```
//!
//! # Features
//!
//! - `charset`: charsets other than UTF-8. Without it, [`decode`] refuses everything but plain UTF-8.
//! - `html`: `page_text`, `main_text` and `visible_text`.
//!
//! Not here: what a text is compared by (`lookalike-text`), and other formats of documents.

#![deny(unreachable_pub)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod decoded;
pub mod stop;

pub use decoded::{Decoded, NeedsFeature, WrongBytes};

#[cfg(feature = "charset")]
mod charset;
#[cfg(feature = "charset")]
pub use charset::{CharsetOf, decode, detect, named};
#[cfg(any(test, not(feature = "charset")))]
mod without_charset;
#[cfg(not(feature = "charset"))]
pub use without_charset::decode;

#[cfg(feature = "html")]
mod html;
#[cfg(feature = "html")]
pub use html::{PageRead, PageText, checked_page_text, main_text, memory_for_page, page_text, visible_text};

#[cfg(all(doctest, feature = "charset", feature = "html"))]
#[doc = include_str!("../README.md")]
struct Readme;
