//! `dedupe` while other programs replace, extend and rewrite its inputs: a decision is never applied to
//! another text.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::dedupe::{dedupe, done};
use crate::server::{BINARY, command, directory};

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// In the first pass: names are written from a megabyte on.
    First,
    /// At the beginning of the second pass.
    Second,
}

/// Starts a run and waits for a moment in it.
fn at(folder: &Path, run: &mut Command, moment: Moment) -> Child {
    let child = run.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (start, partial) = (Instant::now(), folder.join("out.partial"));
    let is_there = || match moment {
        Moment::First => fs::metadata(partial.join("names")).is_ok_and(|about| about.len() > 0),
        Moment::Second => partial.join("output/a.jsonl").exists(),
    };
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(120), "the run does not come to {moment:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

/// The exit code of a run and its standard error.
fn end(mut child: Child) -> (Option<i32>, String) {
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (child.wait().unwrap().code(), stderr)
}

fn reset(folder: &Path) {
    for name in ["out", "out.partial"] {
        let _ = fs::remove_dir_all(folder.join(name));
    }
}

/// Lines of one length with hashes made earlier, every second of them equal to that of the line before; other
/// ones for another `kind`.
pub fn hashed(count: u64, kind: u64) -> String {
    let line = |number: u64| {
        let hash = fastrand::Rng::with_seed(number / 2 + kind * count).u64(..);
        let (id, filling) = (1_000_000 + number, "a text that is not read ".repeat(5));
        format!("{{\"id\":{id},\"hash\":\"{hash:016x}\",\"n\":{},\"text\":\"{filling}\"}}\n", number % 7)
    };
    (0..count).map(line).collect()
}

/// The lines of the files.
const COUNT: u64 = 100_000;
/// A rule of one pass and one of two, and how the lines are read.
const ONE: &str = "first";
const TWO: &str = "max:n";
pub const HASHED: [&str; 4] = ["--profile", "copies-64", "--hash-field", "hash"];

#[test]
fn a_file_that_is_replaced_is_read_on() {
    let folder = directory();
    let path = folder.path();
    let (old, new) = (hashed(COUNT, 0), hashed(COUNT, 1));
    for (keep, moment) in [(TWO, Moment::First), (TWO, Moment::Second), (ONE, Moment::First)] {
        fs::write(path.join("a.jsonl"), &old).unwrap();
        let arguments = [&["dedupe", "a.jsonl", "-o", "out", "--keep", keep][..], &HASHED].concat();
        reset(path);
        done(path, &arguments[1..]);
        let expected = fs::read(path.join("out/a.jsonl")).unwrap();
        reset(path);
        // An export is written beside the file and gets its name.
        fs::write(path.join("new"), &new).unwrap();
        let child = at(path, &mut command(&arguments), moment);
        fs::rename(path.join("new"), path.join("a.jsonl")).unwrap();
        let (code, stderr) = end(child);
        assert_eq!(code, Some(0), "{keep} {moment:?}: {stderr}");
        assert!(fs::read(path.join("out/a.jsonl")).unwrap() == expected, "{keep} {moment:?}");
    }
}

#[test]
fn a_file_that_changes_in_place_gives_an_error_and_no_output() {
    let folder = directory();
    let path = folder.path();
    let (old, new) = (hashed(COUNT, 0), hashed(COUNT, 1));
    let same_size = |file: &File| {
        let before = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(new.as_bytes(), 0).unwrap();
        file.set_modified(before).unwrap();
    };
    let append = |mut file: &File| {
        file.seek(std::io::SeekFrom::End(0)).unwrap();
        file.write_all(b"{\"text\": \"a further line of a log\"}\n").unwrap();
    };
    let cut = |file: &File| file.set_len(old.len() as u64 / 2).unwrap();
    let changes: [(&dyn Fn(&File), &str, Moment); 5] = [
        (&same_size, TWO, Moment::Second),
        (&same_size, TWO, Moment::First),
        (&append, ONE, Moment::First),
        (&append, TWO, Moment::Second),
        (&cut, TWO, Moment::First),
    ];
    for (change, keep, moment) in changes {
        reset(path);
        fs::write(path.join("a.jsonl"), &old).unwrap();
        let arguments = ["dedupe", "a.jsonl", "-o", "out", "--duplicates", "d.jsonl", "--keep", keep];
        let arguments = [&arguments[..], &["--skip-invalid"], &HASHED].concat();
        let child = at(path, &mut command(&arguments), moment);
        change(&File::options().read(true).write(true).open(path.join("a.jsonl")).unwrap());
        let (code, stderr) = end(child);
        assert_eq!(code, Some(1), "{keep} {moment:?}: {stderr}");
        assert!(stderr.contains("a.jsonl") && stderr.contains("during the run"), "{stderr}");
        assert!(!path.join("out").exists() && !path.join("d.jsonl").exists(), "{keep} {moment:?}");
    }
    // The prints of the other lines are not used.
    let arguments = [&["a.jsonl", "-o", "out", "--keep", TWO, "--skip-invalid"][..], &HASHED].concat();
    let output = dedupe(path, &[&arguments[..], &["--duplicates", "d.jsonl"]].concat());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !stderr.contains("going on after"), "{stderr}");
}

