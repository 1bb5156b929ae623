//! `dedupe` with the evidence for each removal, the page for a review, and the alarm of sources.

use std::fs::{self, File};
use std::path::Path;

use lookalike_dedupe::FeatureSet;
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::Profile;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::{Value, json};

use crate::dedupe::{FERRY, dedupe, done, generated_texts, json_lines, refused};
use crate::server::{Server, command, directory};

const CHINESE: &str = "市图书馆昨天宣布，从下个月开始延长周末的\
                       开放时间，方便上班族阅读和学习。\
                       读者可以在网上预约座位。";

fn write(folder: &Path, name: &str, documents: &[Value]) {
    fs::write(folder.join(name), documents.iter().map(|one| format!("{one}\n")).collect::<String>()).unwrap();
}

/// Documents of generated texts, and an edited copy in Chinese.
fn documents() -> Vec<Value> {
    let mut texts = generated_texts();
    texts.extend([CHINESE.to_owned(), CHINESE.replace("下个月", "明年")]);
    let document = |(number, text): (usize, String)| json!({"id": format!("d{number}"), "text": text});
    texts.into_iter().enumerate().map(document).collect()
}

fn text<'a>(documents: &'a [Value], name: &Value) -> &'a str {
    documents.iter().find(|one| one["id"] == name["id"]).unwrap()["text"].as_str().unwrap()
}

/// Whether a number in JSON is this one, but for how it is written.
fn is_near(found: &Value, expected: f64) -> bool {
    (found.as_f64().unwrap() - expected).abs() < 1e-12
}

#[test]
fn every_removal_has_the_exact_similarity_of_its_texts() {
    let (folder, all) = (directory(), documents());
    write(folder.path(), "a.jsonl", &all);
    let profile = Profile::named("minhash-copies").unwrap();
    for (keep, more) in [("first", &[][..]), ("longest", &["--memory", "3MiB"]), ("first", &["--html"])] {
        let own = ["a.jsonl", "-o", "out", "--force", "--keep", keep, "--save-weights", "w"];
        let own = [&own[..], &["--duplicates", "d.jsonl", "--evidence", "e.jsonl"], more].concat();
        done(folder.path(), &own);
        let table = Frequencies::from_bytes(&fs::read(folder.path().join("w")).unwrap()).unwrap();
        let (dropped, found) =
            (json_lines(&folder.path().join("d.jsonl")), json_lines(&folder.path().join("e.jsonl")));
        assert!(dropped.len() > 100 && dropped.len() == found.len());
        for (dropped, found) in dropped.iter().zip(&found) {
            for same in ["id", "line", "replaced_by", "distance", "exact"] {
                assert_eq!(dropped[same], found[same], "{same}");
            }
            assert_eq!(dropped["similarity"], found["estimated_similarity"]);
            assert_eq!(found["source"], "a.jsonl");
            if keep == "first" && !more.is_empty() {
                // The text of a page is another one than its bytes.
                assert!(found["exact_similarity"].is_f64());
                continue;
            }
            let (own, by) = (text(&all, found), text(&all, &found["replaced_by"]));
            let [a, b] = [own, by].map(|text| FeatureSet::of(profile, Some(&table), text));
            let overlap = a.overlap(&b);
            let shares = ["exact_similarity", "contained_in", "contains"];
            for (name, share) in
                shares.iter().zip([overlap.similarity, overlap.contained_in, overlap.contains])
            {
                assert!(is_near(&found[name], share), "{name}: {found}, {share}");
            }
            let difference = &found["first_difference"];
            assert_eq!(difference.is_null(), own == by);
            if own != by {
                let [of_own, of_by] = ["dropped", "kept"].map(|side| difference[side].as_str().unwrap());
                assert!(own.contains(of_own) && by.contains(of_by) && of_own != of_by, "{difference}");
            }
        }
        let chinese = found.iter().find(|one| one["id"] == "d502" || one["id"] == "d501").unwrap();
        assert!(chinese["first_difference"].to_string().contains("，从明年开始"), "{chinese}");
        assert!(!folder.path().join("out.partial").exists());
    }
}

