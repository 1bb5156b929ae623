//! Texts and pages of 1 MiB that are made to be slow: no profile takes more than a second of a processor's time for one, and
//! neither does a comparison.
//!
//! Measured is the time of the thread, so that a busy machine does not fail the test. `--nocapture` prints the slowest, and
//! `LOOKALIKE_TEST_PATHOLOGICAL=1` takes all built-in profiles and not one of each kind.

use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lookalike::fingerprint::Profile;
use lookalike::machine::thread_time;
use lookalike::text::main_text;
use serde_json::json;

use crate::server::{Server, directory};

/// What `limits.document_bytes` allows by default.
const SIZE: usize = 1 << 20;
const LIMIT: Duration = Duration::from_secs(1);
/// One profile for each way through the code, the one with the most work of its kind.
const KINDS: [&str; 10] = [
    "copies-64@1",
    "copies-128@1",
    "copies-64@3",
    "pairs-64@1",
    "cppjieba@1",
    "fnv-zh@1",
    "shingle-md5-128@1",
    "python-simhash@1",
    "minhash-copies@2",
    "longest-sentences@1",
];
/// Those with the most features, which make explanations long.
const EXPLAINED: [&str; 2] = ["minhash-copies@2", "shingle-md5-128@1"];
/// Those that take the longest for the texts of pages, which are texts like others.
const OF_PAGES: [&str; 3] = ["copies-64@3", "copies-128@1", "shingle-md5-128@1"];

/// As many whole units as fit.
fn full_of(unit: &str) -> String {
    unit.repeat(SIZE / unit.len())
}

/// The same between a beginning and an end.
fn between(head: &str, unit: &str, tail: &str) -> String {
    format!("{head}{}{tail}", unit.repeat((SIZE - head.len() - tail.len()) / unit.len()))
}

/// Units that differ by their number.
fn numbered(head: &str, unit: impl Fn(usize) -> String) -> String {
    let mut text = head.to_owned();
    for number in 0.. {
        let next = unit(number);
        if text.len() + next.len() > SIZE {
            break;
        }
        text += &next;
    }
    text
}

/// Characters of these ranges, one after the other.
fn characters(ranges: &[std::ops::RangeInclusive<u32>]) -> String {
    let all: String = ranges.iter().cloned().flatten().filter_map(char::from_u32).collect();
    full_of(&all)
}

/// `count` times the first, what is inside, `count` times the second, and the inside again up to the size.
fn nested(count: usize, open: &str, inside: &str, close: &str) -> String {
    let (head, tail) = (open.repeat(count), close.repeat(count));
    between(&head, inside, &tail)
}