/// A process may have too few descriptors for all files. Then a file that was replaced is an error.
#[test]
fn without_a_descriptor_a_file_that_is_replaced_is_refused() {
    let folder = directory();
    let path = folder.path();
    fs::write(path.join("a.jsonl"), hashed(COUNT, 0)).unwrap();
    let names: Vec<String> = (0..60).map(|number| format!("b{number:02}.jsonl")).collect();
    for (number, name) in names.iter().enumerate() {
        fs::write(path.join(name), hashed(1, 1_000 + number as u64).replace("\"id\"", "\"no\"")).unwrap();
    }
    for (replaced, is_held) in [("b59.jsonl", false), ("b00.jsonl", true)] {
        reset(path);
        let mut shell = Command::new("sh");
        let script = "ulimit -n 280; exec \"$0\" \"$@\"";
        let shell = shell.args(["-c", script, BINARY, "dedupe", "a.jsonl", "-o", "out", "--keep", TWO]);
        let shell = shell.args(HASHED).args(names.iter().map(OsStr::new));
        let child = at(path, shell, Moment::First);
        fs::write(path.join("new"), hashed(1, 2_000).replace("\"id\"", "\"no\"")).unwrap();
        fs::rename(path.join("new"), path.join(replaced)).unwrap();
        let (code, stderr) = end(child);
        assert_eq!(code, Some(i32::from(!is_held)), "{stderr}");
        assert_eq!(stderr.contains("another file has its name now"), !is_held, "{stderr}");
        assert_eq!(path.join("out").exists(), is_held);
    }
}

/// A later run uses the prints of an interrupted one only for the same bytes.
#[test]
fn prints_of_an_interrupted_run_are_not_used_for_other_lines() {
    let folder = directory();
    let path = folder.path();
    let arguments = [&["dedupe", "a.jsonl", "-o", "out", "--keep", TWO][..], &HASHED].concat();
    let (old, new) = (hashed(COUNT, 0), hashed(COUNT, 1));
    for is_changed in [true, false] {
        reset(path);
        fs::write(path.join("a.jsonl"), &old).unwrap();
        let child = at(path, &mut command(&arguments), Moment::First);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(end(child).0, Some(130));
        if is_changed {
            let file = File::options().write(true).open(path.join("a.jsonl")).unwrap();
            let before = file.metadata().unwrap().modified().unwrap();
            file.write_all_at(new.as_bytes(), 0).unwrap();
            file.set_modified(before).unwrap();
        }
        let output = dedupe(path, &[&arguments[1..], &["--skip-invalid"]].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        assert_eq!(stderr.contains("going on after"), !is_changed, "{stderr}");
        let went_on = fs::read(path.join("out/a.jsonl")).unwrap();
        reset(path);
        done(path, &[&arguments[1..], &["--skip-invalid"]].concat());
        assert!(fs::read(path.join("out/a.jsonl")).unwrap() == went_on);
    }
}

/// Every rule reads a pipe as if it were a file, also one whose bytes are compressed.
#[test]
fn a_pipe_is_stored_and_read_as_often_as_needed() {
    let folder = directory();
    let path = folder.path();
    let line = |text: &str| format!("{{\"text\": \"{text}\"}}\n");
    let lines = [line("one text"), line("one text!"), line("of another kind")].concat();
    fs::write(path.join("in.jsonl"), lines).unwrap();
    let script = |pipe: &str, rest: &str| {
        let script = format!("{pipe} in.jsonl | \"$0\" dedupe -o out --force /dev/stdin {rest}");
        let output = Command::new("sh").args(["-c", &script, BINARY]).current_dir(path).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for more in ["", "--keep longest", "--clusters linked", "--memory 2MiB", "--keep central"] {
        let arguments: Vec<&str> = more.split_whitespace().collect();
        done(path, &[&["in.jsonl", "-o", "whole", "--force"], &arguments[..]].concat());
        let expected = fs::read_to_string(path.join("whole/in.jsonl")).unwrap();
        assert!(expected.lines().count() == 2, "{expected}");
        for pipe in ["cat", "gzip -c"] {
            let (code, stderr) = script(pipe, more);
            assert_eq!(code, Some(0), "{stderr}");
            assert!(!path.join("out.partial").exists());
            assert_eq!(fs::read_to_string(path.join("out/stdin")).unwrap(), expected, "{pipe} {more}");
        }
    }
    let (code, stderr) = script("cat", "--format parquet");
    assert!(code == Some(1) && stderr.contains("cannot be read from standard input"), "{stderr}");
    assert!(Command::new("mkfifo").arg(path.join("p.jsonl")).status().unwrap().success());
    let writer = path.join("p.jsonl");
    let written = std::thread::spawn(move || fs::write(writer, "{\"text\": \"of a pipe\"}\n"));
    done(path, &["p.jsonl", "-o", "piped"]);
    written.join().unwrap().unwrap();
    assert_eq!(fs::read_to_string(path.join("piped/p.jsonl")).unwrap(), "{\"text\": \"of a pipe\"}\n");
}
