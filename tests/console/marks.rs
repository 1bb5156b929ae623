//! Marks of documents as no duplicates, on the pages that show matches and in the list of a collection.

use serde_json::json;

use crate::articles::{FERRY_EN, FERRY_EN_EDITED, store};
use crate::browser::{Browser, PAGE};
use crate::server::{Server, directory};

#[tokio::test]
async fn a_pair_is_marked_on_each_page_listed_and_removed() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    let articles = [("en-1", FERRY_EN), ("en-2", FERRY_EN_EDITED)];
    let articles = articles.map(|(id, text)| (id.to_owned(), text.to_owned()));
    let settings = json!({"profile": "copies-128", "k": 24, "clusters": {"keep": "first"}});
    store(&server, "news", settings, &articles).await;
    let marks = async || server.json("/collections/news/marks").await["marks"].clone();
    // In the matches of a document: marked, undone, and marked again.
    browser.go("find?collection=news&id=en-1").await;
    browser.shows(&format!("{PAGE} .matches"), "en-2").await;
    browser.press("Not a duplicate").await;
    browser.shows(&format!("{PAGE} .matches"), "en-1 and en-2 are marked").await;
    assert_eq!(marks().await[0]["ids"], json!(["en-1", "en-2"]));
    browser.press("Undo").await;
    browser
        .until(&format!("!document.querySelector('{PAGE} .matches').textContent.includes('are marked')"))
        .await;
    assert_eq!(marks().await, json!([]));
    browser.press("Not a duplicate").await;
    browser.shows(&format!("{PAGE} .matches"), "are marked").await;
    browser.go("find?collection=news&id=en-2").await;
    browser.shows(&format!("{PAGE} .result"), "1 match is left out because of marks").await;
    // The list of the collection.
    browser.go("collections?collection=news").await;
    browser.click(&format!("{PAGE} .marks summary")).await;
    browser.shows(&format!("{PAGE} .marks tbody"), "en-1").await;
    browser.press("Remove").await;
    browser.shows(&format!("{PAGE} .marks"), "No document is marked").await;
    assert_eq!(marks().await, json!([]));
    // A comparison, and a cluster.
    browser.go("compare?collection=news&a=en-1&b=en-2").await;
    browser.press("Not a duplicate").await;
    browser.shows(&format!("{PAGE} .result"), "are marked").await;
    browser.press("Undo").await;
    browser
        .until(&format!("!document.querySelector('{PAGE} .result').textContent.includes('are marked')"))
        .await;
    // A marked pair is said to be marked, and the mark can be taken back.
    server.post("/collections/news/marks", json!({"marks": [{"ids": ["en-1", "en-2"]}]})).await;
    browser.go("compare?collection=news&a=en-2&b=en-1").await;
    browser.shows(&format!("{PAGE} .markable"), "en-1 and en-2 are marked").await;
    browser.press("Take the mark back").await;
    browser.shows(&format!("{PAGE} .markable"), "Not a duplicate").await;
    assert_eq!(marks().await, json!([]));
    server.post("/collections/news/marks", json!({"marks": [{"ids": ["en-1"]}]})).await;
    browser.go("compare?collection=news&a=en-2&b=en-1").await;
    browser.shows(&format!("{PAGE} .markable"), "en-1 is marked as no duplicate of any other").await;
    browser.press("Take the mark back").await;
    browser.shows(&format!("{PAGE} .markable"), "Not a duplicate").await;
    browser.go("clusters?collection=news").await;
    browser.press("en-1").await;
    browser.shows(&format!("{PAGE} .matches"), "en-2").await;
    browser.press("Not a duplicate").await;
    browser.shows(&format!("{PAGE} .matches"), "are marked").await;
    assert_eq!(marks().await[0]["ids"], json!(["en-1", "en-2"]));
    browser.is_not_hacked().await;
    browser.close().await;
}
