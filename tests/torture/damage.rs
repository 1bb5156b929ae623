//! Damage of every kind to every file: the state is the same as before, or the start is refused.
//!
//! A refusal ends with exit code 65, or 1 where a file may not be read, names the file (and where in it, for damaged bytes), and leaves
//! every byte of the directory as it was. Each mutation is made on a copy of one directory, drawn by the seed.

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

/// Whom the server runs as where this test runs as root, to whom permissions mean nothing.
const NOBODY: u32 = 65_534;

/// A directory to be damaged, and an earlier state of the same.
struct Original {
    bench: Bench,
    stale: PathBuf,
}

/// Documents, collections, deletions; two snapshots and a log after them; killed, not stopped. The same for
/// the same seed, but for times.
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
        // At a stop memory is written out.
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

/// Every file below `dir`, by its path in it.
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

/// The content of every file, as a checksum; but for the lock, which whoever looks may make anew.
fn checksums(dir: &Path) -> BTreeMap<String, u64> {
    let read = |file: String| {
        let sum = xxh3_64(&fs::read(dir.join(&file)).unwrap_or_default());
        (file, sum)
    };
    files(dir).into_iter().filter(|file| file != "store/LOCK").map(read).collect()
}

/// What is done to a directory.
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
    /// One drawn at random, that changes something.
    fn draw(original: &Original, files: &[String], rng: &mut Rng) -> Mutation {
        loop {
            let file = rng.choice(files).unwrap().clone();
            let bytes = fs::read(original.bench.data.join(&file)).unwrap();
            // Where something is written; of files laid out ahead the rest is zeros.
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

    /// The exit code of a start that is refused for it.
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

    /// The files that it touches.
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

    /// Whether it damages bytes of a log, of which the place is known; of small files their name is enough.
    fn has_place(&self) -> bool {
        match self {
            Mutation::Flip { file, .. } | Mutation::Zero { file, .. } => {
                Path::new(file).extension().is_some_and(|ext| ext == "journal")
            }
            _ => false,
        }
    }

    /// A file that may not be read may be whole: then a repair that needs it stops.
    fn can_be_repaired(&self) -> bool {
        !matches!(self, Mutation::Forbid { .. })
    }

    /// Whether it surely leaves a snapshot that does not read back.
    fn breaks_a_snapshot(&self) -> bool {
        let snapshot = self.files().iter().all(|file| file.starts_with("snapshots/"));
        snapshot && matches!(self, Mutation::Flip { .. } | Mutation::Zero { .. } | Mutation::Cut { .. })
    }

    /// The kind of mutation and of file, for a table.
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

/// A command as somebody who may not read everything.
fn restricted(command: Command) -> Command {
    // As root it would read a file of mode 000 all the same.
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

fn give_away(dir: &Path) {
    if is_root() {
        let owner = format!("{NOBODY}:{NOBODY}");
        assert!(Command::new("chown").args(["-R", &owner]).arg(dir).status().unwrap().success());
    }
}

/// What a damaged directory came to.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    Refused,
    Wrong(String),
}

impl Verdict {
    fn of(faults: Vec<String>, else_: Verdict, said: &str) -> Verdict {
        if faults.is_empty() { else_ } else { Verdict::Wrong(format!("{}: {said}", faults.join(", "))) }
    }
}

/// Whether a message names a file that was damaged. One that is gone, old, or points nowhere is seen by what is
/// beside it: then their directory is named.
fn names(said: &str, mutation: &Mutation) -> bool {
    mutation.files().iter().any(|file| {
        let parent = Path::new(file).parent().and_then(Path::to_str).filter(|parent| !parent.is_empty());
        said.contains(file) || parent.is_some_and(|parent| said.contains(&format!("/{parent}")))
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
                Err(wrong) => Verdict::Wrong(format!(
                    "STARTED WITH ANOTHER STATE: {} violations: {}",
                    wrong.len(),
                    wrong[0]
                )),
            }
        }
        Err(Ended { status, log }) => {
            let said = log.lines().filter(|line| !line.contains("listening")).collect::<Vec<_>>().join(" | ");
            let mut faults = Vec::new();
            if status.code() != Some(mutation.refusal()) {
                faults.push(format!("{status}, not {}", mutation.refusal()));
            }
            if !names(&said, mutation) {
                faults.push("the file is not named".to_owned());
            }
            if mutation.has_place() && !said.contains("byte") {
                faults.push("the place in it is not named".to_owned());
            }
            if checksums(copy) != before {
                faults.push("the directory was changed".to_owned());
            }
            Verdict::of(faults, Verdict::Refused, &said)
        }
    }
}

/// Runs a command of the binary; its exit code and what it printed.
fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let output = restricted(server::command(arguments)).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), text.replace('\n', " | "))
}

/// `lookalike verify` changes nothing and says what a start will come to.
fn verify(mutation: &Mutation, copy: &Path) -> Verdict {
    let before = checksums(copy);
    let (code, said) = run(&["verify", copy.to_str().unwrap()]);
    let mut faults = Vec::new();
    if checksums(copy) != before {
        faults.push("verify changed the directory".to_owned());
    }
    let verdict = match code {
        Some(0) if mutation.breaks_a_snapshot() => {
            faults.push("verify takes a damaged snapshot for sound".to_owned());
            Verdict::Same
        }
        Some(0) => Verdict::Same,
        Some(1 | 65) if !names(&said, mutation) => {
            faults.push("verify does not name the file".to_owned());
            Verdict::Refused
        }
        // Snapshots may be damaged, and yet the start goes well.
        Some(65) if said.contains("the documents are whole") => Verdict::Same,
        Some(code) if code == mutation.refusal() => Verdict::Refused,
        _ => {
            faults.push(format!("verify ends with {code:?}"));
            Verdict::Same
        }
    };
    Verdict::of(faults, verdict, &said)
}

