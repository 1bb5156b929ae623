//! `dedupe` with the weights that it learns from its input: what they change, which texts teach them, and the
//! file that has them.

use std::fs::{self, File};
use std::path::Path;

use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::Profile;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use crate::dedupe::{dedupe, done, json_lines};
use crate::server::{command, directory};

const PROFILE: &str = "minhash-copies";

/// A decree in one of eight wordings about the person, place and sum of a number.
pub fn decree(number: usize) -> String {
    const FORMS: [&str; 8] = [
        "granted the right of settlement",
        "relieved of the duty on salt",
        "awarded the medal of honour",
        "permitted to sell the land of the crown",
        "exempt from the tax on windows",
        "appointed keeper of the harbour",
        "given leave to dig for coal",
        "confirmed in the office of notary",
    ];
    let word = |salt: u64| {
        let digest = xxh3_64(&(number as u64 * 8 + salt).to_le_bytes());
        (0..7).map(|at| char::from(b'a' + (digest >> (at * 5)) as u8 % 26)).collect::<String>()
    };
    let [name, town, street, witness] = [0, 1, 2, 3].map(word);
    format!(
        "In the name of the assembly, and with the consent of the council of the province, it is decreed \
         that {name} of {town}, residing in {street}, is {} from the first day of the coming month, that the \
         fee of {number} crowns is to be paid to the treasury before that day, and that this decree is to be \
         read aloud in every parish and kept in the archive of the province. Witness: {witness}.",
        FORMS[number % FORMS.len()]
    )
}

/// `count` different decrees, every tenth of them also as a copy with one word changed.
fn decrees(count: usize) -> Vec<Value> {
    let line = |id: String, text: String| json!({"id": id, "text": text});
    (0..count)
        .flat_map(|number| {
            let own = line(format!("d{number}"), decree(number));
            let copied = decree(number).replace("read aloud", "proclaimed");
            let copy = (number % 10 == 0).then(|| line(format!("c{number}"), copied));
            std::iter::once(own).chain(copy)
        })
        .collect()
}

fn write(folder: &Path, name: &str, documents: &[Value]) {
    let lines: String = documents.iter().map(|document| format!("{document}\n")).collect();
    fs::write(folder.join(name), lines).unwrap();
}

/// The ids that are dropped.
fn dropped(folder: &Path) -> Vec<String> {
    let lines = json_lines(&folder.join("d.jsonl"));
    lines.iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn decrees_of_one_wording_are_kept_and_their_copies_are_not() {
    let folder = directory();
    write(folder.path(), "in.jsonl", &decrees(400));
    let arguments = ["in.jsonl", "-o", "out", "--duplicates", "d.jsonl", "--force"];
    let summary = done(folder.path(), &arguments);
    assert!(summary.contains("weights of features: learned, 440 texts, digest "), "{summary}");
    let expected: Vec<String> = (0..400).step_by(10).map(|number| format!("c{number}")).collect();
    assert_eq!(dropped(folder.path()), expected);
    let summary = done(folder.path(), &[&arguments[..], &["--weights", "none"]].concat());
    assert!(!summary.contains("weights"), "{summary}");
    assert!(dropped(folder.path()).len() > 300, "wordings alone make them near");
}

#[test]
fn the_first_thousand_records_and_a_tenth_of_the_others_teach() {
    let (folder, documents) = (directory(), decrees(1_900));
    write(folder.path(), "a.jsonl", &documents[..700]);
    write(folder.path(), "b.jsonl", &documents[700..]);
    let profile = Profile::named(PROFILE).unwrap();
    let mut table = Frequencies::of_kind(profile.kind_of_features());
    for (number, document) in (0_u32..).zip(&documents) {
        if number < 1_000 || xxh3_64(&number.to_le_bytes()).is_multiple_of(10) {
            table.add(&profile.feature_set(document["text"].as_str().unwrap()));
        }
    }
    let fixed = ["a.jsonl", "b.jsonl", "-o", "out", "--force", "--save-weights", "w.idf", "--threads"];
    for threads in ["1", "3"] {
        done(folder.path(), &[&fixed[..], &[threads]].concat());
        assert!(fs::read(folder.path().join("w.idf")).unwrap() == table.to_bytes(), "{threads}");
    }
}

#[test]
fn a_file_of_weights_serves_every_part_of_a_corpus() {
    let (folder, documents) = (directory(), decrees(400));
    write(folder.path(), "all.jsonl", &documents);
    write(folder.path(), "part.jsonl", &documents[..40]);
    write(folder.path(), "more.jsonl", &[json!({"id": "x", "text": decree(3).replace("parish", "town")})]);
    let all = ["all.jsonl", "-o", "all", "--duplicates", "d.jsonl", "--save-weights", "w.idf"];
    done(folder.path(), &all);
    let whole = dropped(folder.path());
    let part = ["part.jsonl", "-o", "part", "--duplicates", "d.jsonl", "--force", "--weights", "w.idf"];
    let summary = done(folder.path(), &part);
    assert!(summary.contains("weights of features: of w.idf, 440 texts, digest "), "{summary}");
    let of_part: Vec<&String> = whole.iter().filter(|id| id[1..].parse::<usize>().unwrap() < 37).collect();
    assert_eq!(dropped(folder.path()).iter().collect::<Vec<_>>(), of_part);
    // What comes later is compared with the same weights.
    let more = ["more.jsonl", "-o", "more", "--against", "all.jsonl", "--duplicates", "d.jsonl", "--force"];
    done(folder.path(), &[&more[..], &["--weights", "w.idf", "--keep", "longest"]].concat());
    assert_eq!(dropped(folder.path()), ["x"]);
}

#[test]
fn what_cannot_have_weights_says_so() {
    let folder = directory();
    write(folder.path(), "in.jsonl", &decrees(200));
    write(folder.path(), "few.jsonl", &decrees(20));
    fs::write(folder.path().join("short.idf"), "lookidf2").unwrap();
    fs::write(folder.path().join("other.idf"), "the 1.5\n").unwrap();
    let refusals: [(&[&str], &str); 7] = [
        (&["in.jsonl", "--profile", "copies-64", "--weights", "learned"], "copies-64@1 takes none"),
        (&["in.jsonl", "--profile", "minhash", "--save-weights", "w"], "minhash@1 takes none"),
        (&["in.jsonl", "--weights", "none", "--save-weights", "w"], "nothing for --save-weights to write"),
        (
            &["few.jsonl", "--weights", "learned"],
            "22 different texts cannot teach any; at least 100 are needed",
        ),
        (&["in.jsonl", "--weights", "missing.idf"], "missing.idf"),
        (
            &["in.jsonl", "--weights", "short.idf"],
            "--weights short.idf: the table of document frequencies is",
        ),
        (&["in.jsonl", "--weights", "other.idf"], "--weights other.idf: this is no table"),
    ];
    for (arguments, expected) in refusals {
        let output = dedupe(folder.path(), &[arguments, &["-o", "out"]].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(expected), "{arguments:?}: {error}");
        assert!(!folder.path().join("out").exists());
    }
    let summary = done(folder.path(), &["few.jsonl", "-o", "few"]);
    assert!(!summary.contains("weights"), "{summary}");
    let mut streamed = command(&["dedupe", "-", "-o", "piped", "--max-loss", "1"]);
    let input = File::open(folder.path().join("in.jsonl")).unwrap();
    let streamed = streamed.current_dir(folder.path()).stdin(input).output().unwrap();
    let summary = String::from_utf8(streamed.stdout).unwrap();
    assert!(summary.contains("weights of features: learned"), "{summary}");
}
