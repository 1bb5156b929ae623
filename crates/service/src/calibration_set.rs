//! The texts that a calibration measures: a sample of them with edited copies, or with marked pairs.
//! Documents that are marked as no duplicates are in the sample, and their pairs are labels.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::calibrate::{ALIKE_BY, Job, MIN_TEXTS, Plan};
use super::fingerprints::profile_named;
use super::{Service, ServiceError, WantedMarks};
use lookalike_engine::{Listing, Page};
use lookalike_eval::{CERTAIN, Labels, Pair, Sample, Set, set_aside_copies, with_edits};
use lookalike_hash::{CollectionName, DocumentId, Mark};
use lookalike_run::call::{self, Call};
use lookalike_run::pool::{Cancel, Patience};
use lookalike_text::fingerprint::Status;
use lookalike_wording::{agreeing, counted};

/// Maximum bytes of a sample. If there is less memory for requests, it is a share of that memory.
const BYTES: usize = 64 << 20;
/// Bytes of memory per byte of the sample: for the edited copies, and for the features of all texts.
const MEMORY_PER_BYTE: usize = 16;
/// Bytes of documents that are read at a time.
const PAGE_BYTES: usize = 256 << 10;

/// Documents whose texts are read whether they are in the sample or not.
#[derive(Default)]
struct Named {
    numbers: HashMap<DocumentId, u32>,
    texts: Vec<Option<String>>,
    /// The bytes of all their texts.
    bytes: usize,
    marks: Vec<Mark>,
}

impl Named {
    fn add(&mut self, id: &DocumentId) {
        if !self.numbers.contains_key(id) {
            self.numbers.insert(id.clone(), self.texts.len() as u32);
            self.texts.push(None);
        }
    }

    fn add_marks(&mut self, marks: Vec<Mark>) {
        for mark in &marks {
            std::iter::once(mark.id()).chain(mark.other()).for_each(|id| self.add(id));
        }
        self.marks = marks;
    }

    /// Takes the text of a stored document, or offers it to the sample. Texts above `most` bytes in total are
    /// left out.
    fn take(&mut self, id: &DocumentId, text: String, most: usize, sample: &mut Sample) {
        match self.numbers.get(id) {
            Some(number) => {
                self.bytes += text.len();
                self.texts[*number as usize] = (self.bytes <= most).then_some(text);
            }
            None => sample.offer(text),
        }
    }

    /// The texts that were found, the labels of the marks of these, and the number of these marks.
    fn into_labels(self) -> (Vec<String>, Labels, usize) {
        let (mut texts, mut places) = (Vec::new(), Vec::new());
        for text in self.texts {
            places.push(text.is_some().then_some(texts.len() as u32));
            texts.extend(text);
        }
        let place = |id: &DocumentId| places[self.numbers[id] as usize];
        let (mut labels, mut marks) = (Labels::default(), 0);
        for mark in &self.marks {
            let Some(id) = place(mark.id()) else { continue };
            match mark.other().map(place) {
                None => drop(labels.alone.insert(id)),
                Some(Some(other)) => drop(labels.separated.insert(ordered(id, other))),
                Some(None) => continue,
            }
            marks += 1;
        }
        (texts, labels, marks)
    }
}

fn ordered(a: u32, b: u32) -> Pair {
    (a.min(b), a.max(b))
}

impl Service {
    /// A set of texts with an edited copy of each, and the number of stored marks that are labels in it.
    pub(super) async fn edited(&self, job: &Arc<Job>, plan: &Plan) -> Result<(Set, usize), ServiceError> {
        let mut named = Named::default();
        if plan.texts.is_none() {
            named.add_marks(self.first_marks(job, &plan.collection, plan.sample / 2).await?);
        }
        let mut most = sample_bytes()?;
        if !named.numbers.is_empty() {
            most /= 2;
        }
        let mut sample = Sample::new(plan.sample - named.numbers.len(), most, plan.seed);
        if let Some(texts) = &plan.texts {
            texts.iter().for_each(|text| sample.offer(text.clone()));
            job.progress.read.store(texts.len() as u64, Ordering::Relaxed);
        } else {
            self.read(job, &plan.collection, |id, text| named.take(id, text, most, &mut sample)).await?;
        }
        let (seed, name) = (plan.seed, plan.collection.to_string());
        let by = profile_named(self.profiles(), ALIKE_BY)?;
        let reading = Arc::clone(job);
        let work = move || {
            // A text without features would not be found, and is not stored either.
            let is_empty = |text: &String| by.fingerprint(text).status == Status::Empty;
            named.texts.iter_mut().for_each(|text| *text = text.take().filter(|text| !is_empty(text)));
            let (mut texts, mut labels, marks) = named.into_labels();
            for text in sample.into_texts() {
                reading.check()?;
                if !is_empty(&text) {
                    texts.push(text);
                }
            }
            let mut set = with_edits(&name, texts, seed);
            // The labels of a text are those of its edited copy.
            let copies: HashMap<u32, u32> = set.labels.positive.iter().copied().collect();
            let with_copy = |of: u32| std::iter::once(of).chain(copies.get(&of).copied());
            let pairs = labels.separated.iter().flat_map(|(a, b)| {
                with_copy(*a).flat_map(move |a| with_copy(*b).map(move |b| (a.min(b), a.max(b))))
            });
            set.labels.separated = pairs.collect();
            set.labels.alone = labels.alone.drain().flat_map(with_copy).collect();
            Ok((set, marks))
        };
        self.labelled(job, work).await
    }

