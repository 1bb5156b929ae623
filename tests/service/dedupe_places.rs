//! `dedupe` among files of the user: it removes and replaces only what it wrote, follows no link where it
//! writes, and tells what it does not read.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::dedupe::{FERRY, dedupe, done, refused};
use crate::dedupe_changes::{HASHED, hashed};
use crate::dedupe_stops::many;
use crate::server::{BINARY, command, directory};

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn only_what_the_command_wrote_is_removed() {
    let folder = directory();
    let path = folder.path();
    fs::write(path.join("a.jsonl"), many(10)).unwrap();
    fs::create_dir(path.join("elsewhere")).unwrap();
    fs::write(path.join("elsewhere/prints"), "mine").unwrap();
    let fresh = || {
        let _ = fs::remove_dir_all(path.join("out.partial"));
        let _ = fs::remove_file(path.join("out.partial"));
    };
    let cases: [(&str, &dyn Fn(&Path)); 6] = [
        ("something that this command did not write, notes.txt", &|partial| {
            fs::create_dir(partial).unwrap();
            fs::write(partial.join("notes.txt"), "mine").unwrap();
        }),
        ("something that this command did not write, output", &|partial| {
            fs::create_dir_all(partial.join("output")).unwrap();
            fs::write(partial.join("output/notes.txt"), "mine").unwrap();
        }),
        ("something that this command did not write, prints", &|partial| {
            fs::create_dir(partial).unwrap();
            fs::write(partial.join("lock"), "lookalike dedupe\n").unwrap();
            symlink("../elsewhere/prints", partial.join("prints")).unwrap();
        }),
        ("something that this command did not write, output", &|partial| {
            fs::create_dir(partial).unwrap();
            fs::write(partial.join("lock"), "lookalike dedupe\n").unwrap();
            symlink("../elsewhere", partial.join("output")).unwrap();
        }),
        ("out.partial is a symbolic link", &|partial| symlink("elsewhere", partial).unwrap()),
        ("out.partial is no folder", &|partial| fs::write(partial, "mine").unwrap()),
    ];
    for (expected, make) in cases {
        fresh();
        make(&path.join("out.partial"));
        for more in [&[][..], &["--force"], &["--dry-run"]] {
            let stderr = refused(path, &[&["a.jsonl", "-o", "out"], more].concat());
            assert!(stderr.contains(expected), "{expected}: {stderr}");
        }
        assert_eq!(text(&path.join("elsewhere/prints")), "mine", "{expected}");
        let mine = ["notes.txt", "output/notes.txt"].map(|name| path.join("out.partial").join(name));
        assert!(mine.iter().all(|file| !file.exists() || text(file) == "mine"), "{expected}");
    }
    fresh();
    // An output that is a link is not followed, whatever its name ends with.
    symlink("elsewhere", path.join("link")).unwrap();
    for name in ["link", "link/"] {
        let stderr = refused(path, &["a.jsonl", "-o", name, "--force"]);
        assert!(stderr.contains("is a symbolic link: name the folder itself"), "{stderr}");
    }
    // What an interrupted run left is used, also if it was killed at its first step.
    fs::create_dir(path.join("out.partial")).unwrap();
    fs::write(path.join("out.partial/lock"), "").unwrap();
    done(path, &["a.jsonl", "-o", "out"]);
    assert!(path.join("out/a.jsonl").exists() && !path.join("out.partial").exists());
}

#[test]
fn what_the_user_adds_during_the_run_stays() {
    let folder = directory();
    let path = folder.path();
    fs::write(path.join("a.jsonl"), hashed(150_000, 0)).unwrap();
    fs::create_dir(path.join("out")).unwrap();
    fs::write(path.join("out/a.jsonl"), "an earlier output").unwrap();
    let arguments = [&["dedupe", "a.jsonl", "-o", "out", "--force"][..], &HASHED].concat();
    let mut run = command(&arguments);
    let mut child = run.current_dir(path).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !path.join("out.partial/names").exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    fs::write(path.join("out.partial/notes.txt"), "mine").unwrap();
    fs::write(path.join("out/precious.txt"), "mine, too").unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(child.wait().unwrap().success(), "{stderr}");
    assert!(stderr.contains("out.partial stays, because it has something"), "{stderr}");
    assert_eq!(text(&path.join("out.partial/notes.txt")), "mine");
    assert_eq!(text(&path.join("out.partial/replaced/precious.txt")), "mine, too");
    assert!(!path.join("out.partial/replaced/a.jsonl").exists());
    assert!(text(&path.join("out/a.jsonl")).len() > 1_000_000);
}

