//! Banks of hashes of images that other systems have, in the shapes of their files.

use std::fs;

use serde_json::json;

use crate::server::{Server, command, directory};

#[tokio::test(flavor = "multi_thread")]
async fn banks_of_other_systems_are_imported_and_matched() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let [a, b, c] = ["37", "c1", "e9"].map(|byte| byte.repeat(32));
    let page = format!(
        "id,td_raw_indicator,td_indicator_type,td_status,td_description,td_subjective_tags\n\
         1001,{a},HASH_PDQ,MALICIOUS,\"one, two\",media_type_photo\n\
         1002,e8b19da37825a3056e84c522f05eb001,HASH_MD5,NON_MALICIOUS,a file,\n\
         1003,{b},HASH_PDQ,UNKNOWN,,testing\n"
    );
    let descriptor = |id: &str, hash: &str| {
        let indicator = json!({"id": "7", "indicator": hash, "type": "HASH_PDQ"});
        json!({"id": id, "indicator": indicator, "raw_indicator": hash, "type": "HASH_PDQ", "tags": null,
               "owner": {"id": "9", "name": "ours"}, "added_on": "2024-07-01T18:31:15+0000"})
    };
    let api = format!("{}\n{}\n", descriptor("2001", &a), descriptor("2002", &b.to_uppercase()));
    let of_hma = |id: u64, hash: &str| json!({"id": id, "signals": {"pdq": hash, "video_md5": "00"}});
    let hma = format!("{}\n{}\n", of_hma(3001, &a), of_hma(3002, &c));
    let files: [(&str, String, &str, &str, [&str; 2], &str); 4] = [
        ("page.csv", page, "td_raw_indicator", "2 created", ["1001", "1003"], "1 bad line"),
        ("api.jsonl", api.clone(), "indicator.indicator", "2 created", ["2001", "2002"], ""),
        ("raw.jsonl", api, "raw_indicator", "2 created", ["2001", "2002"], ""),
        ("hma.jsonl", hma, "signals.pdq", "2 created", ["3001", "3002"], ""),
    ];
    for (number, (name, content, field, created, ids, bad)) in files.into_iter().enumerate() {
        let collection = format!("bank-{number}");
        server.put(&format!("/collections/{collection}"), json!({"profile": "pdq"})).await;
        let file = data.path().join(name);
        fs::write(&file, content).unwrap();
        let own = ["import", "--url", &server.url, "--collection", &collection, file.to_str().unwrap()];
        let done = command(&[&own[..], &["--hash-field", field, "--hash-profile", "pdq"]].concat()).output();
        let said = String::from_utf8_lossy(&done.unwrap().stderr).into_owned();
        assert!(said.contains(created) && said.contains(bad), "{name}: {said}");
        for id in ids {
            let found = server.json(&format!("/collections/{collection}/documents/{id}/similar")).await;
            assert_eq!(found["similar"], json!([]), "{name}: {found}");
        }
        // Three bits of it differ.
        let near = format!("30{}", &a[2..]);
        let found = server.json(&format!("/collections/{collection}/similar?hash={near}&profile=pdq")).await;
        assert_eq!(
            (&found["similar"][0]["id"], &found["similar"][0]["distance"]),
            (&json!(ids[0]), &json!(3))
        );
    }
    let stored = server.json("/collections/bank-0/documents/1001").await;
    assert_eq!(stored["metadata"]["td_description"], "one, two");
}
