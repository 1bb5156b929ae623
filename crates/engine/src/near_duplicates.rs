//! The near-duplicates of a document of a group: which they are, and storing it in their place.

use std::convert::Infallible;

use super::clustering::rank_key;
use super::marks::{LeftOut, Marks};
use super::nearest::nearest;
use super::planning::Plan;
use super::recent::Recent;
use super::registry::Collection;
use crate::{Document, Match, Outcome};
use lookalike_hamming::Subject;
use lookalike_hash::{Hash, Sequence};
use lookalike_store::{Lists, Posting, StoreError};

/// The maximum number of near-duplicates reported for a rejected document.
pub(super) const DUPLICATES_NAMED: usize = 10;

/// The maximum number of documents that a new one replaces. They are removed with it in one commit.
pub const MAX_REPLACED: usize = 1_000;

/// The maximum number of hashes that a check passes to the writer. There are several because some of them
/// may be deleted before the writer decides.
pub(super) const NEAREST: usize = 32;

/// The result of a near-duplicate check that was made before the operation reached the writer.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    /// The last change that the check is certain to have seen.
    pub(super) seen: Sequence,
    /// The nearest hashes found, at most [`NEAREST`].
    pub(super) nearest: Vec<Hash>,
}

impl<'a> Plan<'a> {
    /// Stores a document in place of all those within k, if it ranks before all of them.
    pub(super) fn replace(
        &mut self,
        collection: &Collection,
        document: Document,
        k: u32,
        recent: &mut Recent,
    ) -> Result<Outcome, StoreError> {
        let (hashes, _) = self.near_hashes(collection, subject(collection, &document), k, usize::MAX);
        let near = self.postings_of(collection, &document, hashes, MAX_REPLACED + 1)?;
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

    /// The documents within `k` at this point of the group, nearest first.
    pub(super) fn near(
        &self,
        collection: &Collection,
        document: &Document,
        k: u32,
        checked: Option<&Checked>,
        recent: &Recent,
    ) -> Result<Vec<Match>, StoreError> {
        if self.left_out(collection, document)?.is_some_and(|left_out| left_out.is_everything()) {
            return Ok(Vec::new());
        }
        let subject = subject(collection, document);
        let is_near =
            |other: Hash| collection.index.distance(subject, other).is_some_and(|distance| distance <= k);
        if let Some(Checked { seen, nearest }) = checked
            && let Some(mut hashes) = recent.since(*seen, collection.id, is_near)
        {
            let is_complete = nearest.len() < NEAREST;
            hashes.extend(nearest);
            let matches = self.postings_of(collection, document, hashes, DUPLICATES_NAMED)?;
            // The check passed only its nearest hashes. If none of them has a document any more, others may
            // be near.
            if is_complete || !matches.is_empty() {
                return Ok(matches);
            }
        }
        let mut wanted = NEAREST;
        loop {
            let (hashes, is_complete) = self.near_hashes(collection, subject, k, wanted);
            let matches = self.postings_of(collection, document, hashes, DUPLICATES_NAMED)?;
            if is_complete || !matches.is_empty() {
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

    /// The first `most` documents that have one of these hashes, nearest to `document` first. The document
    /// itself is excluded, and so are those that are marked with it. The metadata is left out: a group of
    /// thousands of duplicates would hold hundreds of megabytes.
    fn postings_of(
        &self,
        collection: &Collection,
        document: &Document,
        hashes: Vec<Hash>,
        most: usize,
    ) -> Result<Vec<Match>, StoreError> {
        let left_out = self.left_out(collection, document)?;
        let left_out = left_out.as_ref();
        if left_out.is_some_and(LeftOut::is_everything) {
            return Ok(Vec::new());
        }
        let subject = subject(collection, document);
        let with_distance = |near| Some((collection.index.distance(subject, near)?, near));
        let mut hashes: Vec<(u32, Hash)> = hashes.into_iter().filter_map(with_distance).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let mut matches = Vec::new();
        for (distance, near) in hashes {
            let list = (Lists::Hashes, collection.id, near);
            let postings = self.unmarked_postings(collection, list, left_out, most + 1)?;
            for Posting { id, expires_ms, .. } in postings {
                // A document is not a duplicate of its own previous version.
                if id == document.id {
                    continue;
                }
                let similarity = collection.signatures.map(|shape| shape.similarity(distance));
                matches.push(Match { similarity, expires_ms, ..Match::of(id, near, distance) });
            }
            if matches.len() >= most {
                break;
            }
        }
        matches.sort_by(|a, b| (a.distance, &a.id).cmp(&(b.distance, &b.id)));
        matches.truncate(most);
        Ok(matches)
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
