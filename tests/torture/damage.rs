//! Damage of every kind to every file: the server starts with the same state, or it refuses to start.
//!
//! A refusal has exit code 65, or 1 if a file is not readable. It names the file and, for damaged bytes of
//! a journal, the offset, and does not change the directory. Each mutation is chosen by the seed and
//! applied to a copy of one directory.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use fastrand::Rng;
use xxhash_rust::xxh3::xxh3_64;

use crate::audit::{audit, sent_only};
use crate::bench::{Bench, SHORT, copy, cycles, seeded};
use crate::load::Load;
use crate::server::{self, Ended, Server};

/// The user id of the server if the test runs as root, to which file permissions do not apply.
const NOBODY: u32 = 65_534;

/// A directory to damage, and an earlier state of it.
struct Original {
    bench: Bench,
    stale: PathBuf,
}

/// Creates a directory with documents, collections, deletions, two snapshots and a journal after them, left
/// by a kill. It depends only on the seed, except for times.
async fn original(rng: &mut Rng) -> Original {
    let bench = Bench::new();
    let stale = bench.data.with_file_name("stale");
    for part in 0..4 {
        let server = Server::start_with(&bench.data, SHORT).await;
        Load::steps(&server.url, &bench.ledger, 40, rng).await;
        if part == 1 || part == 2 {
            assert!(server.post("/snapshots", serde_json::Value::Null).await.0.is_success());
            Load::steps(&server.url, &bench.ledger, 20, rng).await;
        }
        if part == 3 {
            bench.audit(&server, "before any damage").await;
        }
        // A graceful shutdown flushes the memtables.
        if part % 2 == 0 {
            assert!(server.stop().success());
        } else {
            server.kill();
        }
        if part == 1 {
            copy(&bench.data, &stale);
        }
    }
    Original { bench, stale }
}

