//! Calibration: a job that measures which profile and which k suit the texts of a collection.
//!
//! It measures the texts that a collection stores, or texts in the request. The pairs to be found are made
//! by defined edits of these texts, or are marked by the client. A job belongs to its collection. One job
//! runs at a time, on threads of low priority. Its result is kept in memory until the next calibration or
//! the end of the process. *Absent*: the measurement itself (`eval`), and changes: a calibration changes no
//! settings.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::calibrated::Calibrated;
use super::fingerprints::{profile_named, takes_texts};
use super::jobs::{self, Jobs};
use super::{Service, ServiceError};
use lookalike_engine::Weights;
use lookalike_eval::{Assumed, CANDIDATES, Candidate, EDITS, best};
use lookalike_hash::{CollectionId, CollectionName, DocumentId};
use lookalike_run::call::{self, Call};
use lookalike_run::pool::{Cancel, Patience};
use lookalike_text::fingerprint::Profile;

/// Maximum number of texts in a sample. All pairs of them and of their edited copies are compared.
pub const CALIBRATION_TEXTS: usize = 20_000;
/// Maximum number of documents for which k is chosen.
pub const CALIBRATION_DOCUMENTS: u64 = 1_000_000_000_000;
/// Maximum seed: the largest integer that every JSON reader keeps exactly, 2^53 - 1.
pub const CALIBRATION_SEED: u64 = 9_007_199_254_740_991;
/// Default share of the documents that are assumed to have a copy.
pub const DUPLICATE_SHARE: f64 = 0.1;
/// Default number of texts in a sample.
const DEFAULT_TEXTS: usize = 5_000;
/// Minimum number of texts: the result of fewer is not significant.
pub(super) const MIN_TEXTS: usize = 100;
/// Maximum number of marked pairs.
const PAIRS: usize = 10_000;
/// Maximum number of profiles in one calibration.
const PROFILES: usize = 8;
/// The profile whose features show which unmarked pairs are copies.
pub(super) const ALIKE_BY: &str = "shingles-64";

/// A request for a calibration.
#[derive(Clone, Debug, Default)]
pub struct WantedCalibration {
    /// Profiles, with or without version, among which to choose. If it is empty, they are [`CANDIDATES`], and
    /// the collection's profile is also measured.
    pub profiles: Vec<String>,
    /// Texts to measure; `None` for the stored ones.
    pub texts: Option<Vec<String>>,
    /// Stored documents that are copies of each other. If it is empty, edited copies are made.
    pub pairs: Vec<(DocumentId, DocumentId)>,
    /// The size of the sample, 100 to [`CALIBRATION_TEXTS`] texts; by default 5,000.
    pub sample: Option<usize>,
    /// The number of documents for which k is chosen, 1 to [`CALIBRATION_DOCUMENTS`]. By default that of the
    /// collection, but at least a million.
    pub documents: Option<u64>,
    /// The share of the documents that are assumed to have a copy, above 0 and at most 1; by default
    /// [`DUPLICATE_SHARE`].
    pub duplicate_share: Option<f64>,
    /// The seed of the sample, of the edits and of the intervals, at most [`CALIBRATION_SEED`].
    pub seed: u64,
}

/// The state of a calibration.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// When it was requested, in milliseconds since 1970-01-01 UTC.
    pub started_ms: u64,
    /// When it ended, in milliseconds since 1970-01-01 UTC.
    pub ended_ms: Option<u64>,
    /// The number of documents read, and the number to read.
    pub read: (u64, u64),
    /// The number of profiles measured, and the number to measure.
    pub measured: (usize, usize),
    /// The result or the error; `None` while it runs.
    pub outcome: Option<Outcome>,
}

/// The result of a calibration, or why there is none.
type Outcome = Result<Arc<Calibrated>, Arc<ServiceError>>;

/// The calibrations of a process.
#[derive(Default)]
pub(super) struct Calibrations {
    pub(super) jobs: Jobs<Measuring, Outcome>,
    running: Arc<Mutex<Running>>,
}

/// The running job, including one that was cancelled and has not stopped. Locked for one read or change.
type Running = Option<(CollectionName, Arc<Job>)>;

/// The permit of a job to run. It is released when it is dropped.
struct Turn(Arc<Mutex<Running>>, Arc<Job>);

impl Drop for Turn {
    fn drop(&mut self) {
        let mut running = self.0.lock();
        // The next job may have started after the result was set.
        if running.as_ref().is_some_and(|(_, job)| Arc::ptr_eq(job, &self.1)) {
            *running = None;
        }
    }
}

/// A calibration.
pub(super) type Job = jobs::Job<Measuring, Outcome>;

/// How far a calibration is.
pub(super) struct Measuring {
    /// The collection when the job began. After a reindex, also one by another replica, it has another
    /// number: the result is then about an earlier profile.
    collection: CollectionId,
    pub(super) read: AtomicU64,
    to_read: u64,
    measured: AtomicUsize,
    to_measure: usize,
}

