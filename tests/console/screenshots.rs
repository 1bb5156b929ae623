//! The pictures of `docs/console.md`, written by
//! `cargo test --release --locked --test console screenshots -- --ignored`, and pictures of every page to
//! look at, in `target/console`: `cargo test --release --locked --test console every_page -- --ignored`.

use std::path::Path;

use serde_json::json;

use crate::accessibility::{PAGES, furnished};
use crate::browser::Browser;
use crate::server::directory;

/// The height of the picture of each page.
const HEIGHTS: [(&str, u32); 9] = [
    ("documents", 640),
    ("review", 700),
    ("compare", 1000),
    ("find", 680),
    ("clusters", 1100),
    ("collections", 1640),
    ("calibrate", 1330),
    ("import", 460),
    ("keys", 680),
];
/// The greatest size of a picture in bytes.
const MOST: usize = 200 << 10;

#[tokio::test]
#[ignore = "writes the pictures of docs/console.md"]
async fn screenshots() {
    let data = directory();
    let server = furnished(data.path()).await;
    let browser = Browser::open(&server).await.expect("a browser is needed for pictures");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/console");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, address, ready) in PAGES {
        for (scheme, suffix) in [("light", ""), ("dark", "-dark")] {
            let Some((_, height)) = HEIGHTS.iter().find(|(of, _)| *of == name) else { continue };
            // One picture in the dark is enough.
            if scheme == "dark" && name != "compare" {
                continue;
            }
            browser.size(1280, *height).await;
            browser.prefer(scheme).await;
            browser.go(address).await;
            browser.until(ready).await;
            tokio::time::sleep(std::time::Duration::from_millis(2_600)).await;
            let size = picture(&browser, &folder.join(format!("{name}{suffix}.png"))).await;
            assert!(size <= MOST, "{name} has {size} bytes");
        }
    }
    browser.close().await;
}

/// Writes what the window shows as a picture, and returns its size in bytes.
async fn picture(browser: &Browser, file: &Path) -> usize {
    let answer = browser.devtools("Page.captureScreenshot", json!({"format": "png"})).await;
    let picture = decoded(answer["data"].as_str().unwrap());
    println!("{}: {} bytes", file.display(), picture.len());
    std::fs::write(file, &picture).unwrap();
    picture.len()
}

#[tokio::test]
#[ignore = "writes pictures to look at"]
async fn every_page_in_both_themes_and_languages_and_three_widths() {
    let data = directory();
    let server = furnished(data.path()).await;
    let browser = Browser::open(&server).await.expect("a browser is needed for pictures");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/console");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, address, ready) in PAGES {
        for (scheme, language) in [("light", "en"), ("dark", "zh")] {
            browser.prefer(scheme).await;
            for width in [320, 768, 1440] {
                browser.size(width, 900).await;
                browser.go(address).await;
                browser.click(&format!(".corner input[value='{language}']")).await;
                browser.until(ready).await;
                // Rates and texts of matches arrive later.
                tokio::time::sleep(std::time::Duration::from_millis(2_600)).await;
                let height = browser.value("document.documentElement.scrollHeight").await;
                browser.size(width, u32::try_from(height.as_u64().unwrap()).unwrap()).await;
                picture(&browser, &folder.join(format!("{name}-{scheme}-{width}.png"))).await;
            }
        }
    }
    browser.close().await;
}

/// The bytes of a text in base64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte)) {
        bits = bits << 6 | digit as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}
