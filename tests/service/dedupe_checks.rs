//! `dedupe` before its work: all that is wrong is told at once, and a dry run says what a run needs.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::dedupe::{FERRY, dedupe, done, packed, refused};
use crate::dedupe_stops::many;
use crate::server::{command, directory};

#[test]
fn all_problems_are_told_before_the_work() {
    let folder = directory();
    let path = folder.path();
    let write = |name: &str, bytes: &[u8]| fs::write(path.join(name), bytes).unwrap();
    fs::create_dir(path.join("in")).unwrap();
    let body = |count: u64| many(count).replace("\"text\":", "\"body\":");
    write("in/a.jsonl", body(20_000).as_bytes());
    write("in/b.csv", b"id,body\n1,x\n");
    write("in/c.jsonl", many(1_000).as_bytes());
    write("in/d.jsonl.gz", b"not gzip at all");
    write("in/e.jsonl.gz", &packed(body(100).as_bytes()));
    write("in/f.parquet", b"no Parquet");
    write("in/g.json", b"[{\"text\": 7}]");
    write("in/h.jsonl.zst", &zstd::encode_all(body(100).as_bytes(), 1).unwrap());
    let mut builder = tar::Builder::new(Vec::new());
    for name in ["i.jsonl", "k.jsonl"] {
        let line = if name == "i.jsonl" { body(2) } else { many(2) };
        let mut header = tar::Header::new_gnu();
        header.set_size(line.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, line.as_bytes()).unwrap();
    }
    write("in/i.tar", &builder.into_inner().unwrap());
    write("against.jsonl", body(3).as_bytes());
    let arguments = ["in", "none.jsonl", "*.none", "-o", "in/out", "--duplicates", "d", "--report", "d"];
    let arguments = [&arguments[..], &["--against", "against.jsonl"]].concat();
    let expected = [
        "in/a.jsonl:1: there is no field \"text\"",
        "(100 of the first 100 records)",
        "in/b.csv: there is no column \"text\"; there are id, body",
        "in/d.jsonl.gz:1: not is not JSON",
        "in/e.jsonl.gz:1: there is no field \"text\"",
        "in/f.parquet:1: the file cannot be read",
        "in/g.json:1: the field \"text\" is not a string",
        "in/h.jsonl.zst:1: there is no field \"text\"",
        "in/i.tar/i.jsonl:1: there is no field \"text\"",
        "none.jsonl: No such file",
        "*.none matches no file",
        "against.jsonl:1: there is no field \"text\"",
        "contain each other",
        "--report and --duplicates name the same file",
    ];
    for more in [&[][..], &["--dry-run"], &["--keep", "longest"]] {
        let stderr = refused(path, &[&arguments[..], more].concat());
        for expected in expected {
            assert!(stderr.contains(expected), "{expected}: {stderr}");
        }
        assert!(stderr.contains("13 problems, and nothing was done"), "{stderr}");
        assert!(!path.join("in/out.partial").exists());
    }
    // With the right field the rest is in order.
    let stderr = refused(path, &["in/a.jsonl", "in/e.jsonl.gz", "-o", "out", "--text-field", "content"]);
    assert!(stderr.contains("2 problems") && stderr.contains("; there are "), "{stderr}");
    done(path, &["in/e.jsonl.gz", "-o", "out", "--text-field", "body"]);
}

