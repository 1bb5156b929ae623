//! All visible text of an HTML page, in one pass over its tokens and without a tree.
//!
//! Promises: time and memory in proportion to the page, whatever its nesting; no panic; blocks are kept apart by
//! line breaks. Leaves out: what style sheets hide, and every judgement about what is an article.

use std::cell::{Cell, RefCell};

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

/// The text of a page without tags, comments, scripts and styles.
pub fn visible_text(html: &str) -> String {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    let tokenizer = Tokenizer::new(Visible::default(), TokenizerOpts::default());
    // The only other result asks for a script to be run, which the sink never reports.
    while !input.is_empty() {
        let _ = tokenizer.feed(&input);
    }
    tokenizer.end();
    tokenizer.sink.text.take()
}

#[derive(Default)]
struct Visible {
    text: RefCell<String>,
    /// The raw element whose content is being dropped.
    within_hidden: Cell<bool>,
}

impl TokenSink for Visible {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            Token::CharacterTokens(text) if !self.within_hidden.get() => {
                self.text.borrow_mut().push_str(&text);
            }
            Token::TagToken(tag) => return self.tag(&tag),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl Visible {
    fn tag(&self, tag: &Tag) -> TokenSinkResult<()> {
        let name = &*tag.name;
        if !is_inline(name) {
            self.text.borrow_mut().push('\n');
        }
        let raw = raw_content(name);
        // Nothing but its own end tag ends a raw element, so that one flag is enough.
        self.within_hidden.set(tag.kind == TagKind::StartTag && raw.is_some_and(|(_, hidden)| hidden));
        match raw {
            Some((kind, _)) if tag.kind == TagKind::StartTag => TokenSinkResult::RawData(kind),
            _ => TokenSinkResult::Continue,
        }
    }
}

/// How the content of an element is read if it is not markup, and whether a reader does not see it.
fn raw_content(name: &str) -> Option<(RawKind, bool)> {
    match name {
        "script" => Some((RawKind::ScriptData, true)),
        "style" | "xmp" | "iframe" | "noembed" | "noframes" => Some((RawKind::Rawtext, true)),
        "title" | "textarea" => Some((RawKind::Rcdata, name == "textarea")),
        _ => None,
    }
}

/// Elements that do not separate the words before them from those after.
fn is_inline(name: &str) -> bool {
    matches!(
        name,
        "a" | "abbr"
            | "b"
            | "bdi"
            | "bdo"
            | "big"
            | "cite"
            | "code"
            | "em"
            | "font"
            | "i"
            | "ins"
            | "kbd"
            | "mark"
            | "q"
            | "s"
            | "small"
            | "span"
            | "strike"
            | "strong"
            | "sub"
            | "sup"
            | "tt"
            | "u"
            | "var"
            | "wbr"
    )
}
