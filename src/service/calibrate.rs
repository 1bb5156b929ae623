//! Calibration: which profile and which k suit the documents of a collection, measured on their texts, as a job.
//!
//! What is measured are the texts that a collection keeps, or texts that come with the request. Copies to be found
//! are made of them by stated edits, or are pairs that somebody marked. A job belongs to its collection, one runs at
//! a time, on threads that give way to all others, and what it found is kept in memory until the next one or the
//! end of the process. *Absent*: the measuring itself (`eval`), and changes: nothing is set by it.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;

use super::fingerprints::profile_named;
use super::{Service, ServiceError};
use crate::call::{self, Call};
use crate::engine::Page;
use crate::eval::{
    Banded, Labels, Measured, Pair, Recommendation, Sample, Set, banded, measure, recommend,
    set_aside_copies, with_edits,
};
use crate::fingerprint::{MinHash, Profile, Status};
use crate::ids::{CollectionName, DocumentId};
use crate::pool::{Cancel, Patience};

/// The texts of a sample, at most: all pairs of them and their edited copies are looked at.
pub const CALIBRATION_TEXTS: usize = 20_000;
/// Texts of a sample, when no number is named.
const USUAL_TEXTS: usize = 5_000;
/// Fewer texts say nothing.
const FEWEST_TEXTS: usize = 100;
/// The bytes of a sample, at most: with less memory for requests it is a share of that.
const BYTES: usize = 64 << 20;
/// Bytes of memory that measuring takes for a byte of the sample: edited copies, and features of all of them.
const MEASURED: usize = 16;
/// Marked pairs, at most.
const PAIRS: usize = 10_000;
/// Profiles that are measured at once, at most.
const PROFILES: usize = 8;
/// Bytes of documents that are read at a time.
const PAGE_BYTES: usize = 256 << 10;
/// Calibrations that are remembered, at most; the oldest go first.
const REMEMBERED: usize = 256;
/// The profile whose features say which pairs are copies that nobody marked.
const ALIKE_BY: &str = "shingles-64";

/// What to measure.
#[derive(Clone, Debug, Default)]
pub struct WantedCalibration {
    /// Profiles, with or without version; that of the collection and the recommended ones if there are none.
    pub profiles: Vec<String>,
    /// Texts in place of those that are stored.
    pub texts: Option<Vec<String>>,
    /// Stored documents that are copies of each other, in place of edited ones.
    pub pairs: Vec<(DocumentId, DocumentId)>,
    /// How many texts are taken, 100 to [`CALIBRATION_TEXTS`]; 5,000 if it is not said.
    pub sample: Option<usize>,
    /// For how many documents; as many as the collection has, or a million if that is more.
    pub documents: Option<u64>,
    /// Of the sample and of the edits.
    pub seed: u64,
}

/// How far a calibration has come.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// When it was asked for, in milliseconds since 1970-01-01 UTC.
    pub started_ms: u64,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// The documents that were read, and how many there are to read.
    pub read: (u64, u64),
    /// The profiles that were measured, and how many there are to measure.
    pub measured: (usize, usize),
    /// What was found, or why nothing was; `None` while it runs.
    pub outcome: Option<Outcome>,
}

/// What was found, or why nothing was.
type Outcome = Result<Arc<Calibrated>, Arc<ServiceError>>;

/// What a calibration found.
#[derive(Debug)]
pub struct Calibrated {
    /// The settings of the collection: profile and k.
    pub present: (String, u32),
    /// For how many documents.
    pub documents: u64,
    /// Whether the pairs to be found were marked by somebody, and not made by edits.
    pub is_marked: bool,
    /// The texts, edited copies among them.
    pub texts: usize,
    /// Their bytes.
    pub bytes: usize,
    /// The pairs to be found.
    pub pairs: usize,
    /// Pairs that look like copies and were not marked: they do not count.
    pub aside: usize,
    /// Profiles that make hashes.
    pub measured: Vec<Measured>,
    /// Profiles that make signatures of minima.
    pub banded: Vec<Banded>,
    /// The best profile and k of those that were measured.
    pub recommended: Option<Recommendation>,
    /// The best k with the profile that the collection has.
    pub recommended_here: Option<Recommendation>,
}

/// The calibrations of a process.
#[derive(Default)]
pub(super) struct Calibrations {
    jobs: DashMap<CollectionName, Arc<Job>>,
    running: Arc<Mutex<Running>>,
}

/// The one that runs, whether it is still wanted or not. Locked for a look or a change.
type Running = Option<(CollectionName, Arc<Job>)>;

