//! `dedupe --decontaminate`: documents that contain items of evaluation sets, in English and Chinese.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::dedupe::{dedupe, done, json_lines, refused};
use crate::server::directory;

/// A question of arithmetic, as in a set of word problems.
fn problem(number: usize) -> [String; 2] {
    let (a, b) = (number * 7 + 12, number % 9 + 2);
    [
        format!(
            "A baker in the town of Orlen{number} fills {a} trays with {b} rolls each before sunrise, sells \
             half of the rolls at the market, and gives nine of them to a neighbour. How many rolls are left?"
        ),
        format!(
            "The baker has {a}*{b} = {} rolls. He sells half of them, and nine go to the neighbour.\n#### {}",
            a * b,
            a * b / 2
        ),
    ]
}

/// A question with choices, as in a set of examinations.
fn examination(number: usize) -> [String; 5] {
    let choice = |of: &str| format!("{of} {}", number * 3 + of.len());
    let question = format!(
        "In the model number {number} of a closed economy without trade, which of these follows if the state \
         spends more while taxes stay as they are?"
    );
    [question, choice("output falls by"), choice("prices rise"), choice("nothing"), choice("savings grow by")]
}

/// A Chinese question with choices.
fn chinese(number: usize) -> [String; 5] {
    let number = number * 11 + 3;
    let question = format!(
        "某公司第{number}车间的固定资产原值为八百万元，\
         预计使用寿命五年，采用直线法计提折旧，则每年折旧额为"
    );
    let [a, b, d] = ["一百万元", "一百六十万元", "不计提"].map(str::to_owned);
    [question, a, b, format!("{number}万元"), d]
}

/// Text that no item has.
fn filler(random: &mut fastrand::Rng) -> String {
    (0..random.usize(30..200)).map(|_| format!("w{} ", random.u32(..5_000))).collect()
}

fn write(folder: &Path, name: &str, lines: &[Value]) {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(folder.join(name), lines).unwrap();
}

/// Writes the sets, and documents of which most contain an item; returns the item of each.
fn prepare(folder: &Path) -> Vec<Option<(String, u64)>> {
    fs::create_dir(folder.join("bench")).unwrap();
    let problems: Vec<Value> = (0..50)
        .map(|number| {
            let [question, answer] = problem(number);
            json!({"id": format!("p{number}"), "question": question, "answer": answer})
        })
        .collect();
    write(folder, "bench/problems.jsonl", &problems);
    let rows: String = (0..50)
        .map(|number| {
            let cells = examination(number).map(|cell| format!("\"{cell}\""));
            format!("{},A\n", cells.join(","))
        })
        .collect();
    fs::write(folder.join("bench/examinations.csv"), format!("question,a,b,c,d,answer\n{rows}")).unwrap();
    let chinese_items: Vec<Value> = (0..50)
        .map(|number| {
            let [question, choices @ ..] = chinese(number);
            json!({"question": question, "choices": choices, "answer": "B"})
        })
        .collect();
    write(folder, "bench/zh.jsonl", &chinese_items);
    let mut random = fastrand::Rng::with_seed(8);
    let (mut documents, mut expected) = (Vec::new(), Vec::new());
    for number in 0..200 {
        let item = number % 50;
        let (text, of) = match number / 50 {
            0 => {
                (problem(item).join("\n\nAnswer: ").to_uppercase(), Some(("bench/problems.jsonl", item + 1)))
            }
            1 => {
                let [question, a, b, c, d] = examination(item);
                let text = format!("{question}\n(A) {a}\n(B) {b}\n(C) {c}\n(D) {d}\nAnswer: A");
                (text, Some(("bench/examinations.csv", item + 2)))
            }
            2 => {
                let [question, a, b, c, d] = chinese(item);
                let text = format!("{question}（ ）。\nA.{a}\nB.{b}\nC.{c}\nD.{d}");
                (text, Some(("bench/zh.jsonl", item + 1)))
            }
            // Half of a question is no item.
            _ => (problem(item)[0][..60].to_owned(), None),
        };
        let text = format!("{}\n{text}\n{}", filler(&mut random), filler(&mut random));
        documents.push(json!({"id": format!("d{number}"), "text": text}));
        expected.push(of.map(|(file, line)| (file.to_owned(), line as u64)));
    }
    write(folder, "a.jsonl", &documents);
    expected
}

