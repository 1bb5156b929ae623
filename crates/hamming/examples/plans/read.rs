//! Files of hashes: one per line.
//!
//! After the digits the rest of a line is ignored, so the output of `lookalike fingerprint` can be read.
//! Empty lines are skipped. An error names file and line.

use std::collections::HashSet;
use std::io::BufRead;

use foldhash::fast::FixedState;
use lookalike_hash::{Hash, HashError};

use super::bits::Bits;

/// The hashes of a file, in its order; at least one, and all of the same width.
///
/// # Errors
/// What is wrong, and in which line.
pub fn hashes(name: &str, file: impl BufRead) -> Result<Vec<Hash>, String> {
    let mut found: Vec<Hash> = Vec::new();
    for (number, line) in (1..).zip(file.split(b'\n')) {
        let line = line.map_err(|error| format!("{name}: {error}"))?;
        let wrong = |reason: &str| format!("{name}: line {number}: {reason}");
        let line = std::str::from_utf8(&line).map_err(|_| wrong("it is not UTF-8"))?;
        let Some(digits) = line.split_whitespace().next() else { continue };
        let hash: Hash = digits.parse().map_err(|error: HashError| wrong(&error.to_string()))?;
        let width = found.first().map_or(hash.width(), |first| first.width());
        if hash.width() != width {
            let (own, others) = (hash.width().bits(), width.bits());
            return Err(wrong(&format!("the hash has {own} bits, and those before it have {others}")));
        }
        found.push(hash);
    }
    if found.is_empty() {
        return Err(format!("{name}: there are no hashes in it; it needs one per line"));
    }
    Ok(found)
}

/// The hashes as words, each once, in the order of the file.
pub fn distinct<W: Bits>(hashes: &[Hash]) -> Vec<W> {
    let mut seen: HashSet<W, FixedState> = HashSet::default();
    hashes.iter().filter_map(|hash| W::from_hash(*hash)).filter(|word| seen.insert(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_begins_with_the_digits_of_a_hash() {
        let lines = "00000000000000ff\n00000000000000FF  a file.txt\r\n\n0x00000000000000fe\n";
        let found = hashes("a", lines.as_bytes()).unwrap();
        assert_eq!(found, [0xff, 0xff, 0xfe].map(Hash::from_u64));
        assert_eq!(distinct::<u64>(&found), [0xff, 0xfe]);
    }

    #[test]
    fn errors_name_the_line_and_the_reason() {
        let (narrow, wide) = ("0000000000000001\n", "00000000000000000000000000000001\n");
        for (lines, expected) in [
            (format!("{narrow}\nabc\n"), "a: line 3: a hash has 16 hexadecimal digits"),
            (format!("{narrow}{wide}"), "a: line 2: the hash has 128 bits, and those before it have 64"),
            ("\n \n".to_owned(), "a: there are no hashes in it"),
        ] {
            let error = hashes("a", lines.as_bytes()).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        assert_eq!(hashes("a", &b"\xff\n"[..]), Err("a: line 1: it is not UTF-8".to_owned()));
    }
}
