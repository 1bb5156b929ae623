//! Reindex: a job that makes the fingerprints of all documents of a collection again, from their kept texts.
//!
//! It goes through the documents in the order of their ids, then through those that changed meanwhile, until
//! few are left. Then the collection accepts no writes until these few are done and the new fingerprints take
//! the place of the old ones. One job runs at a time, on threads of low priority. Its state is kept in memory
//! until the next one of the collection or the end of the process.
//!
//! *Absent*: the hidden collection and its exchange with the old one (`engine`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dashmap::DashMap;

use super::collections::{WantedCollection, change};
use super::error::Named;
use super::fingerprints::{profile_named, reserve_for_text, sign, takes_texts};
use super::{Service, ServiceError};
use crate::call::{self, Call, NoMemory};
use crate::engine::{CollectionInfo, CollectionSettings, Document, EngineError, Followed, Reindex};
use crate::fingerprint::{Profile, Status};
use crate::ids::{CollectionName, DocumentId};
use crate::pool::{Cancel, Patience, PoolError, Turns};

/// Number of changed documents that may be left when the collection stops to accept writes.
const FEW: usize = 200;
/// Number of passes over changed documents after which it stops to accept writes however many are left. Each
/// pass is shorter than the one before it, unless documents are written faster than they are reindexed.
const PASSES: usize = 20;
/// Pause before work is tried again for which there was no memory.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of attempts for which there may be no memory.
const ATTEMPTS: usize = 600;
/// Maximum number of jobs that are remembered. The oldest are removed first.
const MAX_JOBS: usize = 256;

/// A request for a reindex. Settings that it does not name are those of the collection.
#[derive(Clone, Debug, Default)]
pub struct WantedReindex {
    /// The profile of the new fingerprints.
    pub profile: Option<String>,
    /// The distance that queries use by default.
    pub k: Option<u32>,
    /// The same as a similarity of signatures, from 0 to 1.
    pub threshold: Option<f64>,
    /// The size in bytes of the sketch that documents keep; 0 for no sketch.
    pub sketch_bytes: Option<u16>,
    /// Whether documents keep the grams by which passages are found.
    pub passages: Option<bool>,
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
}

type Outcome = Result<Arc<CollectionInfo>, Arc<ServiceError>>;

/// The reindexes of a process.
#[derive(Default)]
pub(super) struct Reindexes(DashMap<CollectionName, Arc<Job>>);

/// A running or finished reindex.
struct Job {
    /// When the collection was created. It distinguishes the collection from a later one of the same name.
    collection_created_ms: u64,
    profile: String,
    started_ms: u64,
    read: AtomicU64,
    to_read: u64,
    is_cancelled: AtomicBool,
    end: OnceLock<(u64, Outcome)>,
}

impl Job {
    fn check(&self) -> Result<(), ServiceError> {
        if self.is_cancelled.load(Ordering::Relaxed) { Err(ServiceError::Forgotten) } else { Ok(()) }
    }

