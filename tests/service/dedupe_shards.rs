//! `dedupe --shard` and `merge` against one run over the same files: every byte of every result.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::SystemTime;

use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::dedupe::{dedupe, done, generated_texts, packed, refused};
use crate::dedupe_changes::{HASHED, hashed};
use crate::dedupe_stops::{ended_with_names, many};
use crate::server::{BINARY, command, directory};

fn merge(folder: &Path, options: &[&str]) -> Output {
    command(&[&["merge", "out"], options].concat()).current_dir(folder).output().unwrap()
}

fn merged(folder: &Path, options: &[&str]) -> String {
    let output = merge(folder, options);
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn not_merged(folder: &Path, options: &[&str]) -> String {
    let output = merge(folder, options);
    assert!(!output.status.success() && !folder.join("out").exists(), "{options:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A text in another script.
fn in_script(text: &str, first: u32) -> String {
    let letter = |c: char| match c {
        'a'..='z' => char::from_u32(first + u32::from(c) - u32::from('a')).unwrap(),
        other => other,
    };
    text.chars().map(letter).collect()
}

/// Documents with a number, a date and a source; some are in Chinese, Korean, Greek and Russian.
fn documents() -> Vec<Value> {
    let scripts = [None, Some(0x4e00), Some(0xac00), Some(0x3b1), Some(0x430)];
    let mut random = fastrand::Rng::with_seed(67);
    let document = |(number, text): (usize, String)| {
        let text = scripts[number % 11 % 5].map_or_else(|| text.clone(), |first| in_script(&text, first));
        let at = format!("2026-03-{:02}", random.u32(1..29));
        let (n, s) = (random.u32(..9), ["news", "blog"][number % 2]);
        json!({"id": format!("d{number}"), "text": text, "n": n, "at": at, "s": s})
    };
    let texts = generated_texts();
    let copies = texts[..150].to_vec();
    texts.into_iter().chain(copies).enumerate().map(document).collect()
}

fn lines(documents: &[Value]) -> String {
    documents.iter().map(|one| format!("{one}\n")).collect()
}

fn parquet(path: &Path, documents: &[Value]) {
    let schema = "message m { required binary id (UTF8); required binary text (UTF8); required int64 n;
        required binary at (UTF8); required binary s (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for name in ["id", "text", "n", "at", "s"] {
        let mut column = group.next_column().unwrap().unwrap();
        match column.untyped() {
            ColumnWriter::ByteArrayColumnWriter(to) => {
                let value = |one: &Value| ByteArray::from(one[name].as_str().unwrap());
                to.write_batch(&documents.iter().map(value).collect::<Vec<_>>(), None, None).unwrap();
            }
            ColumnWriter::Int64ColumnWriter(to) => {
                let value = |one: &Value| one[name].as_i64().unwrap();
                to.write_batch(&documents.iter().map(value).collect::<Vec<_>>(), None, None).unwrap();
            }
            _ => panic!("two kinds of columns"),
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

/// Files of many formats in `in`, and one of documents to compare them with.
fn corpus(folder: &Path) {
    let all = documents();
    let root = folder.join("in");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("1.jsonl"), lines(&all[..100])).unwrap();
    let row = |one: &Value| {
        let field = |name: &str| one[name].to_string();
        format!("{},{},{},{},{}\n", field("id"), field("text"), field("n"), field("at"), field("s"))
    };
    let rows: String = all[100..200].iter().map(row).collect();
    fs::write(root.join("2.csv"), format!("id,text,n,at,s\n{rows}")).unwrap();
    fs::write(root.join("3.jsonl.gz"), packed(lines(&all[200..300]).as_bytes())).unwrap();
    parquet(&root.join("4.parquet"), &all[300..400]);
    let mut archive = tar::Builder::new(File::create(root.join("5.tar")).unwrap());
    for (name, part) in [("x/a.jsonl", &all[400..450]), ("x/b.jsonl", &all[450..500])] {
        let (mut header, bytes) = (tar::Header::new_gnu(), lines(part));
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, name, bytes.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
    fs::write(root.join("6.jsonl"), lines(&all[500..600])).unwrap();
    fs::write(folder.join("old.jsonl"), lines(&all[600..])).unwrap();
}

/// All files that a run writes, by their names.
fn results(folder: &Path, output: &str) -> BTreeMap<String, Vec<u8>> {
    fn gather(folder: &Path, name: &str, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{name}/{}", path.file_name().unwrap().display());
            if path.is_dir() {
                gather(&path, &name, found);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    gather(&folder.join(output), "", &mut found);
    for name in ["d.jsonl", "e.jsonl", "r.html", "g.jsonl", "k.txt", "w", "c.jsonl", "s.jsonl"] {
        if let Ok(bytes) = fs::read(folder.join(name)) {
            found.insert(name.to_owned(), bytes);
            fs::remove_file(folder.join(name)).unwrap();
        }
    }
    fs::remove_dir_all(folder.join(output)).unwrap();
    found
}

/// Compares shards with one run.
fn assert_same(folder: &Path, options: &[&str], counts: &[u32], of_merge: &[&str]) {
    let summary = done(folder, &[options, &["-o", "one"], of_merge].concat());
    let expected = results(folder, "one");
    for of in counts {
        // The order in which they are made does not count.
        for number in (1..=*of).rev() {
            let shard = format!("{number}/{of}");
            done(folder, &[options, &["-o", "out", "--shard", &shard]].concat());
        }
        assert_eq!(merged(folder, of_merge), summary, "{options:?} {of}");
        let found = results(folder, "out");
        assert!(found.keys().eq(expected.keys()), "{options:?}: {:?} {:?}", found.keys(), expected.keys());
        let other = found.iter().find(|(name, bytes)| expected[*name] != **bytes);
        assert!(other.is_none(), "{options:?} {of}: {}", other.unwrap().0);
        fs::remove_dir_all(folder.join("out.shards")).unwrap();
    }
}

fn set_modified(path: &Path, time: SystemTime) {
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

const ALL: [&str; 10] = [
    "--duplicates",
    "d.jsonl",
    "--evidence",
    "e.jsonl",
    "--report",
    "r.html",
    "--clusters-file",
    "g.jsonl",
    "--keep-ids",
    "k.txt",
];

#[test]
fn shards_give_the_result_of_one_run() {
    let folder = directory();
    corpus(folder.path());
    let all = [&["in"], &ALL[..]].concat();
    assert_same(folder.path(), &[&all[..], &["--save-weights", "w"]].concat(), &[1, 2, 5], &[]);
    fs::write(folder.path().join("items.jsonl"), lines(&documents()[150..210])).unwrap();
    let cases: [&[&str]; 15] = [
        &["--decontaminate", "items.jsonl", "--decontaminate-field", "text", "--contaminated", "c.jsonl"],
        &["--spans", "remove", "--span-tokens", "20", "--spans-file", "s.jsonl"],
        &["--keep", "longest", "--memory", "3MiB"],
        &["--keep", "newest:at"],
        &["--keep", "max:n"],
        &["--keep", "central"],
        &["old.jsonl", "--keep", "source:old,in"],
        &["--clusters", "linked"],
        &["--profile", "copies-64"],
        &["--check", "0.4", "--threads", "1"],
        &["--weights", "none", "--threshold", "0.7"],
        &["--against", "old.jsonl", "--html"],
        &["--source-field", "s", "--max-loss", "0.9"],
        &["--against", "idx"],
        &["--id-field", "id"],
    ];
    let built = command(&["index", "build", "old.jsonl", "-o", "idx"]).current_dir(folder.path()).output();
    assert!(built.unwrap().status.success());
    for more in cases {
        assert_same(folder.path(), &[&all[..], more].concat(), &[3], &[]);
    }
    let others = ["in/1.jsonl", "in/2.csv", "in/4.parquet", "--annotate"];
    assert_same(folder.path(), &others, &[2], &["--duplicates", "d.jsonl", "--memory", "3MiB"]);
}

#[test]
fn shards_have_what_is_not_read_and_hashes_made_earlier() {
    let folder = directory();
    corpus(folder.path());
    fs::write(folder.path().join("in/7.jsonl"), "{\"text\": \"cut of\n[1]\n{\"id\": 5}\n").unwrap();
    let own = ["in", "--duplicates", "d.jsonl", "--report", "r.html"];
    let stderr = String::from_utf8(
        dedupe(folder.path(), &[&own[..], &["-o", "out", "--shard", "5/5"]].concat()).stderr,
    );
    assert!(stderr.unwrap().contains("--skip-invalid leaves such records out"));
    assert_same(folder.path(), &[&own[..], &["--skip-invalid"]].concat(), &[4], &[]);
    for (name, kind) in [("x.jsonl", 1), ("y.jsonl", 2)] {
        fs::write(
            folder.path().join(name),
            hashed(2_000, kind).replace("{\"id\":1", &format!("{{\"id\":{kind}")),
        )
        .unwrap();
    }
    assert_same(
        folder.path(),
        &[&["x.jsonl", "y.jsonl", "--keep", "max:n"], &HASHED[..]].concat(),
        &[2],
        &[],
    );
}

#[test]
fn shards_are_made_at_the_same_time_with_common_weights() {
    let folder = directory();
    corpus(folder.path());
    done(folder.path(), &["in", "-o", "one", "--duplicates", "d.jsonl"]);
    let expected = results(folder.path(), "one");
    let start = |number: u32| {
        let shard = format!("{number}/6");
        let mut run = command(&["dedupe", "in", "-o", "out", "--duplicates", "d.jsonl", "--shard", &shard]);
        run.current_dir(folder.path()).stdout(Stdio::null()).spawn().unwrap()
    };
    let runs: Vec<_> = (1..=6).map(start).collect();
    runs.into_iter().for_each(|mut run| assert!(run.wait().unwrap().success()));
    let names = fs::read_dir(folder.path().join("out.shards")).unwrap();
    let names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(
        names.len() == 7 && names.iter().filter(|name| name.starts_with("weights-")).count() == 1,
        "{names:?}"
    );
    merged(folder.path(), &[]);
    assert!(results(folder.path(), "out") == expected);
}

#[test]
fn a_shard_that_is_killed_goes_on() {
    let folder = directory();
    fs::write(folder.path().join("a.jsonl"), many(120_000)).unwrap();
    fs::write(folder.path().join("b.jsonl"), many(100_000).replace("{\"id\":", "{\"id\":9000000")).unwrap();
    let own = ["b.jsonl", "a.jsonl", "-o", "out", "--profile", "copies-64", "--duplicates", "d.jsonl"];
    let own = [&own[..], &["--max-loss", "1"]].concat();
    let shard = [&own[..], &["--shard", "2/2"]].concat();
    let mut run = command(&[&["dedupe"], &shard[..]].concat());
    let names = folder.path().join("out.shards/2-of-2.partial/names");
    ended_with_names(run.current_dir(folder.path()), &names, Signal::KILL);
    // Another machine sees other numbers of nodes.
    let (file, copy) = (folder.path().join("a.jsonl"), folder.path().join("copy"));
    fs::copy(&file, &copy).unwrap();
    set_modified(&copy, fs::metadata(&file).unwrap().modified().unwrap());
    fs::rename(&copy, &file).unwrap();
    done(folder.path(), &[&own[..], &["--shard", "1/2"]].concat());
    let stderr = not_merged(folder.path(), &[]);
    assert!(
        stderr.contains("shard 2/2 is not complete: lookalike dedupe --shard 2/2 b.jsonl a.jsonl -o"),
        "{stderr}"
    );
    let output = dedupe(folder.path(), &shard);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && stderr.contains("going on after"), "{stderr}");
    let summary = merged(folder.path(), &[]);
    let found = results(folder.path(), "out");
    assert_eq!(summary, done(folder.path(), &[&own[..], &["--force"]].concat()));
    assert!(results(folder.path(), "out") == found);
}

#[test]
fn a_merge_names_what_is_wrong_with_the_shards() {
    let folder = directory();
    corpus(folder.path());
    let own = ["in", "-o", "out", "--text-field", "text", "--duplicates", "it's d.jsonl"];
    let shard = |more: &[&str]| dedupe(folder.path(), &[&own[..], more].concat());
    let made = |number: &str, more: &[&str]| {
        let output = shard(&[&["--shard", number], more].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        stderr
    };
    assert!(
        not_merged(folder.path(), &[])
            .contains("out.shards has no shards: lookalike dedupe … -o out --shard 1/N")
    );
    made("2/3", &[]);
    assert!(made("2/3", &[]).contains("shard 2/3 is complete"));
    let stderr = not_merged(folder.path(), &[]);
    assert!(stderr.contains("2 problems, and nothing was done\n"), "{stderr}");
    // The commands that are named make the missing ones.
    for (number, line) in ["1/3", "3/3"].iter().zip(stderr.lines().skip(1)) {
        let made = line.strip_prefix(&format!("shard {number} is missing: lookalike ")).expect(line);
        let mut shell = Command::new("sh");
        let status = shell.args(["-c", &format!("exec {BINARY} {made}")]).current_dir(folder.path()).status();
        assert!(status.unwrap().success(), "{made}");
    }
    made("1/2", &[]);
    let stderr = not_merged(folder.path(), &[]);
    assert!(stderr.contains("out.shards has shards of 2 and of 3: remove those that are not wanted"));
    fs::remove_dir_all(folder.path().join("out.shards/1-of-2")).unwrap();

    let refusal = shard(&["--shard", "2/3", "--id-field", "id"]);
    let refusal = String::from_utf8(refusal.stderr).unwrap();
    assert!(refusal.contains("shard 2/3 was made with --id-field unset, and not id; --force"), "{refusal}");
    made("2/3", &["--id-field", "id", "--force"]);
    let stderr = not_merged(folder.path(), &[]);
    assert!(
        stderr.contains("shard 2/3 was made with --id-field id, and not unset; to make it again: "),
        "{stderr}"
    );
    made("2/3", &["--force"]);
    let stderr = not_merged(folder.path(), &["--weights", "none"]);
    assert!(
        stderr.contains("3 problems") && stderr.contains("shard 1/3 was made with --weights "),
        "{stderr}"
    );
    let stderr = not_merged(folder.path(), &["--shard", "1/3"]);
    assert!(stderr.contains("--shard is no option of merge"), "{stderr}");

    let path = folder.path().join("in/3.jsonl.gz");
    let (before, time) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    File::options().append(true).open(&path).unwrap().write_all(&packed(b"{\"text\":\"x\"}\n")).unwrap();
    let stderr = not_merged(folder.path(), &[]);
    assert!(stderr.contains(" has another \"in/3.jsonl.gz\" than there is now"), "{stderr}");
    // A change that leaves size and time is found by the bytes of records.
    let changed = |path: &Path, bytes: &[u8], time| {
        fs::write(path, bytes).unwrap();
        set_modified(path, time);
    };
    changed(&path, &before, time);
    let path = folder.path().join("in/1.jsonl");
    let (before, time) =
        (fs::read_to_string(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    changed(&path, before.replace("\"id\":\"d42\"", "\"id\":\"d24\"").as_bytes(), time);
    let stderr = not_merged(folder.path(), &[]);
    assert!(stderr.contains("in/1.jsonl:43: the file changed"), "{stderr}");
    changed(&path, before.as_bytes(), time);

    let tape = folder.path().join("out.shards/1-of-3/records");
    let whole = fs::read(&tape).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&tape, &damaged).unwrap();
    assert!(not_merged(folder.path(), &[]).contains("out.shards/1-of-3/records: "));
    fs::write(&tape, &whole[1..]).unwrap();
    assert!(not_merged(folder.path(), &[]).contains("shard 1/3 is missing"));
    fs::write(&tape, &whole).unwrap();
    merged(folder.path(), &[]);
    assert!(folder.path().join("it's d.jsonl").exists());
}

#[test]
fn inputs_that_cannot_be_shared_out_are_refused() {
    let folder = directory();
    corpus(folder.path());
    let own = ["-o", "out", "--shard"];
    for (more, expected) in [
        (&["7/7", "in"][..], "--shard 7/7: there are fewer files than shards: take 6 shards at most"),
        (&["1/2", "in", "-"], "-: a pipe is read by one run, and not by shards: store it as files first"),
        (&["0/2", "in"], "a shard is I/N, from 1/N to N/N"),
    ] {
        let stderr = refused(folder.path(), &[&own[..], more].concat());
        assert!(stderr.contains(expected), "{stderr}");
    }
    fs::copy(folder.path().join("in/1.jsonl"), folder.path().join("in/9.jsonl")).unwrap();
    (1..=2)
        .for_each(|number| _ = done(folder.path(), &["in", "-o", "out", "--shard", &format!("{number}/2")]));
    let stderr = not_merged(folder.path(), &[]);
    assert!(
        stderr.contains("\" is repeated, at in/1.jsonl:") && stderr.contains("and in/9.jsonl:"),
        "{stderr}"
    );
}
