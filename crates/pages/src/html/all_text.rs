//! A digest of all text that an HTML page has, also where a reader does not see it: hidden elements, form
//! fields, alternatives of pictures, data for scripts.
//!
//! Guarantees: pages with equal digests have the same text, whatever their tags are; time proportional to the
//! page. Two pages that a reader sees alike may differ in it. Not in it: comments, style sheets, addresses,
//! names of elements. Scripts are, since many pages carry their text in them.

use html5gum::emitters::callback::CallbackEvent;
use xxhash_rust::xxh3::Xxh3Default;

use super::visible::is_inline;

/// The separator of two words.
const SPACE: &[u8] = b" ";
/// The bytes that are held before they are digested: many tokens have one letter.
const HELD: usize = 1024;

/// The text of the tokens so far.
#[derive(Default)]
pub(super) struct AllText {
    digest: Xxh3Default,
    held: Vec<u8>,
    /// Whether white space or the edge of a block comes before the next word.
    is_apart: bool,
    /// How the content after the tag that is being read is taken.
    next: Content,
    content: Content,
    /// Whether the value of the attribute that is being read is text.
    takes_value: bool,
}

/// The kind of content of an element.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Content {
    #[default]
    Words,
    /// Data or a program, in which white space is not examined.
    Script,
    /// No text.
    Style,
}

impl AllText {
    pub(super) fn take(&mut self, event: &CallbackEvent<'_>) {
        match event {
            CallbackEvent::String { value } => match self.content {
                Content::Words => self.words(value),
                Content::Script => self.put(value),
                Content::Style => {}
            },
            CallbackEvent::OpenStartTag { name } => {
                self.is_apart |= !is_inline(name);
                self.next = match *name {
                    b"script" => Content::Script,
                    b"style" => Content::Style,
                    _ => Content::Words,
                };
            }
            CallbackEvent::AttributeName { name } => self.takes_value = is_text(name),
            CallbackEvent::AttributeValue { value } if self.takes_value => {
                self.is_apart = true;
                self.words(value);
                self.is_apart = true;
            }
            CallbackEvent::CloseStartTag { .. } => self.content = self.next,
            CallbackEvent::EndTag { name } => {
                self.is_apart |= !is_inline(name);
                self.content = Content::Words;
            }
            _ => {}
        }
    }

    pub(super) fn digest(mut self) -> u64 {
        self.digest.update(&self.held);
        self.digest.digest()
    }

    fn put(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= HELD {
            self.digest.update(&self.held);
            self.held.clear();
        }
    }

    fn words(&mut self, text: &[u8]) {
        self.is_apart |= text.first().is_some_and(u8::is_ascii_whitespace);
        for word in text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
            if std::mem::replace(&mut self.is_apart, true) {
                self.put(SPACE);
            }
            self.put(word);
        }
        self.is_apart = text.last().map_or(self.is_apart, u8::is_ascii_whitespace);
    }
}

/// Whether the value of an attribute is text that a reader may see, or data from which scripts make it.
fn is_text(attribute: &[u8]) -> bool {
    matches!(
        attribute,
        b"alt"
            | b"content"
            | b"datetime"
            | b"label"
            | b"placeholder"
            | b"srcdoc"
            | b"summary"
            | b"title"
            | b"value"
    ) || attribute.starts_with(b"data-")
        || attribute.starts_with(b"aria-")
}