#[test]
fn files_beside_the_output_are_no_links_and_no_files_of_the_user() {
    let folder = directory();
    let path = folder.path();
    fs::write(path.join("a.jsonl"), many(10)).unwrap();
    fs::write(path.join("mine"), "mine").unwrap();
    fs::hard_link(path.join("a.jsonl"), path.join("same.jsonl")).unwrap();
    fs::write(path.join("d.jsonl.partial"), "mine").unwrap();
    symlink("mine", path.join("link")).unwrap();
    symlink("nothing", path.join("dead")).unwrap();
    fs::create_dir(path.join("folder")).unwrap();
    for option in ["--duplicates", "--report"] {
        for (target, expected) in [
            ("link", "link is a symbolic link: name a file"),
            ("dead", "dead is a symbolic link: name a file"),
            ("folder", "folder is no regular file: name a file"),
            ("/dev/null", "/dev"),
            ("a.jsonl", "a.jsonl is an input: name another file"),
            ("same.jsonl", "same.jsonl is an input: name another file"),
            ("d.jsonl", "d.jsonl.partial exists, and"),
            ("out", "out is inside the output"),
            ("out/d.jsonl", "out"),
            ("out.partial/d.jsonl", "out.partial"),
            ("none/d.jsonl", "none: No such file"),
            ("mine/d.jsonl", "mine"),
        ] {
            let stderr = refused(path, &["a.jsonl", "-o", "out", "--force", option, target]);
            assert!(stderr.contains(expected), "{option} {target}: {stderr}");
            assert!(!path.join("out.partial").exists(), "{option} {target}");
        }
        let stderr = refused(path, &["a.jsonl", "-o", "out", option, "mine"]);
        assert!(stderr.contains("mine exists; --force replaces it"), "{stderr}");
    }
    for pair in [["x", "./x"], ["x", "x.partial"], ["x.partial", "x"]] {
        let stderr = refused(path, &["a.jsonl", "-o", "out", "--duplicates", pair[0], "--report", pair[1]]);
        assert!(stderr.contains("--report and --duplicates name the same file"), "{pair:?}: {stderr}");
    }
    assert_eq!(
        (text(&path.join("mine")), text(&path.join("d.jsonl.partial"))),
        ("mine".into(), "mine".into())
    );
    assert_eq!(text(&path.join("a.jsonl")), many(10));
    done(path, &["a.jsonl", "-o", "out", "--force", "--duplicates", "mine", "--report", "r.html"]);
    assert!(text(&path.join("mine")).contains("replaced_by") && !path.join("mine.partial").exists());
}

