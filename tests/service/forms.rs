//! Hashes in the forms of other systems: decimal, signed, base64, `0x`.

use std::fs;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, command, directory};

const TEXT: &str =
    "A short report about the weather in the mountains, where the first snow has fallen earlier.";
/// A hash in every form, hexadecimal first.
const FORMS: [(&str, &str); 5] = [
    ("hex", "f776119227163845"),
    ("0x", "0xf776119227163845"),
    ("decimal", "17831459094038722629"),
    ("signed", "-615284979670828987"),
    ("base64", "RTgWJ5IRdvc="),
];

#[tokio::test]
async fn a_hash_is_read_in_every_form() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let hash = FORMS[0].1;
    for (at, (form, text)) in FORMS.into_iter().enumerate() {
        let add = format!("/documents?hash_format={form}");
        let (status, added) = server.post(&add, json!({"id": form, "hash": text})).await;
        assert_eq!((status, &added["hash"]), (StatusCode::CREATED, &json!(text)), "{added}");
        let near: Vec<&Value> =
            added["similar"].as_array().unwrap().iter().map(|near| &near["hash"]).collect();
        assert_eq!(near, vec![&json!(text); at], "{added}");
        assert_eq!(server.json(&format!("/documents/{form}")).await["hash"], hash);
        let (_, put) =
            server.put(&format!("/documents/{form}?hash_format={form}"), json!({"hash": text})).await;
        assert_eq!((&put["outcome"], &put["hash"]), (&json!("updated"), &json!(text)), "{put}");
        let line = format!("{}\n", json!({"id": form, "hash": text}));
        let (results, _) = server.stream(&format!("{add}&on_duplicate=skip&k=0"), line).await;
        assert_eq!(results[0]["outcome"], if at == 0 { "updated" } else { "duplicate" }, "{results:?}");
    }
    // Numbers of JSON, exactly.
    for (form, number) in FORMS.into_iter().skip(2).take(2) {
        let body = json!({"hash": number.parse::<Value>().unwrap(), "k": 0});
        let (_, found) = server.post(&format!("/similar?hash_format={form}"), body).await;
        assert_eq!(
            (&found["hash"], found["similar"].as_array().unwrap().len()),
            (&json!(number), 5),
            "{found}"
        );
    }
    // Forms that need no name.
    for given in [FORMS[0].1, FORMS[1].1, FORMS[4].1].map(|text| json!(text)) {
        let (_, found) = server.post("/similar", json!({"hash": given, "k": 0})).await;
        assert_eq!(
            (&found["hash"], found["similar"].as_array().unwrap().len()),
            (&json!(hash), 5),
            "{given}"
        );
        let (_, several) = server.post("/batch/similar", json!({"queries": [{"hash": given}]})).await;
        assert_eq!(several["results"][0]["hash"], hash, "{several}");
        let (_, compared) = server.post("/compare", json!({"a": {"hash": given}, "b": {"id": "hex"}})).await;
        assert_eq!(compared["distance"], 0, "{compared}");
    }
    let (status, problem) = server.post("/similar", json!({"hash": FORMS[2].1})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(problem["detail"].as_str().unwrap().contains("hash_format=decimal or signed"), "{problem}");
    for (query, expected) in [
        ("hash=f776119227163845&hash_format=octal", "there is no form"),
        ("hash=f776119227163845&hash_format=decimal", "not in the form decimal"),
        ("hash=-1&hash_format=decimal", "hash_format=signed"),
        ("hash=9223372036854775808&hash_format=signed", "hash_format=decimal"),
        ("hash=18446744073709551616&hash_format=decimal", "128"),
        ("hash=0xfff776119227163845", "128"),
    ] {
        let response = server.get(&format!("/similar?{query}")).await;
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY, "{query}");
        let problem: Value = response.json().await.unwrap();
        assert!(problem["detail"].as_str().unwrap().contains(expected), "{query}: {problem}");
    }
}

