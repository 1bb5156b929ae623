//! The page of the documents: filters, the list, one document, deletion and its undo, export, a long list.

use serde_json::json;

use crate::articles::{FERRY_EN, FERRY_EN_EDITED, HOSTILE, made, store};
use crate::browser::{Browser, PAGE};
use crate::server::{Server, directory};
use crate::tasks::SPY;

/// Documents of the long list.
const MANY: u64 = 1_000_000;
/// Lines in a request.
const PART: u64 = 100_000;

#[tokio::test]
async fn documents_are_found_read_deleted_kept_and_exported() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    let settings = json!({"profile": "copies-128", "keep_text": true, "clusters": {"keep": "first"}});
    let mut articles = made(300);
    articles.push(("ferry-1".to_owned(), FERRY_EN.to_owned()));
    articles.push(("ferry-2".to_owned(), FERRY_EN_EDITED.to_owned()));
    store(&server, "news", settings, &articles).await;
    let evil = json!({"text": format!("{HOSTILE} {FERRY_EN}"), "metadata": {"source": HOSTILE, "n": 7}});
    server.put("/collections/news/documents/ferry-3", evil).await;
    browser.go("documents?collection=news").await;
    browser.shows(&format!("{PAGE} .documents .note"), "of 303 documents").await;
    // By the beginning of the id, and by metadata.
    browser.fill(&format!("{PAGE} .filters input"), "ferry").await;
    browser.press("Search").await;
    browser.shows(&format!("{PAGE} .documents .note"), "3 documents pass the filter").await;
    browser.press("Add a condition on metadata").await;
    browser.fill(&format!("{PAGE} .condition input"), "n").await;
    browser.fill(&format!("{PAGE} .condition input:last-of-type"), "7").await;
    browser.press("Search").await;
    browser.shows(&format!("{PAGE} .documents .note"), "1 document passes").await;
    // A field that no document has is named, and those that are there are offered.
    browser.fill(&format!("{PAGE} .condition input"), "N").await;
    browser.press("Search").await;
    browser.shows(&format!("{PAGE} .notice.warn"), "No document has the field “N”").await;
    browser.shows(&format!("{PAGE} .documents .note"), "0 documents pass").await;
    browser.press("n").await;
    browser.shows(&format!("{PAGE} .documents .note"), "1 document passes").await;
    browser.click(&format!("{PAGE} .vrow")).await;
    browser.shows(&format!("{PAGE} .fulltext"), "onerror").await;
    browser.shows(&format!("{PAGE} .metadata"), "onerror").await;
    browser.shows(&format!("{PAGE} .document .matches"), "ferry-1").await;
    browser.is_not_hacked().await;
    // The cluster of any of its documents, without the other conditions.
    browser.click(&format!("{PAGE} .document a[href*='cluster=']")).await;
    browser.shows(&format!("{PAGE} .documents .note"), "3 documents pass the filter").await;
    let disabled = format!("document.querySelector('{PAGE} .condition input').disabled");
    assert_eq!(browser.value(&disabled).await, true);
    // Deleted with undo, which another user can do as well.
    browser.press("Delete this document").await;
    browser.shows(&format!("{PAGE} .notice.warn"), "1 document is deleted at").await;
    let document = "/collections/news/documents/ferry-3";
    assert!(server.json(document).await["deletion_at"].is_string());
    browser.go("documents?collection=news").await;
    browser.press("To be deleted").await;
    browser.shows(&format!("{PAGE} .documents .note"), "1 document passes").await;
    browser.click(&format!("{PAGE} .vrow .check")).await;
    browser.shows(&format!("{PAGE} .selection"), "1 selected").await;
    browser.press("Keep after all").await;
    browser.shows(&format!("{PAGE} .notice.plain"), "1 document stays").await;
    assert!(server.json(document).await.get("deletion_at").is_none());
    // The selection as a table: what the file has is looked at before it is saved.
    browser.go("documents?collection=news").await;
    browser.until(&format!("document.querySelectorAll('{PAGE} .vrow').length > 5")).await;
    browser.value(SPY).await;
    browser.click(&format!("{PAGE} .vrow:nth-child(2) .check")).await;
    browser.press("Export").await;
    let saved = browser.until("window.saved").await;
    let saved = saved.as_str().unwrap();
    assert!(saved.starts_with("\u{feff}id,written_at") || saved.starts_with("id,written_at"), "{saved}");
    assert!(saved.contains("article-1,") && saved.lines().count() == 2, "{saved}");
    // What is shown is selected, then all that the filter admits: exported, deleted, and kept again.
    browser.press("Select none").await;
    browser.press("Select all shown").await;
    browser.shows(&format!("{PAGE} .selection"), "200 selected").await;
    browser.press("All of the collection").await;
    browser.shows(&format!("{PAGE} .selection"), "All of the collection are selected").await;
    browser.fill(&format!("{PAGE} .filters input"), "article-").await;
    browser.press("Search").await;
    browser.shows(&format!("{PAGE} .selection"), "Export all").await;
    browser.press("Select all shown").await;
    browser.press("All that match the filter").await;
    browser.shows(&format!("{PAGE} .selection"), "All that match the filter are selected").await;
    browser.value("(window.saved = null, 1)").await;
    browser.press("Export").await;
    let saved = browser.until("window.saved").await;
    let saved = saved.as_str().unwrap();
    assert!(saved.contains("\narticle-299,2") && saved.lines().count() == 301, "{saved}");
    let (_, earlier) =
        server.post("/collections/news/deletions", json!({"ids": ["article-7"], "plan": true})).await;
    assert_eq!(earlier["planned"], 1, "{earlier}");
    browser.press("Delete").await;
    browser.shows(&format!("{PAGE} .notice.warn"), "299 documents are deleted at").await;
    browser.shows(&format!("{PAGE} .notice.warn"), "1 document was planned to be deleted before").await;
    browser.press("Undo").await;
    browser.shows(&format!("{PAGE} .notice.plain"), "300 documents stay").await;
    assert!(server.json("/collections/news/documents/article-9").await.get("deletion_at").is_none());
    browser.close().await;
}

