//! Files of strangers: `import` and `dedupe` read the same ones, refuse the same records, and say why in the
//! same words.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::dedupe::{dedupe, done, json_lines};
use crate::server::{Server, command, directory};

const ONE: &str = "the harbour ferry will run every twenty minutes in the summer of next year";
const TWO: &str = "a museum of the old town opens new rooms for its youngest visitors today";
const THREE: &str = "engineers repair the stone bridge over the river before the winter arrives";

/// Imports into a new collection. Returns the documents, which have their texts, and the standard error.
async fn imported(server: &Server, folder: &Path, name: &str, arguments: &[&str]) -> (Vec<Value>, String) {
    let (status, _) = server.put(&format!("/collections/{name}"), json!({"keep_text": true})).await;
    assert!(status.is_success());
    let all = [&["import", "--restart", "--url", &server.url, "--collection", name], arguments].concat();
    let mut command = command(&all);
    command.current_dir(folder);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let export = server.get(&format!("/collections/{name}/export")).await.text().await.unwrap();
    let documents = export.lines().skip(1).map(|line| {
        let mut document: Value = serde_json::from_str(line).unwrap();
        let object = document.as_object_mut().unwrap();
        object.retain(|name, _| name != "arrival" && name != "exported");
        document
    });
    (documents.collect(), String::from_utf8(output.stderr).unwrap())
}

/// The texts of documents in order.
fn texts(documents: &[Value]) -> Vec<&str> {
    let mut texts: Vec<&str> = documents.iter().map(|document| document["text"].as_str().unwrap()).collect();
    texts.sort_unstable();
    texts
}

