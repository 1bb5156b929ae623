//! The measures of a second check and of comparisons: their values for short texts, for texts of words
//! without a topic, and in nine languages.

use serde_json::{Value, json};

use crate::server::{Server, directory};

/// A sentence and its negation in nine languages, and the cosine of both by hand: common ÷ √(all of one ·
/// all of the other), where a word that occurs twice counts four times.
const NEGATED: [(&str, &str, &str, f64); 9] = [
    ("en", "did approve", "did not approve", 2.0 / 2.449_489_743),
    ("de", "er hat es getan", "er hat es nicht getan", 4.0 / 4.472_135_955),
    ("es", "lo ha hecho", "no lo ha hecho", 3.0 / 3.464_101_615),
    ("ru", "он это сделал", "он это не сделал", 3.0 / 3.464_101_615),
    ("el", "το έκανε", "δεν το έκανε", 2.0 / 2.449_489_743),
    ("ar", "هو فعل ذلك", "هو ما فعل ذلك", 3.0 / 3.464_101_615),
    ("hi", "वह गया है", "वह नहीं गया है", 3.0 / 3.464_101_615),
    ("ko", "그는 그것을 했다", "그는 그것을 안 했다", 3.0 / 3.464_101_615),
    ("zh", "我是你", "我不是你", 2.0 / 3.0),
];

async fn cosine(server: &Server, a: &str, b: &str) -> f64 {
    let (status, answer) = server.post("/compare", json!({"a": {"text": a}, "b": {"text": b}})).await;
    assert_eq!(status, 200, "{answer}");
    answer["cosine"].as_f64().unwrap_or_else(|| panic!("{answer}"))
}

/// The similarity of a query to each document, by id.
async fn similarities(server: &Server, text: &str, measure: &str) -> Vec<(String, f64)> {
    let query = json!({"text": text, "min_similarity": 0.0, "measure": measure, "k": 64, "limit": 100});
    let (status, answer) = server.post("/similar", query).await;
    assert_eq!(status, 200, "{answer}");
    let similar = answer["similar"].as_array().unwrap();
    let of = |near: &Value| (near["id"].as_str().unwrap().to_owned(), near["similarity"].as_f64().unwrap());
    similar.iter().map(of).collect()
}

fn assert_near(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() < 1e-9, "{what}: {found} instead of {expected}");
}

#[tokio::test]
async fn the_cosine_counts_every_word() {
    let data = directory();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_COLLECTION__KEEP_TEXT", "true")]).await;
    let cut = [
        "我 喜欢 看 电视 不 喜欢 看 电影",
        "我 不 喜欢 看 电视 \
         也 不 喜欢 看 电影",
    ];
    let whole = [
        "我喜欢看电视，不喜欢看电影。",
        "我不喜欢看电视，\
         也不喜欢看电影。",
    ];
    let examples = [
        ("to be or not to be", "to be or not to be", 1.0),
        ("to be or not to be", "to be", 4.0 / 20.0_f64.sqrt()),
        (cut[0], cut[1], 13.0 / 192.0_f64.sqrt()),
        (whole[0], whole[1], 10.0 / 117.0_f64.sqrt()),
    ];
    let negated = NEGATED.iter().map(|(_, a, b, expected)| (*a, *b, *expected));
    for (number, (a, b, expected)) in examples.into_iter().chain(negated).enumerate() {
        let what = format!("{a} and {b}");
        assert_near((cosine(&server, a, b).await * 1e6).round(), (expected * 1e6).round(), &what);
        assert_near(cosine(&server, a, a).await, 1.0, a);
        let id = format!("d{number}");
        let (status, stored) = server.post("/documents", json!({"id": id, "text": b})).await;
        assert!(status.is_success(), "{stored}");
        let found = similarities(&server, a, "cosine").await;
        let (_, found) = found.into_iter().find(|(found, _)| *found == id).unwrap();
        assert_near((found * 1e6).round(), (expected * 1e6).round(), &what);
    }
    assert_near((cosine(&server, cut[0], cut[1]).await * 1e3).round(), 938.0, "the literature");
    assert_near((cosine(&server, whole[0], whole[1]).await * 1e4).round(), 9_245.0, "jieba");
}

#[tokio::test]
async fn equal_texts_are_equal_by_every_measure_and_no_word_vanishes() {
    let data = directory();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_COLLECTION__KEEP_TEXT", "true")]).await;
    let words = [("one word", "no", "yes"), ("stop words", "to be or not to be", "to be or to be")];
    let pairs = NEGATED.iter().map(|(language, a, b, _)| (*language, *a, *b)).chain(words);
    for (name, a, b) in pairs {
        let id = format!("{name}-a");
        let (status, stored) = server.post("/documents", json!({"id": id, "text": a})).await;
        assert!(status.is_success(), "{stored}");
        let of = async |text: &str, measure: &str| {
            let found = similarities(&server, text, measure).await;
            found.into_iter().find(|(found, _)| *found == id).unwrap().1
        };
        for measure in ["jaccard", "cosine"] {
            assert_near(of(a, measure).await, 1.0, &format!("{name}, {measure}, {a}"));
            let other = of(b, measure).await;
            assert!((0.0..1.0).contains(&other), "{name}, {measure}, {b}: {other}");
        }
        let sides = json!({"a": {"text": a}, "b": {"text": a}});
        let (_, same) = server.post("/compare", sides).await;
        for pointer in ["/features/jaccard", "/features/cosine", "/containment/a_in_b", "/containment/b_in_a"]
        {
            assert_near(same.pointer(pointer).unwrap().as_f64().unwrap(), 1.0, &format!("{name}, {pointer}"));
        }
    }
}

#[tokio::test]
async fn a_part_of_a_text_is_told_apart_from_a_duplicate() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let english = "The harbour ferry runs every ten minutes in summer and has room for bicycles. ";
    let tail = "Tickets are sold at the landing and on board; children travel free with their parents, dogs \
                need a lead, and the last boat leaves the island half an hour after sunset on every day. The \
                kiosk at the pier sells coffee, newspapers and maps of the paths along the northern shore.";
    let chinese = "海港渡轮夏季每十分钟一班，\
                   并且可以携带自行车上船，\
                   不需要另外购票。";
    let rest = "船票在码头和船上出售；\
                儿童随父母免费乘坐，\
                狗必须拴绳，末班船在日落后半小时离岛。\
                码头的小卖部出售咖啡、\
                报纸和北岸步道的地图，\
                周末还提供早餐和午餐，欢迎各位游客光临。";
    let relation = async |a: &str, b: &str| {
        let (_, compared) = server.post("/compare", json!({"a": {"text": a}, "b": {"text": b}})).await;
        compared["relation"].clone()
    };
    for (part, rest) in [(english, tail), (chinese, rest)] {
        let whole = format!("{part}{rest}");
        assert_eq!(relation(part, &whole).await, "contained_in", "{part}");
        assert_eq!(relation(&whole, part).await, "contains", "{part}");
        assert_eq!(relation(part, rest).await, "unlike", "{part}");
        assert_eq!(relation(&whole, &format!("{whole} ")).await, "duplicate", "{part}");
    }
    // Hashes have no parts.
    let sides = json!({"a": {"hash": "0".repeat(32)}, "b": {"hash": "f".repeat(32)}});
    let (_, hashes) = server.post("/compare", sides).await;
    assert_eq!(hashes["relation"], "unlike", "{hashes}");
}
