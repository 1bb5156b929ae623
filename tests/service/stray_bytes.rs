//! Pages and texts with bytes that are no characters, in many languages: none is misread, none is dropped for
//! it, and what was guessed or replaced is said.

use std::fs;

use encoding_rs::{EUC_JP, Encoding, GBK, WINDOWS_1251};
use serde_json::{Value, json};

use crate::dedupe::{done, json_lines};
use crate::server::{Server, command, directory};

/// Words of the pages of a language, and what is between them.
const LANGUAGES: [(&str, &str, &str); 6] = [
    ("ru", "город река мост школа врач зима поезд книга театр рынок совет письмо голос ветер сад", " "),
    ("el", "πόλη ποτάμι γέφυρα σχολείο γιατρός χειμώνας τρένο βιβλίο θέατρο αγορά φωνή άνεμος", " "),
    ("he", "עיר נהר גשר בית רופא חורף רכבת ספר תיאטרון שוק מועצה מכתב קול רוח גן", " "),
    ("ar", "مدينة نهر جسر مدرسة طبيب شتاء قطار كتاب مسرح سوق مجلس رسالة صوت ريح حديقة", " "),
    ("zh", "城市 河流 桥梁 学校 医生 冬天 火车 图书 剧院 市场 议会 信件 声音 花园", ""),
    ("fr", "cité rivière pont école médecin hiver train théâtre marché conseil lettre forêt", " "),
];

/// A text of a language.
fn text(words: &str, between: &str, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let words: Vec<&str> = words.split(' ').collect();
    let sentence =
        |_| (0..14).map(|_| *random.choice(&words).unwrap()).collect::<Vec<_>>().join(between) + ". ";
    (0..6).map(sentence).collect()
}

/// The record of a page in a web archive.
fn record(number: usize, content_type: &str, page: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n");
    let length = head.len() + page.len();
    let record = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://e.org/{number}\r\n\
         WARC-Date: 2026-01-02T03:04:05Z\r\nContent-Length: {length}\r\n\r\n{head}"
    );
    [record.as_bytes(), page, b"\r\n\r\n"].concat()
}

fn page(head: &str, text: &str) -> String {
    format!("<html><head>{head}<title>e</title></head><body><p>{text}</p></body></html>")
}

/// A page with a byte that is no character in its middle.
fn with_stray(page: &[u8], encoding: &'static Encoding) -> Vec<u8> {
    let is_whole =
        |at: &usize| encoding.decode_without_bom_handling_and_without_replacement(&page[..*at]).is_some();
    let middle = (0..page.len() / 2).rev().find(is_whole).unwrap();
    [&page[..middle], b"\xff", &page[middle..]].concat()
}

#[test]
fn different_pages_with_a_stray_byte_each_are_kept_and_copies_are_dropped() {
    let data = directory();
    for (language, words, between) in LANGUAGES {
        for profile in [&[][..], &["--profile", "copies-128"]] {
            let pages: Vec<String> =
                (0..20).map(|seed| page("<meta charset=utf-8>", &text(words, between, seed))).collect();
            let html = "text/html; charset=utf-8";
            let plain: Vec<u8> =
                (0..).zip(&pages).flat_map(|(number, page)| record(number, html, page.as_bytes())).collect();
            fs::write(data.path().join("plain.warc"), plain).unwrap();
            // Random sentences of few words can be near to each other.
            let plain = done(data.path(), &[&["plain.warc", "-o", "plain", "--force"], profile].concat());
            let kept = plain.lines().find(|line| line.ends_with("  kept")).unwrap();
            let strays: Vec<u8> = (0..)
                .zip(&pages)
                .flat_map(|(number, page)| {
                    record(number, html, &with_stray(page.as_bytes(), encoding_rs::UTF_8))
                })
                .collect();
            fs::write(data.path().join("strays.warc"), &strays).unwrap();
            let summary = done(data.path(), &[&["strays.warc", "-o", "out", "--force"], profile].concat());
            assert!(summary.contains(kept) && !summary.contains("guessed"), "{language}: {plain}{summary}");
            assert!(summary.contains("20 with bytes invalid"), "{language}: {summary}");
            let whole: Vec<u8> =
                (20..).zip(&pages).flat_map(|(number, page)| record(number, html, page.as_bytes())).collect();
            fs::write(data.path().join("both.warc"), [strays, whole].concat()).unwrap();
            let summary = done(data.path(), &[&["both.warc", "-o", "both", "--force"], profile].concat());
            assert!(summary.contains(kept), "{language}: {plain}{summary}");
        }
    }
}

