//! `dedupe --spans`: against a program that knows all windows, in every format, and interrupted.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use lookalike_files::{Format, columnar, parquet};
use lookalike_text::located;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::dedupe::{done, json_lines, packed, refused};
use crate::server::{command, directory};

/// The options of runs in which only equal signatures are near, so that most documents are kept.
const APART: [&str; 6] = ["--threshold", "1", "--max-loss", "1", "--weights", "none"];

/// Some words of a passage in one of several languages.
fn words(random: &mut fastrand::Rng, count: usize) -> String {
    let language = random.u32(..5);
    let word = |at: u32| match language {
        0 => format!("Word{at}, "),
        1 | 2 => char::from_u32(0x4e00 + at).unwrap().to_string(),
        3 => format!("сло\u{301}во{at}\n"),
        _ => char::from_u32(0xe01 + at % 40).unwrap().to_string(),
    };
    (0..count).map(|_| word(random.u32(..4_000))).collect()
}

/// Texts of random words with planted passages, some of which are longer than others.
fn texts(count: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(68);
    let passages: Vec<String> = (0..20).map(|at| words(&mut random, 15 + 5 * at)).collect();
    let text = |_| {
        let mut text = String::new();
        for _ in 0..random.usize(..6) {
            let own = random.usize(..40);
            text += &words(&mut random, own);
            if random.bool() {
                text += random.choice(&passages).unwrap();
            }
        }
        if random.u32(..20) == 0 { random.choice(&passages).unwrap().clone() } else { text + "\"。" }
    };
    (0..count).map(text).collect()
}

/// The texts that stay, from a set with every window.
fn naive(texts: &[String], length: usize, is_masked: bool) -> Vec<String> {
    let mut seen: HashSet<Vec<u64>> = HashSet::new();
    let mut made = Vec::new();
    for text in texts {
        let tokens = located(text);
        let digests: Vec<u64> = tokens.iter().map(|token| token.digest).collect();
        let mut is_cut = vec![false; tokens.len()];
        for (at, window) in digests.windows(length).enumerate() {
            if !seen.insert(window.to_vec()) {
                is_cut[at..at + length].fill(true);
            }
        }
        if !is_masked && is_cut.contains(&true) && !is_cut.contains(&false) {
            made.push(String::new());
            continue;
        }
        let (mut own, mut at) = (String::new(), 0);
        for token in 0..tokens.len() {
            let (from, to) = (tokens[token].from as usize, tokens[token].to as usize);
            own += if token > 0 && is_cut[token - 1] && !is_masked { "" } else { &text[at..from] };
            if !is_cut[token] {
                own += &text[from..to];
            } else if is_masked && (token == 0 || !is_cut[token - 1]) {
                own += "[...]";
            }
            at = to;
            if is_masked && is_cut[token] && is_cut.get(token + 1) == Some(&true) {
                at = tokens[token + 1].from as usize;
            }
        }
        let is_last_cut = is_cut.last() == Some(&true);
        own += if is_last_cut && !is_masked { "" } else { &text[at..] };
        made.push(own);
    }
    made
}

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

fn line(number: usize, text: &str) -> String {
    format!("{{ \"id\":\"d{number}\",\"text\": {} ,\"n\":1e2}}", json!(text))
}

/// The texts that a run keeps, by the numbers in their ids.
fn kept(folder: &Path, texts: &[String], more: &[&str]) -> Vec<(usize, String)> {
    done(folder, &[&["a.jsonl.gz", "-o", "plain", "--force"], &APART[..], more].concat());
    let ids = unpacked(&folder.join("plain/a.jsonl.gz"));
    let number = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["id"].as_str().unwrap()[1..].parse::<usize>().unwrap()
    };
    ids.lines().map(number).map(|number| (number, texts[number].clone())).collect()
}

