//! The keyboard alone, every width, and axe-core if it is there; of pages, and of what a user makes of them.

use fantoccini::key::Key;
use serde_json::json;

use crate::articles::{FERRY_EN, FERRY_EN_EDITED, FERRY_ZH, FERRY_ZH_EDITED, made, store};
use crate::browser::{Browser, PAGE};
use crate::server::{Server, directory};
use crate::skipped::skipped;

/// The pages with something to see, each with an expression that is true when it is there.
pub const PAGES: [(&str, &str, &str); 12] = [
    (
        "documents",
        "documents?collection=news&id=ferry-zh-1",
        "document.querySelector('.document .match .note')?.innerText && document.querySelector('.vtitle')",
    ),
    ("review", "review?collection=news&id=article-2", "document.querySelector('.page:not([hidden]) .diff')"),
    ("compare", "compare?collection=news&a=ferry-zh-1&b=ferry-zh-2", "document.querySelector('.decided')"),
    (
        "long",
        "compare?collection=news&a=long-1&b=long-2",
        "document.querySelectorAll('.diff .fold').length > 1",
    ),
    ("find", "find?collection=news&id=ferry-zh-1", "document.querySelector('.match .snippet:not([hidden])')"),
    (
        "clusters",
        "clusters?collection=news&id=article-2",
        "document.querySelector('.page:not([hidden]) .match .far')",
    ),
    (
        "collections",
        "collections?collection=news",
        "document.querySelectorAll('.chart .column').length > 3 && \
      document.querySelector('.rate')",
    ),
    ("calibrate", "calibrate?collection=news", "document.querySelectorAll('.chart .line').length === 3"),
    (
        "cluster",
        "documents?collection=news&cluster=empty-0",
        "document.querySelectorAll('.page:not([hidden]) .vrow').length === 6",
    ),
    (
        "bare",
        "find?collection=bare&id=copy-1",
        "document.querySelectorAll('.page:not([hidden]) .match').length > 1",
    ),
    ("import", "import?collection=news", "document.querySelector('.dropzone')"),
    ("keys", "keys", "document.querySelector('.may td')"),
];

/// What a user makes of a page: its name, the address, the buttons that are pressed in turn, each as soon as
/// it is there, and an expression that is true at the end.
const STATES: [(&str, &str, &[&str], &str); 8] = [
    (
        "selected",
        "documents?collection=news",
        &["Select all shown"],
        "document.querySelector('.page:not([hidden]) .selection .danger')?.checkVisibility()",
    ),
    (
        "all selected",
        "documents?collection=news",
        &["Select all shown", "All of the collection"],
        "/All of the/.test(document.querySelector('.page:not([hidden]) .selection').innerText)",
    ),
    (
        "planned",
        "documents?collection=bare&id=copy-2",
        &["Delete this document"],
        "document.querySelector('.page:not([hidden]) .notice.warn button')",
    ),
    (
        "marked",
        "compare?collection=news&a=ferry-en-1&b=ferry-en-2",
        &["Not a duplicate"],
        "document.querySelector('.page:not([hidden]) .markable .row button')",
    ),
    (
        "new collection",
        "collections?collection=news",
        &["New collection", "More profiles"],
        "document.querySelectorAll('.page:not([hidden]) .profiles input').length > 6",
    ),
    (
        "no copy",
        "review?collection=news&id=article-2",
        &["The chosen one is no copy (N)"],
        "/is no copy of/.test(document.querySelector('.page:not([hidden])').innerText)",
    ),
    (
        "kept",
        "review?collection=news",
        &["Keep one, remove the others (D)"],
        "/is deleted at|are deleted at/.test(document.querySelector('.page:not([hidden])').innerText)",
    ),
    (
        "undone",
        "review?collection=news",
        &["Skip (S)", "Undo (U)"],
        "/was undone/.test(document.querySelector('.page:not([hidden])').innerText)",
    ),
];

impl Browser {
    /// Opens a page and makes a state of it.
    async fn make(&self, address: &str, pressed: &[&str], ready: &str) {
        self.go(address).await;
        self.click(".corner input[value='en']").await;
        for words in pressed {
            self.press(words).await;
        }
        self.until(ready).await;
    }

    /// What axe-core, whose script this is, finds wrong with the page as it is.
    async fn faults(&self, axe: &str) -> serde_json::Value {
        self.value(&format!("document.querySelectorAll('{PAGE} details').forEach({OPEN})")).await;
        // The policy of the page has no exception for it: the driver runs it outside the page's scripts.
        self.driver.execute(axe, vec![]).await.unwrap();
        let run = "const done = arguments[arguments.length - 1]; \
                   axe.run(document, { resultTypes: ['violations'] }).then((found) => \
                   done(found.violations.map((one) => `${one.id}: ${one.nodes[0].html}`)));";
        self.driver.execute_async(run, vec![]).await.unwrap()
    }
}

