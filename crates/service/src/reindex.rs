//! Reindex: a job that makes the fingerprints of all documents of a collection again, from their kept texts.
//!
//! It goes through the documents in the order of their ids, then through those that changed meanwhile, until
//! few are left. Then the collection accepts no writes until these few are done and the new fingerprints take
//! the place of the old ones. One job runs at a time, on threads of low priority. Its state is kept in memory
//! until the next one of the collection or the end of the process.
//!
//! *Absent*: the hidden collection and its exchange with the old one (`engine`), and weights (`learning`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::collections::{WantedCollection, change};
use super::error::Named;
use super::fingerprints::{profile_named, reserve_for_text, sign, takes_texts};
use super::jobs::{self, Jobs};
use super::learning::{WantedWeights, check_weights};
use super::{Service, ServiceError};
use lookalike_engine::{
    CollectionInfo, CollectionSettings, Document, EngineError, Followed, Reindex, SettingsChange,
};
use lookalike_hash::{CollectionName, DocumentId, Passages};
use lookalike_run::call::{self, Call, NoMemory};
use lookalike_run::pool::{Cancel, Patience, PoolError, Turns};
use lookalike_text::fingerprint::{Profile, Status};

/// Number of changed documents that may be left when the collection stops to accept writes.
const FEW: usize = 200;
/// Number of passes over changed documents after which it stops to accept writes however many are left. Each
/// pass is shorter than the one before it, unless documents are written faster than they are reindexed.
const PASSES: usize = 20;
/// Pause before work is tried again for which there was no memory.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of attempts for which there may be no memory.
pub(super) const ATTEMPTS: usize = 600;

/// A request for a reindex. Settings that it does not name are those of the collection.
#[derive(Clone, Debug, Default)]
pub struct WantedReindex {
    /// The profile of the new fingerprints.
    pub profile: Option<String>,
    /// The distance that queries use by default.
    pub k: Option<u32>,
    /// The distance as a similarity of signatures, from 0 to 1.
    pub threshold: Option<f64>,
    /// The size in bytes of the sketch that documents keep; 0 for no sketch.
    pub sketch_bytes: Option<u16>,
    /// The weights of features.
    pub weights: Option<WantedWeights>,
    /// Which grams documents keep, by which passages are found.
    pub passages: Option<Passages>,
}

/// The state of a reindex.
#[derive(Clone, Debug)]
pub struct Reindexed {
    /// The profile of the new fingerprints, `name@version`.
    pub profile: String,
    /// When it was requested, in milliseconds since 1970-01-01 UTC.
    pub started_ms: u64,
    /// When it ended, in milliseconds since 1970-01-01 UTC.
    pub ended_ms: Option<u64>,
    /// The number of documents read, and the number that the collection had at the beginning.
    pub read: (u64, u64),
    /// The collection after it, or why nothing was changed; `None` while it runs.
    pub outcome: Option<Outcome>,
    /// Whether a request has ended it, without effect.
    pub is_cancelled: bool,
}

type Outcome = Result<Arc<CollectionInfo>, Arc<ServiceError>>;

/// The reindexes of a process.
pub(super) type Reindexes = Jobs<Reading, Outcome>;

pub(super) type Job = jobs::Job<Reading, Outcome>;

/// How far a reindex is.
pub(super) struct Reading {
    profile: String,
    read: AtomicU64,
    to_read: u64,
}

fn status(job: &Job) -> Reindexed {
    let (end, reading) = (job.end(), &job.progress);
    Reindexed {
        profile: reading.profile.clone(),
        started_ms: job.started_ms,
        ended_ms: end.map(|end| end.0),
        read: (reading.read.load(Ordering::Relaxed), reading.to_read),
        outcome: end.map(|end| end.1.clone()),
        is_cancelled: job.is_cancelled(),
    }
}

/// Documents of which no fingerprint can be made.
#[derive(Default)]
struct Unfit {
    without_text: Named,
    without_features: Named,
}

impl Unfit {
    fn is_empty(&self) -> bool {
        self.without_text.is_empty() && self.without_features.is_empty()
    }

    fn check(self) -> Result<(), ServiceError> {
        if self.is_empty() {
            return Ok(());
        }
        let Unfit { without_text, without_features } = self;
        Err(ServiceError::Unfit { without_text, without_features })
    }
}

