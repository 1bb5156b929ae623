//! Thumbnails of images: kept where the collection says so, served, and in exports, imports and backups.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{Server, command, directory};

const HASH: &str = "2793bb0ddd8ee846006144f13799f825dc9e44713f9f3365c87623a5c80fd55a";

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crates/images/testdata").join(name)
}

async fn put_image(server: &Server, route: &str, name: &str) {
    let request = server.client.request(Method::PUT, format!("{}{route}", server.url));
    let kind = format!("image/{}", name.rsplit('.').next().unwrap().replace("jpg", "jpeg"));
    let answer =
        request.header("content-type", kind).body(fs::read(path(name)).unwrap()).send().await.unwrap();
    assert!(answer.status().is_success(), "{name}: {}", answer.text().await.unwrap());
}

/// The status, the type and the bytes of a thumbnail.
async fn thumbnail(server: &Server, collection: &str, id: &str) -> (u16, String, Vec<u8>) {
    let answer = server.get(&format!("/collections/{collection}/documents/{id}/thumbnail")).await;
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (answer.status().as_u16(), kind, answer.bytes().await.unwrap().into())
}

async fn jpeg(server: &Server, collection: &str, id: &str) -> Vec<u8> {
    let (status, kind, bytes) = thumbnail(server, collection, id).await;
    assert_eq!((status, &*kind), (200, "image/jpeg"), "{}", String::from_utf8_lossy(&bytes));
    assert!(bytes.len() <= 4096 && bytes.starts_with(b"\xff\xd8\xff"), "{}", bytes.len());
    bytes
}

