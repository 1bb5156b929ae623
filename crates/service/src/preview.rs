//! What would become of documents if they were stored, without storing them: a dry run.
//!
//! Documents are compared with stored ones, and with earlier ones of the run. One whose id comes again
//! replaces the earlier one, stored or of the run.
//! Marks are not looked at, nor the texts of the run: what they contain is estimated by their grams.

use std::sync::Arc;

use super::Service;
use super::documents::{Offered, status};
use super::error::ServiceError;
use super::passages::containing;
use super::runs::{COMPARED, Run, Seen};
use lookalike_engine::{Collection, Document, DuplicateRule, Filter, Judge, Match, Query, Row, WorkBudget};
use lookalike_hash::{CollectionName, DocumentId, Hash};
use lookalike_run::pool::{Cancel, Patience, Turns};
use lookalike_text::fingerprint::Status;

/// The stored documents that are examined before the run is asked. A file that is imported again has many
/// copies of one text, and replaces those that are stored.
const EXAMINED: usize = 2_000;

/// What would become of a document.
#[derive(Clone, Debug)]
pub struct Foreseen {
    /// Its hash.
    pub hash: Hash,
    /// Whether the fingerprint is reliable; `None` if the client sent a hash or a signature.
    pub status: Option<Status>,
    /// Whether a document with its id is stored, or would be by then.
    pub is_known: bool,
    /// What it is among all others.
    pub fate: Fate,
}

/// What a document is among other stored documents and earlier ones of the run.
#[derive(Clone, Debug)]
pub enum Fate {
    /// No other is near it.
    New,
    /// This stored document is the nearest that it duplicates.
    NearStored(Box<Match>),
    /// It duplicates no stored document; of those of the run, the one at this place is the nearest.
    NearEarlier(u64, u32),
    /// It duplicates no other; this stored document contains most of it, at least as much as the rule says.
    InStored(Box<Match>),
    /// No stored document contains that much of it; of those of the run, the one at this place contains most,
    /// by an estimate.
    InEarlier(u64, f64),
}

