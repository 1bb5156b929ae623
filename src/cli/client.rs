//! The parts that all commands for a server share: its address, the key, a runtime, and error messages.

use std::future::Future;
use std::path::PathBuf;

use clap::Args;

use super::Failure;
use lookalike_client::{Client, ClientError, Trust};
use lookalike_hash::CollectionName;

#[derive(Clone, Debug, Args)]
pub(super) struct Server {
    /// URL of the server
    #[arg(long, default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,
    #[command(flatten)]
    access: Access,
}

#[derive(Clone, Debug, Default, Args)]
pub(super) struct Access {
    /// Key, if the server requires one; prefer the variable, which the process list does not show
    #[arg(long, env = "LOOKALIKE_KEY", hide_env_values = true, value_name = "KEY")]
    key: Option<String>,
    /// For a server with TLS: trust the certificates of this PEM file instead of those of the system
    #[arg(long, env = "LOOKALIKE_CACERT", value_name = "FILE")]
    cacert: Option<PathBuf>,
}

impl Server {
    /// The server at this URL.
    pub(super) fn at(url: String, access: Access) -> Server {
        Server { url, access }
    }

    /// Creates a client of this server.
    pub(super) fn client(self) -> Result<Client, Failure> {
        let trust = self.access.cacert.as_deref().map_or(Trust::System, Trust::Authorities);
        Ok(Client::new(&self.url, self.access.key, trust)?)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            // This error has no cause to append.
            ClientError::Refused { .. } => Failure::new(error.to_string()),
            _ => Failure::of(&error, 1),
        }
    }
}

/// The route of a collection.
pub(super) fn collection_route(collection: &CollectionName, route: &str) -> String {
    format!("/collections/{collection}{route}")
}

/// Parses a collection's name on the command line.
pub(super) fn collection_name(text: &str) -> Result<CollectionName, String> {
    CollectionName::new(text).map_err(|error| error.to_string())
}

pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
