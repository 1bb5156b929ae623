//! The page that finds.

use serde_json::json;

use crate::articles::{FERRY_EN, FERRY_EN_EDITED, real, store};
use crate::browser::{Browser, PAGE};
use crate::server::{Server, directory};

#[tokio::test]
async fn the_slider_moves_k_and_a_match_opens_the_comparison() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let mut articles = real("en_reuters", 300);
    articles.push(("one".to_owned(), FERRY_EN.to_owned()));
    articles.push(("two".to_owned(), FERRY_EN_EDITED.to_owned()));
    let settings = json!({"profile": "copies-128", "keep_text": true, "passages": true});
    store(&server, "news", settings, &articles).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("find?collection=news").await;
    browser.fill(&format!("{PAGE} textarea"), FERRY_EN).await;
    browser.press("Find").await;
    browser.shows(&format!("{PAGE} .result"), "within k = 23").await;
    let ids = "[...document.querySelectorAll('.matches')][0].innerText";
    browser.until(&format!("{ids}.includes('one') && {ids}.includes('two')")).await;
    let sides = json!({"a": {"id": "one"}, "b": {"id": "two"}});
    let distance = server.post("/collections/news/compare", sides).await.1["distance"].as_u64().unwrap();
    let set = |k: u64| {
        format!(
            "((one) => {{ one.value = {k}; one.dispatchEvent(new Event('input')); return 1; }})\
                 (document.querySelector('#reach'))"
        )
    };
    browser.value(&set(distance - 1)).await;
    browser.until(&format!("{ids}.includes('one') && !{ids}.includes('two')")).await;
    browser.value(&set(distance)).await;
    browser.until(&format!("{ids}.includes('two')")).await;
    // A least similarity that leaves out every answer says so, and is lowered by a button.
    browser.press("Stored id").await;
    browser.fill(&format!("{PAGE} input[type=text]"), "one").await;
    browser.fill(&format!("{PAGE} .reach input[type=number][step='0.05']"), "0.99").await;
    browser.press("Find").await;
    browser.shows(&format!("{PAGE} .matches"), "1 document is within k, but less similar than 0.99").await;
    browser.click(&format!("{PAGE} .matches button")).await;
    browser.shows(&format!("{PAGE} .matches .id"), "two").await;
    browser.fill(&format!("{PAGE} .reach input[type=number][step='0.05']"), "").await;
    browser.press("Text").await;
    browser.press("Find").await;
    browser.until(&format!("{ids}.includes('one') && {ids}.includes('two')")).await;
    // The kept text, the passages, and how the answer was found.
    browser.shows(".match .snippet", "The harbour ferry").await;
    browser.shows(".match .note", "of the query is in it").await;
    // What shares passages and is a match is not listed again.
    let both =
        "[...document.querySelectorAll('.match')].filter((one) => one.innerText.includes('two')).length";
    assert_eq!(browser.value(both).await, 1);
    browser.press("How the answer was found").await;
    browser.shows("details .figures", "Candidates compared").await;
    browser.until("document.querySelectorAll('.match').length >= 2").await;
    let last = "[...document.querySelectorAll('.match')].find((one) => one.innerText.includes('two'))";
    browser.value(&format!("({last}.querySelector('button').click(), 1)")).await;
    browser.shows(".verdict .lead", &format!("{distance} of 128 bits differ")).await;
    browser.close().await;
}

#[tokio::test]
async fn a_short_text_is_warned_about_where_the_user_looks() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("find").await;
    browser.fill(&format!("{PAGE} textarea"), "two words").await;
    browser.press("Find").await;
    browser.shows(&format!("{PAGE} .result .notice.warn"), "The text is short").await;
    browser.close().await;
}
