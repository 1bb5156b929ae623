//! The layers of `ARCHITECTURE.md`, enforced: which module may import which, and how every file starts.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The modules that each module of `src` may import, beside the crates, whose arrows Cargo enforces. A new
/// row or edge is a decision: change this table and give the reason in `ARCHITECTURE.md`.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("config", &[]),
    ("telemetry", &[]),
    ("server", &["config", "telemetry"]),
    ("cli", &["config", "telemetry", "server"]),
    ("main", &["cli"]),
];

/// The pure crates: no I/O, no clock, no async; and their modules that read and write files, or measure the
/// processor.
const PURE: &[&str] = &["hash", "pages", "words", "text", "images", "hamming", "corpus", "dedupe"];
const IMPURE_MODULES: &[&str] =
    &["crates/text/src/profiles", "crates/hamming/src/snapshot", "crates/hamming/src/costs"];
const IMPURE: &[&str] = &["std::fs", "std::net", "std::time", "std::env", "tokio", "async fn", "futures"];

/// The sources of the binary, of the crates and of the Python package.
fn sources() -> BTreeMap<PathBuf, String> {
    let of_crates = files_in("crates", &["rs"]);
    let mut all: BTreeMap<_, _> =
        of_crates.into_iter().filter(|(path, _)| inside(path).split('/').nth(2) == Some("src")).collect();
    all.extend(files_in("src", &["rs"]));
    all.extend(files_in("python/src", &["rs"]));
    all
}

/// A path from the root of the repository.
fn inside(path: &Path) -> &str {
    path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().to_str().unwrap()
}

/// The files with these endings in a directory and below it.
fn files_in(directory: &str, endings: &[&str]) -> BTreeMap<PathBuf, String> {
    fn collect(dir: &Path, endings: &[&str], found: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, endings, found);
            } else if endings.iter().any(|ending| path.extension().is_some_and(|own| own == *ending)) {
                found.insert(path.clone(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory), endings, &mut found);
    found
}

