//! `dedupe` and `import` of files on a web server and of a data set, against the same files on the disk.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

use crate::server::{Server, command, directory};

/// A request: its path, its headers, and how many came before it.
struct Request {
    path: String,
    headers: HashMap<String, String>,
    before: usize,
}

/// An answer: the status, the headers after those of the length, and the body.
type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// Answers requests on a port until the process ends.
fn web(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (answer, count) = (Arc::new(answer), Arc::new(Mutex::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
            std::thread::spawn(move || _ = serve(stream.unwrap(), &*answer, &count));
        }
    });
    url
}

fn serve(
    mut stream: TcpStream,
    answer: &dyn Fn(&Request) -> Answer,
    count: &Mutex<usize>,
) -> std::io::Result<()> {
    let mut read = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    read.read_line(&mut first)?;
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        read.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    std::io::copy(&mut read.take(length), &mut std::io::sink())?;
    let before = {
        let mut count = count.lock().unwrap();
        *count += 1;
        *count - 1
    };
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap_or_default().to_owned());
    let (status, more, body) = answer(&Request { path, headers, before });
    write!(stream, "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n", body.len())?;
    more.iter().try_for_each(|(name, value)| write!(stream, "{name}: {value}\r\n"))?;
    stream.write_all(b"\r\n")?;
    if method == "HEAD" { Ok(()) } else { stream.write_all(&body) }
}

/// A file with its entity tag, of which a part is sent if the request names one.
fn file(request: &Request, bytes: &[u8], tag: &str) -> Answer {
    if request.headers.get("if-match").is_some_and(|wanted| wanted != tag) {
        return (412, Vec::new(), Vec::new());
    }
    let tag = ("ETag", tag.to_owned());
    let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((from, to)) = range else { return (200, vec![tag], bytes.to_vec()) };
    let (from, to) = (from.parse::<usize>().unwrap(), to.parse::<usize>().unwrap());
    let about = format!("bytes {from}-{to}/{}", bytes.len());
    (206, vec![tag, ("Content-Range", about)], bytes[from..=to].to_vec())
}

fn not_found() -> Answer {
    (404, Vec::new(), Vec::new())
}

/// Texts of random words, every third a copy with one changed word.
pub fn lines(count: usize) -> String {
    let mut random = fastrand::Rng::with_seed(5);
    let mut texts: Vec<Vec<u32>> = Vec::new();
    for number in 0..count {
        let mut text: Vec<u32> = (0..50).map(|_| random.u32(..20_000)).collect();
        if number % 3 == 2 {
            text.clone_from(&texts[number - 2]);
            text[random.usize(..50)] = 1;
        }
        texts.push(text);
    }
    let line = |(number, text): (usize, &Vec<u32>)| {
        let text: Vec<String> = text.iter().map(|word| format!("w{word}")).collect();
        format!("{{\"id\":\"d{number}\",\"text\":\"{}\"}}\n", text.join(" "))
    };
    texts.iter().enumerate().map(line).collect()
}

