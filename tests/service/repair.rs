//! Damaged stores: the server refuses them, `verify` names the place, `repair` saves what can be read.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use crate::server::{Server, command, directory, ids};

const DOCUMENTS: u64 = 400;

/// Documents with metadata, every fourth with a hash that it shares, and a long text each tenth; written out to tables.
async fn filled() -> TempDir {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (status, said) = server.put("/collections/texts", json!({"keep_text": true})).await;
    assert!(status.is_success(), "{said}");
    let lines: String = (0..DOCUMENTS).map(|i| format!("{}\n", document(i))).collect();
    let summary = server.stream("/documents", lines).await.1;
    assert_eq!(summary["created"], DOCUMENTS, "{summary}");
    let long: String = (0..3_000).map(|i| format!("word{i} ")).collect();
    let (status, said) =
        server.post("/collections/texts/documents", json!({"id": "long", "text": long})).await;
    assert!(status.is_success(), "{said}");
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

fn repair(data: &Path, to: &Path) -> String {
    let (code, said, failed) =
        run(&["repair", data.to_str().unwrap(), "--to", to.to_str().unwrap(), "--accept-loss"]);
    assert_eq!(code, 0, "{said}{failed}");
    said
}

/// Every file below a directory with its bytes.
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
async fn every_damaged_file_is_refused_by_name_and_left_as_it_is() {
    let data = filled().await;
    let (code, said, failed) = verify(data.path());
    assert_eq!(code, 0, "{said}{failed}");
    assert!(said.contains("is sound"), "{said}");
    let store = data.path().join("store");
    let mut tried = 0;
    for (path, good) in contents(&store) {
        let name = path.strip_prefix(&store).unwrap();
        let current = fs::read(path.parent().unwrap().join("current"));
        let of_old_version = current
            .is_ok_and(|now| name.file_name().unwrap().to_str() != Some(&format!("v{}", now[0])))
            && name.file_name().unwrap().to_str().unwrap().starts_with('v');
        if good.is_empty() || of_old_version {
            continue;
        }
        for at in [0, good.len() / 2, good.len() - 1] {
            // Every byte of the mark but those of its two slots is spare, and one slot is enough.
            if path.ends_with("mark") {
                fs::write(&path, vec![1; good.len()]).unwrap();
            } else {
                flip(&path, at);
            }
            let before = contents(data.path());
            let serve = run(&["serve", "--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()]);
            assert_eq!(serve.0, 65, "{} at {at}: {}", name.display(), serve.2);
            let (code, said, failed) = verify(data.path());
            assert_eq!(code, 65, "{} at {at}: {said}{failed}", name.display());
            // A wrong pointer to a version shows as a version that does not fit.
            let named = if path.ends_with("current") { path.parent().unwrap() } else { &path };
            assert!(said.contains(named.to_str().unwrap()), "{} at {at}: {said}", name.display());
            assert!(said.contains("at byte"), "{said}");
            assert!(contents(data.path()) == before, "{} at {at}: something was changed", name.display());
            fs::write(&path, &good).unwrap();
            tried += 1;
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(verify(data.path()).0, 65, "{} deleted", name.display());
        fs::write(&path, &good).unwrap();
    }
    assert!(tried > 40, "only {tried} places were tried");
    assert_eq!(verify(data.path()).0, 0);
}

#[tokio::test]
async fn verify_writes_nothing_where_there_is_no_lock_to_hold() {
    let data = filled().await;
    let lock = data.path().join("store/LOCK");
    let (code, said, failed) = verify(data.path());
    assert_eq!((code, failed.as_str()), (0, ""), "{said}");
    fs::remove_file(&lock).unwrap();
    let (code, said, failed) = verify(data.path());
    assert!(code == 0 && said.contains("is sound"), "{said}{failed}");
    assert!(failed.contains("LOCK cannot be opened") && failed.contains("without a lock"), "{failed}");
    assert!(!lock.exists());
}

#[tokio::test]
async fn a_flipped_bit_of_a_table_is_found_where_it_is() {
    let data = filled().await;
    let table = largest(&data.path().join("store/rows/tables"));
    flip(&table, 5_000);
    let (_, said, _) = verify(data.path());
    let offset = said.split("at byte ").nth(1).unwrap().split(':').next().unwrap();
    let offset: usize = offset.parse().unwrap();
    assert!(offset <= 5_000 && offset > 0, "{said}");
}

#[tokio::test]
async fn a_repair_saves_the_rest_and_lists_what_is_lost() {
    let data = filled().await;
    let before = contents(data.path());
    let to = directory();
    let place = |name: &str| to.path().join(name);

    // Nothing is damaged: everything is kept.
    let said = repair(data.path(), &place("whole"));
    assert!(
        said.contains(&format!("{} documents kept whole, 0 with their hash alone, 0 lost", DOCUMENTS + 1)),
        "{said}"
    );
    assert!(contents(data.path()) == before, "the damaged directory was changed");
    let server = Server::start(&place("whole")).await;
    for i in 0..DOCUMENTS {
        let found = server.json(&format!("/documents/{i}")).await;
        assert_eq!((&found["hash"], &found["metadata"]), (&document(i)["hash"], &document(i)["metadata"]));
    }
    assert_eq!(ids(&server.json("/similar?hash=0000000000000000&k=0&limit=1000").await).len(), 100);
    assert!(
        server.json("/collections/texts/documents/long").await["text"].as_str().unwrap().contains("word2999")
    );
    drop(server);

    // The rows are damaged: the hashes are known from elsewhere.
    let table = largest(&data.path().join("store/rows/tables"));
    flip(&table, 300);
    let said = repair(data.path(), &place("bare"));
    assert!(said.contains("damaged: ") && said.contains("reduced: 17 in default"), "{said}");
    let server = Server::start(&place("bare")).await;
    assert_eq!(server.documents().await, DOCUMENTS);
    assert_eq!(ids(&server.json(&format!("/similar?hash={:016x}&k=0", 17u64 << 20)).await), ["17"]);
    drop(server);
    assert_eq!(verify(&place("bare")).0, 0);

    // A repair needs a word and an empty place.
    let dir = data.path().to_str().unwrap();
    let (code, _, said) = run(&["repair", dir, "--to", place("new").to_str().unwrap()]);
    assert!(code == 2 && said.contains("--accept-loss"), "{code} {said}");
    let (code, _, said) = run(&["repair", dir, "--to", place("bare").to_str().unwrap(), "--accept-loss"]);
    assert!(code == 1 && said.contains("is not empty"), "{code} {said}");
}

#[tokio::test]
async fn what_the_journal_still_says_is_saved() {
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
    let said = repair(data.path(), &to.path().join("new"));
    let server = Server::start(&to.path().join("new")).await;
    let kept = server.documents().await;
    assert!((18..20).contains(&kept), "{kept} documents: {said}");
}