impl Service {
    /// Says for each document what would become of it. An invalid document fails alone. With a run, earlier
    /// documents are those of its earlier requests, too. A near-duplicate by `rule` that would not be stored
    /// (`skips`) is not compared with those after it.
    ///
    /// # Errors
    /// For all documents: if the collection or the run does not exist, or the pool is full.
    pub async fn preview<E: From<ServiceError> + Send + 'static>(
        self: &Arc<Self>,
        name: &CollectionName,
        run: Option<Run>,
        (rule, skips): (DuplicateRule, bool),
        offered: impl Iterator<Item = Result<Offered, E>> + Send + 'static,
    ) -> Result<Vec<Result<Foreseen, E>>, ServiceError> {
        let collection = self.engine()?.find(name)?;
        let prepared = self.prepare(name, Patience::Bulk, offered).await?;
        let (service, of, wanted) = (Arc::clone(self), name.clone(), run.clone());
        let look = move |cancel: &Cancel| {
            // A request that never had its turn leaves the run as it is.
            let settings = collection.settings();
            let mut seen = match &wanted {
                Some(run) => service.runs.take(&of, &settings, run)?,
                None => Seen::new(&settings),
            };
            let mut turns = Turns::new(Patience::Bulk);
            let mut all = Vec::with_capacity(prepared.len());
            for prepared in prepared {
                turns.pause();
                cancel.check()?;
                all.push(match prepared {
                    Ok(prepared) => {
                        let (mut document, is_named, is_little) = prepared.into_parts();
                        document.row.thumbnail = None;
                        if rule.containment.is_none() {
                            (document.row.text, document.row.grams) = (None, Vec::new());
                            document.row.metadata = None;
                        }
                        let id = &document.id;
                        let is_known = seen.ids.contains(id)
                            || service.engine()?.count(&collection, std::slice::from_ref(id))? > 0;
                        let fate = service.fate(&collection, &document, (rule, is_little), &seen, cancel)?;
                        let row = document.row;
                        if !skips || matches!(fate, Fate::New) {
                            seen.put(is_named.then_some(&document.id), (!is_little).then_some(&row))?;
                        }
                        Ok(Foreseen { hash: row.hash, status: status(&row), is_known, fate })
                    }
                    Err(error) => Err(error),
                });
                seen.next += 1;
            }
            Ok::<_, ServiceError>((all, seen))
        };
        let (all, seen) = self.pool.run(Patience::Bulk, look).await??;
        if let Some(run) = run {
            self.runs.hold(name.clone(), run.name, seen);
        }
        Ok(all)
    }

    fn fate(
        &self,
        collection: &Arc<Collection>,
        document: &Document,
        (rule, is_little): (DuplicateRule, bool),
        seen: &Seen,
        cancel: &Cancel,
    ) -> Result<Fate, ServiceError> {
        let Document { id, row } = document;
        if is_little {
            return Ok(Fate::New);
        }
        let stored = |documents: usize| {
            let mut budget = WorkBudget::of_documents(documents, cancel);
            self.nearest_stored(collection, id, row, rule, seen, (&mut budget, cancel))
        };
        let few = stored(EXAMINED)?;
        if let Some(Some(near)) = few {
            return Ok(Fate::NearStored(Box::new(near)));
        }
        if let Some((distance, place)) = seen.nearest(id, row, rule) {
            return Ok(Fate::NearEarlier(place, distance));
        }
        if few.is_none()
            && let Some(near) = stored(usize::MAX)?.flatten()
        {
            return Ok(Fate::NearStored(Box::new(near)));
        }
        let Some(least) = rule.containment else { return Ok(Fate::New) };
        let mut others = Filter { exclude: Arc::clone(&seen.ids), ..Filter::default() };
        others.exclude(id.clone());
        let stored = containing(self.engine()?, collection, document.clone(), least, others, cancel)?;
        if let Some(stored) = stored {
            return Ok(Fate::InStored(Box::new(stored)));
        }
        let earlier = seen.containing(id, row, least);
        Ok(earlier.map_or(Fate::New, |(share, place)| Fate::InEarlier(place, share)))
    }

    /// The nearest stored document of which it is a duplicate, if there is one; `None` if that takes more
    /// than the budget.
    #[allow(clippy::option_option, reason = "it is not known, or there is none")]
    fn nearest_stored(
        &self,
        collection: &Arc<Collection>,
        id: &DocumentId,
        row: &Row,
        rule: DuplicateRule,
        seen: &Seen,
        (budget, cancel): (&mut WorkBudget<'_>, &Cancel),
    ) -> Result<Option<Option<Match>>, ServiceError> {
        let is_signed = collection.settings().signatures.is_some();
        let most = if rule.check.is_some() { COMPARED } else { 1 };
        let query = Query {
            hash: row.hash,
            signature: row.sketch.as_deref().filter(|_| is_signed).map(Arc::from),
            k: rule.reach(row),
            // The stored version of the document may be among them.
            limit: most + 1,
            after: None,
            filter: Some(Box::new(Filter { exclude: Arc::clone(&seen.ids), ..Filter::default() })),
            scan: false,
            document: None,
        };
        collection.check(&query)?;
        let mut found = Vec::new();
        if self.engine()?.answer(collection, &[query], budget, &mut |answer| found = answer.matches)? == 0 {
            return Ok(None);
        }
        found.retain(|near| near.id != *id);
        found.truncate(most);
        if rule.check.is_some() {
            let row = row.clone();
            let judge: Judge = Box::new(move |near, other, _| {
                let similarity = rule.similarity(&row, near.distance, other.sketch.as_deref());
                near.similarity = similarity.flatten();
                Ok(similarity.is_some())
            });
            self.engine()?.judge(collection, &mut found, judge, cancel)?;
        }
        Ok(Some(found.into_iter().next()))
    }
}
