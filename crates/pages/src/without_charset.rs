//! Reading bytes in a build without the feature `charset`: plain UTF-8, and an error for everything else.
//!
//! Guarantees: the characters are those that a build with the feature reads. So a few texts are refused that
//! are valid UTF-8: those with a label of another encoding, and pages with an escape, which may declare
//! ISO-2022-JP.

#[cfg(not(feature = "charset"))]
use super::{Decoded, NeedsFeature, WrongBytes};

/// The characters of a text in UTF-8. `label` is the charset of its content type, if there is one.
///
/// # Errors
/// [`WrongBytes::NeedsFeature`] for every other text: the feature `charset` reads it.
///
/// ```
/// use lookalike_pages::decode;
/// assert_eq!(decode("你好".as_bytes(), Some("utf-8"), false).unwrap().text, "你好");
/// assert!(decode(b"\xc4\xe3\xba\xc3", Some("gbk"), false).is_err());
/// ```
#[cfg(not(feature = "charset"))]
pub fn decode<'a>(bytes: &'a [u8], label: Option<&str>, is_page: bool) -> Result<Decoded<'a>, WrongBytes> {
    const CHARSET: NeedsFeature = NeedsFeature { what: "a text that is not plain UTF-8", feature: "charset" };
    let text = plain(bytes, label, is_page).ok_or(CHARSET)?;
    Ok(Decoded { text: text.into() })
}

/// The characters of bytes that are UTF-8 without doubt.
fn plain<'a>(bytes: &'a [u8], label: Option<&str>, is_page: bool) -> Option<&'a str> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    const ESCAPE: u8 = 0x1b;
    let is_utf8 = label.is_none_or(|label| ["utf-8", "utf8"].contains(&&*label.to_ascii_lowercase()));
    let is_escaped = is_page && bytes.contains(&ESCAPE);
    let unmarked = bytes.strip_prefix(MARK).filter(|rest| !rest.is_empty()).unwrap_or(bytes);
    std::str::from_utf8(unmarked).ok().filter(|_| is_utf8 && !is_escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "charset")]
    proptest::proptest! {
        #[test]
        fn what_is_read_is_what_the_feature_reads(
            text in "\u{feff}?([a-z中é\u{0}\u{1b}\u{e}$B(]|<meta charset=(iso-2022-jp|gbk|utf-16)>){0,30}",
            label in proptest::option::of("utf-8|UTF8|gbk|utf-16|iso-2022-jp|none"),
            is_page: bool,
        ) {
            if let Some(plain) = plain(text.as_bytes(), label.as_deref(), is_page) {
                let decoded = crate::decode(text.as_bytes(), label.as_deref(), is_page).unwrap();
                proptest::prop_assert_eq!(decoded.text, plain);
            }
        }
    }

    #[test]
    fn only_plain_utf8_is_read() {
        assert_eq!(plain("\u{feff}好".as_bytes(), Some("UTF-8"), true), Some("好"));
        assert_eq!(plain(b"", None, false), Some(""));
        for (bytes, label, is_page) in [
            (&b"\xff"[..], None, false),
            (b"a", Some("gbk"), false),
            (b"a\x1b$B", None, true),
            (b"\xfe\xff\0a", None, false),
        ] {
            assert_eq!(plain(bytes, label, is_page), None, "{bytes:?}");
        }
    }

    #[cfg(not(feature = "charset"))]
    #[test]
    fn an_error_names_the_feature() {
        let error = decode(b"\xc4\xe3", Some("gbk"), false).unwrap_err().to_string();
        assert!(error.contains("`charset`"), "{error}");
    }
}
