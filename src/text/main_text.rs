//! The main text of an HTML page: the article without navigation, advertisements and footers.
//!
//! Promises: no panic and no stack overflow on any input, and time nearly in proportion to it: a page whose tree
//! would be too deep, too large or too slow to walk through (`tree`) is not given to the article finder, and its visible
//! text is taken. The same happens when no article is found. Leaves out: decoding of bytes to characters.
//!
//! The article finder is `dom_smoothie`, after Mozilla's Readability. It walks trees recursively and in some
//! places looks at all descendants of each node, which is why the limits are needed.

use dom_smoothie::{Config, Readability};

use super::tree::tree_of;
use super::visible::visible_text;

/// What is shorter, in characters, is not taken for an article as long as there is more. The finder's own bound of 500 is
/// one for long English articles: of shorter ones it gives up its rules one after the other, and takes menus and teasers.
const ARTICLE: usize = 100;
/// A line of fewer characters that ends without a mark is no sentence.
const SENTENCE: usize = 80;
/// The most bytes of titles that the finder compares with headings: it takes the whole title for each of them.
const MAX_COMPARED: usize = 4 << 20;

/// Bytes of memory that [`main_text`] takes at most for each byte of a short page.
const PER_BYTE_IF_SHORT: usize = 180;
/// And for each byte of a long one, of which `OF_TREE` are reckoned with in any case: a tree has a bounded number of nodes.
const PER_BYTE_IF_LONG: usize = 18;
const OF_TREE: usize = 28 << 20;

/// Bytes of memory that [`main_text`] takes at most for a page of so many bytes, as `tests/allocation.rs` measures.
pub fn memory_for_page(bytes: usize) -> usize {
    (PER_BYTE_IF_SHORT * bytes).min(OF_TREE.max(PER_BYTE_IF_LONG * bytes))
}

/// The main text of a page; all its visible text if no article is found.
///
/// ```
/// use lookalike::text::main_text;
/// assert_eq!(main_text("<p>Fish &amp; <b>chips</b></p><script>x</script>").trim(), "Fish & chips");
/// ```
pub fn main_text(html: &str) -> String {
    article(html).unwrap_or_else(|| visible_text(html))
}

fn article(html: &str) -> Option<String> {
    let document = tree_of(html)?;
    let page_bytes = html.len();
    // A defect of the finder must cost an article and not the request.
    let found = std::panic::catch_unwind(move || {
        let config = Config { char_threshold: ARTICLE, ..Config::default() };
        let mut reader = Readability::with_document(document, None, Some(config)).ok()?;
        let headings = reader.doc.select("h1, h2").length();
        // Few pages are so large that it takes a look at the title.
        if headings.saturating_mul(page_bytes) > MAX_COMPARED {
            let title = reader.get_article_metadata(reader.parse_json_ld()).title;
            if headings.saturating_mul(title.len()) > MAX_COMPARED {
                return None;
            }
        }
        // The finder's own text glues the last word of a block to the first of the next.
        Some(without_edges(&visible_text(&reader.parse().ok()?.content)).to_owned())
    });
    found.ok().flatten().filter(|text| !text.trim().is_empty())
}