#[tokio::test]
async fn a_million_documents_scroll() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    assert!(server.put("/collections/many", json!({"profile": "copies-64", "k": 1})).await.0.is_success());
    for part in 0..MANY / PART {
        let line = |number: u64| {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            format!("{{\"id\":\"d{number:07}\",\"hash\":\"{hash:016x}\",\"metadata\":{{\"n\":{number}}}}}\n")
        };
        let lines: String = (part * PART..(part + 1) * PART).map(line).collect();
        server.stream("/collections/many/documents", lines).await;
    }
    browser.go("documents?collection=many").await;
    browser.until(&format!("document.querySelectorAll('{PAGE} .vrow').length > 5")).await;
    // A step scrolls by a screen and ends when the rows in sight are there.
    let script = "const done = arguments[arguments.length - 1]; \
        const list = document.querySelector('.vlist'); const times = []; \
        const frame = () => new Promise(requestAnimationFrame); \
        const rows = () => [...list.querySelectorAll('.vrow')]; \
        (async () => { for (let step = 0; step < 300; step += 1) { \
            const start = performance.now(); \
            list.scrollTop += list.clientHeight; await frame(); \
            while (rows().some((row) => row.innerText === '\u{2026}')) await frame(); \
            times.push(performance.now() - start); } \
        times.sort((a, b) => a - b); \
        done([times[150], times[285], list.querySelectorAll('.vrow').length, \
              list.querySelector('.vrow:last-child').getAttribute('aria-posinset')]); })();";
    let found = browser.driver.execute_async(script, vec![]).await.unwrap();
    let number = |at: usize| found[at].as_f64().unwrap();
    println!("a step: median {} ms, p95 {} ms; {found}", number(0), number(1));
    assert!(number(2) < 60.0, "only rows in sight are elements: {found}");
    let reached: f64 = found[3].as_str().unwrap().parse().unwrap();
    assert!(reached > 2_000.0, "{found}");
    // The end of the list is a search away.
    browser.fill(&format!("{PAGE} .filters input"), "d099999").await;
    browser.press("Search").await;
    browser.shows(&format!("{PAGE} .documents .note"), "10 documents pass the filter").await;
    browser.close().await;
}
