//! `dedupe` of arrays, archives and files in any charset: what is kept is what is kept of JSON lines in UTF-8
//! with the same documents, and every kept record has the bytes that it had.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;

use encoding_rs::{BIG5, EUC_KR, Encoding, GB18030, GBK, SHIFT_JIS};
use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};

use crate::dedupe::{dedupe, done, generated_texts, json_lines, packed, refused};
use crate::server::directory;

/// A charset by its name, and how texts are written in it.
type Charset = (&'static str, &'static dyn Fn(&str) -> Vec<u8>);

fn written(encoding: &'static Encoding, text: &str) -> Vec<u8> {
    let (bytes, _, is_lossy) = encoding.encode(text);
    assert!(!is_lossy, "{}: {text}", encoding.name());
    bytes.into_owned()
}

fn in_utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// The characters of a charset whose second byte is one of JSON or of a table: a quote, a backslash, a
/// bracket, a delimiter.
fn tricky(encoding: &'static Encoding) -> Vec<char> {
    let all = (0x3000..0xd800).filter_map(char::from_u32);
    let is_tricky = |character: &char| {
        let text = character.to_string();
        let (bytes, _, is_lossy) = encoding.encode(&text);
        !is_lossy && bytes.len() == 2 && b"\"\\{}[]|,".contains(&bytes[1])
    };
    all.filter(is_tricky).collect()
}

/// Texts, most of them copies with small changes, of which some have these characters.
fn texts(characters: &[char]) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(7);
    let tail = |text: String| {
        let more: String = (0..6).filter_map(|_| random.choice(characters)).collect();
        format!("{text} {more}").trim_end().to_owned()
    };
    generated_texts().into_iter().skip(1).take(80).map(tail).collect()
}

/// The ids of the documents that are kept of JSON lines.
fn kept(folder: &Path, texts: &[String], rule: &str) -> BTreeSet<usize> {
    let line = |(number, text): (usize, &String)| format!("{}\n", json!({"id": number, "text": text}));
    let lines: String = texts.iter().enumerate().map(line).collect();
    fs::write(folder.join("twin.jsonl"), lines).unwrap();
    done(folder, &["twin.jsonl", "-o", "twin", "--force", "--keep", rule]);
    let kept = json_lines(&folder.join("twin/twin.jsonl"));
    kept.iter().map(|line| line["id"].as_u64().unwrap() as usize).collect()
}

/// The elements with what is before each, in one layout.
fn array(texts: &[String], layout: usize, keeps: &dyn Fn(usize) -> bool) -> String {
    let (open, close) = [("[", "]"), (" [", "\n]\n"), ("[", "]\n"), ("\n\n[\n", " ]")][layout];
    let element = |number: usize| {
        let document = json!({"id": number, "text": texts[number], "more": [{"a": "],["}, []]});
        match layout {
            0 => document.to_string(),
            1 => format!("\n  {document}"),
            2 => serde_json::to_string_pretty(&document).unwrap(),
            _ => format!("\r\n\t{document}"),
        }
    };
    let elements = (0..texts.len()).filter(|number| keeps(*number)).map(element);
    format!("{open}{}{close}", elements.collect::<Vec<_>>().join(","))
}

#[test]
fn arrays_stay_arrays_with_the_bytes_of_each_element() {
    let (folder, texts) = (directory(), texts(&[]));
    let path = folder.path();
    for rule in ["first", "longest"] {
        let kept = kept(path, &texts, rule);
        assert!((10..texts.len() - 10).contains(&kept.len()), "{}", kept.len());
        for layout in 0..4 {
            let whole = array(&texts, layout, &|_| true);
            let expected = array(&texts, layout, &|number| kept.contains(&number));
            fs::write(path.join("a.json"), &whole).unwrap();
            fs::write(path.join("b.json.gz"), packed(whole.as_bytes())).unwrap();
            let arguments = ["-o", "out", "--force", "--keep", rule, "--duplicates", "d.jsonl"];
            done(path, &[&["a.json"], &arguments[..]].concat());
            assert_eq!(fs::read_to_string(path.join("out/a.json")).unwrap(), expected, "{layout}");
            for line in json_lines(&path.join("d.jsonl")) {
                let text = whole.lines().nth(line["line"].as_u64().unwrap() as usize - 1).unwrap();
                let id = format!("\"id\":{}", line["id"].as_str().unwrap());
                assert!(layout == 2 || text.contains(&id), "{line}");
            }
            fs::remove_dir_all(path.join("out")).unwrap();
            done(path, &[&["b.json.gz"], &arguments[..]].concat());
            let (mut read, gz) = (String::new(), fs::read(path.join("out/b.json.gz")).unwrap());
            MultiGzDecoder::new(&*gz).read_to_string(&mut read).unwrap();
            assert_eq!(read, expected);
            fs::remove_dir_all(path.join("out")).unwrap();
        }
    }
    // Without duplicates the output is the input, whatever its blanks.
    for whole in
        ["[]", " [ \n] \n", "[{\"text\": \"one\"}]", "\u{feff}[ {\"text\": \"one\"} ,\n{\"text\":\"two\"} ]"]
    {
        fs::write(path.join("a.json"), whole).unwrap();
        done(path, &["a.json", "-o", "out", "--force"]);
        let expected = whole.replace("} ,", "},");
        assert_eq!(fs::read_to_string(path.join("out/a.json")).unwrap(), expected);
    }
}

