//! Chinese scripts: simplified texts are never rewritten, and traditional copies come back.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use lookalike_text::simplified;
use serde_json::Value as Json;

use crate::shared;

/// Whether a character is in GB 2312, whose ideographs are simplified.
fn is_gb2312(c: char) -> bool {
    let text = c.to_string();
    let (bytes, _, has_unknown) = encoding_rs::GBK.encode(&text);
    !has_unknown && matches!(*bytes, [0xb0..=0xf7, 0xa1..=0xfe])
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{323af}')
}

/// 50 MB of mainland texts. A few of them quote traditional ones.
#[test]
fn simplified_texts_are_left_as_they_are() {
    let (mut texts, mut bytes, mut changed) = (0, 0, BTreeSet::new());
    for set in ["zh_edits", "zh_revisions"] {
        let Some(path) = shared(&format!("{set}/docs.jsonl.gz")) else { return };
        for line in BufReader::new(GzDecoder::new(File::open(path).unwrap())).lines() {
            let document: Json = serde_json::from_str(&line.unwrap()).unwrap();
            let text = document["text"].as_str().unwrap();
            (texts, bytes) = (texts + 1, bytes + text.len());
            for clause in text.split(|c| !is_ideograph(c)).filter(|clause| !clause.is_empty()) {
                let after = simplified(clause);
                if after != clause {
                    // 乾 and 瞭 are in names, too, which have one form in both scripts.
                    let is_certain = |c: char| is_gb2312(c) && !"乾瞭".contains(c);
                    assert!(!clause.chars().all(is_certain), "{clause} became {after}");
                    changed.insert(clause.to_owned());
                }
            }
        }
    }
    println!("{texts} texts, {bytes} bytes; changed: {changed:?}");
    assert!(texts > 10_000 && changed.len() < 60, "{changed:?}");
}
