//! A server of Azure blobs for tests: Azurite. It needs `npm install --prefix target/azurite azurite@3`;
//! without it a test says so and does nothing.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ACCOUNT: &str = "press";
/// The key of the account, in Base64: 16 bytes.
const KEY: &str = "bmVhcmx5IGFsaWtlIDE2IQ==";

/// Makes a container by a signed request. The arguments are the address, the account and its key.
const MAKE: &str = r#"
const [, address, account, key] = process.argv;
const date = new Date().toUTCString();
const path = `/${account}/crawls`;
const headers = { "x-ms-date": date, "x-ms-version": "2021-12-02" };
const lines = [`x-ms-date:${date}`, "x-ms-version:2021-12-02", `/${account}${path}`, "restype:container"];
const signed = `PUT${"\n".repeat(12)}${lines.join("\n")}`;
const hmac = require("crypto").createHmac("sha256", Buffer.from(key, "base64")).update(signed, "utf8");
headers.authorization = `SharedKey ${account}:${hmac.digest("base64")}`;
fetch(`http://${address}${path}?restype=container`, { method: "PUT", headers }).then(async (answer) => {
  if (answer.status !== 201) throw new Error(`${answer.status} ${await answer.text()}`);
});
"#;

/// A server of Azure blobs with an empty container `crawls`.
pub struct Azurite {
    server: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Azurite {
    pub fn start() -> Option<Azurite> {
        let program =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("target/azurite/node_modules/.bin/azurite-blob");
        if !program.exists() {
            println!("skipped: there is no {}", program.display());
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let mut server = Command::new(program);
        server.args(["--blobHost", "127.0.0.1", "--blobPort", &port, "--silent", "--skipApiVersionCheck"]);
        server.arg("--location").arg(folder.path());
        server.env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{KEY}"));
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let azurite = Azurite { server, address: format!("127.0.0.1:{port}"), _folder: folder };
        let start = Instant::now();
        while TcpStream::connect(&azurite.address).is_err() {
            assert!(start.elapsed() < Duration::from_mins(1), "Azurite does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        let made = Command::new("node").args(["-e", MAKE, &azurite.address, ACCOUNT, KEY]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some(azurite)
    }

    /// What the environment of a server says whose log is in the container.
    pub fn variables(&self) -> [(&'static str, String); 5] {
        [
            ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT.to_owned()),
            ("AZURE_STORAGE_ACCOUNT_KEY", KEY.to_owned()),
            ("AZURE_ENDPOINT", format!("http://{}/{ACCOUNT}", self.address)),
            ("AZURE_ALLOW_HTTP", "true".to_owned()),
            ("LOOKALIKE_SHARED_LOG__URL", "az://crawls/news/".to_owned()),
        ]
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        _ = self.server.kill();
        _ = self.server.wait();
    }
}
