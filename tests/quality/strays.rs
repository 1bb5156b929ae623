//! One stray byte in a page or a text changes its fingerprint by a few bits at most, wherever it is.

use lookalike_text::fingerprint::Profile;
use lookalike_text::{decode, main_text};

use crate::languages::texts;

/// The languages of the large sets, and how many texts of each are tried.
const LANGUAGES: [&str; 8] = ["ar", "hi", "ja", "ko", "ru", "th", "vi", "zhen"];
const TRIED: usize = 5;
/// The texts of a page have this many bytes or more.
const LEAST: usize = 1_000;

/// A page with a text, and the places in it where a byte may stray.
fn page(text: &str, head: &str) -> (Vec<u8>, Vec<(&'static str, usize)>) {
    let mut page = String::new();
    let mut places = Vec::new();
    let title: String = text.chars().take(30).collect();
    for (place, part) in [
        ("", format!("<!doctype html><html><head>{head}<title>")),
        ("title", title.clone()),
        ("", "</title><!-- ".to_owned()),
        ("comment", "made by a program".to_owned()),
        ("", " --><script>".to_owned()),
        ("script", "var a = 'x';".to_owned()),
        ("", "</script></head><body><img alt='".to_owned()),
        ("attribute", title),
        ("", "' src=a>".to_owned()),
        ("body", text.split('\n').map(|line| format!("<p>{line}</p>")).collect()),
        ("", "</body></html>".to_owned()),
        ("end", "\n".to_owned()),
    ] {
        if !place.is_empty() {
            places.push((place, page.len() + part.len() / 2));
        }
        page.push_str(&part);
    }
    (page.into_bytes(), places)
}

/// Bits between the fingerprints of two texts.
fn distance(profile: &Profile, a: &str, b: &str) -> u32 {
    profile.fingerprint(a).hash.distance(profile.fingerprint(b).hash).unwrap()
}

#[test]
fn a_stray_byte_anywhere_in_a_page_leaves_its_fingerprint() {
    let profile = Profile::named("copies-128").unwrap();
    for language in LANGUAGES {
        let Some(texts) = texts(language) else { return };
        let (mut most, mut fingerprints) = (0, Vec::new());
        for text in texts.iter().filter(|text| text.len() >= LEAST && !text.contains('<')).take(TRIED) {
            for head in ["<meta charset=utf-8>", ""] {
                let (bytes, places) = page(text, head);
                let whole = main_text(std::str::from_utf8(&bytes).unwrap());
                for (place, at) in places {
                    // Inserted before, or in place of, any byte of a character.
                    for (from, stray) in [(at, 0xff), (at + 1, 0xff), (at, 0xc3), (at + 1, b'<' | 0x80)] {
                        let damaged = [&bytes[..at], &[stray], &bytes[from..]].concat();
                        let label = head.is_empty().then_some("UTF-8");
                        let read = decode(&damaged, label, true).unwrap();
                        assert!(!read.charset.is_guessed, "{language} {place}");
                        assert_eq!(read.charset.encoding.name(), "UTF-8", "{language} {place}");
                        let main = main_text(&read.text);
                        let bits = distance(profile, &whole, &main);
                        most = most.max(bits);
                        assert!(place == "body" || bits == 0, "{language} {place}: {bits} bits");
                        if place == "body" && from == at + 1 {
                            fingerprints.push(profile.fingerprint(&main).hash);
                        }
                    }
                }
            }
        }
        // A copy with one changed word is within k; so is one with a stray byte.
        assert!(most <= 12, "{language}: {most} bits");
        // Pages with a stray byte each are as far from each other as they were.
        fingerprints.dedup();
        let pairs = fingerprints.iter().zip(fingerprints.iter().skip(8));
        let near = pairs.filter(|(a, b)| a.distance(**b).unwrap() <= profile.default_k()).count();
        assert!(near * 10 <= fingerprints.len(), "{language}: {near} of {}", fingerprints.len());
        eprintln!("{language}: at most {most} bits of 128");
    }
}

#[test]
fn other_programs_keep_the_mark_of_a_stray_byte() {
    let text =
        |mark: &str| format!("The library opens un{mark}til ten in the evening of each day of the week.");
    for profile in Profile::all() {
        if !profile.takes_texts() {
            continue;
        }
        let is_equal = profile.fingerprint(&text("\u{fffd}")).hash == profile.fingerprint(&text("")).hash;
        let name = profile.id().to_string();
        // Other programs that take only words or letters do not see it either.
        let is_other = ["cppjieba", "fnv-zh", "python-simhash", "longest-sentences-md5"]
            .iter()
            .any(|other| name.starts_with(other));
        let keeps_it = name.starts_with("shingle-md5") || name.starts_with("minhash@");
        assert!(is_other || is_equal != keeps_it, "{name}");
    }
}
