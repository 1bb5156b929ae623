//! The near-duplicates of a document of a group: which they are, and storing it in their place.

use std::convert::Infallible;

use super::clustering::rank_key;
use super::marks::{LeftOut, Marks};
use super::nearest::nearest;
use super::planning::Plan;
use super::recent::Recent;
use super::registry::Collection;
use crate::{Document, DuplicateRule, Match, Outcome, Row};
use lookalike_hamming::Subject;
use lookalike_hash::{Hash, Sequence, are_duplicates, reach};
use lookalike_store::{Lists, Posting, StoreError};

/// The maximum number of near-duplicates reported for a rejected document.
pub(super) const DUPLICATES_NAMED: usize = 10;

/// The maximum number of documents that a new one replaces. They are removed with it in one commit.
pub const MAX_REPLACED: usize = 1_000;

/// The maximum number of hashes that a search passes to the writer. There are several because some of them
/// may be deleted before the writer decides. As many documents are compared by their sketches.
pub(super) const NEAREST: usize = 32;

/// The result of a search for near-duplicates that was made before the operation reached the writer.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    /// The last change that the check is certain to have seen.
    pub(super) seen: Sequence,
    /// The nearest hashes found, at most [`NEAREST`].
    pub(super) nearest: Vec<Hash>,
}

/// Documents near a new one.
struct Near {
    /// The near-duplicates among them.
    matches: Vec<Match>,
    /// The number of those that were compared by their sketches.
    compared: usize,
}

impl DuplicateRule {
    /// The distance within which there may be near-duplicates of a document.
    pub fn reach(&self, row: &Row) -> u32 {
        reach(self.k, self.check, row.sketch.as_deref())
    }

    /// Whether a document within reach, with this sketch if it has one, is a near-duplicate: `None` if it is
    /// not, otherwise the similarity if the sketches were compared.
    #[allow(clippy::option_option, reason = "no duplicate, one by distance, or one by similarity")]
    pub fn similarity(&self, row: &Row, distance: u32, sketch: Option<&[u8]>) -> Option<Option<f64>> {
        are_duplicates(self.k, self.check, distance, [row.sketch.as_deref(), sketch])
    }
}

impl<'a> Plan<'a> {
    /// Stores a document in place of its near-duplicates, if it ranks before all of them. One that has none
    /// is not stored if a document contains it by the rule: a longer text is not replaced by its part.
    pub(super) fn replace(
        &mut self,
        collection: &Collection,
        document: Document,
        rule: &DuplicateRule,
        recent: &mut Recent,
    ) -> Result<Outcome, StoreError> {
        let k = rule.reach(&document.row);
        let (hashes, _) = self.near_hashes(collection, subject(collection, &document), k, usize::MAX);
        let most = [MAX_REPLACED + 1, MAX_REPLACED];
        let near = self.near_among(collection, &document, rule, hashes, most)?.matches;
        if let (true, Some(least)) = (near.is_empty(), rule.containment) {
            let within = self.containing(collection, &document, least)?;
            if !within.is_empty() {
                return Ok(Outcome::Duplicate(within));
            }
        }
        let rule = collection.settings().clusters.clone();
        let Some(rule) = rule else { return Ok(Outcome::Duplicate(named(near))) };
        let before = self.live_row(collection, &document.id)?;
        let place = before.map_or(self.next_place, |before| before.place);
        let key = rank_key(&rule.keep, document.row.metadata.as_deref(), document.row.characters);
        for other in &near {
            let row = self.live_row(collection, &other.id)?;
            let rank =
                row.map(|row| (rank_key(&rule.keep, row.metadata.as_deref(), row.characters), row.place));
            if rank.is_some_and(|rank| rank < (key, place)) {
                return Ok(Outcome::Duplicate(named(near)));
            }
        }
        if near.len() > MAX_REPLACED {
            // It may rank before all of them, and the copy to keep must not be lost.
            return Ok(Outcome::TooManyNear);
        }
        for other in &near {
            self.delete(collection, &other.id)?;
        }
        let stored = self.put(collection, document, recent)?;
        Ok(match stored {
            Outcome::Created(version) | Outcome::Updated(version) if !near.is_empty() => {
                Outcome::Replaced(version, named(near))
            }
            stored => stored,
        })
    }

