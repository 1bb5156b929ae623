//! `lookalike healthcheck`: checks whether a server is ready, for containers, which have no other HTTP
//! client.
//!
//! Without `--url` it checks the address on which a server with the same settings listens.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use clap::Args;
use reqwest::Method;

use super::Failure;
use super::client::{Access, Server};
use super::serve::ServeArguments;

#[derive(Debug, Args)]
pub(super) struct HealthcheckArguments {
    /// URL of the server; by default the one that the settings and the environment describe
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    access: Access,
    /// Seconds to wait for the answer
    #[arg(long, default_value_t = 3, value_name = "SECONDS")]
    timeout: u64,
}

pub(super) async fn run(arguments: HealthcheckArguments) -> Result<(), Failure> {
    let url = match arguments.url {
        Some(url) => url,
        None => url_of_settings()?,
    };
    let client = Server::at(url, arguments.access).client()?;
    let request = client.request(Method::GET, "/readyz").timeout(Duration::from_secs(arguments.timeout));
    client.send(request).await?;
    println!("ready");
    Ok(())
}

fn url_of_settings() -> Result<String, Failure> {
    let settings = ServeArguments::default().settings()?;
    let listen = settings.server.listen;
    let mut address = listen;
    if listen.ip().is_unspecified() {
        address.set_ip(if listen.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    let scheme = if settings.tls.certificate.is_some() { "https" } else { "http" };
    Ok(format!("{scheme}://{address}"))
}
