//! Answers over all partitions of a cluster: from this server's own index and store, and from one other
//! holder of each partition that it does not hold.
//!
//! *Guarantees*
//! - A page of the union has what a server with all documents returns: the same matches in the order of
//!   distance, then id, the same limit, and a position from which the next page continues.
//! - What this server has applied, the others have applied too when they answer.
//! - A partition without an answer is an error, never a shorter answer.
//!
//! *Absent*: the choice of the other servers (`cluster`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::lookup::{WorkBudget, answer_on};
use super::page::PAGE_BYTES;
use super::partitions::{Elsewhere, PartAnswer, PartAsk, PartFound, Partitions};
use super::registry::Collection;
use super::shared::Shared;
use super::{Answer, CollectionInfo, Document, Engine, EngineError, Listing, Page, Position, Query, Work};
use crate::ids::DocumentId;
use crate::pool::{Cancel, CpuPool, Patience};

/// How long this server may take to apply what it has heard of from others.
const WITHIN: Duration = Duration::from_secs(5);
/// How long a caller who can wait does not ask again after the answer that others have too much to do.
const PAUSE: Duration = Duration::from_millis(100);

/// What a server of a cluster with partitions needs to answer for all of them.
#[derive(Clone)]
pub(super) struct Everywhere {
    pub(super) shared: Arc<Shared>,
    pub(super) pool: CpuPool,
    pub(super) partitions: Arc<Partitions>,
    /// The partitions that this server does not hold.
    pub(super) missing: Arc<BTreeSet<u32>>,
    pub(super) elsewhere: Arc<dyn Elsewhere>,
}

/// Answers queries from this server's own documents, on the CPU pool.
pub(super) async fn search(
    shared: &Arc<Shared>,
    pool: &CpuPool,
    patience: Patience,
    collection: &Arc<Collection>,
    queries: &Arc<[Query]>,
) -> Result<Vec<Answer>, EngineError> {
    let (shared, collection, queries) = (Arc::clone(shared), Arc::clone(collection), Arc::clone(queries));
    let work = move |cancel: &Cancel| {
        let mut answers = Vec::with_capacity(queries.len());
        let mut budget = WorkBudget::unlimited(cancel);
        answer_on(&shared, &collection, &queries, &mut budget, &mut |answer| answers.push(answer))?;
        Ok(answers)
    };
    pool.run(patience, work).await?
}

impl Everywhere {
    /// Answers queries from the documents of all partitions. The answers have the effect of all entries of
    /// the log up to the returned position, which is at least `at_least`.
    pub(super) async fn near(
        &self,
        patience: Patience,
        collection: &Arc<Collection>,
        queries: &Arc<[Query]>,
        at_least: u64,
    ) -> Result<(Vec<Answer>, u64), EngineError> {
        if queries.is_empty() {
            return Ok((Vec::new(), at_least));
        }
        let own = self.reach(at_least).await?;
        let local = search(&self.shared, &self.pool, patience, collection, queries);
        let ask = || PartAsk::Near(collection.name.clone(), Arc::clone(queries));
        let (local, others) = tokio::try_join!(local, self.others(patience, ask, own))?;
        let (mut parts, mut position) = (vec![local], own);
        for PartAnswer { applied, found, .. } in others {
            let PartFound::Near(answers) = found else { return Err(unexpected()) };
            if answers.len() != queries.len() {
                return Err(unexpected());
            }
            position = position.min(applied);
            parts.push(answers);
        }
        let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
        let merged = queries.iter().map(|query| {
            let answers: Vec<Answer> = parts.iter_mut().filter_map(Iterator::next).collect();
            merge(answers, query.limit)
        });
        Ok((merged.collect(), position))
    }

    /// A page of documents of all partitions.
    async fn list(
        &self,
        local: impl Future<Output = Result<Page, EngineError>>,
        collection: &Collection,
        wanted: &Listing,
    ) -> Result<Page, EngineError> {
        let ask = || PartAsk::List(collection.name.clone(), wanted.clone());
        let (own, _) = *self.shared.position.borrow();
        let (local, others) = tokio::try_join!(local, self.others(Patience::Bulk, ask, own))?;
        let mut pages = vec![local];
        for answer in others {
            let PartFound::Page(page) = answer.found else { return Err(unexpected()) };
            pages.push(page);
        }
        Ok(merge_pages(pages, wanted.limit))
    }

    /// A document, from this server or another one.
    pub(super) async fn get(
        &self,
        collection: &Collection,
        id: &DocumentId,
    ) -> Result<Option<Document>, EngineError> {
        if self.partitions.hold(id) {
            return self.shared.document(collection, id);
        }
        let (own, _) = *self.shared.position.borrow();
        let (ask, of) = (PartAsk::Get(collection.name.clone(), id.clone()), self.partitions.of(id));
        let answer = self.elsewhere.ask(ask, BTreeSet::from([of]), own).await?.pop();
        match answer.map(|answer| answer.found) {
            Some(PartFound::Document(document)) => Ok(document),
            _ => Err(unexpected()),
        }
    }

