//! The formats of images, by their first bytes.

use crate::Refusal;

/// A format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Jpeg,
    Png,
    WebP,
    Gif,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Jpeg => "JPEG",
            Kind::Png => "PNG",
            Kind::WebP => "WebP",
            Kind::Gif => "GIF",
        }
    }

    /// The format of these bytes.
    ///
    /// # Errors
    /// [`Refusal::Format`] for formats that are known and not read, [`Refusal::Unknown`] for others.
    pub(crate) fn of(bytes: &[u8]) -> Result<Kind, Refusal> {
        let begins = |magic: &[u8]| bytes.starts_with(magic);
        match () {
            () if begins(b"\xff\xd8\xff") => Ok(Kind::Jpeg),
            () if begins(b"\x89PNG\r\n\x1a\n") => Ok(Kind::Png),
            () if begins(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") => Ok(Kind::WebP),
            () if begins(b"GIF87a") || begins(b"GIF89a") => Ok(Kind::Gif),
            () => Err(unread(bytes).map_or(Refusal::Unknown, Refusal::Format)),
        }
    }
}

fn unread(bytes: &[u8]) -> Option<&'static str> {
    const MAGIC: [(&[u8], &str); 11] = [
        (b"II*\0", "TIFF"),
        (b"MM\0*", "TIFF"),
        (b"II+\0", "TIFF"),
        (b"MM\0+", "TIFF"),
        (b"\xff\x0a", "JPEG XL"),
        (b"\0\0\0\x0cJXL ", "JPEG XL"),
        (b"\0\0\0\x0cjP  ", "JPEG 2000"),
        (b"\0\0\x01\0", "ICO"),
        (b"8BPS", "PSD"),
        (b"BM", "BMP"),
        (b"%PDF", "PDF"),
    ];
    if bytes.get(4..8) == Some(b"ftyp") {
        return match bytes.get(8..12)? {
            b"avif" | b"avis" => Some("AVIF"),
            b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"hevx" | b"mif1" | b"msf1" => Some("HEIC"),
            _ => Some("a video or an unknown container (ftyp)"),
        };
    }
    if let Some((_, name)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Some(name);
    }
    let head = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let head = &head[..head.len().min(1024)];
    let is_markup = head.trim_ascii_start().starts_with(b"<");
    (is_markup && memchr::memmem::find(head, b"<svg").is_some()).then_some("SVG")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_is_named() {
        let cases: [(&[u8], &str); 9] = [
            (b"\0\0\0\x18ftypheic\0\0", "HEIC is not read: convert"),
            (b"\0\0\0\x18ftypavif\0\0", "AVIF is not read"),
            (b"II*\0\x08", "TIFF is not read"),
            (b"MM\0*\x08", "TIFF is not read"),
            (b"<?xml version='1.0'?>\n<svg xmlns='x'/>", "SVG is not read"),
            (b"  <svg/>", "SVG is not read"),
            (b"<html></html>", "the bytes are no image"),
            (b"", "the bytes are no image"),
            (b"RIFF\0\0\0\0WAVE", "the bytes are no image"),
        ];
        for (bytes, words) in cases {
            let refusal = Kind::of(bytes).unwrap_err().to_string();
            assert!(refusal.starts_with(words), "{refusal}");
        }
    }
}
