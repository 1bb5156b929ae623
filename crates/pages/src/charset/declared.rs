//! The charset that an HTML page declares in its own text (HTML Standard, 13.2.3.2).
//!
//! Guarantees: time proportional to the part that is searched; what is in comments, scripts and values of
//! attributes is no declaration. The standard searches 1,024 bytes, and lets a browser start again when it
//! meets a declaration later; both are one search here. Not here: the charset of the content type.

use encoding_rs::{Encoding, WINDOWS_1252};

use super::named;

/// The part of a page that is searched.
const SEARCHED: usize = 64 << 10;
/// Elements whose content is not markup.
const RAW: [&[u8]; 7] = [b"script", b"style", b"title", b"textarea", b"xmp", b"iframe", b"noframes"];

/// The encoding that a page declares: in its XML declaration, or in a `meta` element.
pub(super) fn declared(page: &[u8]) -> Option<&'static Encoding> {
    let mut rest = &page[..page.len().min(SEARCHED)];
    if let Some(encoding) = of_xml(rest) {
        return Some(encoding);
    }
    while let Some(at) = memchr::memchr(b'<', rest) {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix(b"!--") {
            // "<!-->" is a comment, too.
            let end = memchr::memmem::find(&rest[1..], b"-->")?;
            rest = comment.get(end..).unwrap_or_default();
            continue;
        }
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        if !rest.first().is_some_and(u8::is_ascii_alphabetic) {
            continue;
        }
        let name = rest[..length].to_ascii_lowercase();
        let mut attributes = Attributes(&rest[length..]);
        let found = attributes.by_ref().filter(|_| name == b"meta").find_map(of_attribute);
        if found.is_some() {
            return found;
        }
        rest = attributes.0;
        if RAW.contains(&&*name) {
            rest = &rest[end_of_raw(rest, &name)?..];
        }
    }
    None
}

/// The encoding of an XML declaration.
fn of_xml(page: &[u8]) -> Option<&'static Encoding> {
    let rest = page.strip_prefix(b"<?xml")?;
    let rest = &rest[..memchr::memchr(b'>', rest)?];
    let rest = &rest[memchr::memmem::find(rest, b"encoding")? + 8..];
    label(rest.trim_ascii_start().strip_prefix(b"=")?)
}

/// The encoding that an attribute of a `meta` element names.
fn of_attribute((name, value): (&[u8], &[u8])) -> Option<&'static Encoding> {
    if name.eq_ignore_ascii_case(b"charset") {
        return label(value);
    }
    let value = value.to_ascii_lowercase();
    let at = name.eq_ignore_ascii_case(b"content").then(|| memchr::memmem::find(&value, b"charset"))??;
    label(value[at + 7..].trim_ascii_start().strip_prefix(b"=")?)
}

/// The encoding of the name at the beginning, in quotation marks or not.
fn label(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = bytes.trim_ascii_start();
    let start = start.strip_prefix(b"\"").or_else(|| start.strip_prefix(b"'")).unwrap_or(start).trim_ascii();
    let length =
        start.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_:.".contains(byte)).count();
    match named(std::str::from_utf8(&start[..length]).ok()?)? {
        // A page whose label is readable as ASCII is not in UTF-16, whatever the label says.
        encoding if encoding.name().starts_with("UTF-16") => None,
        encoding if encoding.name() == "x-user-defined" => Some(WINDOWS_1252),
        encoding => Some(encoding),
    }
}

/// Where the end tag of a raw element begins.
fn end_of_raw(content: &[u8], name: &[u8]) -> Option<usize> {
    let is_end = |at: &usize| {
        content.get(at + 2..at + 2 + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
    };
    memchr::memmem::find_iter(content, b"</").find(is_end)
}

/// The attributes of a tag, as names and values; afterwards, the bytes from the end of the tag on.
struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Takes the bytes before the first that passes the test.
    fn until(&mut self, is_end: impl Fn(&u8) -> bool) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(self.0.iter().position(is_end).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.until(|byte| !byte.is_ascii_whitespace() && *byte != b'/');
        if matches!(self.0.first(), None | Some(b'>')) {
            return None;
        }
        let name = self.until(|byte| byte.is_ascii_whitespace() || b"/>=".contains(byte));
        self.until(|byte| !byte.is_ascii_whitespace());
        let Some(rest) = self.0.strip_prefix(b"=") else {
            return Some((name, b""));
        };
        self.0 = rest.trim_ascii_start();
        let value = match self.0.first() {
            Some(quote @ (b'"' | b'\'')) => {
                self.0 = &self.0[1..];
                let value = self.until(|byte| byte == quote);
                self.0 = self.0.get(1..).unwrap_or_default();
                value
            }
            _ => self.until(|byte| byte.is_ascii_whitespace() || *byte == b'>'),
        };
        Some((name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_is_found_where_browsers_find_it() {
        let late = format!("<meta name=a content='{}'><META CharSet = gbk>", "x".repeat(9_000));
        let after_script = format!("<script>{}</script ><meta charset=gbk>", "if (a<b) '<p>';".repeat(200));
        for page in [
            "<meta charset=gbk>",
            "<!doctype html><html lang=\"zh\"><head><meta\ncharset = 'GB2312' />",
            "<meta http-equiv=Content-Type content='text/html; charset=gbk'>",
            "<meta content=\"text/html;CHARSET = gbk; x\" http-equiv=content-type>",
            "<?xml version=\"1.0\" encoding='gbk'?><html>",
            "<!-- <meta charset=big5> --><!--><meta charset=gbk>",
            "<title><meta charset=big5></title><meta charset=gbk>",
            "<p title='<meta charset=big5>' a=\"b>\"><meta name=viewport><meta charset=gbk>",
            "<script charset=big5 src=a></script><meta charset=x><meta charset=utf-16><meta charset=gbk>",
            &late,
            &after_script,
        ] {
            assert_eq!(declared(page.as_bytes()).map(Encoding::name), Some("GBK"), "{page}");
        }
        let user_defined = declared(b"<meta charset=x-user-defined>");
        assert_eq!(user_defined.map(Encoding::name), Some("windows-1252"));
    }

    #[test]
    fn other_text_declares_nothing() {
        for page in [
            "",
            "<",
            "<!--",
            "<!-- <meta charset=gbk> -->",
            "<script>'<meta charset=gbk>'",
            "<a href='?charset=gbk'>charset=gbk",
            "<meta",
            "<meta charset",
            "<meta charset=",
            "<meta content='charset'>",
            "<metal charset=gbk>",
            "</meta charset=gbk>",
            "<meta charset=iso-2022-kr>",
            "<?xml version='1.0'?>",
        ] {
            assert_eq!(declared(page.as_bytes()), None, "{page}");
        }
        let far = format!("<p>{}<meta charset=gbk>", "x".repeat(SEARCHED));
        assert_eq!(declared(far.as_bytes()), None);
        for hostile in ["<meta a=", "<!--", "<a <", "<script></", "<x a='", "<title"] {
            declared(hostile.repeat(100_000).as_bytes());
        }
    }
}