#[rustfmt::skip]
fn pages() -> Vec<(&'static str, String)> {
    let sentence = "Fish and chips, a dish of battered fish, is served hot with salt, vinegar, and peas. ";
    vec![
        ("ampersands and spaces", full_of("& ")),
        ("ampersands", full_of("&")),
        ("entities without semicolon", full_of("&amp")),
        ("entities that go on", full_of("&notit;")),
        ("entities of no name", between("&", "a", "")),
        ("hexadecimal references", full_of("&#x")),
        ("one reference of many digits", between("&#", "9", ";")),
        ("references to U+FDFA", full_of("&#xfdfa;")),
        ("ampersands in an attribute", between("<p title=\"", "& ", "\">deep")),
        ("125,000 attributes", numbered("<p", |n| format!(" a{n}")) + ">deep"),
        ("one attribute over and over", between("<p", " a", ">deep")),
        ("attributes of many paragraphs", numbered("", |n| format!("<p a{n} b{n} c{n}>"))),
        ("a giant attribute", between("<p class='", "comment share ", "'>deep")),
        ("a giant attribute name", between("<p ", "a", ">deep")),
        ("a giant tag name", between("<", "a", ">deep")),
        ("tag names that differ", numbered("", |n| format!("<element-{n}>x</element-{n}>"))),
        ("attributes without end", between("<p ", "a='", "")),
        ("tags without end", full_of("<p")),
        ("opening angle brackets", full_of("<")),
        ("end tags", full_of("</")),
        ("end tags that miss", nested(250, "<div>", "</x>", "</div>")),
        ("ends of formatting that miss", nested(250, "<div>", "</b>", "</div>")),
        ("comments without end", full_of("<!--")),
        ("comments", full_of("<!---->x")),
        ("dashes in a comment", between("<!--", "-", "")),
        ("sections of characters", full_of("<![CDATA[")),
        ("sections in a drawing", between("<svg>", "<![CDATA[]]>", "")),
        ("document types", full_of("<!DOCTYPE html>")),
        ("processing instructions", full_of("<?x")),
        ("a script without end", between("<script>", "<!--<script>", "")),
        ("scripts", full_of("<script></script>")),
        ("ends of a script", between("<script>", "</scrip", "")),
        ("styles without end", full_of("<style>")),
        ("a text area without end", between("<textarea>", "</textare", "")),
        ("a title", between("<title>", "fish ", "</title><h1>fish</h1>")),
        ("a title and headings", titled(SIZE / 2)),
        ("a short title and headings", titled(20_000)),
        ("letters of two bytes that are escaped", full_of("\u{a9}")),
        ("plain text", between("<plaintext>", "<p>", "")),
        ("nested blocks", full_of("<div>")),
        ("nested blocks at the limit", nested(240, "<div>", sentence, "</div>")),
        ("paragraphs in nested blocks", nested(240, "<div>", &format!("<p>{sentence}</p>"), "</div>")),
        ("short paragraphs in few blocks", nested(17, "<div>", "<p>a, b, c, d, e, f, g, h, i, j, k, l, m, n</p>", "</div>")),
        ("paragraphs in few blocks", nested(19, "<div>", &format!("<p>{sentence}</p>"), "</div>")),
        ("text in few blocks", nested(20, "<div>", sentence, "</div>")),
        ("shared text in few blocks", nested(20, "<div class=share>", "x ", "</div>")),
        ("links in few blocks", nested(9, "<div><ul><li>", &format!("<a href=x>{sentence}</a> "), "</li></ul></div>")),
        ("tables in few blocks", nested(4, "<table><tr><td>", &format!("<div><p>{sentence}</p><p>d, e</p></div>"), "</td></tr></table>")),
        ("images in few blocks", nested(14, "<div>", "<img src=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.png><p>", "</div>")),
        ("images in few sections", nested(42, "<section>", "<img src=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.png><p>", "</section>")),
        ("headings in few blocks", nested(20, "<section>", "<h2 class=comment>a, b, c, d, e, f, g, h</h2>", "</section>")),
        ("lists in few blocks", nested(15, "<form><fieldset>", &format!("<ul><li>{sentence}</ul>"), "</fieldset></form>")),
        ("links in nested blocks", nested(120, "<div><ul><li>", "<a href=x>a, b</a> ", "</li></ul></div>")),
        ("images in nested blocks", nested(240, "<div>", "<img src=x.png>", "</div>")),
        ("nested blocks again and again", full_of(&format!("{}x{}", "<div>".repeat(200), "</div>".repeat(200)))),
        ("nested tables", full_of("<table><tr><td>")),
        ("nested tables at the limit", nested(60, "<table><tr><td>", "a, b, ", "")),
        ("blocks that a table moves out", between("<table>", "<div>", "")),
        ("text that a table moves out", between("<table>", "x<tr>", "")),
        ("cells", between("<table>", "<tr><td>x", "")),
        ("nested formatting", full_of("<b><i><a><font>")),
        ("formatting with attributes", numbered("", |n| format!("<p><b a{n}><i a{n}>"))),
        ("formatting that is compared", numbered(&formatting(200), |n| format!("<b a=1 b=2 c=3 d=4 e=5 f=6 g=7 h={n}></b>"))),
        ("links in links", full_of("<a><a>")),
        ("bold across blocks", full_of("<b><p></b>")),
        ("the adoption agency", full_of("<a><div><b><p></a>")),
        ("nested fonts", full_of("<font size=1><p>")),
        ("nested forms", full_of("<form><div>")),
        ("nested lists", full_of("<ul><li>")),
        ("definitions", full_of("<dl><dd><dt>")),
        ("nested drawings", full_of("<svg><g><desc><div/>")),
        ("nested formulas", full_of("<math><mi><table>")),
        ("nested templates", full_of("<template><div>")),
        ("nested objects", nested(200, "<object>", "<p>x</p>", "</object>")),
        ("frames", full_of("<frameset><frame>")),
        ("selections", full_of("<select><option>x")),
        ("buttons", full_of("<button><p>")),
        ("rubies", full_of("<ruby><rb>x<rt>y")),
        ("line breaks", full_of("<br>")),
        ("line breaks in pairs", full_of("<br><br>x")),
        ("many paragraphs", full_of(&format!("<p>{sentence}</p>"))),
        ("many short paragraphs", full_of("<p>a, b.")),
        ("paragraphs that are shared", nested(240, "<div class=share>", "x ", "</div>")),
        ("many links with a base", format!("<base href=http://a/{}>{}", "a".repeat(SIZE / 2), "<p><a href=x>a, b, c</a></p>".repeat(SIZE / 60))),
        ("structured data", between("<script type=application/ld+json>{\"@context\":\"https://schema.org\",\"name\":\"", "[{", "</script>")),
        ("many bodies", numbered("", |n| format!("<body a{n}=1>"))),
        ("zero bytes", full_of("\0<p>")),
        ("carriage returns", full_of("\r")),
    ]
}

