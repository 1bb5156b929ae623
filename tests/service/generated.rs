//! What others make of the contract: requests thought up by schemathesis, and a Python client generated from it.
//!
//! Both are programs in Python, from its package index. `.ci/run` installs them into `target/python`; without them the tests say that they skip.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Server, command, directory};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Links that are followed at least in the time that the test takes, on a busy machine too.
const LINKS: u32 = 5;

/// A program of the Python environment.
fn python_program(name: &str) -> Option<PathBuf> {
    let path = Path::new(ROOT).join("target/python/bin").join(name);
    let found = path.exists().then_some(path);
    if found.is_none() {
        println!(
            "skipped: there is no target/python/bin/{name}; make it with `python3 -m venv target/python && \
             target/python/bin/pip install -r tests/requirements.txt`"
        );
    }
    found
}

/// Makes a key; its secret.
fn key(data: &Path, name: &str, arguments: &[&str]) -> String {
    let all = [&["keys", "create", name, "--data", data.to_str().unwrap()], arguments].concat();
    String::from_utf8(command(&all).output().unwrap().stdout).unwrap().trim().to_owned()
}

/// What schemathesis says of the server with a key and these arguments; fails if it finds anything.
async fn finds_nothing(schemathesis: &Path, server: &Server, key: &str, arguments: &[&str]) -> String {
    let mut run = Command::new(schemathesis);
    run.args([
        "--config-file",
        "tests/service/schemathesis.toml",
        "run",
        "openapi.yaml",
        "--url",
        &server.url,
    ])
    .args(["--checks", "all", "--generation-database", "none", "--no-color"])
    // It cannot make a backup; tests/service/backup.rs has the damaged ones.
    .args(["--exclude-path", "/collections/{collection}/restore"])
    .args(["--header", &format!("X-API-Key: {key}")])
    .args(arguments)
    .env("SCHEMATHESIS_HOOKS", "tests/service/schemathesis_hooks.py")
    .current_dir(ROOT);
    let output = tokio::task::spawn_blocking(move || run.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{wrong}\n{}", server.log());
    assert!(!server.log().contains("panicked"), "{}", server.log());
    assert!(server.get("/readyz").await.status().is_success());
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing_with_two_keys() {
    let Some(schemathesis) = python_program("schemathesis") else { return };
    let data = directory();
    let keys =
        [key(data.path(), "admin", &["--role", "admin"]), key(data.path(), "reader", &["--role", "read"])];
    let server = Server::start(data.path()).await;
    for key in keys {
        let arguments = ["--phases", "examples,coverage,fuzzing", "--max-examples", "10"];
        finds_nothing(&schemathesis, &server, &key, &arguments).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_follows_the_links_from_answer_to_answer_and_finds_nothing() {
    let Some(schemathesis) = python_program("schemathesis") else { return };
    let data = directory();
    let admin = key(data.path(), "admin", &["--role", "admin"]);
    let server = Server::start(data.path()).await;
    // What was made is there, what was deleted is gone, and nothing fails on the way: as long as the time
    // lasts.
    let arguments = ["--phases", "stateful", "--max-time", "45"];
    let said = finds_nothing(&schemathesis, &server, &admin, &arguments).await;
    let covered =
        said.lines().find_map(|line| line.trim().strip_prefix("API Links:")?.trim().split(' ').next());
    let covered: u32 = covered.expect("it says how many links it followed").parse().unwrap();
    assert!(covered >= LINKS, "only {covered} links were followed:\n{said}");
    println!("{covered} links followed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generated_python_client_makes_the_tour() {
    let Some(generator) = python_program("openapi-python-client") else { return };
    let made = directory();
    let client = made.path().join("lookalike_client");
    let mut generate = Command::new(generator);
    generate
        .args(["generate", "--meta", "none", "--path", "openapi.yaml", "--output-path"])
        .arg(&client)
        .current_dir(ROOT);
    // The generator formats what it made if it finds the formatter, which is beside it.
    let output = generate.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains("will not be generated"), "{said}");
    let data = made.path().join("data");
    let key = key(&data, "tourist", &["--role", "admin"]);
    let server = Server::start(&data).await;
    let mut tour = Command::new(Path::new(ROOT).join("target/python/bin/python"));
    tour.arg("tests/service/tour.py")
        .args([&server.url, &key])
        .env("PYTHONPATH", made.path())
        .current_dir(ROOT);
    let output = tokio::task::spawn_blocking(move || tour.output().unwrap()).await.unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && said.contains("the tour is made"),
        "{said}\n{wrong}\n{}",
        server.log()
    );
}
