//! Comparisons, user-defined profiles, charsets, `idf` and `eval`, over HTTP and on the command line.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, command, directory, ids};

const ARTICLE: &str = "市图书馆昨天宣布，从下个月开始延长周末的开放时间，\
                       读者可以在馆内阅读到晚上十点。\
                       馆长表示，这项安排是根据去年的读者调查做出的。";

#[tokio::test]
async fn a_comparison_explains_why_two_texts_match() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let edited = ARTICLE.replace("周末", "夏天");
    let (status, answer) =
        server.post("/compare", json!({"a": {"text": ARTICLE}, "b": {"text": edited}, "k": 30})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer["match"], true);
    assert_eq!(answer["distance"].as_u64().unwrap() as usize, answer["bits"].as_array().unwrap().len());
    let shared = answer["features"]["shared"].as_u64().unwrap();
    assert!(shared > 20 && answer["features"]["jaccard"].as_f64().unwrap() > 0.5, "{answer}");
    let greatest = answer["features"]["greatest"].as_array().unwrap();
    assert!(greatest.iter().any(|feature| feature["text"] == "周末" && feature["weights"][1] == 0.0));
    let diff = answer["diff"].as_array().unwrap();
    assert!(diff.contains(&json!({"change": "removed", "text": "周末"})), "{answer}");
    assert!(diff.contains(&json!({"change": "added", "text": "夏天"})));
    assert!(answer["summary"].as_str().unwrap().contains("so these match"));

    let (_, stored) = server.post("/documents", json!({"id": "a", "text": ARTICLE})).await;
    let (_, by_id) = server.post("/compare", json!({"a": {"id": "a"}, "b": {"hash": stored["hash"]}})).await;
    assert_eq!((by_id["distance"].as_u64(), by_id["features"].is_null()), (Some(0), true), "{by_id}");
    let wide = json!({"a": {"text": ARTICLE}, "b": {"text": edited}, "profile": "copies-128"});
    let (_, wide) = server.post("/compare", wide).await;
    assert_eq!(wide["blocks"].as_array().unwrap().len(), 8);
}

#[tokio::test]
async fn a_collection_keeps_sketches_unless_it_is_made_without() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server
        .wait_for_log("it keeps hashes, metadata, sketches of 32 bytes for min_similarity and no texts")
        .await;
    let edited = ARTICLE.replace("周末", "夏天");
    let made = [
        ("default", None, Some(32), "sketches"),
        ("usual", Some(json!({"profile": "copies-128"})), Some(32), "sketches"),
        ("larger", Some(json!({"sketch_bytes": 128})), Some(128), "sketches"),
        ("bare", Some(json!({"sketch_bytes": 0})), None, "hashes"),
        ("signed", Some(json!({"profile": "minhash"})), None, "signatures"),
        ("kept", Some(json!({"keep_text": true})), Some(32), "texts"),
        ("given", Some(json!({"profile": "hashes-64"})), None, ""),
    ];
    for (name, settings, bytes, compared) in made {
        let route = format!("/collections/{name}");
        if let Some(settings) = settings {
            let (status, answer) = server.put(&route, settings).await;
            assert_eq!(status, 201, "{answer}");
        }
        let info = server.json(&route).await;
        assert_eq!(info["sketch_bytes"], json!(bytes), "{info}");
        // Repeating the request changes nothing.
        assert_eq!(server.put(&route, json!({})).await.1["sketch_bytes"], info["sketch_bytes"]);
        if compared.is_empty() {
            continue;
        }
        for (id, text) in
            [("a", ARTICLE), ("b", &edited), ("c", "Fish and chips is a hot dish of fried fish.")]
        {
            server.post(&format!("{route}/documents"), json!({"id": id, "text": text})).await;
        }
        let sides = json!({"a": {"id": "a"}, "b": {"id": "b"}});
        let (status, answer) = server.post(&format!("{route}/compare"), sides).await;
        assert_eq!((status.as_u16(), &answer["compared"]), (200, &json!(compared)), "{answer}");
        let has_estimate = ["sketches", "signatures"].contains(&compared);
        assert_eq!(answer["similarity"].is_number(), has_estimate, "{answer}");
        let by_text = json!({"a": {"id": "a"}, "b": {"text": edited}});
        let (_, with_text) = server.post(&format!("{route}/compare"), by_text).await;
        assert_eq!(
            (&with_text["compared"], &with_text["similarity"]),
            (&json!(compared), &answer["similarity"])
        );
        if bytes.is_some() {
            let query = json!({"id": "a", "k": 60, "min_similarity": 0.4});
            let (status, found) = server.post(&format!("{route}/similar"), query).await;
            assert_eq!(status, 200, "{found}");
            assert_eq!(ids(&found), ["b"], "{found}");
        }
    }
    let other = directory();
    let bare = [("LOOKALIKE_COLLECTION__SKETCH_BYTES", "0"), ("LOOKALIKE_COLLECTION__KEEP_TEXT", "true")];
    let server = Server::start_with(other.path(), &bare).await;
    server.wait_for_log("no sketches and their texts").await;
    assert_eq!(server.json("/collections/default").await["sketch_bytes"], Value::Null);
}