/// A page with a title of so many bytes and as many headings as its tree has room for.
fn titled(bytes: usize) -> String {
    let words: String = (0..bytes / 8).map(|n| format!("w{n:06} ")).collect();
    format!("<title>{words}</title>{}", "<h2>x y".repeat(20_000))
}

/// A page that has this many different formatting elements open, none of which closes.
fn formatting(count: usize) -> String {
    (0..count).map(|n| format!("<b z={n}>")).collect()
}

#[rustfmt::skip]
fn texts() -> Vec<(&'static str, String)> {
    vec![
        ("U+FDFA", full_of("\u{fdfa}")),
        ("U+FDFA and spaces", full_of("\u{fdfa} ")),
        ("U+FDFA among letters", full_of("\u{fdfa}ab")),
        ("squared words", full_of("\u{3316}\u{3315}\u{33a7}")),
        ("ligatures", full_of("\u{fb03}")),
        ("letters that fold to several", full_of("\u{390}\u{1fb7}\u{df}\u{130}")),
        ("zero width", full_of("a\u{200b}\u{200d}\u{2060}")),
        ("zero width alone", full_of("\u{200b}")),
        ("marks on one letter", between("a", "\u{301}", "")),
        ("marks in falling order", between("a", "\u{345}\u{301}\u{316}\u{334}", "")),
        ("marks on every letter", full_of("z\u{300}\u{316}\u{334}\u{345}\u{35c}\u{489}")),
        ("jamo", full_of("\u{1100}\u{1161}\u{11a8}")),
        ("leading jamo alone", full_of("\u{1100}")),
        ("private and unassigned", full_of("\u{e000}\u{378}\u{10ffff}\u{fffd}")),
        ("marks of direction", full_of("a\u{202e}b\u{202c}\u{200f}")),
        ("one ideograph", full_of("的")),
        ("an ideograph that no word has", full_of("\u{9fef}")),
        ("rare ideographs", characters(&[0x20000..=0x22000])),
        ("every ideograph", characters(&[0x4e00..=0x9fff])),
        ("traditional ideographs", full_of("臺灣電腦軟體體體")),
        ("a word of many prefixes", full_of("中华人民共和国")),
        ("one digit", full_of("7")),
        ("numbers that differ", numbered("", |n| format!("{n} "))),
        ("words that differ", numbered("", |n| format!("w{n:x}x "))),
        ("Chinese words that differ", numbered("", |n| {
            let [a, b] = [n % 6_000, n / 6_000 + n % 97].map(|at| char::from_u32(0x4e00 + at as u32).unwrap());
            format!("{a}{b},")
        })),
        ("words of different weights", words_of_different_weights()),
        ("one word", full_of("a")),
        ("one word of other letters", full_of("ж")),
        ("two words", full_of("ab ")),
        ("one letter a word", full_of("a b c d ")),
        ("scripts in turn", full_of("aж中あกأ")),
        ("scripts in turn with spaces", full_of("a 中 あ ก ")),
        ("Thai", full_of("ภาษาไทยไม่มีช่องว่างระหว่างคำ")),
        ("one letter of Thai", full_of("ก")),
        ("signs of Thai", full_of("ก็่้๊๋")),
        ("Khmer", full_of("ភាសាខ្មែរមិនមានចន្លោះ")),
        ("Burmese", full_of("မြန်မာဘာသာစကား")),
        ("Lao", full_of("ພາສາລາວ")),
        ("Japanese", full_of("東京へ行くことにしたがすもももももももものうち")),
        ("katakana", full_of("タ")),
        ("half-width katakana", full_of("ｶﾞﾊﾟ")),
        ("kana at the end", between("", "中", "あ")),
        ("sentences with kana", full_of("中あ。")),
        ("emoji joined", full_of("👩\u{200d}👩\u{200d}👧\u{200d}👦")),
        ("flags", full_of("🇩🇪")),
        ("keycaps", full_of("1\u{fe0f}\u{20e3}")),
        ("control characters", full_of("\u{1}\u{7f}\u{85}a")),
        ("zero characters", full_of("\0")),
        ("new lines", full_of("\n")),
        ("spaces of every kind", full_of("a \u{a0}\u{2003}\u{3000}\u{2028}\t")),
        ("ends of sentences", full_of("。")),
        ("short sentences", full_of("a.")),
        ("sentences that differ", numbered("", |n| format!("{n}."))),
        ("long sentences", numbered("", |n| format!("{}{n}.", "word ".repeat(20_000)))),
        ("points between letters", full_of("a.b:c'd")),
        ("points without end", between("a", ".", "")),
        ("hyphens", full_of("a-")),
        ("punctuation", full_of("!\"#$%&'()*+,-./")),
        ("signs of words alone", full_of("_")),
        ("percent", full_of("%.+#")),
        ("connectors", full_of("a.1-2_3%")),
        ("Arabic", full_of("اللغة العربية ")),
        ("Devanagari", full_of("हिन्दी में ")),
        ("Korean", full_of("한국어 문장 ")),
        ("Tibetan", full_of("བོད་སྐད་")),
        ("every character", characters(&[0x21..=0xd7ff, 0xe000..=0x2_ffff])),
    ]
}

