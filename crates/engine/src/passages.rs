//! Passages: which documents share passages with a text, by the grams that both have.
//!
//! The posting lists of the text's grams name the documents, of each list the first ones, so a text costs no
//! more than its grams times that number. How much of both texts is shared, and what of it is boilerplate, is
//! estimated from the grams in the rows.
//!
//! *Absent*: the texts themselves (`service`).

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Range;

use foldhash::fast::RandomState;

use super::boilerplate::{Compared, MOST, Sources, is_most};
use super::marks::{LeftOut, Marks};
use super::near_duplicates::DUPLICATES_NAMED;
use super::planning::Plan;
use super::registry::Collection;
use super::{Document, Engine, EngineError, Match, PassageAnswer, PassageQuery};
use lookalike_hamming::Subject;
use lookalike_hash::{DocumentId, Gram, GramRule, Hash};
use lookalike_run::call::Reserved;
use lookalike_run::pool::Cancel;
use lookalike_store::{Lists, Posting, PostingList, RowHead, StoreError, View};
use lookalike_text::fingerprint::{Containment, MIN_SHARED_GRAMS};

/// The documents that are read of each gram, at least; more if more of them make boilerplate.
const POSTINGS: usize = 100;
/// The maximum number of documents whose grams are compared with those of the text: those that share most.
const COMPARED: usize = 1_000;
/// The maximum number of documents whose kept texts the writer compares with that of a new one, and the bytes
/// of all these texts: those of which the estimate is largest. Others are decided by the estimate.
const JUDGED: usize = 16;
const JUDGED_BYTES: usize = 1 << 20;
/// The most grams of a new document that the writer looks up, spread over it, and of the documents that share
/// some: a larger text must not hold up others.
const LOOKED_UP: usize = 1 << 14;
const GRAMS_READ: usize = 1 << 18;
/// The share of both texts from which they are copies of each other.
const COPY: f64 = 0.8;
/// Approximate bytes of memory per document that shares a gram, and per row without grams and metadata.
const DOCUMENT_BYTES: usize = 160;
const ROW_BYTES: usize = 256;
/// Number of grams looked up between two checks for cancellation.
const CHECK: usize = 64;

/// The documents that share grams with a text.
#[derive(Default)]
struct Sharing {
    /// The number of grams that each document shares.
    counts: HashMap<DocumentId, usize, RandomState>,
}

impl Sharing {
    /// Counts the postings of a gram.
    fn add(&mut self, postings: Vec<Posting>) {
        for posting in postings {
            *self.counts.entry(posting.id).or_default() += 1;
        }
    }

    /// The documents that may share a passage, those that share most grams first. Documents that are marked
    /// as a pair with that of the query take no place of others.
    fn into_candidates(self, rule: GramRule, left_out: Option<&LeftOut<'_, '_>>) -> Vec<DocumentId> {
        let is_pair = |id: &DocumentId| left_out.is_some_and(|left_out| left_out.has_pair(id));
        let enough = self.counts.into_iter().filter(|(_, count)| *count >= fewest_grams(rule));
        let (mut pairs, mut most): (Vec<_>, Vec<_>) = enough.partition(|(id, _)| is_pair(id));
        most.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        most.truncate(COMPARED);
        pairs.sort_unstable();
        most.append(&mut pairs);
        most.into_iter().map(|(id, _)| id).collect()
    }
}

/// The fewest grams of a text that is found by its passages.
pub fn fewest_grams(rule: GramRule) -> usize {
    if rule.is_exact { 1 } else { MIN_SHARED_GRAMS }
}

/// The documents that are read of each gram.
fn postings_read(rule: GramRule) -> usize {
    POSTINGS.max(rule.boilerplate as usize)
}

