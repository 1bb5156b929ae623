//! `lookalike healthcheck`: checks whether a server is ready, for containers, which have no other HTTP
//! client.
//!
//! Without `--url` it checks the address on which a server with the same settings listens. Over TLS it then
//! trusts the certificate of the settings and no other. The name and the dates of the certificate are not
//! checked: the server is on this machine, and is reached by its address. It sends no key, because `/readyz`
//! needs none.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reqwest::Method;

use super::Failure;
use super::client::{Access, Server};
use super::serve::ServeArguments;
use crate::config::Settings;
use lookalike_client::{Client, Trust};

#[derive(Debug, Args)]
pub(super) struct HealthcheckArguments {
    /// URL of the server; by default the one that the settings and the environment describe
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Settings file of the server, as `serve` reads it [env: `LOOKALIKE_CONFIG`]
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    config: Option<PathBuf>,
    #[command(flatten)]
    access: Access,
    /// Seconds to wait for the answer
    #[arg(long, default_value_t = 3, value_name = "SECONDS")]
    timeout: u64,
}

pub(super) async fn run(arguments: HealthcheckArguments) -> Result<(), Failure> {
    let client = match arguments.url {
        Some(url) => Server::at(url, arguments.access).client()?,
        None => client_of_settings(&ServeArguments::of_file(arguments.config).settings()?)?,
    };
    let request = client.request(Method::GET, "/readyz").timeout(Duration::from_secs(arguments.timeout));
    client.send(request).await?;
    println!("ready");
    Ok(())
}

fn client_of_settings(settings: &Settings) -> Result<Client, Failure> {
    let listen = settings.server.listen;
    let mut address = listen;
    if listen.ip().is_unspecified() {
        address.set_ip(if listen.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    let (scheme, trust) = match settings.tls.certificate.as_deref() {
        Some(certificate) => ("https", Trust::Own(certificate)),
        None => ("http", Trust::System),
    };
    Ok(Client::new(&format!("{scheme}://{address}"), None, trust)?)
}
