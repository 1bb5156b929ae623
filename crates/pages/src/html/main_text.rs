//! The main text of an HTML page: the article without navigation, advertisements and footers.
//!
//! Guarantees: no panic and no stack overflow on any input, and time nearly proportional to its length. A
//! page whose tree exceeds a limit of `tree` (too deep, too large or too slow to walk) is not passed to the
//! article finder; the result is its visible text. If no article is found, or one that is a small part of
//! the page, the result is the visible text without notices (ADR 50). Not here: decoding of bytes to
//! characters.
//!
//! Before the finder, `boilerplate` removes what surrounds the article (ADR 25). The article finder is
//! `dom_smoothie`, a port of Mozilla's Readability. It walks trees recursively, and in some places it visits
//! all descendants of each node. Therefore the limits are necessary.

use dom_query::Document;
use dom_smoothie::{Config, Readability};

use super::boilerplate::{Shown, remove_boilerplate, remove_notices};
use super::measure::characters;
use super::tree::tree_of;
use super::visible::{checked_visible_and_all, checked_visible_text};
use crate::stop::{Check, Stop, stoppable, whole};

/// The length in characters below which the finder relaxes its rules and tries again. Its default of 500
/// suits long English articles; on shorter ones it would relax rule after rule until it accepts menus and
/// teasers.
const ARTICLE: usize = 100;
/// A line of fewer characters that ends without a punctuation mark is not a sentence.
const SENTENCE: usize = 80;
/// The marks that end a sentence.
const MARKS: &str = ".!?。．！？…；۔؟।။។";
/// The limit of bytes that the finder compares between the title and headings: it compares the whole title
/// with each heading.
const MAX_COMPARED: usize = 4 << 20;

/// A main text is a small part of the page if the text outside links, or all text, is this many times as
/// long.
const SMALL_OF_UNLINKED: usize = 8;
const SMALL_OF_ALL: usize = 40;

/// The peak memory of [`main_text`] per byte of a short page.
const PER_BYTE_IF_SHORT: usize = 180;
/// The peak memory per byte of a long page. The bound is at least `OF_TREE`, the memory of a tree with the
/// most nodes.
const PER_BYTE_IF_LONG: usize = 18;
const OF_TREE: usize = 28 << 20;

/// An upper bound, in bytes, of the memory that [`main_text`] allocates for a page of `bytes` bytes;
/// `tests/allocation.rs` checks it.
pub fn memory_for_page(bytes: usize) -> usize {
    (PER_BYTE_IF_SHORT * bytes).min(OF_TREE.max(PER_BYTE_IF_LONG * bytes))
}

/// Which text of a page is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageText {
    /// The main text.
    #[default]
    Main,
    /// All visible text.
    Visible,
}

/// The text of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRead {
    /// The text.
    pub text: String,
    /// Which text it is.
    pub which: PageText,
    /// The digest of all text of the page, also of what is hidden, of form fields and of data: pages with
    /// equal digests differ in nothing that a reader could see.
    pub digest: u64,
}

/// The main or the visible text of a page, as wanted; the visible one also if there is no main text, or if it
/// is a small part of the page.
pub fn page_text(html: &str, wanted: PageText) -> PageRead {
    whole(|check| checked(html, wanted, check))
}

/// [`page_text`] that ends early.
///
/// # Errors
/// The error of `check`, which is called between the steps, and every few hundred tokens of the page. The
/// article finder is not interrupted: the limits of the tree bound its work, whatever the size of the page.
pub fn checked_page_text<E>(
    html: &str,
    wanted: PageText,
    check: impl Fn() -> Result<(), E>,
) -> Result<PageRead, E> {
    stoppable(check, |check| checked(html, wanted, check))
}

fn checked(html: &str, wanted: PageText, check: Check<'_>) -> Result<PageRead, Stop> {
    let which = PageText::Visible;
    if wanted == PageText::Visible {
        let (text, digest) = checked_visible_and_all(html, check)?;
        return Ok(PageRead { text, which, digest });
    }
    let Some((document, digest)) = tree_of(html, check)? else {
        let (text, digest) = checked_visible_and_all(html, check)?;
        return Ok(PageRead { text, which, digest });
    };
    check()?;
    let shown = remove_boilerplate(&document.tree);
    check()?;
    if let Some(article) = article(document, html.len()) {
        check()?;
        // The finder's own text joins the last word of a block to the first word of the next.
        let text = checked_visible_text(&article, check)?;
        let text = without_start(&text);
        if !is_small(text, shown) {
            return Ok(PageRead { text: text.to_owned(), which: PageText::Main, digest });
        }
    }
    Ok(PageRead { text: without_notices(html, check)?, which, digest })
}

/// Whether a main text is empty, or a small part of what the page shows.
fn is_small(text: &str, shown: Shown) -> bool {
    let characters = characters(text);
    characters == 0
        || SMALL_OF_UNLINKED * characters < shown.unlinked
        || SMALL_OF_ALL * characters < shown.all
}

