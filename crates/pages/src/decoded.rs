//! The characters of a text that was read from bytes, and why a text is not read.

use std::borrow::Cow;

/// Bytes whose encoding cannot be determined.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongBytes {
    /// There is no such encoding.
    #[error(
        "there is no encoding {0:?}; examples: utf-8, gbk, gb18030, big5, shift_jis, euc-kr, windows-1251"
    )]
    Label(String),
    /// The bytes are not UTF-8, and no label names another encoding. The value is the offset of the first
    /// invalid byte.
    #[error("not UTF-8: byte {0} is invalid; name the encoding as charset, for example gbk")]
    Utf8(usize),
    /// The bytes are invalid in the encoding that their label or byte order mark names.
    #[error("the bytes are not valid {0}, the encoding that their label or byte order mark names")]
    NotAsLabelled(&'static str),
    /// The crate was compiled without the feature `charset`.
    #[error(transparent)]
    NeedsFeature(#[from] NeedsFeature),
}

/// A text that needs a feature of `lookalike-text` which this build does not have. With the feature it has a
/// fingerprint; without it there is never another fingerprint instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} needs the feature `{feature}` of lookalike-text, which this build does not have")]
pub struct NeedsFeature {
    /// The kind of text.
    pub what: &'static str,
    /// The feature.
    pub feature: &'static str,
}

/// The characters of a text, and how they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "charset"), non_exhaustive)]
pub struct Decoded<'a> {
    /// The characters.
    pub text: Cow<'a, str>,
    /// Their encoding.
    #[cfg(feature = "charset")]
    pub charset: super::charset::CharsetOf,
}
