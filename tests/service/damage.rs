//! Data directories that are damaged, of a newer format, or not accessible: the error message, and that no
//! document is lost.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::json;

use crate::server::{Server, command, directory, ids, snapshot_files};

/// Runs `serve` on a directory on which it must fail. Returns the exit code and standard error.
pub(crate) fn failed_start(data: &Path) -> (i32, String) {
    let Output { status, stderr, .. } =
        command(&["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

/// Stores documents `0` to `count - 1`, with a snapshot after each half.
async fn fill(data: &Path, count: u64) {
    let server = Server::start(data).await;
    for half in [0..count / 2, count / 2..count] {
        let lines: String = half
            .map(|i| format!("{}\n", json!({"id": format!("{i}"), "hash": format!("{:016x}", i << 20)})))
            .collect();
        server.stream("/documents", lines).await;
        let (status, snapshot) = server.post("/snapshots", json!(null)).await;
        assert_eq!(status.as_u16(), 201, "{snapshot}");
    }
    server.kill();
}

async fn check_all_documents(data: &Path, count: u64) -> String {
    let server = Server::start(data).await;
    let info = server.json("/collections/default").await;
    assert_eq!((info["documents"].as_u64(), info["distinct_hashes"].as_u64()), (Some(count), Some(count)));
    for i in 0..count {
        assert_eq!(ids(&server.json(&format!("/similar?hash={:016x}&k=0", i << 20)).await), [i.to_string()]);
    }
    server.log()
}

#[tokio::test]
async fn a_flipped_bit_in_a_snapshot_is_reported_and_loses_no_document() {
    let data = directory();
    fill(data.path(), 400).await;
    let files = snapshot_files(data.path());
    assert_eq!(files.len(), 2);
    let good: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    // The newest snapshot is damaged: the server loads the older one and the history after it.
    let places = [0, 9, 30, 60, good[0].len() / 2, good[0].len() - 1];
    for place in places {
        let mut bad = good[0].clone();
        bad[place] ^= 0x10;
        fs::write(&files[0], &bad).unwrap();
        let log = check_all_documents(data.path(), 400).await;
        let name = files[0].file_name().unwrap().to_str().unwrap();
        assert!(
            log.contains(name) && (log.contains("damaged at byte") || log.contains("format")),
            "byte {place}: {log}"
        );
        // The server wrote another snapshot; restore the previous files.
        for file in snapshot_files(data.path()) {
            fs::remove_file(file).unwrap();
        }
        files.iter().zip(&good).for_each(|(file, bytes)| fs::write(file, bytes).unwrap());
    }
    // Both snapshots are truncated, empty, overwritten or missing: the server loads the store alone.
    for spoil in [
        |bytes: &[u8]| bytes[..bytes.len() / 3].to_vec(),
        |_: &[u8]| vec![],
        |bytes: &[u8]| vec![7; bytes.len()],
    ] {
        files.iter().zip(&good).for_each(|(file, bytes)| fs::write(file, spoil(bytes)).unwrap());
        check_all_documents(data.path(), 400).await;
    }
    fs::remove_dir_all(data.path().join("snapshots")).unwrap();
    check_all_documents(data.path(), 400).await;
}

#[tokio::test]
async fn a_partial_snapshot_is_deleted() {
    let data = directory();
    fill(data.path(), 40).await;
    let partial = data.path().join("snapshots/00000000000000000009.partial");
    fs::write(&partial, "half").unwrap();
    check_all_documents(data.path(), 40).await;
    let server = Server::start(data.path()).await;
    server.post("/snapshots", json!(null)).await;
    assert!(!partial.exists());
    assert_eq!(snapshot_files(data.path()).len(), 2);
}

#[tokio::test]
async fn a_directory_of_another_format_is_refused_and_left_unchanged() {
    let data = directory();
    fill(data.path(), 10).await;
    let marker = data.path().join("FORMAT");
    let original = fs::read_to_string(&marker).unwrap();
    for (format, says) in [("lookalike 5\n", "reads format 4"), ("lookalike 3\n", "development version")] {
        fs::write(&marker, format).unwrap();
        let (code, stderr) = failed_start(data.path());
        assert_eq!(code, 65, "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
        assert_eq!(fs::read_to_string(&marker).unwrap(), format);
    }
    fs::write(&marker, original).unwrap();
    check_all_documents(data.path(), 10).await;
}

#[tokio::test]
async fn a_snapshot_of_a_newer_format_is_skipped() {
    let data = directory();
    fill(data.path(), 10).await;
    let file = snapshot_files(data.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    bytes[8] = 9;
    fs::write(&file, bytes).unwrap();
    let log = check_all_documents(data.path(), 10).await;
    assert!(log.contains("has format 9; this version reads up to 1"), "{log}");
}

#[test]
fn a_directory_that_cannot_be_created_is_reported() {
    let data = directory();
    let file = data.path().join("file");
    fs::write(&file, "").unwrap();
    let (code, stderr) = failed_start(&file.join("below"));
    assert_eq!(code, 1);
    assert!(stderr.contains("file/below cannot be made") && stderr.contains("--data DIR"), "{stderr}");
    // Not even root can write to /proc.
    let (code, stderr) = failed_start(Path::new("/proc/lookalike"));
    assert_eq!(code, 1);
    assert!(stderr.contains("/proc/lookalike cannot be made") && stderr.contains("--data DIR"), "{stderr}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_that_is_not_writable_is_reported_and_left_unchanged() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let data = directory();
    fill(data.path(), 10).await;
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()]);
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    if is_root {
        // Permissions do not apply to root: run a copy of the binary as another user, which may not be able
        // to read the directory of the original.
        let binary = data.path().join("lookalike");
        fs::copy(crate::server::BINARY, &binary).unwrap();
        fs::set_permissions(data.path(), fs::Permissions::from_mode(0o755)).unwrap();
        serve = std::process::Command::new(&binary);
        serve.args(["serve", "--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()]).env_clear();
        serve.uid(65_534).gid(65_534);
    } else {
        fs::set_permissions(data.path().join("store"), fs::Permissions::from_mode(0o555)).unwrap();
    }
    let output = serve.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{stderr}");
    assert!(
        stderr.contains(data.path().to_str().unwrap()) && stderr.contains("ermission denied"),
        "{stderr}"
    );
    fs::set_permissions(data.path().join("store"), fs::Permissions::from_mode(0o755)).unwrap();
    check_all_documents(data.path(), 10).await;
}

#[tokio::test]
async fn a_port_or_directory_in_use_is_reported_and_its_server_continues() {
    let (data, other) = (directory(), directory());
    let server = Server::start(data.path()).await;
    let address = server.url.trim_start_matches("http://").to_owned();
    let output =
        command(&["serve", "--listen", &address, "--data", other.path().to_str().unwrap()]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains(&format!("cannot listen on {address}")) && stderr.contains("--listen"),
        "{stderr}"
    );
    assert!(!other.path().join("store").exists(), "the data directory was created");
    let (code, stderr) = failed_start(data.path());
    assert_eq!(code, 1);
    assert!(stderr.contains("in use by another process"), "{stderr}");
    assert_eq!(server.get("/readyz").await.status().as_u16(), 200);
}

/// Stores documents with these numbers on a running server.
async fn add(server: &Server, numbers: std::ops::Range<u64>) {
    let lines: String = numbers
        .map(|i| format!("{}\n", json!({"id": format!("{i}"), "hash": format!("{:016x}", i << 20)})))
        .collect();
    server.stream("/documents", lines).await;
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &target) } else { fs::copy(&path, &target).map(drop).unwrap() }
    }
}

/// The store is replaced by an earlier copy of itself and then gets other documents. The snapshot that was
/// written in between must not be used when the new log becomes as long as the old one.
#[tokio::test]
async fn a_snapshot_of_another_log_is_never_used() {
    let data = directory();
    let store = data.path().join("store");
    let earlier = data.path().with_extension("earlier");
    let server = Server::start(data.path()).await;
    add(&server, 0..10).await;
    server.kill();
    copy(&store, &earlier);
    let server = Server::start(data.path()).await;
    add(&server, 10..20).await;
    assert_eq!(server.post("/snapshots", json!(null)).await.0.as_u16(), 201);
    server.kill();
    fs::remove_dir_all(&store).unwrap();
    fs::rename(&earlier, &store).unwrap();
    let server = Server::start(data.path()).await;
    server.wait_for_log("set aside").await;
    add(&server, 100..150).await;
    server.kill();
    let server = Server::start(data.path()).await;
    for i in (0..10).chain(100..150) {
        let near = server.json(&format!("/similar?hash={:016x}&k=0", i << 20)).await;
        assert_eq!(ids(&near), [i.to_string()], "{}", server.log());
    }
    assert_eq!(ids(&server.json(&format!("/similar?hash={:016x}&k=0", 15u64 << 20)).await), [""; 0]);
}

#[tokio::test]
async fn verify_reports_an_unreadable_snapshot_directory_but_not_a_missing_one() {
    let data = directory();
    let server = Server::start(data.path()).await;
    assert!(server.stop().success());
    let (snapshots, path) = (data.path().join("snapshots"), data.path().to_str().unwrap());
    let verify = || crate::server::command(&["verify", path]).output().unwrap();
    std::fs::remove_dir_all(&snapshots).unwrap();
    assert_eq!(verify().status.code(), Some(0));
    std::fs::write(&snapshots, "no directory").unwrap();
    let verified = verify();
    let stderr = String::from_utf8_lossy(&verified.stdout);
    assert_eq!(verified.status.code(), Some(65), "{stderr}");
    assert!(stderr.contains("snapshots cannot be listed"), "{stderr}");
}
