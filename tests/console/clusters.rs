//! The page of the clusters.

use serde_json::json;

use crate::articles::{FERRY_EN, FERRY_EN_EDITED, FERRY_ZH, FERRY_ZH_EDITED, HOSTILE, store};
use crate::browser::{Browser, PAGE};
use crate::server::{Server, directory};

#[tokio::test]
async fn clusters_are_built_listed_compared_and_removed() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    let articles = [
        ("zh-1", FERRY_ZH.to_owned()),
        ("zh-2", format!("{FERRY_ZH_EDITED}完。")),
        ("en-1", FERRY_EN.to_owned()),
        ("en-2", FERRY_EN_EDITED.to_owned()),
        ("bad-1", format!("{FERRY_EN}\n{FERRY_ZH}\n{HOSTILE}")),
        ("bad-2", format!("{FERRY_EN}\n{FERRY_ZH}\n{HOSTILE}.")),
    ];
    let articles = articles.map(|(id, text)| (id.to_owned(), text));
    store(&server, "news", json!({"profile": "copies-128", "keep_text": true, "k": 24}), &articles).await;
    browser.go("clusters?collection=news").await;
    browser.shows(&format!("{PAGE} .notice"), "has no clusters").await;
    // A rule that needs a field asks for it; a wrong distance is refused with its limit.
    let keep = format!("{PAGE} form select");
    let choose = |rule: &str| {
        format!(
            "(() => {{ const one = document.querySelector('{keep}'); one.value = '{rule}'; \
             one.dispatchEvent(new Event('change')); return true; }})()"
        )
    };
    browser.until(&choose("newest")).await;
    browser.until(&format!("!document.querySelector('{PAGE} form .field:nth-child(2)').hidden")).await;
    browser.until(&choose("longest")).await;
    let k = format!("{PAGE} form input[type=number]");
    browser.fill(&k, "999").await;
    browser.press("Build the clusters").await;
    browser.shows(&format!("{PAGE} form .notice.bad"), "128").await;
    browser.fill(&k, "").await;
    browser.press("Build the clusters").await;
    browser.until(&format!("document.querySelectorAll('{PAGE} tbody tr').length === 3")).await;
    browser.shows(&format!("{PAGE} .figures"), "longest").await;
    browser.shows(&format!("{PAGE} .figures"), "decided").await;
    // The members, each against its representative.
    browser.click(&format!("{PAGE} [data-id=zh-2]")).await;
    browser.shows(&format!("{PAGE} .matches"), "zh-1").await;
    browser.press("Differences").await;
    browser.shows(&format!("{PAGE} .diff"), "二十分钟").await;
    browser.click(&format!("{PAGE} [data-id=bad-2]")).await;
    browser.shows(&format!("{PAGE} .matches"), "bad-1").await;
    browser.press("Differences").await;
    browser.shows(&format!("{PAGE} .diff"), "onerror").await;
    browser.is_not_hacked().await;
    browser.press("Remove the clusters").await;
    browser.click(&format!("{PAGE} button.danger")).await;
    browser.shows(&format!("{PAGE} .notice.plain"), "has no clusters").await;
    browser.close().await;
}

#[tokio::test]
async fn a_hundred_thousand_clusters_are_listed_in_pages() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    let settings = json!({"profile": "copies-64", "k": 1, "clusters": {"keep": "first"}});
    assert!(server.put("/collections/many", settings).await.0.is_success());
    let line = |number: u64| {
        let hash = (number / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number % 2);
        format!("{{\"id\":\"d{number}\",\"hash\":\"{hash:016x}\"}}\n")
    };
    let lines: String = (0..200_000).map(line).collect();
    let (_, summary) = server.stream("/collections/many/documents", lines).await;
    assert_eq!(summary["created"], 200_000, "{summary}");
    browser.go("clusters?collection=many").await;
    browser.until(&format!("document.querySelectorAll('{PAGE} tbody tr').length === 25")).await;
    browser.press("More clusters").await;
    browser.until(&format!("document.querySelectorAll('{PAGE} tbody tr').length === 50")).await;
    browser.press("d0").await;
    browser.shows(&format!("{PAGE} .matches"), "d1").await;
    browser.close().await;
}
