//! Texts and pages that are constructed to take much time or memory.
//!
//! Not here: the limits that they are measured against, which are in the tests.

use std::io::{Read, Write};

use lookalike_text::fingerprint::Profiles;

const SHORT_PARAGRAPH: &str = "<p>a, b, c, d, e, f, g, h, i, j, k, l, m, n</p>";
const IMAGE: &str = "<img src=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.png><p>";
const HEADING: &str = "<h2 class=comment>a, b, c, d, e, f, g, h</h2>";
const LINKS: &str = "<p><a href=x>a, b, c</a></p>";
const STRUCTURED_DATA: &str =
    "<script type=application/ld+json>{\"@context\":\"https://schema.org\",\"name\":\"";

/// A Thai sentence: words are not separated.
const THAI: &str = "ภาษาไทยไม่มีช่องว่างระหว่างคำ";

/// A user's profiles with the most features: a gram at every letter.
const MOST_FEATURES: &str = "
[every-letter-64]
like = \"copies-64\"
gram_step = 1
half = \"nothing\"

[every-letter-128]
like = \"copies-128\"
gram_step = 1
half = \"nothing\"

[every-letter-sets]
like = \"minhash-copies\"
gram_step = 1
";

/// The built-in profiles, and those of a user with the most features.
pub fn profiles() -> Profiles {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(MOST_FEATURES.as_bytes()).unwrap();
    lookalike_text::profiles::load(Some(file.path())).unwrap()
}

/// Inputs of about a given size.
pub struct Inputs {
    /// The size in bytes.
    pub bytes: usize,
}

impl Inputs {
    /// As many copies of the unit as fit.
    fn full_of(&self, unit: &str) -> String {
        unit.repeat(self.bytes / unit.len())
    }

    /// As `full_of`, between a head and a tail.
    fn between(&self, head: &str, unit: &str, tail: &str) -> String {
        format!("{head}{}{tail}", unit.repeat((self.bytes - head.len() - tail.len()) / unit.len()))
    }

    /// A head, and units that differ by their number.
    pub fn numbered(&self, head: &str, unit: impl Fn(usize) -> String) -> String {
        let mut text = head.to_owned();
        for number in 0.. {
            let next = unit(number);
            if text.len() + next.len() > self.bytes {
                break;
            }
            text += &next;
        }
        text
    }

    /// The characters of these ranges in order, repeated up to the size.
    fn characters(&self, ranges: &[std::ops::RangeInclusive<u32>]) -> String {
        let all: String = ranges.iter().cloned().flatten().filter_map(char::from_u32).collect();
        let mut text = all.repeat(self.bytes / all.len() + 1);
        text.truncate(text.floor_char_boundary(self.bytes));
        text
    }

