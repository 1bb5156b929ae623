//! Profiles that reproduce other programs, compared with recorded results of these programs.
//!
//! Short lists are in this file; long lists (several hundred texts) are read from the shared folder.
//!
//! Not here: the golden values of this project's own profiles (`fingerprint::golden`).

use std::fs;

use lookalike_text::features::HashFunction;
use lookalike_text::fingerprint::{Profile, Status, simhash_of};
use serde_json::Value as Json;

use crate::shared;

const MECHANIC: &str = "我是蓝翔技工拖拉机学院手扶拖拉机专业的。\
                        不用多久，我就会升职加薪，\
                        当上总经理，出任CEO，走上人生巅峰。";
const SAUCERS: &str = "美国“51区”雇员称内部有9架飞碟，曾看见灰色外星人";

/// Profile, text, and the hash by the other program.
const SMALL: &[(&str, &str, &str)] = &[
    ("shingle-md5-128", MECHANIC, "563cb531c8ec5d0c251c6d065f525170"),
    ("shingle-md5-128", "你好世界", "afdaff6e9e71ff8fabfbfae7ffeffb6f"),
    ("shingle-md5-128", SAUCERS, "9be67debfbc87de3fef9f9b7bbf979d1"),
    ("shingle-md5-128", "The quick brown fox jumps over the lazy dog", "9146010283ab45031b8610e4b9cb9e61"),
    ("shingle-md5-128", "The quick brown fox leaps over the lazy dog", "914230a2939b440353045046f9c99805"),
    ("python-simhash", MECHANIC, "b1190e841624ad6c"),
    ("python-simhash", "你好世界", "7aacd1c6112ee364"),
    ("python-simhash", SAUCERS, "42c2619cb306df54"),
    ("python-simhash", "How are you? I am fine. Thanks.", "2f73898a203ee80b"),
    ("python-simhash", "", "e9800998ecf8427e"),
    ("python-simhash", " ", "e9800998ecf8427e"),
    ("python-simhash", "abc", "d6963f7d28e17f72"),
    ("cppjieba", "5G和PM2.5，v8.0装在127.0.0.1。", "fc1d290d95e59c9a"),
    ("cppjieba", "“东数西算”、云计算与区块链", "0908b21498085050"),
    ("cppjieba", "江南Style的U盘在吉林", "f124718c225dc207"),
    ("cppjieba", "习总书记说了解放军", "0a0b03f175411de4"),
    ("cppjieba", "龘靐，“上、下”。〇一二，①②", "372ec683621fd87c"),
    ("cppjieba", "CAFÉ的Ａ股与C++", "000a00090809095a"),
];

#[test]
fn small_texts_have_the_hashes_of_the_other_programs() {
    for (profile, text, hash) in SMALL {
        let found = Profile::named(profile).unwrap().fingerprint(text);
        assert_eq!(found.hash.to_string(), *hash, "{profile} {text}");
        assert_eq!(found.status == Status::Empty, text.trim().is_empty(), "{profile} {text}");
    }
}

#[test]
fn keywords_of_cppjieba_give_its_hash() {
    let cases: [(&[(&str, f64)], &str); 2] = [
        (&[("你好", 7.957_878_277), ("世界", 4.367_529_406)], "f550dedebdee462d"),
        (
            &[
                ("51", 11.739_204_31),
                ("飞碟", 10.681_801_83),
                ("外星人", 10.008_857_35),
                ("雇员", 9.138_503_717),
                ("灰色", 7.769_451_162),
            ],
            "760472b1f8dd9238",
        ),
    ];
    for (words, hash) in cases {
        assert_eq!(simhash_of(words, HashFunction::Lookup3).to_string(), hash);
    }
}

/// Calculated by hand from the definition: the words are 飞碟 飞碟 气球 with the weights 2 × idf and 1
/// × idf. The heavier word decides every bit in which the two differ, so the result is the hash of 飞碟.
#[test]
fn fnv_zh_is_decided_by_the_heavier_word() {
    let profile = Profile::named("fnv-zh").unwrap();
    let explained = profile.explain("飞碟,飞碟。气球!");
    let words: Vec<&str> = explained.features.iter().map(|feature| feature.text.as_str()).collect();
    assert_eq!(words, ["飞碟", "气球"]);
    assert!((explained.features[0].weight - 2.0 * 10.681_801_83).abs() < 1e-4);
    // FNV-1a over 98de 789f: see the tests of the hash.
    assert_eq!(explained.fingerprint.hash.to_string(), "0f4169096d9f7bfa");
    // A word outside the table has the mean weight. Words of a single character and stop words are dropped.
    let explained = profile.explain("我 我们 qwrtz");
    assert_eq!(explained.features.len(), 1);
    assert!((explained.features[0].weight - 11.739_204_31).abs() < 1e-4);
}