impl Engine {
    /// The documents that share passages with a text; none if the collection keeps no grams.
    ///
    /// # Errors
    /// [`EngineError::Store`], [`EngineError::NoMemory`], and [`EngineError::Pool`] if the work is cancelled.
    pub fn passages(
        &self,
        collection: &Collection,
        query: &PassageQuery,
        cancel: &Cancel,
    ) -> Result<PassageAnswer, EngineError> {
        let settings = collection.settings();
        let Some(rule) = settings.grams else {
            return Ok(PassageAnswer::default());
        };
        let ((view, marks), now_ms) = (collection.marks.view(&self.shared.store), self.now_ms());
        let (mut sharing, mut reserved) = (Sharing::default(), Reserved::default());
        for (at, gram) in query.grams.iter().enumerate() {
            if at % CHECK == 0 {
                cancel.check()?;
                reserved.grow_to(sharing.counts.len() * DOCUMENT_BYTES)?;
            }
            sharing.add(postings(&view, collection, gram.hash, postings_read(rule), now_ms)?);
        }
        let left_out = Marks::of(&view, collection, marks).left_out(query.document.as_ref())?;
        let candidates = sharing.into_candidates(rule, left_out.as_ref());
        let own = (&query.grams[..], query.characters);
        let mut compared = Compared::new(own, query.sources.clone(), rule, settings.keep_text);
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for (at, id) in candidates.into_iter().enumerate() {
            if at % CHECK == 0 {
                cancel.check()?;
            }
            let row = view.row_head(collection.id, &id)?.filter(|row| !row.has_lapsed(now_ms));
            let Some(row) = row else { continue };
            let source = query.sources.of(row.metadata.as_deref());
            compared.add(&row.grams, source);
            bytes += ROW_BYTES;
            if query.filter.as_ref().is_none_or(|filter| !filter.excludes(&id) && filter.admits(&row)) {
                bytes += size_of_val(&row.grams[..]) + row.metadata.as_ref().map_or(0, String::len);
                rows.push((id, row, source));
            }
            reserved.grow_to(bytes + compared.bytes())?;
        }
        bytes += compared.bytes();
        let subject = Subject { hash: query.hash, signature: query.signature.as_deref() };
        let (mut matches, mut marked) = (Vec::new(), Vec::new());
        for (at, (id, row, source)) in rows.into_iter().enumerate() {
            if at % CHECK == 0 {
                cancel.check()?;
            }
            let (shared, is_enough) = compared.with((&row.grams, row.characters), source);
            if is_enough && query.share(&shared) >= query.containment {
                let is_marked = left_out.as_ref().map_or(Ok(false), |left_out| left_out.has(&id))?;
                let of = if is_marked { &mut marked } else { &mut matches };
                bytes += size_of_val(&shared.shared[..]);
                reserved.grow_to(bytes)?;
                of.push(found(collection, subject, id, row, shared));
            }
        }
        rank(&mut matches, query.is_part);
        matches.truncate(query.limit);
        Ok(PassageAnswer { matches, boilerplate: compared.into_boilerplate(), marked })
    }
}

/// The first live postings of a gram.
fn postings(
    view: &View<'_>,
    collection: &Collection,
    gram: u64,
    most: usize,
    now_ms: u64,
) -> Result<Vec<Posting>, StoreError> {
    let (of, gram) = (collection.id, Hash::from_u64(gram));
    match view.posting_list(Lists::Grams, of, gram)? {
        None => Ok(Vec::new()),
        Some(PostingList::One(posting)) => Ok(vec![posting]),
        Some(PostingList::Many(_)) => {
            let is_live = |posting: &Result<Posting, _>| {
                posting.as_ref().map_or(true, |posting| !posting.has_lapsed(now_ms))
            };
            view.shared_postings(Lists::Grams, of, gram, None).filter(is_live).take(most).collect()
        }
    }
}

fn found(
    collection: &Collection,
    subject: Subject<'_>,
    id: DocumentId,
    row: RowHead,
    shared: Containment,
) -> Match {
    let distance = collection.index.distance(subject, row.hash).unwrap_or(collection.index.most());
    Match {
        similarity: collection.signatures.map(|shape| shape.similarity(distance)),
        relation: shared.relation(),
        shared: Some(Box::new(shared)),
        expires_ms: row.lifetime.end_ms(),
        metadata: row.metadata,
        ..Match::of(id, row.hash, distance)
    }
}

/// Sorts matches by their shared passages: whole copies first, then by the larger of both shares; if the text
/// is to be part of them, by the share of it.
pub fn rank(matches: &mut [Match], is_part: bool) {
    let key = |near: &Match| {
        let (a, b) = near.shared.as_ref().map_or((0.0, 0.0), |shared| (shared.a_in_b, shared.b_in_a));
        if is_part { (false, a, b) } else { (a.min(b) >= COPY, a.max(b), a.min(b)) }
    };
    matches.sort_by(|a, b| {
        let (one, other) = (key(b), key(a));
        let by_shares = one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).then(one.2.total_cmp(&other.2));
        by_shares.then_with(|| a.id.cmp(&b.id))
    });
}