#[tokio::test]
async fn min_similarity_keeps_only_similar_texts() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let plain = json!({"text": ARTICLE, "min_similarity": 0.5});
    server.put("/collections/bare", json!({"sketch_bytes": 0})).await;
    let (status, refused) = server.post("/collections/bare/similar", plain.clone()).await;
    assert_eq!(status.as_u16(), 422, "{refused}");
    assert!(refused.to_string().contains("sketch_bytes"), "{refused}");

    server.put("/collections/kept", json!({"keep_text": true})).await;
    let edited = ARTICLE.replace("周末", "夏天");
    let other =
        "Fish and chips is a hot dish of fried fish in batter, served with chips and peas, from England.";
    for (id, text) in [("far", other), ("edited", edited.as_str()), ("same", ARTICLE)] {
        server.post("/collections/kept/documents", json!({"id": id, "text": text})).await;
    }
    let query = |min_similarity: f64| json!({"text": ARTICLE, "k": 64, "min_similarity": min_similarity});
    let (_, all) = server.post("/collections/kept/similar", query(0.0)).await;
    let found: Vec<&str> =
        all["similar"].as_array().unwrap().iter().map(|near| near["id"].as_str().unwrap()).collect();
    assert_eq!(found, ["same", "edited", "far"]);
    assert_eq!(
        (all["similar"][0]["similarity"].as_f64(), all["similar"][2]["similarity"].as_f64()),
        (Some(1.0), Some(0.0))
    );
    let (_, near) = server.post("/collections/kept/similar", query(0.5)).await;
    assert_eq!(near["similar"].as_array().unwrap().len(), 2, "{near}");
    let by_id = json!({"id": "same", "k": 64, "min_similarity": 0.5});
    let batch = json!({"queries": [query(0.99), by_id, {"text": ARTICLE, "k": 64}]});
    let (_, batch) = server.post("/collections/kept/batch/similar", batch).await;
    let count = |at: usize| batch["results"][at]["similar"].as_array().unwrap().len();
    assert_eq!((count(0), count(1), count(2)), (1, 1, 3), "{batch}");
    let page =
        format!("<html><body><nav><a href=/>Home</a></nav><article><p>{ARTICLE}</p></article></body></html>");
    for passages in [false, true] {
        let path = format!("/collections/pages-{passages}");
        server.put(&path, json!({"keep_text": true, "passages": passages})).await;
        for (id, text) in [("edited", edited.as_str()), ("same", ARTICLE)] {
            server.post(&format!("{path}/documents"), json!({"id": id, "text": text})).await;
        }
        let similar = format!("{path}/similar");
        let of_page = json!({"html": page, "k": 64, "min_similarity": 0.5});
        let (_, of_page) = server.post(&similar, of_page).await;
        let (_, of_text) = server.post(&similar, query(0.5)).await;
        assert_eq!(of_page, of_text, "passages: {passages}");
        assert_eq!(of_page["similar"].as_array().unwrap().len(), 2, "{of_page}");
        let (status, empty) = server.post(&similar, json!({"html": "<p>!</p>", "min_similarity": 0.5})).await;
        let problem = (status.as_u16(), &empty["code"], &empty["errors"][0]["pointer"]);
        assert_eq!(problem, (422, &json!("empty_text"), &json!("/html")), "{empty}");
    }
    for (wrong, part) in [
        (json!({"text": ARTICLE, "min_similarity": 1.5}), "ranges from 0 to 1"),
        (json!({"hash": "00000000000000ff", "min_similarity": 0.5}), "has neither"),
    ] {
        let (status, refused) = server.post("/collections/kept/similar", wrong).await;
        assert!(status.as_u16() == 422 && refused.to_string().contains(part), "{refused}");
    }
}

