//! Damaged stores: the server refuses to start, `verify` reports the file and the byte, `repair` saves the
//! readable rows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{Server, command, directory};

const DOCUMENTS: u64 = 400;

/// A data directory with one collection of documents with metadata, and one collection with one long text.
/// Every fourth of the documents with metadata has the same hash. All data is flushed to tables.
async fn filled() -> TempDir {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (status, answer) = server.put("/collections/texts", json!({"keep_text": true})).await;
    assert!(status.is_success(), "{answer}");
    let lines: String = (0..DOCUMENTS).map(|i| format!("{}\n", document(i))).collect();
    let summary = server.stream("/documents", lines).await.1;
    assert_eq!(summary["created"], DOCUMENTS, "{summary}");
    let long: String = (0..3_000).map(|i| format!("word{i} ")).collect();
    let (status, answer) =
        server.post("/collections/texts/documents", json!({"id": "long", "text": long})).await;
    assert!(status.is_success(), "{answer}");
    assert!(server.stop().success());
    data
}

fn document(i: u64) -> serde_json::Value {
    let hash = if i.is_multiple_of(4) { 0 } else { i << 20 };
    json!({"id": i.to_string(), "hash": format!("{hash:016x}"), "metadata": {"place": i}})
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = command(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn verify(data: &Path) -> (i32, String, String) {
    run(&["verify", data.to_str().unwrap()])
}

/// Exit code and output of a repair.
#[derive(Debug)]
struct Repair {
    code: i32,
    stdout: String,
}

impl Repair {
    /// The numbers in the last line that begins with this word.
    fn numbers(&self, word: &str) -> Vec<u64> {
        let line = self.stdout.lines().rfind(|line| line.starts_with(word)).expect(&self.stdout);
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    }
}

fn repair_with(data: &Path, to: &Path, more: &[&str]) -> Repair {
    let arguments = ["repair", data.to_str().unwrap(), "--to", to.to_str().unwrap()];
    let (code, stdout, stderr) = run(&[&arguments[..], more].concat());
    assert!(
        code == 0 && stderr.is_empty() || code == 3 && stderr.contains("not complete"),
        "{code} {stdout}{stderr}"
    );
    assert!(!stdout.contains("panicked") && !stderr.contains("panicked"), "{stdout}{stderr}");
    Repair { code, stdout }
}

fn repair(data: &Path, to: &Path) -> Repair {
    repair_with(data, to, &[])
}

/// The exported documents of a collection, by id.
type Exported = BTreeMap<String, Value>;

async fn exported(server: &Server, collection: &str) -> Exported {
    let lines = server.export(&format!("/collections/{collection}/export")).await;
    let documents = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    documents.map(|document| (document["id"].as_str().unwrap().to_owned(), document)).collect()
}

/// Every file below a directory, with its contents.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            found.push((path, bytes));
        }
    }
    found.sort();
    found
}

