//! Backups of collections, out and in.

use super::Service;
use super::error::ServiceError;
use crate::engine::{CollectionInfo, Incoming, Pieces, Restored};
use crate::ids::CollectionName;

impl Service {
    /// A backup of a collection as of this moment.
    ///
    /// # Errors
    /// [`ServiceError`] if none can be begun.
    pub async fn backup(&self, collection: &CollectionName) -> Result<Pieces, ServiceError> {
        Ok(self.engine()?.backup(collection, self.now_ms()).await?)
    }

    /// Makes a collection of a backup, and tells how it stands.
    ///
    /// # Errors
    /// [`ServiceError`]; there is no such collection then.
    pub async fn restore(
        &self,
        collection: &CollectionName,
        tar: Incoming,
    ) -> Result<(Restored, CollectionInfo), ServiceError> {
        let engine = self.engine()?;
        let restored = engine.restore(collection, tar).await?;
        Ok((restored, engine.collection(collection).await?))
    }
}
