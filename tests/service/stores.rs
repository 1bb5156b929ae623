//! `dedupe` from S3 to S3, with moto as the server.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::moto::Moto;
use crate::objects::{lines, stderr};
use crate::server::{command, directory};

impl Moto {
    fn dedupe(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut run = command(&[&["dedupe"], arguments].concat());
        run.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped());
        run.envs(self.variables());
        run
    }
}

#[test]
fn an_output_in_a_store_is_that_on_the_disk() {
    let Some(moto) = Moto::start() else { return };
    let folder = directory();
    let folder = folder.path();
    let text = lines(3_000);
    let (a, b) = text.split_at(text.find("{\"id\":\"d1500\"").unwrap());
    let packed = zstd::encode_all(b.as_bytes(), 1).unwrap();
    fs::create_dir_all(folder.join("crawl/sub")).unwrap();
    fs::write(folder.join("crawl/a.jsonl"), a).unwrap();
    fs::write(folder.join("crawl/sub/b.jsonl.zst"), &packed).unwrap();
    moto.put("in/crawl/a.jsonl", a.as_bytes());
    moto.put("in/crawl/sub/b.jsonl.zst", &packed);
    moto.put("in/crawl/other.png", b"no document");
    let run = |arguments: &[&str]| {
        let output = moto.dedupe(folder, arguments).output().unwrap();
        (output.status.success(), stderr(&output))
    };
    let (is_done, message) = run(&["crawl", "-o", "out", "--keep", "longest"]);
    assert!(is_done, "{message}");
    let to_store = ["s3://crawls/in/crawl/", "-o", "s3://crawls/unique/", "--keep", "longest"];
    let (is_done, message) = run(&to_store);
    assert!(is_done, "{message}");
    assert!(!folder.join("s3-crawls-unique.partial").exists());
    for name in ["a.jsonl", "sub/b.jsonl.zst"] {
        let expected = fs::read(folder.join("out/crawl").join(name)).unwrap();
        assert!(moto.get(&format!("unique/crawl/{name}")) == Some(expected), "{name}");
    }
    assert_eq!(moto.get("unique/_SUCCESS"), Some(Vec::new()));
    let (is_done, message) = run(&to_store);
    assert!(!is_done && message.contains("s3://crawls/unique/ exists; --force replaces it"), "{message}");
    let (is_done, message) = run(&[&to_store[..], &["--force"]].concat());
    assert!(is_done, "{message}");
    // A pattern, to the root of another prefix; what is not written again is removed.
    let (is_done, message) = run(&["s3://crawls/in/*/a.*", "-o", "s3://crawls/one"]);
    assert!(is_done && moto.get("one/a.jsonl").is_some(), "{message}");
    moto.put("unique/mine", b"mine");
    let (is_done, message) = run(&[&to_store[..], &["--force"]].concat());
    assert!(!is_done && message.contains("does not write, s3://crawls/unique/mine"), "{message}");
    let (is_done, message) = run(&["s3://crawls/in/", "-o", "s3://crawls/in/crawl/out/"]);
    assert!(!is_done && message.contains("contain each other"), "{message}");
    let (is_done, message) = run(&["s3://crawls/nothing", "-o", "s3://crawls/x"]);
    assert!(!is_done && message.contains("s3://crawls/nothing: there is no such object"), "{message}");
    let (is_done, message) = run(&["s3://crawls/in/crawl/", "-o", "s3://none/x/"]);
    assert!(!is_done && message.contains("s3://none"), "{message}");
}

#[test]
fn a_store_that_stops_or_an_object_that_is_replaced_leaves_no_output() {
    let Some(mut moto) = Moto::start() else { return };
    let folder = directory();
    let folder = folder.path();
    let text = lines(60_000);
    moto.put("a.jsonl", text.as_bytes());
    let begun = |moto: &Moto| {
        let arguments =
            ["s3://crawls/a.jsonl", "-o", "s3://crawls/out/", "--keep", "longest", "--weights", "none"];
        let run = moto.dedupe(folder, &arguments).spawn().unwrap();
        let names = folder.join("s3-crawls-out.partial/names");
        let start = Instant::now();
        while !fs::metadata(&names).is_ok_and(|about| about.len() > 0) {
            assert!(start.elapsed() < Duration::from_secs(120), "the run does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
        run
    };
    let run = begun(&moto);
    moto.put("a.jsonl", text.replace("\"id\":\"d", "\"id\":\"e").as_bytes());
    let output = run.wait_with_output().unwrap();
    let message = stderr(&output);
    assert!(!output.status.success() && message.contains("the object changed"), "{message}");
    assert!(moto.get("out/a.jsonl").is_none() && moto.get("out/_SUCCESS").is_none());
    fs::remove_dir_all(folder.join("s3-crawls-out.partial")).unwrap();
    let run = begun(&moto);
    moto.server.kill().unwrap();
    let output = run.wait_with_output().unwrap();
    let message = stderr(&output);
    assert!(!output.status.success() && message.contains("s3://crawls/"), "{message}");
    assert!(!folder.join("s3-crawls-out").exists());
}
