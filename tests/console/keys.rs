//! The page of the keys, and what a page says about an action that the key does not allow.

use std::path::Path;

use serde_json::json;

use crate::browser::{Browser, PAGE};
use crate::server::{Server, command, directory};

/// Creates a key on the command line and returns its secret.
pub fn create(data: &Path, name: &str, arguments: &[&str]) -> String {
    let data = data.to_str().unwrap();
    let all = [&["keys", "create", name, "--data", data], arguments].concat();
    let output = command(&all).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_key_is_asked_for_refused_and_kept_for_the_session() {
    let data = directory();
    let reader = create(data.path(), "reader", &["--role", "read"]);
    let of_default = create(data.path(), "writer", &["--role", "write", "--collection", "default"]);
    let admin = create(data.path(), "boss", &["--role", "admin"]);
    let server = Server::start(data.path()).await;
    let document = json!({"id": "a", "hash": "00000000000000ff"});
    let stored = server.client.post(format!("{}/documents", server.url)).bearer_auth(&admin).json(&document);
    assert!(stored.send().await.unwrap().status().is_success());
    let Some(browser) = Browser::open(&server).await else { return };
    let field = format!("{PAGE} input[type=password]");
    browser.go("find").await;
    browser.shows(&format!("{PAGE} h1"), "Keys").await;
    browser.shows(&format!("{PAGE} .notice.bad"), "requires a key").await;
    browser.shows(&format!("{PAGE} table"), "no: it needs a key").await;
    browser.fill(&field, &format!("lk_{}", "0".repeat(64))).await;
    browser.press("Use this key").await;
    browser.shows(&format!("{PAGE} .notice.bad"), "key is unknown").await;
    // A reader: imports and changes are disabled, with the reason.
    browser.fill(&field, &reader).await;
    browser.press("Use this key").await;
    browser.shows(&format!("{PAGE} .notice.good"), "The key “reader” is in use. It may read.").await;
    browser.shows(&format!("{PAGE} table"), "no: it needs a key that may write").await;
    browser.click("nav a[data-page='import']").await;
    browser
        .shows(&format!("{PAGE} .reason"), "The key “reader” may read; this needs a key that may write.")
        .await;
    assert_eq!(
        browser.value(&format!("document.querySelector('{PAGE} button.primary').disabled")).await,
        true
    );
    browser.click("nav a[data-page='find']").await;
    browser.press("Hash").await;
    browser.fill(&format!("{PAGE} input[type=text]"), "00000000000000fe").await;
    browser.press("Find").await;
    browser.shows(&format!("{PAGE} .lead"), "1 document within").await;
    // The command of a new key.
    browser.go("keys").await;
    browser.press("May write").await;
    browser.press("Only the chosen collection").await;
    let command = "lookalike keys create NAME --role write --collection default --data FOLDER";
    browser.shows(&format!("{PAGE} code"), command).await;
    browser.click("nav a[data-page='find']").await;
    // The key outlives a reload of the tab, and no other tab has it.
    browser.driver.refresh().await.unwrap();
    browser.shows(".keystate", "reader").await;
    assert_eq!(browser.value("JSON.stringify(localStorage).includes('lk_')").await, false);
    // A key of one collection: the rates of the server are not for it.
    browser.go("keys").await;
    browser.fill(&field, &of_default).await;
    browser.press("Use this key").await;
    browser.shows(&format!("{PAGE} .notice.good"), "for these collections: default").await;
    browser.click("nav a[data-page='collections']").await;
    browser.shows(PAGE, "is limited to some collections").await;
    browser.click("nav a[data-page='keys']").await;
    browser.press("Forget the key").await;
    browser.shows(&format!("{PAGE} .notice.bad"), "requires a key").await;
    browser.close().await;
}

#[tokio::test]
async fn the_first_key_of_a_server_changes_what_the_page_says() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("keys").await;
    browser.shows(PAGE, "requires no key").await;
    browser.click("nav a[data-page='find']").await;
    create(data.path(), "boss", &["--role", "admin"]);
    while server.get("/stats").await.status() != 401 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    browser.fill(&format!("{PAGE} textarea"), "two words").await;
    browser.press("Find").await;
    browser.shows(&format!("{PAGE} .notice.bad"), "requires a key").await;
    browser.shows(&format!("{PAGE} table"), "no: it needs a key").await;
    browser.close().await;
}