/// A server with a calibrated collection of made articles.
pub async fn furnished(data: &std::path::Path) -> Server {
    let server = Server::start(data).await;
    let mut articles = made(400);
    let ferries = [
        ("ferry-zh-1", FERRY_ZH),
        ("ferry-zh-2", FERRY_ZH_EDITED),
        ("ferry-en-1", FERRY_EN),
        ("ferry-en-2", FERRY_EN_EDITED),
    ];
    articles.extend(ferries.map(|(id, text)| (id.to_owned(), text.to_owned())));
    let long = made(60).iter().map(|(_, text)| format!("{text}\n\n")).collect::<String>();
    let mut edited = long.replacen("wrote", "sent", 3);
    let middle = edited.len() / 2 + edited[edited.len() / 2..].find('.').unwrap() + 1;
    edited.insert_str(middle, " This sentence is new.");
    articles.extend([("long-1", long), ("long-2", edited)].map(|(id, text)| (id.to_owned(), text)));
    store(&server, "news", json!({"profile": "copies-128", "keep_text": true}), &articles).await;
    let empty_page =
        "Page not found. Go back to the front page, or search for what you were looking for here.";
    let same: Vec<_> = (0..6).map(|number| (format!("empty-{number}"), empty_page.to_owned())).collect();
    store(&server, "news", json!({}), &same).await;
    server.post("/collections/news/clusters", json!({"keep": "first"})).await;
    let copies: Vec<_> = (0..3).map(|number| (format!("copy-{number}"), FERRY_EN.to_owned())).collect();
    store(&server, "bare", json!({"profile": "copies-128"}), &copies).await;
    for number in 0..60 {
        server.get(&format!("/collections/news/similar?id=article-{number}&k=40")).await;
    }
    server.post("/collections/news/calibrate", json!({})).await;
    while server.json("/collections/news/calibrate").await["state"] == "running" {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    server
}

/// Opens a `details` element.
const OPEN: &str = "(one) => { one.open = true; }";

#[tokio::test]
async fn the_keyboard_alone_is_enough() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("compare").await;
    let reach = async |expression: &str| {
        for _ in 0..60 {
            if browser.value(expression).await == true {
                return;
            }
            browser.keys(&[&Key::Tab]).await;
        }
        panic!("the keyboard does not reach {expression}");
    };
    browser.keys(&[&Key::Tab]).await;
    assert_eq!(browser.value("document.activeElement.className").await, "skip");
    reach("document.activeElement.matches('.side-input:nth-of-type(1) textarea')").await;
    browser.keys(&["The harbour ferry runs every ten minutes in summer and has room for bicycles."]).await;
    browser.keys(&[&Key::Tab]).await;
    reach("document.activeElement.matches('.side-input:nth-of-type(2) textarea')").await;
    browser.keys(&["The harbour ferry runs every six minutes in summer and has room for bicycles."]).await;
    browser.send().await;
    browser.until("document.querySelector('.bit')").await;
    browser.keys(&[&Key::Tab]).await;
    reach("document.activeElement.matches('.bit')").await;
    let outline = browser.value("getComputedStyle(document.activeElement).outlineStyle").await;
    assert_eq!(outline, "solid", "the focus is visible");
    browser.keys(&[&Key::Home, &Key::Right, &Key::Enter]).await;
    browser.shows(".decided h4", "Bit 62").await;
    browser.close().await;
}

/// The controls that the Tab key must reach: one of each group of choices, of which arrows reach the others.
const CONTROLS: &str = "[...document.querySelectorAll('a[href], button, input, select, textarea, summary, \
     [tabindex=\"0\"]')].filter((one) => one.checkVisibility() && !one.disabled && one.tabIndex >= 0)";