/// The right of a job to run, given back when it is dropped.
struct Turn(Arc<Mutex<Running>>, Arc<Job>);

impl Drop for Turn {
    fn drop(&mut self) {
        let mut running = self.0.lock();
        // The next one may have begun once the result was there.
        if running.as_ref().is_some_and(|(_, job)| Arc::ptr_eq(job, &self.1)) {
            *running = None;
        }
    }
}

/// A calibration under way or ended.
struct Job {
    /// When the collection was made: another one of its name has another calibration.
    of_ms: u64,
    started_ms: u64,
    read: AtomicU64,
    to_read: u64,
    measured: AtomicUsize,
    to_measure: usize,
    is_unwanted: AtomicBool,
    end: OnceLock<(u64, Outcome)>,
}

impl Job {
    fn told(&self) -> Calibration {
        let end = self.end.get();
        Calibration {
            started_ms: self.started_ms,
            ended_ms: end.map(|end| end.0),
            read: (self.read.load(Ordering::Relaxed), self.to_read),
            measured: (self.measured.load(Ordering::Relaxed), self.to_measure),
            outcome: end.map(|end| end.1.clone()),
        }
    }
}

/// What a job works with, all of it checked.
struct Plan {
    collection: CollectionName,
    present: (String, u32),
    profiles: Vec<&'static Profile>,
    texts: Option<Vec<String>>,
    pairs: Vec<(DocumentId, DocumentId)>,
    sample: usize,
    documents: u64,
    seed: u64,
}

impl Service {
    /// Begins a calibration of a collection; what an earlier one found is forgotten.
    ///
    /// # Errors
    /// [`ServiceError::Calibrating`] if one of this collection runs, [`ServiceError::OtherCalibration`] if another one
    /// does, and [`ServiceError::Invalid`] if there is nothing to measure.
    pub async fn calibrate(
        self: &Arc<Self>,
        collection: &CollectionName,
        wanted: WantedCalibration,
    ) -> Result<Calibration, ServiceError> {
        let info = self.engine()?.collection(collection).await?;
        let plan = self.plan(collection, wanted).await?;
        let job = Arc::new(Job {
            of_ms: info.created_ms,
            started_ms: self.now_ms(),
            read: AtomicU64::new(0),
            to_read: plan.texts.as_ref().map_or(info.documents, |texts| texts.len() as u64),
            measured: AtomicUsize::new(0),
            to_measure: plan.profiles.len(),
            is_unwanted: AtomicBool::new(false),
            end: OnceLock::new(),
        });
        let turn = self.calibrations.turn(collection, &job)?;
        self.calibrations.remember(collection, &job);
        let running = Arc::clone(self).run_calibration(Arc::clone(&job), plan, turn);
        // It belongs to its client, and keeps what was reserved for the request.
        tokio::spawn(call::for_call(Call::current(), running));
        Ok(job.told())
    }

    /// How far the calibration of a collection has come, and what it found.
    ///
    /// # Errors
    /// [`ServiceError::NoCalibration`] if there was none since the process began.
    pub async fn calibration(&self, collection: &CollectionName) -> Result<Calibration, ServiceError> {
        let info = self.engine()?.collection(collection).await?;
        let job = self.calibrations.jobs.get(collection).filter(|job| job.of_ms == info.created_ms);
        job.map(|job| job.told()).ok_or_else(|| ServiceError::NoCalibration(collection.clone()))
    }

    /// Ends the calibration of a collection if it runs, and forgets what it found.
    ///
    /// # Errors
    /// [`ServiceError::NoCalibration`] if there was none since the process began.
    pub async fn forget_calibration(&self, collection: &CollectionName) -> Result<(), ServiceError> {
        self.calibration(collection).await?;
        self.calibrations.forget(collection);
        Ok(())
    }

