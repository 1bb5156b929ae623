//! The page that imports.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::articles::{lines, real};
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
    let invalid = browser.text(&format!("{PAGE} .scroll tbody")).await;
    assert!(invalid.contains("51") && invalid.contains("53"), "{invalid}");
    assert_eq!(server.documents().await, 100);
    import(&browser, &compressed).await;
    browser.shows(PAGE, "Done: 100 records").await;
    assert_eq!(server.documents().await, 200);
    import(&browser, &table).await;
    browser.shows(PAGE, "Done: 2 records").await;
    browser.shows(&format!("{PAGE} .scroll tbody"), "2 cells; the first row has 3").await;
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
