//! The word-by-word comparison of long texts: two revisions of a real Chinese page, and real English articles
//! with a few edits, each of more than 5,000 words.

use std::cmp::Reverse;

use fantoccini::key::Key;
use serde_json::{Value, json};

use crate::articles::{real, store};
use crate::browser::{Browser, PAGE};
use crate::server::{Server, directory};

/// Bytes of a text that is long enough.
const LONG: usize = 60_000;

/// The two longest pages of the revisions, which are revisions of one page.
fn chinese() -> [String; 2] {
    let mut pages = real("zh_revisions", 4_000);
    pages.sort_by_key(|(_, text)| Reverse(text.len()));
    let [first, second] = [&pages[0].1, &pages[1].1];
    if first.len() < LONG { english() } else { [first.clone(), second.clone()] }
}

/// Articles one after the other, and the same with a sentence added, an article left out and words replaced.
fn english() -> [String; 2] {
    let articles = real("en_reuters", 120);
    let texts: Vec<&str> = articles.iter().map(|(_, text)| text.as_str()).collect();
    let mut edited = texts.clone();
    edited[20] = "A sentence that was added between two articles.";
    edited.remove(60);
    let edited = edited.join("\n\n").replacen(" the ", " this very ", 2);
    [texts.join("\n\n"), edited]
}

/// The text of one side as the page shows it, folded parts included.
async fn shown(browser: &Browser, other: &str) -> Value {
    let script = format!(
        "(() => {{ const copy = document.querySelector('.diff').cloneNode(true); \
         copy.querySelectorAll('{other}, button').forEach((one) => one.remove()); \
         return copy.textContent; }})()"
    );
    browser.value(&script).await
}

#[tokio::test]
async fn long_texts_are_compared_and_folded() {
    let data = directory();
    // The machine may be busy with other tests.
    let server = Server::start_with(data.path(), &[("LOOKALIKE_LIMITS__QUERY_MS", "60000")]).await;
    let Some(browser) = Browser::open(&server).await else { return };
    for (name, texts) in [("zh", chinese()), ("en", english())] {
        assert!(texts[0].len() > LONG && texts[0] != texts[1]);
        let ids = ["a", "b"].map(str::to_owned);
        let articles: Vec<_> = ids.into_iter().zip(texts.clone()).collect();
        store(&server, name, json!({"keep_text": true}), &articles).await;
        let wanted = json!({"a": {"id": "a"}, "b": {"id": "b"}, "whole_diff": true});
        let (_, answer) = server.post(&format!("/collections/{name}/compare"), wanted).await;
        let changes = answer["diff"].as_array().unwrap();
        let of = |kind: &str| -> String {
            let parts = changes.iter().filter(|one| one["change"] == "equal" || one["change"] == kind);
            parts.map(|one| one["text"].as_str().unwrap()).collect()
        };
        assert!(of("removed") == texts[0] && of("added") == texts[1], "{name}");
        println!("{name}: {} and {} bytes, {} segments", texts[0].len(), texts[1].len(), changes.len());
        browser.go(&format!("compare?collection={name}&a=a&b=b")).await;
        browser.until("document.querySelector('.diff .fold')").await;
        assert!(
            shown(&browser, "ins").await == texts[0] && shown(&browser, "del").await == texts[1],
            "{name}"
        );
        usable(&browser).await;
    }
    browser.close().await;
}

/// Goes from change to change, opens folds with the keyboard, and changes form, language and width.
async fn usable(browser: &Browser) {
    let all = browser.value("document.querySelectorAll('.diff [data-change]').length").await;
    browser.shows(".way .note", &format!("{all} change")).await;
    let in_view = "(() => { const of = (one) => document.querySelector(one).getBoundingClientRect(); \
                   const [change, pane] = [of('.diff .current'), of('.diff')]; \
                   return change.top >= pane.top && change.bottom <= pane.bottom; })()";
    for (button, number) in [("Next", 1), ("Next", 2), ("Previous", 1)] {
        browser.press(button).await;
        browser.shows(".way .note", &format!("Change {number} of {all}")).await;
        assert_eq!(browser.value(in_view).await, true, "{button}");
    }
    let fold = "document.querySelector('.diff .fold')";
    browser.value(&format!("({fold}.focus(), 1)")).await;
    browser.keys(&[&Key::Enter]).await;
    browser.until(&format!("{fold}.getAttribute('aria-expanded') === 'true'")).await;
    browser.shows(".diff .fold", "Hide ").await;
    assert_eq!(browser.value(&format!("{fold}.nextElementSibling.hidden")).await, false);
    assert_eq!(browser.value(&format!("document.activeElement === {fold}")).await, true);
    browser.keys(&[&Key::Enter]).await;
    browser.shows(".diff .fold", " unchanged characters").await;
    assert_eq!(browser.value(&format!("{fold}.nextElementSibling.hidden")).await, true);
    let folds = browser.value("document.querySelectorAll('.diff .fold').length").await;
    browser.press("Side by side").await;
    browser.until("document.querySelector('.diff.beside [data-side=B]')").await;
    assert_eq!(browser.value("document.querySelectorAll('.diff .fold').length").await, folds);
    browser.click(".corner input[value='zh']").await;
    browser.shows(".diff .fold", "个未改动的字符").await;
    browser.size(360, 900).await;
    let wide = browser.value("document.documentElement.scrollWidth").await;
    assert!(wide.as_u64().unwrap() <= 360, "{wide}");
    browser.size(1280, 900).await;
    browser.click(".corner input[value='en']").await;
    browser.press("Show everything").await;
    browser.until(&format!("document.querySelectorAll('{PAGE} .diff p[hidden]').length === 0")).await;
}