    /// Checks what is wanted.
    async fn plan(
        &self,
        collection: &CollectionName,
        wanted: WantedCalibration,
    ) -> Result<Plan, ServiceError> {
        let info = self.engine()?.collection(collection).await?;
        let settings = &info.settings;
        if let Some(texts) = &wanted.texts {
            check("texts", texts.len(), FEWEST_TEXTS, CALIBRATION_TEXTS, "texts")?;
            if !wanted.pairs.is_empty() {
                let detail = "pairs are of stored documents; give pairs or texts, not both";
                return Err(ServiceError::invalid("pairs", detail));
            }
        } else if !settings.keep_text {
            let detail = format!(
                "the collection \"{collection}\" keeps no texts (keep_text is false): give texts, {FEWEST_TEXTS} to \
                 {CALIBRATION_TEXTS} of the kind that it stores"
            );
            return Err(ServiceError::invalid("texts", detail));
        }
        check("pairs", wanted.pairs.len(), 0, PAIRS, "pairs")?;
        if let Some(at) = wanted.pairs.iter().position(|(a, b)| a == b) {
            let detail = format!("pair {at} (counted from 0) names one document twice; a pair is of two");
            return Err(ServiceError::invalid("pairs", detail));
        }
        if wanted.documents == Some(0) {
            let detail =
                "documents is 0; say for how many documents k is to be chosen, 1 or more, or leave it out";
            return Err(ServiceError::invalid("documents", detail));
        }
        check("profiles", wanted.profiles.len(), 0, PROFILES, "profiles")?;
        let sample = wanted.sample.unwrap_or(USUAL_TEXTS);
        check("sample", sample, FEWEST_TEXTS, CALIBRATION_TEXTS, "texts")?;
        let names = if wanted.profiles.is_empty() {
            vec![settings.profile.clone(), "copies-64".to_owned(), "copies-128".to_owned()]
        } else {
            wanted.profiles
        };
        let mut profiles: Vec<&'static Profile> = Vec::new();
        for name in names {
            let profile = profile_named(self.profiles(), &name)?;
            if profile.signatures().is_some() && recipe(profile).is_none() {
                let detail = format!(
                    "profile {} has no curve to measure: leave it out, or name one of hashes or of MinHash",
                    profile.id()
                );
                return Err(ServiceError::invalid("profiles", detail));
            }
            if !profiles.iter().any(|other| other.id() == profile.id()) {
                profiles.push(profile);
            }
        }
        let present = self.profiles().named(&settings.profile).map(|profile| profile.id().to_string());
        Ok(Plan {
            collection: collection.clone(),
            present: (present.unwrap_or_else(|| settings.profile.clone()), settings.k),
            profiles,
            texts: wanted.texts,
            pairs: wanted.pairs,
            sample,
            documents: wanted.documents.unwrap_or_else(|| info.documents.max(1_000_000)),
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
        let _ = job.end.set((self.now_ms(), outcome.map(Arc::new).map_err(Arc::new)));
    }

    async fn calibrated(&self, job: &Arc<Job>, plan: Plan) -> Result<Calibrated, ServiceError> {
        let is_marked = !plan.pairs.is_empty();
        let set = if is_marked { self.marked(job, &plan).await? } else { self.edited(job, &plan).await? };
        let set = Arc::new(set);
        let now_ms = self.surroundings.now_ms;
        let clock = move || Duration::from_millis(now_ms());
        let (mut measured, mut bands) = (Vec::new(), Vec::new());
        for profile in &plan.profiles {
            wanted_still(job)?;
            let (profile, set) = (*profile, Arc::clone(&set));
            if let Some(recipe) = recipe(profile) {
                let thresholds: Vec<f64> = (0..=19).map(|step| f64::from(step) / 20.0).collect();
                let work = move |_: &Cancel| banded(recipe, recipe.banding, &set, &thresholds, clock);
                bands.extend(self.pool.run(Patience::Bulk, work).await?);
            } else {
                measured.push(self.pool.run(Patience::Bulk, move |_| measure(profile, &set, clock)).await?);
            }
            job.measured.fetch_add(1, Ordering::Relaxed);
        }
        let documents = plan.documents as f64;
        let mut measured = vec![measured];
        let recommended = recommend(&measured, documents);
        let of_here = |one: &Measured| one.profile.id().to_string() == plan.present.0;
        let here = measured[0].iter().position(of_here);
        let recommended_here = here.and_then(|at| {
            let one = measured[0].remove(at);
            let alone = vec![vec![one]];
            let found = recommend(&alone, documents);
            measured[0].splice(at..at, alone.into_iter().flatten());
            found
        });
        Ok(Calibrated {
            present: plan.present,
            documents: plan.documents,
            is_marked,
            texts: set.texts.len(),
            bytes: set.texts.iter().map(String::len).sum(),
            pairs: set.labels.positive.len(),
            aside: set.labels.ignored.len(),
            measured: measured.pop().unwrap_or_default(),
            banded: bands,
            recommended,
            recommended_here,
        })
    }

    /// Texts with an edited copy of each.
    async fn edited(&self, job: &Arc<Job>, plan: &Plan) -> Result<Set, ServiceError> {
        let mut sample = Sample::new(plan.sample, sample_bytes()?, plan.seed);
        if let Some(texts) = &plan.texts {
            texts.iter().for_each(|text| sample.offer(text.clone()));
            job.read.store(texts.len() as u64, Ordering::Relaxed);
        } else {
            self.read(job, &plan.collection, |_, text| sample.offer(text)).await?;
        }
        let (seed, name) = (plan.seed, plan.collection.to_string());
        let by = profile_named(self.profiles(), ALIKE_BY)?;
        let work = move || {
            let mut texts = sample.into_texts();
            // What has no feature would be found as a copy of nothing, and is not stored either.
            texts.retain(|text| by.fingerprint(text).status != Status::Empty);
            with_edits(&name, texts, seed)
        };
        self.labelled(work).await
    }

    /// The documents of the marked pairs, and a sample of the others.
    async fn marked(&self, job: &Arc<Job>, plan: &Plan) -> Result<Set, ServiceError> {
        let mut numbers: HashMap<&DocumentId, u32> = HashMap::new();
        for id in plan.pairs.iter().flat_map(|(a, b)| [a, b]) {
            let next = numbers.len() as u32;
            numbers.entry(id).or_insert(next);
        }
        let mut texts: Vec<Option<String>> = vec![None; numbers.len()];
        let mut sample = Sample::new(plan.sample.saturating_sub(texts.len()), sample_bytes()?, plan.seed);
        self.read(job, &plan.collection, |id, text| match numbers.get(id) {
            Some(number) => texts[*number as usize] = Some(text),
            None => sample.offer(text),
        })
        .await?;
        let missing = |(a, b): &(DocumentId, DocumentId)| {
            [a, b].into_iter().find(|id| texts[numbers[id] as usize].is_none()).cloned()
        };
        if let Some((at, id)) = (0..).zip(&plan.pairs).find_map(|(at, pair)| missing(pair).map(|id| (at, id)))
        {
            let detail = format!(
                "pair {at} (counted from 0) names document {:?}, of which the collection has no text",
                id.as_str()
            );
            return Err(ServiceError::invalid("pairs", detail));
        }
        let ordered = |(a, b): &(DocumentId, DocumentId)| -> Pair {
            let (a, b) = (numbers[a], numbers[b]);
            (a.min(b), a.max(b))
        };
        let pairs: Vec<Pair> = plan.pairs.iter().map(ordered).collect();
        let mut texts: Vec<String> = texts.into_iter().flatten().collect();
        let name = plan.collection.to_string();
        self.labelled(move || {
            texts.extend(sample.into_texts());
            Set { name, texts, labels: Labels::read(Some(&pairs), None, false), edits: Vec::new() }
        })
        .await
    }

    /// A set, and in it the copies set aside that nobody marked.
    async fn labelled(&self, make: impl FnOnce() -> Set + Send + 'static) -> Result<Set, ServiceError> {
        let by = profile_named(self.profiles(), ALIKE_BY)?;
        let work = move |_: &Cancel| {
            let mut set = make();
            set_aside_copies(&mut set, by);
            set
        };
        let set = self.pool.run(Patience::Bulk, work).await?;
        if set.texts.len() < FEWEST_TEXTS {
            let detail = format!(
                "there are {} texts to measure, and fewer than {FEWEST_TEXTS} say nothing: store more, or give texts",
                set.texts.len()
            );
            return Err(ServiceError::invalid("texts", detail));
        }
        Ok(set)
    }

    /// Reads all texts of a collection.
    async fn read(
        &self,
        job: &Arc<Job>,
        collection: &CollectionName,
        mut each: impl FnMut(&DocumentId, String),
    ) -> Result<(), ServiceError> {
        let engine = self.engine()?;
        let mut after = None;
        loop {
            wanted_still(job)?;
            let Page { documents, is_last } = engine.export(collection, after.take(), PAGE_BYTES).await?;
            job.read.fetch_add(documents.len() as u64, Ordering::Relaxed);
            after = documents.last().map(|last| last.id.clone());
            for document in documents {
                if let Some(text) = document.row.text {
                    each(&document.id, text);
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

/// The bytes of a sample, for which memory is reserved until the calibration ends.
fn sample_bytes() -> Result<usize, ServiceError> {
    let most = Call::current().map_or(usize::MAX, |call| call.most());
    let bytes = BYTES.min(most / MEASURED);
    call::reserve(bytes * MEASURED)?.keep();
    Ok(bytes)
}

impl Calibrations {
    /// The right to run for a job, if none runs.
    fn turn(&self, collection: &CollectionName, job: &Arc<Job>) -> Result<Turn, ServiceError> {
        let mut running = self.running.lock();
        if let Some((of, other)) = running.as_ref().filter(|(_, other)| other.end.get().is_none()) {
            let is_ending = other.is_unwanted.load(Ordering::Relaxed);
            if !is_ending && of == collection && other.of_ms == job.of_ms {
                return Err(ServiceError::Calibrating(collection.clone()));
            }
            let seconds = job.started_ms.saturating_sub(other.started_ms) / 1_000;
            return Err(ServiceError::OtherCalibration { collection: Some(of.clone()), seconds, is_ending });
        }
        *running = Some((collection.clone(), Arc::clone(job)));
        Ok(Turn(Arc::clone(&self.running), Arc::clone(job)))
    }

    /// Ends the calibration of a collection if it runs, and forgets what it found.
    pub(super) fn forget(&self, collection: &CollectionName) {
        if let Some((_, job)) = self.jobs.remove(collection) {
            job.is_unwanted.store(true, Ordering::Relaxed);
        }
    }

    fn remember(&self, collection: &CollectionName, job: &Arc<Job>) {
        self.jobs.insert(collection.clone(), Arc::clone(job));
        while self.jobs.len() > REMEMBERED {
            let oldest = self.jobs.iter().min_by_key(|job| job.started_ms).map(|job| job.key().clone());
            let Some(oldest) = oldest else { return };
            self.jobs.remove(&oldest);
        }
    }
}

impl Calibrated {
    /// The outcome in a few sentences.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let (profile, k) = &self.present;
        if let Some(one) = self.measured.iter().find(|one| one.profile.id().to_string() == *profile) {
            let point = one.curve.at(*k);
            let _ = write!(
                text,
                "As the collection is set ({profile}, k={k}), {:.1} % of the copies are found and {:.1} % of what is \
                 found are copies; {}. ",
                point.recall * 100.0,
                point.precision * 100.0,
                self.told_wrong(one, *k)
            );
        }
        let told = |best: &Recommendation| {
            format!("{} with k={}, which finds {:.1} %", best.profile, best.k, best.recall * 100.0)
        };
        let _ = match (&self.recommended_here, &self.recommended) {
            (Some(here), Some(best)) if here == best => write!(text, "Recommended: {}.", told(best)),
            (Some(here), Some(best)) => {
                write!(text, "Recommended: {}; without another profile, {}.", told(best), told(here))
            }
            (None, Some(best)) => write!(text, "Recommended: {}.", told(best)),
            _ if self.measured.is_empty() => {
                write!(text, "Only signatures were measured: choose a threshold.")
            }
            _ => write!(
                text,
                "No k of these profiles finds something with a precision of 0.97 and at most 0.05 wrong neighbours a query, \
                 or too few of these texts are different to tell: ask with a larger k and min_similarity, or give more texts."
            ),
        };
        text
    }

    /// How many wrong neighbours a query gets, in words.
    fn told_wrong(&self, one: &Measured, k: u32) -> String {
        let documents = self.documents as f64;
        match one.curve.false_neighbours(k, documents) {
            (wrong, true) if wrong >= documents => {
                "how many wrong neighbours a query gets cannot be told, since too few of these texts are different"
                    .to_owned()
            }
            (wrong, is_bound) => format!(
                "among {} documents like these a query gets {}{wrong:.2} wrong neighbours",
                self.documents,
                if is_bound { "fewer than " } else { "" }
            ),
        }
    }
}

/// The recipe of a profile of MinHash.
fn recipe(profile: &Profile) -> Option<&'static MinHash> {
    profile.signatures()?;
    let id = profile.id().to_string();
    MinHash::ALL.iter().find(|recipe| recipe.id == id)
}

fn wanted_still(job: &Job) -> Result<(), ServiceError> {
    if job.is_unwanted.load(Ordering::Relaxed) { Err(ServiceError::Forgotten) } else { Ok(()) }
}

fn check(
    field: &'static str,
    count: usize,
    least: usize,
    most: usize,
    what: &str,
) -> Result<(), ServiceError> {
    if (least..=most).contains(&count) {
        return Ok(());
    }
    let detail = match least {
        0 => format!("{field} has {count} {what}; the limit is {most}"),
        _ => format!("{field} is of {count} {what}; it ranges from {least} to {most}"),
    };
    Err(ServiceError::invalid(field, detail))
}