#[test]
fn broken_arrays_are_refused_or_left_out() {
    let folder = directory();
    let path = folder.path();
    let one = "{\"id\": \"one\", \"text\": \"a text of some words\"}";
    for (array, expected) in [
        (
            format!("[{one},\n{{\"text\": \"cut"),
            "a.json:2: the file cannot be read further: the array has no end",
        ),
        (format!("[{one}"), "a.json:1: the file cannot be read: the array has no end"),
        (format!("[{one},"), "the array has no end; the last element begins in line 1"),
        (format!("[{one}] x"), "there is more after the end of the array"),
        (format!("[{one},\n\n tru]"), "a.json:3: not a JSON object"),
        (format!("[{one},\n]"), "a.json:2: not a JSON object"),
        (format!("[{one} {one}, {one}]"), "a.json:1: not a JSON object"),
        (format!("[{one},\n[{one}]]"), "a.json:2: a JSON array in place of an object"),
        (format!("[{one},\n{{\"body\": 1}}]"), "a.json:2: there is no field \"text\"; there are body"),
    ] {
        fs::write(path.join("a.json"), &array).unwrap();
        let stderr = refused(path, &["a.json", "-o", "out"]);
        assert!(stderr.contains(expected), "{array}: {stderr}");
        // What can be read is a whole array.
        assert!(done(path, &["a.json", "-o", "out", "--skip-invalid"]).contains("invalid"), "{array}");
        let found: Vec<Value> =
            serde_json::from_str(&fs::read_to_string(path.join("out/a.json")).unwrap()).unwrap();
        assert!(found.iter().all(|element| element["id"] == "one") && found.len() < 2, "{array}: {found:?}");
        fs::remove_dir_all(path.join("out")).unwrap();
    }
}

/// Every format in a charset, with and without `--charset`.
fn check_charset((name, write): Charset, mark: &[u8], characters: &[char]) {
    let (folder, texts) = (directory(), texts(characters));
    let path = folder.path();
    let kept = kept(path, &texts, "first");
    let part = |keeps: &dyn Fn(usize) -> bool, file: &str| -> Vec<u8> {
        let numbers = (0..texts.len()).filter(|number| keeps(*number));
        let line = |number: usize| json!({"id": number, "text": texts[number]}).to_string() + "\n";
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let text = match file {
            "a.jsonl" => numbers.map(line).collect(),
            "b.json" => array(&texts, 1, keeps),
            "c.csv" => {
                let row = |number: usize| format!("{number},{}\r\n", quoted(&texts[number]));
                "id,text\r\n".to_owned() + &numbers.map(row).collect::<String>()
            }
            _ => {
                let row = |number: usize| format!("{number}|{}\n", quoted(&texts[number]));
                "id|text\n".to_owned() + &numbers.map(row).collect::<String>()
            }
        };
        [mark, &write(&text)].concat()
    };
    for file in ["a.jsonl", "b.json", "c.csv", "d.csv"] {
        fs::write(path.join(file), part(&|_| true, file)).unwrap();
        for options in [&["--charset", name][..], &["--charset", name, "--keep", "longest"]] {
            let of_rule = if options.len() == 2 { kept.clone() } else { self::kept(path, &texts, "longest") };
            done(path, &[&[file, "-o", "out", "--force"], options].concat());
            let found = fs::read(path.join("out").join(file)).unwrap();
            let expected = part(&|number| of_rule.contains(&number), file);
            assert!(found == expected, "{name} {file}: {}", String::from_utf8_lossy(&found));
            fs::remove_dir_all(path.join("out")).unwrap();
        }
    }
    // A whole file is one text: the second one is a copy.
    for file in ["a.txt", "b.txt"] {
        fs::write(path.join(file), [mark, &write(&texts[0])].concat()).unwrap();
    }
    done(path, &["a.txt", "b.txt", "-o", "out", "--force", "--charset", name]);
    assert_eq!(fs::read(path.join("out/a.txt")).unwrap(), fs::read(path.join("a.txt")).unwrap());
    assert!(!path.join("out/b.txt").exists());
}