/// Words of every inverse document frequency that the built-in table has, of each the first once, the second twice and so on:
/// thousands of weights.
fn words_of_different_weights() -> String {
    let packed = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/idf.txt.gz")).unwrap();
    let mut table = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut table).unwrap();
    let mut words: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    for (word, idf) in table.lines().filter_map(|line| line.split_once(' ')) {
        words.entry(idf).or_default().push(word);
    }
    let several = |count: usize| {
        words.values().filter_map(move |of_one| of_one.get(count - 1)).map(move |word| (word, count))
    };
    let mut text: String =
        (1..=12).flat_map(several).map(|(word, count)| format!("{word},").repeat(count)).collect();
    text.truncate(text.floor_char_boundary(SIZE));
    text
}

/// What each case took.
struct Taken {
    time: Duration,
    name: String,
}

/// Does the cases on all processors and says what each took of the time of its thread.
fn measure<T: Sync>(cases: &[T], run: impl Fn(&T) -> Vec<Taken> + Sync) -> Vec<Taken> {
    let (next, taken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    taken.lock().unwrap().extend(run(case));
                }
            });
        }
    });
    let mut taken = taken.into_inner().unwrap();
    taken.sort_by_key(|taken| std::cmp::Reverse(taken.time));
    taken
}

fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let before = thread_time();
    let result = work();
    (thread_time().saturating_sub(before), result)
}

/// Prints the slowest ten and fails if one took too long.
fn judge(what: &str, taken: &[Taken]) {
    println!("{what}: {} measured", taken.len());
    taken.iter().take(10).for_each(|taken| println!("{:>6} ms  {}", taken.time.as_millis(), taken.name));
    let slow = taken.iter().filter(|taken| taken.time > LIMIT).count();
    assert_eq!(slow, 0, "of {what} took more than {LIMIT:?}; the slowest: {}", taken[0].name);
}

