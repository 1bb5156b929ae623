//! What texts are to each other, by what is stored beside their hashes: an estimate from the similarity of
//! their sketches or signatures and the numbers of their characters. No text is read.

use super::registry::Collection;
use super::{Engine, EngineError, Match};
use lookalike_hash::{DocumentId, sketch_similarity};
use lookalike_store::{StoreError, View};
use lookalike_text::fingerprint::{Containment, TextRelation};

/// What is known of a text besides its hash.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// Its sketch, in a collection that keeps sketches.
    pub sketch: Option<Vec<u8>>,
    /// The number of its characters; `None` if similarities have weights, which say little of lengths.
    pub characters: Option<u32>,
}

impl Outline {
    pub(super) fn of(
        view: &View<'_>,
        collection: &Collection,
        id: &DocumentId,
    ) -> Result<Outline, StoreError> {
        let characters = view.row_head(collection.id, id)?.and_then(|row| row.characters);
        let characters = characters.filter(|_| collection.settings().weights.is_none());
        let is_signed = collection.signatures.is_some();
        let sketch = if is_signed { None } else { view.sketch(collection.id, id)? };
        Ok(Outline { sketch, characters })
    }

    /// What the text is to a near one, of which the similarity may be known; `None` if that cannot be told.
    pub(super) fn relation(&self, other: &Outline, similarity: Option<f64>) -> Option<TextRelation> {
        let sketched = || Some(sketch_similarity(self.sketch.as_deref()?, other.sketch.as_deref()?));
        let similarity = similarity.or_else(sketched)?;
        let found = Containment::estimated(similarity, self.characters?, other.characters?);
        Some(found.relation().unwrap_or(TextRelation::Duplicate))
    }
}

impl Engine {
    /// Completes the near documents of a text: their metadata, and what the text is to them.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub fn complete(
        &self,
        collection: &Collection,
        own: &Outline,
        matches: &mut [Match],
    ) -> Result<(), EngineError> {
        let view = self.shared.store.view();
        for found in matches {
            let Some(row) = view.row_head(collection.id, &found.id)? else { continue };
            found.metadata = row.metadata;
            if found.relation.is_none() && own.characters.is_some() {
                let sketch = match found.similarity {
                    None if own.sketch.is_some() => view.sketch(collection.id, &found.id)?,
                    _ => None,
                };
                let other = Outline { sketch, characters: row.characters };
                found.relation = own.relation(&other, found.similarity);
            }
        }
        Ok(())
    }
}