#[test]
fn files_keep_their_charset_and_the_bytes_of_each_record() {
    check_charset(("gbk", &|text| written(GBK, text)), b"", &tricky(GBK));
    check_charset(("gb18030", &|text| written(GB18030, text)), b"", &['\u{1f600}', '市', '\u{e5}', 'é']);
    check_charset(("big5", &|text| written(BIG5, text)), b"", &tricky(BIG5));
    check_charset(("shift_jis", &|text| written(SHIFT_JIS, text)), b"", &tricky(SHIFT_JIS));
    check_charset(("euc-kr", &|text| written(EUC_KR, text)), b"", &['시', '립', '도', '서', '관']);
    check_charset(("windows-1251", &|text| written(encoding_rs::WINDOWS_1251, text)), b"", &['ж', 'я']);
    check_charset(("utf-16le", &in_utf16), b"\xff\xfe", &['市', '\u{1f600}', '|', '\u{220a}']);
    check_charset(("utf-8", &|text| text.as_bytes().to_vec()), b"", &['市', '\u{1f600}']);
    check_charset(("utf-8", &|text| text.as_bytes().to_vec()), b"\xef\xbb\xbf", &['市', 'é']);
}

#[test]
fn a_charset_is_detected_and_a_wrong_one_is_refused() {
    let folder = directory();
    let path = folder.path();
    let text = "市图书馆昨天宣布，从下个月开始延长周末的开放时间，\
                读者可以在馆内阅读到晚上十点。";
    let lines: String = (0..3).map(|number| format!("{}\n", json!({"id": number, "text": text}))).collect();
    let bytes = written(GBK, &lines);
    fs::write(path.join("a.jsonl"), &bytes).unwrap();
    done(path, &["a.jsonl", "-o", "out"]);
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    assert_eq!(fs::read(path.join("out/a.jsonl")).unwrap(), bytes[..first]);
    fs::remove_dir_all(path.join("out")).unwrap();
    // The other records stay as they are next to one with invalid bytes.
    let other = json!({"id": 9, "text": "天气预报说明天有雨，山区的气温会下降。"});
    let damaged =
        [&bytes[..first], b"{\"text\": \"ab\xff\xff\"}\n", &written(GBK, &other.to_string())].concat();
    fs::write(path.join("a.jsonl"), &damaged).unwrap();
    let stderr = refused(path, &["a.jsonl", "-o", "out", "--charset", "gbk"]);
    assert!(
        stderr.contains("a.jsonl:2: it has bytes that are invalid in the charset of the file"),
        "{stderr}"
    );
    done(path, &["a.jsonl", "-o", "out", "--charset", "gbk", "--skip-invalid"]);
    let expected = [&bytes[..first], &written(GBK, &other.to_string()), b"\n"].concat();
    assert_eq!(fs::read(path.join("out/a.jsonl")).unwrap(), expected);
    fs::remove_dir_all(path.join("out")).unwrap();
    let stderr = refused(path, &["a.jsonl", "-o", "out", "--charset", "gkb"]);
    assert!(stderr.contains("there is no charset \"gkb\"; examples: utf-8, gbk"), "{stderr}");
    // A valid text in UTF-8 is not read in another charset.
    fs::write(path.join("a.jsonl"), &lines).unwrap();
    done(path, &["a.jsonl", "-o", "out", "--charset", "big5"]);
    assert_eq!(json_lines(&path.join("out/a.jsonl"))[0]["text"], text);
    assert!(dedupe(path, &["a.jsonl", "-o", "other", "--dry-run"]).status.success());
}

