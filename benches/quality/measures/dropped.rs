//! What `dedupe` drops from a labelled set: how many of the dropped documents are copies of the document
//! that replaces them, and how many of the copies are dropped.
//!
//! The set is visited in its order, once with the distances of a profile and once with the labels. The
//! documents that the labels drop are those that should be dropped.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use lookalike_corpus::{Decision, Documents, Kept, Print};
use lookalike_eval::{Judged, Labels, Set};
use lookalike_text::fingerprint::{Profile, Status};

/// A table with a row for each set and profile, at the distance of the profile.
pub fn dropped_table(sets: &[Set], profiles: &[&'static Profile]) -> String {
    let mut table = "| set | profile, k | dropped | precision | second reading | recall |\n\
                     |---|---|--:|--:|--:|--:|\n"
        .to_owned();
    for set in sets {
        for profile in profiles {
            let pairs = dropped_pairs(set, profile);
            let judged = judge(set, &pairs);
            let _ = writeln!(
                table,
                "| {} | {}, {} | {} of {} | {:.4} | {:.4} | {:.4} |",
                set.name,
                profile.id(),
                profile.default_k(),
                pairs.len(),
                set.texts.len(),
                judged.precision,
                judged.precision_undisputed,
                judged.recall
            );
        }
    }
    table
}

/// Each dropped document and the one that replaces it.
pub fn dropped_pairs(set: &Set, profile: &'static Profile) -> Vec<(u32, u32)> {
    let (width, shape) = (profile.width(), profile.signatures());
    let mut kept = Kept::like(&Documents::new(width, shape, profile.default_k(), None));
    let mut pairs = Vec::new();
    for (number, text) in (0_u32..).zip(&set.texts) {
        let signed = profile.sign(text);
        let blank = shape.map_or_else(Vec::new, |shape| vec![0; shape.bytes()]);
        let signature = signed.signature.unwrap_or(blank);
        let print = Print { hash: signed.fingerprint.hash, signature, sketch: Vec::new() };
        if signed.fingerprint.status != Status::Empty
            && let Decision::Dropped { by, .. } = kept.visit((number, &print))
        {
            pairs.push((number, by));
        }
    }
    pairs
}

pub fn judge(set: &Set, pairs: &[(u32, u32)]) -> Judged {
    let ordered = |(a, b): (u32, u32)| (a.min(b), a.max(b));
    let counted = pairs.iter().map(|pair| ordered(*pair)).filter(|pair| !set.labels.ignored.contains(pair));
    let due = due(set.texts.len() as u32, &set.labels);
    let found = pairs.iter().filter(|(number, _)| due.contains(number)).count();
    Judged { recall: found as f64 / due.len().max(1) as f64, ..set.labels.judge(counted) }
}

/// The documents that are dropped if exactly the positive pairs are near.
fn due(len: u32, labels: &Labels) -> HashSet<u32> {
    let mut partners: HashMap<u32, Vec<u32>> = HashMap::new();
    labels.positive.iter().for_each(|&(first, second)| partners.entry(second).or_default().push(first));
    let mut due = HashSet::new();
    for number in 0..len {
        let earlier = partners.get(&number).map_or(&[][..], Vec::as_slice);
        if earlier.iter().any(|other| !due.contains(other)) {
            due.insert(number);
        }
    }
    due
}