#[test]
fn links_are_followed_or_told() {
    let folder = directory();
    let path = folder.path();
    fs::create_dir_all(path.join("in/deep")).unwrap();
    fs::create_dir(path.join("other")).unwrap();
    let line = |text: &str| format!("{}\n", json!({"text": text}));
    fs::write(path.join("in/a.jsonl"), line(FERRY)).unwrap();
    fs::write(path.join("other/b.jsonl"), line("a text of another folder, about snow in the hills")).unwrap();
    symlink("nowhere.jsonl", path.join("in/dead.jsonl")).unwrap();
    symlink("round.jsonl", path.join("in/round.jsonl")).unwrap();
    symlink("../../other", path.join("in/deep/out")).unwrap();
    symlink("../a.jsonl", path.join("in/deep/inner.jsonl")).unwrap();
    assert!(Command::new("mkfifo").arg(path.join("in/pipe.jsonl")).status().unwrap().success());
    let output = dedupe(path, &["in", "-o", "out"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains(
            "not read, links to nothing, pipes and devices: 3 names, in/dead.jsonl, in/pipe.jsonl, \
             in/round.jsonl\n"
        ),
        "{stderr}"
    );
    assert!(stderr.contains("followed out of the folders: 1 link, in/deep/out\n"), "{stderr}");
    assert!(text(&path.join("out/in/deep/out/b.jsonl")).contains("snow"));
    assert_eq!(text(&path.join("out/in/deep/inner.jsonl")), "");
    // A link that is named is no file to pass over.
    fs::remove_dir_all(path.join("out")).unwrap();
    let stderr = refused(path, &["in/dead.jsonl", "-o", "out"]);
    assert!(stderr.contains("in/dead.jsonl: No such file"), "{stderr}");
}

/// Nobody has to read what the command says.
#[test]
fn a_closed_pipe_ends_no_work() {
    let folder = directory();
    let path = folder.path();
    let bad: String = (0..40).map(|number| format!("{number}\n")).collect();
    fs::write(path.join("a.jsonl"), many(200) + &bad).unwrap();
    fs::write(path.join("b.xyz"), "").unwrap();
    fs::create_dir(path.join("in")).unwrap();
    fs::write(path.join("in/c.xyz"), "").unwrap();
    let run = |streams: &str, more: &str| {
        let _ = fs::remove_dir_all(path.join("out"));
        // The shell closes the reading end before the command writes.
        let script = format!(
            "mkfifo p; sleep 9 < p & exec 3> p; kill $!; wait $! 2> w; rm p; \
             \"$0\" dedupe a.jsonl in -o out {more} {streams}; echo $?"
        );
        let output = Command::new("sh").args(["-c", &script, BINARY]).current_dir(path).output().unwrap();
        let code: i32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        (code, String::from_utf8(output.stderr).unwrap())
    };
    let options = "--skip-invalid --keep longest --clusters linked";
    for (streams, expected) in [("2>&3 >q", 0), (">&3", 141), (">&3 2>&3", 141)] {
        let (code, stderr) = run(streams, options);
        assert_eq!(code, expected, "{streams}: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        assert_eq!(text(&path.join("out/a.jsonl")).lines().count(), 100, "{streams}");
        assert!(!path.join("out.partial").exists());
    }
    assert_eq!(run("2>&3", "").0, 1);
    assert_eq!(run(">&3", "--skip-invalid --dry-run").0, 141);
}

#[test]
fn names_send_no_commands_to_the_terminal() {
    let folder = directory();
    let path = folder.path();
    let name = "a\u{1b}[31m\n\u{202e}x.jsonl";
    let id = "one\u{202e}";
    let lines = [json!({"id": id, "text": FERRY}), json!({"id": "two", "text": FERRY}), json!({"id": 3})];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(path.join(name), lines).unwrap();
    symlink("nowhere", path.join("dead\u{1b}[2J.jsonl")).unwrap();
    for arguments in [
        &[".", "-o", "../none/out"][..],
        &[name, "-o", "out", "--keep", "longest"],
        &[name, "-o", "out", "--skip-invalid", "--force"],
        &[name, name, "-o", "out"],
        &[name, "-o", "out", "--skip-invalid", "--force", "--text-field", "x\u{1b}[1m"],
        &["none\u{1b}[1m", "-o", "out"],
    ] {
        let output = dedupe(path, arguments);
        let all = [output.stdout, output.stderr].concat();
        let all = String::from_utf8(all).unwrap();
        assert!(!all.contains(|c: char| c == '\u{202e}' || c.is_control() && c != '\n'), "{all:?}");
        assert!(!all.is_empty());
    }
    // Other files keep the names as they are, by the rules of their formats.
    done(path, &[name, "-o", "out", "--skip-invalid", "--force", "--duplicates", "d.jsonl"]);
    assert_eq!(crate::dedupe::json_lines(&path.join("d.jsonl"))[0]["replaced_by"]["id"], id);
    assert!(path.join("out").join(name).exists());
}

#[test]
fn the_summary_has_at_most_twelve_lines() {
    let folder = directory();
    let path = folder.path();
    let mut random = fastrand::Rng::with_seed(5);
    let mut lines = String::new();
    for group in 0..20 {
        let words: Vec<String> = (0..60).map(|_| (0..7).map(|_| random.lowercase()).collect()).collect();
        for copy in 0..group + 2 {
            let mut text = words.clone();
            text[copy % 60] = format!("changed{copy}");
            let text = if copy % 3 == 0 { words.join(" ") } else { text.join(" ") };
            lines += &json!({"id": format!("g{group}-{copy}"), "text": text}).to_string();
            lines.push('\n');
        }
    }
    lines += "{\"text\": \"…\"}\n";
    fs::write(path.join("a.jsonl"), lines).unwrap();
    for profile in ["minhash-copies", "copies-64"] {
        let arguments = ["a.jsonl", "-o", "out", "--profile", profile, "--force", "--report", "r.html"];
        let summary = done(path, &arguments);
        assert!(summary.lines().count() <= 12, "{summary}");
        assert!(summary.starts_with("         231  read\n"), "{summary}");
        let what = if profile == "copies-64" { "distance" } else { "similarity" };
        assert!(summary.contains(&format!("{what} of the dropped: ")), "{summary}");
        assert!(summary.contains("of these: 1 kept without features"), "{summary}");
        let largest = summary.lines().filter(|line| line.contains("g19-0 (a.jsonl:")).count();
        assert_eq!(largest, 1, "{summary}");
        let page = text(&path.join("r.html"));
        assert!(page.contains("g0-0 (a.jsonl:1)") && page.contains("Dropped documents by distance"));
    }
}

/// The command goes on if its reader leaves after the first line of messages.
#[test]
fn a_reader_of_messages_may_leave() {
    let folder = directory();
    let path = folder.path();
    fs::create_dir(path.join("in")).unwrap();
    fs::write(path.join("in/a.jsonl"), many(3_000) + "7\n").unwrap();
    fs::write(path.join("in/b.xyz"), "").unwrap();
    let mut run = command(&["dedupe", "in", "-o", "out", "--skip-invalid", "--profile", "copies-64"]);
    let mut child = run.current_dir(path).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("not read, by the ending"), "{line}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(path.join("out/in/a.jsonl").exists());
}
