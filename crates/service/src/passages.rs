//! Passages: which stored documents share parts with the text of a query, and which parts.
//!
//! The engine finds the documents by sampled grams. Where a collection keeps texts, the texts are compared
//! letter by letter. Boilerplate is left out of both: it is reported, and does not count for a share.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::ask::{Ask, By};
use super::clusters::placements_of;
use super::fingerprints::{Content, grams_of, reserve_for_text};
use super::lookup::Found;
use super::{Service, ServiceError};
use lookalike_engine::{
    Boilerplate, Collection, CollectionSettings, Document, Engine, EngineError, Filter, Judge, Match,
    PassageQuery, Sources, by_letters, ranges, rank,
};
use lookalike_hash::{DocumentId, Gram, GramRule};
use lookalike_run::pool::{Cancel, Patience};
use lookalike_text::features::all_grams;
use lookalike_text::fingerprint::{Containment, Profile, TextRelation};

/// The share of a text that must be in a document, or the other way round, unless a query sets another.
const CONTAINMENT: f64 = 0.4;
/// Where texts are compared, the estimate by twenty grams may be too low by this factor.
const ESTIMATED: f64 = 0.5;
/// So may one gram of a quotation that is a small part of a text: there no estimate is too low.
const ESTIMATED_EXACTLY: f64 = 0.0;
/// The number of texts that are compared per document of the answer.
const COMPARED: usize = 4;
/// The documents that may contain a text, of which the one that contains most is named.
const CONTAINING: usize = 4;

/// The documents that share passages with the text of a query.
#[derive(Clone, Debug)]
pub struct Passages {
    /// The number of grams of the text.
    pub grams: usize,
    /// The parts of the text, in characters, that documents have which are otherwise unlike.
    pub boilerplate: Vec<Range<u32>>,
    /// The documents: whole copies first, then by the larger of both shares.
    pub documents: Vec<Match>,
    /// The number of those that were left out because of marks.
    pub marked: u64,
}

/// The text of a query.
struct Subject {
    grams: Vec<Gram>,
    characters: Option<u32>,
    sources: Sources,
    text: Option<String>,
}

impl Subject {
    /// A text for a collection with these settings. Where texts are kept, whose letters decide, a text that
    /// is too short for exact passages may find some by chance.
    fn of(text: String, rule: GramRule, settings: &CollectionSettings) -> Subject {
        let mut grams = grams_of(&text, rule);
        if grams.is_empty() && rule.is_exact && settings.keep_text {
            grams = all_grams(&text);
        }
        let characters = u32::try_from(text.chars().count()).ok();
        Subject { grams, characters, sources: Sources::new(settings, None), text: Some(text) }
    }
}

impl Service {
    /// Adds the documents that share passages with the subject of a query, if the collection keeps passages
    /// and the subject is a text or a stored document. Only the first page of an answer has them.
    pub(super) async fn add_passages(
        &self,
        collection: &Arc<Collection>,
        ask: &Ask,
        found: &mut Found,
    ) -> Result<(), ServiceError> {
        let containment = min_containment(collection, ask)?;
        let settings = collection.settings();
        let Some(rule) = settings.grams.filter(|_| ask.cursor.is_none()) else { return Ok(()) };
        let (mut filter, mut document) = (ask.filter.clone(), None);
        let (text, stored) = match &ask.by {
            By::Content(Content::Text(text)) => (Some(text.clone()), None),
            By::Content(_) => return Ok(()),
            By::Id(id) => {
                let row = self.document_in(collection, id).await?.row;
                filter.get_or_insert_default().exclude(id.clone());
                document = Some(id.clone());
                let sources = Sources::new(&settings, Some(&row));
                (
                    None,
                    Some(Subject { grams: row.grams, characters: row.characters, sources, text: row.text }),
                )
            }
        };
        let limit = ask.matches(self.limits());
        let (engine, collection) = (Arc::clone(self.engine()?), Arc::clone(collection));
        let (hash, signature) = (found.hash, found.signature.clone());
        let work = move |cancel: &Cancel| {
            let subject = match (text, stored) {
                (Some(text), _) => {
                    reserve_for_text(text.len(), Profile::EXPLAINED_PER_BYTE)?.keep();
                    Subject::of(text, rule, &settings)
                }
                (None, Some(mut stored)) => {
                    let text = stored.text.as_deref().filter(|_| stored.grams.is_empty() && rule.is_exact);
                    stored.grams = text.map_or(stored.grams, all_grams);
                    stored
                }
                (None, None) => return Ok::<_, ServiceError>(None),
            };
            let Subject { grams, characters, sources, text } = subject;
            let query = PassageQuery {
                hash,
                signature,
                grams,
                characters,
                sources,
                containment,
                is_part: false,
                limit,
                filter,
                document,
            };
            let mut passages = compared(&engine, &collection, query, text, cancel)?;
            let ids: Vec<DocumentId> = passages.documents.iter().map(|near| near.id.clone()).collect();
            let placements = placements_of(&engine, &collection, &ids);
            for (near, cluster) in passages.documents.iter_mut().zip(placements) {
                near.cluster = cluster.map(Box::new);
                let is_near = near.distance <= settings.k;
                near.relation = near.relation.or(is_near.then_some(TextRelation::Duplicate));
            }
            Ok(Some(passages))
        };
        let passages = self.pool.run(Patience::Interactive, work).await??;
        let Some(passages) = passages else { return Ok(()) };
        let relations: HashMap<&DocumentId, Option<TextRelation>> =
            passages.documents.iter().map(|near| (&near.id, near.relation)).collect();
        for near in &mut found.matches {
            near.relation = relations.get(&near.id).copied().flatten().or(near.relation);
        }
        found.passages = Some(Box::new(passages));
        Ok(())
    }
}

