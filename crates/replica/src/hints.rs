//! Hints: a server that has appended an entry tells the others, which then look for it at once.
//!
//! *Absent*: any trust in a hint, and repetition. Without it an entry is found up to a second later.

use std::time::Duration;

use futures::future::{join_all, pending};
use reqwest::Method;

use super::Replicas;
use lookalike_client::{Client, ClientError, Trust};

/// How long a hint may take.
const WITHIN: Duration = Duration::from_secs(1);
/// The time without hints after a server has not taken one.
const PAUSE: Duration = Duration::from_secs(2);

impl Replicas {
    /// Takes the hint of another server that there is an entry.
    pub fn hint(&self, position: u64) {
        self.log.hint(position);
    }

    pub(super) async fn keep_hinting(&self) {
        let mut peers = self.peers.subscribe();
        loop {
            let addresses = peers.borrow_and_update().clone();
            let hints = join_all(addresses.iter().map(|address| self.hint_to(address)));
            tokio::select! {
                _ = hints, if !addresses.is_empty() => {}
                _ = peers.changed() => {}
            }
        }
    }

    /// Sends hints to a server, one at a time.
    async fn hint_to(&self, address: &str) {
        let client = match self.peer(address) {
            Ok(client) => client,
            Err(error) => {
                tracing::warn!(%error, address, "a server is not told of new entries");
                return pending().await;
            }
        };
        let (mut appended, mut is_silent) = (self.log.appended(), false);
        while appended.changed().await.is_ok() {
            let position = *appended.borrow_and_update();
            let request = client.request(Method::POST, &format!("/replicas/hint?position={position}"));
            let sent = client.send(request.timeout(WITHIN)).await;
            if let Err(error) = &sent {
                if !is_silent {
                    tracing::warn!(%error, address, "a server was not told of a new entry");
                }
                tokio::time::sleep(PAUSE).await;
            }
            is_silent = sent.is_err();
        }
    }

    /// A client of another server.
    fn peer(&self, address: &str) -> Result<Client, ClientError> {
        let trust = self.settings.peer_ca_file.as_deref().map_or(Trust::System, Trust::Authorities);
        Client::new(address, self.settings.peer_key.clone(), trust)
    }
}
