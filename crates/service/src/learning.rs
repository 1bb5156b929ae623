//! The weights of features in a collection: those that a reindex names, and those that the kept texts teach
//! (ADR 57).
//!
//! *Absent*: the reindex itself (`reindex`), and where weights count (`fingerprints`, `second_check`).

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::fingerprints::reserve_for_text;
use super::reindex::{ATTEMPTS, Job};
use super::second_check::weighed_features;
use super::{Service, ServiceError};
use lookalike_dedupe::Lesson;
use lookalike_engine::{CollectionSettings, Document, EngineError, Reindex, Weights};
use lookalike_hash::CollectionName;
use lookalike_run::pool::{Cancel, Patience, Turns};
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::Profile;

/// The documents of a collection that all teach weights.
const FEW: u64 = 1_000;
/// Of a larger one, one document in this many.
const TENTH: u64 = 10;
/// The size of a table of weights as a file.
pub const WEIGHTS_BYTES: usize = Frequencies::FILE_BYTES;

/// The weights of features in the signatures or sketches of a collection.
#[derive(Clone, Debug, PartialEq)]
pub enum WantedWeights {
    /// All features weigh the same.
    None,
    /// Those that the kept texts of the collection teach.
    Learned,
    /// Those of another collection.
    Of(String),
    /// A table of document frequencies, as in its file.
    Table(Vec<u8>),
}

/// The profile whose features a reindex learns the weights of, if it learns any.
///
/// # Errors
/// [`ServiceError::Invalid`] if weights do not fit the settings after the reindex.
pub(super) fn check_weights(
    profile: &'static Profile,
    after: &CollectionSettings,
    learns: bool,
) -> Result<Option<&'static Profile>, ServiceError> {
    if !learns && after.weights.is_none() {
        return Ok(None);
    }
    let of = weighed_features(profile, after).ok_or_else(|| {
        of_weights(format!(
            "{} without sketches has nothing that weights are for; name \"weights\": \"none\", or \
             minhash-copies as the profile, or \"sketch_bytes\": 32",
            profile.id()
        ))
    })?;
    if !learns && after.table().is_some_and(|table| table.kind() != of.kind_of_features()) {
        return Err(of_weights(format!(
            "the table of weights counts other features than those of {}, which are compared; name \
             \"weights\": \"learned\" or \"none\"",
            of.id()
        )));
    }
    Ok(Some(of).filter(|_| learns))
}

impl Service {
    /// The weights that a reindex names; `None` if it names none, or learns them.
    #[allow(clippy::option_option, reason = "not named, none, or some")]
    pub(super) async fn named_weights(
        &self,
        wanted: Option<WantedWeights>,
    ) -> Result<Option<Option<Weights>>, ServiceError> {
        let bytes = match wanted {
            None | Some(WantedWeights::Learned) => return Ok(None),
            Some(WantedWeights::None) => return Ok(Some(None)),
            Some(WantedWeights::Of(other)) => {
                let other = CollectionName::new(&other).map_err(|error| of_weights(error.to_string()))?;
                return Ok(Some(Some(self.weights(&other)?)));
            }
            Some(WantedWeights::Table(bytes)) => bytes,
        };
        let read = move |_: &Cancel| Frequencies::from_bytes(&bytes).map(Weights::new);
        let weights = self.pool.run(Patience::Interactive, read).await?;
        let weights = weights.map_err(|error| of_weights(error.to_string()))?;
        let documents = weights.table().documents();
        if documents < Lesson::LEAST {
            let least = Lesson::LEAST;
            return Err(of_weights(format!(
                "the table counts {documents} texts; at least {least} are needed"
            )));
        }
        Ok(Some(Some(weights)))
    }

    /// The weights of the features `of` a profile that the kept texts teach: all of them in a small
    /// collection, otherwise one in ten, or as many as a table counts. Which they are depends on their ids.
    pub(super) async fn learn(
        &self,
        job: &Job,
        filling: &Reindex,
        of: &'static Profile,
        documents: u64,
    ) -> Result<Weights, ServiceError> {
        let most = u64::from(Frequencies::MAX_DOCUMENTS);
        let one_in = (documents / FEW).clamp(1, TENTH).max(documents.div_ceil(most));
        let (mut lesson, mut after) = (Lesson::of(of), None);
        loop {
            job.check()?;
            let page = self.patiently(ATTEMPTS, job, || filling.page(after.clone())).await?;
            after = page.next;
            let is_counted =
                |document: &Document| xxh3_64(document.id.as_str().as_bytes()).is_multiple_of(one_in);
            let counted = page.documents.into_iter().filter(is_counted);
            let texts: Arc<Vec<String>> =
                Arc::new(counted.filter_map(|document| document.row.text).collect());
            let read = || async {
                let texts = Arc::clone(&texts);
                let work = move |cancel: &Cancel| feature_sets(&texts, of, cancel);
                self.pool.run(Patience::Bulk, work).await?
            };
            self.patiently(ATTEMPTS, job, read).await?.iter().for_each(|set| lesson.add(set));
            if after.is_none() {
                break;
            }
        }
        let documents = lesson.documents();
        let Some(table) = lesson.table() else { return Err(ServiceError::TeachesNothing { documents }) };
        Ok(self.pool.run(Patience::Bulk, move |_: &Cancel| Weights::new(table)).await?)
    }
}

fn of_weights(detail: String) -> ServiceError {
    ServiceError::invalid("weights", detail)
}

/// The distinct features of each text.
fn feature_sets(
    texts: &[String],
    of: &'static Profile,
    cancel: &Cancel,
) -> Result<Vec<Vec<u64>>, EngineError> {
    let mut turns = Turns::new(Patience::Bulk);
    let set = |text: &String| {
        turns.pause();
        cancel.check()?;
        let _working = reserve_for_text(text.len(), of.memory_per_byte())?;
        Ok(of.feature_set(text))
    };
    texts.iter().map(set).collect()
}