async fn why_none(server: &Server, collection: &str, id: &str) -> String {
    let (status, _, body) = thumbnail(server, collection, id).await;
    let problem: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, &problem["code"]), (404, &json!("no_thumbnail")), "{problem}");
    problem["detail"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_thumbnail_is_kept_from_the_setting_on() {
    let data = directory();
    let mut server = Server::start(data.path()).await;
    let (_, made) = server.put("/collections/p", json!({"profile": "pdq"})).await;
    assert_eq!((&made["keep_text"], &made["keep_thumbnail"]), (&json!(false), &json!(false)));
    put_image(&server, "/collections/p/documents/early", "color.jpg").await;
    assert!(why_none(&server, "p", "early").await.contains("keep_thumbnail is false"));
    let (status, set) = server.put("/collections/p", json!({"keep_thumbnail": true})).await;
    assert_eq!((status.as_u16(), &set["keep_thumbnail"]), (200, &json!(true)), "{set}");
    assert!(why_none(&server, "p", "early").await.contains("before keep_thumbnail was set"));
    for name in ["color.jpg", "alpha.png", "lossy.webp", "still.gif", "turned.jpg"] {
        put_image(&server, &format!("/collections/p/documents/{name}"), name).await;
    }
    let turned = jpeg(&server, "p", "turned.jpg").await;
    let request = server.client.post(format!("{}/fingerprint", server.url));
    let hash = request.header("content-type", "image/jpeg").body(turned.clone()).send().await.unwrap();
    let hash: Value = hash.json().await.unwrap();
    let (_, found) = server.post("/collections/p/similar", json!({"hash": hash["hash"]})).await;
    assert_eq!(found["similar"][0]["id"], "turned.jpg", "it is shown as it is turned: {found}");

    // It stays with the document, also when its metadata change and when the server starts again.
    let patch = server.client.patch(format!("{}/collections/p/documents/turned.jpg", server.url));
    let patched = patch.json(&json!({"metadata": {"a": 1}})).send().await.unwrap();
    assert!(patched.status().is_success());
    server.stop();
    server = Server::start(data.path()).await;
    assert_eq!(jpeg(&server, "p", "turned.jpg").await, turned);
    server.put("/collections/p", json!({"keep_thumbnail": false})).await;
    put_image(&server, "/collections/p/documents/color.jpg", "color.jpg").await;
    assert!(why_none(&server, "p", "color.jpg").await.contains("keep_thumbnail is false"));
    assert_eq!(jpeg(&server, "p", "turned.jpg").await, turned);
    let (status, _, _) = thumbnail(&server, "p", "none").await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn settings_and_thumbnails_that_make_no_sense_are_refused() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for (settings, field, words) in [
        (json!({"profile": "pdq", "keep_text": true}), "/keep_text", "keep_thumbnail keeps a small image"),
        (json!({"keep_thumbnail": true}), "/keep_thumbnail", "takes no images; pdq and phash-64 do"),
        (json!({"profile": "copies-64", "keep_thumbnail": true}), "/keep_thumbnail", "takes no images"),
    ] {
        let (status, problem) = server.put("/collections/no", settings).await;
        assert_eq!((status.as_u16(), &problem["errors"][0]["pointer"]), (422, &json!(field)), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    }
    server.put("/collections/t", json!({"profile": "copies-64"})).await;
    server.put("/collections/t/documents/a", json!({"text": "one two three four five six"})).await;
    assert!(why_none(&server, "t", "a").await.contains("its profile takes no images"));
    server.put("/collections/p", json!({"profile": "pdq", "keep_thumbnail": true})).await;
    let small = BASE64_STANDARD.encode(b"\xff\xd8\xff\xe0");
    let large = BASE64_STANDARD.encode([&b"\xff\xd8\xff"[..], &[0; 4094]].concat());
    for (document, words) in [
        (json!({"hash": HASH, "thumbnail": "AAAA"}), "a JPEG of at most 4096"),
        (json!({"hash": HASH, "thumbnail": large}), "has 4097 bytes"),
        (json!({"image": small, "thumbnail": small}), "with a hash in place of its image"),
    ] {
        let (status, problem) = server.post("/collections/p/documents", document).await;
        assert_eq!(status.as_u16(), 422, "{problem}");
        assert_eq!(problem["errors"][0]["pointer"], "/thumbnail", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    }
    server.put("/collections/p/documents/b", json!({"hash": HASH, "thumbnail": small})).await;
    assert_eq!(jpeg(&server, "p", "b").await, b"\xff\xd8\xff\xe0");
    server.put("/collections/q", json!({"profile": "pdq"})).await;
    server.put("/collections/q/documents/b", json!({"hash": HASH, "thumbnail": small})).await;
    assert!(why_none(&server, "q", "b").await.contains("keep_thumbnail is false"));
}

#[tokio::test(flavor = "multi_thread")]
async fn thumbnails_are_in_exports_imports_and_backups() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for name in ["p", "again", "sent", "one"] {
        server.put(&format!("/collections/{name}"), json!({"profile": "pdq", "keep_thumbnail": true})).await;
    }
    for name in ["color.jpg", "rings.png"] {
        put_image(&server, &format!("/collections/p/documents/{name}"), name).await;
    }
    let export = server.export("/collections/p/export").await;
    assert!(export.lines().skip(1).all(|line| line.contains(r#""thumbnail":"/9j"#)), "{export}");
    let (failed, summary) = server.stream("/collections/again/documents", export.clone()).await;
    assert!(failed.iter().all(|line| line["error"].is_null()), "{failed:?} {summary}");
    let of = |export: &str| export.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(of(&server.export("/collections/again/export").await), of(&export));
    let tar = server.get("/collections/p/backup").await.bytes().await.unwrap();
    let request = server.client.post(format!("{}/collections/restored/restore", server.url));
    let restored = request.header("content-type", "application/x-tar").body(tar).send().await.unwrap();
    assert_eq!(restored.status().as_u16(), 201, "{}", restored.text().await.unwrap());
    assert_eq!(server.json("/collections/restored").await["keep_thumbnail"], true);
    let own = jpeg(&server, "p", "color.jpg").await;
    for name in ["again", "restored"] {
        assert_eq!(jpeg(&server, name, "color.jpg").await, own, "{name}");
    }

    // `import` sends what the server would make, with any number of threads.
    let photos = data.path().join("photos");
    fs::create_dir(&photos).unwrap();
    for number in 0..40 {
        let name = if number % 3 == 0 { "rings.png" } else { "color.jpg" };
        fs::copy(path(name), photos.join(format!("{number:02}-{name}"))).unwrap();
    }
    fs::write(photos.join("17-broken.png"), "words").unwrap();
    for (collection, threads) in [("sent", "3"), ("one", "1")] {
        let report = data.path().join(collection);
        let options = ["--images", "--thumbnails", "--threads", threads, "--restart"];
        let own = ["import", "--url", &server.url, "--collection", collection];
        let files = ["--report", report.to_str().unwrap(), photos.to_str().unwrap()];
        let done = command(&[&own, &files[..], &options].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains("40 created") && said.contains("1 bad line"), "{said}");
    }
    assert_eq!(fs::read(data.path().join("sent")).unwrap(), fs::read(data.path().join("one")).unwrap());
    let without_time = |export: String| -> Vec<Value> {
        let mut all: Vec<Value> =
            export.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
        // Documents arrive in the order of the files.
        all.sort_by(|a, b| a["arrival"].as_str().cmp(&b["arrival"].as_str()));
        for line in &mut all {
            (line["arrival"], line["exported"]) = (Value::Null, Value::Null);
        }
        all
    };
    let sent = without_time(server.export("/collections/sent/export").await);
    assert_eq!(sent, without_time(server.export("/collections/one/export").await));
    assert!(sent.is_sorted_by(|a, b| a["id"].as_str() < b["id"].as_str()), "{sent:?}");
    assert_eq!(sent[1]["thumbnail"], BASE64_STANDARD.encode(own));
}