impl Service {
    /// Begins to make the fingerprints of a collection again, and forgets an earlier job of it.
    ///
    /// # Errors
    /// [`ServiceError::Reindexing`] or [`EngineError::ReindexedBy`] if one of this collection is running,
    /// [`EngineError::Busy`] if another one is, [`ServiceError::KeepsNoTexts`], and the errors of the
    /// settings.
    pub async fn reindex(
        self: &Arc<Self>,
        collection: &CollectionName,
        wanted: WantedReindex,
    ) -> Result<Reindexed, ServiceError> {
        let engine = self.engine()?;
        let info = engine.collection(collection)?;
        if self.reindexes.of(&info).is_some_and(|job| job.is_running()) {
            return Err(ServiceError::Reindexing(collection.clone()));
        }
        let present = profile_named(self.profiles(), &info.settings.profile)?;
        let WantedReindex { profile, k, threshold, sketch_bytes, weights: wanted, passages } = wanted;
        let learns = wanted == Some(WantedWeights::Learned);
        let weights = self.named_weights(wanted).await?;
        let settings = SettingsChange { k, threshold, sketch_bytes, weights, passages, ..Default::default() };
        let wanted = WantedCollection { profile, keep_thumbnail: None, settings };
        let change = change(self.profiles(), present, &wanted)?;
        let id = &change.profile.as_ref().unwrap_or(&change.default_profile).id;
        let profile = profile_named(self.profiles(), id)?;
        takes_texts(profile, "profile")?;
        if !info.settings.keep_text {
            return Err(ServiceError::KeepsNoTexts(collection.clone()));
        }
        let filling = engine.begin_reindex(collection, change).await?;
        let taught = check_weights(profile, &filling.settings(), learns)?;
        let lesson = taught.map(|of| (of, info.documents));
        let profile_id = profile.id().to_string();
        let reading =
            Reading { profile: profile_id.clone(), read: AtomicU64::new(0), to_read: info.documents };
        let job = Job::of(&info, self.now_ms(), reading);
        // The permit of `filling` is that of one reindex at a time, so no other one of the collection runs.
        self.reindexes.remember(collection, &job);
        tracing::info!(%collection, profile = profile_id, documents = info.documents, "a reindex has begun");
        let running =
            Arc::clone(self).run_reindex(collection.clone(), Arc::clone(&job), filling, profile, lesson);
        tokio::spawn(call::for_call(Call::current(), running));
        Ok(status(&job))
    }

    /// The state of a collection's reindex.
    ///
    /// # Errors
    /// [`ServiceError::NoReindex`] if there is none since the process started.
    pub fn reindexed(&self, collection: &CollectionName) -> Result<Reindexed, ServiceError> {
        self.reindex_of(collection).map(|job| status(&job))
    }

    /// Ends the reindex of a collection if it is running, without effect, and forgets it. Returns its last
    /// state.
    ///
    /// # Errors
    /// [`ServiceError::NoReindex`] if there is none since the process started, and
    /// [`ServiceError::TakesEffect`] if it is too late to end it.
    pub fn forget_reindex(&self, collection: &CollectionName) -> Result<Reindexed, ServiceError> {
        let job = self.reindex_of(collection)?;
        if job.is_running() && !job.cancel() {
            return Err(ServiceError::TakesEffect(collection.clone()));
        }
        let last = status(&job);
        self.reindexes.forget(collection);
        Ok(last)
    }

    fn reindex_of(&self, collection: &CollectionName) -> Result<Arc<Job>, ServiceError> {
        let engine = self.engine()?;
        let info = engine.collection(collection)?;
        let own = self.reindexes.of(&info);
        // After a reindex of this server has ended, another server may run one.
        if !own.as_ref().is_some_and(|job| job.is_running())
            && let Some(server) = engine.reindexed_by(info.id)
        {
            return Err(ServiceError::ReindexElsewhere { collection: collection.clone(), server });
        }
        own.ok_or_else(|| ServiceError::NoReindex(collection.clone()))
    }

