//! Names of files as text: for the user, as ids and as keys.
//!
//! Bytes that are not UTF-8, control characters, and a backslash before `x` are written `\xNN`, two
//! hexadecimal digits for each byte. So different names stay different, each can be restored, and none sends
//! commands to a terminal. All other characters stay as they are.

use std::fmt::Write;
use std::path::Path;

use super::sha256;

/// The longest id that the server takes, in bytes.
const ID_BYTES: usize = 256;

/// The name of a file as text.
pub fn shown(path: &Path) -> String {
    shown_bytes(path.as_os_str().as_encoded_bytes())
}

/// A text that came from a file, such as an id or an address, with control characters escaped.
pub fn shown_bytes(name: &[u8]) -> String {
    let mut shown = String::with_capacity(name.len());
    let escape = |shown: &mut String, bytes: &[u8]| {
        bytes.iter().for_each(|byte| _ = write!(shown, "\\x{byte:02x}"));
    };
    for chunk in name.utf8_chunks() {
        for (at, character) in chunk.valid().char_indices() {
            let rest = &chunk.valid()[at..];
            if character.is_control() || rest.starts_with("\\x") {
                escape(&mut shown, &rest.as_bytes()[..character.len_utf8()]);
            } else {
                shown.push(character);
            }
        }
        escape(&mut shown, chunk.invalid());
    }
    shown
}

/// The id, or `sha256-` and its SHA-256 if it has more than 256 bytes.
pub fn fitting(id: &str) -> String {
    if id.len() <= ID_BYTES { id.to_owned() } else { format!("sha256-{}", sha256(id.as_bytes())) }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn of(name: &[u8]) -> String {
        shown(Path::new(OsStr::from_bytes(name)))
    }

    /// The bytes of a name that is shown.
    fn restored(shown: &str) -> Vec<u8> {
        let mut parts = shown.split("\\x");
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        }
        bytes
    }

    #[test]
    fn names_of_any_bytes_are_shown_without_loss() {
        for (name, expected) in [
            (&b"crawl/a b.txt"[..], "crawl/a b.txt"),
            ("市/é\u{1f600}%20\\n".as_bytes(), "市/é\u{1f600}%20\\n"),
            (b"caf\xe9.txt", "caf\\xe9.txt"),
            (b"caf\\xe9.txt", "caf\\x5cxe9.txt"),
            (b"a\x1b[31m\n", "a\\x1b[31m\\x0a"),
            ("\u{9b}1m".as_bytes(), "\\xc2\\x9b1m"),
            (b"\\\xff\\\\x", "\\\\xff\\\\x5cx"),
        ] {
            assert_eq!(of(name), expected);
        }
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let name: Vec<u8> =
                (0..random.usize(..8)).map(|_| *random.choice(b"\\x5cf0e\xff\xc2\x9b\n").unwrap()).collect();
            assert_eq!(restored(&of(&name)), name, "{name:?}");
        }
    }

    #[test]
    fn a_long_id_has_its_digest() {
        assert_eq!(fitting(&"x".repeat(256)), "x".repeat(256));
        assert_eq!(fitting(&"x".repeat(257)), format!("sha256-{}", sha256("x".repeat(257).as_bytes())));
    }
}