/// Relative paths of all files below `dir`.
fn files(dir: &Path) -> Vec<String> {
    fn collect(root: &Path, dir: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(root, &path, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    collect(dir, dir, &mut found);
    found.sort();
    found
}

/// Checksums of all files, except for the lock file, which any command may create again.
fn checksums(dir: &Path) -> BTreeMap<String, u64> {
    let read = |file: String| {
        let sum = xxh3_64(&fs::read(dir.join(&file)).unwrap_or_default());
        (file, sum)
    };
    files(dir).into_iter().filter(|file| file != "store/LOCK").map(read).collect()
}

/// A change of a directory.
#[derive(Clone, Debug)]
enum Mutation {
    Flip { file: String, byte: u64, bit: u8 },
    Zero { file: String, from: u64, length: u64 },
    Cut { file: String, length: u64 },
    Delete { file: String },
    Swap { file: String, with: String },
    Stale { file: String },
    Forbid { file: String },
}

impl Mutation {
    /// A random mutation that changes at least one byte or permission.
    fn draw(original: &Original, files: &[String], rng: &mut Rng) -> Mutation {
        loop {
            let file = rng.choice(files).unwrap().clone();
            let bytes = fs::read(original.bench.data.join(&file)).unwrap();
            // The length of the written part; the rest of preallocated files is zeros.
            let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
            let within = |rng: &mut Rng| {
                if rng.u32(..10) == 0 { rng.u64(..bytes.len() as u64) } else { rng.u64(..written) }
            };
            match rng.u32(..12) {
                0..4 if written > 0 => {
                    return Mutation::Flip { byte: within(rng), bit: rng.u8(..8), file };
                }
                4..6 if written > 0 => {
                    let from = rng.u64(..written);
                    let length = rng.choice([1, 16, 512, 4_096]).unwrap().min(bytes.len() as u64 - from);
                    let range = from as usize..(from + length) as usize;
                    if bytes[range].iter().any(|byte| *byte != 0) {
                        return Mutation::Zero { file, from, length };
                    }
                }
                6..8 if written > 0 => return Mutation::Cut { length: within(rng), file },
                8 => return Mutation::Delete { file },
                9 => {
                    let with = rng.choice(files).unwrap().clone();
                    if fs::read(original.bench.data.join(&with)).unwrap() != bytes {
                        return Mutation::Swap { file, with };
                    }
                }
                10 if fs::read(original.stale.join(&file)).is_ok_and(|stale| stale != bytes) => {
                    return Mutation::Stale { file };
                }
                11 => return Mutation::Forbid { file },
                _ => {}
            }
        }
    }

    /// The exit code of a start that is refused because of this mutation.
    fn refusal(&self) -> i32 {
        if matches!(self, Mutation::Forbid { .. }) { 1 } else { 65 }
    }

    fn apply(&self, data: &Path, stale: &Path) {
        let open =
            |file: &String| fs::OpenOptions::new().read(true).write(true).open(data.join(file)).unwrap();
        match self {
            Mutation::Flip { file, byte, bit } => {
                let mut value = [0];
                let file = open(file);
                file.read_exact_at(&mut value, *byte).unwrap();
                file.write_all_at(&[value[0] ^ 1 << bit], *byte).unwrap();
            }
            Mutation::Zero { file, from, length } => {
                open(file).write_all_at(&vec![0; *length as usize], *from).unwrap();
            }
            Mutation::Cut { file, length } => open(file).set_len(*length).unwrap(),
            Mutation::Delete { file } => fs::remove_file(data.join(file)).unwrap(),
            Mutation::Swap { file, with } => {
                let aside = data.join("aside");
                fs::rename(data.join(file), &aside).unwrap();
                fs::rename(data.join(with), data.join(file)).unwrap();
                fs::rename(aside, data.join(with)).unwrap();
            }
            Mutation::Stale { file } => {
                fs::remove_file(data.join(file)).unwrap();
                copy(&stale.join(file), &data.join(file));
            }
            Mutation::Forbid { file } => {
                fs::set_permissions(data.join(file), Permissions::from_mode(0o000)).unwrap();
            }
        }
    }

    /// The changed files.
    fn files(&self) -> Vec<&str> {
        match self {
            Mutation::Flip { file, .. }
            | Mutation::Zero { file, .. }
            | Mutation::Cut { file, .. }
            | Mutation::Delete { file }
            | Mutation::Stale { file }
            | Mutation::Forbid { file } => vec![file],
            Mutation::Swap { file, with } => vec![file, with],
        }
    }

    /// Whether it damages bytes of a journal, for which the message must have an offset; for other files
    /// the name is enough.
    fn has_offset(&self) -> bool {
        match self {
            Mutation::Flip { file, .. } | Mutation::Zero { file, .. } => {
                Path::new(file).extension().is_some_and(|ext| ext == "journal")
            }
            _ => false,
        }
    }

    /// Whether a repair can succeed. A repair that needs an unreadable file stops, because the file may be
    /// undamaged.
    fn can_be_repaired(&self) -> bool {
        !matches!(self, Mutation::Forbid { .. })
    }

    /// Whether it always makes a snapshot unreadable.
    fn breaks_a_snapshot(&self) -> bool {
        let snapshot = self.files().iter().all(|file| file.starts_with("snapshots/"));
        snapshot && matches!(self, Mutation::Flip { .. } | Mutation::Zero { .. } | Mutation::Cut { .. })
    }

    /// The kind of mutation and of file, for the table.
    fn kind(&self) -> String {
        let digits = |file: &&str| {
            let name: String = file.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
            name.replace("##", "#")
                .replace("##", "#")
                .replace("##", "#")
                .replace("##", "#")
                .replace("##", "#")
        };
        let files: Vec<String> = self.files().iter().map(digits).collect();
        let name = format!("{self:?}");
        format!("{} {}", name.split(' ').next().unwrap_or_default(), files.join(" <-> "))
    }
}

/// The command as a user to whom file permissions apply.
fn restricted(command: Command) -> Command {
    // Root can read a file of mode 000.
    if is_root() { as_nobody(command) } else { command }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}

fn as_nobody(mut command: Command) -> Command {
    use std::os::unix::process::CommandExt;
    command.uid(NOBODY).gid(NOBODY);
    command
}

fn change_owner(dir: &Path) {
    if is_root() {
        let owner = format!("{NOBODY}:{NOBODY}");
        assert!(Command::new("chown").args(["-R", &owner]).arg(dir).status().unwrap().success());
    }
}

/// The result of a start, `verify` or `repair` on a damaged directory.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    Refused,
    Wrong(String),
}

impl Verdict {
    fn of(faults: Vec<String>, otherwise: Verdict, output_text: &str) -> Verdict {
        if faults.is_empty() {
            otherwise
        } else {
            Verdict::Wrong(format!("{}: {output_text}", faults.join(", ")))
        }
    }
}

/// Whether a message names a damaged file, or its directory: a missing, stale or dangling file is detected
/// only by other files of its directory.
fn names(output_text: &str, mutation: &Mutation) -> bool {
    mutation.files().iter().any(|file| {
        let parent = Path::new(file).parent().and_then(Path::to_str).filter(|parent| !parent.is_empty());
        output_text.contains(file) || parent.is_some_and(|parent| output_text.contains(&format!("/{parent}")))
    })
}

async fn start(original: &Original, mutation: &Mutation, copy: &Path) -> Verdict {
    let before = checksums(copy);
    match Server::launch(restricted(server::serve(copy, SHORT))).await {
        Ok(server) => {
            let audited = audit(&server, &original.bench.ledger).await;
            server.kill();
            match audited {
                Ok(_) => Verdict::Same,
                Err(violations) => Verdict::Wrong(format!(
                    "STARTED WITH ANOTHER STATE: {} violations: {}",
                    violations.len(),
                    violations[0]
                )),
            }
        }
        Err(Ended { status, log }) => {
            let output_text =
                log.lines().filter(|line| !line.contains("listening")).collect::<Vec<_>>().join(" | ");
            let mut faults = Vec::new();
            if status.code() != Some(mutation.refusal()) {
                faults.push(format!("{status}, not {}", mutation.refusal()));
            }
            if !names(&output_text, mutation) {
                faults.push("the file is not named".to_owned());
            }
            if mutation.has_offset() && !output_text.contains("byte") {
                faults.push("the offset is not named".to_owned());
            }
            if checksums(copy) != before {
                faults.push("the directory was changed".to_owned());
            }
            Verdict::of(faults, Verdict::Refused, &output_text)
        }
    }
}

/// Runs a command of the binary. Returns its exit code and its output.
fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let output = restricted(server::command(arguments)).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), text.replace('\n', " | "))
}

