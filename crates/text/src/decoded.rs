//! The characters of a text that was read from bytes, and why bytes are not read.

use std::borrow::Cow;

use super::needs::NeedsFeature;

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