    /// Waits until this server has applied the log up to a position. Returns up to where it has.
    async fn reach(&self, position: u64) -> Result<u64, EngineError> {
        let mut applied = self.shared.position.subscribe();
        let _ = tokio::time::timeout(WITHIN, applied.wait_for(|(applied, _)| *applied >= position)).await;
        let (applied, _) = *self.shared.position.borrow();
        if applied >= position { Ok(applied) } else { Err(EngineError::Behind { position, applied }) }
    }

    /// The answers of other servers about the partitions that this one does not hold.
    async fn others(
        &self,
        patience: Patience,
        ask: impl Fn() -> PartAsk,
        at_least: u64,
    ) -> Result<Vec<PartAnswer>, EngineError> {
        if self.missing.is_empty() {
            return Ok(Vec::new());
        }
        loop {
            match self.elsewhere.ask(ask(), (*self.missing).clone(), at_least).await {
                Err(EngineError::PartitionBusy { .. }) if patience == Patience::Bulk => {
                    tokio::time::sleep(PAUSE).await;
                }
                answers => return answers,
            }
        }
    }
}

/// The error for an answer to another question.
pub(super) fn unexpected() -> EngineError {
    EngineError::Unknown("another server of the cluster gave an answer to another question".to_owned())
}

/// The union of answers about different documents. An answer with a next page has all matches up to its last
/// one, so the union is complete up to the first of these.
fn merge(answers: Vec<Answer>, limit: usize) -> Answer {
    if answers.len() == 1 {
        return answers.into_iter().next().unwrap_or_default();
    }
    let after = |one: &Position, other: &Position| (one.distance, &one.id) > (other.distance, &other.id);
    let (mut matches, mut end, mut marked, mut work) = (Vec::new(), None::<Position>, 0, Work::default());
    for answer in answers {
        matches.extend(answer.matches);
        end = match (end, answer.next) {
            (Some(end), Some(next)) => Some(if after(&end, &next) { next } else { end }),
            (end, next) => end.or(next),
        };
        marked += answer.marked;
        add(&mut work, &answer.work);
    }
    matches.sort_unstable_by(|a, b| (a.distance, &a.id).cmp(&(b.distance, &b.id)));
    let mut has_more = end.is_some();
    if let Some(end) = end {
        matches.retain(|near| (near.distance, &near.id) <= (end.distance, &end.id));
    }
    // As a page of one server: the match that reaches the size is included.
    let mut bytes = 0;
    let within = matches.iter().take_while(|near| {
        let fits = bytes < PAGE_BYTES;
        bytes += near.metadata.as_ref().map_or(0, String::len);
        fits
    });
    let most = within.count().min(limit);
    has_more |= matches.len() > most;
    matches.truncate(most);
    let last = matches.last().filter(|_| has_more);
    let next = last.map(|last| Position { distance: last.distance, id: last.id.clone() });
    Answer { matches, next, marked, work }
}

fn add(sum: &mut Work, more: &Work) {
    sum.scanned |= more.scanned;
    sum.plan = sum.plan.or(more.plan);
    sum.probes += more.probes;
    sum.candidates += more.candidates;
    sum.verified += more.verified;
    sum.elapsed = sum.elapsed.max(more.elapsed);
}

/// The union of pages of different documents, complete up to the first end of one.
fn merge_pages(pages: Vec<Page>, limit: usize) -> Page {
    let mut next = pages.iter().filter_map(|page| page.next.clone()).min();
    let examined = pages.iter().map(|page| page.examined).sum();
    let mut documents: Vec<Document> = pages.into_iter().flat_map(|page| page.documents).collect();
    if let Some(end) = &next {
        documents.retain(|document| document.id <= *end);
    }
    documents.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    if documents.len() > limit {
        documents.truncate(limit);
        next = documents.last().map(|last| last.id.clone());
    }
    Page { documents, examined, next }
}

impl Engine {
    /// Answers queries from the documents of all partitions. They must have passed [`Collection::check`].
    ///
    /// # Errors
    /// As [`Engine::answer`], [`EngineError::PartitionUnavailable`], and, if the caller does not wait,
    /// [`EngineError::PartitionBusy`].
    pub async fn answer_everywhere(
        &self,
        patience: Patience,
        collection: &Arc<Collection>,
        queries: &Arc<[Query]>,
    ) -> Result<Vec<Answer>, EngineError> {
        match &self.everywhere {
            Some(everywhere) => Ok(everywhere.near(patience, collection, queries, 0).await?.0),
            None => search(&self.shared, &self.pool, patience, collection, queries).await,
        }
    }