#[tokio::test]
async fn both_commands_refuse_the_same_records_with_the_same_words() {
    let (folder, data) = (directory(), directory());
    let server = Server::start(data.path()).await;
    let path = folder.path();
    let good = json!({"id": "good", "text": ONE}).to_string();
    let lines = |bad: &str| format!("{bad}\n{good}\n").into_bytes();
    let array = |bad: &str| format!("[{bad},\n{good}]").into_bytes();
    let latin = |before: &str| [before.as_bytes(), b"2,caf\xe9 by the sea\n"].concat();
    let mut cases: Vec<(&str, Vec<u8>, &[&str], &str, &str)> = vec![
        (
            "a.csv",
            latin(&format!("id,text\n1,{ONE}\n")),
            &[],
            ":3: cell 2 is not UTF-8, or not in the charset of \
          the file; --charset names the charset of the file, such as windows-1252",
            "with invalid bytes",
        ),
        (
            "a.jsonl",
            [&lines("")[..], b"{\"text\":\"caf\xe9\"}\n"].concat(),
            &[],
            ":3: not UTF-8: byte 12 is \
          invalid; --charset names",
            "with invalid bytes",
        ),
    ];
    for (bad, options, expected, reason) in [
        (r#"{"text":"a","text":"b"}"#, &[][..], "an object has the name \"text\" twice", "with a name twice"),
        (
            r#"{"text":"a","\u0074ext":"b"}"#,
            &[],
            "an object has the name \"text\" twice",
            "with a name twice",
        ),
        (
            r#"{"d":{"t":"a","t":"b"}}"#,
            &["--text-field", "text"],
            "has the name \"t\" twice",
            "with a name twice",
        ),
        (r#"{"text":"a","metadata":{"n":1,"n":2}}"#, &[], "has the name \"n\" twice", "with a name twice"),
        (r#"{"text":"a","x":[1,{"n":1,"n":2}]}"#, &[], "has the name \"n\" twice", "with a name twice"),
        (r#"{"text":"a","score":NaN}"#, &[], "NaN is not JSON: write null (column 21)", "not JSON"),
        (
            r#"{"text":"a","score":-Infinity}"#,
            &[],
            "-Infinity is not JSON: write null (column 21)",
            "not JSON",
        ),
        (
            r#"{"text":"half \ud83d"}"#,
            &[],
            "the field \"text\" has half of a character, the lone surrogate \
          \\ud83d",
            "with a value of another kind",
        ),
        (
            r#"{"id":"\udc00","text":"a"}"#,
            &[],
            "the field \"id\" has half of a character, the lone surrogate \
          \\udc00",
            "with an id that cannot be used",
        ),
        (
            r#"{"id":"a\u0007b","text":"a"}"#,
            &[],
            "the field \"id\" is no id: an id has no control characters; \
          this one has U+0007",
            "with an id that cannot be used",
        ),
        (
            r#"{"id":1.5,"text":"a"}"#,
            &[],
            "the field \"id\" is 1.5; an id is a text or an integer: --id-field",
            "with an id that cannot be used",
        ),
        (
            r#"{"text":7}"#,
            &[],
            "the field \"text\" is not a string; --text-field",
            "with a value of another kind",
        ),
        (r#"{"text":null}"#, &[], "there is no value in the field \"text\"", "without a field"),
        (
            r#"{"body":"a"}"#,
            &[],
            "there is no field \"text\"; there are body; --text-field",
            "without a field",
        ),
        (r#"{"text":"a",}"#, &[], "trailing comma (column 13)", "not JSON"),
        (r"{'text':'a'}", &[], "double quotes in JSON, not single ones (column 2)", "not JSON"),
        (r#"{text:"a"}"#, &[], "names have double quotes in JSON (column 2)", "not JSON"),
        ("{\"text\":\"a\tb\"}", &[], "control character", "not JSON"),
        (r#"["a"]"#, &[], "a JSON array in place of an object", "not an object"),
    ] {
        cases.push(("a.jsonl", lines(bad), options, expected, reason));
        cases.push(("a.json", array(bad), options, expected, reason));
    }
    for (number, (file, bytes, options, expected, reason)) in cases.into_iter().enumerate() {
        fs::write(path.join(file), &bytes).unwrap();
        let arguments = [&[file][..], options].concat();
        let (documents, of_import) = imported(&server, path, &format!("c{number}"), &arguments).await;
        assert_eq!(texts(&documents), [ONE], "{of_import}");
        let output = dedupe(path, &[&arguments[..], &["-o", "out", "--skip-invalid"]].concat());
        let of_dedupe = String::from_utf8(output.stderr).unwrap();
        let summary = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{of_dedupe}");
        let kept = fs::read_to_string(path.join("out").join(file)).unwrap();
        assert!(kept.contains(ONE) && kept.lines().count() <= 2, "{kept}");
        let counted = format!("1 record not read: 1 {reason}");
        for (of, count) in [(&of_import, &of_import), (&of_dedupe, &summary)] {
            let line = of.lines().find(|line| line.starts_with(&format!("{file}:")));
            assert!(line.is_some_and(|line| line.contains(expected)), "{expected:?}: {of}");
            assert!(count.contains(&counted), "{counted:?}: {count}");
        }
        let message = |of: &str| of.lines().find(|line| line.starts_with(file)).unwrap().to_owned();
        assert_eq!(message(&of_import), message(&of_dedupe));
        fs::remove_dir_all(path.join("out")).unwrap();
        fs::remove_file(path.join(file)).unwrap();
    }
}

#[tokio::test]
async fn columns_of_one_name_and_files_of_other_formats_are_named() {
    let (folder, data) = (directory(), directory());
    let server = Server::start(data.path()).await;
    let path = folder.path();
    let cases: [(&str, Vec<u8>, &[&str], &str); 8] = [
        ("a.csv", format!("id,text,text\n1,{ONE},b\n").into(), &[], "two columns have the name \"text\""),
        ("b.csv", format!("id,id,text\n1,2,{ONE}\n").into(), &[], "two columns have the name \"id\""),
        ("c.tsv", format!("k\tk\ttext\n1\t2\t{ONE}\n").into(), &["--id-field", "k"], "have the name \"k\""),
        ("d.jsonl", b"BZh91AY&SY\0\0".to_vec(), &[], "it is bzip2 data: unpack it with bunzip2"),
        ("e.jsonl", b"\xfd7zXZ\0\0\0".to_vec(), &[], "it is xz data: unpack it with unxz"),
        ("f.txt", b"PK\x03\x04\0\0".to_vec(), &[], "it is a zip archive: give it a name with .zip"),
        ("g.csv", b"7z\xbc\xaf\x27\x1c\0".to_vec(), &[], "it is a 7z archive"),
        ("h.jsonl", b"Obj\x01\0".to_vec(), &[], "it is an Avro file"),
    ];
    for (number, (file, bytes, options, expected)) in cases.into_iter().enumerate() {
        fs::write(path.join(file), &bytes).unwrap();
        let arguments = [&[file][..], options].concat();
        let (documents, stderr) = imported(&server, path, &format!("c{number}"), &arguments).await;
        assert!(documents.is_empty() && stderr.contains(expected), "{expected:?}: {stderr}");
        let output = dedupe(path, &[&arguments[..], &["-o", "out"]].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(expected), "{expected:?}: {stderr}");
    }
    // Columns that are not used may have one name.
    fs::write(path.join("x.csv"), format!("id,note,note,text\n1,a,b,{ONE}\n")).unwrap();
    let (documents, stderr) = imported(&server, path, "none", &["x.csv", "--metadata", "none"]).await;
    assert_eq!(texts(&documents), [ONE], "{stderr}");
    done(path, &["x.csv", "-o", "out"]);
}

#[tokio::test]
async fn packed_files_are_read_whatever_their_name() {
    let (folder, data) = (directory(), directory());
    let server = Server::start(data.path()).await;
    let path = folder.path();
    let lines = format!("{}\n{}\n", json!({"id": 1, "text": ONE}), json!({"id": 2, "text": TWO}));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(lines.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    fs::write(path.join("a.jsonl"), &packed).unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(packed.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, "m.jsonl", &packed[..]).unwrap();
    fs::write(path.join("b.tar"), archive.into_inner().unwrap()).unwrap();
    for (name, file) in [("plain", "a.jsonl"), ("member", "b.tar")] {
        let (documents, stderr) = imported(&server, path, name, &[file]).await;
        assert_eq!(texts(&documents), [TWO, ONE], "{stderr}");
        let summary = done(path, &[file, "-o", name]);
        assert!(summary.contains("2  kept"), "{summary}");
    }
    let written = fs::read(path.join("plain/a.jsonl")).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(&*written), &mut text).unwrap();
    assert_eq!(text, lines, "the output is packed as the input is");
}

#[tokio::test]
async fn objects_over_many_lines_and_tables_of_excel_are_read() {
    let (folder, data) = (directory(), directory());
    let server = Server::start(data.path()).await;
    let path = folder.path();
    let pretty = |id: &str, text: &str| {
        serde_json::to_string_pretty(&json!({"id": id, "text": text, "deep": {"a": [1, {"b": "} {"}]}}))
            .unwrap()
    };
    let copy = pretty("c", ONE);
    let whole = format!("{}\n{}\n{copy}\n", pretty("a", ONE), pretty("b", TWO));
    fs::write(path.join("a.json"), &whole).unwrap();
    let (documents, stderr) = imported(&server, path, "pretty", &["a.json"]).await;
    assert_eq!(texts(&documents), [TWO, ONE, ONE], "{stderr}");
    assert_eq!(documents[0]["metadata"]["deep"]["a"][1]["b"], "} {");
    done(path, &["a.json", "-o", "out", "--duplicates", "d.jsonl"]);
    let expected = whole.strip_suffix(&format!("{copy}\n")).unwrap();
    assert_eq!(fs::read_to_string(path.join("out/a.json")).unwrap(), expected);
    let line = whole.lines().count() - copy.lines().count() + 1;
    assert_eq!(json_lines(&path.join("d.jsonl"))[0]["line"], line);
    // A damaged object fails alone.
    let damaged = format!("{}\n{{\n  \"text\": \"cut\n}}\n{}\n", pretty("a", ONE), pretty("b", TWO));
    fs::write(path.join("b.json"), &damaged).unwrap();
    let (documents, stderr) = imported(&server, path, "damaged", &["b.json"]).await;
    assert_eq!(texts(&documents), [TWO, ONE], "{stderr}");
    let at = pretty("a", ONE).lines().count() + 1;
    assert!(stderr.contains(&format!("b.json:{at}: ")) && stderr.contains("1 bad line"), "{stderr}");
    fs::remove_dir_all(path.join("out")).unwrap();
    for (first, delimiter) in [("sep=;\r\n", ";"), ("sep=\t\n", "\t"), ("\u{feff}\"sep=|\"\r\n", "|")] {
        let row = |cells: [&str; 2]| cells.join(delimiter) + "\r\n";
        let rows = [row(["id", "text"]), row(["1", ONE]), row(["2", TWO]), row(["3", ONE])];
        fs::write(path.join("e.csv"), format!("{first}{}", rows.concat())).unwrap();
        let name = format!("excel{}", delimiter.as_bytes()[0]);
        let (documents, stderr) = imported(&server, path, &name, &["e.csv"]).await;
        assert_eq!(texts(&documents), [TWO, ONE, ONE], "{stderr}");
        done(path, &["e.csv", "-o", "out"]);
        let kept = fs::read_to_string(path.join("out/e.csv")).unwrap();
        assert_eq!(kept, format!("{first}{}", rows[..3].concat()));
        fs::remove_dir_all(path.join("out")).unwrap();
    }
}

#[tokio::test]
async fn a_long_id_becomes_its_digest_with_and_without_other_fields() {
    let (folder, data) = (directory(), directory());
    let server = Server::start(data.path()).await;
    let path = folder.path();
    let long = "u".repeat(300);
    let lines = [
        json!({"id": long, "text": ONE}),
        json!({"id": format!("{long}1"), "text": TWO, "lang": "en"}),
        json!({"id": "u".repeat(256), "text": THREE}),
    ];
    fs::write(path.join("a.jsonl"), lines.map(|line| format!("{line}\n")).concat()).unwrap();
    let (documents, stderr) = imported(&server, path, "long", &["a.jsonl"]).await;
    assert!(documents.len() == 3 && stderr.contains("3 created"), "{stderr}");
    let id = |text: &str| documents.iter().find(|document| document["text"] == text).unwrap()["id"].clone();
    for text in [ONE, TWO] {
        assert!(id(text).as_str().is_some_and(|id| id.starts_with("sha256-") && id.len() == 71));
    }
    assert_eq!((id(THREE).as_str().unwrap().len(), id(ONE) == id(TWO)), (256, false));
}

#[tokio::test]
async fn names_that_are_not_utf8_stay_distinct() {
    let (folder, data) = (directory(), directory());
    let server = Server::start(data.path()).await;
    let path = folder.path();
    let names: [&[u8]; 5] =
        [b"caf\xe8.txt", b"caf\xe9.txt", b"caf\\xe9.txt", "caf\u{e9}.txt".as_bytes(), b"a\x1b[2Jb.txt"];
    let shown = ["caf\\xe8.txt", "caf\\xe9.txt", "caf\\x5cxe9.txt", "caf\u{e9}.txt", "a\\x1b[2Jb.txt"];
    let texts_of = [ONE, TWO, THREE, "a fourth text about the trams of the city", "a fifth text about bees"];
    fs::create_dir(path.join("names")).unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    for (name, text) in names.iter().zip(texts_of) {
        fs::write(path.join("names").join(OsStr::from_bytes(name)), text).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, Path::new(OsStr::from_bytes(name)), text.as_bytes()).unwrap();
    }
    fs::write(path.join("names.tar"), archive.into_inner().unwrap()).unwrap();
    fs::write(path.join("copy.txt"), TWO).unwrap();
    for (name, argument) in [("folder", "names"), ("archive", "names.tar"), ("pattern", "names/*.txt")] {
        let (documents, stderr) = imported(&server, path, name, &[argument]).await;
        assert!(documents.len() == 5 && stderr.contains("5 created"), "{argument}: {stderr}");
        let inside = if name == "archive" { "names.tar" } else { "names" };
        for (shown, text) in shown.iter().zip(texts_of) {
            let document = documents.iter().find(|document| document["text"] == text).unwrap();
            assert_eq!(document["id"], format!("{inside}/{shown}"), "{argument}");
        }
        for rule in ["first", "longest"] {
            let options = ["copy.txt", "-o", "out", "--duplicates", "d.jsonl", "--force", "--keep", rule];
            let summary = done(path, &[&[argument][..], &options].concat());
            assert!(summary.contains("5  kept"), "{argument}: {summary}");
            let replaced = &json_lines(&path.join("d.jsonl"))[0]["replaced_by"]["file"];
            assert_eq!(*replaced, format!("{inside}/caf\\xe9.txt"));
            fs::remove_dir_all(path.join("out")).unwrap();
        }
    }
    // An error does not send commands to the terminal.
    fs::write(path.join("names").join(OsStr::from_bytes(b"b\x1b[2J.jsonl")), "oops\n").unwrap();
    let (_, stderr) = imported(&server, path, "escapes", &["names"]).await;
    assert!(stderr.contains("names/b\\x1b[2J.jsonl:1: ") && !stderr.contains('\u{1b}'), "{stderr}");
    let stderr = String::from_utf8(dedupe(path, &["names", "-o", "out"]).stderr).unwrap();
    assert!(stderr.contains("names/b\\x1b[2J.jsonl:1: ") && !stderr.contains('\u{1b}'), "{stderr}");
}
