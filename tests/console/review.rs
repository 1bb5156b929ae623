//! The page of `dedupe --review`: its keys, the marks that stay, and the precision with its interval.

use std::fs;

use serde_json::json;

use crate::articles::{FERRY_EN, FERRY_EN_EDITED};
use crate::browser::Browser;
use crate::server::{Server, command, directory};

/// The bounds of Wilson's 95 % interval, as in the textbook, in percent.
fn wilson(share: f64, n: f64) -> [f64; 2] {
    let z = 1.959_964_f64;
    let root = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let bound = |root: f64| 100.0 * (share + z * z / (2.0 * n) + root) / (1.0 + z * z / n);
    [bound(-root), bound(root)]
}

#[tokio::test]
async fn pairs_are_marked_with_keys_and_the_precision_has_its_interval() {
    let folder = directory();
    let server = Server::start(&folder.path().join("data")).await;
    let Some(browser) = Browser::open(&server).await else { return };
    let evil = "<img src=x onerror=\"window.hacked = 1\">";
    let mut texts = Vec::new();
    for number in 0..6 {
        let own = format!("{number} {FERRY_EN}").replace("ferry", &format!("ferry{number}"));
        texts.push(own.clone() + evil);
        texts.push(own.replace("ferry", &format!("boat{number}")));
    }
    texts.push(FERRY_EN_EDITED.to_owned());
    let line =
        |(number, text): (usize, &String)| format!("{}\n", json!({"id": format!("d{number}"), "text": text}));
    fs::write(folder.path().join("a.jsonl"), texts.iter().enumerate().map(line).collect::<String>()).unwrap();
    let run = ["dedupe", "a.jsonl", "-o", "out", "--review", "r.html", "--max-loss", "1"];
    assert!(command(&run).current_dir(folder.path()).output().unwrap().status.success());
    let page = format!("file://{}", folder.path().join("r.html").display());
    browser.driver.goto(&page).await.unwrap();
    let all = browser.value("document.querySelectorAll('article').length").await.as_f64().unwrap();
    assert!(all > 6.0, "{all}");
    browser.shows("#progress", &format!("pair 1 of {all}, 0 marked")).await;
    browser.keys(&["y", "y", "n", "j", " ", "k", "k", "y"]).await;
    browser.shows("#progress", &format!("pair 5 of {all}, 5 marked")).await;
    browser.driver.refresh().await.unwrap();
    browser.shows("#progress", &format!("pair 6 of {all}, 5 marked")).await;
    // Three copies and one that is none, with the sizes of their classes.
    let classes = browser
        .value("rows.map((row) => [Number(row.dataset.size), ...Object.values(count(row.dataset.class))])")
        .await;
    let classes: Vec<[f64; 3]> = serde_json::from_value(classes).unwrap();
    let judged = || classes.iter().filter(|[_, y, n]| y + n > 0.0);
    assert_eq!(judged().map(|[_, y, n]| y + n).sum::<f64>() as u32, 4);
    let size: f64 = judged().map(|[size, ..]| size).sum();
    let share = judged().map(|[size, y, n]| size * y / (y + n)).sum::<f64>() / size;
    let n = size * size / judged().map(|[size, y, n]| size * size / (y + n)).sum::<f64>();
    let [least, most] = wilson(share, n);
    let expected = format!("{:.1} % ({least:.1} to {most:.1} %)", share * 100.0);
    browser.shows("#precision", &expected).await;
    browser.is_not_hacked().await;
    browser.close().await;
}
