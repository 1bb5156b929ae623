//! `dedupe` from S3 to S3, with moto as the server. It needs `python3 -m venv target/moto` and
//! `target/moto/bin/pip install 'moto[s3,server]'`; without them a test says so and does nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::objects::{lines, stderr};
use crate::server::{command, directory};

/// Any key is that of the owner, and no signature is verified.
const OWNER: &str = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, \
                     Signature=0";

/// A server of S3 with an empty bucket `crawls`.
struct Moto {
    server: Child,
    address: String,
}

impl Moto {
    fn start() -> Option<Moto> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/moto/bin/moto_server");
        if !program.exists() {
            println!("skipped: there is no {}", program.display());
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Command::new(program);
        let server = server.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let moto = Moto { server, address: format!("127.0.0.1:{port}") };
        let start = Instant::now();
        while TcpStream::connect(&moto.address).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "moto does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        moto.put("", b"");
        Some(moto)
    }

    fn request(&self, method: &str, key: &str, body: &[u8]) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "{method} /crawls/{key} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Length: {length}\r\nAuthorization: {OWNER}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        (String::from_utf8_lossy(&answer[..end]).into_owned(), answer.split_off(end))
    }

    fn put(&self, key: &str, body: &[u8]) {
        let (head, body) = self.request("PUT", key, body);
        assert!(head.contains(" 200 "), "{head}{}", String::from_utf8_lossy(&body));
    }

    /// The bytes of an object; `None` if there is none.
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        let (head, body) = self.request("GET", key, b"");
        head.contains(" 200 ").then_some(body)
    }

    fn dedupe(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut run = command(&[&["dedupe"], arguments].concat());
        run.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped());
        run.env("AWS_ENDPOINT_URL", format!("http://{}", self.address));
        run.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").env("AWS_REGION", "us-east-1");
        run
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        _ = self.server.kill();
        _ = self.server.wait();
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