#[tokio::test]
async fn an_import_says_what_was_guessed_and_replaced() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    server.put("/collections/c", json!({"keep_text": true})).await;
    let (_, russian, _) = LANGUAGES[0];
    let (_, chinese, _) = LANGUAGES[4];
    let (russian, chinese) = (text(russian, " ", 1), text(chinese, "", 1));
    let cyrillic = page("<meta charset=utf-8>", &russian);
    let japanese = "市立図書館は昨日、来月から週末の開館時間を延長すると発表しました。".repeat(3);
    let pages = [
        (cyrillic.as_bytes().to_vec(), "text/html"),
        (with_stray(cyrillic.as_bytes(), encoding_rs::UTF_8), "text/html"),
        // The declaration is wrong.
        (WINDOWS_1251.encode(&cyrillic).0.into_owned(), "text/html; charset=utf-8"),
        (with_stray(&EUC_JP.encode(&page("", &japanese)).0, EUC_JP), "text/html; charset=euc-jp"),
    ];
    let archive: Vec<u8> =
        pages.iter().enumerate().flat_map(|(number, (page, kind))| record(number, kind, page)).collect();
    fs::write(data.path().join("a.warc"), archive).unwrap();
    fs::write(data.path().join("b.txt"), GBK.encode(&chinese).0).unwrap();
    fs::write(data.path().join("c.txt"), [russian.as_bytes(), b" cut \xd0"].concat()).unwrap();
    // CESU-8, as Java writes an emoji: the line is refused, and no other one is read in another charset.
    let line =
        |id: &str, text: &str| format!("{{\"id\":\"{id}\",\"text\":\"The library opens at ten. {text}\"}}\n");
    let lines = [
        line("x", "").as_bytes(),
        b"{\"id\":\"y\",\"text\":\"open \xed\xa0\xbd\xed\xb8\x80\"}\n",
        line("z", "caf\u{e9} \u{2019}").as_bytes(),
    ]
    .concat();
    fs::write(data.path().join("d.jsonl"), lines).unwrap();
    let mut import = command(&[
        "import",
        "--url",
        &server.url,
        "--collection",
        "c",
        "--report",
        "report",
        "a.warc",
        "b.txt",
        "c.txt",
        "d.jsonl",
    ]);
    import.current_dir(data.path());
    let output = tokio::task::spawn_blocking(move || import.output().unwrap()).await.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("2 texts of a guessed charset"), "{stderr}");
    assert!(stderr.contains("3 texts with bytes invalid in the charset"), "{stderr}");
    assert!(stderr.contains("d.jsonl:2"), "{stderr}");
    let export = server.get("/collections/c/export").await.text().await.unwrap();
    let texts: Vec<String> = export
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["text"].as_str().unwrap().trim().to_owned())
        .collect();
    let has = |wanted: &str| {
        texts.iter().filter(|text| text.replace('\u{fffd}', "").trim() == wanted.trim()).count()
    };
    assert_eq!([has(&russian), has(&japanese), has(&chinese)], [3, 1, 1], "{texts:?}");
    assert_eq!(has(&format!("{russian} cut ")), 1, "{texts:?}");
    assert!(has("The library opens at ten. caf\u{e9} \u{2019}") == 1 && texts.len() == 8, "{texts:?}");
    let charsets: Vec<Value> = json_lines(&data.path().join("report"))
        .into_iter()
        .filter(|line| line["charset"].is_object())
        .map(|line| line["charset"].clone())
        .collect();
    let charset = |name: &str, is_guessed: bool, count: u32| {
        let replaced = json!(count);
        json!({"name": name, "guessed": is_guessed, "replaced": replaced})
    };
    let expected = [
        charset("UTF-8", false, 1),
        charset("windows-1251", true, 0),
        charset("EUC-JP", false, 1),
        charset("GBK", true, 0),
        charset("UTF-8", false, 1),
    ];
    assert_eq!(charsets, expected);
}

#[tokio::test]
async fn a_fingerprint_says_in_which_charset_its_text_was_read() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let (_, words, between) = LANGUAGES[0];
    let page = page("", &text(words, between, 3));
    let made = async |kind: &str, body: Vec<u8>| -> Value {
        let request =
            reqwest::Client::new().post(format!("{}/fingerprint", server.url)).header("content-type", kind);
        request.body(body).send().await.unwrap().json().await.unwrap()
    };
    let whole = made("text/html; charset=utf-8", page.as_bytes().to_vec()).await;
    let stray = made("text/html; charset=utf-8", with_stray(page.as_bytes(), encoding_rs::UTF_8)).await;
    assert_eq!(whole["hash"], stray["hash"]);
    assert_eq!(whole["charset"], json!({"name": "UTF-8", "guessed": false, "replaced": 0}));
    assert_eq!(stray["charset"], json!({"name": "UTF-8", "guessed": false, "replaced": 1}));
    let cyrillic = made("text/html; charset=utf-8", WINDOWS_1251.encode(&page).0.into_owned()).await;
    assert_eq!(cyrillic["hash"], whole["hash"]);
    assert_eq!(cyrillic["charset"], json!({"name": "windows-1251", "guessed": true, "replaced": 0}));
    let (_, answer) = server.post("/fingerprint", json!({"text": "the library opens at ten"})).await;
    assert!(answer["charset"].is_null() && answer["hash"].is_string(), "{answer}");
}
