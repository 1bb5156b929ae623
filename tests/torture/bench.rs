//! The test bench: a data directory, its ledger, and a seed. After a failure directory and ledger are kept
//! and their path is printed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fastrand::Rng;
use tempfile::TempDir;

use crate::audit::{Seen, audit};
use crate::ledger::Ledger;
use crate::server::{self, Server};

/// Frequent snapshots and checkpoints, so that every kind of disk operation is frequent.
pub const OFTEN: &[(&str, &str)] = &[
    ("LOOKALIKE_SNAPSHOTS__EVERY_CHANGES", "60"),
    ("LOOKALIKE_SNAPSHOTS__EVERY_SECONDS", "1"),
    ("LOOKALIKE_STORE__JOURNAL_BYTES", "65536"),
];

/// Frequent checkpoints, and snapshots only on request, so that the sequence of disk operations is
/// reproducible.
pub const SHORT: &[(&str, &str)] =
    &[("LOOKALIKE_STORE__JOURNAL_BYTES", "65536"), ("LOOKALIKE_LIMITS__WRITE_MS", "60000")];

/// A data directory and its ledger.
pub struct Bench {
    /// Held for its `Drop`, which keeps or deletes the directory.
    _dir: KeptOnFailure,
    pub data: PathBuf,
    pub ledger: Arc<Ledger>,
}

impl Bench {
    pub fn new() -> Bench {
        let dir = server::directory();
        let data = dir.path().join("data");
        let ledger = Arc::new(Ledger::new(&dir.path().join("ledger")));
        Bench { _dir: KeptOnFailure(Some(dir)), data, ledger }
    }

    /// A bench whose data is stored on this disk. Its ledger is not.
    pub fn on(disk: &Path) -> Bench {
        Bench { data: disk.join("data"), ..Bench::new() }
    }

    /// An empty directory with a copy of this ledger.
    pub fn elsewhere(&self) -> Bench {
        let bench = Bench::new();
        let ledger = Arc::new(self.ledger.fork(&bench.data.with_file_name("ledger")));
        Bench { ledger, ..bench }
    }

    /// A copy of the directory and of the ledger.
    pub fn fork(&self) -> Bench {
        let dir = server::directory();
        let data = dir.path().join("data");
        if self.data.exists() {
            copy(&self.data, &data);
        }
        let ledger = Arc::new(self.ledger.fork(&dir.path().join("ledger")));
        Bench { _dir: KeptOnFailure(Some(dir)), data, ledger }
    }

    /// Compares the server with the ledger; panics if they differ.
    pub async fn audit(&self, server: &Server, when: &str) -> Seen {
        match audit(server, &self.ledger).await {
            Ok(seen) => seen,
            Err(violations) => {
                let shown: Vec<String> = violations.iter().take(10).cloned().collect();
                panic!(
                    "{when}: {} violations:\n{}\nlog:\n{}",
                    violations.len(),
                    shown.join("\n"),
                    server.log()
                )
            }
        }
    }
}

/// A directory that is kept if the test fails.
struct KeptOnFailure(Option<TempDir>);

impl Drop for KeptOnFailure {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = self.0.take().map(TempDir::keep);
            eprintln!("data directory and ledger are kept in {}", kept.unwrap_or_default().display());
        }
    }
}

/// Copies a file or a directory; sparse files stay sparse.
pub fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    assert!(command.args(["-a", "--sparse=auto", "--"]).args([from, to]).status().unwrap().success());
}

/// The number of cycles of a test: `short`, unless `LOOKALIKE_TORTURE_CYCLES` is set.
pub fn cycles(short: usize) -> usize {
    number("LOOKALIKE_TORTURE_CYCLES").map_or(short, |cycles| cycles as usize)
}

/// The random generator of this run, with the seed of `LOOKALIKE_TORTURE_SEED` or 1.
pub fn seeded() -> Rng {
    Rng::with_seed(number("LOOKALIKE_TORTURE_SEED").unwrap_or(1))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}
