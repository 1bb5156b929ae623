//! `docs/errors.md` as a page for browsers: headings with the code as their anchor, paragraphs, code, links.
//!
//! *Absent*: other Markdown, which that document does not have.

use std::fmt::Write;
use std::sync::LazyLock;

use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};

const DOCUMENT: &str = include_str!("../../../docs/errors.md");
const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <title>Errors · lookalike</title>\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n</head>\n<body>\n<main>\n";

static PAGE: LazyLock<String> = LazyLock::new(|| page(DOCUMENT));

/// The explanations of the errors: a page for a client that takes HTML, and Markdown for others.
pub(super) async fn errors(headers: HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut answer = if accepted.contains("text/html") {
        Html(PAGE.as_str()).into_response()
    } else {
        ([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], DOCUMENT).into_response()
    };
    answer.headers_mut().insert(header::VARY, header::HeaderValue::from_static("accept"));
    answer
}

fn page(document: &str) -> String {
    let mut out = HEAD.to_owned();
    for block in document.split("\n\n") {
        let level = block.bytes().take_while(|byte| *byte == b'#').count();
        let (heading, rest) = block.split_once('\n').unwrap_or((block, ""));
        let paragraph = if level > 0 { rest } else { block };
        if level > 0 {
            let title = heading[level..].trim();
            let anchor = title.split(' ').next().unwrap_or_default();
            let _ = writeln!(out, "<h{level} id=\"{anchor}\">{}</h{level}>", inline(title));
        }
        if !paragraph.trim().is_empty() {
            let _ = writeln!(out, "<p>{}</p>", inline(paragraph.trim()));
        }
    }
    out + "</main>\n</body>\n</html>\n"
}

/// Code in backquotes; of a link to another document only its words, because the server does not serve it.
fn inline(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut out = String::new();
    for (place, part) in escaped.split('`').enumerate() {
        if place % 2 == 1 {
            let _ = write!(out, "<code>{part}</code>");
            continue;
        }
        let mut rest = part;
        while let Some((before, after)) = rest.split_once("](") {
            let (words, end) = (before.replace('[', ""), after.split_once(')'));
            out.push_str(&words);
            rest = end.map_or("", |(_, end)| end);
        }
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_heading_is_an_anchor_and_nothing_of_markdown_is_left() {
        let page = page(DOCUMENT);
        for line in DOCUMENT.lines().filter_map(|line| line.strip_prefix("## ")) {
            let code = line.split(' ').next().unwrap();
            assert!(page.contains(&format!("<h2 id=\"{code}\">")), "{code}");
        }
        assert!(!page.contains("](") && !page.contains('`') && !page.contains("\n#"), "{page}");
        assert_eq!(inline("a `b<c` [d](e.md), f"), "a <code>b&lt;c</code> d, f");
    }
}