    fn status(&self) -> Reindexed {
        let end = self.end.get();
        Reindexed {
            profile: self.profile.clone(),
            started_ms: self.started_ms,
            ended_ms: end.map(|end| end.0),
            read: (self.read.load(Ordering::Relaxed), self.to_read),
            outcome: end.map(|end| end.1.clone()),
        }
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
    /// [`ServiceError::Reindexing`] if one of this collection is running, [`EngineError::Busy`] if another
    /// one is, [`ServiceError::KeepsNoTexts`], the errors of the settings, and
    /// [`EngineError::NotInCluster`].
    pub async fn reindex(
        self: &Arc<Self>,
        collection: &CollectionName,
        wanted: WantedReindex,
    ) -> Result<Reindexed, ServiceError> {
        let engine = self.engine()?;
        let info = engine.collection(collection)?;
        if self.reindex_of(collection).is_ok_and(|job| job.end.get().is_none()) {
            return Err(ServiceError::Reindexing(collection.clone()));
        }
        let present = profile_named(self.profiles(), &info.settings.profile)?;
        let WantedReindex { profile, k, threshold, sketch_bytes, passages } = wanted;
        let wanted = WantedCollection { profile, k, threshold, sketch_bytes, passages, ..Default::default() };
        let change = change(self.profiles(), present, wanted)?;
        let id = &change.profile.as_ref().unwrap_or(&change.default_profile).id;
        let profile = profile_named(self.profiles(), id)?;
        takes_texts(profile, "profile")?;
        if !info.settings.keep_text {
            return Err(ServiceError::KeepsNoTexts(collection.clone()));
        }
        let filling = engine.begin_reindex(collection, change).await?;
        let job = Arc::new(Job {
            collection_created_ms: info.created_ms,
            profile: profile.id().to_string(),
            started_ms: self.now_ms(),
            read: AtomicU64::new(0),
            to_read: info.documents,
            is_cancelled: AtomicBool::new(false),
            end: OnceLock::new(),
        });
        self.reindexes.remember(collection, &job);
        tracing::info!(%collection, profile = job.profile, documents = info.documents, "a reindex has begun");
        let running = Arc::clone(self).run_reindex(collection.clone(), Arc::clone(&job), filling, profile);
        tokio::spawn(call::for_call(Call::current(), running));
        Ok(job.status())
    }

    /// The state of a collection's reindex.
    ///
    /// # Errors
    /// [`ServiceError::NoReindex`] if there is none since the process started.
    pub fn reindexed(&self, collection: &CollectionName) -> Result<Reindexed, ServiceError> {
        Ok(self.reindex_of(collection)?.status())
    }

    /// Cancels the reindex of a collection if it is running, and forgets it.
    ///
    /// # Errors
    /// [`ServiceError::NoReindex`] if there is none since the process started.
    pub fn forget_reindex(&self, collection: &CollectionName) -> Result<(), ServiceError> {
        self.reindex_of(collection)?;
        self.reindexes.forget(collection);
        Ok(())
    }

    fn reindex_of(&self, collection: &CollectionName) -> Result<Arc<Job>, ServiceError> {
        let info = self.engine()?.collection(collection)?;
        let job = self.reindexes.0.get(collection).map(|job| Arc::clone(&job));
        let job = job.filter(|job| job.collection_created_ms == info.created_ms);
        job.ok_or_else(|| ServiceError::NoReindex(collection.clone()))
    }

    async fn run_reindex(
        self: Arc<Self>,
        name: CollectionName,
        job: Arc<Job>,
        filling: Reindex,
        profile: &'static Profile,
    ) {
        let outcome = self.reindex_all(&job, filling, profile).await;
        match &outcome {
            Ok(info) => tracing::info!(collection = %name, documents = info.documents, "a reindex has ended"),
            Err(error) => {
                tracing::warn!(collection = %name, %error, "a reindex has ended without effect");
            }
        }
        let _ = job.end.set((self.now_ms(), outcome.map(Arc::new).map_err(Arc::new)));
    }

    async fn reindex_all(
        &self,
        job: &Job,
        filling: Reindex,
        profile: &'static Profile,
    ) -> Result<CollectionInfo, ServiceError> {
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
        let last = filling.changes(true).await?;
        self.follow(job, &filling, profile, last).await?;
        job.check()?;
        let info = filling.finish().await?;
        // It recommends a k for the profile that the collection had.
        self.calibrations.forget(&info.name);
        Ok(info)
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
            let page = self.patiently(job, || filling.page(after.clone())).await?;
            after = page.next;
            let count = page.documents.len() as u64;
            let signed = self.signed(job, filling, profile, page.documents, &mut unfit).await?;
            // If some documents do not fit, the others are only read, to name all that do not.
            let mut changes = filling.changes(false).await?;
            if unfit.is_empty() {
                self.patiently(job, || filling.fill(signed.clone())).await?;
                let is_passed = |id: &DocumentId| after.as_ref().is_none_or(|after| id <= after);
                changes.documents.retain(is_passed);
                self.follow(job, filling, profile, changes).await?;
            }
            job.read.fetch_add(count, Ordering::Relaxed);
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
        let Followed { documents, marks, .. } = changes;
        let mut ids: Vec<DocumentId> = documents.into_iter().collect();
        let mut unfit = Unfit::default();
        while !ids.is_empty() {
            job.check()?;
            let from = ids.len().saturating_sub(FEW);
            let present = self.patiently(job, || filling.present(ids[from..].to_vec())).await?;
            let count = present.len();
            let gone: Vec<DocumentId> =
                present.iter().filter(|(_, document)| document.is_none()).map(|(id, _)| id.clone()).collect();
            let stored = present.into_iter().filter_map(|(_, document)| document).collect();
            let signed = self.signed(job, filling, profile, stored, &mut unfit).await?;
            let stored = signed.into_iter().map(|document| (document.id.clone(), Some(document)));
            let changed: Vec<_> = stored.chain(gone.into_iter().map(|id| (id, None))).collect();
            self.patiently(job, || filling.follow(changed.clone())).await?;
            // They are the first of those that were asked for.
            ids.drain(from..from + count);
        }
        unfit.check()?;
        if !marks.is_empty() {
            self.patiently(job, || filling.follow_marks(marks.clone())).await?;
        }
        Ok(())
    }

    /// Makes the fingerprints of documents again. Those that cannot be made are added to `unfit`.
    async fn signed(
        &self,
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
        let (signed, found) = self.patiently(job, sign).await?;
        found.iter().for_each(|(id, has_text)| {
            let listed = if *has_text { &mut unfit.without_features } else { &mut unfit.without_text };
            listed.add(id);
        });
        Ok(signed)
    }

    /// Does a part of the work, again and again while there is no memory for it.
    async fn patiently<T, F>(&self, job: &Job, work: impl Fn() -> F) -> Result<T, ServiceError>
    where
        F: Future<Output = Result<T, EngineError>>,
    {
        for _ in 0..ATTEMPTS {
            match work().await {
                Err(
                    error @ (EngineError::MemoryFull { .. }
                    | EngineError::NoMemory(NoMemory::Taken { .. })
                    | EngineError::Pool(PoolError::Busy)),
                ) => {
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

impl Reindexes {
    /// Cancels the reindex of a collection if it is running, and forgets it.
    pub(super) fn forget(&self, collection: &CollectionName) {
        if let Some((_, job)) = self.0.remove(collection) {
            job.is_cancelled.store(true, Ordering::Relaxed);
        }
    }

    fn remember(&self, collection: &CollectionName, job: &Arc<Job>) {
        self.0.insert(collection.clone(), Arc::clone(job));
        while self.0.len() > MAX_JOBS {
            let oldest = self.0.iter().min_by_key(|job| job.started_ms).map(|job| job.key().clone());
            let Some(oldest) = oldest else { return };
            self.0.remove(&oldest);
        }
    }
}