#[tokio::test]
async fn a_short_text_is_looked_up_with_its_own_k() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/chat", json!({"profile": "short-128", "sketch_bytes": 64})).await;
    let text = "The last bus to the old harbour leaves at nine tonight, because the bridge is being repaired";
    let (_, stored) = server.post("/collections/chat/documents", json!({"id": "a", "text": text})).await;
    let made = json!({"text": text.replace("nine", "eleven"), "profile": "short-128"});
    let (_, made) = server.post("/fingerprint", made).await;
    let k = made["k"].as_u64().unwrap();
    assert!((24..30).contains(&k), "{made}");
    let query = json!({"text": text.replace("nine", "eleven")});
    let (_, found) = server.post("/collections/chat/similar", query.clone()).await;
    assert_eq!((&found["k"], &found["similar"][0]["id"]), (&made["k"], &json!("a")), "{found}");
    assert_eq!(found["sensitivity"], made["sensitivity"], "{found}");
    // The second check compares the features of the profile: all words but one remain.
    let mut checked = query.clone();
    checked["min_similarity"] = json!(0.5);
    let (_, checked) = server.post("/collections/chat/similar", checked).await;
    assert!(checked["similar"][0]["similarity"].as_f64().unwrap() > 0.55, "{checked}");
    // A hash has no text, and a k that was chosen is kept.
    let by_hash = json!({"hash": stored["hash"]});
    assert_eq!(server.post("/collections/chat/similar", by_hash).await.1["k"], 30);
    server.put("/collections/chat", json!({"k": 20})).await;
    assert_eq!(server.post("/collections/chat/similar", query).await.1["k"], 20);
}

#[tokio::test]
async fn a_collection_refuses_a_profile_that_aligns_letters() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (status, refused) = server.put("/collections/scans", json!({"profile": "noisy"})).await;
    assert_eq!((status.as_u16(), &refused["errors"][0]["pointer"]), (422, &json!("/profile")), "{refused}");
    assert!(refused.to_string().contains("take minhash-copies, or lookalike dedupe"), "{refused}");
}

#[tokio::test]
async fn an_invalid_comparison_is_refused_with_the_field() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let text = json!({"text": ARTICLE});
    let cases = [
        (json!({"a": text, "b": {"id": "none"}}), 404, "no_document"),
        (json!({"a": text, "b": {}}), 422, "exactly one of"),
        (json!({"a": text}), 422, "b"),
        (json!({"a": text, "b": {"text": "。"}}), 422, "b has no word"),
        (json!({"a": text, "b": {"hash": "00".repeat(16)}}), 422, "128"),
        (json!({"a": text, "b": text, "k": 65}), 422, "ranges from 0 to 64"),
        (json!({"a": text, "b": text, "profile": "none"}), 422, "no_profile"),
        (json!({"a": text, "b": text, "colour": 1}), 422, "colour"),
    ];
    for (body, status, part) in cases {
        let (found, answer) = server.post("/compare", body.clone()).await;
        assert_eq!(found.as_u16(), status, "{body} {answer}");
        assert!(answer.to_string().contains(part), "{body} {answer}");
    }
}

