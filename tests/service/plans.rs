//! `plans`: every plan over the hashes of a file, its figures, and the errors of the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use lookalike::plans::random_hashes;
use serde_json::Value;

use crate::server::{Server, command, directory};

fn plans(folder: &Path, arguments: &[&str]) -> Output {
    command(&[&["plans"], arguments].concat()).current_dir(folder).output().unwrap()
}

/// Runs a command that must succeed, and returns its standard output.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = plans(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The lines of `--json` by the names of their plans.
fn by_plan(folder: &Path, arguments: &[&str]) -> BTreeMap<String, Value> {
    let out = done(folder, &[arguments, &["--json"]].concat());
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (line["plan"].as_str().unwrap().to_owned(), line)).collect()
}

fn number(lines: &BTreeMap<String, Value>, plan: &str, field: &str) -> f64 {
    lines[plan][field].as_f64().unwrap_or_else(|| panic!("{plan} has no {field}: {}", lines[plan]))
}

fn digits(hashes: &[u64]) -> String {
    hashes.iter().fold(String::new(), |mut lines, hash| {
        writeln!(lines, "{hash:016x}").unwrap();
        lines
    })
}

#[test]
fn every_plan_is_run_or_says_what_it_would_take() {
    let folder = directory();
    let hashes: Vec<u64> = random_hashes(20_000);
    // Every hash twice: duplicates are compared once.
    fs::write(folder.path().join("hashes"), digits(&hashes).repeat(2)).unwrap();
    let lines = by_plan(folder.path(), &["--hashes", "hashes", "--k", "3", "--memory", "64MiB"]);
    let names = [
        "ball",
        "ball-bloom",
        "blocks",
        "index",
        "index-scan",
        "one-bit",
        "scan",
        "tables-1",
        "tables-2",
        "tables-3",
        "tables-twice",
        "variants-1",
        "variants-2",
        "variants-3",
    ];
    assert!(lines.keys().eq(names), "{:?}", lines.keys());
    for (plan, line) in &lines {
        assert_eq!((&line["hashes"], &line["k"]), (&20_000.into(), &3.into()), "{line}");
        let is_run = !["variants-2", "variants-3"].contains(&plan.as_str());
        assert_eq!(line.get("not_run").is_none(), is_run, "{line}");
        if is_run {
            assert_eq!(line["found"], lines["scan"]["found"], "{line}");
            assert!(line["lookup_nanoseconds"].as_f64().unwrap() > 0.0, "{line}");
        }
    }
    // 2,081 variants of 20,000 hashes are 41,620,000 entries of 8 bytes in 2^25 buckets of 4.
    let reason = lines["variants-2"]["not_run"].as_str().unwrap();
    assert_eq!(reason, "it takes 446 MiB, and 64 MiB are allowed");
    assert!(number(&lines, "scan", "found") >= 1.0, "every query is near a stored hash");
    for (plan, probes) in [
        ("blocks", 4.0),
        ("tables-1", 4.0),
        ("tables-2", 10.0),
        ("tables-twice", 16.0),
        ("tables-3", 20.0),
        ("ball", 43_745.0),
        ("ball-bloom", 43_745.0),
        ("variants-1", 2_081.0),
    ] {
        assert_eq!(lines[plan]["probes"], probes, "{plan}");
    }
    // Both read the hashes that agree in a block of 16 bits.
    assert_eq!(lines["blocks"]["candidates"], lines["tables-1"]["candidates"]);
    assert_eq!(lines["scan"]["candidates"], 20_000.0);
    assert!(number(&lines, "one-bit", "candidates") > 200_000.0, "half of 32 lists of 10,000");
    for (plan, bytes) in [("scan", 8.0), ("tables-1", 32.0), ("tables-3", 160.0)] {
        assert_eq!(lines[plan]["bytes_per_hash"], bytes, "{plan}");
    }
    // These plans do hundreds of times the work of the index.
    assert!(number(&lines, "one-bit", "to_index") > 10.0 && number(&lines, "ball", "to_index") > 10.0);
}

#[test]
fn the_table_says_what_was_measured() {
    let folder = directory();
    let out = done(folder.path(), &["--random", "3000", "--k", "5", "--memory", "1MiB"]);
    let (about, table) = out.split_once("\n\n").unwrap();
    assert!(about.starts_with("3000 hashes of 64 bits, 3000 of them distinct; k = 5."), "{about}");
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
    assert!(rows.iter().all(|row| row.len() == 11), "{table}");
    let row =
        |plan: &str| rows.iter().find(|row| row[0] == plan).unwrap_or_else(|| panic!("{plan}: {table}"));
    assert_eq!(row("tables-2")[1], "21 sorted tables: 7 blocks, 2 exact");
    assert_eq!(row("tables-2")[2], "Manku et al. 2007, 3.1");
    assert_eq!((row("tables-2")[9], row("tables-2")[10]), ("168.0", ""));
    assert_eq!(row("ball")[10], "a lookup probes 8303633 values, and the limit is 1000000");
    assert_eq!(row("tables-3")[10], "it takes 2 MiB, and 1 MiB are allowed");
    // The lines have the same width, so that the table can be read as it is.
    let width = |line: &str| line.chars().count();
    assert!(table.lines().all(|line| width(line) == width(table.lines().next().unwrap())), "{table}");
}

