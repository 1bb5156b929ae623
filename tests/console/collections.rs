//! The page of the collections.

use serde_json::json;

use crate::articles::{real, store};
use crate::browser::{Browser, PAGE};
use crate::server::{Server, directory};

#[tokio::test]
async fn a_collection_is_made_described_and_deleted() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("collections").await;
    browser.press("New collection").await;
    browser.fill(&format!("{PAGE} form input.mono"), "news").await;
    browser.click("input[name='profile'][value='copies-64@1']").await;
    browser.press("Make the collection").await;
    browser.shows(&format!("{PAGE} .notice.good"), "The collection news was made.").await;
    let made = server.json("/collections/news").await;
    assert_eq!((&made["profile"], &made["keep_text"]), (&json!("copies-64@1"), &json!(true)));
    // Many documents with one hash are listed, and open the search for that hash.
    let mut articles = real("zh_edits", 120);
    let text = articles[0].1.clone();
    articles.extend((0..7).map(|copy| (format!("copy-{copy}"), text.clone())));
    store(&server, "news", json!({}), &articles).await;
    server.get("/collections/news/similar?id=copy-1&k=3").await;
    browser.press("Refresh").await;
    browser.until(&format!("document.querySelectorAll('{PAGE} .chart .column').length > 3")).await;
    browser.shows(&format!("{PAGE} .figures"), "127").await;
    browser.shows(&format!("{PAGE} .rates"), "requests a second").await;
    for _ in 0..50 {
        server.get("/collections/news/similar?hash=00000000000000ff").await;
    }
    browser.shows(&format!("{PAGE} .rates"), "p50 ").await;
    let shared = server.json("/collections/news/shared-hashes").await["hashes"][0].clone();
    assert!(shared["documents"].as_u64().unwrap() >= 8, "{shared}");
    browser.press(shared["hash"].as_str().unwrap()).await;
    browser.shows(&format!("{PAGE} .lead"), "within k = 0").await;
    browser.until("document.querySelectorAll('.match').length >= 8").await;
    // Deleted only after its name was typed.
    browser.go("collections?collection=news").await;
    browser.press("Delete this collection").await;
    let name = format!("{PAGE} details:last-of-type form input");
    browser.fill(&name, "new").await;
    assert_eq!(browser.value("document.querySelector('button.danger').disabled").await, true);
    browser.fill(&name, "news").await;
    browser.press("Delete for ever").await;
    browser
        .until("[...document.querySelectorAll('#collection option')].every((one) => one.value !== 'news')")
        .await;
    assert_eq!(server.get("/collections/news").await.status().as_u16(), 404);
    browser.close().await;
}