#[tokio::test]
async fn tab_reaches_every_control_of_every_page_and_back_to_the_first() {
    let data = directory();
    let server = furnished(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    for (name, address, ready) in PAGES {
        browser.go(address).await;
        browser.until(ready).await;
        browser.value(&format!("document.querySelectorAll('{PAGE} details').forEach({OPEN})")).await;
        browser
            .value(
                "(window.reached = new Set(), \
                 document.addEventListener('focusin', (event) => window.reached.add(event.target)), 0)",
            )
            .await;
        let controls = browser.value(&format!("{CONTROLS}.length")).await.as_u64().unwrap();
        assert!(controls > 10, "{name} has {controls} controls");
        for _ in 0..controls + 10 {
            browser.keys(&[&Key::Tab]).await;
        }
        let group = "(one) => one.type === 'radio' ? one.name : one";
        let missed = format!(
            "((groups) => {CONTROLS}.filter((one) => !groups.has(({group})(one)))\
             .map((one) => one.outerHTML))(new Set([...window.reached].map({group})))"
        );
        assert_eq!(browser.value(&missed).await, json!([]), "{name}");
    }
    browser.close().await;
}

#[tokio::test]
async fn no_page_is_wider_than_its_window() {
    let data = directory();
    let server = furnished(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    let pages = PAGES.map(|(name, address, ready)| (name, address, &[][..], ready));
    for (name, address, pressed, ready) in pages.into_iter().chain(STATES) {
        browser.size(1280, 900).await;
        browser.make(address, pressed, ready).await;
        for language in ["en", "zh"] {
            browser.click(&format!(".corner input[value='{language}']")).await;
            for width in [320, 360, 768, 1024, 1280, 1440, 1920, 2560] {
                browser.size(width, 900).await;
                let wide = browser.value("document.documentElement.scrollWidth").await;
                assert!(wide.as_u64().unwrap() <= u64::from(width), "{name} at {width}: {wide}");
                // No text of a button or a label is cut off.
                let cut = format!(
                    "[...document.querySelectorAll('{PAGE} button, .choice span, nav a')]\
                     .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.innerText)"
                );
                assert_eq!(browser.value(&cut).await, json!([]), "{name} at {width} in {language}");
            }
        }
        browser.click(".corner input[value='en']").await;
        browser.size(360, 900).await;
        browser.go("compare").await;
        browser.go(address).await;
        let link = "document.querySelector('nav a[aria-current]').getBoundingClientRect()";
        let is_seen = format!("{link}.left >= 0 && {link}.right <= 361");
        for language in ["en", "zh"] {
            browser.click(&format!(".corner input[value='{language}']")).await;
            let place = browser.value(&format!("[{link}.left, {link}.right, innerWidth]")).await;
            assert_eq!(browser.value(&is_seen).await, true, "the link of {name} is out of sight: {place}");
        }
    }
    browser.close().await;
}

/// The path of `axe.min.js` of the npm package axe-core, in `LOOKALIKE_TEST_AXE`; `.ci/run` gets it if npm is
/// there.
#[tokio::test]
async fn axe_finds_nothing_on_any_page_in_either_theme_and_language() {
    let Some(axe) = std::env::var_os("LOOKALIKE_TEST_AXE") else {
        skipped("LOOKALIKE_TEST_AXE does not name axe.min.js (npm install axe-core)");
        return;
    };
    let axe = std::fs::read_to_string(axe).unwrap();
    // A fault of colours is one of a theme, a fault of names one of a language.
    for (scheme, language) in [("light", "en"), ("dark", "zh")] {
        let data = directory();
        let server = furnished(data.path()).await;
        let Some(browser) = Browser::open(&server).await else { return };
        browser.prefer(scheme).await;
        let pages = PAGES.map(|(name, address, ready)| (name, address, &[][..], ready));
        for (name, address, pressed, ready) in pages.into_iter().chain(STATES) {
            browser.make(address, pressed, ready).await;
            browser.click(&format!(".corner input[value='{language}']")).await;
            assert_eq!(browser.faults(&axe).await, json!([]), "{name}, {scheme}");
        }
        // A table before and after its import: a copy of a stored text, one that is new, and an invalid row.
        let table = data.path().join("table.csv");
        std::fs::write(&table, format!("Nr,Title,Body\n1,a,{FERRY_EN:?}\n2,b,\"a new text\"\n3,c,\n"))
            .unwrap();
        browser.make("import?collection=news", &[], "document.querySelector('.dropzone')").await;
        browser.choose_file(&format!("{PAGE} input[type=file]"), &table).await;
        browser.shows(PAGE, "Of 3 records").await;
        browser.click(&format!(".corner input[value='{language}']")).await;
        assert_eq!(browser.faults(&axe).await, json!([]), "the preview of an import, {scheme}");
        browser.click(".corner input[value='en']").await;
        browser.press("Start").await;
        browser.shows(PAGE, "Done: 3 records").await;
        browser.click(&format!(".corner input[value='{language}']")).await;
        assert_eq!(browser.faults(&axe).await, json!([]), "what became of an import, {scheme}");
        browser.close().await;
    }
}
