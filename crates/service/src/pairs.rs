//! All pairs of near documents of a collection.
//!
//! *Absent*: their order and the rounds in which they are found (`engine`).

use super::Service;
use super::error::ServiceError;
use lookalike_engine::{DocumentPair, Pairs};
use lookalike_hash::{CollectionName, SignatureShape};

impl Service {
    /// Reads the documents of a collection to return its pairs within `k`, or of at least the similarity
    /// `threshold`, those after `after`. Also returns the shape of the compared signatures, if there are any.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if the distance is invalid, the list of another request is being returned, or
    /// there is too little memory.
    pub async fn pairs(
        &self,
        name: &CollectionName,
        k: Option<u32>,
        threshold: Option<f64>,
        after: Option<DocumentPair>,
    ) -> Result<(Box<Pairs>, Option<SignatureShape>), ServiceError> {
        let engine = self.engine()?;
        let collection = engine.find(name)?;
        let k = collection.reach(k, threshold)?;
        Ok((Box::new(engine.pairs(&collection, k, after).await?), collection.signatures()))
    }

    /// The next pairs, and the rest; `None` if there are no more.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if there is too little memory or the server shuts down.
    pub async fn next_pairs(
        &self,
        pairs: Box<Pairs>,
    ) -> Result<Option<(Vec<DocumentPair>, Box<Pairs>)>, ServiceError> {
        Ok(self.engine()?.next_pairs(pairs).await?)
    }
}
