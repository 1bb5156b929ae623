//! The articles of the tests: real ones of the large sets if they exist, otherwise and for pictures made from
//! sentences here.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::server::Server;

/// An article of the tests in Chinese.
pub const FERRY_ZH: &str = "\
    市交通局昨天宣布，从下月一日起，港区渡轮在早晚高峰改为每十五分钟\
    一班。负责人说，去年有超过三百万人次乘坐渡轮，周末的队伍常常排到\
    码头外面。新船可以搭载两百名乘客，并为自行车留出空间。学生和老人\
    仍然享受半价。沿岸的居民希望末班船能推迟到晚上十一点，交通局表示\
    将在秋天根据客流再作决定。";
/// The same with some words changed.
pub const FERRY_ZH_EDITED: &str = "\
    市交通局昨天宣布，从下月一日起，港区渡轮在早晚高峰改为每二十分钟\
    一班。负责人表示，去年有超过三百万人次乘坐渡轮，周末的队伍常常排\
    到码头外面。新船可以搭载两百名乘客，并为自行车留出空间。学生和老\
    人仍然享受半价。附近的居民希望末班船能推迟到晚上十点，交通局表示\
    将在秋天根据客流再作决定。";
/// An article of the tests in English.
pub const FERRY_EN: &str = "\
    The harbour ferry will run every fifteen minutes during the summer, the city said on \
    Monday. More than three million people took the ferry last year, and at weekends the \
    queue often reached the street. The new boats carry two hundred passengers and have \
    room for bicycles. Pupils and pensioners still pay half. People who live on the shore \
    had asked for a later last boat; the city wants to decide in autumn, when it knows how \
    many passengers the new timetable brings.";
/// The same with some words changed.
pub const FERRY_EN_EDITED: &str = "\
    The harbour ferry will run every twenty minutes during the summer, the city announced \
    on Monday. More than three million people took the ferry last year, and at weekends the \
    queue often reached the street. The new boats carry two hundred passengers and have \
    space for bicycles. Pupils and pensioners still pay half. People who live on the shore \
    had asked for a later last boat; the council wants to decide in autumn, when it knows \
    how many passengers the new timetable brings.";
/// A text that would do harm if it became part of the page.
pub const HOSTILE: &str = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=2</script>";

/// Words of made sentences.
const WHO: &str = "baker teacher sailor painter gardener student neighbour nurse farmer clerk singer driver \
    carpenter judge fisher tailor doctor miller postman librarian cook mason weaver guide";
const WHAT: &str = "bridge orchard market theatre harbour station garden river museum tower mill chapel \
    square tunnel factory school lighthouse forest meadow castle bakery archive workshop quarry";
const HOW: &str = "old narrow quiet crowded wooden forgotten bright wet famous empty small northern broken \
    blue painted steep distant lonely busy cheap modern frozen round southern";
const DID: &str = "visited repaired measured described painted crossed opened closed photographed counted \
    moved sold rented cleaned praised inspected admired mapped lit heated guarded drew missed found";
const WHEN: &str = "yesterday today again early late twice never often seldom alone together quickly slowly \
    gladly silently finally nearly almost perhaps first once daily soon already";

/// Made articles with ids: every fourth is an edited copy of the one before it.
pub fn made(count: usize) -> Vec<(String, String)> {
    let lists = [HOW, WHO, DID, HOW, WHAT, WHEN].map(|words| words.split_whitespace().collect::<Vec<_>>());
    let mut random = fastrand::Rng::with_seed(7);
    let mut sentence = || {
        let words: Vec<&str> = lists.iter().map(|list| list[random.usize(..list.len())]).collect();
        let [how, who, did, which, what, when] = words[..] else { unreachable!("one word of each list") };
        format!("The {how} {who} {did} the {which} {what} {when} and wrote {} lines. ", random.u32(2..900))
    };
    let mut articles: Vec<(String, String)> = Vec::new();
    for number in 0..count {
        let text = match articles.last() {
            Some((_, original)) if number % 4 == 3 => original.replacen("wrote", "sent", 2),
            _ => (0..12).map(|_| sentence()).collect::<String>().trim_end().to_owned(),
        };
        articles.push((format!("article-{number}"), text));
    }
    articles
}

/// Real articles of a set, or made ones if the set does not exist.
pub fn real(set: &str, count: usize) -> Vec<(String, String)> {
    let folder = std::env::var_os("LOOKALIKE_TEST_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    let Ok(file) = std::fs::File::open(folder.join(set).join("docs.jsonl.gz")) else {
        return made(count);
    };
    let lines = BufReader::new(GzDecoder::new(file)).lines().take(count);
    let article = |line: String| {
        let line: Value = serde_json::from_str(&line).unwrap();
        (line["id"].as_str().unwrap().to_owned(), line["text"].as_str().unwrap().to_owned())
    };
    lines.map(|line| article(line.unwrap())).collect()
}

/// JSON lines of articles.
pub fn lines(articles: &[(String, String)]) -> String {
    articles.iter().map(|(id, text)| format!("{}\n", json!({"id": id, "text": text}))).collect()
}

/// Makes a collection that keeps texts, with these articles.
pub async fn store(server: &Server, collection: &str, settings: Value, articles: &[(String, String)]) {
    let (status, answer) = server.put(&format!("/collections/{collection}"), settings).await;
    assert!(status.is_success(), "{answer}");
    let (_, summary) = server.stream(&format!("/collections/{collection}/documents"), lines(articles)).await;
    assert_eq!(summary["errors"], 0, "{summary}");
}
