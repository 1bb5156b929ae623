//! Fuzz target for pages: decoding of bytes in any charset, and extraction of the main text from HTML.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lookalike_text::{decode, main_text, visible_text};

fuzz_target!(|bytes: &[u8]| {
    let page = String::from_utf8_lossy(bytes);
    let main = main_text(&page);
    assert!(main.len() <= 4 * page.len() + 64, "a page of {} bytes has {} of text", page.len(), main.len());
    let _ = visible_text(&page);
    let (charset, body) = bytes.split_at(bytes.len().min(8));
    let charset = String::from_utf8_lossy(charset);
    let _ = decode(body, Some(charset.trim_end_matches('\0')), true);
    let _ = decode(bytes, None, true);
});
