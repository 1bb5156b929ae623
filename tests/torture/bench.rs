//! What every torture has: a data directory, its ledger, a seed. After a failure both are kept and named.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fastrand::Rng;
use tempfile::TempDir;

use crate::audit::{Seen, audit};
use crate::ledger::Ledger;
use crate::server::{self, Server};

/// Snapshots and checkpoints as often as can be, so that everything that happens on the disk happens often.
pub const OFTEN: &[(&str, &str)] = &[
    ("LOOKALIKE_SNAPSHOTS__EVERY_CHANGES", "60"),
    ("LOOKALIKE_SNAPSHOTS__EVERY_SECONDS", "1"),
    ("LOOKALIKE_STORE__JOURNAL_BYTES", "65536"),
];

/// Checkpoints as often as can be, snapshots when they are asked for: what happens is the same each time.
pub const SHORT: &[(&str, &str)] =
    &[("LOOKALIKE_STORE__JOURNAL_BYTES", "65536"), ("LOOKALIKE_LIMITS__WRITE_MS", "60000")];

/// A data directory and what is known of it.
pub struct Bench {
    /// For what its end does.
    _dir: Kept,
    pub data: PathBuf,
    pub ledger: Arc<Ledger>,
}

impl Bench {
    pub fn new() -> Bench {
        let dir = server::directory();
        let data = dir.path().join("data");
        let ledger = Arc::new(Ledger::new(&dir.path().join("ledger")));
        Bench { _dir: Kept(Some(dir)), data, ledger }
    }

    /// One whose data lies on a disk of its own. The ledger does not.
    pub fn on(disk: &Path) -> Bench {
        Bench { data: disk.join("data"), ..Bench::new() }
    }

    /// An empty directory for what is known here.
    pub fn elsewhere(&self) -> Bench {
        let bench = Bench::new();
        let ledger = Arc::new(self.ledger.fork(&bench.data.with_file_name("ledger")));
        Bench { ledger, ..bench }
    }

    /// A copy of this one, of the directory as it is and of what is known.
    pub fn fork(&self) -> Bench {
        let dir = server::directory();
        let data = dir.path().join("data");
        if self.data.exists() {
            copy(&self.data, &data);
        }
        let ledger = Arc::new(self.ledger.fork(&dir.path().join("ledger")));
        Bench { _dir: Kept(Some(dir)), data, ledger }
    }

    /// Compares the server with the ledger; the test ends if they differ.
    pub async fn audit(&self, server: &Server, when: &str) -> Seen {
        match audit(server, &self.ledger).await {
            Ok(seen) => seen,
            Err(wrong) => {
                let shown: Vec<String> = wrong.iter().take(10).cloned().collect();
                panic!("{when}: {} violations:\n{}\nlog:\n{}", wrong.len(), shown.join("\n"), server.log())
            }
        }
    }
}

/// A directory that stays if the test fails.
struct Kept(Option<TempDir>);

impl Drop for Kept {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = self.0.take().map(TempDir::keep);
            eprintln!("data directory and ledger are kept in {}", kept.unwrap_or_default().display());
        }
    }
}

/// Copies a file or a directory; files that are mostly holes stay so.
pub fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    assert!(command.args(["-a", "--sparse=auto", "--"]).args([from, to]).status().unwrap().success());
}

/// How many cycles a test runs: its short form, unless the long one is asked for.
pub fn cycles(short: usize) -> usize {
    number("LOOKALIKE_TORTURE_CYCLES").map_or(short, |cycles| cycles as usize)
}

/// The course of events of this run.
pub fn seeded() -> Rng {
    Rng::with_seed(number("LOOKALIKE_TORTURE_SEED").unwrap_or(1))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}