/// Python's `{text[i:i + 3] for i in range(len(text) - 2)}` is empty for these texts, and all sums are zero.
#[test]
fn a_text_shorter_than_a_shingle_has_no_features() {
    let profile = Profile::named("shingle-md5-128").unwrap();
    for text in ["", "好", "ab"] {
        let found = profile.fingerprint(text);
        assert_eq!((found.hash.to_string(), found.features), ("f".repeat(32), 0), "{text:?}");
    }
    assert_eq!(profile.fingerprint("abc").hash.to_string(), "900150983cd24fb0d6963f7d28e17f72");
}

/// MD5 of the three sentences, the longest first, with line feeds between them (`hashlib`).
#[test]
fn the_longest_sentences_are_one_hash() {
    let profile = Profile::named("longest-sentences-md5").unwrap();
    let text = "One two. A longer sentence! The longest sentence of all? No.";
    let hash = "cced286e0e96e1325d753f964e30ae88";
    assert_eq!(profile.fingerprint(text).hash.to_string(), hash);
    assert_eq!(
        profile.fingerprint("the LONGEST sentence, of all. a longer sentence? one two").hash.to_string(),
        hash
    );
    assert_ne!(profile.fingerprint(&text.replace("two", "three")).hash.to_string(), hash);
}

fn lines(name: &str) -> Option<Vec<Json>> {
    let text = fs::read_to_string(shared(&format!("golden/{name}"))?).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn every_golden_text_has_its_hash() {
    for name in ["python-simhash", "shingle-md5-128"] {
        let Some(lines) = lines(&format!("{name}.jsonl")) else { return };
        let profile = Profile::named(name).unwrap();
        assert!(lines.len() > 40);
        for line in lines {
            let text = line["text"].as_str().unwrap();
            assert_eq!(profile.fingerprint(text).hash.to_string(), line["hash"].as_str().unwrap(), "{text}");
        }
    }
}

/// The texts of each list with the hash of each number of keywords.
#[test]
fn cppjieba_has_the_hashes_of_yanyiwu_simhash() {
    let Some(lines) = lines("cppjieba-5.6.7.jsonl") else { return };
    for top in ["5", "20", "200", "\"auto\""] {
        let profile = with_top(top);
        let mut same = 0;
        for line in &lines {
            let (text, expected) = (line["text"].as_str().unwrap(), &line["hashes"][top.trim_matches('"')]);
            let found = profile.fingerprint(text);
            let is_same = found.hash.to_string() == expected["hash"].as_str().unwrap();
            same += usize::from(is_same);
            let start: String = text.chars().take(20).collect();
            if !is_same || found.features as u64 != expected["keywords"].as_u64().unwrap() {
                println!(
                    "top {top}: {start:?}: {} and {} keywords, not {expected}",
                    found.hash, found.features
                );
            }
        }
        println!("top {top}: {same} of {} are equal", lines.len());
        assert!(same * 100 >= lines.len() * 99, "top {top}: {same} of {}", lines.len());
    }
}

#[test]
fn cppjieba_has_the_keywords_of_yanyiwu_simhash() {
    let Some(lines) = lines("cppjieba.jsonl") else { return };
    let (mut same, mut differing) = (0, Vec::new());
    for line in &lines {
        let (text, hash) = (line["text"].as_str().unwrap(), line["hash"].as_str().unwrap());
        let keywords: Vec<(&str, f64)> = line["keywords"].as_array().unwrap().iter().map(keyword).collect();
        let explained = with_top(&line["top_n"].to_string()).explain(text);
        if explained.fingerprint.hash.to_string() == hash {
            same += 1;
        } else {
            let ours: Vec<&str> = explained.features.iter().map(|feature| feature.text.as_str()).collect();
            let theirs: Vec<&str> = keywords.iter().map(|(word, _)| *word).collect();
            let missing = |from: &[&str], of: &[&str]| -> Vec<String> {
                of.iter().filter(|word| !from.contains(word)).map(|word| (*word).to_owned()).collect()
            };
            let start: String = text.chars().take(20).collect();
            let (only_ours, only_theirs) = (missing(&theirs, &ours), missing(&ours, &theirs));
            differing
                .push(format!("top {} {start}: ours {only_ours:?}, theirs {only_theirs:?}", line["top_n"]));
        }
    }
    println!("{same} of {} are equal; the others:\n{}", lines.len(), differing.join("\n"));
    assert!(same * 100 >= lines.len() * 99, "{same} of {}", lines.len());
}

fn keyword(entry: &Json) -> (&str, f64) {
    (entry[0].as_str().unwrap(), entry[1].as_f64().unwrap())
}

/// The profile with this value of `top`.
fn with_top(top: &str) -> &'static Profile {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profiles.toml");
    fs::write(&path, format!("[golden]\nlike = \"cppjieba\"\ntop = {top}\n")).unwrap();
    lookalike_text::profiles::load(Some(&path)).unwrap().named("golden").unwrap()
}