#[test]
fn documents_with_items_are_dropped_and_named() {
    let folder = directory();
    let expected = prepare(folder.path());
    for (keep, more) in [("first", "--threads=1"), ("longest", "--memory=8MiB")] {
        let own =
            ["a.jsonl", "-o", "out", "--force", "--decontaminate", "bench", "--contaminated", "c.jsonl"];
        let summary = done(folder.path(), &[&own[..], &["--keep", keep, more, "--max-loss", "1"]].concat());
        assert!(summary.contains("150 dropped with items of --decontaminate"), "{summary}");
        assert!(summary.contains("         200  read\n          50  kept\n"), "{summary}");
        let kept = json_lines(&folder.path().join("out/a.jsonl"));
        let kept: Vec<&str> = kept.iter().map(|line| line["id"].as_str().unwrap()).collect();
        let ids = (0..200).filter(|number| expected[*number].is_none()).map(|number| format!("d{number}"));
        assert!(ids.eq(kept.iter().map(|id| (*id).to_owned())), "{kept:?}");
        let lines = json_lines(&folder.path().join("c.jsonl"));
        assert_eq!(lines.len(), 150);
        for line in lines {
            let number: usize = line["id"].as_str().unwrap()[1..].parse().unwrap();
            let (file, item) = expected[number].as_ref().unwrap();
            assert_eq!((&line["item"]["file"], &line["item"]["line"]), (&json!(file), &json!(item)));
            assert!(line["share"].as_f64().unwrap() >= 0.8 && line["items"].as_u64().unwrap() >= 1);
            let text = fs::read_to_string(folder.path().join("a.jsonl")).unwrap();
            let passage = json!(line["passage"]).to_string();
            assert!(text.contains(passage.trim_matches('"')), "{passage}");
        }
    }
    // A source that loses nearly all is an error, as with near-duplicates.
    fs::remove_dir_all(folder.path().join("out")).unwrap();
    let own = ["a.jsonl", "-o", "out", "--decontaminate", "bench", "--max-loss", "0.5"];
    let stderr = refused(folder.path(), &own);
    assert!(stderr.contains("keeps 50 of 200"), "{stderr}");
}

#[test]
fn a_document_with_an_item_replaces_no_other() {
    let folder = directory();
    let text = filler(&mut fastrand::Rng::with_seed(1));
    let item = "Which city on the river Elbe had the first public electric street lamps of its country?";
    let documents = [
        json!({"id": "a", "text": format!("{text}{item}")}),
        json!({"id": "b", "text": format!("{text}Which")}),
        json!({"id": "c", "text": format!("{text}Which city")}),
    ];
    write(folder.path(), "a.jsonl", &documents);
    write(folder.path(), "b.jsonl", &[json!({"q": item, "note": "a b"}), json!({"q": "Too short?"})]);
    for keep in ["first", "longest", "central"] {
        let own = ["a.jsonl", "-o", "out", "--force", "--keep", keep, "--threshold", "0.7"];
        let more = ["--decontaminate", "b.jsonl", "--decontaminate-field", "q", "--duplicates", "d.jsonl"];
        let output = dedupe(folder.path(), &[&own[..], &more].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("1 of 2 items with fewer than 5 tokens cannot be found"), "{stderr}");
        let kept = if keep == "longest" { "c" } else { "b" };
        let lines = json_lines(&folder.path().join("out/a.jsonl"));
        assert_eq!(lines.iter().map(|line| &line["id"]).collect::<Vec<_>>(), [kept], "{keep} {stderr}");
        let dropped = json_lines(&folder.path().join("d.jsonl"));
        assert_eq!((dropped.len(), &dropped[0]["replaced_by"]["id"]), (1, &json!(kept)));
    }
}

#[test]
fn wrong_sets_are_errors_before_the_work() {
    let folder = directory();
    write(folder.path(), "a.jsonl", &[json!({"text": "one two three four five six seven"})]);
    write(folder.path(), "b.jsonl", &[json!({"question": "Is this an item or is it none?"})]);
    fs::write(folder.path().join("empty.jsonl"), "").unwrap();
    fs::write(folder.path().join("broken.jsonl"), "{\"a\"\n").unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["--decontaminate", "none.jsonl"], "none.jsonl"),
        (&["--decontaminate", "empty.jsonl"], "--decontaminate: there is no item in these files"),
        (&["--decontaminate", "broken.jsonl"], "--decontaminate broken.jsonl:1: not a JSON object"),
        (
            &["--decontaminate", "b.jsonl", "--decontaminate-field", "q"],
            "b.jsonl:1: there is no field \"q\"; there are question; --decontaminate-field names another one",
        ),
        (&["--decontaminate", "b.jsonl", "--annotate"], "--annotate none: name one of them"),
        (&["--decontaminate", "b.jsonl", "--decontaminate-share", "0"], "would drop every document"),
        (&["--contaminated", "c.jsonl"], "--decontaminate <BENCH>"),
    ];
    for (arguments, expected) in cases {
        let stderr = refused(folder.path(), &[&["a.jsonl", "-o", "out"], arguments].concat());
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}