#[tokio::test]
async fn every_answer_with_hashes_has_them_in_the_form_of_the_request() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for profile in ["copies-64", "copies-128"] {
        server.put(&format!("/collections/{profile}"), json!({"profile": profile})).await;
        let route = |rest: &str| format!("/collections/{profile}{rest}");
        for id in ["a", "b"] {
            server.post(&route("/documents"), json!({"id": id, "text": TEXT})).await;
        }
        let digits = server.json(&route("/documents/a")).await["hash"].as_str().unwrap().to_owned();
        let value = u128::from_str_radix(&digits, 16).unwrap();
        let signed = if digits.len() == 16 {
            (value as u64).cast_signed().to_string()
        } else {
            value.cast_signed().to_string()
        };
        let forms = [("hex", digits.clone()), ("0x", format!("0x{digits}")), ("decimal", value.to_string())];
        for (form, text) in forms.into_iter().chain([("signed", signed)]) {
            let with = |path: &str| {
                format!("{}{}hash_format={form}", route(path), if path.contains('?') { '&' } else { '?' })
            };
            let near = [&text, &text, &text].map(|text| json!(text));
            let hashes = |answer: &Value| {
                let near = answer["similar"].as_array().unwrap().iter().map(|near| near["hash"].clone());
                std::iter::once(answer["hash"].clone()).chain(near).collect::<Vec<Value>>()
            };
            for path in [
                format!("/similar?hash={text}"),
                "/similar?id=a&limit=5".into(),
                "/documents/a/similar".into(),
            ] {
                let answer = server.json(&with(&path)).await;
                let found = hashes(&answer);
                assert!(found.len() >= 2 && found == near[..found.len()], "{path} {form}: {answer}");
            }
            for (path, body) in [
                ("/similar", json!({"hash": text})),
                ("/similar", json!({"text": TEXT})),
                ("/similar?", json!({"hash": text, "stats": true})),
            ] {
                let (_, answer) = server.post(&with(path), body).await;
                assert_eq!(hashes(&answer), near, "{form}: {answer}");
            }
            let queries = json!({"queries": [{"hash": text}, {"id": "a"}, {"text": TEXT}]});
            let (_, answer) = server.post(&with("/batch/similar"), queries).await;
            for answer in answer["results"].as_array().unwrap() {
                let found = hashes(answer);
                assert!(found.len() >= 2 && found == near[..found.len()], "{form}: {answer}");
            }
            assert_eq!(server.json(&with("/documents/a")).await["hash"], text);
            let compare = json!({"a": {"hash": text}, "b": {"id": "b"}});
            let (_, compared) = server.post(&with("/compare"), compare).await;
            assert_eq!((&compared["a"]["hash"], &compared["b"]["hash"]), (&near[0], &near[1]), "{compared}");
            let shared =
                server.json(&format!("/collections/{profile}/shared-hashes?hash_format={form}")).await;
            assert_eq!(shared["hashes"][0]["hash"], text, "{shared}");
            let export = server.export(&with("/export")).await;
            assert_eq!(export.matches(&format!("\"hash\":\"{text}\"")).count(), 2, "{export}");
            let skipped = with("/batch/documents?on_duplicate=skip");
            let (_, array) = server.post(&skipped, json!([{"hash": text}])).await;
            assert_eq!(array["results"][0]["similar"][0]["hash"], text, "{array}");
            let route = format!("/fingerprint?hash_format={form}");
            for body in [json!({"text": TEXT}), json!({"text": TEXT, "explain": true})] {
                let mut body = body;
                body["profile"] = json!(profile);
                assert_eq!(server.post(&route, body).await.1["hash"], text);
            }
            let body = json!({"texts": [TEXT], "profile": profile});
            let route = format!("/batch/fingerprint?hash_format={form}");
            assert_eq!(server.post(&route, body).await.1["fingerprints"][0]["hash"], text);
        }
    }
    let features = json!({"features": [["a", 5, "100101"]], "bits": 6});
    let (_, counted) = server.post("/fingerprint?hash_format=decimal", features).await;
    assert_eq!((&counted["hash"], &counted["binary"]), (&json!("37"), &json!("100101")), "{counted}");
    // The other answers have no hashes: they do not take the parameter.
    assert_eq!(server.get("/stats?hash_format=decimal").await.status(), StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn the_command_line_reads_and_writes_every_form() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let run = async |arguments: &[&str]| {
        let mut command = command(arguments);
        command.current_dir(data.path());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    for (at, (form, text)) in FORMS.into_iter().enumerate() {
        // Databases write integers with blanks before them.
        fs::write(data.path().join("hashes.csv"), format!("key,simhash\n{at}, {text}\n")).unwrap();
        let import = ["import", "--url", &server.url, "--hash-field", "simhash", "--id-field", "key"];
        let with_form = [&import, &["--hash-profile", "copies-64", "--hash-format", form, "hashes.csv"][..]];
        let (succeeded, _, stderr) = run(&with_form.concat()).await;
        assert!(succeeded, "{form}: {stderr}");
        assert_eq!(server.json(&format!("/documents/{at}")).await["hash"], FORMS[0].1);
        let (succeeded, _, stderr) = run(&[&import, &["hashes.csv"][..]].concat()).await;
        assert_eq!(succeeded, !["decimal", "signed"].contains(&form), "{form}: {stderr}");
        let (_, stdout, _) = run(&["export", "--url", &server.url, "--hash-format", form]).await;
        assert_eq!(stdout.matches(&format!("\"hash\":\"{text}\"")).count(), at + 1, "{stdout}");
    }
    let import = ["import", "--url", &server.url, "--hash-field", "simhash", "--hash-profile", "pairs-64"];
    let (succeeded, _, stderr) = run(&[&import, &["hashes.csv"][..]].concat()).await;
    assert!(!succeeded && stderr.contains("profile_mismatch"), "{stderr}");

    fs::write(data.path().join("text.txt"), TEXT).unwrap();
    let (_, made) = server.post("/fingerprint?hash_format=signed", json!({"text": TEXT})).await;
    let fingerprint = ["fingerprint", "text.txt", "--profile", "copies-64", "--hash-format", "signed"];
    let (_, stdout, stderr) = run(&fingerprint).await;
    assert_eq!(stdout, format!("{}  text.txt\n", made["hash"].as_str().unwrap()), "{stderr}");
    let (_, stdout, _) = run(&["vote", "a=5:100101", "--bits", "6", "--hash-format", "decimal"]).await;
    assert_eq!(stdout, "37  100101\n");
    let (succeeded, _, stderr) = run(&["vote", "a=5", "--hash-format", "octal"]).await;
    assert!(!succeeded && stderr.contains("hex, 0x, decimal, signed, base64"), "{stderr}");
}