fn largest(dir: &Path) -> PathBuf {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn every_damaged_file_is_reported_and_left_unchanged() {
    let data = filled().await;
    let (code, stdout, stderr) = verify(data.path());
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.contains("is sound"), "{stdout}");
    let store = data.path().join("store");
    let mut cases = 0;
    for (path, good) in contents(&store) {
        let name = path.strip_prefix(&store).unwrap();
        let current = fs::read(path.parent().unwrap().join("current"));
        let is_old_version = current
            .is_ok_and(|now| name.file_name().unwrap().to_str() != Some(&format!("v{}", now[0])))
            && name.file_name().unwrap().to_str().unwrap().starts_with('v');
        if good.is_empty() || is_old_version {
            continue;
        }
        for at in [0, good.len() / 2, good.len() - 1] {
            // The file `mark` has two slots, one of which is sufficient, and unused bytes: damage all of it.
            if path.ends_with("mark") {
                fs::write(&path, vec![1; good.len()]).unwrap();
            } else {
                flip(&path, at);
            }
            let before = contents(data.path());
            let serve = run(&["serve", "--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()]);
            assert_eq!(serve.0, 65, "{} at {at}: {}", name.display(), serve.2);
            let (code, stdout, stderr) = verify(data.path());
            assert_eq!(code, 65, "{} at {at}: {stdout}{stderr}", name.display());
            // A damaged pointer to a version is reported as a version that does not match, by its directory.
            let named = if path.ends_with("current") { path.parent().unwrap() } else { &path };
            assert!(stdout.contains(named.to_str().unwrap()), "{} at {at}: {stdout}", name.display());
            assert!(stdout.contains("at byte"), "{stdout}");
            assert!(contents(data.path()) == before, "{} at {at}: something was changed", name.display());
            fs::write(&path, &good).unwrap();
            cases += 1;
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(verify(data.path()).0, 65, "{} deleted", name.display());
        fs::write(&path, &good).unwrap();
    }
    assert!(cases > 40, "only {cases} places were tried");
    assert_eq!(verify(data.path()).0, 0);
}

#[tokio::test]
async fn verify_writes_nothing_without_a_lock_file() {
    let data = filled().await;
    let lock = data.path().join("store/LOCK");
    let (code, stdout, stderr) = verify(data.path());
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    fs::remove_file(&lock).unwrap();
    let (code, stdout, stderr) = verify(data.path());
    assert!(code == 0 && stdout.contains("is sound"), "{stdout}{stderr}");
    assert!(stderr.contains("LOCK cannot be opened") && stderr.contains("without a lock"), "{stderr}");
    assert!(!lock.exists());
}

#[tokio::test]
async fn verify_reports_the_offset_of_a_flipped_bit() {
    let data = filled().await;
    let table = largest(&data.path().join("store/rows/tables"));
    flip(&table, 5_000);
    let (_, stdout, _) = verify(data.path());
    let offset = stdout.split("at byte ").nth(1).unwrap().split(':').next().unwrap();
    let offset: usize = offset.parse().unwrap();
    assert!(offset <= 5_000 && offset > 0, "{stdout}");
}

/// Compares documents with their originals: how many are complete, and how many have only their hash.
fn compared(collection: &str, found: &Exported, good: &Exported) -> (u64, u64) {
    let (mut whole, mut reduced) = (0, 0);
    for (id, found) in found {
        let good = &good[id];
        if found == good {
            whole += 1;
            continue;
        }
        // An export has the text instead of the hash if the text is stored.
        assert!(good.get("hash").is_none_or(|hash| *hash == found["hash"]), "{collection}/{id}: {found}");
        assert!(found.get("metadata").is_none() && found.get("text").is_none(), "{found}");
        reduced += 1;
    }
    (whole, reduced)
}

async fn export_both(data: &Path) -> Vec<(&'static str, Exported)> {
    let server = Server::start(data).await;
    let both =
        vec![("default", exported(&server, "default").await), ("texts", exported(&server, "texts").await)];
    assert!(server.stop().success());
    both
}

/// An offset in a file, and whether it is in a data block.
#[derive(Debug)]
struct Region {
    at: usize,
    is_data_block: bool,
}

/// Offsets of the blocks of a table in ascending order; empty for other files.
fn blocks(bytes: &[u8]) -> Vec<usize> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at + 40 < bytes.len() {
        if bytes[at..].starts_with(b"LSM\x03") {
            found.push(at);
            // Skip the contents of the block, which may contain the magic bytes of a block.
            at += 33 + u32::from_le_bytes(bytes[at + 21..at + 25].try_into().unwrap()) as usize;
        } else {
            at += 1;
        }
    }
    found
}

/// Offsets in each part of a file: in header and contents of the first, the middle and the last block of
/// every kind; at the end of a file; and in three places of a file without blocks.
fn regions(bytes: &[u8]) -> Vec<Region> {
    let blocks = blocks(bytes);
    let mut found = Vec::new();
    for kind in 0..4 {
        let of: Vec<usize> = blocks.iter().copied().filter(|at| bytes[at + 4] == kind).collect();
        let mut some: Vec<usize> = [0, of.len() / 2, of.len().wrapping_sub(1)]
            .into_iter()
            .filter_map(|at| of.get(at).copied())
            .collect();
        some.dedup();
        for at in some.into_iter().flat_map(|at| [at, at + 4, at + 6, at + 40]) {
            found.push(Region { at, is_data_block: kind == 0 });
        }
    }
    for at in [0, bytes.len() / 3, bytes.len().saturating_sub(20), bytes.len() - 1] {
        if blocks.is_empty() || at > bytes.len() - 30 {
            found.push(Region { at, is_data_block: false });
        }
    }
    found
}

#[tokio::test]
async fn a_flipped_bit_loses_only_the_rows_of_its_block() {
    let data = filled().await;
    let good = export_both(data.path()).await;
    let all = DOCUMENTS + 1;
    let store = data.path().join("store");
    let before = contents(&store);
    let (mut complete, mut partial) = (0, 0);
    for (path, bytes) in before.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let name = path.strip_prefix(&store).unwrap().to_str().unwrap();
        for region in regions(bytes) {
            flip(path, region.at);
            let home = directory();
            let to = home.path().join("new");
            let done = repair(data.path(), &to);
            let case = format!("{name} {region:?}: {done:?}");
            fs::write(path, bytes).unwrap();
            let server = Server::start(&to).await;
            let (mut whole, mut reduced) = (0, 0);
            for (collection, good) in &good {
                let counts = compared(collection, &exported(&server, collection).await, good);
                (whole, reduced) = (whole + counts.0, reduced + counts.1);
            }
            drop(server);
            assert_eq!(done.numbers("documents:"), [whole, whole + reduced, reduced, 0], "{case}");
            let lost = done.numbers("lost:");
            if name.starts_with("rows/tables/") && region.is_data_block {
                // The damaged block may also have the entries of the two collections.
                let missing = all - whole;
                assert!(missing > 0 && (missing..=missing + 2).contains(&lost[1]), "{case}");
                assert_eq!((done.code, lost[0], lost[2]), (3, 1, 0), "{case}");
                partial += 1;
            } else if name.starts_with("rows/blobs/") && whole < all {
                assert_eq!((done.code, whole), (3, all - 1), "{case}");
                assert!(done.stdout.contains("1 of which only the key reads back"), "{case}");
                partial += 1;
            } else {
                assert_eq!((done.code, whole, lost), (0, all, vec![0, 0, 0]), "{case}");
                complete += 1;
            }
        }
    }
    assert!(contents(&store) == before, "the damaged directory was changed");
    assert!(complete > 60 && partial > 8, "{complete} complete, {partial} partial");
}

#[tokio::test]
async fn a_lost_change_makes_adjacent_rows_uncertain() {
    let data = filled().await;
    let server = Server::start(data.path()).await;
    assert!(server.delete("/documents/7").await.is_success());
    server.post("/documents", json!({"id": "8", "hash": "00000000000000ff"})).await;
    assert!(server.stop().success());
    let newest =
        fs::read_dir(data.path().join("store/rows/tables")).unwrap().map(|entry| entry.unwrap().path());
    let newest =
        newest.max_by_key(|path| path.file_name().unwrap().to_str().unwrap().parse::<u64>().unwrap());
    flip(&newest.unwrap(), 50);
    let home = directory();
    let done = repair(data.path(), &home.path().join("new"));
    assert_eq!(done.code, 3, "{done:?}");
    assert!(
        done.stdout.contains("1 block does not read back, with 2 entries, 1 of them deletions"),
        "{done:?}"
    );
    // The lost deletion and the lost hash make all ids from "7" to "8" uncertain.
    let between =
        (0..DOCUMENTS).map(|i| i.to_string()).filter(|id| ("7"..="8").contains(&id.as_str())).count();
    assert_eq!(done.numbers("documents:"), [DOCUMENTS + 1, DOCUMENTS + 1, 0, between as u64], "{done:?}");
    assert_eq!(
        done.numbers("collection 1"),
        [1, DOCUMENTS, DOCUMENTS, DOCUMENTS - 1, between as u64],
        "{done:?}"
    );
}

#[tokio::test]
async fn a_collection_without_settings_needs_a_profile_from_the_user() {
    let data = filled().await;
    let good = export_both(data.path()).await;
    let store = data.path().join("store");
    // Damage both copies of the settings.
    for tree in ["meta", "rows"] {
        let table = largest(&store.join(tree).join("tables"));
        let bytes = fs::read(&table).unwrap();
        let last = blocks(&bytes).into_iter().rfind(|at| bytes[at + 4] == 0).unwrap();
        flip(&table, last + 40);
    }
    let home = directory();
    let place = |name: &str| home.path().join(name);
    let done = repair(data.path(), &place("without-profile"));
    assert_eq!(done.code, 3, "{done:?}");
    assert!(
        done.stdout.contains("collection 1 (settings lost)") && done.stdout.contains("--profile 1=PROFILE"),
        "{done:?}"
    );
    let [read, written] = done.numbers("documents:")[..2] else { panic!("{done:?}") };
    assert!(read > 300 && written == 0, "{done:?}");

    let done = repair_with(data.path(), &place("with-profile"), &["--profile", "1=copies-64"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.stdout.contains("collection 1 (recovered-1)"), "{done:?}");
    let server = Server::start(&place("with-profile")).await;
    let found = exported(&server, "recovered-1").await;
    let (whole, reduced) = compared("recovered-1", &found, &good[0].1);
    assert_eq!(done.numbers("collection 1 (")[1..4], [1, whole, whole + reduced], "{done:?}");
    assert_eq!((whole, whole + reduced), (read, DOCUMENTS), "{done:?}");
    drop(server);
    let (code, _, stderr) = run(&["repair", "x", "--to", "y", "--profile", "1"]);
    assert!(code == 2 && stderr.contains("NUMBER=PROFILE"), "{code} {stderr}");
}

#[tokio::test]
async fn a_repair_needs_an_empty_target_and_a_store() {
    let data = filled().await;
    let home = directory();
    assert_eq!(repair(data.path(), &home.path().join("whole")).code, 0);
    let (dir, to) = (data.path().to_str().unwrap(), home.path().join("whole"));
    let (code, _, stderr) = run(&["repair", dir, "--to", to.to_str().unwrap()]);
    assert!(code == 1 && stderr.contains("is not empty"), "{code} {stderr}");
    let (none, new) = (home.path().join("none"), home.path().join("new"));
    let (code, _, stderr) = run(&["repair", none.to_str().unwrap(), "--to", new.to_str().unwrap()]);
    assert!(code == 1 && stderr.contains("cannot be read") && !new.exists(), "{code} {stderr}");
    let server = Server::start(data.path()).await;
    let (code, _, stderr) = run(&["repair", dir, "--to", new.to_str().unwrap()]);
    assert!(code == 1 && stderr.contains("in use by another process"), "{code} {stderr}");
    drop(server);
}

#[tokio::test]
async fn readable_batches_of_a_damaged_journal_are_saved() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for i in 0..20 {
        server.post("/documents", document(i)).await;
    }
    server.kill();
    let journal = largest(&data.path().join("store/journal"));
    let bytes = fs::read(&journal).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    flip(&journal, used / 2);
    let serve = run(&["serve", "--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()]);
    assert_eq!(serve.0, 65);
    assert!(serve.2.contains(journal.to_str().unwrap()) && serve.2.contains("at byte"), "{}", serve.2);
    let to = directory();
    let done = repair(data.path(), &to.path().join("new"));
    let server = Server::start(&to.path().join("new")).await;
    let kept = server.documents().await;
    assert_eq!((done.code, kept), (3, 19), "{done:?}");
    assert_eq!(done.numbers("lost:"), [0, 0, 1], "{done:?}");
    // The lost batch may have changed documents that were written before it.
    let [read, written, reduced, uncertain] = done.numbers("documents:")[..] else { panic!("{done:?}") };
    assert_eq!((read, written, reduced), (19, 19, 0), "{done:?}");
    assert!((1..19).contains(&uncertain), "{done:?}");
}
