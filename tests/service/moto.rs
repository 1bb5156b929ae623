//! A server of S3 for tests: moto. It needs `python3 -m venv target/moto` and
//! `target/moto/bin/pip install 'moto[s3,server]'`; without them a test says so and does nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Any key is that of the owner, and no signature is verified.
const OWNER: &str = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, \
                     Signature=0";

/// A server of S3 with an empty bucket `crawls`.
pub struct Moto {
    pub server: Child,
    address: String,
}

impl Moto {
    pub fn start() -> Option<Moto> {
        Moto::run("bin/moto_server", &[], "127.0.0.1", |server| server)
    }

    /// One that does a request at a time. Otherwise two that create an object at once both succeed sometimes.
    pub fn start_in_order() -> Option<Moto> {
        Moto::start_in_order_at("127.0.0.1", |server| server)
    }

    /// The same at an address, where `inside` runs a command.
    pub fn start_in_order_at(host: &str, inside: impl Fn(Command) -> Command) -> Option<Moto> {
        let start = "import moto.server as m; run = m.run_simple; \
                     m.run_simple = lambda *a, **k: run(*a, **{**k, 'threaded': False}); m.main()";
        Moto::run("bin/python", &["-c", start], host, inside)
    }

    fn run(
        program: &str,
        arguments: &[&str],
        host: &str,
        inside: impl Fn(Command) -> Command,
    ) -> Option<Moto> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/moto").join(program);
        if !program.exists() {
            println!("skipped: there is no {}", program.display());
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Command::new(program);
        server.args(arguments).args(["-H", host, "-p", &port.to_string()]);
        let mut server = inside(server);
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let moto = Moto { server, address: format!("{host}:{port}") };
        let start = Instant::now();
        while TcpStream::connect(&moto.address).is_err() {
            assert!(start.elapsed() < Duration::from_mins(1), "moto does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        moto.put("", b"");
        Some(moto)
    }

    /// What the environment of a client says.
    pub fn variables(&self) -> [(&'static str, String); 4] {
        let endpoint = format!("http://{}", self.address);
        let [id, secret, region] = ["a", "b", "us-east-1"].map(str::to_owned);
        [
            ("AWS_ENDPOINT_URL", endpoint),
            ("AWS_ACCESS_KEY_ID", id),
            ("AWS_SECRET_ACCESS_KEY", secret),
            ("AWS_REGION", region),
        ]
    }

    /// Stops the server without ending its connections, until [`Moto::resume`].
    pub fn pause(&self) {
        kill_process(Pid::from_child(&self.server), Signal::STOP).unwrap();
    }

    /// Lets a stopped server go on.
    pub fn resume(&self) {
        kill_process(Pid::from_child(&self.server), Signal::CONT).unwrap();
    }

    fn request(&self, method: &str, key: &str, body: &[u8]) -> (String, Vec<u8>) {
        self.request_if(method, key, "", body)
    }

    /// Makes an object if there is none. Returns whether it did.
    pub fn create(&self, key: &str, body: &[u8]) -> bool {
        let (head, _) = self.request_if("PUT", key, "If-None-Match: *\r\n", body);
        assert!(head.contains(" 200 ") || head.contains(" 412 ") || head.contains(" 409 "), "{head}");
        head.contains(" 200 ")
    }

    fn request_if(&self, method: &str, key: &str, condition: &str, body: &[u8]) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "{method} /crawls/{key} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{condition}Authorization: {OWNER}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        (String::from_utf8_lossy(&answer[..end]).into_owned(), answer.split_off(end))
    }

    pub fn put(&self, key: &str, body: &[u8]) {
        let (head, body) = self.request("PUT", key, body);
        assert!(head.contains(" 200 "), "{head}{}", String::from_utf8_lossy(&body));
    }

    /// The bytes of an object; `None` if there is none.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let (head, body) = self.request("GET", key, b"");
        head.contains(" 200 ").then_some(body)
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        _ = self.server.kill();
        _ = self.server.wait();
    }
}