/// A text without the lines before its first sentence and after its last one: what is left there of menus, captions and
/// teasers. All of it if that would be most of it, as of a list.
fn without_edges(text: &str) -> &str {
    let is_sentence = |line: &&str| {
        let line = line.trim();
        let words = line.trim_end_matches(['"', '\'', '”', '’', '」', '』', '）', ')', '»']);
        let marks = ['.', '!', '?', '。', '．', '！', '？', '…', '；', '۔', '؟', '।', '။', '។'];
        line.chars().nth(SENTENCE - 1).is_some() || words.ends_with(marks)
    };
    let start = |line: &str| line.as_ptr() as usize - text.as_ptr() as usize;
    let mut sentences = text.lines().filter(is_sentence);
    let Some(first) = sentences.next() else { return text };
    let last = sentences.next_back().unwrap_or(first);
    let inner = &text[start(first)..start(last) + last.len()];
    if 2 * inner.len() < text.trim().len() { text } else { inner }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARTICLE: &str =
        "Fish and chips, a dish of battered fish, is served hot with salt, vinegar, and peas. ";

    fn page(article: &str) -> String {
        format!(
            "<html><head><title>T</title><style>p{{}}</style></head><body><nav><a href=/>Home</a></nav>\
             <article><h1>Dish</h1><p>{article}</p><p>{article}</p></article>\
             <script>var x = '<p>';</script><footer>Imprint</footer></body></html>"
        )
    }

    #[test]
    fn an_article_is_found_without_what_is_around_it() {
        let text = main_text(&page(&ARTICLE.repeat(8)));
        assert!(text.contains("vinegar"), "{text}");
        assert!(!text.contains("Imprint") && !text.contains("Home") && !text.contains("var x"), "{text}");
    }

    #[test]
    fn short_articles_are_found_without_menus_and_teasers() {
        let article = "图书馆昨天宣布延长开放时间。".repeat(9);
        let page = format!(
            "<table><tr><td><a href=#>首页</a><br><a href=#>滚动新闻</a></td><td><h2>正文</h2><div><p>{article}</p></div></td>\
             <td><b>相关阅读</b><br><a href=#>另一条新闻的标题</a><br><a href=#>又一条新闻的标题</a></td></tr></table>"
        );
        assert_eq!(main_text(&page).trim(), article);
    }

    #[test]
    fn what_is_no_sentence_is_cut_from_both_ends() {
        let sentence = "He said: \u{201c}it floats.\u{201d}";
        for (text, expected) in [
            (
                format!("\nHome\nMenu\n{sentence}\nin between\n{sentence}\nShare\n"),
                format!("{sentence}\nin between\n{sentence}"),
            ),
            ("a list\nof words\nwithout marks".to_owned(), "a list\nof words\nwithout marks".to_owned()),
            (
                "one.\na long list\nof things that\nhave no marks".to_owned(),
                "one.\na long list\nof things that\nhave no marks".to_owned(),
            ),
            (format!("x\n{}\ny", "字".repeat(SENTENCE)), "字".repeat(SENTENCE)),
            (String::new(), String::new()),
        ] {
            assert_eq!(without_edges(&text), expected, "{text}");
        }
    }

    #[test]
    fn blocks_are_kept_apart_whether_or_not_there_is_space_between_their_tags() {
        for between in ["", "\n"] {
            let sentence = ARTICLE.trim().repeat(4);
            let parts = [
                format!("<p>{sentence}</p>"),
                format!("<p>{sentence}<br>Next.</p>"),
                "<ul><li>one</li><li>two</li></ul>".to_owned(),
            ];
            let page = format!("<html><body><article>{}</article></body></html>", parts.join(between));
            let words: Vec<String> = main_text(&page).split_whitespace().map(str::to_owned).collect();
            let has = |pair: [&str; 2]| words.windows(2).any(|found| found == pair);
            assert!(has(["peas.", "Fish"]) && has(["peas.", "Next."]), "{words:?}");
            assert!(!words.iter().any(|word| word == "onetwo"), "{words:?}");
        }
    }

    #[test]
    fn visible_text_has_no_markup() {
        let cases = [
            ("", ""),
            ("plain &lt;text&gt; &#x4e2d;", "plain <text> 中"),
            ("<div>a</div><div>b<b>c</b></div>", "a bc"),
            ("<script>if (a < b) {}</script><style>x</style>y<!-- z -->", "y"),
            ("<textarea>x</textarea><p>unclosed <a href='", "unclosed"),
            ("<script>never ended", ""),
        ];
        for (html, expected) in cases {
            let words: Vec<_> = visible_text(html).split_whitespace().map(str::to_owned).collect();
            assert_eq!(words.join(" "), expected, "{html}");
        }
    }

    #[test]
    fn hostile_pages_end_in_visible_text() {
        let n = 100_000;
        let cases = [
            ("nested blocks", format!("{}deep{}", "<div>".repeat(n), "</div>".repeat(n))),
            ("blocks without end", format!("{}deep", "<div>".repeat(n))),
            ("nested formatting", format!("{}deep", "<b><i><a><font>".repeat(n / 4))),
            ("formatting without end", format!("{}deep", "<p><b id=1><b id=2><b id=3>".repeat(n / 10))),
            ("nested tables", format!("{}deep", "<table><tr><td>".repeat(n / 10))),
            ("ends that miss", format!("{}deep", "<div><object></div></object>".repeat(n))),
            ("nested drawings", format!("{}deep", "<svg><g><desc><div/>".repeat(n / 4))),
            ("nested templates", format!("{}deep", "<template><div>".repeat(n / 2))),
            ("many siblings", format!("{}deep", "<p>x</p><br>".repeat(n))),
            ("many lists", format!("{}deep", "<ul><li>".repeat(n / 2))),
            ("angle brackets", format!("deep {}", "<".repeat(n))),
            ("attributes", format!("<p {}>deep", "a=1 ".repeat(n))),
            ("entities", format!("deep{}", "&amp".repeat(n))),
            ("nul", format!("deep{}", "\0<p>".repeat(n / 10))),
        ];
        for (name, html) in cases {
            assert!(main_text(&html).contains("deep"), "{name}");
        }
    }
}
