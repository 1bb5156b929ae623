//! The first view: its size, its rounds, its headers.

use reqwest::header;
use serde_json::json;

use crate::browser::Browser;
use crate::server::{Server, directory};

/// The greatest size of the first view in bytes.
const FIRST_VIEW: f64 = 90_000.0;

#[tokio::test]
async fn the_first_view_is_small_and_loads_in_one_round() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.devtools("Performance.enable", json!({})).await;
    browser.go("compare").await;
    let metrics = browser.devtools("Performance.getMetrics", json!({})).await;
    let metric = |name: &str| {
        metrics["metrics"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()["value"]
            .clone()
    };
    println!("its scripts take {} s of {} s", metric("ScriptDuration"), metric("TaskDuration"));
    let transferred = "['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))\
                       .map((one) => one.transferSize).reduce((sum, one) => sum + one, 0)";
    let bytes = browser.value(transferred).await.as_f64().unwrap();
    println!("the first view transfers {bytes} bytes, the first answers of the API included");
    assert!(bytes > 5_000.0 && bytes < FIRST_VIEW, "{bytes}");
    // Every file is named by the page, so that none waits for another one.
    let page = server.get("/").await.text().await.unwrap();
    let loaded = "performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname)";
    let loaded = browser.value(loaded).await;
    let files = loaded
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one.as_str())
        .filter(|one| one.contains("/console/"));
    let files: Vec<&str> = files.collect();
    assert!(files.len() > 15, "{files:?}");
    for file in files {
        assert!(page.contains(file), "the page does not name {file}");
    }
    let others = "performance.getEntriesByType('resource')\
                  .filter((one) => !one.name.startsWith(location.origin)).length";
    assert_eq!(browser.value(others).await, 0, "a request to another origin");
    browser.close().await;
}

#[tokio::test]
async fn the_page_may_not_be_framed_and_its_files_are_immutable() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let page = server.get("/").await;
    let policy = page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
    for part in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    let text = page.text().await.unwrap();
    assert!(
        !text.contains("<style") && !text.contains(" style=") && !text.contains(" on"),
        "inline code: {text}"
    );
    let style =
        text.split("href=\"").find(|part| part.contains("console.css")).unwrap().split('"').next().unwrap();
    let file = server.get(style).await;
    assert!(file.headers()[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
    assert_eq!(file.headers()[header::CONTENT_TYPE], "text/css; charset=utf-8");
}
