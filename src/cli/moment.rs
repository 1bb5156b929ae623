//! `lookalike restore --shared-log`: backups of all collections as they were at a moment, from the shared log
//! of replicas.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;

use super::output::Output;
use super::{Failure, restore};
use crate::config::{self, Settings};
use crate::server::engine_settings;
use lookalike_engine::Engine;
use lookalike_replica::go_back;
use lookalike_run::pool::{CpuPool, PoolLimits};
use lookalike_wording::counted;

/// The folder of the data while they are made.
const WORK: &str = "data.partial";
/// How long the data may take to close.
const CLOSE: Duration = Duration::from_secs(30);

/// A moment on the command line: `2026-11-20T12:00Z`, with or without seconds.
pub(super) fn moment(text: &str) -> Result<SystemTime, String> {
    let with_seconds = text.strip_suffix('Z').map(|minute| format!("{minute}:00Z"));
    let parsed = humantime::parse_rfc3339(text);
    let parsed = parsed
        .or_else(|error| with_seconds.and_then(|text| humantime::parse_rfc3339(&text).ok()).ok_or(error));
    parsed.map_err(|error| format!("{error}; give a time in UTC such as 2026-11-20T12:00Z"))
}

/// Writes the backups to a new folder.
pub(super) async fn run(url: &str, at: SystemTime, to: &Path) -> Result<(), Failure> {
    let wanted = config::read_shared_log(url);
    let url = wanted.ok_or_else(|| {
        let message =
            format!("--shared-log is {url:?}; give a URL such as s3://bucket/prefix or file:///folder");
        Failure { message, code: 2 }
    })?;
    let failed = |error| Failure::new(format!("{} cannot be made: {error}; name a new folder", to.display()));
    fs::create_dir(to).map_err(failed)?;
    let work = Work(to.join(WORK));
    let wall = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let permits = available_parallelism().map_or(1, NonZero::get);
    let pool = CpuPool::new(PoolLimits { permits, queue: 1, wait: Duration::from_secs(1) });
    // Documents that have expired since then are there.
    let settings =
        lookalike_engine::EngineSettings { wall_ms: || 0, ..engine_settings(&Settings::default()) };
    let origin = uuid::Uuid::new_v4().as_u128();
    let (engine, reached) = go_back((&url, wall(at)), &work.0, settings, pool, origin)
        .await
        .map_err(|error| Failure::of(&error, 1))?;
    let time =
        reached.time_ms.map(|ms| humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)));
    let time = time.map_or_else(String::new, |time| format!(", written at {time}"));
    eprintln!("the last entry is {}{time}", reached.position);
    let written = back_up(&engine, wall(at), to).await;
    engine.close(CLOSE).await;
    written
}

async fn back_up(engine: &Engine, now_ms: u64, to: &Path) -> Result<(), Failure> {
    let failed = |error: &dyn std::error::Error| Failure::new(error.to_string());
    for collection in engine.collections().map_err(|error| failed(&error))? {
        let path = to.join(format!("{}.tar", collection.name));
        let mut output = Output::open(Some(path.clone()))?;
        let mut pieces = engine.backup(&collection.name, now_ms).map_err(|error| failed(&error))?;
        while let Some(piece) = pieces.next().await {
            output.write(&piece.map_err(|error| failed(&error))?)?;
        }
        if let Some(summary) = output.finish(restore::check).await? {
            println!("{}: {}", path.display(), counted(summary.documents, "document"));
        }
    }
    Ok(())
}

/// The data while they are made, which are removed when this is dropped.
struct Work(PathBuf);

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