#[test]
fn what_is_left_is_that_of_all_windows_for_any_memory_and_threads() {
    let folder = directory();
    let texts = texts(600);
    let lines: String = (0..).zip(&texts).map(|(number, text)| line(number, text) + "\r\n").collect();
    fs::write(folder.path().join("a.jsonl.gz"), packed(lines.as_bytes())).unwrap();
    for (keep, length, what) in [("first", 50, "remove"), ("longest", 20, "mask"), ("first", 21, "remove")] {
        let kept = kept(folder.path(), &texts, &["--keep", keep]);
        assert!(kept.len() > 400);
        let texts: Vec<String> = kept.iter().map(|(_, text)| text.clone()).collect();
        let naive = naive(&texts, length, what == "mask");
        let changed = naive.iter().zip(&texts).filter(|(a, b)| a != b).count();
        assert!(changed > 100, "{changed}");
        let expected: String =
            kept.iter().zip(&naive).map(|((number, _), text)| line(*number, text) + "\r\n").collect();
        for (memory, threads) in [("3MiB", "1"), ("1GiB", "3")] {
            let length = length.to_string();
            let own = ["a.jsonl.gz", "-o", "out", "--force", "--spans", what, "--span-tokens", &length];
            let own = [&own[..], &["--spans-file", "s.jsonl", "--keep", keep, "--memory", memory]].concat();
            let summary = done(folder.path(), &[&own[..], &["--threads", threads], &APART].concat());
            assert!(unpacked(&folder.path().join("out/a.jsonl.gz")) == expected, "{keep} {length} {memory}");
            // The file says the same.
            let lines = json_lines(&folder.path().join("s.jsonl"));
            assert_eq!(lines.len(), changed);
            let spans: usize = lines.iter().map(|line| line["spans"].as_array().unwrap().len()).sum();
            let done = if what == "remove" { "removed" } else { "masked" };
            assert!(summary.contains(&format!("spans: {spans} passages {done} (")), "{summary}");
            let empty = naive.iter().filter(|text| located(text).is_empty()).count()
                - texts.iter().filter(|text| located(text).is_empty()).count();
            assert_eq!(lines.iter().filter(|line| line["tokens_left"] == 0).count(), empty);
            for line in lines {
                let number: usize = line["id"].as_str().unwrap()[1..].parse().unwrap();
                let own: &Vec<Value> = line["spans"].as_array().unwrap();
                let text = &kept.iter().find(|(at, _)| *at == number).unwrap().1;
                let first: usize = own[0]["first"]["id"].as_str().unwrap()[1..].parse().unwrap();
                assert!(first <= number);
                let (from, to) = (own[0]["from"].as_u64().unwrap(), own[0]["to"].as_u64().unwrap());
                let part: String = text.chars().skip(from as usize).take((to - from) as usize).collect();
                let digests = |text: &str| located(text).iter().map(|t| t.digest).collect::<Vec<u64>>();
                let (part, whole) =
                    (digests(&part), digests(&kept.iter().find(|(at, _)| *at == first).unwrap().1));
                assert_eq!(part.len() as u64, own[0]["tokens"].as_u64().unwrap());
                let length: usize = length.parse().unwrap();
                assert!(whole.windows(length).any(|window| window == &part[..length]));
            }
        }
    }
}

