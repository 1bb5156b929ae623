//! `lookalike healthcheck`: for containers, which have no other program to ask with.

use std::time::Duration;

use clap::Args;

use super::Failure;
use super::client::{Server, checked, client};

#[derive(Debug, Args)]
pub(super) struct HealthcheckArguments {
    #[command(flatten)]
    server: Server,
    /// Seconds to wait for the answer
    #[arg(long, default_value_t = 3, value_name = "SECONDS")]
    timeout: u64,
}

pub(super) async fn run(arguments: HealthcheckArguments) -> Result<(), Failure> {
    let request =
        client()?.get(arguments.server.route("/readyz")).timeout(Duration::from_secs(arguments.timeout));
    let response = request.send().await.map_err(|error| arguments.server.unreachable(&error))?;
    checked(response).await?;
    println!("ready");
    Ok(())
}
