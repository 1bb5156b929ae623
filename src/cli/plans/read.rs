//! Files of hashes: one per line, as digits or as a field of a JSON object.
//!
//! After digits the rest of a line is ignored, so the output of `lookalike fingerprint` can be read; lines of
//! `lookalike export` are objects with a field `hash`. Empty lines and headers of exports are skipped. An
//! error names file and line.

use std::collections::HashSet;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use foldhash::fast::FixedState;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::super::Failure;
use crate::ids::Hash;
use crate::plans::Bits;
use crate::wording::plain;
use lookalike_files::unpacked;

/// A line that is an object. Other fields are ignored.
#[derive(Deserialize)]
struct Object {
    hash: Option<String>,
    /// Only in the header of an export.
    export: Option<IgnoredAny>,
}

/// The hashes of a file, in its order; at least one, and all of the same width.
pub(super) fn hashes(path: &Path) -> Result<Vec<Hash>, Failure> {
    let name = path.display();
    let failed = |error: std::io::Error| Failure::new(format!("{name}: {error}"));
    let mut found: Vec<Hash> = Vec::new();
    for (number, line) in (1..).zip(unpacked(path, &Arc::default()).map_err(failed)?.split(b'\n')) {
        let wrong = |reason: String| Failure::new(format!("{name}: line {number}: {reason}"));
        let line = line.map_err(failed)?;
        let line = std::str::from_utf8(&line).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
        let Some(hash) = hash_of(line.trim()).map_err(wrong)? else { continue };
        let width = found.first().map_or(hash.width(), |first| first.width());
        if hash.width() != width {
            let (own, others) = (hash.width().bits(), width.bits());
            return Err(wrong(format!("the hash has {own} bits, and those before it have {others}")));
        }
        found.push(hash);
    }
    if found.is_empty() {
        return Err(Failure::new(format!("{name}: there are no hashes in it; it needs one per line")));
    }
    Ok(found)
}

/// The hash of a line; `None` if the line is empty or the header of an export.
fn hash_of(line: &str) -> Result<Option<Hash>, String> {
    let digits = if line.starts_with('{') {
        let object: Object = serde_json::from_str(line).map_err(|error| plain(&error.to_string()))?;
        match object.hash {
            Some(hash) => hash,
            None if object.export.is_some() => return Ok(None),
            None => return Err("missing field `hash`".to_owned()),
        }
    } else {
        match line.split_whitespace().next() {
            Some(first) => first.to_owned(),
            None => return Ok(None),
        }
    };
    digits.parse().map(Some).map_err(|error: crate::ids::HashError| error.to_string())
}

/// The hashes as words, each once, in the order of the file.
pub(super) fn distinct<W: Bits>(hashes: &[Hash]) -> Vec<W> {
    let mut seen: HashSet<W, FixedState> = HashSet::default();
    hashes.iter().filter_map(|hash| W::from_hash(*hash)).filter(|word| seen.insert(*word)).collect()
}

/// The queries of a file as words.
pub(super) fn words<W: Bits>(path: &Path, hashes: &[Hash]) -> Result<Vec<W>, Failure> {
    let words: Option<Vec<W>> = hashes.iter().map(|hash| W::from_hash(*hash)).collect();
    words.ok_or_else(|| {
        let bits = W::WIDTH.bits();
        Failure::new(format!(
            "{}: the stored hashes have {bits} bits, and these queries have not",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_digits_or_an_object() {
        let hash = Some(Hash::from_u64(0xff));
        assert_eq!(hash_of("00000000000000ff"), Ok(hash));
        assert_eq!(hash_of("00000000000000FF  a file.txt"), Ok(hash));
        assert_eq!(hash_of(r#"{"id": "a", "hash": "0x00000000000000ff"}"#), Ok(hash));
        assert_eq!(hash_of(""), Ok(None));
        for (line, reason) in [("ff", "16 hexadecimal digits"), ("{}", "missing field `hash`"), ("{", "EOF")]
        {
            assert!(hash_of(line).is_err_and(|error| error.contains(reason)), "{line}");
        }
    }
}
