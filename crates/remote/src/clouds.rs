//! Stores of S3, Google Cloud Storage and Azure, with what the environment says about them.

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientConfigKey, ObjectStore, Result, RetryConfig};

use super::address::{Kind, is_plain_loopback};
use super::cloud::REQUEST;

/// The store of a bucket or container.
pub(super) fn connect(kind: Kind, place: &str, retries: RetryConfig) -> Result<Arc<dyn ObjectStore>> {
    let timeout = ClientConfigKey::Timeout;
    Ok(match kind {
        Kind::Google => {
            let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(place).with_retry(retries);
            Arc::new(builder.with_config(GoogleConfigKey::Client(timeout), REQUEST).build()?)
        }
        Kind::Azure => {
            let builder = MicrosoftAzureBuilder::from_env().with_container_name(place).with_retry(retries);
            Arc::new(builder.with_config(AzureConfigKey::Client(timeout), REQUEST).build()?)
        }
        _ => {
            let builder = AmazonS3Builder::from_env().with_bucket_name(place).with_retry(retries);
            let builder = builder.with_config(AmazonS3ConfigKey::Client(timeout), REQUEST);
            let endpoints = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
            let is_plain = |name: &&str| std::env::var(name).is_ok_and(|url| is_plain_loopback(&url));
            let is_plain = endpoints.iter().any(is_plain);
            Arc::new(if is_plain { builder.with_allow_http(true) } else { builder }.build()?)
        }
    })
}
