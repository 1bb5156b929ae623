//! Twelve tasks of a new user, each from the page that is open when it begins to the sentence that says it is
//! done, with the steps that it takes: clicks, keys, fields and files. The times are those of the machine;
//! what a person reads and thinks is not in them.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::json;

use crate::articles::{FERRY_EN, FERRY_EN_EDITED, made, store};
use crate::browser::{Browser, PAGE};
use crate::keys::create;
use crate::server::{Server, directory};

/// A browser that counts what a user does.
struct User {
    browser: Browser,
    steps: u32,
    since: Instant,
}

impl User {
    async fn page(&mut self, name: &str) {
        self.click(&format!("nav a[data-page='{name}']")).await;
        self.browser.until(&format!("location.hash.startsWith('#/{name}')")).await;
    }

    async fn click(&mut self, selector: &str) {
        self.steps += 1;
        self.browser.click(selector).await;
    }

    async fn press(&mut self, words: &str) {
        self.steps += 1;
        self.browser.press(words).await;
    }

    async fn fill(&mut self, selector: &str, text: &str) {
        self.steps += 1;
        let selector = format!("{PAGE} {selector}");
        self.browser.until(&format!("document.querySelector({})", json!(selector))).await;
        self.browser.fill(&selector, text).await;
    }

    async fn key(&mut self, key: &str) {
        self.steps += 1;
        self.browser.keys(&[key]).await;
    }

    async fn file(&mut self, file: &Path) {
        self.steps += 1;
        self.browser.until(&format!("document.querySelector('{PAGE} input[type=file]')")).await;
        self.browser.choose_file(&format!("{PAGE} input[type=file]"), file).await;
    }

    async fn sees(&self, words: &str) {
        self.browser.shows(PAGE, words).await;
    }

    /// Says what a task took.
    fn done(&mut self, task: &str) {
        println!("{task}: {} steps, {:.1} s", self.steps, self.since.elapsed().as_secs_f64());
        (self.steps, self.since) = (0, Instant::now());
    }
}

/// Keeps what is saved as a file.
pub const SPY: &str = "(window.saved = null, URL.createObjectURL = (blob) => \
                   { blob.text().then((text) => { window.saved = text; }); return '#'; }, 1)";