    /// The near-duplicates at this point of the group, nearest first.
    pub(super) fn near(
        &self,
        collection: &Collection,
        document: &Document,
        rule: &DuplicateRule,
        checked: Option<&Checked>,
        recent: &Recent,
    ) -> Result<Vec<Match>, StoreError> {
        if self.left_out(collection, document)?.is_some_and(|left_out| left_out.is_everything()) {
            return Ok(Vec::new());
        }
        let (subject, k) = (subject(collection, document), rule.reach(&document.row));
        let most = [DUPLICATES_NAMED, NEAREST];
        let is_near =
            |other: Hash| collection.index.distance(subject, other).is_some_and(|distance| distance <= k);
        if let Some(Checked { seen, nearest }) = checked
            && let Some(mut hashes) = recent.since(*seen, collection.id, is_near)
        {
            let is_complete = nearest.len() < NEAREST;
            hashes.extend(nearest);
            let Near { matches, compared } = self.near_among(collection, document, rule, hashes, most)?;
            // The search passed only its nearest hashes. If none of them has a document any more, others may
            // be near.
            if is_complete || !matches.is_empty() || compared >= NEAREST {
                return Ok(matches);
            }
        }
        let mut wanted = NEAREST;
        loop {
            let (hashes, is_complete) = self.near_hashes(collection, subject, k, wanted);
            let Near { matches, compared } = self.near_among(collection, document, rule, hashes, most)?;
            if is_complete || !matches.is_empty() || compared >= NEAREST {
                return Ok(matches);
            }
            // The group has deleted the documents of all these hashes.
            wanted *= 8;
        }
    }

    /// The documents that are left out of the near-duplicates of a document because of marks.
    pub(super) fn left_out(
        &self,
        collection: &Collection,
        document: &Document,
    ) -> Result<Option<LeftOut<'_, 'a>>, StoreError> {
        Marks::of_writer(&self.view, collection).left_out(Some(&document.id))
    }

    /// The near-duplicates of `document` among the documents that have one of these hashes, nearest first:
    /// the first `most`, and of those that a check compares, those among the first `compared`. The document
    /// itself is excluded, and so are those that are marked with it. The metadata is left out: a group of
    /// thousands of duplicates would hold hundreds of megabytes.
    fn near_among(
        &self,
        collection: &Collection,
        document: &Document,
        rule: &DuplicateRule,
        hashes: Vec<Hash>,
        [most, compared]: [usize; 2],
    ) -> Result<Near, StoreError> {
        let mut near = Near { matches: Vec::new(), compared: 0 };
        let left_out = self.left_out(collection, document)?;
        let left_out = left_out.as_ref();
        if left_out.is_some_and(LeftOut::is_everything) {
            return Ok(near);
        }
        let subject = subject(collection, document);
        let is_checked = rule.check.is_some() && document.row.sketch.is_some();
        let read = if is_checked { most.max(compared) } else { most } + 1;
        let with_distance = |near| Some((collection.index.distance(subject, near)?, near));
        let mut hashes: Vec<(u32, Hash)> = hashes.into_iter().filter_map(with_distance).collect();
        hashes.sort_unstable();
        hashes.dedup();
        for (distance, hash) in hashes {
            let list = (Lists::Hashes, collection.id, hash);
            for Posting { id, expires_ms, .. } in self.unmarked_postings(collection, list, left_out, read)? {
                // A document is not a duplicate of its own previous version.
                if id == document.id || near.compared >= compared {
                    continue;
                }
                let signed = collection.signatures.map(|shape| shape.similarity(distance));
                let sketch = if is_checked { self.sketch(collection, &id)? } else { None };
                near.compared += usize::from(sketch.is_some());
                if let Some(similarity) = rule.similarity(&document.row, distance, sketch.as_deref()) {
                    let similarity = signed.or(similarity);
                    near.matches.push(Match { similarity, expires_ms, ..Match::of(id, hash, distance) });
                }
            }
            if near.matches.len() >= most {
                break;
            }
        }
        near.matches.sort_by(|a, b| (a.distance, &a.id).cmp(&(b.distance, &b.id)));
        near.matches.truncate(most);
        Ok(near)
    }

    /// The `wanted` nearest hashes within `k`, and whether these are all: in the index, and all those that
    /// the group adds.
    pub(super) fn near_hashes(
        &self,
        collection: &Collection,
        subject: Subject<'_>,
        k: u32,
        wanted: usize,
    ) -> (Vec<Hash>, bool) {
        let Ok(found) = nearest(&*collection.index, subject, k, wanted, || Ok::<_, Infallible>(()));
        let is_complete = found.len() < wanted;
        let mut hashes: Vec<Hash> = found.into_iter().map(|near| near.hash).collect();
        let near =
            |other: &Hash| collection.index.distance(subject, *other).is_some_and(|distance| distance <= k);
        let of_group =
            self.postings.keys().filter(|(lists, of, _)| (*lists, *of) == (Lists::Hashes, collection.id));
        let of_group = of_group.map(|(_, _, hash)| *hash);
        hashes.extend(of_group.filter(near));
        hashes.sort_unstable();
        hashes.dedup();
        (hashes, is_complete)
    }
}

/// The near-duplicates that are named in an outcome.
fn named(mut near: Vec<Match>) -> Vec<Match> {
    near.truncate(DUPLICATES_NAMED);
    near
}

/// The subject of the search for near-duplicates of a document.
fn subject<'d>(collection: &Collection, document: &'d Document) -> Subject<'d> {
    Subject { hash: document.row.hash, signature: collection.signature_of(&document.row) }
}
