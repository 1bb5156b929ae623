//! Images in the inputs: found by one, and two compared by the signs of their frequencies.

use std::path::PathBuf;

use fantoccini::Locator;
use reqwest::Method;
use serde_json::json;

use crate::browser::{Browser, PAGE};
use crate::server::{Server, directory};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crates/images/testdata").join(name)
}

#[tokio::test]
async fn an_image_is_found_and_compared_with_another_one() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/photos", json!({"profile": "pdq"})).await;
    let body = std::fs::read(file("lossy.webp")).unwrap();
    let request =
        server.client.request(Method::PUT, format!("{}/collections/photos/documents/b", server.url));
    assert!(
        request.header("content-type", "image/webp").body(body).send().await.unwrap().status().is_success()
    );
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("find?collection=photos").await;
    browser.choose_file(&format!("{PAGE} input[type=file]"), &file("color.jpg")).await;
    browser.until(&format!("document.querySelector('{PAGE} .preview').naturalWidth == 96")).await;
    browser.press("Find").await;
    browser.shows(".match", "b").await;

    browser.go("compare?collection=photos").await;
    for (side, name) in [(1, "color.jpg"), (2, "progress.jpg")] {
        let picker = format!("{PAGE} .side-input:nth-child({side}) input[type=file]");
        browser.choose_file(&picker, &file(name)).await;
        browser
            .until(&format!("document.querySelectorAll('{PAGE} .side-input .preview').length == {side}"))
            .await;
    }
    browser.press("Compare").await;
    browser.shows(&format!("{PAGE} figcaption"), "A: quality 100 of 100").await;
    let cells = "document.querySelectorAll('.signs i')";
    assert_eq!(browser.value(&format!("{cells}.length")).await, 256);
    let differ = browser.value("document.querySelectorAll('.signs .differs').length").await;
    browser.shows(".verdict .lead", &format!("{differ} of 256 bits differ")).await;
    // Another kind of input forgets the image.
    browser.press("Clear").await;
    browser
        .until(&format!(
            "document.querySelectorAll('{PAGE} .side-input .filechip:not([hidden])').length == 1"
        ))
        .await;
    browser.close().await;
}

#[tokio::test]
async fn thumbnails_of_stored_images_are_shown() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/photos", json!({"profile": "pdq", "keep_thumbnail": true})).await;
    for (id, name, kind) in [("a", "color.jpg", "jpeg"), ("b", "lossy.webp", "webp")] {
        let body = std::fs::read(file(name)).unwrap();
        let request =
            server.client.request(Method::PUT, format!("{}/collections/photos/documents/{id}", server.url));
        let answer = request.header("content-type", format!("image/{kind}")).body(body).send().await.unwrap();
        assert!(answer.status().is_success());
    }
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("documents?collection=photos&id=a").await;
    browser.until(&format!("document.querySelector('{PAGE} .document .preview').naturalWidth == 96")).await;
    browser.go("compare?collection=photos&a=a&b=b").await;
    browser
        .until(&format!(
            "[...document.querySelectorAll('{PAGE} .result .preview')].map((one) => one.naturalWidth) \
             == '96,96'"
        ))
        .await;
    // The setting has the name that images have.
    browser.go("collections?collection=photos").await;
    browser.press("Settings of this collection").await;
    browser.press("Save").await;
    browser.shows(".notice.good", "photos").await;
    let stored = server.client.get(format!("{}/collections/photos", server.url)).send().await.unwrap();
    let stored: serde_json::Value = stored.json().await.unwrap();
    assert_eq!((&stored["keep_thumbnail"], &stored["keep_text"]), (&json!(true), &json!(false)));
    browser.close().await;
}

#[tokio::test]
async fn image_files_are_stored_by_their_names() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/photos", json!({"profile": "pdq"})).await;
    let broken = data.path().join("broken.png");
    std::fs::write(&broken, [0x89, b'P', b'N', b'G']).unwrap();
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("import?collection=photos").await;
    let field = browser.driver.find(Locator::Css(&format!("{PAGE} input[type=file]"))).await.unwrap();
    let files = [file("color.jpg"), file("lossy.webp"), broken].map(|path| path.display().to_string());
    field.send_keys(&files.join("\n")).await.unwrap();
    browser.shows(PAGE, "3 images").await;
    browser.press("Start").await;
    browser.shows(PAGE, "Done: 3 images").await;
    let found = server.json("/collections/photos/documents").await;
    let ids: Vec<&str> =
        found["documents"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["color.jpg", "lossy.webp"]);
    browser.shows(&format!("{PAGE} .refused"), "broken.png").await;
    browser.close().await;
}
