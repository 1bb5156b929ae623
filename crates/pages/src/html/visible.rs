//! All visible text of an HTML page, in one pass over its tokens and without a tree.
//!
//! Guarantees: time and memory proportional to the page, whatever its nesting; no panic; a line break between
//! blocks. Not here: style sheets, so text that they hide is included; the choice of the main text.

use html5gum::State;
use html5gum::emitters::callback::CallbackEvent;

use super::all_text::AllText;
use super::page::{Sink, read};
use crate::stop::{Check, Stop, whole};

/// The text of a page without tags, comments, scripts and styles; with the content of text fields.
pub fn visible_text(html: &str) -> String {
    whole(|check| checked_visible_text(html, check))
}

/// [`visible_text`] that ends early with the error of `check`.
pub(super) fn checked_visible_text(html: &str, check: Check<'_>) -> Result<String, Stop> {
    let mut visible = Visible::default();
    read(html, &mut visible, check)?;
    Ok(visible.text)
}

/// [`checked_visible_text`] with the digest of all text of the page ([`AllText`]).
pub(super) fn checked_visible_and_all(html: &str, check: Check<'_>) -> Result<(String, u64), Stop> {
    let mut visible = Visible { all: Some(AllText::default()), ..Visible::default() };
    read(html, &mut visible, check)?;
    Ok((visible.text, visible.all.map_or(0, AllText::digest)))
}

#[derive(Default)]
struct Visible {
    text: String,
    /// Whether the content of a raw element is being dropped.
    within_hidden: bool,
    /// The name of the start tag that is being read. A tag that the page ends in has no effect.
    open: Vec<u8>,
    state: Option<State>,
    all: Option<AllText>,
}

impl Sink for Visible {
    fn take(&mut self, event: CallbackEvent<'_>) -> bool {
        if let Some(all) = &mut self.all {
            all.take(&event);
        }
        match event {
            CallbackEvent::String { value } if !self.within_hidden => {
                // Zero bytes in the body of a page are ignored, as in browsers.
                for part in value.split(|&byte| byte == 0) {
                    self.text.push_str(&String::from_utf8_lossy(part));
                }
            }
            CallbackEvent::OpenStartTag { name } => {
                self.open.clear();
                self.open.extend(name);
            }
            CallbackEvent::CloseStartTag { .. } => {
                let name = std::mem::take(&mut self.open);
                self.separate(&name);
                let raw = raw_content(&name);
                // Only its own end tag ends a raw element, so one flag is enough.
                self.within_hidden = raw.is_some_and(|(_, is_hidden)| is_hidden);
                self.state = raw.map(|(state, _)| state);
                self.open = name;
            }
            CallbackEvent::EndTag { name } => {
                self.separate(name);
                self.within_hidden = false;
            }
            _ => {}
        }
        true
    }

    fn state(&mut self) -> Option<State> {
        self.state.take()
    }
}

impl Visible {
    /// Adds a line break at a tag of this name, unless the tag is inline.
    fn separate(&mut self, name: &[u8]) {
        if !is_inline(name) {
            self.text.push('\n');
        }
    }
}

/// For an element whose content is not markup: how the tokenizer reads the content, and whether it is
/// invisible.
fn raw_content(name: &[u8]) -> Option<(State, bool)> {
    match name {
        b"script" => Some((State::ScriptData, true)),
        b"style" | b"xmp" | b"iframe" | b"noembed" | b"noframes" => Some((State::RawText, true)),
        b"title" | b"textarea" => Some((State::RcData, false)),
        _ => None,
    }
}

/// Whether an element leaves the words before and after its tags in one block.
pub(super) fn is_inline(name: &[u8]) -> bool {
    matches!(
        name,
        b"a" | b"abbr"
            | b"b"
            | b"bdi"
            | b"bdo"
            | b"big"
            | b"cite"
            | b"code"
            | b"em"
            | b"font"
            | b"i"
            | b"ins"
            | b"kbd"
            | b"mark"
            | b"q"
            | b"s"
            | b"small"
            | b"span"
            | b"strike"
            | b"strong"
            | b"sub"
            | b"sup"
            | b"tt"
            | b"u"
            | b"var"
            | b"wbr"
    )
}