#[test]
fn every_format_loses_the_same_passages() {
    let folder = directory();
    let texts: Vec<String> = texts(120).into_iter().filter(|text| !located(text).is_empty()).collect();
    let path = |name: &str| folder.path().join(name);
    let lines: Vec<String> = (0..).zip(&texts).map(|(number, text)| line(number, text)).collect();
    fs::write(path("a.jsonl.gz"), packed((lines.join("\n") + "\n").as_bytes())).unwrap();
    fs::write(path("b.json"), format!("[{}\n]\n", lines.join(" ,\n "))).unwrap();
    let wide = (lines.join("\n") + "\n").encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    fs::write(path("w.jsonl"), [&b"\xff\xfe"[..], &wide].concat()).unwrap();
    let row = |number: usize, text: &str| format!("d{number};\"{}\";\"x\"\n", text.replace('"', "\"\""));
    let rows =
        |texts: &[String]| -> String { (0..).zip(texts).map(|(number, text)| row(number, text)).collect() };
    fs::write(path("c.csv"), format!("id;text;\"n\"\n{}", rows(&texts))).unwrap();
    fs::create_dir(path("t")).unwrap();
    let name = |number: usize| format!("t/{number:04}.txt");
    (0..).zip(&texts).for_each(|(number, text)| fs::write(path(&name(number)), text).unwrap());
    let schema = "message m { required binary id (UTF8); optional binary text (UTF8); required int64 n; }";
    let mut table = parquet::Table::create(File::create(path("p.parquet")).unwrap(), schema).unwrap();
    for (number, text) in (0..).zip(&texts) {
        let id = parquet::Cell::Text(format!("d{number}"));
        table.push(vec![id, parquet::Cell::Text(text.clone()), parquet::Cell::Whole(number)]).unwrap();
    }
    table.finish().unwrap();
    let run = |input: &str| {
        let _ = fs::remove_dir_all(path("out"));
        done(folder.path(), &[&[input, "-o", "out", "--force", "--spans", "remove"], &APART[..]].concat())
    };
    let kept = kept(folder.path(), &texts, &[]);
    let of_kept: Vec<String> = kept.iter().map(|(_, text)| text.clone()).collect();
    let left = naive(&of_kept, 50, false);
    assert!(left.iter().zip(&of_kept).filter(|(a, b)| a != b).count() > 20);
    let left: Vec<(usize, String)> =
        kept.iter().zip(left).map(|((number, _), text)| (*number, text)).collect();
    let lines: Vec<String> = left.iter().map(|(number, text)| line(*number, text)).collect();
    run("a.jsonl.gz");
    assert!(unpacked(&path("out/a.jsonl.gz")) == lines.join("\n") + "\n");
    run("b.json");
    let array: Vec<Value> = serde_json::from_slice(&fs::read(path("out/b.json")).unwrap()).unwrap();
    let expected: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(array == expected);
    run("w.jsonl");
    let wide = (lines.join("\n") + "\n").encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    assert!(fs::read(path("out/w.jsonl")).unwrap() == [&b"\xff\xfe"[..], &wide].concat());
    run("c.csv");
    let rows: String = left.iter().map(|(number, text)| row(*number, text)).collect();
    assert!(fs::read_to_string(path("out/c.csv")).unwrap() == format!("id;text;\"n\"\n{rows}"));
    run("t");
    for (number, text) in &left {
        assert_eq!(fs::read_to_string(path("out").join(name(*number))).unwrap(), *text);
    }
    run("p.parquet");
    let rows = columnar::rows(&*path("out/p.parquet"), Format::Parquet, &["id", "text", "n"], None).unwrap();
    let rows: Vec<Vec<Option<String>>> = rows.map(Result::unwrap).collect();
    let expected: Vec<Vec<Option<String>>> = left
        .iter()
        .map(|(number, text)| vec![Some(format!("d{number}")), Some(text.clone()), Some(number.to_string())])
        .collect();
    assert!(rows == expected);
}

#[test]
fn an_interrupted_run_ends_with_the_same_texts() {
    let folder = directory();
    let texts = texts(4_000);
    let lines: String = (0..).zip(&texts).map(|(number, text)| line(number, text) + "\n").collect();
    fs::write(folder.path().join("a.jsonl"), lines).unwrap();
    let own = ["dedupe", "a.jsonl", "-o", "out", "--spans", "mask", "--spans-file", "s.jsonl"];
    let own = [&own[..], &APART, &["--memory", "3MiB"]].concat();
    for attempt in 1..30 {
        let mut child = command(&own).current_dir(folder.path()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(60 * attempt));
        let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        child.wait().unwrap();
        if folder.path().join("out").exists() {
            break;
        }
    }
    let read = || ["out/a.jsonl", "s.jsonl"].map(|name| fs::read(folder.path().join(name)).unwrap());
    if !folder.path().join("out").exists() {
        done(folder.path(), &own[1..]);
    }
    let resumed = read();
    done(folder.path(), &[&own[1..], &["--force"]].concat());
    assert!(resumed == read());
    assert!(!folder.path().join("out.partial").exists());
}

#[test]
fn what_cannot_be_cut_is_refused_before_the_work() {
    let folder = directory();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("a.jsonl", "{\"text\": \"one\", \"turns\": [{\"say\": \"two\"}]}\n");
    write("a.wet", "WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 1\r\n\r\nx\r\n\r\n");
    let cases: [(&[&str], &str); 7] = [
        (&["a.wet", "--spans", "remove"], "a.wet: --spans changes no web archives: extract their texts"),
        (&["a.jsonl", "--spans", "mask", "--html"], "--spans changes no pages: extract their texts first"),
        (&["a.jsonl", "--spans", "mask", "--annotate"], "--annotate changes none: name one of them"),
        (
            &["a.jsonl", "--spans", "mask", "--text-field", "turns[].say"],
            "--text-field turns[].say has several: write a record for each",
        ),
        (&["a.jsonl", "--spans", "mask", "--span-tokens", "19"], "19 is not in 20..=1000"),
        (&["a.jsonl", "--span-tokens", "30"], "--spans <WHAT>"),
        (&["a.jsonl", "--spans-file", "s.jsonl"], "--spans <WHAT>"),
    ];
    for (arguments, expected) in cases {
        let stderr = refused(folder.path(), &[arguments, &["-o", "out"]].concat());
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}