/// A tar archive with these files.
fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (number, (name, bytes)) in files.iter().enumerate() {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o640);
        header.set_mtime(1_700_000_000 + number as u64);
        builder.append_data(&mut header, name, &**bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

/// The files of an archive: name, time and bytes.
fn files_of(bytes: &[u8]) -> Vec<(String, u64, Vec<u8>)> {
    let mut archive = tar::Archive::new(bytes);
    let entries = archive.entries().unwrap().map(|entry| {
        let (mut entry, mut bytes) = (entry.unwrap(), Vec::new());
        entry.read_to_end(&mut bytes).unwrap();
        assert_eq!(entry.header().mode().unwrap(), 0o640);
        let name = entry.path().unwrap().display().to_string();
        (name, entry.header().mtime().unwrap(), bytes)
    });
    entries.collect()
}

/// The files of a folder and those of an archive of them are deduplicated alike.
#[test]
fn an_archive_is_deduplicated_like_its_folder() {
    let (folder, texts) = (directory(), texts(&['市', 'é']));
    let path = folder.path();
    let part = |numbers: std::ops::Range<usize>| {
        let line = |number: usize| json!({"id": number, "n": number % 7, "text": texts[number]}).to_string();
        numbers.map(line).collect::<Vec<_>>()
    };
    let long = format!("crawl/{}/e.jsonl", "deep".repeat(40));
    let files: Vec<(&str, Vec<u8>)> = vec![
        ("crawl/a.jsonl", (part(0..20).join("\n") + "\n").into()),
        ("crawl/b.json.gz", packed(format!("[{}]", part(20..40).join(",")).as_bytes())),
        ("crawl/c.txt", texts[3].clone().into()),
        ("crawl/d.png", b"no document".to_vec()),
        (&long, (part(40..80).join("\n") + "\n").into()),
    ];
    for (name, bytes) in &files {
        fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
        fs::write(path.join(name), bytes).unwrap();
    }
    fs::write(path.join("crawl.tar"), archive(&files)).unwrap();
    fs::write(path.join("crawl.tgz"), packed(&archive(&files))).unwrap();
    let last = files[0].1.clone();
    fs::write(path.join("last.jsonl"), String::from_utf8(last).unwrap().replace("\"id\":", "\"id\":1000"))
        .unwrap();
    let only = fs::read(path.join("last.jsonl")).unwrap();
    for (rule, more) in [("first", &[][..]), ("longest", &[]), ("first", &["--memory", "2MiB"])] {
        let rest = ["last.jsonl", "-o", "out", "--force", "--duplicates", "d.jsonl", "--keep", rule];
        let run = |input: &str| {
            let _ = fs::remove_dir_all(path.join("out"));
            let output = dedupe(path, &[&[input], &rest[..], more].concat());
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{input}: {stderr}");
            let of_archive = format!("{input}/crawl/d.png: passed over, of no known format");
            let ignored = if input == "crawl" { "not read, by the ending: 1 file" } else { &of_archive };
            assert!(stderr.contains(ignored), "{stderr}");
            let dropped = fs::read_to_string(path.join("d.jsonl")).unwrap();
            (
                dropped.replace(&format!("\"{input}/crawl/"), "\"crawl/"),
                fs::read(path.join("out/last.jsonl")).unwrap(),
            )
        };
        let expected = run("crawl");
        assert!(expected.1.len() < only.len() && !expected.0.is_empty());
        let of_folder = |name: &str| fs::read(path.join("out").join(name)).ok();
        let wanted: Vec<(String, u64, Vec<u8>)> = files
            .iter()
            .zip(1_700_000_000..)
            .filter_map(|((name, _), time)| Some(((*name).to_owned(), time, of_folder(name)?)))
            .collect();
        // The text of the file is that of a line before it.
        assert!(wanted.len() == 3 || rule != "first", "{}", wanted.len());
        assert!(run("crawl.tar") == expected, "{rule}");
        assert!(files_of(&fs::read(path.join("out/crawl.tar")).unwrap()) == wanted, "{rule}");
        assert!(run("crawl.tgz") == expected, "{rule}");
        let mut unpacked = Vec::new();
        MultiGzDecoder::new(&*fs::read(path.join("out/crawl.tgz")).unwrap())
            .read_to_end(&mut unpacked)
            .unwrap();
        assert!(files_of(&unpacked) == wanted, "{rule}");
    }
    fs::remove_dir_all(path.join("out")).unwrap();
    let whole = fs::read(path.join("crawl.tgz")).unwrap();
    fs::write(path.join("cut.tgz"), &whole[..whole.len() / 2]).unwrap();
    fs::write(path.join("none.tar"), archive(&files[3..4])).unwrap();
    for (arguments, expected) in [
        (&["cut.tgz"][..], "cut.tgz: the archive cannot be read: "),
        (&["cut.tgz", "--skip-invalid"], "cut.tgz: the archive cannot be read: "),
        (&["none.tar"], "none.tar: there is no file of documents in the archive"),
        (&["crawl.tar", "./crawl.tar"], "would both be written to crawl.tar"),
        (&["crawl.tar", "--id-field", "key"], "crawl.tar/crawl/a.jsonl:1: there is no field \"key\""),
    ] {
        let stderr = refused(path, &[arguments, &["-o", "out"]].concat());
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    // A run that goes on, and one against an archive.
    assert!(!dedupe(path, &["crawl.tar", "-o", "out", "--id-field", "key"]).status.success());
    done(path, &["crawl.tar", "-o", "out", "--id-field", "key", "--skip-invalid"]);
    fs::remove_dir_all(path.join("out")).unwrap();
    done(path, &["last.jsonl", "-o", "out", "--against", "crawl.tgz"]);
    assert_eq!(fs::read(path.join("out/last.jsonl")).unwrap(), b"");
    assert!(dedupe(path, &["crawl.tgz", "-o", "other", "--dry-run"]).status.success());
}