/// What the slowest of these profiles took, after what was taken before.
fn slowest(name: &str, before: Duration, profiles: &[&str], work: impl Fn(&Profile)) -> Vec<Taken> {
    let profiles = Profile::all().iter().filter(|profile| is_one_of(profile, profiles));
    let taken = profiles.map(|profile| (before + time(|| work(profile)).0, profile.id().to_string()));
    let slowest = taken.max();
    slowest.map(|(time, profile)| Taken { time, name: format!("{name}, {profile}") }).into_iter().collect()
}

fn is_one_of(profile: &Profile, ids: &[&str]) -> bool {
    std::env::var_os("LOOKALIKE_TEST_PATHOLOGICAL").is_some() || ids.contains(&&*profile.id().to_string())
}

/// Loads dictionaries and tables, which the first text of a process has to wait for.
fn warm_up() {
    for profile in Profile::all() {
        profile.sign("臺灣的 word ภาษา あ 東京へ行く");
    }
}

#[test]
fn pathological_pages_take_no_longer_than_others() {
    warm_up();
    let taken = measure(&pages(), |(name, page)| {
        let (of_page, text) = time(|| main_text(page));
        slowest(&format!("{name} ({} ms alone)", of_page.as_millis()), of_page, &OF_PAGES, |profile| {
            drop(profile.sign(&text));
        })
    });
    judge("pages", &taken);
}

#[test]
fn pathological_texts_take_no_longer_than_others() {
    warm_up();
    let taken = measure(&texts(), |(name, text)| {
        slowest(name, Duration::ZERO, &KINDS, |profile| drop(profile.sign(text)))
    });
    judge("texts", &taken);
}

#[test]
fn pathological_texts_are_explained_in_time() {
    warm_up();
    let taken = measure(&texts(), |(name, text)| {
        slowest(name, Duration::ZERO, &EXPLAINED, |profile| drop(profile.explain(text)))
    });
    judge("explanations", &taken);
}

/// The time of all processors that a server has taken: the system counts it in hundredths of a second.
fn processor_time(server: &Server) -> Duration {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
    let fields = status.rsplit_once(')').unwrap().1.split_whitespace();
    Duration::from_millis(fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum())
}

/// `/compare` reads two texts, and so may take a second for each; what is compared word by word is as much as is taken for that.
#[tokio::test]
async fn pathological_requests_are_answered_in_time() {
    let data = directory();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_LIMITS__QUERY_MS", "60000")]).await;
    let different = |name: char| numbered("", |n| format!("{name}{n:07x} "));
    let few = |seed: u64| {
        fastrand::seed(seed);
        (0..2_500).map(|_| format!("{}{} ", "x".repeat(400), fastrand::u8(..16))).collect::<String>()
    };
    let pages = pages();
    let page = |wanted: &str| pages.iter().find(|(name, _)| *name == wanted).unwrap().1.clone();
    let compare = |sides: [String; 2], kind: &str, profile: &str| {
        let [a, b] = sides;
        ("/compare", json!({"a": {kind: a}, "b": {kind: b}, "profile": profile}))
    };
    let requests = [
        ("warming up", compare(["a b".into(), "b c 臺灣".into()], "text", "minhash-copies@2")),
        ("texts with all features different", compare(['u', 'v'].map(different), "text", "minhash-copies@2")),
        ("texts with all votes different", compare(['u', 'v'].map(different), "text", "shingles-64@1")),
        ("texts of as many words as are compared", compare([1, 2].map(few), "text", "copies-64")),
        ("pages", compare(["nested lists", "definitions"].map(page), "html", "copies-128@1")),
        (
            "an explanation",
            ("/fingerprint", json!({"text": different('u'), "profile": "shingles-64@1", "explain": true})),
        ),
    ];
    let mut taken = Vec::new();
    for (name, (path, body)) in requests {
        let before = processor_time(&server);
        let request = server.client.post(format!("{}{path}", server.url)).json(&body);
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{name}: {}", answer.text().await.unwrap());
        let bytes = answer.bytes().await.unwrap().len();
        assert!(bytes < 2 * SIZE, "{name}: {bytes} bytes");
        let time = processor_time(&server).saturating_sub(before);
        println!("{:>6} ms, {bytes} bytes: {name}", time.as_millis());
        taken.push((time, name));
    }
    assert!(taken[1..].iter().all(|(time, _)| *time <= 2 * LIMIT), "{taken:?}");
}