impl Plan<'_> {
    /// The documents that contain at least `least` of a new one at this point of the group. Kept texts are
    /// compared letter by letter.
    pub(super) fn containing(
        &self,
        collection: &Collection,
        document: &Document,
        least: f64,
    ) -> Result<Vec<Match>, StoreError> {
        let settings = collection.settings();
        let Some(rule) = settings.grams else { return Ok(Vec::new()) };
        let grams: &[Gram] = &document.row.grams;
        let mut sharing = Sharing::default();
        for gram in grams.iter().step_by(grams.len().div_ceil(LOOKED_UP).max(1)) {
            let gram = Hash::from_u64(gram.hash);
            sharing.add(self.gram_postings(collection, gram, postings_read(rule))?);
        }
        let left_out = self.left_out(collection, document)?;
        let left_out = left_out.as_ref();
        let own = document.row.text.as_deref();
        let sources = Sources::new(&settings, Some(&document.row));
        let mut compared =
            Compared::new((grams, document.row.characters), sources.clone(), rule, own.is_some());
        let (mut rows, mut read) = (Vec::new(), 0);
        // A document is not a duplicate of its own previous version.
        for id in sharing.into_candidates(rule, left_out).into_iter().filter(|id| *id != document.id) {
            let Some(row) = self.live_row(collection, &id)? else { continue };
            let metadata = row.metadata.as_deref();
            read += row.grams.len() + sources.work(metadata);
            if read > GRAMS_READ && !rows.is_empty() {
                break;
            }
            let source = sources.of(metadata);
            compared.add(&row.grams, source);
            if !left_out.map_or(Ok(false), |left_out| left_out.has(&id))? {
                rows.push((id, row, source));
            }
        }
        let subject = Subject { hash: document.row.hash, signature: collection.signature_of(&document.row) };
        let mut estimated = Vec::new();
        for (id, row, source) in rows {
            let (shared, is_enough) = compared.with((&row.grams, row.characters), source);
            let is_judged = own.is_some() && shared.a_in_b > 0.0;
            if is_judged || (is_enough && shared.a_in_b >= least) {
                estimated.push((is_enough, shared, id, row, source));
            }
        }
        estimated.sort_by(|a, b| b.1.a_in_b.total_cmp(&a.1.a_in_b).then_with(|| a.2.cmp(&b.2)));
        let (mut matches, mut judged, mut bytes) = (Vec::new(), 0, 0);
        for (is_enough, mut shared, id, row, source) in estimated {
            let is_possible = judged < JUDGED && bytes < JUDGED_BYTES;
            let text = if own.is_some() && is_possible { self.text(collection, &id)? } else { None };
            let mut is_exact = false;
            if let (Some(own), Some(text)) = (own, text) {
                bytes += own.len() + text.len();
                judged += 1;
                if bytes <= JUDGED_BYTES {
                    let (own, text) = ((own, grams), (&text[..], &row.grams[..]));
                    let is_left_out = |gram: &Gram| compared.boilerplate().is_left_out(gram.hash, source);
                    let Ok(exact) = by_letters(own, text, is_left_out, || Ok::<_, Infallible>(()));
                    (shared, is_exact) = (exact, true);
                }
            }
            let is_left_out = |gram: &Gram| compared.boilerplate().is_left_out(gram.hash, source);
            let may_be_boilerplate = own.is_some() && shared.a_in_b < MOST && grams.iter().any(is_left_out);
            if shared.a_in_b >= least && (is_exact || is_enough && !may_be_boilerplate) {
                matches.push(found(collection, subject, id, RowHead { metadata: None, ..row }, shared));
            }
        }
        rank(&mut matches, false);
        matches.truncate(DUPLICATES_NAMED);
        Ok(matches)
    }
}

/// Compares two texts, each with its grams, by their letters: without boilerplate, which grams tell, unless
/// they share most of one with it.
///
/// # Errors
/// The error of `check`, which is called from time to time.
pub fn by_letters<E>(
    a: (&str, &[Gram]),
    b: (&str, &[Gram]),
    is_boilerplate: impl Fn(&Gram) -> bool,
    check: impl Fn() -> Result<(), E>,
) -> Result<Containment, E> {
    let whole = Containment::of(a.0, b.0, &check)?;
    if is_most(&whole) || !a.1.iter().any(&is_boilerplate) {
        return Ok(whole);
    }
    let rest = |(text, grams): (&str, &[Gram])| blank(text, &ranges(grams, &is_boilerplate));
    Containment::of(&rest(a), &rest(b), check)
}

/// The ranges of characters from the first to the last of consecutive grams that `is_wanted`.
pub fn ranges(grams: &[Gram], is_wanted: impl Fn(&Gram) -> bool) -> Vec<Range<u32>> {
    let wanted = grams.chunk_by(|a, b| is_wanted(a) == is_wanted(b)).filter(|part| is_wanted(&part[0]));
    wanted.map(|part| part[0].from..part[part.len() - 1].to).collect()
}

/// The text with spaces in place of the characters in these ranges, which are in order.
fn blank(text: &str, ranges: &[Range<u32>]) -> String {
    let mut ranges = ranges.iter().peekable();
    let blanked = (0..).zip(text.chars()).map(|(at, c)| {
        while ranges.next_if(|range| range.end <= at).is_some() {}
        if ranges.peek().is_some_and(|range| range.contains(&at)) { ' ' } else { c }
    });
    blanked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_consecutive_grams_and_are_blanked() {
        let gram = |hash: u64, from: u32| Gram { hash, from, to: from + 2 };
        let grams = [gram(1, 0), gram(2, 3), gram(9, 6), gram(1, 7), gram(3, 12)];
        let found = ranges(&grams, |gram| gram.hash < 3);
        assert_eq!(found, [0..5, 7..9]);
        assert_eq!(blank("北京abcdefghij", &found), "     de  hij");
        assert_eq!(blank("abc", &[]), "abc");
        assert!(ranges(&[], |_| true).is_empty());
    }
}
