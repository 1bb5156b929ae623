//! The pictures of `docs/console.md`, written by
//! `cargo test --release --locked --test console screenshots -- --ignored`.

use std::path::Path;

use serde_json::json;

use crate::accessibility::{PAGES, furnished};
use crate::browser::Browser;
use crate::server::directory;

/// The height of the picture of each page.
const HEIGHTS: [(&str, u32); 7] = [
    ("compare", 1000),
    ("find", 660),
    ("clusters", 1100),
    ("collections", 1640),
    ("calibrate", 1330),
    ("import", 400),
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
            // One picture in the dark is enough.
            if scheme == "dark" && name != "compare" {
                continue;
            }
            let (_, height) = HEIGHTS.iter().find(|(of, _)| *of == name).unwrap();
            browser.size(1280, *height).await;
            browser.prefer(scheme).await;
            browser.go(address).await;
            browser.until(ready).await;
            tokio::time::sleep(std::time::Duration::from_millis(2_600)).await;
            let answer = browser.devtools("Page.captureScreenshot", json!({"format": "png"})).await;
            let picture = decoded(answer["data"].as_str().unwrap());
            println!("{name}{suffix}: {} bytes", picture.len());
            assert!(picture.len() <= MOST, "{name} has {} bytes", picture.len());
            std::fs::write(folder.join(format!("{name}{suffix}.png")), picture).unwrap();
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
