//! A browser for one test: a driver on a free port, a fresh profile, and one window.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use fantoccini::actions::{Actions, InputSource, KeyAction, KeyActions};
use fantoccini::key::Key;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

use crate::server::Server;
use crate::skipped::skipped;

const DRIVER: &str = "chromedriver";
const BROWSER: &str = "chromium";
/// The options of a browser that runs as root, without a display, and asks no other host for anything.
const OPTIONS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--lang=en",
];
/// How long a page may take to show something.
const PATIENCE: Duration = Duration::from_secs(40);
/// The page that is shown; hidden ones stay in the document.
pub const PAGE: &str = ".page:not([hidden])";

/// A command of the `DevTools` protocol, which Chromium's driver passes on.
#[derive(Debug)]
struct DevTools {
    command: &'static str,
    parameters: Value,
}

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, driver: &Url, session: Option<&str>) -> Result<Url, <Url as FromStr>::Err> {
        driver.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(json!({"cmd": self.command, "params": self.parameters}).to_string()))
    }
}

/// One browser at a time: they would only wait for each other's processor time.
static ONE: Mutex<()> = Mutex::const_new(());

/// A browser with the console of a server.
pub struct Browser {
    pub driver: Client,
    url: String,
    process: Child,
    profile: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// The programs, or `None` after a line that says what is missing.
fn programs() -> Option<(PathBuf, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find = |name: &str| {
        let found =
            std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.exists());
        if found.is_none() {
            skipped(&format!("there is no {name} (apt-get install chromium chromium-driver)"));
        }
        found
    };
    Some((find(DRIVER)?, find(BROWSER)?))
}

