//! Images over HTTP and on the command line: every way in gives one hash, and what is no image, too large or
//! damaged is refused with the way out.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{Server, command, directory, ids};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crates/images/testdata")
}

fn file(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).unwrap()
}

async fn send(
    server: &Server,
    method: Method,
    route: &str,
    kind: &str,
    body: Vec<u8>,
) -> (StatusCode, Value) {
    let request = server.client.request(method, format!("{}{route}", server.url));
    let answer = request.header("content-type", kind).body(body).send().await.unwrap();
    (answer.status(), answer.json().await.unwrap())
}

/// A form with an image and other parts.
fn form(image: &[u8], parts: &[(&str, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in parts {
        body.extend(
            format!("--x\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").bytes(),
        );
    }
    let head = "--x\r\ncontent-disposition: form-data; name=\"image\"; filename=\"a.jpg\"\r\n\r\n";
    [&body, head.as_bytes(), image, b"\r\n--x--\r\n"].concat()
}

const FORM: &str = "multipart/form-data; boundary=x";

#[tokio::test]
async fn every_way_in_gives_one_hash() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/p", json!({"profile": "pdq"})).await;
    let color = file("color.jpg");
    let digits = BASE64_STANDARD.encode(&color);
    let (status, made) = send(&server, Method::POST, "/fingerprint", "image/jpeg", color.clone()).await;
    assert_eq!(status, StatusCode::OK, "{made}");
    assert_eq!(
        (&made["profile"], &made["bits"], &made["quality"]),
        (&json!("pdq@1"), &json!(256), &json!(100))
    );
    assert_eq!((&made["status"], &made["k"], &made["sensitivity"]), (&json!("ok"), &json!(31), &Value::Null));
    let hash = &made["hash"];
    let (_, of_json) = server.post("/fingerprint", json!({"image": digits, "profile": "pdq"})).await;
    assert_eq!(&of_json["hash"], hash, "{of_json}");
    let (_, batch) = server.post("/batch/fingerprint", json!({"images": [digits, digits]})).await;
    assert_eq!(batch["fingerprints"][1]["hash"], *hash, "{batch}");
    let (status, both) = server.post("/batch/fingerprint", json!({"images": [], "texts": []})).await;
    assert_eq!((status.as_u16(), &both["code"]), (422, &json!("invalid_field")), "{both}");
    let phash = form(&color, &[("profile", "phash-64")]);
    let (_, phash) = send(&server, Method::POST, "/fingerprint", FORM, phash).await;
    assert_eq!(phash["hash"], "c3adf8d2335258c3", "{phash}");

    let documents = "/collections/p/documents";
    let parts = [("id", "7"), ("metadata", r#"{"source": "camera"}"#)];
    let (status, added) = send(&server, Method::POST, documents, FORM, form(&color, &parts)).await;
    assert_eq!(
        (status, &added["hash"], &added["status"]),
        (StatusCode::CREATED, hash, &json!("ok")),
        "{added}"
    );
    let webp = file("lossy.webp");
    let (status, put) = send(&server, Method::PUT, &format!("{documents}/webp"), "image/webp", webp).await;
    assert_eq!((status, &put["similar"][0]["id"]), (StatusCode::CREATED, &json!("7")), "{put}");
    let (status, unnamed) = send(&server, Method::POST, documents, "image/gif", file("animated.gif")).await;
    assert_eq!((status, unnamed["similar"].as_array().unwrap().len()), (StatusCode::CREATED, 2), "{unnamed}");
    let url = format!("data:image/png;base64,{}", BASE64_STANDARD.encode(file("rings.png")));
    let (failed, summary) = server.stream(documents, format!("{}\n", json!({"id": "r", "image": url}))).await;
    assert!(failed.iter().all(|line| line["error"].is_null()), "{failed:?} {summary}");
    let stored = server.json(&format!("{documents}/7")).await;
    assert_eq!((&stored["hash"], &stored["metadata"]["source"]), (hash, &json!("camera")));

    let similar = "/collections/p/similar";
    let (_, found) = send(&server, Method::POST, similar, "image/jpeg", color.clone()).await;
    assert_eq!(found["similar"].as_array().unwrap().len(), 3, "{found}");
    let (_, found) = send(&server, Method::POST, similar, FORM, form(&color, &[("limit", "1")])).await;
    assert_eq!((ids(&found), &found["status"]), (vec!["7".to_owned()], &json!("ok")), "{found}");
    let queries = json!({"queries": [{"image": digits, "limit": 1}, {"image": "AAAA"}]});
    let (_, batch) = server.post("/collections/p/batch/similar", queries).await;
    assert_eq!(ids(&batch["results"][0]), ["7"], "{batch}");
    assert_eq!(batch["results"][1]["error"]["code"], "invalid_field", "{batch}");
}

/// A page may send a form without a preflight request.
#[tokio::test]
async fn forms_of_other_origins_store_nothing() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/p", json!({"profile": "pdq"})).await;
    let cases = [
        ("origin", "https://other.example", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("user-agent", "Mozilla/5.0 (of old, without Origin)", 415),
        ("upgrade-insecure-requests", "1", 415),
        ("referer", "https://other.example/", 415),
        ("cookie", "a=b", 415),
    ];
    for (name, value, status) in cases {
        let request = server.client.post(format!("{}/collections/p/documents", server.url));
        let request = request.header("content-type", FORM).header(name, value);
        let answer = request.body(form(&file("color.jpg"), &[])).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{name}: {value}");
    }
    assert_eq!(server.json("/collections/p").await["documents"], 0);
}

#[tokio::test]
async fn a_turned_image_is_found_on_request_only() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/p", json!({"profile": "pdq"})).await;
    let route = "/collections/p/documents/a";
    send(&server, Method::PUT, route, "image/jpeg", file("color.jpg")).await;
    let turned = file("turned.jpg");
    let similar = "/collections/p/similar";
    let (_, found) = send(&server, Method::POST, similar, "image/jpeg", turned.clone()).await;
    assert_eq!(ids(&found), [""; 0], "{found}");
    let (_, found) = send(&server, Method::POST, similar, FORM, form(&turned, &[("dihedral", "true")])).await;
    assert_eq!(ids(&found), ["a"], "{found}");
    let (status, problem) = server.post(similar, json!({"id": "a", "dihedral": true})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(problem["errors"][0]["pointer"], "/dihedral", "{problem}");
}

#[tokio::test]
async fn two_images_are_compared() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let image = |name| json!({"image": BASE64_STANDARD.encode(file(name))});
    let body = json!({"profile": "pdq", "a": image("color.jpg"), "b": image("progress.jpg")});
    let (status, compared) = server.post("/compare", body).await;
    assert_eq!(status, StatusCode::OK, "{compared}");
    assert_eq!((&compared["compared"], &compared["match"]), (&json!("images"), &json!(true)));
    assert_eq!((&compared["a"]["quality"], &compared["b"]["quality"]), (&json!(100), &json!(100)));
    let bits = compared["bits"].as_array().unwrap().len();
    assert!(bits > 0 && compared["distance"] == json!(bits), "{compared}");
}

#[tokio::test]
async fn flat_images_are_short() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (status, made) = send(&server, Method::POST, "/fingerprint", "image/gif", file("flat.gif")).await;
    assert_eq!(
        (status, &made["quality"], &made["status"]),
        (StatusCode::OK, &json!(0), &json!("short")),
        "{made}"
    );
}

#[tokio::test]
async fn what_is_no_image_is_refused_with_the_way_out() {
    let data = directory();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_LIMITS__IMAGE_PIXELS", "6000")]).await;
    server.put("/collections/p", json!({"profile": "pdq"})).await;
    server.put("/collections/t", json!({"profile": "copies-64"})).await;
    let cut = |name: &str| {
        let file = file(name);
        file[..file.len() / 3].to_vec()
    };
    let cases = [
        ("p", "image/jpeg", b"\0\0\0\x18ftypheic\0\0\0\0".to_vec(), "HEIC is not read: convert the image to"),
        ("p", "image/jpeg", b"II*\0\x08\0\0\0".to_vec(), "TIFF is not read"),
        ("p", "image/png", b"<svg/>".to_vec(), "SVG is not read"),
        ("p", "image/png", b"words".to_vec(), "the bytes are no image"),
        ("p", "image/jpeg", file("color.jpg"), "at most 6000 are accepted (limits.image_pixels)"),
        ("p", "image/png", cut("alpha.png"), "the PNG file is damaged or cut off"),
        ("p", "image/gif", cut("still.gif"), "the GIF file is damaged or cut off"),
        (
            "t",
            "image/png",
            file("alpha.png"),
            "takes no image; profiles that take images are pdq@1, phash-64@1",
        ),
    ];
    for (collection, kind, body, words) in cases {
        for route in ["documents", "similar"] {
            let route = format!("/collections/{collection}/{route}");
            let (status, problem) = send(&server, Method::POST, &route, kind, body.clone()).await;
            assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{route} {problem}");
            let error = &problem["errors"][0];
            assert_eq!(error["pointer"], "/image", "{problem}");
            assert!(error["detail"].as_str().unwrap().contains(words), "{problem}");
        }
    }
    let (status, problem) =
        send(&server, Method::POST, "/collections/p/documents", "image/heic", vec![1]).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(problem["detail"].as_str().unwrap().contains("image/jpeg, image/png, image/webp"), "{problem}");
    let (status, problem) = server.post("/collections/p/documents", json!({"text": "some words"})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(problem["detail"].as_str().unwrap().contains("takes no text, page or features, an image or"));
    let (status, problem) = server.post("/collections/p/documents", json!({"image": "*"})).await;
    assert_eq!(
        (status, &problem["errors"][0]["pointer"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("/image"))
    );
    for (body, words) in [
        (
            b"--x\r\ncontent-disposition: form-data; name=\"id\"\r\n\r\na\r\n--x--\r\n".to_vec(),
            "no part image",
        ),
        (form(b"", &[("k", "many")]), "the part is not JSON"),
        (b"words".to_vec(), "the form cannot be read"),
    ] {
        let (status, problem) = send(&server, Method::POST, "/collections/p/similar", FORM, body).await;
        assert!(status.is_client_error(), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    }
}

#[test]
fn the_command_line_hashes_folders_of_images_and_dedupes_the_hashes() {
    let scratch = directory();
    let photos = scratch.path().join("photos");
    fs::create_dir_all(photos.join("more")).unwrap();
    for (from, to) in [("color.jpg", "a.jpg"), ("lossy.webp", "more/b.webp"), ("rings.png", "more/c.png")] {
        fs::copy(folder().join(from), photos.join(to)).unwrap();
    }
    let run = |arguments: &[&str]| command(arguments).output().unwrap();
    let photos = photos.to_str().unwrap();
    let done = run(&["fingerprint", "--profile", "pdq", "--json", photos]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let lines = String::from_utf8(done.stdout).unwrap();
    let names: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let file = |line: &Value| line["file"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    assert_eq!(names.iter().map(file).collect::<Vec<_>>(), ["a.jpg", "b.webp", "c.png"]);
    let hashes = scratch.path().join("hashes.jsonl");
    fs::write(&hashes, &lines).unwrap();
    let [hashes, unique] =
        [&hashes, &scratch.path().join("unique")].map(|path| path.to_str().unwrap().to_owned());
    let done = run(&["dedupe", &hashes, "-o", &unique, "--hash-field", "hash", "--profile", "pdq"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let kept = fs::read_to_string(format!("{unique}/hashes.jsonl")).unwrap();
    let kept: Vec<String> = kept.lines().map(|line| file(&serde_json::from_str(line).unwrap())).collect();
    assert_eq!(kept, ["a.jpg", "c.png"]);
    fs::write(format!("{photos}/z.txt"), "words").unwrap();
    let done = run(&["fingerprint", "--profile", "phash-64", photos]);
    let message = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && message.contains("z.txt: the bytes are no image"), "{message}");
    assert!(message.contains("1 of 4 files could not be read as images"), "{message}");
    assert_eq!(String::from_utf8_lossy(&done.stdout).lines().count(), 3);
}

/// A folder with two near images, another one, a flat one, what is no image, and a text.
fn pictures(to: &std::path::Path) {
    fs::create_dir_all(to.join("more")).unwrap();
    for (from, name) in [
        ("color.jpg", "a.jpg"),
        ("lossy.webp", "more/b.webp"),
        ("rings.png", "more/c.png"),
        ("flat.gif", "f.gif"),
    ] {
        fs::copy(folder().join(from), to.join(name)).unwrap();
    }
    fs::write(to.join("h.heic"), b"\0\0\0\x18ftypheic\0\0\0\0").unwrap();
    fs::write(to.join("notes.txt"), "words").unwrap();
}

/// A zip archive of these pictures, with an encrypted one and a path that leads out of it.
fn zipped(to: &std::path::Path, photos: &std::path::Path) {
    let mut archive = zip::ZipWriter::new(fs::File::create(to).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    for (name, from) in [
        ("a.jpg", "a.jpg"),
        ("more/b.webp", "more/b.webp"),
        ("notes.txt", "notes.txt"),
        ("locked.png", "more/c.png"),
        ("up/c.png", "more/c.png"),
        ("h.heic", "h.heic"),
    ] {
        archive.start_file(name, options).unwrap();
        archive.write_all(&fs::read(photos.join(from)).unwrap()).unwrap();
    }
    archive.finish().unwrap();
    let mut bytes = fs::read(to).unwrap();
    let list = memchr::memmem::find(&bytes, b"PK\x01\x02").unwrap();
    let locked = list + memchr::memmem::find(&bytes[list..], b"locked.png").unwrap();
    // The flags of an entry stand 38 bytes before its name.
    bytes[locked - 38] |= 1;
    fs::write(to, bytes).unwrap();
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names.extend(self::names(&path));
        } else {
            names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    names.sort();
    names
}

#[test]
fn folders_and_archives_of_images_are_deduplicated() {
    let scratch = directory();
    let photos = scratch.path().join("photos");
    pictures(&photos);
    let unique = scratch.path().join("unique");
    let [from, to] = [&photos, &unique].map(|path| path.to_str().unwrap());
    let run = |arguments: &[&str]| {
        let done = command(arguments).output().unwrap();
        let said = [&done.stdout[..], &done.stderr].map(String::from_utf8_lossy).concat();
        (done.status.success(), said)
    };
    let options = ["--profile", "pdq", "-o", to];
    let (is_done, said) = run(&[&["dedupe", from], &options[..]].concat());
    assert!(!is_done && said.contains("h.heic") && said.contains("HEIC is not read: convert"), "{said}");
    let (is_done, said) = run(&[&["dedupe", from, "--skip-invalid"], &options[..]].concat());
    assert!(is_done, "{said}");
    assert_eq!(names(&unique), ["a.jpg", "c.png", "f.gif"], "{said}");
    assert!(said.contains("1 kept without comparison, of a quality below --min-quality"), "{said}");
    assert!(
        said.contains("1 with an image that cannot be read") && said.contains("1 file in the folders"),
        "{said}"
    );
    assert_eq!(fs::read(unique.join("photos/more/c.png")).unwrap(), file("rings.png"));

    let archive = scratch.path().join("photos.tar");
    let mut builder = tar::Builder::new(fs::File::create(&archive).unwrap());
    for name in ["a.jpg", "more/b.webp", "notes.txt"] {
        builder.append_path_with_name(photos.join(name), name).unwrap();
    }
    builder.finish().unwrap();
    let unique = scratch.path().join("of-archive");
    let options = ["--profile", "pdq", "-o", unique.to_str().unwrap()];
    let (is_done, said) = run(&[&["dedupe", archive.to_str().unwrap()], &options[..]].concat());
    assert!(is_done && said.contains("1 of no known format"), "{said}");
    let mut kept = tar::Archive::new(fs::File::open(unique.join("photos.tar")).unwrap());
    let kept: Vec<String> =
        kept.entries().unwrap().map(|member| member.unwrap().path().unwrap().display().to_string()).collect();
    assert_eq!(kept, ["a.jpg"]);

    // A zip archive becomes a tar.
    let archive = scratch.path().join("more.zip");
    zipped(&archive, &photos);
    let unique = scratch.path().join("of-zip");
    let options = ["--profile", "pdq", "--skip-invalid", "-o", unique.to_str().unwrap()];
    let (is_done, said) = run(&[&["dedupe", archive.to_str().unwrap()], &options[..]].concat());
    assert!(is_done && said.contains("locked.png: passed over, encrypted"), "{said}");
    assert!(said.contains("1 of no known format"), "{said}");
    let mut kept = tar::Archive::new(fs::File::open(unique.join("more.tar")).unwrap());
    let kept: Vec<String> =
        kept.entries().unwrap().map(|member| member.unwrap().path().unwrap().display().to_string()).collect();
    assert_eq!(kept, ["a.jpg", "up/c.png"]);

    let refused = run(&["dedupe", from, "-o", to, "--profile", "pdq", "--check", "0.5"]);
    assert!(
        !refused.0 && refused.1.contains("--check needs texts, and the profile pdq reads images"),
        "{}",
        refused.1
    );
    let to = scratch.path().join("of-texts");
    let of_texts = run(&["dedupe", photos.join("a.jpg").to_str().unwrap(), "-o", to.to_str().unwrap()]);
    assert!(
        !of_texts.0 && of_texts.1.contains("it is an image: --profile pdq compares images"),
        "{}",
        of_texts.1
    );
}

#[test]
fn lines_with_images_are_deduplicated() {
    let scratch = directory();
    let path = scratch.path().join("a.jsonl");
    let line = |id: &str, image: Value| format!("{}\n", json!({"id": id, "image": image}));
    let digits = |name: &str| Value::from(BASE64_STANDARD.encode(file(name)));
    let lines = [
        line("a", digits("color.jpg")),
        line("b", json!({"bytes": digits("lossy.webp"), "path": "b.webp"})),
        line("c", digits("rings.png")),
    ];
    fs::write(&path, lines.concat()).unwrap();
    let unique = scratch.path().join("unique");
    let [from, to] = [&path, &unique].map(|path| path.to_str().unwrap());
    for profile in ["pdq", "phash-64"] {
        let done = command(&["dedupe", from, "-o", to, "--profile", profile, "--force"]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let kept = fs::read_to_string(unique.join("a.jsonl")).unwrap();
        assert_eq!(kept, [&lines[0][..], &lines[2]].concat(), "{profile}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_of_images_and_banks_of_hashes_are_imported() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/p", json!({"profile": "pdq"})).await;
    let photos = data.path().join("photos");
    pictures(&photos);
    let import = |arguments: &[&str]| {
        let own = ["import", "--url", &server.url, "--collection", "p"];
        let done = command(&[&own, arguments].concat()).output().unwrap();
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let said = import(&[photos.to_str().unwrap(), "--images", "--min-quality", "50"]);
    assert!(said.contains("3 created") && said.contains("1 bad line"), "{said}");
    assert!(
        said.contains("HEIC is not read") && said.contains("1 of a quality below --min-quality"),
        "{said}"
    );
    let id = format!("{}/a.jpg", photos.to_str().unwrap());
    let (_, found) = server.post("/collections/p/similar", json!({"id": id})).await;
    assert_eq!(found["similar"][0]["distance"].as_u64().map(|distance| distance < 31), Some(true), "{found}");

    // As ThreatExchange exports signals.
    let hash = |name: &str| {
        let done =
            command(&["fingerprint", "--profile", "pdq", folder().join(name).to_str().unwrap()]).output();
        String::from_utf8_lossy(&done.unwrap().stdout)[..64].to_owned()
    };
    let bank = data.path().join("bank.csv");
    let rows = format!(
        "id,pdq,quality\n901,{},100\n902,{},49\n903,{},51\n",
        hash("alpha.png"),
        "0".repeat(64),
        hash("turned.jpg").to_uppercase()
    );
    fs::write(&bank, rows).unwrap();
    let bank = bank.to_str().unwrap();
    let said = import(&[bank, "--hash-field", "pdq", "--hash-profile", "pdq", "--min-quality", "50"]);
    assert!(said.contains("2 created") && said.contains("1 of a quality below --min-quality"), "{said}");
    assert_eq!(server.json("/collections/p/documents/903").await["metadata"]["quality"], "51");
    let said = import(&[bank, "--images", "--restart"]);
    assert!(
        said.contains("there is no column \"image\"; there are id, pdq, quality; --image-field names"),
        "{said}"
    );
}