    /// `count` opening tags, the content repeated up to the size, and `count` closing tags.
    fn nested(&self, count: usize, open: &str, inside: &str, close: &str) -> String {
        let (head, tail) = (open.repeat(count), close.repeat(count));
        self.between(&head, inside, &tail)
    }

#[rustfmt::skip]
    pub fn pages(&self) -> Vec<(&'static str, String)> {
    let sentence = "Fish and chips, a dish of battered fish, is served hot with salt, vinegar, and peas. ";
    let link = format!("<a href=x>{sentence}</a> ");
    let cell = format!("<div><p>{sentence}</p><p>d, e</p></div>");
    let list = format!("<ul><li>{sentence}</ul>");
    let blocks = format!("{}x{}", "<div>".repeat(200), "</div>".repeat(200));
    let mut pages = vec![
        ("ampersands and spaces", self.full_of("& ")),
        ("ampersands", self.full_of("&")),
        ("entities without semicolon", self.full_of("&amp")),
        ("entities that go on", self.full_of("&notit;")),
        ("entities of no name", self.between("&", "a", "")),
        ("hexadecimal references", self.full_of("&#x")),
        ("one reference of many digits", self.between("&#", "9", ";")),
        ("references to U+FDFA", self.full_of("&#xfdfa;")),
        ("ampersands in an attribute", self.between("<p title=\"", "& ", "\">deep")),
        ("125,000 attributes", self.numbered("<p", |n| format!(" a{n}")) + ">deep"),
        ("one attribute over and over", self.between("<p", " a", ">deep")),
        ("attributes of many paragraphs", self.numbered("", |n| format!("<p a{n} b{n} c{n}>"))),
        ("a giant attribute", self.between("<p class='", "comment share ", "'>deep")),
        ("a giant attribute name", self.between("<p ", "a", ">deep")),
        ("a giant tag name", self.between("<", "a", ">deep")),
        ("tag names that differ", self.numbered("", |n| format!("<element-{n}>x</element-{n}>"))),
        ("attributes without end", self.between("<p ", "a='", "")),
        ("tags without end", self.full_of("<p")),
        ("opening angle brackets", self.full_of("<")),
        ("end tags", self.full_of("</")),
        ("end tags that miss", self.nested(250, "<div>", "</x>", "</div>")),
        ("ends of formatting that miss", self.nested(250, "<div>", "</b>", "</div>")),
        ("comments without end", self.full_of("<!--")),
        ("comments", self.full_of("<!---->x")),
        ("dashes in a comment", self.between("<!--", "-", "")),
        ("sections of characters", self.full_of("<![CDATA[")),
        ("sections in a drawing", self.between("<svg>", "<![CDATA[]]>", "")),
        ("document types", self.full_of("<!DOCTYPE html>")),
        ("processing instructions", self.full_of("<?x")),
        ("a script without end", self.between("<script>", "<!--<script>", "")),
        ("scripts", self.full_of("<script></script>")),
        ("ends of a script", self.between("<script>", "</scrip", "")),
        ("styles without end", self.full_of("<style>")),
        ("a text area without end", self.between("<textarea>", "</textare", "")),
        ("a title", self.between("<title>", "fish ", "</title><h1>fish</h1>")),
        ("a title and headings", titled(self.bytes / 2)),
        ("a short title and headings", titled(20_000)),
        ("letters of two bytes that are escaped", self.full_of("\u{a9}")),
        ("plain text", self.between("<plaintext>", "<p>", "")),
        ("nested blocks", self.full_of("<div>")),
        ("nested blocks at the limit", self.nested(240, "<div>", sentence, "</div>")),
        ("paragraphs in nested blocks", self.nested(240, "<div>", &format!("<p>{sentence}</p>"), "</div>")),
        ("short paragraphs in few blocks", self.nested(17, "<div>", SHORT_PARAGRAPH, "</div>")),
        ("paragraphs in few blocks", self.nested(19, "<div>", &format!("<p>{sentence}</p>"), "</div>")),
        ("text in few blocks", self.nested(20, "<div>", sentence, "</div>")),
        ("shared text in few blocks", self.nested(20, "<div class=share>", "x ", "</div>")),
        ("links in few blocks", self.nested(9, "<div><ul><li>", &link, "</li></ul></div>")),
        ("tables in few blocks", self.nested(4, "<table><tr><td>", &cell, "</td></tr></table>")),
        ("images in few blocks", self.nested(14, "<div>", IMAGE, "</div>")),
        ("images in few sections", self.nested(42, "<section>", IMAGE, "</section>")),
        ("headings in few blocks", self.nested(20, "<section>", HEADING, "</section>")),
        ("lists in few blocks", self.nested(15, "<form><fieldset>", &list, "</fieldset></form>")),
        ("links in nested blocks",
            self.nested(120, "<div><ul><li>", "<a href=x>a, b</a> ", "</li></ul></div>")),
        ("images in nested blocks", self.nested(240, "<div>", "<img src=x.png>", "</div>")),
        ("nested blocks again and again", self.full_of(&blocks)),
        ("nested tables", self.full_of("<table><tr><td>")),
        ("nested tables at the limit", self.nested(60, "<table><tr><td>", "a, b, ", "")),
        ("blocks that a table moves out", self.between("<table>", "<div>", "")),
        ("text that a table moves out", self.between("<table>", "x<tr>", "")),
        ("cells", self.between("<table>", "<tr><td>x", "")),
        ("nested formatting", self.full_of("<b><i><a><font>")),
        ("formatting with attributes", self.numbered("", |n| format!("<p><b a{n}><i a{n}>"))),
        ("formatting that is compared",
            self.numbered(&formatting(200), |n| format!("<b a=1 b=2 c=3 d=4 e=5 f=6 g=7 h={n}></b>"))),
        ("links in links", self.full_of("<a><a>")),
        ("bold across blocks", self.full_of("<b><p></b>")),
        ("the adoption agency", self.full_of("<a><div><b><p></a>")),
        ("nested fonts", self.full_of("<font size=1><p>")),
        ("nested forms", self.full_of("<form><div>")),
        ("nested lists", self.full_of("<ul><li>")),
        ("definitions", self.full_of("<dl><dd><dt>")),
        ("nested drawings", self.full_of("<svg><g><desc><div/>")),
        ("nested formulas", self.full_of("<math><mi><table>")),
        ("nested templates", self.full_of("<template><div>")),
        ("nested objects", self.nested(200, "<object>", "<p>x</p>", "</object>")),
        ("frames", self.full_of("<frameset><frame>")),
        ("selections", self.full_of("<select><option>x")),
        ("buttons", self.full_of("<button><p>")),
        ("rubies", self.full_of("<ruby><rb>x<rt>y")),
        ("line breaks", self.full_of("<br>")),
        ("line breaks in pairs", self.full_of("<br><br>x")),
        ("many paragraphs", self.full_of(&format!("<p>{sentence}</p>"))),
        ("many short paragraphs", self.full_of("<p>a, b.")),
        ("paragraphs that are shared", self.nested(240, "<div class=share>", "x ", "</div>")),
        ("many links with a base",
            format!("<base href=http://a/{}>{}", "a".repeat(self.bytes / 2), LINKS.repeat(self.bytes / 60))),
        ("structured data", self.between(STRUCTURED_DATA, "[{", "</script>")),
        ("many bodies", self.numbered("", |n| format!("<body a{n}=1>"))),
        ("zero bytes", self.full_of("\0<p>")),
        ("carriage returns", self.full_of("\r")),
    ];
    pages.extend(self.parts());
    pages
}

