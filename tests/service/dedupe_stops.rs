//! `dedupe` on invalid input, on a full disk, and interrupted: no output that looks complete, and the same
//! command goes on.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::dedupe::{FERRY, dedupe, done, generated_texts, packed, refused};
use crate::server::{BINARY, command, directory};

#[test]
fn invalid_input_gives_an_error_and_no_output() {
    let folder = directory();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let good = format!("{}\n", json!({"id": "a", "text": FERRY}));
    write("good.jsonl", good.as_bytes());
    let long: String = (0..2_000)
        .map(|n| format!("{}\n", json!({"id": n, "text": format!("{n} {FERRY} {}", n * n)})))
        .collect();
    let whole = packed(long.as_bytes());
    write("cut.jsonl.gz", &whole[..whole.len() / 2]);
    let whole = zstd::encode_all(long.as_bytes(), 1).unwrap();
    write("cut.jsonl.zst", &whole[..whole.len() / 2]);
    write("wide.jsonl", &good.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
    write("latin.jsonl", [good.as_bytes(), b"{\"id\":1,\"text\":\"caf\xe9\"}\n"].concat().as_slice());
    write("missing.jsonl", b"{\"id\":7}\n");
    write("number.jsonl", b"{\"text\":7}\n");
    write("broken.jsonl", b"{\"text\":\"ends he");
    write("twice.jsonl", [good.clone(), good.replace("ferry", "boat")].concat().as_bytes());
    write("array.jsonl", format!("[{}", good.trim_end()).as_bytes());
    write("columns.csv", b"a,b\n1,2\n");
    write("cells.csv", b"id,text\n1\n");
    write("quote.csv", b"id,text\n1,\"a text that ends he");
    write("bytes.txt", b"ab\xff");
    write("cut.warc", b"WARC/1.0\r\nContent-Length: 99\r\n\r\nx");
    std::os::unix::fs::symlink("loop.jsonl", folder.path().join("loop.jsonl")).unwrap();
    fs::create_dir_all(folder.path().join("around/inner")).unwrap();
    std::os::unix::fs::symlink("..", folder.path().join("around/inner/up")).unwrap();
    let cases: [(&[&str], &str); 21] = [
        (&["cut.jsonl.gz"], "cannot be read further"),
        (&["cut.jsonl.zst"], "cannot be read further"),
        (&["wide.jsonl"], "wide.jsonl:1: the file cannot be read: it is UTF-16 without"),
        (&["latin.jsonl"], "latin.jsonl:2: not UTF-8: byte "),
        (&["missing.jsonl"], "missing.jsonl:1: there is no field \"text\""),
        (&["number.jsonl"], "number.jsonl:1: the field \"text\" is not a string"),
        (&["broken.jsonl"], "broken.jsonl:1: not a JSON object"),
        (&["array.jsonl"], "array.jsonl:1: the file cannot be read: the array has no end"),
        (&["twice.jsonl"], "the id \"a\" is repeated, at twice.jsonl:1 and twice.jsonl:2"),
        (&["good.jsonl", "--id-field", "key"], "there is no field \"key\""),
        (&["good.jsonl", "--keep", "max:n"], "there is no field \"n\""),
        (&["good.jsonl", "--keep", "max:text"], "is not a number"),
        (&["columns.csv"], "there is no column \"text\"; there are a, b"),
        (&["columns.csv", "--skip-invalid"], "there is no column \"text\"; there are a, b"),
        (&["cells.csv"], "cells.csv:2: 1 cell instead of 2"),
        (&["quote.csv"], "quote.csv:2: the quote that opens in line 2 is not closed"),
        (&["bytes.txt"], "bytes.txt:1: not UTF-8: byte 2"),
        (&["cut.warc"], "it is truncated"),
        (&["loop.jsonl"], "loop.jsonl: "),
        (&["around"], "is a link to a folder above it"),
        (&["good.jsonl", "./good.jsonl"], "would both be written to good.jsonl"),
    ];
    for (arguments, expected) in cases {
        let stderr = refused(folder.path(), &[arguments, &["-o", "out", "--duplicates", "d.jsonl"]].concat());
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert!(!folder.path().join("d.jsonl").exists(), "{arguments:?}");
    }
    assert!(done(folder.path(), &["latin.jsonl", "-o", "out", "--skip-invalid"]).contains("1  invalid"));
    assert_eq!(fs::read_to_string(folder.path().join("out/latin.jsonl")).unwrap(), good);
}

#[test]
fn existing_output_is_replaced_only_if_forced() {
    let folder = directory();
    fs::write(folder.path().join("a.jsonl"), format!("{}\n", json!({"text": FERRY}))).unwrap();
    let run = |more: &[&str]| dedupe(folder.path(), &[&["a.jsonl", "-o", "out"], more].concat());
    assert!(run(&[]).status.success());
    let again = run(&[]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("out exists; --force replaces it"));
    assert!(run(&["--force"]).status.success());
    fs::write(folder.path().join("out/precious"), "x").unwrap();
    let kept = run(&["--force"]);
    assert!(String::from_utf8_lossy(&kept.stderr).contains("has a file that this command does not write"));
    assert!(folder.path().join("out/precious").exists());
    let inside = dedupe(folder.path(), &[".", "-o", "new"]);
    assert!(String::from_utf8_lossy(&inside.stderr).contains("contain each other"));
}

#[test]
fn an_interrupted_run_goes_on_with_its_prints() {
    let folder = directory();
    let texts = generated_texts();
    let lines: String = (0..40)
        .flat_map(|round| {
            texts.iter().map(move |text| format!("{}\n", json!({"text": format!("{round} {text}")})))
        })
        .collect();
    fs::write(folder.path().join("a.jsonl"), &lines).unwrap();
    let arguments = ["dedupe", "a.jsonl", "-o", "out", "--duplicates", "d.jsonl", "--keep", "longest"];
    let arguments = [&arguments[..], &["--max-loss", "1"]].concat();
    let (mut goes_on, mut is_list_there) = (0, false);
    for attempt in 1..40 {
        let mut child =
            command(&arguments).current_dir(folder.path()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(40 * attempt));
        let pid = Pid::from_child(&child);
        // Every third run is killed, which leaves no time to save anything.
        let signal = if attempt % 3 == 0 { Signal::KILL } else { Signal::INT };
        let _ = kill_process(pid, signal);
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        goes_on += u32::from(stderr.contains("going on after"));
        let status = child.wait().unwrap();
        // A run that is killed at its very end may be complete, or have renamed the first of two files, which
        // is there from then on.
        if folder.path().join("out").exists() {
            break;
        }
        assert!(status.code().is_none_or(|code| code == 130), "{status} {stderr}");
        let has_list = folder.path().join("d.jsonl").exists();
        is_list_there |= has_list && status.code().is_none();
        assert_eq!(has_list, is_list_there);
    }
    if !folder.path().join("out").exists() {
        done(folder.path(), &arguments[1..]);
    }
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    let resumed = (read("out/a.jsonl"), read("d.jsonl"));
    assert!(goes_on > 0);
    done(folder.path(), &[&arguments[1..], &["--force"]].concat());
    assert_eq!(resumed, (read("out/a.jsonl"), read("d.jsonl")));
}

/// Many documents with ids, every second of them equal to the one before.
pub fn many(count: u64) -> String {
    let text = |number: u64| {
        let mut random = fastrand::Rng::with_seed(number);
        let mut word = || (0..6).map(|_| random.lowercase()).collect::<String>();
        (0..25).map(|_| word()).collect::<Vec<_>>().join(" ")
    };
    (0..count).map(|n| format!("{}\n", json!({"id": n, "text": text(n / 2)}))).collect()
}

/// The output and the list of dropped documents.
fn results(folder: &Path) -> (Vec<u8>, Vec<u8>) {
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    (read("out/a.jsonl"), read("d.jsonl"))
}

fn assert_no_output(folder: &Path, stderr: &str) {
    for name in ["out", "d.jsonl", "r.html"] {
        assert!(!folder.join(name).exists(), "{name}: {stderr}");
    }
}

const ALL: [&str; 7] = ["a.jsonl", "-o", "out", "--duplicates", "d.jsonl", "--report", "r.html"];

#[test]
fn a_full_disk_leaves_no_output_and_the_same_command_goes_on() {
    let folder = directory();
    fs::write(folder.path().join("a.jsonl"), many(9_000)).unwrap();
    for keep in ["first", "longest"] {
        let arguments = [&ALL[..], &["--keep", keep, "--force", "--profile", "copies-64"]].concat();
        let mut failed = Vec::new();
        // Files are limited to so many blocks, so that writes fail as on a full disk: of the lock file, of
        // the prints (330 kB), of the output (900 kB).
        for blocks in ["0", "100", "700"] {
            let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
            let mut shell = Command::new("sh");
            let shell = shell.args(["-c", &script, BINARY, "dedupe"]).args(&arguments);
            let output: Output = shell.current_dir(folder.path()).output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{blocks}: {stderr}");
            assert!(stderr.contains("File too large"), "{blocks}: {stderr}");
            assert_no_output(folder.path(), &stderr);
            let places = ["lock", "prints", "output"].into_iter();
            failed.extend(places.filter(|place| stderr.contains(&format!("out.partial/{place}"))));
        }
        assert_eq!(failed, ["lock", "prints", "output"]);
        let output = dedupe(folder.path(), &arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && stderr.contains("going on after"), "{stderr}");
        let went_on = results(folder.path());
        done(folder.path(), &arguments);
        assert_eq!(went_on, results(folder.path()));
        for name in ["d.jsonl", "r.html"] {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        fs::remove_dir_all(folder.path().join("out")).unwrap();
    }
}

#[test]
fn a_signal_stops_a_run_in_the_middle_and_the_same_command_goes_on() {
    let folder = directory();
    fs::write(folder.path().join("a.jsonl"), many(150_000)).unwrap();
    for (keep, signal, code) in [("first", Signal::INT, 130), ("longest", Signal::TERM, 143)] {
        let arguments = [&["dedupe"], &ALL[..], &["--keep", keep]].concat();
        let mut run = command(&arguments);
        // Names are written from a megabyte on, which is a third of the way.
        let names = folder.path().join("out.partial/names");
        let (ended, stderr) = ended_with_names(run.current_dir(folder.path()), &names, signal);
        assert_eq!(ended, Some(code), "{stderr}");
        assert!(stderr.contains("stopped; the same command goes on"), "{stderr}");
        assert_no_output(folder.path(), &stderr);
        let output = dedupe(folder.path(), &arguments[1..]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        let known = stderr.split("going on after ").nth(1).and_then(|rest| rest.split(' ').next());
        let known: u32 = known.and_then(|number| number.parse().ok()).expect(&stderr);
        assert!(output.status.success() && (1..150_000).contains(&known), "{stderr}");
        let went_on = results(folder.path());
        done(folder.path(), &[&arguments[1..], &["--force"]].concat());
        assert_eq!(went_on, results(folder.path()));
        for name in ["d.jsonl", "r.html"] {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        fs::remove_dir_all(folder.path().join("out")).unwrap();
    }
}

/// Sends a signal to a run as soon as it has written names to this file. Returns its code, if it has one, and
/// what it has told.
pub fn ended_with_names(run: &mut Command, names: &Path, signal: Signal) -> (Option<i32>, String) {
    let mut child = run.stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while fs::metadata(names).map_or(0, |about| about.len()) == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "no names are written");
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (child.wait().unwrap().code(), stderr)
}
