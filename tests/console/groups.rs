//! The page of the review, the sample data, and an import with a preview, as a new user meets them.

use serde_json::json;

use crate::browser::{Browser, PAGE};
use crate::server::{Server, directory};

async fn lead(browser: &Browser) -> String {
    browser.text(&format!("{PAGE} .lead")).await
}

/// Presses a key, and waits until the page says something else.
async fn press(browser: &Browser, key: &str) -> String {
    let before = lead(browser).await;
    browser.keys(&[key]).await;
    browser.until(&format!("document.querySelector('{PAGE} .lead').innerText !== {}", json!(before))).await;
    lead(browser).await
}

/// The number at the beginning of what the page says.
fn left(lead: &str) -> u64 {
    lead.split(' ').next().unwrap().parse().unwrap()
}

/// The documents whose deletion is planned.
async fn planned(server: &Server) -> usize {
    let filter = "%7B%22deletion_planned%22%3Atrue%7D";
    let page = server.json(&format!("/collections/sample/documents?limit=1000&filter={filter}")).await;
    page["documents"].as_array().unwrap().len()
}

#[tokio::test]
async fn the_sample_is_added_with_one_click_reviewed_with_keys_undone_and_removed() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("compare").await;
    browser.shows(".welcome", "no documents yet").await;
    browser.click(".welcome .primary").await;
    browser.until(&format!("document.querySelector('{PAGE} .cluster .match')")).await;
    assert_eq!(server.json("/collections/sample").await["documents"], 200);
    let all = left(&lead(&browser).await);
    assert!((45..60).contains(&all), "{all} clusters");
    let ids = format!("[...document.querySelectorAll('{PAGE} .cluster .mono')].map((one) => one.innerText)");
    let first = browser.value(&ids).await;
    assert_eq!(left(&press(&browser, "d").await), all - 1);
    assert_eq!(planned(&server).await, first.as_array().unwrap().len() - 1);
    browser.until(&format!("JSON.stringify({ids}) !== {}", json!(first.to_string()))).await;
    assert_eq!(left(&press(&browser, "s").await), all - 2);
    assert_eq!(left(&press(&browser, "n").await), all - 3);
    assert_eq!(server.json("/collections/sample/marks").await["marks"].as_array().unwrap().len(), 1);
    for step in 1..=3 {
        assert_eq!(left(&press(&browser, "u").await), all - 3 + step);
    }
    assert_eq!(browser.value(&ids).await, first);
    assert_eq!(planned(&server).await, 0);
    assert_eq!(server.json("/collections/sample/marks").await["marks"], json!([]));
    // The other one stays, and the decisions are a table.
    browser.keys(&["h"]).await;
    let other = browser.text(&format!("{PAGE} .cluster .match:first-child .mono")).await;
    press(&browser, "d").await;
    let gone = first.as_array().unwrap().iter().filter(|id| **id != json!(other)).count();
    assert_eq!(planned(&server).await, gone);
    let spy = "(window.saved = null, URL.createObjectURL = (blob) => \
               { blob.text().then((text) => { window.saved = text; }); return '#'; }, 1)";
    browser.value(spy).await;
    browser.press("Decisions as CSV").await;
    let saved = browser.until("window.saved").await;
    assert!(saved.as_str().unwrap().contains(",removed,"), "{saved}");
    // What was decided is not asked again.
    browser.go("review?collection=sample").await;
    browser.until(&format!("document.querySelector('{PAGE} .cluster .match')")).await;
    assert_ne!(browser.value(&ids).await, first);
    // The decisions outlive the page, and the sample is not removed with a document of the user.
    browser.shows(&format!("{PAGE} .lead"), "made").await;
    assert!(!browser.text(&format!("{PAGE} .lead")).await.contains("0 decisions"));
    server.put("/collections/sample/documents/own", json!({"text": "My own text about the harbour."})).await;
    browser.click(".welcome button").await;
    browser.shows(".welcome .notice.warn", "has other documents").await;
    assert!(server.delete("/collections/sample/documents/own").await.is_success());
    browser.click(".welcome button").await;
    browser
        .until("![...document.querySelector('#collection').options].some((one) => one.value === 'sample')")
        .await;
    browser.close().await;
}

#[tokio::test]
async fn a_foreign_table_is_shown_before_it_is_stored() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    let file = data.path().join("foreign.csv");
    let body = "The ferry to the islands runs every twenty minutes during the summer festival of";
    let text = format!(
        "Nr;Title;Body\n1;Fähre;{body} lights\n2;Fähre;{body} lights\n\
         3;Markt;A market hall opens beside the river next spring with forty stalls\n4;Nichts;\n"
    );
    let latin: Vec<u8> = text.chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect();
    std::fs::write(&file, latin).unwrap();
    browser.go("import").await;
    browser.choose_file(&format!("{PAGE} input[type=file]"), &file).await;
    let found =
        "Of 4 records: 2 new, 0 with a stored id, 0 near stored ones, 1 near earlier ones of the file, 1";
    browser.shows(PAGE, found).await;
    browser.shows(PAGE, "Fähre").await;
    let chosen = format!("[...document.querySelectorAll('{PAGE} .panel select')].map((one) => one.value)");
    assert_eq!(browser.value(&chosen).await, json!(["Body", "Nr", "windows-1252", ";"]));
    assert_eq!(server.documents().await, 0, "nothing is stored by a preview");
    browser.press("Start").await;
    browser.shows(PAGE, "Done: 4 records").await;
    browser.shows(&format!("{PAGE} .refused"), "the field “Body” is empty or missing").await;
    let stored = server.json("/documents/1").await;
    assert_eq!(stored["metadata"], json!({"Title": "Fähre"}));
    assert_eq!(server.documents().await, 3);
    browser.close().await;
}

#[tokio::test]
async fn the_pages_of_the_documentation_are_shown_as_they_are_meant() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let Some(browser) = Browser::open(&server).await else { return };
    browser.driver.goto(&format!("{}/docs/errors#no_document", server.url)).await.unwrap();
    browser.shows("h2#no_document", "no_document (404)").await;
    browser.driver.goto(&format!("{}/docs/", server.url)).await.unwrap();
    let white = "(one) => one && getComputedStyle(one).fill === 'rgb(255, 255, 255)'";
    browser.until(&format!("({white})(document.querySelector('.topbar path[class*=cls-2]'))")).await;
    let plain = server.get("/docs/errors").await;
    assert_eq!(plain.headers()["content-type"], "text/markdown; charset=utf-8");
    browser.close().await;
}
