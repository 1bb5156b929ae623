//! `dedupe --against` an index that was made earlier, against the same run with the files of the index; and
//! `index build`.

use std::fs;
use std::process::Output;

use rustix::process::Signal;
use serde_json::json;

use crate::dedupe::{FERRY, done, generated_texts, json_lines, refused};
use crate::dedupe_stops::{ended_with_names, many};
use crate::server::{command, directory};

fn index(folder: &std::path::Path, arguments: &[&str]) -> Output {
    command(&[&["index"], arguments].concat()).current_dir(folder).output().unwrap()
}

#[test]
fn an_index_drops_what_its_files_drop_and_names_what_matched() {
    let folder = directory();
    let texts = generated_texts();
    let lines = |part: &[String], name: &str| -> String {
        let id = |number: usize| format!("{name}{number}");
        part.iter()
            .enumerate()
            .map(|(at, text)| format!("{}\n", json!({"id": id(at), "text": text})))
            .collect()
    };
    fs::create_dir(folder.path().join("corpus")).unwrap();
    fs::write(folder.path().join("corpus/a.jsonl"), lines(&texts[..150], "a")).unwrap();
    fs::write(folder.path().join("corpus/b.jsonl"), lines(&texts[150..300], "b")).unwrap();
    fs::write(folder.path().join("new.jsonl"), lines(&texts[300..], "n")).unwrap();
    let built = index(folder.path(), &["build", "corpus", "-o", "idx"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let run = ["new.jsonl", "-o", "out", "--force", "--duplicates", "d.jsonl"];
    for more in [&[][..], &["--keep", "longest", "--memory", "3MiB"], &["--clusters", "linked"]] {
        done(folder.path(), &[&run[..], &["--against", "corpus", "--weights", "idx/weights"], more].concat());
        let expected = (
            json_lines(&folder.path().join("d.jsonl")),
            fs::read(folder.path().join("out/new.jsonl")).unwrap(),
        );
        let summary = done(folder.path(), &[&run[..], &["--against", "idx"], more].concat());
        assert!(summary.contains("weights of features: of idx/weights"), "{summary}");
        let found = (
            json_lines(&folder.path().join("d.jsonl")),
            fs::read(folder.path().join("out/new.jsonl")).unwrap(),
        );
        assert_eq!(found, expected);
        let of_corpus = |line: &serde_json::Value| {
            line["replaced_by"]["file"].as_str().unwrap().starts_with("corpus/b.jsonl")
        };
        assert!(found.0.iter().any(of_corpus), "{:?}", found.0.first());
    }
    let info = String::from_utf8(index(folder.path(), &["info", "idx"]).stdout).unwrap();
    assert!(info.contains("299  documents\n") && info.contains("2  files\n"), "{info}");
    assert!(info.contains("profile minhash-copies@"), "{info}");
}

/// The learning of weights reads a pipe, too.
#[test]
fn an_index_of_a_pipe_has_the_documents_of_the_file() {
    let folder = directory();
    let lines: String = generated_texts().iter().map(|text| format!("{}\n", json!({"text": text}))).collect();
    fs::write(folder.path().join("a.jsonl"), lines).unwrap();
    assert!(index(folder.path(), &["build", "a.jsonl", "-o", "idx"]).status.success());
    let mut piped = command(&["index", "build", "-", "-o", "piped"]);
    let input = fs::File::open(folder.path().join("a.jsonl")).unwrap();
    assert!(piped.current_dir(folder.path()).stdin(input).status().unwrap().success());
    for name in ["prints", "weights"] {
        let read = |index: &str| fs::read(folder.path().join(index).join(name)).unwrap();
        assert!(read("idx") == read("piped"), "{name}");
    }
}

#[test]
fn an_index_that_does_not_suit_or_is_damaged_is_refused() {
    let folder = directory();
    let copy = FERRY.replace("Friday", "Monday");
    fs::write(folder.path().join("a.jsonl"), format!("{}\n", json!({"text": FERRY}))).unwrap();
    fs::write(folder.path().join("n.jsonl"), format!("{}\n", json!({"text": copy}))).unwrap();
    assert!(index(folder.path(), &["build", "a.jsonl", "-o", "idx"]).status.success());
    let many = many(300);
    fs::write(folder.path().join("m.jsonl"), many).unwrap();
    let own = ["n.jsonl", "-o", "out", "--against", "idx"];
    let cases: [(&[&str], &str); 3] = [
        (&["--profile", "copies-64"], "has the profile minhash-copies@1, not copies-64@1; --profile sets it"),
        (&["--check", "0.4"], "the index idx has no sketches, which --check needs"),
        (
            &["m.jsonl", "--weights", "learned"],
            "the index idx has other weights of features (none) than this run (",
        ),
    ];
    for (more, expected) in cases {
        let stderr = refused(folder.path(), &[&own[..], more].concat());
        assert!(stderr.contains(expected), "{more:?}: {stderr}");
    }
    let output = index(folder.path(), &["build", "a.jsonl", "-o", "idx"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && stderr.contains("idx exists: name another folder"), "{stderr}");
    for name in ["prints", "names", "names-ends", "index.json"] {
        let path = folder.path().join("idx").join(name);
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[1] ^= 1;
        fs::write(&path, damaged).unwrap();
        let stderr = refused(folder.path(), &own);
        assert!(stderr.contains(&format!("idx: the index is damaged, {name}")), "{stderr}");
        fs::write(&path, whole).unwrap();
    }
    assert!(done(folder.path(), &own).contains("1  dropped, near"));
    fs::write(folder.path().join("bad.jsonl"), "{\"text\": 1}\n").unwrap();
    let output = index(folder.path(), &["build", "bad.jsonl", "-o", "new"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("bad.jsonl:1: the field \"text\" is not a string"), "{stderr}");
    assert!(!folder.path().join("new").exists());
}

#[test]
fn a_build_that_is_killed_goes_on() {
    let folder = directory();
    fs::write(folder.path().join("a.jsonl"), many(150_000)).unwrap();
    let arguments = ["index", "build", "a.jsonl", "-o", "idx"];
    let mut run = command(&arguments);
    let names = folder.path().join("idx.partial/names");
    ended_with_names(run.current_dir(folder.path()), &names, Signal::KILL);
    assert!(!folder.path().join("idx").exists());
    let output = index(folder.path(), &arguments[1..]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && stderr.contains("going on after"), "{stderr}");
    assert!(index(folder.path(), &["build", "a.jsonl", "-o", "whole"]).status.success());
    for name in ["prints", "names", "names-ends", "weights", "index.json"] {
        let read = |index: &str| fs::read(folder.path().join(index).join(name)).unwrap();
        assert!(read("idx") == read("whole"), "{name}");
    }
    assert!(!folder.path().join("idx.partial").exists());
}