/// The documents that share passages with a text. Where texts are kept, their letters decide.
fn compared(
    engine: &Engine,
    collection: &Collection,
    mut query: PassageQuery,
    text: Option<String>,
    cancel: &Cancel,
) -> Result<Passages, ServiceError> {
    let settings = collection.settings();
    let (containment, limit) = (query.containment, query.limit);
    let text = text.filter(|_| settings.keep_text);
    if text.is_some() {
        let is_exact = settings.grams.is_some_and(|rule| rule.is_exact);
        query.containment *= if is_exact { ESTIMATED_EXACTLY } else { ESTIMATED };
        query.limit *= COMPARED;
    }
    let mut answer = engine.passages(collection, &query, cancel)?;
    let is_boilerplate = |gram: &Gram| answer.boilerplate.has(gram.hash);
    let boilerplate = ranges(&query.grams, is_boilerplate);
    let grams = query.grams.len();
    if let Some(text) = text {
        let is_part = query.is_part;
        let judge = judge(text, PassageQuery { containment, ..query }, answer.boilerplate);
        let marked: HashSet<DocumentId> = answer.marked.iter().map(|near| near.id.clone()).collect();
        answer.matches.append(&mut answer.marked);
        engine.judge(collection, &mut answer.matches, judge, cancel)?;
        (answer.marked, answer.matches) =
            answer.matches.into_iter().partition(|near| marked.contains(&near.id));
        rank(&mut answer.matches, is_part);
        answer.matches.truncate(limit);
    }
    Ok(Passages { grams, boilerplate, documents: answer.matches, marked: answer.marked.len() as u64 })
}

/// The document, of those that this filter admits, that contains most of another one, if it contains this
/// share of it.
pub(super) fn containing(
    engine: &Engine,
    collection: &Collection,
    Document { id, row }: Document,
    least: f64,
    others: Filter,
    cancel: &Cancel,
) -> Result<Option<Match>, ServiceError> {
    let query = PassageQuery {
        hash: row.hash,
        sources: Sources::new(&collection.settings(), Some(&row)),
        signature: row.sketch.filter(|_| collection.signatures().is_some()).map(Arc::from),
        grams: row.grams,
        characters: row.characters,
        containment: least,
        is_part: true,
        limit: CONTAINING,
        filter: Some(Box::new(others)),
        document: Some(id),
    };
    Ok(compared(engine, collection, query, row.text, cancel)?.documents.into_iter().next())
}

/// The minimum containment of a query.
fn min_containment(collection: &Collection, ask: &Ask) -> Result<f64, ServiceError> {
    let Some(least) = ask.min_containment else { return Ok(CONTAINMENT) };
    check_containment(collection.keeps_grams(), least)?;
    if let By::Content(Content::Hash(_) | Content::Signature(_)) = &ask.by {
        let detail = "min_containment compares passages of texts; give a text, a page or the id of a \
                      document that was stored as one";
        return Err(ServiceError::invalid("min_containment", detail));
    }
    Ok(least)
}

pub(super) fn check_containment(keeps_passages: bool, least: f64) -> Result<(), ServiceError> {
    if !keeps_passages {
        let detail = "min_containment compares passages, and this collection keeps none; create one with \
                      \"passages\": true and store the documents there";
        return Err(ServiceError::invalid("min_containment", detail));
    }
    if least > 0.0 && least <= 1.0 {
        return Ok(());
    }
    let detail = format!("min_containment is {least}; it is above 0 and at most 1");
    Err(ServiceError::invalid("min_containment", detail))
}

/// Compares the text of a query with those of matches that have one.
fn judge(own: String, query: PassageQuery, boilerplate: Boilerplate) -> Judge {
    Box::new(move |near, row, cancel| {
        let reaches = |shared: &Containment| query.share(shared) >= query.containment;
        // The estimate decides about one without a text.
        let Some(text) = row.text.as_deref() else { return Ok(near.shared.as_deref().is_some_and(reaches)) };
        let _working = reserve_for_text(own.len() + text.len(), Profile::EXPLAINED_PER_BYTE)?;
        let texts = ((&own[..], &query.grams[..]), (text, &row.grams[..]));
        let is_left_out = boilerplate.left_out(row.metadata.as_deref());
        let check = || cancel.check().map_err(EngineError::from);
        let shared = by_letters(texts.0, texts.1, is_left_out, check)?;
        let is_match = reaches(&shared);
        near.relation = shared.relation();
        near.shared = Some(Box::new(shared));
        Ok(is_match)
    })
}