#[test]
fn a_wrong_name_in_a_definition_is_shown_as_it_is_written() {
    let folder = directory();
    let [file, text] = ["profiles.toml", "a.txt"].map(|name| folder.path().join(name));
    fs::write(&text, ARTICLE).unwrap();
    for like in ["copies-46@1", "co:pies@2", "me@example.org"] {
        fs::write(&file, format!("[house]\nlike = \"{like}\"\n")).unwrap();
        let arguments = [
            "fingerprint",
            "--profiles",
            file.to_str().unwrap(),
            "--profile",
            "house",
            text.to_str().unwrap(),
        ];
        let output = command(&arguments).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && !message.contains("***"), "{message}");
        assert!(message.contains(&format!("{like:?}")) && message.contains("copies-64@1"), "{message}");
    }
}

#[tokio::test]
async fn a_collection_refuses_a_profile_that_changed() {
    let data = directory();
    let file = data.path().join("profiles.toml");
    let path = file.to_str().unwrap().to_owned();
    let settings = [("LOOKALIKE_PROFILES__FILE", path.as_str())];
    fs::write(&file, "[house]\nlike = \"copies-64\"\ngram = 4\n").unwrap();
    let store = data.path().join("d");
    let server = Server::start_with(&store, &settings).await;
    let made =
        server.client.put(format!("{}/collections/news", server.url)).json(&json!({"profile": "house"}));
    assert_eq!(made.send().await.unwrap().status(), StatusCode::CREATED);
    let (status, stored) =
        server.post("/collections/news/documents", json!({"id": "a", "text": ARTICLE})).await;
    assert_eq!(status, StatusCode::CREATED, "{stored}");
    server.stop();

    fs::write(&file, "[house]\nlike = \"copies-64\"\ngram = 6\n").unwrap();
    let server = Server::start_with(&store, &settings).await;
    let (status, refused) =
        server.post("/collections/news/documents", json!({"id": "b", "text": ARTICLE})).await;
    assert_eq!((status.as_u16(), refused["code"].as_str()), (409, Some("profile_changed")), "{refused}");
    let hash = stored["hash"].as_str().unwrap();
    let near = server.json(&format!("/collections/news/similar?hash={hash}")).await;
    assert_eq!(near["similar"][0]["id"], "a", "lookups by hash still work");
    server.stop();

    fs::write(&file, "[flat]\nlike = \"copies-64\"\n").unwrap();
    let server = Server::start_with(&store, &settings).await;
    let (status, refused) = server.post("/collections/news/similar", json!({"text": ARTICLE})).await;
    assert_eq!((status.as_u16(), refused["code"].as_str()), (409, Some("profile_changed")), "{refused}");
    server.stop();

    // This definition has another version and k, but produces the same hashes.
    fs::write(&file, "[house]\nversion = 2\nlike = \"copies-64\"\ngram = 4\nk = 9\n").unwrap();
    let server = Server::start_with(&store, &settings).await;
    let (status, answer) =
        server.post("/collections/news/documents", json!({"id": "b", "text": ARTICLE})).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    assert_eq!(answer["similar"][0]["id"], "a");
}

#[test]
fn an_invalid_profile_definition_stops_the_start() {
    let data = directory();
    let file = data.path().join("profiles.toml");
    fs::write(&file, "[house]\ncolour = 1\n").unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()];
    let output = command(&arguments).env("LOOKALIKE_PROFILES__FILE", &file).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && stderr.contains("unknown field `colour`"), "{stderr}");
}

