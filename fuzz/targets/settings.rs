//! Fuzz target for settings files, key files, profile files, and environment variables.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use lookalike::config;
use lookalike_keys::KeyFile;
use lookalike_text::profiles;
use tempfile::TempDir;

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| {
    // In memory if possible, because each run writes a file.
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a directory")
});

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let path = DIRECTORY.path().join("file.toml");
    let text = String::from_utf8_lossy(bytes).into_owned();
    let load = |variables: Vec<(String, String)>| {
        let _ = config::load(None, variables.into_iter(), &[]);
    };
    match kind % 5 {
        0 => {
            std::fs::write(&path, bytes).expect("a file");
            let _ = config::load(Some(&path), std::iter::empty(), &[]);
        }
        1 => {
            std::fs::write(&path, bytes).expect("a file");
            let _ = KeyFile::at(&path).read();
        }
        2 => {
            // `profiles::load` keeps definitions for the life of the process: skip inputs without one, to
            // save memory.
            if text.contains("like") || text.contains('[') {
                std::fs::write(&path, bytes).expect("a file");
                let _ = profiles::load(Some(&path));
            }
        }
        3 => load(vec![("LOOKALIKE_STORE__CACHE_BYTES".to_owned(), text)]),
        _ => load(vec![(format!("LOOKALIKE_{text}"), "1".to_owned())]),
    }
});