    /// A page of documents of all partitions; `local` is that of this server.
    pub(super) async fn list_everywhere(
        &self,
        local: impl Future<Output = Result<Page, EngineError>>,
        collection: &Collection,
        wanted: &Listing,
    ) -> Result<Page, EngineError> {
        match self.everywhere.as_ref().filter(|_| self.is_part()) {
            Some(everywhere) => everywhere.list(local, collection, wanted).await,
            None => local.await,
        }
    }

    /// Asks a holder for a document that this server does not hold; `None` if this server holds it.
    ///
    /// # Errors
    /// [`EngineError::PartitionUnavailable`].
    pub async fn get_elsewhere(
        &self,
        collection: &Collection,
        id: &DocumentId,
    ) -> Result<Option<Option<Document>>, EngineError> {
        match self.everywhere.as_ref().filter(|everywhere| !everywhere.partitions.hold(id)) {
            Some(everywhere) => everywhere.get(collection, id).await.map(Some),
            None => Ok(None),
        }
    }

    /// Adds the documents of other servers to the counts of collections. A hash that several servers have is
    /// counted for each.
    ///
    /// # Errors
    /// [`EngineError::PartitionUnavailable`].
    pub async fn count_everywhere(&self, infos: &mut [CollectionInfo]) -> Result<(), EngineError> {
        let Some(everywhere) = self.everywhere.as_ref().filter(|_| self.is_part()) else { return Ok(()) };
        let (own, _) = *self.shared.position.borrow();
        let names: Vec<_> = infos.iter().map(|info| info.name.clone()).collect();
        let ask = || PartAsk::Count(names.clone());
        for answer in everywhere.others(Patience::Bulk, ask, own).await? {
            let PartFound::Counts(counts) = answer.found else { return Err(unexpected()) };
            for (name, documents, hashes) in counts {
                if let Some(info) = infos.iter_mut().find(|info| info.name == name) {
                    info.documents += documents;
                    info.distinct_hashes += hashes;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::Match;
    use crate::ids::Hash;

    /// A document at this distance. Its metadata fill a part of a page.
    fn near((distance, number, large): (u32, u16, bool)) -> Match {
        Match {
            id: DocumentId::new(&format!("d{number:05}")).unwrap(),
            hash: Hash::from_u64(0),
            distance,
            similarity: None,
            shared: None,
            expires_ms: None,
            metadata: large.then(|| "x".repeat(PAGE_BYTES / 3)),
            cluster: None,
        }
    }

    /// A page of these documents as one server makes it.
    fn page(all: &[Match], after: Option<&Position>, limit: usize) -> Answer {
        let follows =
            |near: &&Match| after.is_none_or(|after| (near.distance, &near.id) > (after.distance, &after.id));
        let mut rest = all.iter().filter(follows);
        let (mut matches, mut bytes) = (Vec::new(), 0);
        while matches.len() < limit && bytes < PAGE_BYTES {
            let Some(next) = rest.next() else { break };
            bytes += next.metadata.as_ref().map_or(0, String::len);
            matches.push(next.clone());
        }
        let last = matches.last().filter(|_| rest.next().is_some() || bytes >= PAGE_BYTES);
        let next = last.map(|last| Position { distance: last.distance, id: last.id.clone() });
        Answer { matches, next, ..Answer::default() }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn pages_of_the_union_are_those_of_one_server(
            documents in prop::collection::btree_map(0_u16..500, (0_u32..4, 0_u8..8), 0..60),
            limit in 1_usize..20,
        ) {
            let mut all: Vec<Match> =
                documents.iter().map(|(n, (distance, large))| near((*distance, *n, *large == 0))).collect();
            all.sort_by(|a, b| (a.distance, &a.id).cmp(&(b.distance, &b.id)));
            let part = |of: u16| -> Vec<Match> {
                let is_of = |near: &&Match| near.id.as_str()[1..].parse::<u16>().unwrap() % 3 == of;
                all.iter().filter(is_of).cloned().collect()
            };
            let parts = [part(0), part(1), part(2)];
            let (mut after, mut found) = (None, Vec::new());
            loop {
                let answers = parts.iter().map(|part| page(part, after.as_ref(), limit)).collect();
                let merged = merge(answers, limit);
                let expected = page(&all, after.as_ref(), limit);
                // As long as no part ends early, it is the same page.
                prop_assert!(merged.matches.len() <= expected.matches.len());
                prop_assert_eq!(&merged.matches[..], &expected.matches[..merged.matches.len()]);
                found.extend(merged.matches);
                match merged.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            prop_assert_eq!(found, all);
        }
    }
}
