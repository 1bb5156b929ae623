//! The texts that a calibration measures: a sample of them with edited copies, or with marked pairs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::calibrate::{ALIKE_BY, Job, MIN_TEXTS, Plan};
use super::fingerprints::profile_named;
use super::{Service, ServiceError};
use crate::call::{self, Call};
use crate::engine::Page;
use crate::eval::{CERTAIN, Labels, Pair, Sample, Set, set_aside_copies, with_edits};
use crate::fingerprint::Status;
use crate::ids::{CollectionName, DocumentId};
use crate::pool::{Cancel, Patience};

/// Maximum bytes of a sample. If there is less memory for requests, it is a share of that memory.
const BYTES: usize = 64 << 20;
/// Bytes of memory per byte of the sample: for the edited copies, and for the features of all texts.
const MEMORY_PER_BYTE: usize = 16;
/// Bytes of documents that are read at a time.
const PAGE_BYTES: usize = 256 << 10;

impl Service {
    /// A set of texts with an edited copy of each.
    pub(super) async fn edited(&self, job: &Arc<Job>, plan: &Plan) -> Result<Set, ServiceError> {
        let mut sample = Sample::new(plan.sample, sample_bytes()?, plan.seed);
        if let Some(texts) = &plan.texts {
            texts.iter().for_each(|text| sample.offer(text.clone()));
            job.read.store(texts.len() as u64, Ordering::Relaxed);
        } else {
            self.read(job, &plan.collection, |_, text| sample.offer(text)).await?;
        }
        let (seed, name) = (plan.seed, plan.collection.to_string());
        let by = profile_named(self.profiles(), ALIKE_BY)?;
        let reading = Arc::clone(job);
        let work = move || {
            let mut texts = Vec::new();
            for text in sample.into_texts() {
                reading.check()?;
                // A text without features would not be found, and is not stored either.
                if by.fingerprint(&text).status != Status::Empty {
                    texts.push(text);
                }
            }
            Ok(with_edits(&name, texts, seed))
        };
        self.labelled(job, work).await
    }

    /// A set of the documents of the marked pairs and a sample of the others.
    pub(super) async fn marked(&self, job: &Arc<Job>, plan: &Plan) -> Result<Set, ServiceError> {
        let mut numbers: HashMap<&DocumentId, u32> = HashMap::new();
        for id in plan.pairs.iter().flat_map(|(a, b)| [a, b]) {
            let next = numbers.len() as u32;
            numbers.entry(id).or_insert(next);
        }
        let mut texts: Vec<Option<String>> = vec![None; numbers.len()];
        // Half of the memory is for the texts of the pairs, half for the sample.
        let most = sample_bytes()? / 2;
        let mut sample = Sample::new(plan.sample.saturating_sub(texts.len()), most, plan.seed);
        let mut bytes = 0;
        self.read(job, &plan.collection, |id, text| match numbers.get(id) {
            Some(number) => {
                bytes += text.len();
                texts[*number as usize] = (bytes <= most).then_some(text);
            }
            None => sample.offer(text),
        })
        .await?;
        if bytes > most {
            let detail = format!("their texts have {bytes} bytes; at most {most} are read: mark fewer pairs");
            return Err(ServiceError::invalid("pairs", detail));
        }
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
        self.labelled(job, move || {
            texts.extend(sample.into_texts());
            Ok(Set { name, texts, labels: Labels::read(Some(&pairs), None, false), edits: Vec::new() })
        })
        .await
    }

    /// Makes a set, and ignores the unmarked copies in it.
    async fn labelled(
        &self,
        job: &Arc<Job>,
        make: impl FnOnce() -> Result<Set, ServiceError> + Send + 'static,
    ) -> Result<Set, ServiceError> {
        let (by, job) = (profile_named(self.profiles(), ALIKE_BY)?, Arc::clone(job));
        let work = move |_: &Cancel| {
            let mut set = make()?;
            set_aside_copies(&mut set, by, CERTAIN, || job.check())?;
            Ok::<_, ServiceError>(set)
        };
        let set = self.pool.run(Patience::Bulk, work).await??;
        if set.texts.len() < MIN_TEXTS {
            let detail = format!(
                "there are {} texts to measure, and at least {MIN_TEXTS} are needed: store more, or give \
                 texts",
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
            job.check()?;
            let Page { documents, is_last } =
                engine.export(collection, after.take(), PAGE_BYTES, false).await?;
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

/// The maximum bytes of a sample. Its memory is reserved until the calibration ends.
fn sample_bytes() -> Result<usize, ServiceError> {
    let most = Call::current().map_or(usize::MAX, |call| call.most());
    let bytes = BYTES.min(most / MEMORY_PER_BYTE);
    call::reserve(bytes * MEMORY_PER_BYTE)?.keep();
    Ok(bytes)
}