/// A Parquet file of the articles.
fn parquet(articles: &[(String, String)]) -> Vec<u8> {
    let schema =
        "message m { required binary key (UTF8); required binary body (UTF8); required int64 year; }";
    let (mut bytes, schema) = (Vec::new(), Arc::new(parse_message_type(schema).unwrap()));
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let [keys, texts]: [Vec<ByteArray>; 2] = [
        articles.iter().map(|(id, _)| ByteArray::from(id.as_str())).collect(),
        articles.iter().map(|(_, text)| ByteArray::from(text.as_str())).collect(),
    ];
    for values in [keys, texts] {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
        column.close().unwrap();
    }
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&vec![2026; articles.len()], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[tokio::test]
async fn eleven_tasks_of_a_new_user_are_done() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("compare").await;
    let mut user = User { browser, steps: 0, since: Instant::now() };

    user.click(".welcome .primary").await;
    user.browser.until(&format!("document.querySelector('{PAGE} .cluster .match')")).await;
    user.done("1. sample data");

    for _ in 0..10 {
        let before = user.browser.text(&format!("{PAGE} .lead")).await;
        user.key("d").await;
        let lead = format!("document.querySelector('{PAGE} .lead').innerText");
        user.browser.until(&format!("{lead} !== {}", json!(before))).await;
    }
    user.done("2. clear ten clusters");

    user.press("Decisions as CSV").await;
    user.done("3. the decisions as a table");

    user.page("documents").await;
    user.press("To be deleted").await;
    user.sees("documents pass the filter").await;
    user.click(&format!("{PAGE} .vrow .check")).await;
    user.press("Keep after all").await;
    user.sees("1 document stays").await;
    user.done("4. find what will be deleted, and keep one");

    user.page("collections").await;
    user.press("New collection").await;
    user.fill("form input.mono", "news").await;
    user.press("Make the collection").await;
    user.sees("The collection news was made.").await;
    user.done("5. make a collection");

    let file = data.path().join("articles.parquet");
    let mut articles = made(600);
    articles.push(("ferry".to_owned(), FERRY_EN.to_owned()));
    std::fs::write(&file, parquet(&articles)).unwrap();
    user.page("import").await;
    user.file(&file).await;
    user.sees("Of 601 records:").await;
    user.press("Start").await;
    user.sees("Done: 601 records").await;
    assert_eq!(server.json("/collections/news").await["documents"], 601);
    let row = server.json("/collections/news/documents/article-3").await;
    assert_eq!(row["metadata"], json!({"year": 2026}), "{row}");
    user.done("6. import a Parquet file after its dry run");

    user.page("find").await;
    user.fill("textarea", FERRY_EN_EDITED).await;
    user.press("Find").await;
    user.browser.until(&format!("document.querySelector('{PAGE} .match .id')?.innerText === 'ferry'")).await;
    user.press("Compare").await;
    user.browser.shows(".verdict", "Match").await;
    user.done("7. the source of a repost, and what was changed");

    user.page("find").await;
    user.press("Stored id").await;
    user.fill("input[type=text]", "article-3").await;
    user.press("Find").await;
    user.press("Not a duplicate").await;
    while server.json("/collections/news/marks").await["marks"] == json!([]) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    user.done("8. mend a wrong pair");

    // The filter of the collection before is gone.
    user.page("documents").await;
    user.sees("of 601 documents").await;
    user.fill(".filters input", "article-10").await;
    user.press("Search").await;
    user.sees("11 documents pass the filter").await;
    user.browser.value(SPY).await;
    user.press("JSON lines").await;
    user.press("Export all").await;
    let saved = user.browser.until("window.saved").await;
    // The first line has the settings of the collection.
    assert_eq!(saved.as_str().unwrap().lines().count(), 1 + 11, "{saved}");
    user.done("9. export the documents of a filter");

    user.click(&format!("{PAGE} .vrow .check")).await;
    user.click(&format!("{PAGE} .vrow:nth-child(2) .check")).await;
    user.press("Delete").await;
    user.sees("2 documents are deleted at").await;
    user.press("Undo").await;
    user.sees("2 documents stay").await;
    user.done("10. delete two documents, and undo that");

    user.page("calibrate").await;
    user.press("Start to measure").await;
    user.browser.until(&format!("document.querySelectorAll('{PAGE} .chart .line').length === 3")).await;
    let apply = format!(
        "[...document.querySelectorAll('{PAGE} button')].find((one) => \
                         one.innerText.startsWith('Use k =') && one.checkVisibility())?.innerText"
    );
    let words = user.browser.until(&apply).await;
    user.press(words.as_str().unwrap()).await;
    user.sees("news now uses k =").await;
    user.done("11. which k fits, and use it");

    user.browser.close().await;
}

#[tokio::test]
async fn the_twelfth_task_is_what_a_key_may_do() {
    let data = directory();
    let reader = create(data.path(), "reader", &["--role", "read"]);
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("documents").await;
    let mut user = User { browser, steps: 0, since: Instant::now() };
    user.sees("requires a key").await;
    user.fill("input[type=password]", &reader).await;
    user.press("Use this key").await;
    user.sees("It may read.").await;
    user.sees("no: it needs a key that may write").await;
    user.done("12. what a key may do");
    user.browser.close().await;
}

/// A hundred clusters of two, with every text read by nobody: what the machine takes of the ten minutes.
#[tokio::test]
#[ignore = "a figure of docs/console.md"]
async fn a_hundred_clusters() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    let settings = json!({"profile": "copies-128", "keep_text": true, "clusters": {"keep": "first"}});
    store(&server, "news", settings, &made(400)).await;
    browser.go("review?collection=news").await;
    browser.until(&format!("document.querySelector('{PAGE} .cluster .match')")).await;
    let mut times = Vec::new();
    for at in 0..100 {
        let shown = format!("document.querySelector('{PAGE} .cluster .mono')?.innerText ?? ''");
        browser.until(&format!("document.querySelector('{PAGE} .diff')")).await;
        let (before, since) = (browser.value(&shown).await, Instant::now());
        browser.keys(&[if at % 5 == 4 { "n" } else { "d" }]).await;
        browser.until(&format!("{shown} !== {}", json!(before))).await;
        times.push(since.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let all: f64 = times.iter().sum();
    println!("100 clusters: {all:.1} s of the machine, median {:.3} s, p95 {:.3} s", times[50], times[95]);
    browser.close().await;
}