#[tokio::test]
async fn pages_and_texts_in_other_charsets_have_the_hash_of_their_characters() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (_, expected) = server.post("/fingerprint", json!({"text": ARTICLE})).await;
    let (gbk, ..) = encoding_rs::GBK.encode(ARTICLE);
    let page = format!("<html><head><meta charset=gb2312></head><body><p>{ARTICLE}</p></body></html>");
    let (page, ..) = encoding_rs::GBK.encode(&page);
    let bodies = [
        ("text/plain; charset=gbk", gbk.to_vec(), 200),
        ("text/plain", gbk.to_vec(), 200),
        ("text/html", page.to_vec(), 200),
        ("text/html; charset=GB18030", page.to_vec(), 200),
        ("text/plain; charset=klingon", gbk.to_vec(), 400),
        // So much is invalid that the declaration must be wrong.
        ("text/plain; charset=utf-8", gbk.to_vec(), 200),
        ("application/json; charset=gbk", b"{}".to_vec(), 415),
    ];
    for (kind, body, status) in bodies {
        let request = server.client.post(format!("{}/fingerprint", server.url)).header("content-type", kind);
        let response = request.body(body).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{kind}");
        if status == 200 {
            let answer: serde_json::Value = response.json().await.unwrap();
            assert_eq!(answer["hash"], expected["hash"], "{kind}");
        }
    }
}

#[test]
fn idf_counts_words_and_a_profile_takes_the_table() {
    let data = directory();
    let libraries = ["图书馆的延长开放时间 12", "图书馆的增加自习座位 12"];
    let texts = [libraries[0], libraries[1], "渡轮的每二十分钟一班"];
    let lines: String = texts.iter().map(|text| format!("{}\n", json!({"text": text}))).collect();
    fs::write(data.path().join("docs.jsonl"), lines).unwrap();
    let table = data.path().join("table.txt");
    let docs = data.path().join("docs.jsonl");
    let counted =
        command(&["idf", docs.to_str().unwrap(), "--output", table.to_str().unwrap()]).output().unwrap();
    assert!(counted.status.success(), "{}", String::from_utf8_lossy(&counted.stderr));
    let written = fs::read_to_string(&table).unwrap();
    // ln(3 / 2) for the word, and ln 3 for words that are not in the table.
    assert!(written.contains("图书馆 0.405465") && written.contains("* 1.098612"), "{written}");
    // Particles and numbers are counted too: a profile may use them as words, and a word that is not in the
    // table gets the weight of the rarest ones.
    assert!(written.contains("的 0.001") && written.contains("12 0.405465"), "{written}");
    let profiles = data.path().join("profiles.toml");
    fs::write(&profiles, "[own]\nlike = \"keywords-zh\"\nidf = \"table.txt\"\n").unwrap();
    let text = data.path().join("text.txt");
    fs::write(&text, texts[0]).unwrap();
    let [profiles, text] = [&profiles, &text].map(|path| path.to_str().unwrap());
    let made = command(&["fingerprint", "--profiles", profiles, "--profile", "own", "--json", text])
        .output()
        .unwrap();
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert!(made["profile"].as_str().unwrap().starts_with("own@1+"), "{made}");
    let none = command(&["idf", data.path().join("none.jsonl").to_str().unwrap()]).output().unwrap();
    assert!(!none.status.success() && String::from_utf8_lossy(&none.stderr).contains("none.jsonl"));
}

