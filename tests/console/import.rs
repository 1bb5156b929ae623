//! The page that imports.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::articles::{lines, made, real, store};
use crate::browser::{Browser, PAGE};
use crate::server::{Server, directory};

/// Lines of the file that is cancelled.
const MANY: usize = 400_000;

async fn import(browser: &Browser, file: &std::path::Path) {
    browser.choose_file(&format!("{PAGE} input[type=file]"), file).await;
    browser.shows(&format!("{PAGE} .dropzone"), file.file_name().unwrap().to_str().unwrap()).await;
    browser.press("Start").await;
}

#[tokio::test]
async fn lines_compressed_lines_and_tables_are_stored_and_invalid_lines_numbered() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let articles = real("zh_edits", 200);
    let (first, rest) = articles.split_at(100);
    let plain = data.path().join("first.jsonl");
    std::fs::write(
        &plain,
        format!("{}no json\n\n{{\"id\":\"x\",\"text\":\"\"}}\n{}", lines(&first[..50]), lines(&first[50..])),
    )
    .unwrap();
    let compressed = data.path().join("rest.jsonl.gz");
    let mut gzip = GzEncoder::new(std::fs::File::create(&compressed).unwrap(), Compression::fast());
    gzip.write_all(lines(rest).as_bytes()).unwrap();
    gzip.finish().unwrap();
    let table = data.path().join("table.csv");
    std::fs::write(
        &table,
        "id,text,source\nrow-1,\"a ferry, \"\"two\"\"\nboats and a harbour\",\"the city\"\nrow-2,one\n",
    )
    .unwrap();
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("import").await;
    import(&browser, &plain).await;
    browser.shows(PAGE, "Done: 102 records").await;
    let invalid = browser.text(&format!("{PAGE} .refused tbody")).await;
    assert!(invalid.contains("51") && invalid.contains("53"), "{invalid}");
    assert_eq!(server.documents().await, 100);
    import(&browser, &compressed).await;
    browser.shows(PAGE, "Done: 100 records").await;
    assert_eq!(server.documents().await, 200);
    import(&browser, &table).await;
    browser.shows(PAGE, "Done: 2 records").await;
    browser.shows(&format!("{PAGE} .refused tbody"), "2 cells; the first row has 3").await;
    let row = server.json("/documents/row-1").await;
    assert_eq!(row["metadata"]["source"], "the city");
    browser.close().await;
}

#[tokio::test]
async fn a_file_that_is_no_json_lines_is_refused_early() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let file = data.path().join("story.jsonl");
    std::fs::write(&file, "This is a story and no JSON.\n".repeat(5_000)).unwrap();
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("import").await;
    import(&browser, &file).await;
    browser.shows(&format!("{PAGE} .notice.bad"), "not a file of JSON lines").await;
    browser.shows(PAGE, "Stopped after 50 records").await;
    assert_eq!(server.documents().await, 0);
    browser.close().await;
}

#[tokio::test]
async fn a_large_file_streams_and_can_be_cancelled() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let file = data.path().join("large.jsonl");
    let mut out = std::io::BufWriter::new(std::fs::File::create(&file).unwrap());
    let filler = "x".repeat(400);
    for number in 0..MANY {
        writeln!(out, "{{\"hash\":\"{number:016x}\",\"metadata\":{{\"filler\":\"{filler}\"}}}}").unwrap();
    }
    drop(out);
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("import").await;
    let before = browser.script_memory().await;
    import(&browser, &file).await;
    browser.until(&format!("document.querySelector('{PAGE} progress')?.value > 8e6")).await;
    let during = browser.script_memory().await;
    browser.press("Cancel").await;
    browser.shows(PAGE, "Cancelled after").await;
    let stored = server.documents().await;
    assert!(stored > 0 && stored < MANY as u64, "{stored}");
    let size = std::fs::metadata(&file).unwrap().len();
    println!("a file of {size} bytes: the memory of scripts grew from {before} to {during} bytes");
    assert!(during - before < 40e6, "{before} to {during} bytes of a file of {size}");
    browser.close().await;
}