    /// A set of the documents of the marked pairs and a sample of the others, and the number of stored marks
    /// that are labels in it.
    pub(super) async fn marked(&self, job: &Arc<Job>, plan: &Plan) -> Result<(Set, usize), ServiceError> {
        let (engine, pairs) = (Arc::clone(self.engine()?), plan.pairs.clone());
        let collection = engine.find(&plan.collection)?;
        let separated = move |_: &Cancel| engine.first_separated(&collection, &pairs);
        if let Some(at) = self.pool.run(Patience::Bulk, separated).await?? {
            let detail = format!(
                "the documents of pair {at} (counted from 0) are marked as no duplicates; remove the mark \
                 with DELETE /marks, or leave the pair out"
            );
            return Err(ServiceError::invalid("pairs", detail));
        }
        let mut named = Named::default();
        for id in plan.pairs.iter().flat_map(|(a, b)| [a, b]) {
            named.add(id);
        }
        let of_pairs = named.numbers.len();
        named.add_marks(self.first_marks(job, &plan.collection, plan.sample / 2).await?);
        // Half of the memory is for the texts of the pairs and the marks, half for the sample.
        let most = sample_bytes()? / 2;
        let mut sample = Sample::new(plan.sample.saturating_sub(named.texts.len()), most, plan.seed);
        self.read(job, &plan.collection, |id, text| named.take(id, text, most, &mut sample)).await?;
        let bytes = named.bytes;
        if bytes > most {
            let detail = format!("their texts have {bytes} bytes; at most {most} are read: mark fewer pairs");
            return Err(ServiceError::invalid("pairs", detail));
        }
        let missing = |(a, b): &(DocumentId, DocumentId)| {
            [a, b].into_iter().find(|id| named.texts[named.numbers[*id] as usize].is_none()).cloned()
        };
        if let Some((at, id)) = (0..).zip(&plan.pairs).find_map(|(at, pair)| missing(pair).map(|id| (at, id)))
        {
            let detail = format!(
                "pair {at} (counted from 0) names document {:?}, of which the collection has no text",
                id.as_str()
            );
            return Err(ServiceError::invalid("pairs", detail));
        }
        // The documents of the pairs have the first numbers, and all of them have texts.
        debug_assert!(named.texts[..of_pairs].iter().all(Option::is_some));
        let ordered = |(a, b): &(DocumentId, DocumentId)| ordered(named.numbers[a], named.numbers[b]);
        let pairs: Vec<Pair> = plan.pairs.iter().map(ordered).collect();
        let name = plan.collection.to_string();
        self.labelled(job, move || {
            let (mut texts, Labels { separated, alone, .. }, marks) = named.into_labels();
            texts.extend(sample.into_texts());
            let labels = Labels { separated, alone, ..Labels::read(Some(&pairs), None, false) };
            Ok((Set { name, texts, labels, edits: Vec::new() }, marks))
        })
        .await
    }

    /// The first marks of a collection, as many as name at most `most` documents.
    async fn first_marks(
        &self,
        job: &Arc<Job>,
        collection: &CollectionName,
        most: usize,
    ) -> Result<Vec<Mark>, ServiceError> {
        let (mut marks, mut documents, mut cursor) = (Vec::new(), HashSet::new(), None);
        loop {
            job.check()?;
            let wanted = WantedMarks { id: None, cursor, limit: Some(self.limits.matches) };
            let page = self.marks(collection, wanted).await?;
            for (mark, _) in page.marks {
                documents.extend(std::iter::once(mark.id()).chain(mark.other()).cloned());
                if documents.len() > most {
                    return Ok(marks);
                }
                marks.push(mark);
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(marks);
            }
        }
    }

    /// Makes a set, and ignores the unmarked copies in it.
    async fn labelled(
        &self,
        job: &Arc<Job>,
        make: impl FnOnce() -> Result<(Set, usize), ServiceError> + Send + 'static,
    ) -> Result<(Set, usize), ServiceError> {
        let (by, job) = (profile_named(self.profiles(), ALIKE_BY)?, Arc::clone(job));
        let work = move |_: &Cancel| {
            let (mut set, marks) = make()?;
            set_aside_copies(&mut set, by, CERTAIN, || job.check())?;
            Ok::<_, ServiceError>((set, marks))
        };
        let (set, marks) = self.pool.run(Patience::Bulk, work).await??;
        if set.texts.len() < MIN_TEXTS {
            let detail = format!(
                "there {} {} to measure, and at least {MIN_TEXTS} are needed: store more, or give texts",
                agreeing(set.texts.len() as u64, "is", "are"),
                counted(set.texts.len() as u64, "text")
            );
            return Err(ServiceError::invalid("texts", detail));
        }
        Ok((set, marks))
    }

    /// Reads all texts of a collection.
    async fn read(
        &self,
        job: &Arc<Job>,
        collection: &CollectionName,
        mut each: impl FnMut(&DocumentId, String),
    ) -> Result<(), ServiceError> {
        let engine = self.engine()?;
        let collection = engine.find(collection)?;
        let mut after = None;
        loop {
            job.check()?;
            let wanted = Listing { after: after.take(), bytes: PAGE_BYTES, ..Listing::default() };
            let Page { documents, next, .. } = engine.list(&collection, wanted).await?;
            job.progress.read.fetch_add(documents.len() as u64, Ordering::Relaxed);
            for document in documents {
                if let Some(text) = document.row.text {
                    each(&document.id, text);
                }
            }
            after = next;
            if after.is_none() {
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