fn status(job: &Job) -> Calibration {
    let (end, measuring) = (job.end(), &job.progress);
    Calibration {
        started_ms: job.started_ms,
        ended_ms: end.map(|end| end.0),
        read: (measuring.read.load(Ordering::Relaxed), measuring.to_read),
        measured: (measuring.measured.load(Ordering::Relaxed), measuring.to_measure),
        outcome: end.map(|end| end.1.clone()),
    }
}

/// The checked parameters of a job.
pub(super) struct Plan {
    pub(super) collection: CollectionName,
    present: (String, u32),
    /// The weights of the collection, for profiles whose features they are of.
    weights: Option<Weights>,
    /// The profiles to measure, and how many of them, from the first, to choose among.
    profiles: Vec<&'static Profile>,
    choosable: usize,
    pub(super) texts: Option<Vec<String>>,
    pub(super) pairs: Vec<(DocumentId, DocumentId)>,
    pub(super) sample: usize,
    assumed: Assumed,
    pub(super) seed: u64,
}

impl Service {
    /// Starts a calibration of a collection and discards the result of an earlier one.
    ///
    /// # Errors
    /// [`ServiceError::Calibrating`] if one of this collection is running,
    /// [`ServiceError::OtherCalibration`] if another one is running, and [`ServiceError::Invalid`] if there
    /// is nothing to measure.
    pub fn calibrate(
        self: &Arc<Self>,
        collection: &CollectionName,
        wanted: WantedCalibration,
    ) -> Result<Calibration, ServiceError> {
        let info = self.engine()?.collection(collection)?;
        let plan = self.plan(collection, wanted)?;
        let measuring = Measuring {
            collection: info.id,
            read: AtomicU64::new(0),
            to_read: plan.texts.as_ref().map_or(info.documents, |texts| texts.len() as u64),
            measured: AtomicUsize::new(0),
            to_measure: plan.profiles.len(),
        };
        let job = Job::of(&info, self.now_ms(), measuring);
        let turn = self.calibrations.turn(collection, &job)?;
        self.calibrations.jobs.remember(collection, &job);
        let running = Arc::clone(self).run_calibration(Arc::clone(&job), plan, turn);
        // The job is charged to the client and keeps the memory reserved for the request.
        tokio::spawn(call::for_call(Call::current(), running));
        Ok(status(&job))
    }

    /// The state of a collection's calibration.
    ///
    /// # Errors
    /// [`ServiceError::NoCalibration`] if there is none since the process started.
    pub fn calibration(&self, collection: &CollectionName) -> Result<Calibration, ServiceError> {
        let info = self.engine()?.collection(collection)?;
        let job = self.calibrations.jobs.of(&info).filter(|job| job.progress.collection == info.id);
        job.map(|job| status(&job)).ok_or_else(|| ServiceError::NoCalibration(collection.clone()))
    }

    /// Cancels the calibration of a collection if it is running, and discards its result.
    ///
    /// # Errors
    /// [`ServiceError::NoCalibration`] if there is none since the process started.
    pub fn forget_calibration(&self, collection: &CollectionName) -> Result<(), ServiceError> {
        self.calibration(collection)?;
        self.calibrations.jobs.forget(collection);
        Ok(())
    }

    /// Checks a request.
    fn plan(&self, collection: &CollectionName, wanted: WantedCalibration) -> Result<Plan, ServiceError> {
        let info = self.engine()?.collection(collection)?;
        let settings = &info.settings;
        if let Some(profile) = self.profiles().named(&settings.profile).filter(|own| !own.takes_texts()) {
            let detail = format!(
                "the documents of collection \"{collection}\" are hashes ({}), and a calibration compares \
                 texts: choose k by hashes that you know to be near or far",
                profile.id()
            );
            return Err(ServiceError::invalid("profiles", detail));
        }
        if let Some(texts) = &wanted.texts {
            check("texts", texts.len(), MIN_TEXTS, CALIBRATION_TEXTS)?;
            if !wanted.pairs.is_empty() {
                let detail = "pairs are pairs of stored documents; give pairs or texts, not both";
                return Err(ServiceError::invalid("pairs", detail));
            }
        } else if !settings.keep_text {
            let detail = format!(
                "the collection \"{collection}\" keeps no texts (keep_text is false): give {MIN_TEXTS} to \
                 {CALIBRATION_TEXTS} texts of the kind that it stores"
            );
            return Err(ServiceError::invalid("texts", detail));
        }
        check("pairs", wanted.pairs.len(), 0, PAIRS)?;
        if let Some(at) = wanted.pairs.iter().position(|(a, b)| a == b) {
            let detail =
                format!("pair {at} (counted from 0) names one document twice; a pair has two documents");
            return Err(ServiceError::invalid("pairs", detail));
        }
        if let Some(documents) = wanted.documents {
            check("documents", documents, 1, CALIBRATION_DOCUMENTS)?;
        }
        check("seed", wanted.seed, 0, CALIBRATION_SEED)?;
        check("profiles", wanted.profiles.len(), 0, PROFILES)?;
        let sample = wanted.sample.unwrap_or(DEFAULT_TEXTS);
        check("sample", sample, MIN_TEXTS, CALIBRATION_TEXTS)?;
        let duplicate_share = wanted.duplicate_share.unwrap_or(DUPLICATE_SHARE);
        if !(duplicate_share > 0.0 && duplicate_share <= 1.0) {
            let detail = format!("duplicate_share is {duplicate_share}; it is above 0 and at most 1");
            return Err(ServiceError::invalid("duplicate_share", detail));
        }
        let own = CANDIDATES.map(str::to_owned).to_vec();
        let is_free = wanted.profiles.is_empty();
        let names = if is_free { own } else { wanted.profiles };
        let mut profiles: Vec<&'static Profile> = Vec::new();
        let mut add = |name: &str| {
            let profile = profile_named(self.profiles(), name)?;
            takes_texts(profile, "profiles")?;
            if !profiles.iter().any(|other| other.id() == profile.id()) {
                profiles.push(profile);
            }
            Ok::<usize, ServiceError>(profiles.len())
        };
        let mut choosable = 0;
        for name in names {
            choosable = add(&name)?;
        }
        if is_free {
            add(&settings.profile)?;
        }
        let present = self.profiles().named(&settings.profile).map(|profile| profile.id().to_string());
        Ok(Plan {
            collection: collection.clone(),
            present: (present.unwrap_or_else(|| settings.profile.clone()), settings.k),
            weights: settings.weights.clone(),
            profiles,
            choosable,
            texts: wanted.texts,
            pairs: wanted.pairs,
            sample,
            assumed: Assumed {
                documents: wanted.documents.unwrap_or_else(|| info.documents.max(1_000_000)),
                duplicate_share,
            },
            seed: wanted.seed,
        })
    }