/// `lookalike verify` changes nothing and predicts the result of a start.
fn verify(mutation: &Mutation, copy: &Path) -> Verdict {
    let before = checksums(copy);
    let (code, output_text) = run(&["verify", copy.to_str().unwrap()]);
    let mut faults = Vec::new();
    if checksums(copy) != before {
        faults.push("verify changed the directory".to_owned());
    }
    let verdict = match code {
        Some(0) if mutation.breaks_a_snapshot() => {
            faults.push("verify reports no damage of a snapshot".to_owned());
            Verdict::Same
        }
        Some(0) => Verdict::Same,
        Some(1 | 65) if !names(&output_text, mutation) => {
            faults.push("verify does not name the file".to_owned());
            Verdict::Refused
        }
        // A start succeeds in spite of damaged snapshots.
        Some(65) if output_text.contains("the documents are whole") => Verdict::Same,
        Some(code) if code == mutation.refusal() => Verdict::Refused,
        _ => {
            faults.push(format!("verify ends with {code:?}"));
            Verdict::Same
        }
    };
    Verdict::of(faults, verdict, &output_text)
}

/// The numbers in the last line of a report that begins with this word.
fn numbers(output_text: &str, word: &str) -> Vec<u64> {
    let line = output_text.rsplit(" | ").find(|line| line.starts_with(word)).unwrap_or_default();
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// `lookalike repair` does not change the directory and creates one that starts. The new directory has only
/// documents that were sent, as many as the report says, and exactly the original ones if the report says
/// that it is complete. Returns the verdict, and whether the repair was complete.
async fn repair(original: &Original, copy: &Path) -> (Verdict, bool) {
    let before = checksums(copy);
    let home = copy.with_file_name("repaired");
    let _ = fs::remove_dir_all(&home);
    fs::create_dir(&home).unwrap();
    change_owner(&home);
    let to = home.join("data");
    let (code, output_text) = run(&["repair", copy.to_str().unwrap(), "--to", to.to_str().unwrap()]);
    let mut faults = Vec::new();
    if checksums(copy) != before {
        faults.push("repair changed the damaged directory".to_owned());
    }
    if output_text.contains("panicked") {
        faults.push("repair panicked".to_owned());
    }
    let is_complete = code == Some(0);
    if !is_complete && code != Some(3) {
        faults.push(format!("repair ends with {code:?}"));
        return (Verdict::of(faults, Verdict::Same, &output_text), false);
    }
    if run(&["verify", to.to_str().unwrap()]).0 != Some(0) {
        faults.push("the result of repair is damaged".to_owned());
    }
    match Server::launch(restricted(server::serve(&to, &[]))).await {
        Err(ended) => faults.push(format!("the result of repair does not start: {}", ended.log)),
        Ok(server) => {
            faults.extend(sent_only(&server, &original.bench.ledger).await.err());
            let reported = numbers(&output_text, "documents:").get(1).copied();
            let found = documents(&server).await;
            if reported != Some(found) {
                faults.push(format!("repair reports {reported:?} documents, there are {found}"));
            }
            if is_complete && let Err(violations) = audit(&server, &original.bench.ledger).await {
                faults.push(format!("repair reports that it is complete: {}", violations[0]));
            }
            server.kill();
        }
    }
    (Verdict::of(faults, Verdict::Same, &output_text), is_complete)
}

/// The number of documents in all collections.
async fn documents(server: &Server) -> u64 {
    let listed = server.json("/collections").await;
    let counts = listed["collections"].as_array().unwrap().iter().map(|of| of["documents"].as_u64().unwrap());
    counts.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_harmless_or_refused_with_the_file() {
    let (mut rng, cycles) = (seeded(), cycles(170));
    let original = original(&mut rng).await;
    // The server may run as `nobody`, which needs access to the parent directory.
    fs::set_permissions(original.bench.data.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let all = files(&original.bench.data);
    let mut table: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let (mut violations, mut repaired) = (BTreeMap::new(), [0, 0]);
    let copied = original.bench.data.with_file_name("copy");
    for _ in 0..cycles {
        let mutation = Mutation::draw(&original, &all, &mut rng);
        copy(&original.bench.data, &copied);
        change_owner(&copied);
        mutation.apply(&copied, &original.stale);
        change_owner(&copied);
        let mut verdicts = vec![verify(&mutation, &copied)];
        if verdicts[0] == Verdict::Refused && mutation.can_be_repaired() {
            let (verdict, is_complete) = repair(&original, &copied).await;
            verdicts.push(verdict);
            repaired[usize::from(is_complete)] += 1;
        }
        let started = start(&original, &mutation, &copied).await;
        let (expected, actual) = (&verdicts[0], &started);
        // Without access to the lock file, `verify` can read the data, but a start must fail.
        let is_lock = matches!(&mutation, Mutation::Forbid { file } if file == "store/LOCK");
        if !is_lock
            && !matches!(expected, Verdict::Wrong(_))
            && !matches!(actual, Verdict::Wrong(_))
            && expected != actual
        {
            verdicts
                .push(Verdict::Wrong(format!("verify predicted {expected:?}, the start was {actual:?}:")));
        }
        let column = usize::from(started == Verdict::Refused);
        verdicts.push(started);
        let counts = table.entry(mutation.kind()).or_default();
        counts[column] += 1;
        for verdict in verdicts {
            if let Verdict::Wrong(description) = verdict {
                counts[2] += 1;
                let (fault, output_text) = description.split_once(": ").unwrap_or((&description, ""));
                let entry: &mut (usize, String) =
                    violations.entry(format!("{} | {fault}", mutation.kind())).or_default();
                *entry = (entry.0 + 1, format!("{mutation:?}: {output_text}"));
            }
        }
        fs::remove_dir_all(&copied).unwrap();
    }
    let [partial, complete] = repaired;
    eprintln!("{cycles} mutations, repairs: {complete} complete, {partial} partial; same, refused, wrong");
    table.iter().for_each(|(kind, counts)| eprintln!("{counts:?} {kind}"));
    let list: Vec<String> =
        violations.iter().map(|(kind, (count, example))| format!("{count} x {kind} | {example}")).collect();
    assert!(list.is_empty(), "kinds of violations: {}\n{}", list.len(), list.join("\n"));
}
