//! A build without the feature `images`: images are refused with the way out, and hashes of them are taken.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::server::{Server, command, directory, ids};

const WAY_OUT: &str = "this build reads no images: build it with the feature images";

#[tokio::test(flavor = "multi_thread")]
async fn images_are_refused_and_their_hashes_are_found() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (_, made) = server.put("/collections/p", json!({"profile": "pdq", "keep_thumbnail": true})).await;
    assert_eq!(made["keep_thumbnail"], true, "{made}");
    let request = server.client.post(format!("{}/fingerprint", server.url));
    let body = b"\xff\xd8\xff\xe0".to_vec();
    let answer = request.header("content-type", "image/jpeg").body(body.clone()).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 422);
    let problem: Value = answer.json().await.unwrap();
    assert!(problem["detail"].as_str().unwrap().starts_with(WAY_OUT), "{problem}");
    let image = BASE64_STANDARD.encode(&body);
    let (status, problem) = server.post("/collections/p/documents", json!({"image": image})).await;
    assert_eq!(status.as_u16(), 422);
    assert!(problem["detail"].as_str().unwrap().starts_with(WAY_OUT), "{problem}");

    let hash = "37".repeat(32);
    let document = json!({"hash": hash, "thumbnail": image});
    assert!(server.put("/collections/p/documents/a", document).await.0.is_success());
    let (_, found) = server.post("/collections/p/similar", json!({"hash": hash})).await;
    assert_eq!(ids(&found), ["a"]);
    let thumbnail = server.get("/collections/p/documents/a/thumbnail").await.bytes().await.unwrap();
    assert_eq!(thumbnail, body);

    let file = data.path().join("a.jpg");
    std::fs::write(&file, &body).unwrap();
    let file = file.to_str().unwrap();
    for arguments in [
        vec!["fingerprint", "--profile", "pdq", file],
        vec!["import", "--url", &server.url, "--collection", "p", "--images", file],
        vec!["dedupe", "--profile", "pdq", "-o", "out", file],
    ] {
        let done = command(&arguments).current_dir(data.path()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && said.contains("this build reads no images"), "{said}");
    }
}