    async fn run_calibration(self: Arc<Self>, job: Arc<Job>, plan: Plan, _turn: Turn) {
        let name = plan.collection.clone();
        let outcome = self.calibrated(&job, plan).await;
        match &outcome {
            Ok(found) => tracing::info!(collection = %name, texts = found.texts, "a calibration has ended"),
            Err(error) => {
                tracing::warn!(collection = %name, %error, "a calibration has ended without a result");
            }
        }
        job.finish(self.now_ms(), outcome.map(Arc::new).map_err(Arc::new));
    }

    async fn calibrated(&self, job: &Arc<Job>, plan: Plan) -> Result<Calibrated, ServiceError> {
        let is_marked = !plan.pairs.is_empty();
        let made = if is_marked { self.marked(job, &plan).await? } else { self.edited(job, &plan).await? };
        let (set, marks) = made;
        let set = Arc::new(set);
        let now_ms = self.surroundings.now_ms;
        let clock = move || Duration::from_millis(now_ms());
        let mut candidates = Vec::new();
        for profile in &plan.profiles {
            let (profile, set, checked) = (*profile, Arc::clone(&set), Arc::clone(job));
            let (assumed, seed) = (plan.assumed, plan.seed);
            let check = move || checked.check();
            let weights = plan.weights.clone();
            let work = move |_: &Cancel| {
                let table = weights.as_ref().map(Weights::table);
                Candidate::measure(profile, table, &set, assumed, seed, clock, check)
            };
            candidates.push(self.pool.run(Patience::Bulk, work).await??);
            job.progress.measured.fetch_add(1, Ordering::Relaxed);
        }
        let recommended = best(candidates.iter().take(plan.choosable));
        let of_here = |one: &&Candidate| one.profile().id().to_string() == plan.present.0;
        let recommended_here = candidates.iter().find(of_here).and_then(Candidate::choice);
        let edits = if is_marked { Vec::new() } else { EDITS.iter().map(|edit| edit.name()).collect() };
        Ok(Calibrated {
            present: plan.present,
            assumed: plan.assumed,
            edits,
            is_marked,
            texts: set.texts.len(),
            bytes: set.texts.iter().map(String::len).sum(),
            pairs: set.labels.positive.len(),
            aside: set.labels.ignored.len(),
            doubtful: set.labels.disputed.len(),
            marks,
            candidates,
            recommended,
            recommended_here,
        })
    }
}

impl Calibrations {
    /// The permit for a job to run, unless another one is running.
    fn turn(&self, collection: &CollectionName, job: &Arc<Job>) -> Result<Turn, ServiceError> {
        let mut running = self.running.lock();
        if let Some((of, other)) = running.as_ref().filter(|(_, other)| other.is_running()) {
            let is_ending = other.is_cancelled();
            if !is_ending && of == collection && other.has_collection_of(job) {
                return Err(ServiceError::Calibrating(collection.clone()));
            }
            let seconds = job.started_ms.saturating_sub(other.started_ms) / 1_000;
            return Err(ServiceError::OtherCalibration { collection: Some(of.clone()), seconds, is_ending });
        }
        *running = Some((collection.clone(), Arc::clone(job)));
        Ok(Turn(Arc::clone(&self.running), Arc::clone(job)))
    }
}

/// Checks a number, or the length of a list, against its limits.
fn check<N: Copy + PartialOrd + Display>(
    field: &'static str,
    value: N,
    least: N,
    most: N,
) -> Result<(), ServiceError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let detail = format!("{field} has the size {value}; it ranges from {least} to {most}");
    Err(ServiceError::invalid(field, detail))
}