#[test]
fn files_may_be_compressed_json_and_standard_input() {
    let folder = directory();
    let at = |name: &str| folder.path().join(name);
    let hashes: Vec<u128> = random_hashes(500);
    let object = |hash: &u128| format!("{{\"id\": \"a\", \"hash\": \"{hash:032x}\"}}\n\n");
    let objects: String = hashes.iter().map(object).collect();
    let mut packed = GzEncoder::new(File::create(at("a.jsonl.gz")).unwrap(), Compression::fast());
    packed.write_all(objects.as_bytes()).unwrap();
    packed.finish().unwrap();
    let queries: String =
        hashes[..7].iter().map(|hash| format!("0x{:032X}  a text.txt\r\n", hash ^ 5)).collect();
    fs::write(at("q.zst"), zstd::encode_all(queries.as_bytes(), 1).unwrap()).unwrap();
    let from_files = by_plan(folder.path(), &["--hashes", "a.jsonl.gz", "--queries", "q.zst", "--k", "2"]);
    let line = &from_files["tables-1"];
    assert_eq!(
        (&line["bits"], &line["checked_queries"], &line["found"]),
        (&128.into(), &7.into(), &1.0.into())
    );
    let mut child = command(&["plans", "--hashes", "-", "--queries", "q.zst", "--k", "1", "--json"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(objects.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let first: Value =
        serde_json::from_slice(output.stdout.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    // Two bits differ, which is more than k.
    assert_eq!((&first["hashes"], &first["found"]), (&500.into(), &0.0.into()));
}

#[tokio::test]
async fn an_exported_collection_can_be_measured() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let hashes: Vec<u64> = random_hashes(50);
    let documents: String = (0..).zip(&hashes).fold(String::new(), |mut lines, (number, hash): (u32, _)| {
        writeln!(lines, "{{\"id\":\"d{number}\",\"hash\":\"{hash:016x}\"}}").unwrap();
        lines
    });
    fs::write(data.path().join("in.jsonl"), documents).unwrap();
    let run = |arguments: Vec<String>, folder: std::path::PathBuf| {
        tokio::task::spawn_blocking(move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let output = command(&arguments).current_dir(folder).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        })
    };
    let url = server.url.clone();
    for arguments in [["import", "in.jsonl", "--url", &url], ["export", "--output=out.jsonl", "--url", &url]]
    {
        run(arguments.map(str::to_owned).to_vec(), data.path().to_owned()).await.unwrap();
    }
    let arguments = ["plans", "--hashes", "out.jsonl", "--k", "0", "--json"].map(str::to_owned).to_vec();
    let out = String::from_utf8(run(arguments, data.path().to_owned()).await.unwrap()).unwrap();
    for line in out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert_eq!((&line["hashes"], &line["found"]), (&50.into(), &1.0.into()), "{line}");
    }
}

#[test]
fn errors_name_the_line_and_the_reason() {
    let folder = directory();
    let (narrow, wide) = ("0000000000000001\n", "00000000000000000000000000000001\n");
    for (name, content) in [
        ("good", narrow.to_owned()),
        ("wide", wide.to_owned()),
        ("short", format!("{narrow}\nabc\n")),
        ("mixed", format!("{narrow}{wide}")),
        ("object", format!("{narrow}{{\"id\": 1}}\n")),
        ("empty", "\n \n".to_owned()),
    ] {
        fs::write(folder.path().join(name), content).unwrap();
    }
    fs::write(folder.path().join("bytes"), b"\xff\n").unwrap();
    let cases: [(&[&str], &str, i32); 12] = [
        (&["--hashes", "short"], "short: line 3: a hash has 16 hexadecimal digits", 1),
        (&["--hashes", "mixed"], "mixed: line 2: the hash has 128 bits, and those before it have 64", 1),
        (&["--hashes", "object"], "object: line 2: missing field `hash`", 1),
        (&["--hashes", "bytes"], "bytes: line 1: it is not UTF-8", 1),
        (&["--hashes", "empty"], "empty: there are no hashes in it", 1),
        (&["--hashes", "none"], "none: No such file", 1),
        (&["--hashes", "good", "--queries", "wide"], "wide: the stored hashes have 64 bits", 1),
        (&["--hashes", "-", "--queries", "-"], "standard input can be read only once", 1),
        (&["--hashes", "good", "--k", "32"], "0..=31", 2),
        (&["--hashes", "good", "--memory", "much"], "a number with KiB, MiB or GiB", 2),
        (&["--hashes", "good", "--random", "5"], "cannot be used with", 2),
        (&[], "--hashes <FILE>", 2),
    ];
    for (arguments, expected, code) in cases {
        let output = plans(folder.path(), arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected) && output.stdout.is_empty(), "{arguments:?}: {stderr}");
    }
}
