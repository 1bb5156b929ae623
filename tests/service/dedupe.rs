//! `dedupe`: every keep rule against its definition on real and generated texts, and every format.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Output;

use flate2::Compression;
use flate2::read::{GzDecoder, MultiGzDecoder};
use flate2::write::GzEncoder;
use lookalike_hash::{Hash, SignatureShape};
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::{Profile, Signature, Sketch};
use serde_json::{Value, json};

use crate::server::{Server, command, directory};
use crate::skipped::skipped;

pub fn dedupe(folder: &Path, arguments: &[&str]) -> Output {
    command(&[&["dedupe"], arguments].concat()).current_dir(folder).output().unwrap()
}

/// Runs a command that must succeed, and returns its standard output.
pub fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = dedupe(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail without output, and returns its standard error.
pub fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = dedupe(folder, arguments);
    assert!(!output.status.success() && !folder.join("out").exists(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

pub fn json_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Documents with an id, a text, a number and a date.
fn documents(texts: &[String]) -> Vec<Value> {
    let mut random = fastrand::Rng::with_seed(3);
    let document = |(number, text): (usize, &String)| {
        let at = format!("2026-03-{:02}", random.u32(1..29));
        json!({"id": format!("d{number}"), "text": text, "n": random.u32(..9), "at": at})
    };
    texts.iter().enumerate().map(document).collect()
}

/// Texts of real sets; `None` if they are missing here.
fn real_texts() -> Option<Vec<String>> {
    let folder = std::env::var_os("LOOKALIKE_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        std::path::PathBuf::from,
    );
    let mut texts = Vec::new();
    for set in ["en_abstracts", "zh_revisions"] {
        let file = File::open(folder.join(set).join("docs.jsonl.gz")).ok()?;
        let lines = BufReader::new(GzDecoder::new(file)).lines().map_while(Result::ok).take(200);
        texts.extend(
            lines.map(|line| {
                serde_json::from_str::<Value>(&line).unwrap()["text"].as_str().unwrap().to_owned()
            }),
        );
    }
    Some(texts)
}

/// Texts of random words, most of them edited copies of earlier ones, with equal ones and one without words.
pub fn generated_texts() -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(11);
    let words: Vec<String> =
        (0..400).map(|_| (0..random.usize(2..9)).map(|_| random.lowercase()).collect()).collect();
    let mut texts: Vec<String> = vec!["…".to_owned()];
    for _ in 0..500 {
        let mut text: Vec<String> = match random.usize(..4) {
            0 => (0..random.usize(20..60)).map(|_| random.choice(&words).unwrap().clone()).collect(),
            _ => random.choice(&texts).unwrap().split(' ').map(str::to_owned).collect(),
        };
        for _ in 0..random.usize(..4) {
            let at = random.usize(..text.len());
            text[at].clone_from(random.choice(&words).unwrap());
        }
        texts.push(text.join(" "));
    }
    texts
}

fn weighted_k() -> u32 {
    Profile::named("minhash-copies").unwrap().weighted_k()
}

/// The table of at most 1,000 records: each different set of features counts once.
fn table_of(profile: &Profile, texts: &[String]) -> Frequencies {
    let sets: HashSet<Vec<u64>> = texts.iter().map(|text| profile.feature_set(text)).collect();
    let mut table = Frequencies::of_kind(profile.kind_of_features());
    sets.iter().filter(|set| !set.is_empty()).for_each(|set| table.add(set));
    table
}

/// Whether two texts are near, and their distance, without the index.
struct Near {
    prints: Vec<(Hash, Option<Vec<u8>>)>,
    sketches: Vec<Sketch>,
    shape: Option<SignatureShape>,
    is_empty: Vec<bool>,
    /// Of signatures, the features, each repeated as often as it weighs.
    features: Vec<HashSet<(u64, u8)>>,
    k: u32,
    least: f64,
}

impl Near {
    fn of(profile: &str, texts: &[String], k: u32, least: f64) -> Near {
        let (profile, features) = (Profile::named(profile).unwrap(), Profile::named("pairs-64").unwrap());
        let table = profile.takes_weights().then(|| table_of(profile, texts));
        let sign = |text: &String| match &table {
            Some(table) => profile.sign_weighted(table, text),
            None => profile.sign(text),
        };
        let signed: Vec<_> = texts.iter().map(sign).collect();
        let sketch = |text: &String| Signature::of(&features.feature_set(text), 1024).sketch(1);
        let repeated = |text: &String| match &table {
            Some(table) => {
                let set = profile.feature_set(text);
                let times =
                    |(feature, weight): (&u64, u8)| (0..weight).map(|time| (*feature, time)).collect();
                set.iter().zip(table.weights(&set)).flat_map::<Vec<_>, _>(times).collect()
            }
            None => HashSet::new(),
        };
        Near {
            features: texts.iter().map(repeated).collect(),
            is_empty: signed.iter().map(|signed| signed.fingerprint.features == 0).collect(),
            prints: signed.into_iter().map(|one| (one.fingerprint.hash, one.signature)).collect(),
            sketches: texts.iter().map(sketch).collect(),
            shape: profile.signatures(),
            k,
            least,
        }
    }

    fn distance(&self, a: usize, b: usize) -> u32 {
        match (self.shape, &self.prints[a].1, &self.prints[b].1) {
            (Some(shape), Some(a), Some(b)) => shape.distance(a, b),
            _ => self.prints[a].0.distance(self.prints[b].0).unwrap(),
        }
    }

    fn is_near(&self, a: usize, b: usize) -> bool {
        let share_a_band = self.shape.is_none_or(|shape| {
            let rows = usize::from(shape.rows);
            let bands = |at: usize| self.prints[at].1.as_ref().unwrap().chunks_exact(rows);
            bands(a).zip(bands(b)).any(|(a, b)| a == b)
        });
        let is_similar = self.least == 0.0 || self.sketches[a].similarity(&self.sketches[b]) >= self.least;
        let is_compared = !self.is_empty[a] && !self.is_empty[b];
        let is_estimated = self.distance(a, b) <= self.k && share_a_band;
        is_compared && is_estimated && is_similar && self.is_exact(a, b)
    }

    /// Whether the texts are as similar as signatures within k estimate them to be. No estimate here is off
    /// by more than four standard deviations.
    fn is_exact(&self, a: usize, b: usize) -> bool {
        let Some(shape) = self.shape else { return true };
        let common = self.features[a].intersection(&self.features[b]).count() as f64;
        let all = self.features[a].union(&self.features[b]).count() as f64;
        common / all >= shape.threshold_of(self.k)
    }
}

/// The definition: the documents in the order of the rule; each is kept unless a kept one is near. Returns
/// the document that replaces each dropped one, and the distance.
fn by_definition(near: &Near, order: &[usize]) -> BTreeMap<usize, (usize, u32)> {
    let (mut kept, mut dropped): (Vec<usize>, _) = (Vec::new(), BTreeMap::new());
    for &number in order {
        let of_kept = kept.iter().filter(|other| near.is_near(number, **other));
        match of_kept.map(|other| (near.distance(number, *other), *other)).min() {
            Some((distance, by)) => _ = dropped.insert(number, (by, distance)),
            None => kept.push(number),
        }
    }
    dropped
}

fn order_of(rule: &str, documents: &[Value], near: &Near, files: &[usize]) -> Vec<usize> {
    let field = |number: usize, name: &str| documents[number][name].clone();
    let mut order: Vec<usize> = (0..documents.len()).collect();
    let length = |number: usize| field(number, "text").as_str().unwrap().chars().count();
    let number = |at: usize| field(at, "n").as_u64().unwrap() as i64;
    let date = |at: usize| field(at, "at").as_str().unwrap().to_owned();
    let neighbours = |a: usize| (0..documents.len()).filter(|b| *b != a && near.is_near(a, *b)).count();
    match rule {
        "first" => {}
        "longest" => order.sort_by_key(|at| std::cmp::Reverse(length(*at))),
        "max:n" => order.sort_by_key(|at| -number(*at)),
        "min:n" => order.sort_by_key(|at| number(*at)),
        "newest:at" => order.sort_by_key(|at| std::cmp::Reverse(date(*at))),
        "oldest:at" => order.sort_by_key(|at| date(*at)),
        "source:c,a" => order.sort_by_key(|at| [1, 2, 0][files[*at]]),
        "central" => order.sort_by_cached_key(|at| std::cmp::Reverse(neighbours(*at))),
        _ => unreachable!(),
    }
    order
}

/// Checks every rule on these texts, in three files.
fn check_rules(texts: &[String]) {
    let folder = directory();
    let documents = documents(texts);
    let third = texts.len().div_ceil(3);
    let lines = |part: &[Value]| part.iter().map(|line| format!("{line}\n")).collect::<String>();
    fs::write(folder.path().join("a.jsonl"), lines(&documents[..third])).unwrap();
    fs::write(folder.path().join("b.ndjson"), lines(&documents[third..2 * third])).unwrap();
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(lines(&documents[2 * third..]).as_bytes()).unwrap();
    fs::write(folder.path().join("c.jsonl.gz"), packed.finish().unwrap()).unwrap();
    let files: Vec<usize> = (0..texts.len()).map(|number| number / third).collect();
    let rules = ["first", "longest", "max:n", "min:n", "newest:at", "oldest:at", "source:c,a", "central"];
    let settings: [(&str, u32, f64, &[&str]); 4] = [
        ("copies-64", 7, 0.0, &["--profile", "copies-64"]),
        ("copies-64", 15, 0.4, &["--profile", "copies-64", "--k", "15", "--check", "0.4"]),
        ("copies-128", 23, 0.0, &["--profile", "copies-128"]),
        ("minhash-copies", weighted_k(), 0.0, &[]),
    ];
    for (profile, k, least, more) in settings {
        let near = Near::of(profile, texts, k, least);
        for rule in rules {
            for threads in ["1", "3"] {
                let fixed = ["a.jsonl", "b.ndjson", "c.jsonl.gz", "-o", "out", "--force", "--duplicates"];
                let fixed = [&fixed[..], &["d.jsonl", "--keep", rule, "--threads", threads]].concat();
                let rounds = if threads == "1" { &[][..] } else { &["--memory", "2MiB"] };
                done(folder.path(), &[&fixed[..], more, rounds].concat());
                let expected = by_definition(&near, &order_of(rule, &documents, &near, &files));
                let place = |id: &Value| id.as_str().unwrap()[1..].parse::<usize>().unwrap();
                let found = json_lines(&folder.path().join("d.jsonl")).into_iter().map(|line| {
                    let distance = line["distance"].as_u64().unwrap() as u32;
                    let (own, by) = (place(&line["id"]), place(&line["replaced_by"]["id"]));
                    assert_eq!(line["exact"].as_bool(), Some(distance == 0 && texts[own] == texts[by]));
                    (own, (by, distance))
                });
                assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "{profile} {rule}");
                let kept = |part: std::ops::Range<usize>| {
                    let kept = part.filter(|number| !expected.contains_key(number));
                    kept.map(|number| format!("{}\n", documents[number])).collect::<String>()
                };
                let read = |name: &str| fs::read(folder.path().join("out").join(name)).unwrap();
                assert_eq!(read("a.jsonl"), kept(0..third).as_bytes(), "{profile} {rule}");
                assert_eq!(read("b.ndjson"), kept(third..2 * third).as_bytes());
                let mut last = String::new();
                MultiGzDecoder::new(&*read("c.jsonl.gz")).read_to_string(&mut last).unwrap();
                assert_eq!(last, kept(2 * third..texts.len()));
                assert!((5..texts.len() - 5).contains(&expected.len()), "{} dropped", expected.len());
            }
        }
    }
}

#[test]
fn every_rule_keeps_what_it_defines_in_generated_texts() {
    check_rules(&generated_texts());
}

#[test]
fn every_rule_keeps_what_it_defines_in_real_texts() {
    match real_texts() {
        Some(texts) => check_rules(&texts),
        None => skipped("sets are missing in ../shared/data"),
    }
}

/// The first documents are decided while they are read, and the others in rounds after the kept ones take the
/// memory.
#[test]
fn what_does_not_fit_in_memory_is_decided_alike() {
    let folder = directory();
    let texts: Vec<String> = (0..8).flat_map(|_| generated_texts()).collect();
    let texts = texts.iter().enumerate().map(|(number, text)| match number % 4 {
        0 => text.clone(),
        part => text.chars().map(|c| if c == ' ' { c } else { (c as u8 + part as u8) as char }).collect(),
    });
    let lines: String =
        documents(&texts.collect::<Vec<_>>()).iter().map(|line| format!("{line}\n")).collect();
    fs::write(folder.path().join("a.jsonl"), lines).unwrap();
    for more in [&[][..], &["--profile", "copies-64"], &["--profile", "longest-sentences"]] {
        let run = |output: &str, memory: &str| {
            let arguments =
                ["a.jsonl", "-o", output, "--duplicates", "d.jsonl", "--force", "--memory", memory];
            let output = dedupe(folder.path(), &[&arguments[..], more].concat());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let dropped = fs::read(folder.path().join("d.jsonl")).unwrap();
            (dropped, String::from_utf8(output.stderr).unwrap())
        };
        let ((whole, at_once), (parts, in_rounds)) = (run("whole", "1GiB"), run("parts", "1100KiB"));
        assert!(whole == parts && !whole.is_empty(), "{more:?}");
        let read = |output: &str| fs::read(folder.path().join(output).join("a.jsonl")).unwrap();
        assert!(read("whole") == read("parts"), "{more:?}");
        assert!(!at_once.contains("rounds"), "{at_once}");
        assert!(!more.is_empty() || in_rounds.contains("rounds, because of the memory"), "{in_rounds}");
    }
}

#[test]
fn linked_groups_keep_one_document_of_each_chain() {
    let (folder, texts) = (directory(), generated_texts());
    let lines = documents(&texts).iter().map(|line| format!("{line}\n")).collect::<String>();
    fs::write(folder.path().join("a.jsonl"), lines).unwrap();
    let arguments = ["a.jsonl", "-o", "out", "--clusters", "linked", "--keep", "longest"];
    let arguments = [&arguments[..], &["--duplicates", "d.jsonl"]].concat();
    let output = dedupe(folder.path(), &arguments);
    assert!(String::from_utf8_lossy(&output.stderr).contains("warning: linked groups are chains"));
    let whole = json_lines(&folder.path().join("d.jsonl"));
    done(folder.path(), &[&arguments[..], &["--memory", "1500KiB", "--force"]].concat());
    assert_eq!(whole, json_lines(&folder.path().join("d.jsonl")));
    let near = Near::of("minhash-copies", &texts, weighted_k(), 0.0);
    let mut names: Vec<usize> = (0..texts.len()).collect();
    loop {
        let before = names.clone();
        for a in 0..texts.len() {
            for b in (0..texts.len()).filter(|b| *b != a && near.is_near(a, *b)) {
                let length = |number: usize| (std::cmp::Reverse(texts[number].chars().count()), number);
                let best = if length(names[a]) < length(names[b]) { names[a] } else { names[b] };
                (names[a], names[b]) = (best, best);
            }
        }
        if before == names {
            break;
        }
    }
    let found = json_lines(&folder.path().join("d.jsonl"));
    let expected: Vec<(String, String, u32)> = (0..texts.len())
        .filter(|number| names[*number] != *number)
        .map(|own| (format!("d{own}"), format!("d{}", names[own]), near.distance(own, names[own])))
        .collect();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let found = found.iter().map(|line| {
        (text(&line["id"]), text(&line["replaced_by"]["id"]), line["distance"].as_u64().unwrap() as u32)
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

pub const FERRY: &str = "The harbour ferry will run every twenty minutes during the summer festival, the \
                     city council said on Friday. Extra boats have been hired from a neighbouring town, and \
                     tickets bought in advance remain valid.";
const LIBRARY: &str = "The town library stays open until ten in the evening from next month, so that people \
                       who work can read and study there.";

pub fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

#[test]
fn the_output_keeps_format_fields_and_order() {
    let folder = directory();
    let root = folder.path().join("in");
    fs::create_dir_all(root.join("deep")).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(root.join(name), bytes).unwrap();
    let copy = FERRY.replace("Friday", "Monday");
    write("a.csv", format!("\u{feff}x,text,id\r\n1,\"{FERRY}\",a\r\n2,\"{copy}\",b\r\n 3 ,'z',c").as_bytes());
    write("b.tsv", format!("text\tid\n{LIBRARY}\tq\n{FERRY}\tr\n").as_bytes());
    write("c.txt", copy.as_bytes());
    let chinese = "另一个文本，市图书馆昨天宣布，从下个月开始延长周末的\
                   开放时间。";
    write("d.txt", chinese.as_bytes());
    let record = |kind: &str, url: &str, body: &str| {
        let head = format!("WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nX: y\r\n");
        format!("{head}Content-Length: {}\r\n\r\n{body}\r\n\r\n", body.len())
    };
    let page = |text: &str| format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>{text}</p>");
    let other = "A quite different page about the weather in the mountains, where snow fell again in June, \
                 and no train ran to the upper villages for two days.";
    let records = [
        record("warcinfo", "", "software: x"),
        record("response", "http://e.org/a", &page(FERRY)),
        record("response", "http://e.org/b", &page(other)),
        record("response", "http://e.org/c", "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\nx"),
        record("response", "http://e.org/d", &page(other)),
    ];
    write("deep/e.warc.gz", &records.iter().flat_map(|record| packed(record.as_bytes())).collect::<Vec<_>>());
    let line = |id: &str, text: &str| format!("{{ \"text\" : {text:?}, \"id\":{id}, \"more\": [1.0]}}\n");
    let lines =
        [line("1", FERRY), line("2", "Something else entirely, about a lamp and a chair."), "\n".into()];
    write("f.jsonl.zst", &zstd::encode_all(lines.concat().as_bytes(), 1).unwrap());
    write("notes.pdf", b"x");
    let output = dedupe(folder.path(), &["in", "-o", "out", "--duplicates", "d.jsonl", "--report", "r.html"]);
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && stderr.contains("1 file in the folders"), "{stderr}");
    let read = |name: &str| fs::read(folder.path().join("out/in").join(name)).unwrap();
    assert_eq!(read("a.csv"), format!("\u{feff}x,text,id\r\n1,\"{FERRY}\",a\r\n 3 ,'z',c\r\n").as_bytes());
    assert_eq!(read("b.tsv"), format!("text\tid\n{LIBRARY}\tq\n").as_bytes());
    assert!(!folder.path().join("out/in/c.txt").exists() && folder.path().join("out/in/d.txt").exists());
    let mut archive = String::new();
    MultiGzDecoder::new(&*read("deep/e.warc.gz")).read_to_string(&mut archive).unwrap();
    assert_eq!(archive, [0, 2, 3].map(|kept| &*records[kept]).concat());
    let packed = read("f.jsonl.zst");
    assert_eq!(zstd::decode_all(&*packed).unwrap(), lines[1].as_bytes());
    assert_eq!(packed[4] & 4, 4, "a frame without a checksum");
    for expected in ["12  read", "6  kept", "3  dropped, equal text", "3  dropped, near", "2 copied without"]
    {
        assert!(stdout.contains(expected), "{expected:?} in {stdout}");
    }
    let dropped = json_lines(&folder.path().join("d.jsonl"));
    assert_eq!(dropped[0]["replaced_by"], json!({"id": "a", "file": "in/a.csv", "line": 2}));
    assert_eq!(
        dropped.iter().map(|line| line["line"].as_u64().unwrap()).collect::<Vec<_>>(),
        [3, 3, 1, 2, 5, 1]
    );
    let report = fs::read_to_string(folder.path().join("r.html")).unwrap();
    assert!(report.contains("<svg") && report.ends_with("</html>\n") && !report.contains("src="), "{report}");
    assert!(!folder.path().join("out.partial").exists());
}

#[test]
fn documents_of_another_file_are_removed() {
    let folder = directory();
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    write("test.jsonl", format!("{}\n", json!({"id": "t", "text": FERRY})));
    let train =
        [json!({"id": "t", "text": FERRY.replace("Friday", "Monday")}), json!({"id": "u", "text": LIBRARY})];
    write("train.jsonl", format!("{}\n{}\n", train[0], train[1]));
    let common =
        ["train.jsonl", "-o", "out", "--force", "--duplicates", "d.jsonl", "--against", "test.jsonl"];
    for more in [&["--keep", "first"][..], &["--keep", "longest"], &["--clusters", "linked"]] {
        done(folder.path(), &[&common[..], more].concat());
        let kept = fs::read_to_string(folder.path().join("out/train.jsonl")).unwrap();
        assert_eq!(kept, format!("{}\n", train[1]));
        let dropped = json_lines(&folder.path().join("d.jsonl"));
        assert_eq!(dropped[0]["replaced_by"], json!({"id": "t", "file": "test.jsonl", "line": 1}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_a_collection_are_removed() {
    let folder = directory();
    let server = Server::start(&folder.path().join("data")).await;
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    write("stored.jsonl", format!("{}\n", json!({"id": "t", "text": FERRY})));
    let train = json!({"id": "u", "text": LIBRARY});
    write(
        "train.jsonl",
        format!("{}\n{train}\n", json!({"id": "t", "text": FERRY.replace("Friday", "Monday")})),
    );
    let url = format!("{}/collections/default", server.url);
    tokio::task::block_in_place(|| {
        let mut import = command(&["import", "--url", &server.url, "stored.jsonl"]);
        assert!(import.current_dir(folder.path()).status().unwrap().success());
        let own = ["train.jsonl", "-o", "out", "--duplicates", "d.jsonl", "--profile", "copies-64"];
        done(folder.path(), &[&own[..], &["--against", &url]].concat());
        let other = ["train.jsonl", "-o", "new", "--profile", "copies-128", "--against", &url];
        let refused = String::from_utf8(dedupe(folder.path(), &other).stderr).unwrap();
        assert!(refused.contains("has the profile copies-64@1, not copies-128@1"), "{refused}");
    });
    assert_eq!(fs::read_to_string(folder.path().join("out/train.jsonl")).unwrap(), format!("{train}\n"));
    let dropped = json_lines(&folder.path().join("d.jsonl"));
    // The first line of an export is its header.
    assert_eq!(dropped[0]["replaced_by"], json!({"id": "t", "file": url, "line": 2}));
    server.stop();
}

#[test]
fn hashes_made_earlier_are_compared() {
    let folder = directory();
    let lines = "{\"h\":\"00000000000000ff\"}\n{\"h\":\"00000000000000fe\"}\n{\"h\":\"ff000000000000ff\"}\n";
    fs::write(folder.path().join("a.jsonl"), lines).unwrap();
    let arguments = ["a.jsonl", "-o", "out", "--hash-field", "h", "--k", "1", "--profile", "copies-64"];
    assert!(done(folder.path(), &arguments).contains("2  kept"));
    fs::remove_dir_all(folder.path().join("out")).unwrap();
    fs::write(folder.path().join("a.jsonl"), "{\"h\":\"00ff\"}\n").unwrap();
    assert!(refused(folder.path(), &arguments).contains("a.jsonl:1: a hash has 16 hexadecimal digits"));
}
