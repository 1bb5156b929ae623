//! The layers of `ARCHITECTURE.md`, enforced: which module may import which, and how every file starts.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules that each module may import. A new row or edge is a decision: change this table and give the
/// reason in `ARCHITECTURE.md`.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("ids", &[]),
    ("call", &[]),
    ("pool", &["call", "machine"]),
    ("text", &[]),
    ("features", &["text"]),
    ("fingerprint", &["ids", "text", "features"]),
    ("index", &["ids"]),
    ("store", &["ids"]),
    ("snapshot", &["ids", "index"]),
    ("backup", &["ids", "store"]),
    ("engine", &["ids", "fingerprint", "index", "store", "snapshot", "backup", "pool", "call"]),
    ("profiles", &["ids", "text", "features", "fingerprint"]),
    ("eval", &["ids", "fingerprint", "index"]),
    ("service", &["ids", "text", "features", "fingerprint", "engine", "eval", "pool", "call"]),
    ("keys", &["ids"]),
    ("client", &[]),
    ("http", &["ids", "keys", "service", "call"]),
    ("config", &[]),
    ("telemetry", &[]),
    ("machine", &[]),
    (
        "server",
        &[
            "ids",
            "call",
            "pool",
            "text",
            "features",
            "fingerprint",
            "index",
            "store",
            "snapshot",
            "backup",
            "profiles",
            "engine",
            "service",
            "keys",
            "http",
            "config",
            "telemetry",
            "machine",
        ],
    ),
    (
        "cli",
        &[
            "ids",
            "config",
            "telemetry",
            "server",
            "fingerprint",
            "text",
            "http",
            "engine",
            "store",
            "backup",
            "eval",
            "features",
            "profiles",
            "keys",
            "client",
            "machine",
        ],
    ),
    ("main", &["cli"]),
];

/// The pure layers: no I/O, no clock, no async, no serde.
const PURE: &[&str] = &["ids", "text", "features", "fingerprint", "index"];
const IMPURE: &[&str] =
    &["std::fs", "std::net", "std::time", "std::env", "tokio", "serde", "async fn", "futures"];

fn sources() -> BTreeMap<PathBuf, String> {
    fn collect(dir: &Path, found: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.insert(path.clone(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found
}

/// The top-level module of a file.
fn module_of(path: &Path) -> String {
    let inside = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let first = inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// The modules that a source names: after `crate::`, alone or in braces, and after `lookalike::` in the
/// binary.
fn named_modules(source: &str) -> Vec<String> {
    let code: String = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line.split(" //").next().unwrap_or_default(), "\n"])
        .collect();
    let mut named = Vec::new();
    for root in ["crate::", "lookalike::"] {
        for (at, _) in code.match_indices(root) {
            let rest = &code[at + root.len()..];
            let words = |text: &str| -> Vec<String> {
                text.split(',')
                    .filter_map(|part| {
                        part.trim().split([':', ' ', ';', '\n', '}', '(']).next().map(str::to_owned)
                    })
                    .collect()
            };
            if let Some(list) = rest.strip_prefix('{') {
                named.extend(words(list.split('}').next().unwrap_or_default()));
            } else {
                named.extend(words(rest.split([';', '\n']).next().unwrap_or_default()).into_iter().take(1));
            }
        }
    }
    let word = |text: &String| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    named.retain(word);
    named
}

#[test]
fn modules_import_only_what_the_table_allows() {
    let mut wrong = Vec::new();
    let mut edges = 0;
    for (path, source) in sources() {
        let module = module_of(&path);
        if module == "lib" {
            continue;
        }
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{} is in no module of the table", path.display()));
            continue;
        };
        for named in named_modules(&source) {
            edges += 1;
            if named != module && !allowed.contains(&named.as_str()) {
                wrong.push(format!("{} imports {named}, which {module} may not", path.display()));
            }
        }
    }
    assert!(edges > 100, "only {edges} imports were found: the test does not parse them");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_pure_layers_have_no_side_effects() {
    let mut wrong = Vec::new();
    for (path, source) in sources() {
        if !PURE.contains(&module_of(&path).as_str()) {
            continue;
        }
        let code = source.split("#![cfg(test)]").next().unwrap_or_default();
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for word in IMPURE.iter().filter(|word| line.contains(**word)) {
                wrong.push(format!("{}: {word} in {:?}", path.display(), line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_http_error_names_error_statuses() {
    for (path, source) in sources() {
        if source.contains("StatusCode::") && !path.ends_with("http/error.rs") {
            let successes = ["OK", "CREATED", "ACCEPTED", "NO_CONTENT"];
            for (at, _) in source.match_indices("StatusCode::") {
                let name = &source[at + "StatusCode::".len()..];
                assert!(successes.iter().any(|known| name.starts_with(known)), "{}", path.display());
            }
        }
    }
}

/// The names that are the first argument of these macros.
fn named_metrics(source: &str, macros: [&str; 3]) -> Vec<String> {
    let calls = macros.iter().flat_map(|name| source.match_indices(*name).map(|(at, _)| at + name.len()));
    let names = calls.filter_map(|at| source[at..].trim_start().strip_prefix('"')?.split('"').next());
    names.map(str::to_owned).collect()
}

#[test]
fn every_metric_is_described() {
    let (mut used, mut described) = (Vec::new(), Vec::new());
    for source in sources().values() {
        let descriptions = ["describe_counter!(", "describe_gauge!(", "describe_histogram!("];
        described.extend(named_metrics(source, descriptions));
        // The describing macros end in the names of the recording ones.
        let rest =
            descriptions.iter().fold(source.clone(), |rest, description| rest.replace(description, ""));
        used.extend(named_metrics(&rest, ["counter!(", "gauge!(", "histogram!("]));
    }
    assert!(used.len() > 15, "only {used:?} were found: the test does not parse them");
    used.retain(|name| !described.contains(name));
    assert!(used.is_empty(), "src/telemetry describes none of {used:?}: promtool rejects them");
}

#[test]
fn every_file_says_what_it_is_and_none_is_too_long() {
    for (path, source) in sources() {
        assert!(source.starts_with("//!"), "{} does not open with //!", path.display());
        let lines = source.lines().count();
        assert!(lines <= 600, "{} has {lines} lines; split it by subject", path.display());
    }
}

#[test]
fn imports_are_parsed_in_every_form() {
    let source = "use crate::ids::Hash;\nuse crate::{text, features::Bag};\n\
                  let x = crate::store::open(); // crate::not\n";
    assert_eq!(named_modules(source), ["ids", "text", "features", "store"]);
}