#[test]
fn eval_measures_labelled_texts_and_edited_copies() {
    let data = directory();
    let folder = data.path().join("set");
    fs::create_dir(&folder).unwrap();
    let sentence = |n: u32, s: u32| {
        format!("Sentence {s} of article {n} tells of harbour {} and ferry {}. ", n * 7 + s, n * s)
    };
    let article = |n: u32| (0..20).map(|s| sentence(n, s)).collect::<String>();
    let mut lines = String::new();
    for n in 0..40 {
        let copy = article(n).replace("Sentence 3", "Phrase 3");
        for document in
            [json!({"id": format!("{n}"), "text": article(n)}), json!({"id": format!("{n}c"), "text": copy})]
        {
            lines += &document.to_string();
            lines.push('\n');
        }
    }
    let mut packed =
        GzEncoder::new(fs::File::create(folder.join("docs.jsonl.gz")).unwrap(), Compression::fast());
    packed.write_all(lines.as_bytes()).unwrap();
    packed.finish().unwrap();
    let pairs: String = (0..40).map(|n| format!("{n}\t{n}c\tword:1\n")).collect();
    fs::write(folder.join("pairs.tsv"), pairs).unwrap();
    let svg = data.path().join("curves.svg");
    let (folder, svg) = (folder.to_str().unwrap(), svg.to_str().unwrap());
    let output = command(&["eval", folder, "-p", "copies-64", "-p", "copies-128", "--svg", svg]);
    let output = { output }.output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in ["80 texts", "40 pairs to be found", "### copies-128@1", "| word:1 | 40 |", "## Recommended"]
    {
        assert!(report.contains(part), "{part} is not in {report}");
    }
    assert!(fs::read_to_string(svg).unwrap().contains("<polyline"));
    let edits = command(&["eval", folder, "--edits", "-p", "copies-64"]).output().unwrap();
    let report = String::from_utf8_lossy(&edits.stdout).into_owned();
    assert!(report.contains("cut by 10 %") && report.contains("pairs to be found"), "{report}");
    let none = command(&["eval", data.path().to_str().unwrap()]).output().unwrap();
    assert!(!none.status.success() && String::from_utf8_lossy(&none.stderr).contains("docs.jsonl"));
    let all = command(&["eval", folder]).output().unwrap();
    let report = String::from_utf8_lossy(&all.stdout).into_owned();
    assert!(report.contains("### copies-64@1") && report.contains("### shingle-md5-128@1"), "{report}");
    assert!(!report.contains("minhash"), "only profiles with hashes: {report}");
}

#[test]
fn eval_refuses_invalid_labels_and_profiles() {
    let data = directory();
    let folder = data.path().join("set");
    fs::create_dir(&folder).unwrap();
    let lines: String =
        (0..30).map(|n| format!("{}\n", json!({"id": format!("{n}"), "text": "a b c"}))).collect();
    let empty = data.path().join("empty.jsonl");
    fs::write(&empty, "").unwrap();
    fs::write(folder.join("docs.jsonl"), lines).unwrap();
    let (set, empty) = (folder.to_str().unwrap(), empty.to_str().unwrap());
    let cases: [(&str, &str, &[&str], &str); 8] = [
        ("pairs.tsv", "1\t2\n", &["--edits", "--duplicate-share", "0"], "--duplicate-share is a share"),
        ("pairs.tsv", "1\t2\n", &["--revisions", "sets"], "--revisions \"sets\" is not one of the sets"),
        ("pairs.tsv", "1\t2\n3\t3\n", &[], "pairs.tsv:2: a document is paired with itself"),
        ("pairs.tsv", "90\t2\n", &[], "none of the pairs is one to be found"),
        ("pairs.tsv", "1 2\n", &[], "pairs.tsv:1: two ids separated by a tab are needed"),
        ("similarity.tsv", "1\t2\t1.7\n", &[], "similarity.tsv:1: \"1.7\" is no similarity from 0 to 1"),
        ("similarity.tsv", "1\t2\tnan\n", &[], "similarity.tsv:1: \"nan\" is no similarity"),
        ("similarity.tsv", "1\t2\t0.4\n", &[], "none of the pairs is one to be found"),
    ];
    for (file, labels, more, expected) in cases {
        fs::write(folder.join(file), labels).unwrap();
        let output = command(&[&["eval", set], more].concat()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains(expected), "{labels:?} {more:?}: {stderr}");
        fs::remove_file(folder.join(file)).unwrap();
    }
    let nothing = command(&["eval", empty, "--edits"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(!nothing.status.success() && stderr.contains("no document was read"), "{stderr}");
    // All thirty texts are equal, so that there can be no false positive.
    let same = command(&["eval", set, "--edits", "-p", "copies-64"]).output().unwrap();
    let report = String::from_utf8_lossy(&same.stdout).into_owned();
    assert!(report.contains("| `copies-64@1` | none |") && !report.contains("**`"), "{report}");
}
