//! The command line: settings and their errors, `fingerprint`, `import` that resumes, `export`, `backup`,
//! `healthcheck`, `config print`.

use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::server::{BINARY, Server, command, directory, lines};
use crate::skipped::skipped;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs the binary on a blocking thread, because the runtime of the test must stay responsive meanwhile.
async fn run(arguments: &[&str]) -> Output {
    let mut command = command(arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[test]
fn an_invalid_setting_is_named() {
    let data = directory();
    let file = data.path().join("settings.toml");
    fs::write(&file, "[server]\nlistn = \"x\"\n").unwrap();
    let cases: [(&[&str], &[(&str, &str)], i32, &[&str]); 5] = [
        (&["--config", file.to_str().unwrap()], &[], 78, &["settings.toml:2", "\"listn\"", "listen"]),
        (&[], &[("LOOKALIKE_LIMITS__MATCHE", "7")], 78, &["LOOKALIKE_LIMITS__MATCHE", "matches"]),
        (&[], &[("LOOKALIKE_LIMITS__MATCHES", "many")], 78, &["LOOKALIKE_LIMITS__MATCHES", "whole number"]),
        (&["--listen", "nowhere"], &[], 78, &["server.listen", "nowhere"]),
        (&["--log", "lookalike=="], &[], 78, &["log.level"]),
    ];
    for (arguments, variables, code, fragments) in cases {
        let output =
            command(arguments).envs(variables.iter().copied()).current_dir(data.path()).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        fragments.iter().for_each(|fragment| assert!(stderr.contains(fragment), "no {fragment} in {stderr}"));
    }
    assert!(!data.path().join("data").exists(), "the data directory was created");
}

#[tokio::test]
async fn variables_override_the_file_and_flags_override_both() {
    let data = directory();
    let file = data.path().join("settings.toml");
    fs::write(&file, "[collection]\nk = 5\nkeep_text = true\n[limits]\nmatches = 50\n").unwrap();
    let variables = [("LOOKALIKE_CONFIG", file.to_str().unwrap()), ("LOOKALIKE_COLLECTION__K", "6")];
    let server = Server::start_with(&data.path().join("d"), &variables).await;
    let info = server.json("/collections/default").await;
    assert_eq!((info["k"].as_u64(), info["keep_text"].as_bool()), (Some(6), Some(true)));
    let (_, problem) = server.post("/similar", json!({"id": "x", "limit": 51})).await;
    assert!(problem["detail"].as_str().unwrap().contains("1 to 50"), "{problem}");
}

#[test]
fn fingerprint_prints_what_the_library_computes() {
    let data = directory();
    let (good, short, bad) =
        (data.path().join("good.txt"), data.path().join("short.txt"), data.path().join("bad.txt"));
    let words = "市图书馆昨天宣布，从下个月开始延长周末的开放时间，读者\
                 可以在馆内阅读到晚上十点。";
    fs::write(&good, words).unwrap();
    fs::write(&short, "hello").unwrap();
    fs::write(&bad, [0xff, 0xfe]).unwrap();
    let expected = lookalike_text::fingerprint::Profile::default_profile().fingerprint(words).hash;
    let names = [&good, &short, &bad].map(|path| path.to_str().unwrap());
    let output = command(&[&["fingerprint"], names.as_slice()].concat()).output().unwrap();
    let (out, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(out.lines().next(), Some(format!("{expected}  {}", names[0]).as_str()));
    assert_eq!(out.lines().count(), 2);
    assert!(stderr.contains("short.txt: short") && stderr.contains("bad.txt: not UTF-8: byte 0"), "{stderr}");
    let mut child = command(&["fingerprint", "--profile", "copies-128", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
    let line: serde_json::Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!((line["bits"].as_u64(), line["profile"].as_str()), (Some(128), Some("copies-128@1")));
}

#[tokio::test]
async fn import_reports_invalid_lines_and_reads_compressed_files() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let file = data.path().join("documents.jsonl.gz");
    let mut compressed = GzEncoder::new(fs::File::create(&file).unwrap(), Compression::fast());
    compressed.write_all(format!("{}oops\n{}", lines(0..700), lines(700..1_000)).as_bytes()).unwrap();
    compressed.finish().unwrap();
    let output = run(&["import", file.to_str().unwrap(), "--url", &server.url]).await;
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("documents.jsonl.gz:701: oops is not JSON (column 1)")
            && stderr.contains("1000 created")
            && stderr.contains("1 bad line"),
        "{stderr}"
    );
    assert_eq!(server.documents().await, 1_000);
    let output = run(&["import", file.to_str().unwrap(), "--url", &server.url, "--collection", "none"]).await;
    assert!(text(&output.stderr).contains("404"), "{}", text(&output.stderr));
    let others = data.path().join("others.jsonl");
    fs::write(&others, lines(0..1_000).replace("\"id\":\"", "\"id\":\"other")).unwrap();
    let output =
        run(&["import", others.to_str().unwrap(), "--url", &server.url, "--skip-duplicates", "--k", "0"])
            .await;
    assert!(text(&output.stderr).contains("1000 duplicates left out"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn an_interrupted_import_resumes_at_its_position() {
    let data = directory();
    let d = data.path().join("d");
    let file = data.path().join("documents.jsonl");
    fs::write(&file, lines(0..400_000)).unwrap();
    let server = Server::start(&d).await;
    let arguments =
        ["import".to_owned(), file.to_str().unwrap().to_owned(), "--url".to_owned(), server.url.clone()];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut child = command(&arguments).stderr(Stdio::null()).spawn().unwrap();
    let progress = data.path().join("documents.jsonl.import-progress");
    for _ in 0..1_000 {
        if progress.exists() || child.try_wait().unwrap().is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    if !progress.exists() {
        skipped("the machine imported 400,000 documents before the first progress file");
        return;
    }
    let output = run(&arguments).await;
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("going on after line"), "{stderr}");
    assert_eq!(server.documents().await, 400_000);
    assert!(!progress.exists());
}

#[tokio::test]
async fn export_writes_importable_lines_and_healthcheck_reports_readiness() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    server.stream("/documents", lines(0..1_100)).await;
    let file = data.path().join("out.jsonl");
    let output = run(&["export", "--url", &server.url, "--output", file.to_str().unwrap()]).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1_101, "with the header");
    assert!(text(&output.stderr).contains("1100 documents exported"), "{}", text(&output.stderr));
    assert!(run(&["healthcheck", "--url", &server.url]).await.status.success());
    let url = server.url.clone();
    server.kill();
    let output = run(&["healthcheck", "--url", &url]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no server answers"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn a_failed_write_is_reported_and_leaves_no_file() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    server.stream("/documents", lines(0..20_000)).await;
    let name = |name: &str| data.path().join(name).to_str().unwrap().to_owned();
    // Files are limited to 8 blocks, so that writes fail as on a full disk.
    let short = ["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"", BINARY];
    for command in [&["export", "-o"][..], &["backup"]] {
        let output = run(&[command, &[&name("none/x"), "--url", &server.url]].concat()).await;
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(1) && stderr.contains("none/x"), "{command:?}: {stderr}");
        let large = name("large");
        let arguments = [&short, command, &[&large, "--url", &server.url]].concat();
        let mut shell = std::process::Command::new("sh");
        shell.args(arguments);
        let output = tokio::task::spawn_blocking(move || shell.output().unwrap()).await.unwrap();
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(1) && stderr.contains("large.partial cannot be"), "{stderr}");
    }
    let left = fs::read_dir(data.path()).unwrap().count();
    assert_eq!(left, 1, "other files than the data of the server are left");
    let pipe = name("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    assert!(run(&["export", "-o", &pipe, "--url", &server.url]).await.status.success());
    assert_eq!(reader.join().unwrap().lines().count(), 20_001, "a pipe is written to, not replaced");
    let mut child = command(&["export", "--url", &server.url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(141), ""));
}

#[tokio::test]
async fn an_interrupted_backup_leaves_no_file() {
    let data = directory();
    let to = data.path().join("backups");
    fs::create_dir(&to).unwrap();
    // A server whose answer never ends.
    let endless = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", endless.local_addr().unwrap());
    let mut child = command(&["backup", to.to_str().unwrap(), "--url", &url]).spawn().unwrap();
    let (mut peer, _) = endless.accept().await.unwrap();
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    // When the request has arrived, the command has installed its signal handlers.
    assert!(tokio::io::AsyncReadExt::read(&mut peer, &mut [0; 1024]).await.unwrap() > 0);
    tokio::io::AsyncWriteExt::write_all(&mut peer, head).await.unwrap();
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert_eq!((status.code(), fs::read_dir(&to).unwrap().count()), (Some(130), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn import_reads_tables_texts_and_archives_and_sends_a_key() {
    let data = directory();
    let dir = data.path().join("d");
    let created =
        run(&["keys", "create", "loader", "--role", "write", "--data", dir.to_str().unwrap()]).await;
    let key = text(&created.stdout).trim().to_owned();
    let server = Server::start(&dir).await;
    let write = |name: &str, contents: &str| {
        let path = data.path().join(name);
        fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let table = write("a.csv", "id,body,day\nrow-1,\"a text, with a comma\",monday\nrow-2,another text,\n");
    let page = "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://e.org/\r\n\
                Content-Length: 12\r\n\r\na third text\r\n\r\n";
    let archive = write("b.warc.wet", page);
    let note = write("c.txt", "the words of a note");
    let columns = ["--text-field", "body", "--id-field", "id", "--metadata", "day"];
    let import = |files: &[&str], more: &[&str], key: &str| {
        let all = [&["import", "--url", &server.url, "--key", key], files, more].concat();
        command(&all).output().unwrap()
    };
    let output = tokio::task::block_in_place(|| import(&[&table], &columns, &key));
    assert!(text(&output.stderr).contains("2 created"), "{}", text(&output.stderr));
    let output = tokio::task::block_in_place(|| import(&[&archive, &note], &[], &key));
    assert!(text(&output.stderr).contains("2 created"), "{}", text(&output.stderr));
    let wrong = tokio::task::block_in_place(|| import(&[&note], &["--restart"], "lk_wrong"));
    assert!(
        text(&wrong.stderr).contains("401") && !text(&wrong.stderr).contains("lk_wrong"),
        "{}",
        text(&wrong.stderr)
    );
    let output = tokio::task::block_in_place(|| import(&[&table], &["--restart"], &key));
    assert!(text(&output.stderr).contains("there is no column \"text\""), "{}", text(&output.stderr));
    let request = server.client.get(format!("{}/documents/row-1", server.url)).bearer_auth(&key);
    let stored: serde_json::Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(stored["metadata"], json!({"day": "monday"}));
}

#[test]
fn config_print_writes_each_value_with_its_source_as_a_settings_file() {
    let data = directory();
    let file = data.path().join("s.toml");
    fs::write(&file, "[limits]\nmatches = 50\n").unwrap();
    let path = file.to_str().unwrap();
    let mut print = command(&["config", "print", "--config", path, "--data", "/tmp/x"]);
    let output = print.env("LOOKALIKE_POOL__QUEUE", "7").output().unwrap();
    let printed = text(&output.stdout);
    for line in [
        format!("matches = 50  # {path}:2"),
        "queue = 7  # LOOKALIKE_POOL__QUEUE".to_owned(),
        "dir = \"/tmp/x\"  # command-line flag".to_owned(),
        "listen = \"127.0.0.1:8080\"  # built-in default".to_owned(),
    ] {
        assert!(printed.lines().any(|printed| printed == line), "no {line:?} in {printed}");
    }
    fs::write(&file, &printed).unwrap();
    let again = command(&["config", "print", "--config", path]).output().unwrap();
    let value = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split("  #").next().unwrap().to_owned()).collect()
    };
    assert_eq!(value(&text(&again.stdout)), value(&printed));
}

#[test]
fn passwords_in_urls_are_never_printed() {
    let data = directory();
    let file = data.path().join("settings.toml");
    let run = |text: &str, arguments: &[&str], variables: &[(&str, &str)]| {
        fs::write(&file, text).unwrap();
        let mut command = command(arguments);
        let output = command.env("LOOKALIKE_CONFIG", &file).envs(variables.iter().copied()).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let print: &[&str] = &["config", "print"];
    let endpoint = "http://user:s3cr3t@p@ss@localhost:4318/x";
    let variable = [("LOOKALIKE_TRACES__ENDPOINT", endpoint)];
    let cases: [(String, &[&str], &[(&str, &str)]); 6] = [
        (format!("[traces]\nendpoint = {endpoint:?}"), print, &[]),
        (String::new(), print, &variable),
        (String::new(), &["serve", "--log", "x==http://user:s3cr3t@localhost"], &[]),
        // Errors quote the value, or the line if the TOML is invalid.
        (format!("[traces]\npercent = {endpoint:?}"), print, &[]),
        (format!("[traces]\nendpoint = \"{endpoint}"), print, &[]),
        (String::new(), &["healthcheck", "--url", "http://user:s3cr3t@127.0.0.1:9"], &[]),
    ];
    for (text, arguments, variables) in cases {
        let (printed, stderr) = run(&text, arguments, variables);
        for out in [&printed, &stderr] {
            assert!(!out.contains("s3cr3t") && !out.contains("ss@"), "{arguments:?} {text}: {out}");
        }
        assert!(!stderr.is_empty() || printed.contains("http://***@localhost:4318/x"), "{printed}");
    }
    let (printed, _) = run("", print, &variable);
    assert!(printed.contains("endpoint = \"http://***@localhost:4318/x\""), "{printed}");
    let (printed, _) = run("", print, &[("LOOKALIKE_SERVER__HOSTS", "a.example, b")]);
    assert!(printed.contains("hosts = [\"a.example\", \"b\"]  # LOOKALIKE_SERVER__HOSTS"), "{printed}");
}

#[test]
fn config_print_reports_settings_that_serve_refuses() {
    let data = directory();
    let dir = data.path().to_str().unwrap();
    let cases = [
        ("LOOKALIKE_LOG__LEVEL", "loud", "log.level"),
        ("LOOKALIKE_COLLECTION__PROFILE", "nope", "collection.profile"),
        ("LOOKALIKE_COLLECTION__K", "100", "0 to 64"),
        ("LOOKALIKE_TLS__KEY", "tls.key", "go together"),
        ("LOOKALIKE_TRACES__ENDPOINT", "nonsense", "traces.endpoint"),
        ("LOOKALIKE_PROFILES__FILE", "/nonexist", "profiles.file"),
        ("LOOKALIKE_KEYS__FILE", "/nonexist", "keys.file"),
        ("LOOKALIKE_SERVER__LISTEN", "0.0.0.0:0", "there are no keys"),
    ];
    for (variable, value, expected) in cases {
        let run = |arguments: &[&str]| {
            let mut command = command(arguments);
            command.args(["--data", dir]).env("LOOKALIKE_SERVER__LISTEN", "127.0.0.1:0");
            command.env("LOOKALIKE_COLLECTION__PROFILE", "copies-64");
            let output = command.env(variable, value).output().unwrap();
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        let (code, printed, errors) = run(&["config", "print"]);
        assert_eq!(code, Some(78), "{variable}: {errors}");
        assert!(printed.contains("[server]") && errors.contains(expected), "{variable}: {errors}");
        let (code, _, served) = run(&["serve"]);
        assert_eq!(code, Some(78), "{variable}: {served}");
        assert_eq!(served.lines().last(), errors.lines().last(), "{variable}");
    }
}

#[test]
fn manual_writes_a_page_for_each_command_and_completions_for_each_shell() {
    let folder = directory();
    let output = command(&["manual", folder.path().to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let help = command(&["help"]).output().unwrap();
    let listed = text(&help.stdout);
    let commands = listed.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands.map_while(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"dedupe") && !commands.contains(&"manual"), "{listed}");
    for name in commands.into_iter().filter(|name| *name != "help") {
        let page = folder.path().join("man").join(format!("lookalike-{name}.1"));
        assert!(fs::read_to_string(&page).unwrap().contains(name), "{}", page.display());
    }
    assert!(fs::read_to_string(folder.path().join("man/lookalike.1")).unwrap().contains("lookalike"));
    for file in ["lookalike.bash", "lookalike.fish", "_lookalike", "_lookalike.ps1"] {
        let path = folder.path().join("completions").join(file);
        assert!(fs::read_to_string(path).unwrap().contains("dedupe"), "{file}");
    }
}