/// The numbers of the last line of a report that begins with this word.
fn numbers(said: &str, word: &str) -> Vec<u64> {
    let line = said.rsplit(" | ").find(|line| line.starts_with(word)).unwrap_or_default();
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// `lookalike repair` leaves the directory as it is and makes one that starts, with nothing in it that was not sent, and
/// with as many documents as it says; with exactly the documents that there were, if it says that it is complete.
async fn repair(original: &Original, copy: &Path) -> (Verdict, bool) {
    let before = checksums(copy);
    let home = copy.with_file_name("repaired");
    let _ = fs::remove_dir_all(&home);
    fs::create_dir(&home).unwrap();
    give_away(&home);
    let to = home.join("data");
    let (code, said) = run(&["repair", copy.to_str().unwrap(), "--to", to.to_str().unwrap()]);
    let mut faults = Vec::new();
    if checksums(copy) != before {
        faults.push("repair changed the damaged directory".to_owned());
    }
    if said.contains("panicked") {
        faults.push("repair panicked".to_owned());
    }
    let is_complete = code == Some(0);
    if !is_complete && code != Some(3) {
        faults.push(format!("repair ends with {code:?}"));
        return (Verdict::of(faults, Verdict::Same, &said), false);
    }
    if run(&["verify", to.to_str().unwrap()]).0 != Some(0) {
        faults.push("what repair made is not sound".to_owned());
    }
    match Server::launch(restricted(server::serve(&to, &[]))).await {
        Err(ended) => faults.push(format!("what repair made does not start: {}", ended.log)),
        Ok(server) => {
            faults.extend(sent_only(&server, &original.bench.ledger).await.err());
            let told = numbers(&said, "documents:").get(1).copied();
            let found = documents(&server).await;
            if told != Some(found) {
                faults.push(format!("repair says {told:?} documents, there are {found}"));
            }
            if is_complete && let Err(wrong) = audit(&server, &original.bench.ledger).await {
                faults.push(format!("repair says that it is complete: {}", wrong[0]));
            }
            server.kill();
        }
    }
    (Verdict::of(faults, Verdict::Same, &said), is_complete)
}

/// The documents of all collections.
async fn documents(server: &Server) -> u64 {
    let listed = server.json("/collections").await;
    let counts = listed["collections"].as_array().unwrap().iter().map(|of| of["documents"].as_u64().unwrap());
    counts.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_survived_unchanged_or_refused_by_name() {
    let (mut rng, cycles) = (seeded(), cycles(170));
    let original = original(&mut rng).await;
    // The server may be nobody, who has to get there.
    fs::set_permissions(original.bench.data.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let all = files(&original.bench.data);
    let mut table: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let (mut wrong, mut repaired) = (BTreeMap::new(), [0, 0]);
    let place = original.bench.data.with_file_name("copy");
    for _ in 0..cycles {
        let mutation = Mutation::draw(&original, &all, &mut rng);
        copy(&original.bench.data, &place);
        give_away(&place);
        mutation.apply(&place, &original.stale);
        give_away(&place);
        let mut verdicts = vec![verify(&mutation, &place)];
        if verdicts[0] == Verdict::Refused && mutation.can_be_repaired() {
            let (verdict, is_complete) = repair(&original, &place).await;
            verdicts.push(verdict);
            repaired[usize::from(is_complete)] += 1;
        }
        let started = start(&original, &mutation, &place).await;
        let (expected, came) = (&verdicts[0], &started);
        // Without the lock data can be looked at, and not written to.
        let is_lock = matches!(&mutation, Mutation::Forbid { file } if file == "store/LOCK");
        if !is_lock
            && !matches!(expected, Verdict::Wrong(_))
            && !matches!(came, Verdict::Wrong(_))
            && expected != came
        {
            verdicts.push(Verdict::Wrong(format!("verify said {expected:?}, the start came to {came:?}:")));
        }
        let column = usize::from(started == Verdict::Refused);
        verdicts.push(started);
        let counts = table.entry(mutation.kind()).or_default();
        counts[column] += 1;
        for verdict in verdicts {
            if let Verdict::Wrong(what) = verdict {
                counts[2] += 1;
                let (fault, said) = what.split_once(": ").unwrap_or((&what, ""));
                let entry: &mut (usize, String) =
                    wrong.entry(format!("{} | {fault}", mutation.kind())).or_default();
                *entry = (entry.0 + 1, format!("{mutation:?}: {said}"));
            }
        }
        fs::remove_dir_all(&place).unwrap();
    }
    let [partial, complete] = repaired;
    eprintln!("{cycles} mutations, repairs: {complete} complete, {partial} partial; same, refused, wrong");
    table.iter().for_each(|(kind, counts)| eprintln!("{counts:?} {kind}"));
    let list: Vec<String> =
        wrong.iter().map(|(kind, (count, example))| format!("{count} x {kind} | {example}")).collect();
    assert!(list.is_empty(), "kinds of violations: {}\n{}", list.len(), list.join("\n"));
}
