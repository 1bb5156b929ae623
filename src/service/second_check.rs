//! The second check: of the documents within k those whose text is really similar, the most similar first.
//!
//! A distance between hashes says how likely two texts are alike; this compares them. Similarity is the exact
//! Jaccard similarity of their pairs of adjacent words, so that it needs the texts: the collection must keep them.
//! Measured, it lifts F1 behind a large k on every labelled set (docs/quality.md).

use super::fingerprints::Content;
use super::lookup::{Ask, By, Found};
use super::{Service, ServiceError};
use crate::fingerprint::Profile;
use crate::ids::CollectionName;
use crate::pool::Patience;

/// The most documents within k that are compared for one question, the nearest first.
const CANDIDATES: usize = 1_000;
/// The profile whose features are compared.
const FEATURES: &str = "pairs-64";

impl Service {
    /// Answers a question with the documents of a similarity of `least` or more. `next` leads on behind the nearest
    /// [`CANDIDATES`] if there are more within k.
    pub(super) async fn similar_checked(
        &self,
        collection: &CollectionName,
        mut ask: Ask,
        least: f64,
    ) -> Result<Found, ServiceError> {
        if !(0.0..=1.0).contains(&least) {
            let detail = format!("min_similarity is {least}; it ranges from 0 to 1");
            return Err(ServiceError::invalid("min_similarity", detail));
        }
        if !self.engine()?.settings(collection).await?.keep_text {
            let detail = "min_similarity compares texts, and this collection keeps none; \
                          PUT it with \"keep_text\": true and store its documents again";
            return Err(ServiceError::invalid("min_similarity", detail));
        }
        let limit = ask.limit.unwrap_or(self.limits().default_matches);
        let text = self.text_of(collection, &ask.by).await?;
        ask.limit = Some(CANDIDATES.min(self.limits().matches));
        let mut found = self.similar_unchecked(collection, ask).await?;
        let mut stored = Vec::with_capacity(found.matches.len());
        for near in &found.matches {
            // A document may have gone since; it has no similarity then.
            stored
                .push(self.engine()?.get(collection, &near.id).await?.and_then(|document| document.row.text));
        }
        let similarities = self.pool.run(Patience::Interactive, move || similarities(&text, &stored)).await?;
        let mut checked: Vec<_> = found
            .matches
            .into_iter()
            .zip(similarities)
            .filter_map(|(near, similarity)| Some((near, similarity?)))
            .filter(|(_, similarity)| *similarity >= least)
            .collect();
        // Stable: equals stay in the order of distance, then id.
        checked.sort_by(|a, b| b.1.total_cmp(&a.1));
        checked.truncate(limit);
        (found.matches, found.similarities) = checked.into_iter().unzip();
        Ok(found)
    }

    async fn text_of(&self, collection: &CollectionName, by: &By) -> Result<String, ServiceError> {
        let text = match by {
            By::Content(content @ (Content::Text(_) | Content::Html(_))) => content.clone().into_text(),
            By::Content(Content::Hash(_)) => None,
            By::Id(id) => self.document(collection, id).await?.row.text,
        };
        text.ok_or_else(|| {
            let detail = "min_similarity compares texts, and what is looked around has none: give a text, a page or a \
                          document that was stored with its text";
            ServiceError::invalid("min_similarity", detail)
        })
    }
}

fn similarities(text: &str, stored: &[Option<String>]) -> Vec<Option<f64>> {
    let profile = Profile::named(FEATURES).expect("a built-in profile");
    let set = profile.feature_set(text);
    let similarity = |other: &String| crate::fingerprint::jaccard(&set, &profile.feature_set(other));
    stored.iter().map(|other| other.as_ref().map(similarity)).collect()
}
