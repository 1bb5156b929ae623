//! Data directories that are damaged, foreign, or not to be had: what is said, and that nothing is lost.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::json;

use crate::server::{Server, command, directory, ids, snapshot_files};

/// Runs `serve` on a directory on which it must not start.
fn refused(data: &Path) -> (i32, String) {
    let Output { status, stderr, .. } =
        command(&["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

/// Documents `0` to `count - 1`, a snapshot after each half.
async fn filled(data: &Path, count: u64) {
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

async fn all_there(data: &Path, count: u64) -> String {
    let server = Server::start(data).await;
    let info = server.json("/collections/default").await;
    assert_eq!((info["documents"].as_u64(), info["distinct_hashes"].as_u64()), (Some(count), Some(count)));
    for i in 0..count {
        assert_eq!(ids(&server.json(&format!("/similar?hash={:016x}&k=0", i << 20)).await), [i.to_string()]);
    }
    server.log()
}

#[tokio::test]
async fn a_flipped_bit_in_a_snapshot_is_named_and_costs_no_document() {
    let data = directory();
    filled(data.path(), 400).await;
    let files = snapshot_files(data.path());
    assert_eq!(files.len(), 2);
    let good: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    // The newest damaged: the older one and the log after it.
    let places = [0, 9, 30, 60, good[0].len() / 2, good[0].len() - 1];
    for place in places {
        let mut bad = good[0].clone();
        bad[place] ^= 0x10;
        fs::write(&files[0], &bad).unwrap();
        let log = all_there(data.path(), 400).await;
        let name = files[0].file_name().unwrap().to_str().unwrap();
        assert!(
            log.contains(name) && (log.contains("damaged at byte") || log.contains("format")),
            "byte {place}: {log}"
        );
        // Stopping took another snapshot; put the state of before back.
        for file in snapshot_files(data.path()) {
            fs::remove_file(file).unwrap();
        }
        files.iter().zip(&good).for_each(|(file, bytes)| fs::write(file, bytes).unwrap());
    }
    // Both damaged, cut short, or gone: the store alone.
    for spoil in [
        |bytes: &[u8]| bytes[..bytes.len() / 3].to_vec(),
        |_: &[u8]| vec![],
        |bytes: &[u8]| vec![7; bytes.len()],
    ] {
        files.iter().zip(&good).for_each(|(file, bytes)| fs::write(file, spoil(bytes)).unwrap());
        all_there(data.path(), 400).await;
    }
    fs::remove_dir_all(data.path().join("snapshots")).unwrap();
    all_there(data.path(), 400).await;
}

#[tokio::test]
async fn what_a_crash_left_of_a_snapshot_is_swept_away() {
    let data = directory();
    filled(data.path(), 40).await;
    let left = data.path().join("snapshots/00000000000000000009.partial");
    fs::write(&left, "half").unwrap();
    all_there(data.path(), 40).await;
    let server = Server::start(data.path()).await;
    server.post("/snapshots", json!(null)).await;
    assert!(!left.exists());
    assert_eq!(snapshot_files(data.path()).len(), 2);
}

#[tokio::test]
async fn a_directory_of_a_newer_format_is_refused_and_left_alone() {
    let data = directory();
    filled(data.path(), 10).await;
    let marker = data.path().join("FORMAT");
    let known = fs::read_to_string(&marker).unwrap();
    fs::write(&marker, "lookalike 3\n").unwrap();
    let (code, said) = refused(data.path());
    assert_eq!(code, 65, "{said}");
    assert!(said.contains("format 3") && said.contains("reads format 2"), "{said}");
    assert_eq!(fs::read_to_string(&marker).unwrap(), "lookalike 3\n");
    fs::write(&marker, known).unwrap();
    all_there(data.path(), 10).await;
}

#[tokio::test]
async fn a_newer_snapshot_is_passed_over() {
    let data = directory();
    filled(data.path(), 10).await;
    let file = snapshot_files(data.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    bytes[8] = 9;
    fs::write(&file, bytes).unwrap();
    let log = all_there(data.path(), 10).await;
    assert!(log.contains("has format 9; this version reads up to 2"), "{log}");
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let data = directory();
    let file = data.path().join("file");
    fs::write(&file, "").unwrap();
    let (code, said) = refused(&file.join("below"));
    assert_eq!(code, 1);
    assert!(said.contains("file/below cannot be made") && said.contains("--data DIR"), "{said}");
    // Root may write anywhere, but not into the kernel's own tables.
    let (code, said) = refused(Path::new("/proc/lookalike"));
    assert_eq!(code, 1);
    assert!(said.contains("/proc/lookalike cannot be made") && said.contains("--data DIR"), "{said}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_that_is_not_writable_is_named_and_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let data = directory();
    filled(data.path(), 10).await;
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()]);
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    if is_root {
        // Permissions do not bind root: run as somebody else, who can read the binary's directory or not.
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
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(data.path().to_str().unwrap()) && said.contains("ermission denied"), "{said}");
    fs::set_permissions(data.path().join("store"), fs::Permissions::from_mode(0o755)).unwrap();
    all_there(data.path(), 10).await;
}

#[tokio::test]
async fn a_port_or_directory_in_use_is_named_and_its_owner_goes_on() {
    let (data, other) = (directory(), directory());
    let server = Server::start(data.path()).await;
    let address = server.url.trim_start_matches("http://").to_owned();
    let output =
        command(&["serve", "--listen", &address, "--data", other.path().to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains(&format!("cannot listen on {address}")) && said.contains("--listen"), "{said}");
    assert!(!other.path().join("store").exists(), "nothing was made");
    let (code, said) = refused(data.path());
    assert_eq!(code, 1);
    assert!(said.contains("in use by another process"), "{said}");
    assert_eq!(server.get("/readyz").await.status().as_u16(), 200);
}

/// Documents with these numbers, on a running server.
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

/// The store is replaced by an earlier copy of itself, and goes on from there: the snapshot of what came in
/// between must not be taken for one of the new log once that has grown as long.
#[tokio::test]
async fn a_snapshot_of_another_log_is_never_taken() {
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
    server.says("set aside").await;
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
async fn snapshots_that_cannot_be_listed_are_a_flaw_and_none_at_all_is_not() {
    let data = directory();
    let server = Server::start(data.path()).await;
    assert!(server.stop().success());
    let (snapshots, path) = (data.path().join("snapshots"), data.path().to_str().unwrap());
    let verify = || crate::server::command(&["verify", path]).output().unwrap();
    std::fs::remove_dir_all(&snapshots).unwrap();
    assert_eq!(verify().status.code(), Some(0));
    std::fs::write(&snapshots, "no directory").unwrap();
    let verdict = verify();
    let said = String::from_utf8_lossy(&verdict.stdout);
    assert_eq!(verdict.status.code(), Some(65), "{said}");
    assert!(said.contains("snapshots cannot be listed"), "{said}");
}