/// The main text of a page; all its visible text if no article is found.
///
/// ```
/// use lookalike_pages::main_text;
/// assert_eq!(main_text("<p>Fish &amp; <b>chips</b></p><script>x</script>").trim(), "Fish & chips");
/// ```
pub fn main_text(html: &str) -> String {
    page_text(html, PageText::Main).text
}

/// The visible text of a page in which no article was found, without notices as far as the tree is within
/// the limits.
fn without_notices(html: &str, check: Check<'_>) -> Result<String, Stop> {
    if let Some((document, _)) = tree_of(html, check)? {
        check()?;
        if remove_notices(&document.tree) {
            check()?;
            return checked_visible_text(&document.html(), check);
        }
    }
    checked_visible_text(html, check)
}

/// The article of a page of so many bytes, as HTML. `None` if none is found.
fn article(document: Document, page_bytes: usize) -> Option<String> {
    // A panic in the finder must not fail the request; the result is then the visible text.
    let found = std::panic::catch_unwind(move || {
        let config = Config { char_threshold: ARTICLE, disable_json_ld: true, ..Config::default() };
        let mut reader = Readability::with_document(document, None, Some(config)).ok()?;
        let headings = reader.doc.select("h1, h2").length();
        // The title is shorter than the page, so it matters only if the page itself exceeds the limit.
        if headings.saturating_mul(page_bytes) > MAX_COMPARED {
            let title = reader.get_article_metadata(None).title;
            if headings.saturating_mul(title.len()) > MAX_COMPARED {
                return None;
            }
        }
        Some(reader.parse().ok()?.content.to_string())
    });
    found.ok().flatten()
}

/// A text without the lines before its first sentence, which are remains of menus, captions and dates. The
/// whole text if less than half would remain, as for a list. Lines after the last sentence remain: they are
/// often the last items of a list.
fn without_start(text: &str) -> &str {
    let is_sentence = |line: &&str| {
        let line = line.trim();
        let words = line.trim_end_matches(['"', '\'', '”', '’', '」', '』', '）', ')', '»']);
        line.chars().nth(SENTENCE - 1).is_some() || words.ends_with(|c: char| MARKS.contains(c))
    };
    let Some(first) = text.lines().find(is_sentence) else { return text };
    let rest = &text[first.as_ptr() as usize - text.as_ptr() as usize..];
    if 2 * rest.len() < text.trim().len() { text } else { rest }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::visible_text;
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
    fn an_article_is_found_without_its_surroundings() {
        let text = main_text(&page(&ARTICLE.repeat(8)));
        assert!(text.contains("vinegar"), "{text}");
        assert!(!text.contains("Imprint") && !text.contains("Home") && !text.contains("var x"), "{text}");
    }

    #[test]
    fn short_articles_are_found_without_menus_and_teasers() {
        let article = "图书馆昨天宣布延长开放时间。".repeat(9);
        let page = format!(
            "<table><tr><td><a href=#>首页</a><br><a href=#>滚动新闻</a></td>\
             <td><h2>正文</h2><div><p>{article}</p></div></td>\
             <td><b>相关阅读</b><br><a href=#>另一条新闻的标题</a><br>\
             <a href=#>又一条新闻的标题</a></td></tr></table>"
        );
        assert_eq!(main_text(&page).trim(), article);
    }

    #[test]
    fn lines_before_the_first_sentence_are_cut() {
        let sentence = "He said: \u{201c}it floats.\u{201d}";
        for (text, expected) in [
            (
                format!("\nHome\nMenu\n{sentence}\nin between\n{sentence}\nlast\n"),
                format!("{sentence}\nin between\n{sentence}\nlast\n"),
            ),
            ("a list\nof words\nwithout marks".to_owned(), "a list\nof words\nwithout marks".to_owned()),
            (
                "a long list\nof things that\nhave none\none.".to_owned(),
                "a long list\nof things that\nhave none\none.".to_owned(),
            ),
            (format!("x\n{}", "字".repeat(SENTENCE)), "字".repeat(SENTENCE)),
            (String::new(), String::new()),
        ] {
            assert_eq!(without_start(&text), expected, "{text}");
        }
    }

    #[test]
    fn blocks_are_separated_with_and_without_space_between_their_tags() {
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
            ("<textarea>x &lt;b></textarea><p>unclosed <a href='", "x <b> unclosed"),
            ("<script>never ended", ""),
        ];
        for (html, expected) in cases {
            let words: Vec<_> = visible_text(html).split_whitespace().map(str::to_owned).collect();
            assert_eq!(words.join(" "), expected, "{html}");
        }
    }

    #[test]
    fn every_check_can_end_it() {
        let page = page(&ARTICLE.repeat(800));
        let checks = Cell::new(0);
        let until = |most: usize| {
            checks.set(0);
            checked_page_text(&page, PageText::Main, || {
                checks.set(checks.get() + 1);
                if checks.get() <= most { Ok(()) } else { Err("late") }
            })
        };
        assert_eq!(until(usize::MAX).unwrap().text, main_text(&page));
        let all = checks.get();
        assert!(all >= 2, "{all}");
        for most in 0..all {
            assert_eq!(until(most), Err("late"), "{most}");
        }
    }

    #[test]
    fn hostile_pages_give_visible_text() {
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
