//! What the console says when something is wrong.

use serde_json::json;

use crate::articles::FERRY_EN;
use crate::browser::{Browser, PAGE};
use crate::server::{Server, command, directory};

#[tokio::test]
async fn a_server_that_is_gone_is_said_and_its_return_noticed() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("find").await;
    browser.fill(&format!("{PAGE} textarea"), FERRY_EN).await;
    let address = server.url.trim_start_matches("http://").to_owned();
    server.stop();
    browser.press("Find").await;
    browser.shows(&format!("{PAGE} .notice.bad"), "The server did not answer").await;
    browser.shows(".body > .bar", "The server does not answer.").await;
    let kept = browser.value(&format!("document.querySelector('{PAGE} textarea').value")).await;
    assert_eq!(kept, FERRY_EN);
    let again = command(&["serve", "--listen", &address, "--data", data.path().to_str().unwrap()]);
    let server = Server::launch(again).await.unwrap();
    browser.until("document.querySelector('.body > .bar').hidden").await;
    browser.press("Find").await;
    browser.shows(&format!("{PAGE} .result"), "0 documents within").await;
    drop(server);
    browser.close().await;
}

#[tokio::test]
async fn wrong_and_large_inputs_are_explained() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    // A mistyped hash, and one of another width.
    browser.go("find").await;
    browser.press("Hash").await;
    browser.fill(&format!("{PAGE} input[type=text]"), "f77611922716384z").await;
    browser.press("Find").await;
    browser.shows(&format!("{PAGE} .notice.bad"), "not a hexadecimal digit").await;
    browser.fill(&format!("{PAGE} input[type=text]"), "f776").await;
    browser.press("Find").await;
    browser.until(&format!("document.querySelector('{PAGE} .notice.bad').innerText.includes('4')")).await;
    // Nothing at all, and a document that does not exist.
    browser.go("compare").await;
    browser.press("Compare").await;
    browser.shows(&format!("{PAGE} .notice.warn"), "Side A is empty").await;
    browser.go("compare?a=absent&b=absent").await;
    browser.shows(&format!("{PAGE} .notice.bad"), "There is no such document.").await;
    // A text of 5 MB: the server is not gone, it refuses.
    browser.go("compare").await;
    let large = format!("document.querySelector('{PAGE} textarea')");
    let script = format!(
        "({large}.value = 'The harbour ferry. '.repeat(270000), {large}.dispatchEvent(new Event('input')), 1)"
    );
    browser.value(&script).await;
    browser.fill(&format!("{PAGE} .side-input:nth-of-type(2) textarea"), FERRY_EN).await;
    browser.press("Compare").await;
    browser.shows(&format!("{PAGE} .notice.bad"), "This is too large for the server.").await;
    assert_eq!(browser.value("document.querySelector('.body > .bar').hidden").await, true);
    // A collection of hashes has no text to explain.
    server
        .post(
            "/batch/documents",
            json!([
                {"id": "a", "hash": "00000000000000ff"}, {"id": "b", "hash": "00000000000000fe"}
            ]),
        )
        .await;
    browser.go("compare?a=a&b=b").await;
    browser.shows(".verdict .lead", "1 of 64 bits differ").await;
    browser.shows(&format!("{PAGE} .result"), "The features are known only if both texts are known.").await;
    browser.close().await;
}