/// The top-level module of a file of the binary; `None` for a file of a crate.
fn module_of(path: &Path) -> Option<&str> {
    inside(path).strip_prefix("src/")?.split(['/', '.']).next()
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
        let Some(module) = module_of(&path).filter(|module| *module != "lib") else { continue };
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
    assert!(edges > 10, "only {edges} imports were found: the test does not parse them");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_pure_crates_have_no_side_effects() {
    let mut wrong = Vec::new();
    for (path, source) in sources() {
        let place = inside(&path);
        let is_pure = PURE.iter().any(|pure| place.starts_with(&format!("crates/{pure}/")));
        if !is_pure || IMPURE_MODULES.iter().any(|module| place.starts_with(module)) {
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
fn only_the_errors_of_the_contract_name_error_statuses() {
    for (path, source) in sources() {
        if source.contains("StatusCode::") && !path.ends_with("api/src/error.rs") {
            let successes = ["OK", "CREATED", "ACCEPTED", "NO_CONTENT", "NOT_MODIFIED"];
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

/// The code of a file without its unit tests and comments; nothing for a file of tests.
fn code_of(path: &Path, source: &str) -> String {
    let is_test =
        ["tests.rs", "golden.rs", "model.rs"].iter().any(|name| path.to_string_lossy().ends_with(name));
    let code = source.split("#[cfg(test)]\nmod tests {").next().filter(|_| !is_test).unwrap_or_default();
    // An import or a re-export is not a use.
    let is_code =
        |line: &&str| !["//", "use ", "pub use "].iter().any(|start| line.trim_start().starts_with(start));
    code.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn every_file_says_what_it_is_and_none_is_too_long() {
    for (path, source) in sources() {
        assert!(source.starts_with("//!"), "{} does not open with //!", path.display());
        let lines = source.split("#[cfg(test)]\nmod tests {").next().unwrap().lines().count();
        assert!(lines <= 500, "{} has {lines} lines; split it by subject", path.display());
    }
}

#[test]
fn no_line_is_wider_than_110_columns() {
    const ENDINGS: [&str; 9] = ["rs", "py", "pyi", "md", "toml", "yml", "js", "css", "html"];
    let directories =
        ["src", "console", "tests", "benches", "fuzz", "config", "docs", "crates", "python", "release"];
    let mut files: BTreeMap<_, _> =
        directories.iter().flat_map(|directory| files_in(directory, &ENDINGS)).collect();
    let names = ["README.md", "README.zh-CN.md", "ARCHITECTURE.md", "CHANGELOG.md", "Cargo.toml"];
    for name in names.into_iter().chain(["docker-compose.yml"]) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        files.insert(path.clone(), fs::read_to_string(path).unwrap());
    }
    let mut wide = Vec::new();
    for (path, source) in files {
        // In a document, a row of a table and the output of a program have the width that they have.
        let is_document = path.extension().is_some_and(|ending| ending == "md");
        let mut is_output = false;
        for (number, line) in source.lines().enumerate() {
            is_output ^= line.trim_start().starts_with("```");
            if line.chars().count() > 110 && !(is_document && (is_output || line.starts_with('|'))) {
                wide.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

/// The blocks of code in a document, without the comments, which are in its language.
fn code_blocks(document: &str) -> Vec<String> {
    let without_comment = |line: &str| -> String {
        let comment = line.find("  # ").or_else(|| line.starts_with("# ").then_some(0));
        line[..comment.unwrap_or(line.len())].trim_end().to_owned() + "\n"
    };
    let pieces = document.split("```").skip(1).step_by(2);
    pieces.map(|block| block.lines().map(without_comment).collect()).collect()
}

#[test]
fn both_readmes_have_the_same_commands() {
    let read = |name: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let (english, chinese) = (read("README.md"), read("README.zh-CN.md"));
    let (left, right) = (code_blocks(&english), code_blocks(&chinese));
    assert!(left.len() > 9 && left.iter().any(|block| block.contains("dedupe news.jsonl")), "{left:?}");
    assert_eq!(left.len(), right.len());
    left.iter().zip(&right).for_each(|(left, right)| assert_eq!(left, right));
    let headings = |text: &str| text.lines().filter(|line| line.starts_with("## ")).count();
    assert_eq!(headings(&english), headings(&chinese));
    assert!(english.contains("](README.zh-CN.md)") && chinese.contains("](README.md)"));
}

#[test]
fn modules_of_the_console_are_small_and_insert_no_markup() {
    let modules = files_in("console", &["js"]);
    assert!(modules.len() > 15, "only {} modules were found", modules.len());
    let forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "localStorage.setItem(\"key\"",
        "http:",
        "https:",
    ];
    for (path, source) in modules {
        let name = path.display();
        assert!(source.starts_with("// "), "{name} does not open with a comment that says what it is");
        assert!(source.lines().count() <= 500, "{name} is too long; split it by subject");
        for word in forbidden.iter().filter(|word| source.contains(**word)) {
            // The name of the namespace of SVG looks like an address.
            let is_namespace = source.matches(word).count() == source.matches("http://www.w3.org/").count();
            assert!(is_namespace, "{name}: {word}");
        }
    }
}

#[test]
fn the_dictionaries_of_the_console_have_the_same_keys() {
    let sources = files_in("console", &["js"]);
    let is_of = |path: &Path, language: &str| {
        [".js", "-work.js"].iter().any(|end| path.ends_with(format!("{language}{end}")))
    };
    let keys = |language: &str| -> BTreeSet<String> {
        let sources = sources.iter().filter(|(path, _)| is_of(path, language));
        let lines = sources.flat_map(|(_, source)| source.lines());
        let keys = lines.filter_map(|line| line.strip_prefix("  \"")?.split_once("\":"));
        keys.map(|(key, _)| key.to_owned()).collect()
    };
    let (english, chinese) = (keys("en"), keys("zh"));
    assert!(english.len() > 100, "only {} keys were found", english.len());
    let differing: Vec<&String> = english.symmetric_difference(&chinese).collect();
    assert!(differing.is_empty(), "in one dictionary only: {differing:?}");
    let others: String = sources
        .iter()
        .filter(|(path, _)| !is_of(path, "en") && !is_of(path, "zh"))
        .map(|(_, source)| source.as_str())
        .collect();
    // The part of a key after the last point may be computed.
    let is_used = |key: &&String| {
        let stem = key.rsplit_once('.').map_or("", |(stem, _)| stem);
        others.contains(&format!("\"{key}\"")) || others.contains(&format!("`{stem}.${{"))
    };
    let unused: Vec<&String> = english.iter().filter(|key| !is_used(key)).collect();
    assert!(unused.is_empty(), "no module uses {unused:?}");
}

/// Items that only tests and benchmarks call: they choose forms, layouts and plans that the index chooses by
/// itself. `pairs_within` is the engine of finding all pairs of a corpus. `simhash_of` hashes words with the
/// weights that golden lists of another program have. The others are for programs that use a crate without
/// all of its features.
const FOR_TESTS: [&str; 8] = [
    "in_form",
    "with_layouts_from",
    "within_radii",
    "pairs_within",
    "simhash_of",
    "try_fingerprint",
    "try_explain",
    "try_feature_set",
];

#[test]
fn every_item_has_a_caller_outside_tests() {
    let code: Vec<(PathBuf, String)> =
        sources().into_iter().map(|(path, source)| (path.clone(), code_of(&path, &source))).collect();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    let words = |text: &'static str| text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let all: &'static str = code.iter().map(|(_, code)| &**code).collect::<String>().leak();
    words(all).for_each(|word| *uses.entry(word).or_default() += 1);
    let kinds = ["fn ", "struct ", "enum ", "trait ", "const ", "static ", "type "];
    let mut unused = Vec::new();
    for (path, code) in &code {
        let mut is_for_tests = false;
        for line in code.lines().map(str::trim_start) {
            let was_for_tests = std::mem::replace(&mut is_for_tests, line.starts_with("#[cfg(test)]"));
            let Some(item) = line.strip_prefix("pub").filter(|_| !was_for_tests) else { continue };
            let name = kinds.iter().find_map(|kind| item.split_once(kind)).map(|(_, rest)| rest);
            let name = name.and_then(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
            if let Some(name) = name.filter(|name| !name.is_empty() && !FOR_TESTS.contains(name))
                && uses.get(name).copied().unwrap_or_default() < 2
            {
                unused.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(uses.len() > 1_000 && unused.is_empty(), "no caller outside tests: {unused:?}");
}

#[test]
fn the_path_of_a_route_is_spelled_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let contract = fs::read_to_string(root.join("openapi.yaml")).unwrap();
    let keys = contract.lines().filter_map(|line| line.strip_prefix("  /")?.strip_suffix(':'));
    // The path of a collection comes before those in it.
    let paths: BTreeSet<String> = keys
        .map(|path| format!("/{}", path.strip_prefix("collections/{collection}/").unwrap_or(path)))
        .collect();
    assert!(paths.len() > 30 && paths.contains("/similar"), "{paths:?}");
    let code: String = sources()
        .into_iter()
        .filter(|(path, _)| path.starts_with(root.join("crates/http/src")))
        .map(|(path, source)| code_of(&path, &source))
        .collect();
    let wrong: Vec<&String> =
        paths.iter().filter(|path| code.matches(&format!("\"{path}\"")).count() != 1).collect();
    assert!(wrong.is_empty(), "not spelled once in crates/http/src: {wrong:?}");
}

#[test]
fn imports_are_parsed_in_every_form() {
    let source = "use crate::ids::Hash;\nuse crate::{text, features::Bag};\n\
                  let x = crate::store::open(); // crate::not\n";
    assert_eq!(named_modules(source), ["ids", "text", "features", "store"]);
}

/// The first stage of the image has manifests without sources. Cargo must read them, and builds nothing if
/// one names a target whose file is not there.
#[test]
fn the_manifests_of_the_image_are_read_without_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dockerfile = fs::read_to_string(root.join("Dockerfile")).unwrap();
    let stage = dockerfile.split("AS manifests\n").nth(1).unwrap().split("\nFROM").next().unwrap();
    let (copies, run) = stage.split_once("\nRUN ").unwrap();
    let build = std::env::temp_dir().join(format!("lookalike-manifests-{}", std::process::id()));
    fs::create_dir_all(build.join("python")).unwrap();
    for copy in copies.lines().filter_map(|line| line.strip_prefix("COPY ")) {
        let (from, to) = copy.rsplit_once(' ').unwrap();
        let from = from.split(' ').map(|from| root.join(from));
        let done = Command::new("cp").arg("-r").args(from).arg(build.join(to)).status().unwrap();
        assert!(done.success(), "{copy}");
    }
    let named = "grep -rn '^\\[\\[' --include Cargo.toml .";
    let read =
        format!("{run}\ncargo metadata --offline --no-deps --format-version 1 >metadata\n! {named} >&2");
    let done = Command::new("sh").args(["-ec", &read]).current_dir(&build).output().unwrap();
    fs::remove_dir_all(&build).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