#[test]
fn records_that_are_left_out_are_only_told() {
    let folder = directory();
    let path = folder.path();
    fs::write(path.join("a.jsonl"), many(3).replace("\"text\":", "\"body\":")).unwrap();
    fs::write(path.join("b.jsonl"), "7\n".to_owned() + &many(3)).unwrap();
    let stderr = refused(path, &["a.jsonl", "b.jsonl", "-o", "out"]);
    assert!(stderr.contains("b.jsonl:1: not a JSON object") && stderr.contains("(1 of the first 4 records)"));
    let output = dedupe(path, &["a.jsonl", "b.jsonl", "-o", "out", "--skip-invalid"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("warning: none of the first 3 records can be read: a.jsonl:1: there is no field")
    );
    assert!(!stderr.contains("can be read: b.jsonl"), "{stderr}");
}

#[test]
fn names_in_archives_are_made_relative_and_one_place_has_one_file() {
    let folder = directory();
    let path = folder.path();
    let archive = |name: &str| {
        let line = format!("{}\n", json!({"text": FERRY}));
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(line.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, line.as_bytes()).unwrap();
        builder.into_inner().unwrap()
    };
    for name in ["/srv/a.jsonl", "x/../../srv/a.jsonl"] {
        fs::write(path.join("a.tar"), archive(name)).unwrap();
        for keep in ["first", "longest"] {
            done(path, &["a.tar", "-o", "out", "--force", "--keep", keep]);
            let bytes = fs::read(path.join("out/a.tar")).unwrap();
            let mut archive = tar::Archive::new(&*bytes);
            let entries = archive.entries().unwrap().map(Result::unwrap);
            let names: Vec<_> = entries.map(|entry| entry.path().unwrap().into_owned()).collect();
            assert_eq!(names, [Path::new("srv/a.jsonl")]);
        }
    }
    // A file and a folder cannot have one place.
    fs::create_dir_all(path.join("y/a")).unwrap();
    fs::create_dir_all(path.join("x")).unwrap();
    fs::write(path.join("x/a"), many(2)).unwrap();
    fs::write(path.join("y/a/b.jsonl"), many(2)).unwrap();
    fs::remove_dir_all(path.join("out")).unwrap();
    let stderr = refused(path, &["x/a", "y/a", "-o", "out"]);
    assert!(stderr.contains("x/a and y/a/b.jsonl would both be written to a"), "{stderr}");
}

#[test]
fn a_disk_that_is_too_small_is_told_before_the_work() {
    let folder = directory();
    let path = folder.path();
    // A file with a hole is larger than any disk here, and its size is what the output needs.
    let mut file = File::create(path.join("a.jsonl")).unwrap();
    file.write_all(many(2_000).as_bytes()).unwrap();
    file.set_len(1 << 43).unwrap();
    let stderr = refused(path, &["a.jsonl", "-o", "out"]);
    assert!(stderr.contains("of output") && stderr.contains("MiB are free"), "{stderr}");
    assert!(!path.join("out.partial").exists());
}

/// The number before a label in the output of a dry run.
fn number(estimate: &str, label: &str) -> f64 {
    let line = estimate.lines().find(|line| line.contains(label)).expect(estimate);
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Texts of very different lengths, the longest last, with hashes.
fn sorted(count: u64, first: u64) -> String {
    let line = |number: u64| {
        let mut random = fastrand::Rng::with_seed(number + first);
        let hash = format!("{:016x}", random.u64(..));
        let text: String = (0..60 + number * 2_400 / count).map(|_| random.lowercase()).collect();
        format!("{}\n", json!({"hash": hash, "id": format!("document-{}", number + first), "text": text}))
    };
    (0..count).map(line).collect()
}

#[test]
fn a_dry_run_is_within_five_percent() {
    let folder = directory();
    let path = folder.path();
    fs::create_dir(path.join("small")).unwrap();
    for number in 0..300 {
        fs::write(path.join(format!("small/{number}.jsonl")), sorted(20, 100_000 + 50 * number)).unwrap();
    }
    fs::write(path.join("sorted.jsonl"), sorted(6_000, 0)).unwrap();
    fs::write(path.join("packed.jsonl.gz"), {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(sorted(5_000, 10_000).as_bytes()).unwrap();
        packed.finish().unwrap()
    })
    .unwrap();
    let frame = |part: u64| zstd::encode_all(sorted(500, 20_000 + 500 * part).as_bytes(), 1).unwrap();
    fs::write(path.join("frames.jsonl.zst"), (0..10).flat_map(frame).collect::<Vec<u8>>()).unwrap();
    let lines = sorted(4_000, 30_000);
    fs::write(path.join("array.json"), format!("[{}]", lines.trim_end().replace('\n', ",\n"))).unwrap();
    let record = |(number, line): (usize, &str)| {
        let head = "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://e.org/";
        format!("{head}{number}\r\nContent-Length: {}\r\n\r\n{line}\r\n\r\n", line.len())
    };
    fs::write(path.join("a.wet"), sorted(300, 40_000).lines().enumerate().map(record).collect::<String>())
        .unwrap();
    let inputs: [(&str, f64); 6] = [
        ("small", 6_000.0),
        ("sorted.jsonl", 6_000.0),
        ("packed.jsonl.gz", 5_000.0),
        ("frames.jsonl.zst", 5_000.0),
        ("array.json", 4_000.0),
        ("a.wet", 300.0),
    ];
    for (input, documents) in inputs {
        // Texts are compared in archives only, where they are few: the test is about bytes.
        let hashes = ["--profile", "copies-64", "--hash-field", "hash"];
        for keep in ["first", "central"] {
            let arguments = match input {
                "a.wet" => vec![input, "-o", "out"],
                _ => [&[input, "-o", "out", "--keep", keep][..], &hashes].concat(),
            };
            let estimate = done(path, &[&arguments[..], &["--dry-run"]].concat());
            assert!((number(&estimate, "documents") - documents).abs() < 1.0, "{input}: {estimate}");
            assert!(!path.join("out.partial").exists());
            // What is on the disk at most while the command runs.
            let mut run = command(&[&["dedupe"], &arguments[..]].concat());
            let mut child = run.current_dir(path).stdout(std::process::Stdio::null()).spawn().unwrap();
            let mut most = 0;
            while child.try_wait().unwrap().is_none() {
                most = most.max(size(&path.join("out.partial")));
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(child.wait().unwrap().success());
            let output = size(&path.join("out")) as f64 / f64::from(1 << 20);
            let found = number(&estimate, "MiB of output");
            assert!((found / output - 1.0).abs() < 0.05, "{input}: {output} MiB: {estimate}");
            // The names are held back until they are a megabyte.
            let most = most as f64 / f64::from(1 << 20);
            let found = number(&estimate, "MiB of disk");
            assert!(found > most * 0.95 && found < most * 1.05 + 1.2, "{input}: {most} MiB: {estimate}");
            fs::remove_dir_all(path.join("out")).unwrap();
        }
    }
}

/// The bytes in a folder, if it is there.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => size(&entry.path()),
        about => about.map_or(0, |about| about.len()),
    };
    entries.flatten().map(of).sum()
}
