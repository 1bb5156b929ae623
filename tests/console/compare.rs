//! The page that compares.

use serde_json::json;

use crate::articles::{FERRY_EN, FERRY_EN_EDITED, FERRY_ZH, FERRY_ZH_EDITED, HOSTILE, real, store};
use crate::browser::{Browser, PAGE};
use crate::server::{Server, directory};

const A: &str = ".page:not([hidden]) .side-input:nth-of-type(1) textarea";
const B: &str = ".page:not([hidden]) .side-input:nth-of-type(2) textarea";

async fn compare(browser: &Browser, a: &str, b: &str) {
    browser
        .value(&format!(
            "(document.querySelectorAll('{PAGE} .result > *').forEach((one) => one.remove()), 1)"
        ))
        .await;
    browser.fill(A, a).await;
    browser.fill(B, b).await;
    browser.press("Compare").await;
    browser
        .until("document.querySelector('.verdict .badge') || document.querySelector('.result .notice')")
        .await;
}

#[tokio::test]
async fn two_texts_are_explained_down_to_the_features_of_a_bit() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("compare").await;
    for (a, b, removed, added) in
        [(FERRY_ZH, FERRY_ZH_EDITED, "十五", "二十"), (FERRY_EN, FERRY_EN_EDITED, "fifteen", "twenty")]
    {
        compare(&browser, a, b).await;
        let sides = json!({"a": {"text": a}, "b": {"text": b}});
        let (_, expected) = server.post("/compare", sides).await;
        let distance = expected["distance"].as_u64().unwrap();
        let differing = browser
            .until("document.querySelector('.bit') && document.querySelectorAll('.bit.differs').length")
            .await;
        assert_eq!(differing, distance);
        browser.shows(".verdict .lead", &format!("{distance} of 64 bits differ")).await;
        let changes = browser
            .value("[...document.querySelectorAll('.diff del, .diff ins')].map((one) => one.innerText)")
            .await;
        let changes = changes.to_string();
        assert!(changes.contains(removed) && changes.contains(added), "{changes}");
        // The sums of the features of a bit are those of the server.
        let bit = &expected["bits"][0];
        browser.click(&format!(".bit[data-bit='{}']", bit["bit"])).await;
        browser.shows(".decided h4", &format!("Bit {} differs", bit["bit"])).await;
        let heads = browser.text(".decided thead").await.replace('\u{2212}', "-");
        for margin in bit["margins"].as_array().unwrap() {
            let shown = format!("{:.1}", margin.as_f64().unwrap());
            let shown = shown.trim_end_matches(".0");
            assert!(heads.contains(shown), "{heads} has no {shown}");
        }
        let rows = browser.value("document.querySelectorAll('.decided tbody tr').length").await;
        assert!(rows.as_u64().unwrap() > 3, "{rows}");
        browser.shows(".features", if a == FERRY_ZH { "渡轮" } else { "ferry" }).await;
    }
    browser.press("Side by side").await;
    browser.until("document.querySelector('.diff.beside > p:nth-of-type(2)')").await;
    // Another language and another theme change the page in place.
    browser.click(".corner input[value='zh']").await;
    browser.shows(&format!("{PAGE} h1"), "比较").await;
    browser.shows(".verdict .badge", "相似").await;
    assert_eq!(browser.value("document.documentElement.lang").await, "zh-CN");
    browser.click(".corner input[value='dark']").await;
    let ground = browser.value("getComputedStyle(document.body).backgroundColor").await;
    assert_eq!(ground, "rgb(16, 18, 21)");
    browser.close().await;
}

#[tokio::test]
async fn hostile_texts_stay_texts() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/default", json!({"keep_text": true})).await;
    let text = format!("{HOSTILE} {FERRY_EN}");
    let metadata = json!({"title": HOSTILE, (HOSTILE): 1});
    let document = json!({"id": HOSTILE, "text": text, "metadata": metadata});
    let (status, answer) = server.post("/documents", document).await;
    assert!(status.is_success(), "{answer}");
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("compare").await;
    compare(&browser, &text, &format!("{HOSTILE} {FERRY_EN_EDITED} {HOSTILE}")).await;
    browser.shows(".diff", "onerror").await;
    browser.until("document.querySelector('.decided')").await;
    browser.is_not_hacked().await;
    browser.press("HTML page").await;
    compare(&browser, &text, FERRY_EN).await;
    browser.is_not_hacked().await;
    browser.go("find").await;
    browser.fill(&format!("{PAGE} textarea"), &text).await;
    browser.press("Find").await;
    browser.shows(".match .id", "onerror").await;
    browser.shows(".match .tags", "onerror").await;
    browser.shows(".match .snippet", "onerror").await;
    browser.is_not_hacked().await;
    browser.close().await;
}

#[tokio::test]
async fn stored_documents_of_a_minhash_collection_show_bands_and_passages() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let settings = json!({"profile": "minhash-copies", "keep_text": true});
    let mut articles = real("zh_edits", 20);
    articles.push(("one".to_owned(), FERRY_ZH.to_owned()));
    articles.push(("two".to_owned(), FERRY_ZH_EDITED.to_owned()));
    store(&server, "signed", settings, &articles).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("compare?collection=signed&a=one&b=two").await;
    browser.until("document.querySelector('.bands .band')").await;
    let sides = json!({"a": {"id": "one"}, "b": {"id": "two"}});
    let (_, expected) = server.post("/collections/signed/compare", sides).await;
    let blocks = expected["blocks"].as_array().unwrap();
    let equal = blocks.iter().filter(|block| **block == true).count();
    assert_eq!(browser.value("document.querySelectorAll('.band').length").await, blocks.len());
    assert_eq!(browser.value("document.querySelectorAll('.band.equal').length").await, equal);
    let passages = expected["containment"]["passages"].as_array().unwrap().len();
    assert!(passages > 0);
    assert_eq!(browser.value("document.querySelectorAll('.passages tbody tr').length").await, passages);
    browser.close().await;
}

#[tokio::test]
async fn files_are_dropped_on_both_sides_and_the_language_of_the_browser_is_taken() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.prefer_language("zh-CN").await;
    browser.go("compare").await;
    browser.shows(&format!("{PAGE} h1"), "比较").await;
    let page = format!("<html><body><article><p>{FERRY_ZH_EDITED}</p></article></body></html>");
    for (side, name, text) in [(1, "one.txt", FERRY_ZH), (2, "two.html", page.as_str())] {
        let of = json!(format!("{PAGE} .side-input:nth-of-type({side})"));
        let drop = format!(
            "(() => {{ const moved = new DataTransfer(); moved.items.add(new File([{}], '{name}')); \
             const event = new DragEvent('drop', {{ dataTransfer: moved, cancelable: true }}); \
             document.querySelector({of}).dispatchEvent(event); return true; }})()",
            json!(text)
        );
        browser.value(&drop).await;
        let area = format!("document.querySelector('{PAGE} .side-input:nth-of-type({side}) textarea')");
        browser.until(&format!("{area}.value === {}", json!(text))).await;
    }
    browser.press("比较").await;
    browser.shows(".verdict .badge", "相似").await;
    browser.shows(".diff ins", "二十分钟").await;
    browser.close().await;
}