impl Browser {
    /// Opens a browser for the console of a server; `None` if there is no browser.
    pub async fn open(server: &Server) -> Option<Browser> {
        let (driver, browser) = programs()?;
        let turn = ONE.lock().await;
        let profile = tempfile::Builder::new().prefix("lookalike-browser-").tempdir().unwrap();
        let mut process = Command::new(driver)
            .args(["--port=0", "--allowed-ips=127.0.0.1"])
            .env("TMPDIR", profile.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = port_of(&mut process);
        let mut options: Vec<String> = OPTIONS.map(str::to_owned).into();
        options.push(format!("--user-data-dir={}", profile.path().join("profile").display()));
        let options = json!({"args": options, "binary": browser});
        let wanted = [("goog:chromeOptions".to_owned(), options)].into_iter().collect();
        let driver = ClientBuilder::new(HttpConnector::new())
            .capabilities(wanted)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .unwrap();
        let browser = Browser { driver, url: server.url.clone(), process, profile, _turn: turn };
        browser.size(1280, 900).await;
        Some(browser)
    }

    /// Opens a page of the console, such as `find?collection=news`, as a new document.
    pub async fn go(&self, page: &str) {
        self.driver.goto("about:blank").await.unwrap();
        self.driver.goto(&format!("{}/#/{page}", self.url)).await.unwrap();
        self.until(&format!("document.querySelector('{PAGE} h1')")).await;
    }

    /// Closes the browser.
    pub async fn close(self) {
        self.driver.clone().close().await.unwrap();
    }

    /// The value of an expression in the page.
    pub async fn value(&self, expression: &str) -> Value {
        let script = format!("return ({expression});");
        let found = self.driver.execute(&script, vec![]).await;
        found.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// Waits until an expression is true, and returns its value.
    pub async fn until(&self, expression: &str) -> Value {
        let start = Instant::now();
        loop {
            let found = self.driver.execute(&format!("return ({expression}) || null;"), vec![]).await;
            match found {
                Ok(found) if !found.is_null() => return found,
                _ if start.elapsed() > PATIENCE => break,
                _ => tokio::time::sleep(Duration::from_millis(30)).await,
            }
        }
        let shown = self.driver.execute("return document.body.innerText;", vec![]).await;
        let shown = shown.unwrap_or_default();
        panic!("never true: {expression}\n{}", shown.as_str().unwrap_or_default());
    }

    /// The text that an element of the page shows.
    pub async fn text(&self, selector: &str) -> String {
        let shown =
            self.value(&format!("document.querySelector({})?.innerText ?? ''", json!(selector))).await;
        shown.as_str().unwrap().to_owned()
    }

    /// Waits until an element of the page shows these words.
    pub async fn shows(&self, selector: &str, words: &str) {
        let of = json!(selector);
        self.until(&format!("document.querySelector({of})?.innerText.includes({})", json!(words))).await;
    }

    /// Clicks the element of the page with this selector.
    pub async fn click(&self, selector: &str) {
        let of = json!(selector);
        self.until(&format!("document.querySelector({of})")).await;
        self.value(&format!("(document.querySelector({of}).click(), true)")).await;
    }

    /// Clicks the button, link or tab of the page that shows these words.
    pub async fn press(&self, words: &str) {
        let all = format!("[...document.querySelectorAll('{PAGE} button, {PAGE} label, {PAGE} summary')]");
        let one = format!("{all}.find((one) => one.innerText.trim() === {})", json!(words));
        self.until(&format!("{one} && !{one}.disabled")).await;
        self.value(&format!("({one}.click(), true)")).await;
    }

    /// Puts a text into a field as a paste does.
    pub async fn fill(&self, selector: &str, text: &str) {
        let script = "const field = document.querySelector(arguments[0]); field.value = arguments[1]; \
                      field.dispatchEvent(new Event('input', { bubbles: true }));";
        let given = vec![json!(selector), json!(text)];
        self.driver.execute(script, given).await.unwrap();
    }

    /// Chooses a file in a field.
    pub async fn choose_file(&self, selector: &str, file: &Path) {
        let field = self.driver.find(Locator::Css(selector)).await.unwrap();
        field.send_keys(file.to_str().unwrap()).await.unwrap();
    }

    /// Presses keys, whatever has the focus.
    pub async fn keys(&self, keys: &[&str]) {
        let keys = keys.iter().flat_map(|keys| keys.chars());
        self.act(keys.flat_map(|value| [KeyAction::Down { value }, KeyAction::Up { value }])).await;
    }

    /// Presses Enter with the control key.
    pub async fn send(&self) {
        let (control, enter) = (char::from(Key::Control), char::from(Key::Enter));
        let down = [control, enter].map(|value| KeyAction::Down { value });
        let up = [enter, control].map(|value| KeyAction::Up { value });
        self.act(down.into_iter().chain(up)).await;
    }

    async fn act(&self, keys: impl Iterator<Item = KeyAction>) {
        let keys = keys.fold(KeyActions::new("keyboard".to_owned()), InputSource::then);
        self.driver.perform_actions(Actions::from(keys)).await.unwrap();
    }

    /// Sends a command of the `DevTools` protocol.
    pub async fn devtools(&self, command: &'static str, parameters: Value) -> Value {
        self.driver.issue_cmd(DevTools { command, parameters }).await.unwrap()
    }

    /// Sets the size of the window.
    pub async fn size(&self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Sets what the system prefers: `light` or `dark`, and no motion, so that nothing is half transparent
    /// when it is looked at.
    pub async fn prefer(&self, scheme: &str) {
        let scheme = json!({"name": "prefers-color-scheme", "value": scheme});
        let motion = json!({"name": "prefers-reduced-motion", "value": "reduce"});
        let features = json!({"features": [scheme, motion]});
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    /// Sets the language that the browser asks for.
    pub async fn prefer_language(&self, tag: &str) {
        let agent = self.value("navigator.userAgent").await;
        let wanted = json!({"userAgent": agent, "acceptLanguage": tag});
        self.devtools("Emulation.setUserAgentOverride", wanted).await;
    }

    /// The bytes that the scripts of the page hold, without garbage.
    pub async fn script_memory(&self) -> f64 {
        self.devtools("HeapProfiler.collectGarbage", json!({})).await;
        self.devtools("Runtime.getHeapUsage", json!({})).await["usedSize"].as_f64().unwrap()
    }

    /// Fails if the page has run a script or shown an element out of a text.
    pub async fn is_not_hacked(&self) {
        let injected =
            self.value("document.querySelectorAll('main img, main script, main iframe').length").await;
        assert_eq!(injected, 0, "a text became an element");
        assert_eq!(self.value("window.hacked ?? null").await, Value::Null, "a text ran as a script");
    }
}

impl Drop for Browser {
    /// Ends the driver, and the browser if a failed test left it.
    fn drop(&mut self) {
        let mark = self.profile.path().to_str().unwrap().to_owned();
        let _ = self.process.kill();
        let _ = self.process.wait();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&line).contains(&mark) {
                let id = entry.file_name();
                let _ = Command::new("kill").arg("-KILL").arg(id).stderr(Stdio::null()).status();
            }
        }
    }
}

fn port_of(process: &mut Child) -> u16 {
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let line =
        lines.find_map(|line| line.ok().filter(|line| line.contains("on port ") && line.contains("success")));
    let line = line.expect("the driver prints its port");
    // The driver must not block on a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    line.trim_end_matches('.').rsplit(' ').next().unwrap().parse().unwrap()
}