    async fn run_reindex(
        self: Arc<Self>,
        name: CollectionName,
        job: Arc<Job>,
        filling: Reindex,
        profile: &'static Profile,
        lesson: Option<(&'static Profile, u64)>,
    ) {
        let outcome = self.reindex_all(&job, filling, profile, lesson).await;
        match &outcome {
            Ok(info) => tracing::info!(collection = %name, documents = info.documents, "a reindex has ended"),
            Err(error) => {
                tracing::warn!(collection = %name, %error, "a reindex has ended without effect");
            }
        }
        job.finish(self.now_ms(), outcome.map(Arc::new).map_err(Arc::new));
    }

    async fn reindex_all(
        &self,
        job: &Job,
        mut filling: Reindex,
        profile: &'static Profile,
        lesson: Option<(&'static Profile, u64)>,
    ) -> Result<CollectionInfo, ServiceError> {
        if let Some((of, documents)) = lesson {
            let weights = self.learn(job, &filling, of, documents).await?;
            filling.weigh(weights)?;
        }
        self.reindex_pages(job, &filling, profile).await?;
        let mut after = None;
        loop {
            job.check()?;
            let more = filling.copy_marks(after).await?;
            let changes = filling.changes(false).await?;
            self.follow(job, &filling, profile, changes).await?;
            if more.is_none() {
                break;
            }
            after = more;
        }
        for _ in 0..PASSES {
            let changes = filling.changes(false).await?;
            let are_few = changes.documents.len() <= FEW && changes.marks.len() <= FEW;
            self.follow(job, &filling, profile, changes).await?;
            if are_few {
                break;
            }
        }
        self.follow_last(job, &filling, profile).await?;
        job.begin_effect()?;
        let info = filling.finish().await?;
        // It recommends a k for the profile that the collection had.
        self.calibrations.jobs.forget(&info.name);
        Ok(info)
    }

    /// Holds writes back and brings the new collection up to date. If there is no memory for that, writes are
    /// accepted again while it waits.
    async fn follow_last(
        &self,
        job: &Job,
        filling: &Reindex,
        profile: &'static Profile,
    ) -> Result<(), ServiceError> {
        for _ in 0..ATTEMPTS {
            let mut last = filling.changes(true).await?;
            match self.follow_within(1, job, filling, profile, last.clone()).await {
                Err(ServiceError::Engine(error)) if is_passing(&error) => {
                    tracing::debug!(%error, "a reindex accepts writes again and waits");
                    last.extend(filling.changes(false).await?);
                    tokio::time::sleep(PAUSE).await;
                    self.follow(job, filling, profile, last).await?;
                }
                done => return done,
            }
        }
        let last = filling.changes(true).await?;
        self.follow_within(1, job, filling, profile, last).await
    }

    /// Goes through all documents in the order of their ids. After each page it follows the changes of
    /// documents that it has passed; it will read the others.
    async fn reindex_pages(
        &self,
        job: &Job,
        filling: &Reindex,
        profile: &'static Profile,
    ) -> Result<(), ServiceError> {
        let (mut after, mut unfit) = (None, Unfit::default());
        loop {
            job.check()?;
            let page = self.patiently(ATTEMPTS, job, || filling.page(after.clone())).await?;
            after = page.next;
            let count = page.documents.len() as u64;
            let signed = self.signed(ATTEMPTS, job, filling, profile, page.documents, &mut unfit).await?;
            // If some documents do not fit, the others are only read, to name all that do not.
            let mut changes = filling.changes(false).await?;
            if unfit.is_empty() {
                self.patiently(ATTEMPTS, job, || filling.fill(signed.clone())).await?;
                let is_passed = |id: &DocumentId| after.as_ref().is_none_or(|after| id <= after);
                changes.documents.retain(is_passed);
                self.follow(job, filling, profile, changes).await?;
            }
            job.progress.read.fetch_add(count, Ordering::Relaxed);
            if after.is_none() {
                return unfit.check();
            }
        }
    }

    /// Brings changed documents and marks up to date in the new collection.
    async fn follow(
        &self,
        job: &Job,
        filling: &Reindex,
        profile: &'static Profile,
        changes: Followed,
    ) -> Result<(), ServiceError> {
        self.follow_within(ATTEMPTS, job, filling, profile, changes).await
    }

    /// [`Service::follow`] with this number of attempts for which there may be no memory.
    async fn follow_within(
        &self,
        attempts: usize,
        job: &Job,
        filling: &Reindex,
        profile: &'static Profile,
        changes: Followed,
    ) -> Result<(), ServiceError> {
        let Followed { documents, marks, .. } = changes;
        let mut ids: Vec<DocumentId> = documents.into_iter().collect();
        let mut unfit = Unfit::default();
        while !ids.is_empty() {
            job.check()?;
            let from = ids.len().saturating_sub(FEW);
            let present = self.patiently(attempts, job, || filling.present(ids[from..].to_vec())).await?;
            let count = present.len();
            let gone: Vec<DocumentId> =
                present.iter().filter(|(_, document)| document.is_none()).map(|(id, _)| id.clone()).collect();
            let stored = present.into_iter().filter_map(|(_, document)| document).collect();
            let signed = self.signed(attempts, job, filling, profile, stored, &mut unfit).await?;
            let stored = signed.into_iter().map(|document| (document.id.clone(), Some(document)));
            let changed: Vec<_> = stored.chain(gone.into_iter().map(|id| (id, None))).collect();
            self.patiently(attempts, job, || filling.follow(changed.clone())).await?;
            // The documents that were read are the first of these ids.
            ids.drain(from..from + count);
        }
        unfit.check()?;
        if !marks.is_empty() {
            self.patiently(attempts, job, || filling.follow_marks(marks.clone())).await?;
        }
        Ok(())
    }

    /// Makes the fingerprints of documents again. Those that cannot be made are added to `unfit`.
    async fn signed(
        &self,
        attempts: usize,
        job: &Job,
        filling: &Reindex,
        profile: &'static Profile,
        documents: Vec<Document>,
        unfit: &mut Unfit,
    ) -> Result<Vec<Document>, ServiceError> {
        let (settings, documents) = (filling.settings(), Arc::new(documents));
        let sign = || async {
            let (settings, documents) = (Arc::clone(&settings), Arc::clone(&documents));
            let work = move |cancel: &Cancel| resigned(&documents, profile, &settings, cancel);
            self.pool.run(Patience::Bulk, work).await?
        };
        let (signed, found) = self.patiently(attempts, job, sign).await?;
        found.iter().for_each(|(id, has_text)| {
            let listed = if *has_text { &mut unfit.without_features } else { &mut unfit.without_text };
            listed.add(id);
        });
        Ok(signed)
    }

    /// Does a part of the work, again while there is no memory for it, with this number of attempts.
    pub(super) async fn patiently<T, F>(
        &self,
        attempts: usize,
        job: &Job,
        work: impl Fn() -> F,
    ) -> Result<T, ServiceError>
    where
        F: Future<Output = Result<T, EngineError>>,
    {
        for _ in 1..attempts {
            match work().await {
                Err(error) if is_passing(&error) => {
                    tracing::debug!(%error, "a reindex waits");
                    job.check()?;
                    tokio::time::sleep(PAUSE).await;
                }
                done => return Ok(done?),
            }
        }
        Ok(work().await?)
    }
}

/// Whether the same work may succeed in a moment.
fn is_passing(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::MemoryFull { .. }
            | EngineError::NoMemory(NoMemory::Taken { .. })
            | EngineError::Pool(PoolError::Busy)
    )
}

/// Documents with new fingerprints.
type Signed = Vec<Document>;
/// Documents without a fingerprint, and whether each has a text.
type Unsigned = Vec<(DocumentId, bool)>;

fn resigned(
    documents: &[Document],
    profile: &'static Profile,
    settings: &CollectionSettings,
    cancel: &Cancel,
) -> Result<(Signed, Unsigned), EngineError> {
    let mut turns = Turns::new(Patience::Bulk);
    let (mut signed, mut unsigned) = (Vec::with_capacity(documents.len()), Vec::new());
    for document in documents {
        turns.pause();
        cancel.check()?;
        let mut document = document.clone();
        let Some(text) = document.row.text.take() else {
            unsigned.push((document.id, false));
            continue;
        };
        let _working = reserve_for_text(text.len(), profile.memory_per_byte())?;
        if sign(&mut document.row, &text, profile, settings, || cancel.check())? == Status::Empty {
            unsigned.push((document.id, true));
            continue;
        }
        document.row.text = Some(text);
        signed.push(document);
    }
    Ok((signed, unsigned))
}
