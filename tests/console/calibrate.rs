//! The page that measures k.

use serde_json::json;

use crate::articles::{lines, real, store};
use crate::browser::{Browser, PAGE};
use crate::server::{Server, directory};

/// Notes each part that a bar shows from now on.
const NOTE_PROGRESS: &str = "(window.progress = [], new MutationObserver(() => { \
    const bar = document.querySelector('progress'); \
    if (bar) progress.push(bar.value); \
}).observe(document.body, { subtree: true, childList: true }), 1)";

#[tokio::test]
async fn a_measurement_shows_curves_and_its_k_is_applied() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let articles = real("en_reuters", 300);
    store(&server, "news", json!({"profile": "copies-64", "keep_text": true}), &articles).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("calibrate?collection=news").await;
    browser.value(NOTE_PROGRESS).await;
    browser.press("Start to measure").await;
    browser.until(&format!("document.querySelectorAll('{PAGE} .chart .line').length === 3")).await;
    // The bar was there while it ran, moved forward only, and is gone.
    let is_followed = "progress.length > 0 && progress.every((part, at) => part >= 0 && part <= 1 \
                       && (at === 0 || part >= progress[at - 1])) && !document.querySelector('progress')";
    browser.until(is_followed).await;
    browser.shows(&format!("{PAGE} .figures"), "Recall").await;
    browser.shows(&format!("{PAGE} .chart"), "in use: 7").await;
    let slider = "document.querySelector('.slider.wide input')";
    browser.value(&format!("({slider}.value = 5, {slider}.dispatchEvent(new Event('input')), 1)")).await;
    browser.press("Use k = 5 in news").await;
    browser.shows(&format!("{PAGE} .notice.good"), "news now uses k = 5").await;
    assert_eq!(server.json("/collections/news").await["k"], 5);
    browser.close().await;
}

#[tokio::test]
async fn an_uploaded_sample_is_measured_for_a_collection_without_texts() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let file = data.path().join("sample.jsonl");
    std::fs::write(&file, lines(&real("zh_edits", 150))).unwrap();
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("calibrate").await;
    browser.shows(&format!("{PAGE} .notice.warn"), "does not keep its texts").await;
    browser.press("Of a file").await;
    browser.choose_file(&format!("{PAGE} input[type=file]"), &file).await;
    browser.press("Start to measure").await;
    browser.until(&format!("document.querySelectorAll('{PAGE} .chart .line').length === 3")).await;
    browser.press("minhash-copies@1").await;
    browser.shows(&format!("{PAGE} .chart"), "k in cells").await;
    browser.close().await;
}