#[tokio::test]
async fn a_whole_file_is_compared_before_it_is_stored() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let file = data.path().join("many.jsonl");
    // Copies that are far apart in the file, and records without a text.
    let mut all = made(1_500);
    let again: Vec<_> = all[..100].iter().map(|(id, text)| (format!("again-{id}"), text.clone())).collect();
    all.extend(again);
    std::fs::write(&file, lines(&all) + &"{\"id\":\"x\"}\n".repeat(7)).unwrap();
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("import").await;
    browser.choose_file(&format!("{PAGE} input[type=file]"), &file).await;
    // The twin: the same documents in one request.
    let documents: Vec<_> = all.iter().map(|(id, text)| json!({"id": id, "text": text})).collect();
    let (_, twin) = server.post("/preview/documents", json!(documents)).await;
    let [new, near] = ["new", "near_earlier"].map(|name| twin[name].as_u64().unwrap());
    assert!(near > 400 && new > 1_000 && new + near == 1_600, "{new} {near}");
    browser.shows(PAGE, &format!("Of 1,607 records: 1,{:03} new", new - 1_000)).await;
    browser.shows(PAGE, &format!("{near} near earlier ones of the file, 7 invalid")).await;
    let spy = "(window.saved = null, URL.createObjectURL = (blob) => \
               { blob.text().then((text) => { window.saved = text; }); return '#'; }, 1)";
    browser.value(spy).await;
    browser.press("Save the invalid rows").await;
    let saved = browser.until("window.saved").await;
    assert_eq!(saved.as_str().unwrap().lines().count(), 7, "{saved}");
    assert_eq!(server.documents().await, 0, "nothing is stored by a dry run");
    browser.close().await;
}

#[tokio::test]
async fn what_is_foretold_of_leaving_out_happens_also_to_stored_documents() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let file = data.path().join("again.jsonl");
    let articles = made(150);
    std::fs::write(&file, lines(&articles)).unwrap();
    store(&server, "news", json!({"profile": "copies-128"}), &articles).await;
    let documents: Vec<_> = articles.iter().map(|(id, text)| json!({"id": id, "text": text})).collect();
    let left_out = |twin: &serde_json::Value| {
        let near = |one: &&serde_json::Value| one.get("near_stored").or(one.get("near_earlier")).is_some();
        twin["results"].as_array().unwrap().iter().filter(near).count()
    };
    let skip = "/collections/news/preview/documents?on_duplicate=skip";
    let (_, twin) = server.post(skip, json!(documents)).await;
    let left = left_out(&twin);
    assert!(left > 20 && twin["known"] == 150, "{twin}");
    let Some(browser) = Browser::open(&server).await else { return };
    browser.go("import?collection=news").await;
    browser.shows(PAGE, "It keeps no texts").await;
    browser.choose_file(&format!("{PAGE} input[type=file]"), &file).await;
    browser.shows(PAGE, "Of 150 records: 0 new, 150 with a stored id").await;
    browser.press("Leave out").await;
    let told = format!("0 new, {} in place of stored ones, {left} left out", 150 - left);
    browser.shows(PAGE, &told).await;
    // Another k tells something else, and the import does that.
    browser.fill(&format!("{PAGE} input[type=number]"), "0").await;
    let change = format!("document.querySelector('{PAGE} input[type=number]')");
    browser.value(&format!("({change}.dispatchEvent(new Event('change')), 1)")).await;
    let (_, twin) = server.post(&format!("{skip}&k=0"), json!(documents)).await;
    let left = left_out(&twin);
    let told = format!("0 new, {} in place of stored ones, {left} left out", 150 - left);
    browser.shows(PAGE, &told).await;
    browser.press("Start").await;
    browser.shows(PAGE, "Done: 150 records").await;
    for page in ["documents", "review", "clusters"] {
        browser
            .until(&format!("document.querySelector('{PAGE} a[href=\"#/{page}?collection=news\"]')"))
            .await;
    }
    let counts = format!("[...document.querySelectorAll('{PAGE} .figures dd')].map((one) => +one.innerText)");
    assert_eq!(browser.value(&counts).await, json!([0, 150 - left, left, 0]));
    // The file is not offered again.
    assert!(!browser.text(PAGE).await.contains("Nothing is stored yet"));
    browser.close().await;
}