fn dedupe(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut run = command(&[&["dedupe"], arguments].concat());
    run.current_dir(folder).envs(variables.iter().copied()).output().unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn files_of_a_web_server_lose_what_they_lose_on_the_disk() {
    let folder = directory();
    let folder = folder.path();
    let packed = zstd::encode_all(lines(4_000).as_bytes(), 1).unwrap();
    assert!(packed.len() > 300_000, "several ranges: {}", packed.len());
    fs::write(folder.join("a.jsonl.zst"), &packed).unwrap();
    let of_web = packed.clone();
    let url = web(move |request| match &*request.path {
        "/parts/a.jsonl.zst" => file(request, &of_web, "\"v1\""),
        "/whole/a.jsonl.zst" => (200, Vec::new(), of_web.clone()),
        _ => not_found(),
    });
    for keep in ["first", "longest"] {
        let run = |from: &str| {
            let list = folder.join("d.jsonl");
            let arguments = [from, "-o", "out", "--force", "--keep", keep, "--duplicates", "d.jsonl"];
            let output = dedupe(folder, &arguments, &[]);
            assert!(output.status.success(), "{}", stderr(&output));
            let list = fs::read_to_string(list).unwrap().replace(&from[..from.len() - 11], "");
            (fs::read(folder.join("out/a.jsonl.zst")).unwrap(), list)
        };
        let (expected, list) = run("a.jsonl.zst");
        assert!(list.lines().count() > 1_000, "{}", list.lines().count());
        for at in ["parts", "whole"] {
            let (found, own) = run(&format!("{url}/{at}/a.jsonl.zst"));
            assert!(found == expected && own == list, "{at} {keep}");
        }
    }
    for (at, expected) in [
        (format!("{url}/b.jsonl"), "there is no such object"),
        (format!("{url}/"), "a web server does not list its files"),
        ("http://e.org/a.jsonl".to_owned(), "use https://"),
        (format!("{url}/a.jsonl?x=1"), "with ? or #"),
    ] {
        let output = dedupe(folder, &[&at, "-o", "none"], &[]);
        assert!(!output.status.success() && stderr(&output).contains(expected), "{}", stderr(&output));
    }
    let output = dedupe(folder, &["a.jsonl.zst", "-o", "https://e.org/x/"], &[]);
    assert!(stderr(&output).contains("output goes to a folder, or to s3://"), "{}", stderr(&output));
}

#[test]
fn a_run_ends_when_an_object_changes_or_is_refused() {
    let folder = directory();
    let folder = folder.path();
    let text = lines(6_000).into_bytes();
    let refuses = Arc::new(Mutex::new(true));
    let is_refused = Arc::clone(&refuses);
    let url = web(move |request| match &*request.path {
        // The checks and the first pass take a dozen requests.
        "/changed.jsonl" if request.before > 9 => file(request, &text, "\"v2\""),
        "/refused.jsonl" if request.headers.get("range").is_some_and(|range| range.ends_with("-1835007")) => {
            if *is_refused.lock().unwrap() {
                (403, Vec::new(), Vec::new())
            } else {
                file(request, &text, "\"v1\"")
            }
        }
        "/changed.jsonl" | "/refused.jsonl" => file(request, &text, "\"v1\""),
        _ => not_found(),
    });
    let run = |name: &str| {
        let from = format!("{url}/{name}");
        dedupe(folder, &[&from, "-o", "out", "--keep", "longest", "--weights", "none", "--skip-invalid"], &[])
    };
    let output = run("changed.jsonl");
    let message = stderr(&output);
    assert!(
        !output.status.success() && message.contains("the object changed after it was found"),
        "{message}"
    );
    assert!(message.contains("no output is written") && !folder.join("out").exists(), "{message}");
    fs::remove_dir_all(folder.join("out.partial")).unwrap();
    let output = run("refused.jsonl");
    let message = stderr(&output);
    assert!(!output.status.success() && message.contains("access is refused"), "{message}");
    assert!(!folder.join("out").exists());
    // What was read is not lost.
    *refuses.lock().unwrap() = false;
    let output = run("refused.jsonl");
    let message = stderr(&output);
    assert!(output.status.success() && message.contains("of an earlier run"), "{message}");
    assert!(folder.join("out/refused.jsonl").exists());
}

#[test]
fn data_sets_of_hugging_face_are_read_at_a_commit() {
    let folder = directory();
    let folder = folder.path();
    let (text, commit) = (lines(60), "c0ffee");
    let entry = |kind: &str, path: &str, bytes: usize| {
        format!("{{\"type\":\"{kind}\",\"path\":\"{path}\",\"size\":{bytes},\"oid\":\"0\"}}")
    };
    let one = entry("file", "data/a.jsonl", text.len());
    let all = format!(
        "[{},{one},{},{}]",
        entry("directory", "data", 0),
        entry("file", "data/b.jsonl", text.len()),
        entry("file", "data/README.md5", 3)
    );
    let files = [format!("[{one}]"), all];
    // Other ids of the same length.
    let (a, b) = (text.clone().into_bytes(), text.replace("\"id\":\"d", "\"id\":\"e").into_bytes());
    let json = |text: &str| (200, Vec::new(), text.as_bytes().to_vec());
    let url = web(move |request| {
        if request.headers.get("authorization").map(String::as_str) != Some("Bearer secret") {
            return (401, Vec::new(), Vec::new());
        }
        match &*request.path {
            "/api/datasets/o/n/revision/v1%2E0" => json(&format!("{{\"sha\":\"{commit}\"}}")),
            "/api/datasets/o/n/paths-info/c0ffee" => json(&files[0]),
            "/api/datasets/o/n/tree/c0ffee/data?recursive=true" => json(&files[1]),
            "/datasets/o/n/resolve/c0ffee/data/a.jsonl" => file(request, &a, "\"1\""),
            "/datasets/o/n/resolve/c0ffee/data/b.jsonl" => file(request, &b, "\"2\""),
            _ => not_found(),
        }
    });
    let variables = [("HF_ENDPOINT", &*url), ("HF_TOKEN", "secret")];
    for (from, name, dropped) in [
        ("hf://datasets/o/n@v1.0/data/a.jsonl", "a.jsonl", 20),
        ("hf://datasets/o/n@v1.0/data/[a]*", "a.jsonl", 20),
        ("hf://datasets/o/n@v1.0/data/", "data/b.jsonl", 80),
    ] {
        let output = dedupe(folder, &[from, "-o", "out", "--duplicates", "d.jsonl", "--force"], &variables);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(folder.join("out").join(name).exists());
        assert_eq!(fs::read_to_string(folder.join("d.jsonl")).unwrap().lines().count(), dropped);
        fs::remove_dir_all(folder.join("out")).unwrap();
    }
    let output = dedupe(folder, &["hf://datasets/o/n@v1.0/data/", "-o", "none"], &variables[..1]);
    assert!(stderr(&output).contains("set HF_TOKEN"), "{}", stderr(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_imported() {
    let folder = directory();
    let server = Server::start(&folder.path().join("data")).await;
    let text = lines(40).into_bytes();
    let url = web(move |request| match &*request.path {
        "/x/a.jsonl" => file(request, &text, "\"v1\""),
        _ => not_found(),
    });
    let arguments = ["import", "--url", &server.url, &format!("{url}/x/a.jsonl")];
    let output = command(&arguments).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success() && stderr(&output).contains("40 created"), "{}", stderr(&output));
    assert_eq!(server.json("/documents/d7").await["id"], "d7");
    server.stop();
}