    /// Parts of pages that are removed before an article is sought.
    #[rustfmt::skip]
    fn parts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("notices", self.full_of("<p>We use cookies.</p>")),
            ("notices in nested blocks", self.nested(240, "<div>", "<p>We use cookies.</p>", "</div>")),
            ("notices within each other", self.full_of("<div>We use cookies.")),
            ("one long notice", self.between("<p>", "we use cookies to ", "</p>")),
            ("names of parts", self.full_of("<div class='readMore share-comment a b c d'>x, y</div>")),
            ("a name of many words", self.full_of("<i id='a b c d e f g h i j k l m n o p q r s t'>")),
            ("embedded quotations", self.full_of("<div class=embed><blockquote>x, y</blockquote></div>")),
            ("many articles", self.full_of("<article><h1>x</h1>y</article>")),
            ("texts of articles", self.nested(240, "<div itemprop=articleBody>", "x, ", "</div>")),
        ]
    }

#[rustfmt::skip]
    pub fn texts(&self) -> Vec<(&'static str, String)> {
    vec![
        ("U+FDFA", self.full_of("\u{fdfa}")),
        ("U+FDFA and spaces", self.full_of("\u{fdfa} ")),
        ("U+FDFA among letters", self.full_of("\u{fdfa}ab")),
        ("squared words", self.full_of("\u{3316}\u{3315}\u{33a7}")),
        ("ligatures", self.full_of("\u{fb03}")),
        ("letters that fold to several", self.full_of("\u{390}\u{1fb7}\u{df}\u{130}")),
        ("zero width", self.full_of("a\u{200b}\u{200d}\u{2060}")),
        ("zero width alone", self.full_of("\u{200b}")),
        ("marks on one letter", self.between("a", "\u{301}", "")),
        ("marks in falling order", self.between("a", "\u{345}\u{301}\u{316}\u{334}", "")),
        ("marks on every letter", self.full_of("z\u{300}\u{316}\u{334}\u{345}\u{35c}\u{489}")),
        ("jamo", self.full_of("\u{1100}\u{1161}\u{11a8}")),
        ("leading jamo alone", self.full_of("\u{1100}")),
        ("private and unassigned", self.full_of("\u{e000}\u{378}\u{10ffff}\u{fffd}")),
        ("marks of direction", self.full_of("a\u{202e}b\u{202c}\u{200f}")),
        ("one ideograph", self.full_of("的")),
        ("an ideograph that no word has", self.full_of("\u{9fef}")),
        ("rare ideographs", self.characters(&[0x20000..=0x22000])),
        ("every ideograph", self.characters(&[0x4e00..=0x9fff])),
        ("traditional ideographs", self.full_of("臺灣電腦軟體體體")),
        ("a word of many prefixes", self.full_of("中华人民共和国")),
        ("one digit", self.full_of("7")),
        ("numbers that differ", self.numbered("", |n| format!("{n} "))),
        ("words that differ", self.numbered("", |n| format!("w{n:x}x "))),
        ("Chinese words that differ", self.numbered("", |n| {
            let character = |at: usize| char::from_u32(0x4e00 + at as u32).unwrap();
            let [a, b] = [n % 6_000, n / 6_000 + n % 97].map(character);
            format!("{a}{b},")
        })),
        ("words of different weights", self.words_of_different_weights()),
        ("one word", self.full_of("a")),
        ("one word of other letters", self.full_of("ж")),
        ("two words", self.full_of("ab ")),
        ("one letter a word", self.full_of("a b c d ")),
        ("scripts in turn", self.full_of("aж中あกأ")),
        ("scripts in turn with spaces", self.full_of("a 中 あ ก ")),
        ("Thai", self.full_of(THAI)),
        ("one letter of Thai", self.full_of("ก")),
        ("signs of Thai", self.full_of("ก็่้๊๋")),
        ("Khmer", self.full_of("ភាសាខ្មែរមិនមានចន្លោះ")),
        ("Burmese", self.full_of("မြန်မာဘာသာစကား")),
        ("Lao", self.full_of("ພາສາລາວ")),
        ("Japanese", self.full_of("東京へ行くことにしたがすもももももももものうち")),
        ("katakana", self.full_of("タ")),
        ("half-width katakana", self.full_of("ｶﾞﾊﾟ")),
        ("kana at the end", self.between("", "中", "あ")),
        ("sentences with kana", self.full_of("中あ。")),
        ("emoji joined", self.full_of("👩\u{200d}👩\u{200d}👧\u{200d}👦")),
        ("flags", self.full_of("🇩🇪")),
        ("keycaps", self.full_of("1\u{fe0f}\u{20e3}")),
        ("control characters", self.full_of("\u{1}\u{7f}\u{85}a")),
        ("zero characters", self.full_of("\0")),
        ("new lines", self.full_of("\n")),
        ("spaces of every kind", self.full_of("a \u{a0}\u{2003}\u{3000}\u{2028}\t")),
        ("ends of sentences", self.full_of("。")),
        ("short sentences", self.full_of("a.")),
        ("sentences that differ", self.numbered("", |n| format!("{n}."))),
        ("long sentences", self.numbered("", |n| format!("{}{n}.", "word ".repeat(20_000)))),
        ("points between letters", self.full_of("a.b:c'd")),
        ("points without end", self.between("a", ".", "")),
        ("hyphens", self.full_of("a-")),
        ("punctuation", self.full_of("!\"#$%&'()*+,-./")),
        ("signs of words alone", self.full_of("_")),
        ("percent", self.full_of("%.+#")),
        ("connectors", self.full_of("a.1-2_3%")),
        ("Arabic", self.full_of("اللغة العربية ")),
        ("Devanagari", self.full_of("हिन्दी में ")),
        ("Korean", self.full_of("한국어 문장 ")),
        ("Tibetan", self.full_of("བོད་སྐད་")),
        ("every character", self.characters(&[0x21..=0xd7ff, 0xe000..=0x2_ffff])),
    ]
}

    /// Words with thousands of different weights: for every inverse document frequency of the built-in
    /// table, its first word once, its second word twice, and so on.
    fn words_of_different_weights(&self) -> String {
        let packed =
            std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/crates/text/assets/idf.txt.gz"))
                .unwrap();
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
        text.truncate(text.floor_char_boundary(self.bytes));
        text
    }
}

/// The beginning of a page with this many different formatting elements, none of which is closed.
fn formatting(count: usize) -> String {
    (0..count).map(|n| format!("<b z={n}>")).collect()
}

/// A page with a title of `bytes` bytes and nearly as many headings as the limit of nodes allows.
fn titled(bytes: usize) -> String {
    let words: String = (0..bytes / 8).map(|n| format!("w{n:06} ")).collect();
    format!("<title>{words}</title>{}", "<h2>x y".repeat(20_000))
}