#[test]
fn evidence_as_parquet_says_the_same() {
    let folder = directory();
    write(folder.path(), "a.jsonl", &documents());
    let own = ["a.jsonl", "-o", "out", "--force", "--evidence"];
    done(folder.path(), &[&own[..], &["e.jsonl"]].concat());
    done(folder.path(), &[&own[..], &["e.parquet"]].concat());
    let lines = json_lines(&folder.path().join("e.jsonl"));
    let reader = SerializedFileReader::new(File::open(folder.path().join("e.parquet")).unwrap()).unwrap();
    let mut count = 0;
    for (row, line) in reader.get_row_iter(None).unwrap().zip(&lines) {
        let row = row.unwrap();
        assert_eq!(row.get_string(0).unwrap(), line["id"].as_str().unwrap());
        assert_eq!(row.get_long(2).unwrap(), line["line"].as_i64().unwrap());
        let by = row.get_group(4).unwrap();
        assert_eq!(by.get_string(0).unwrap(), line["replaced_by"]["id"].as_str().unwrap());
        assert!(is_near(&line["exact_similarity"], row.get_double(7).unwrap()));
        assert_eq!(row.get_bool(11).unwrap(), line["exact"].as_bool().unwrap());
        let passage = row.get_group(10).map(|group| group.get_string(0).unwrap().clone());
        assert_eq!(passage.ok().as_deref(), line["first_difference"]["dropped"].as_str());
        count += 1;
    }
    assert_eq!(count, lines.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_without_texts_has_no_evidence_and_that_is_said() {
    let folder = directory();
    let server = Server::start(&folder.path().join("data")).await;
    write(folder.path(), "stored.jsonl", &[json!({"id": "t", "text": FERRY})]);
    let copies = [json!({"id": "u", "text": FERRY}), json!({"id": "v", "text": CHINESE})];
    write(folder.path(), "a.jsonl", &[&copies[..], &[json!({"id": "w", "text": CHINESE})]].concat());
    let url = format!("{}/collections/default", server.url);
    tokio::task::block_in_place(|| {
        let mut import = command(&["import", "--url", &server.url, "stored.jsonl"]);
        assert!(import.current_dir(folder.path()).status().unwrap().success());
        let own = ["a.jsonl", "-o", "out", "--profile", "copies-64", "--against", &url];
        let output = dedupe(folder.path(), &[&own[..], &["--evidence", "e.jsonl"]].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && stderr.contains("nulls, for 1 removal"), "{stderr}");
    });
    let found = json_lines(&folder.path().join("e.jsonl"));
    assert!(found[0]["exact_similarity"].is_null() && found[0]["first_difference"].is_null());
    assert_eq!(
        (&found[1]["exact_similarity"], &found[1]["estimated_similarity"]),
        (&json!(1.0), &Value::Null)
    );
    server.stop();
}

#[test]
fn a_review_has_pairs_of_every_similarity_and_obeys_no_text() {
    let folder = directory();
    let mut all = documents();
    let evil = "<script>alert(1)</script> \"><img src=x onerror=alert(2)> ";
    all.push(json!({"id": "evil\"><b>", "text": format!("{evil}{FERRY}")}));
    all.push(json!({"id": "worse", "text": format!("{FERRY} {evil}")}));
    write(folder.path(), "a.jsonl", &all);
    let own = ["a.jsonl", "-o", "out", "--force", "--review", "r.html"];
    done(folder.path(), &own);
    let page = fs::read_to_string(folder.path().join("r.html")).unwrap();
    let count = page.matches("<article").count();
    assert_eq!(count, 100);
    assert!(page.contains("default-src 'none'") && !page.contains("<script>") && !page.contains("<img"));
    assert!(!page.contains("http:") && !page.contains("https:"));
    let similarities: Vec<f64> = page
        .split("data-similarity=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
        .collect();
    assert!(similarities.is_sorted_by(|a, b| a >= b));
    let tenths: std::collections::BTreeSet<u32> =
        similarities.iter().map(|one| (one * 10.0) as u32).collect();
    assert!(tenths.len() > 4, "{tenths:?}");
    done(folder.path(), &own);
    assert_eq!(fs::read_to_string(folder.path().join("r.html")).unwrap(), page);
    done(folder.path(), &[&own[..], &["--review-pairs", "7"]].concat());
    assert_eq!(fs::read_to_string(folder.path().join("r.html")).unwrap().matches("<article").count(), 7);
}

#[test]
fn a_source_that_loses_too_much_ends_the_run() {
    let folder = directory();
    let of = |source: &str, text: String| json!({"text": text, "site": {"name": source}});
    let other = |number: usize| generated_texts()[number].clone();
    let ferry = |number: usize| of("渡轮", format!("{FERRY} {}", number % 2));
    let mut all: Vec<Value> = (0..200).map(ferry).collect();
    all.extend((1..150).map(|number| of("news", other(number))));
    write(folder.path(), "a.jsonl", &all);
    for keep in ["first", "longest"] {
        let own =
            ["a.jsonl", "-o", "out", "--report", "r.html", "--source-field", "site.name", "--keep", keep];
        let refused = refused(folder.path(), &own);
        assert!(
            refused.contains("1 source would lose more than --max-loss 0.9: 渡轮 keeps 1 of 200"),
            "{refused}"
        );
        assert!(refused.contains("--force") && refused.contains("--annotate"), "{refused}");
        assert!(!folder.path().join("r.html").exists());
        let summary = done(folder.path(), &[&own[..], &["--max-loss", "0.999"]].concat());
        done(folder.path(), &[&own[..], &["--force"]].concat());
        let report = fs::read_to_string(folder.path().join("r.html")).unwrap();
        let row = "<tr><td>200</td><td>1</td><td>199</td><td>99.5 %</td><td>渡轮</td></tr>";
        assert!(report.contains(row), "{report}");
        assert!(summary.contains("349  read"), "{summary}");
        fs::remove_dir_all(folder.path().join("out")).unwrap();
        fs::remove_file(folder.path().join("r.html")).unwrap();
    }
    // Without a field the source is the argument, which keeps enough.
    done(folder.path(), &["a.jsonl", "-o", "out"]);
}

#[test]
fn what_cannot_be_compared_is_refused_before_the_work() {
    let folder = directory();
    write(folder.path(), "a.jsonl", &[json!({"text": FERRY, "h": "00000000000000ff"})]);
    fs::write(folder.path().join("b.txt"), FERRY).unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["a.jsonl", "--evidence", "e.csv"], "name a file that ends in .jsonl or .parquet"),
        (&["a.jsonl", "--evidence", "e.jsonl.gz"], "name a file that ends in .jsonl or .parquet"),
        (
            &["a.jsonl", "--evidence", "e.jsonl", "--hash-field", "h", "--profile", "copies-64"],
            "--evidence compares texts, and --hash-field does not read them",
        ),
        (
            &["a.jsonl", "--source-field", "site"],
            "there is no field \"site\"; there are h, text; --source-field",
        ),
        (&["b.txt", "--source-field", "site"], "b.txt: texts and images have no field \"site\""),
    ];
    for (arguments, expected) in cases {
        let stderr = refused(folder.path(), &[arguments, &["-o", "out"]].concat());
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn parts_of_longer_texts_are_dropped_if_they_are_asked_for_and_say_their_share() {
    let (folder, mut all) = (directory(), documents());
    let whole = all.len();
    for number in 0..whole {
        let words: Vec<&str> = all[number]["text"].as_str().unwrap().split_inclusive(' ').collect();
        let part = words[words.len() / 3..words.len() * 4 / 5].concat();
        all.push(json!({"id": format!("p{number}"), "text": part}));
    }
    write(folder.path(), "a.jsonl", &all);
    let profile = Profile::named("minhash-copies").unwrap();
    let run = |more: &[&str]| {
        let own = ["a.jsonl", "-o", "out", "--force", "--keep", "longest", "--weights", "none"];
        let told = done(folder.path(), &[&own[..], &["--duplicates", "d.jsonl"], more].concat());
        (told, json_lines(&folder.path().join("d.jsonl")))
    };
    let limit = ["--threshold", "0.6"];
    let (_, without) = run(&limit);
    assert!(without.iter().all(|line| line.get("contained_in").is_none()));
    let asked = [&limit[..], &["--contained-in", "0.8"]].concat();
    let (told, dropped) = run(&asked);
    let parts: Vec<&Value> = dropped.iter().filter(|line| line.get("contained_in").is_some()).collect();
    assert!(parts.len() > 50 && dropped.len() > without.len(), "{} of {}", parts.len(), dropped.len());
    assert!(told.contains(&format!("of these: {} dropped as parts of longer texts", parts.len())), "{told}");
    let set = |name: &Value| FeatureSet::of(profile, None, text(&all, name));
    for line in &dropped {
        let overlap = set(line).overlap(&set(&line["replaced_by"]));
        if overlap.similarity >= 0.6 {
            assert!(line.get("contained_in").is_none(), "{line}");
        } else {
            assert!(overlap.contained_in >= 0.8 && is_near(&line["contained_in"], overlap.contained_in));
        }
    }
    for more in [["--memory", "3MiB"], ["--threads", "3"]] {
        assert_eq!(run(&[&asked[..], &more].concat()).1, dropped, "{more:?}");
    }
    for (more, why) in [
        (&[][..], "needs --keep longest"),
        (&["--keep", "longest", "--clusters", "linked"], "no --clusters linked"),
        (&["--keep", "longest", "--profile", "copies-64"], "needs a profile of minima"),
        (&["--keep", "longest", "--contained-in", "8"], "--contained-in is a similarity from 0 to 1"),
    ] {
        let own = ["a.jsonl", "-o", "out2", "--contained-in", "0.8"];
        let own = if more.contains(&"--contained-in") { &own[..3] } else { &own };
        let output = dedupe(folder.path(), &[own, more].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(why), "{stderr}");
        assert!(!folder.path().join("out2").exists());
    }
}
