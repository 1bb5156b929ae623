//! The tree of a page for the article finder, unless it exceeds a limit. It has no comments and no content
//! of scripts and styles, which are most of the bytes of many pages.
//!
//! Guarantees: time proportional to the page, and a tree on which the work of the finder is bounded. A page
//! that exceeds a limit has no tree. Articles stay far below the limits. Not here: what the caller does
//! with a page without a tree.
//!
//! The tree builder is that of `html5ever`. As the specification demands, it searches the open elements at
//! many tags, and compares each formatting tag with the earlier ones of its name, attribute by attribute.
//! This work is counted in steps and not in time, because the text of a page must not depend on the
//! machine.

use std::cell::Cell;
use std::collections::HashMap;

use dom_query::{Document, NodeData, NodeId, Tree, TreeNode};
use html5ever::interface::Tracer;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{Doctype, Tag, TagKind, Token, TokenSink, TokenSinkResult};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};
use html5ever::{Attribute, LocalName, QualName, local_name, ns};
use html5gum::State;
use html5gum::emitters::callback::CallbackEvent;

use super::all_text::AllText;
use super::page::{Sink, read};
use crate::stop::{Check, Stop};

/// The deepest nesting for the article finder. Chromium itself limits nesting to 512 levels.
const MAX_DEPTH: usize = 256;
/// The most nodes for the article finder; a long article has a few thousand.
const MAX_NODES: usize = 50_000;
/// The most attributes of an element; further ones are dropped.
const MAX_ATTRIBUTES: usize = 64;
/// The bytes that are kept of the value of an attribute, and the most bytes of text in one node. The
/// serializer of `html5ever` searches for `<` up to the end of the node each time it writes `&`, which is
/// quadratic in the node.
const PIECE: usize = 4 << 10;
/// The most different names of elements and attributes in a page. Unusual names are stored in a table of
/// the whole process, whose chains become long if an attacker chooses the names.
const MAX_NAMES: usize = 1_024;
/// The most steps of the tree builder: elements and attributes that it visits.
const MAX_STEPS: usize = 1 << 24;
/// The steps to compare an attribute of one formatting element with those of another.
const ATTRIBUTE_STEPS: usize = 8;
/// The most steps of the article finder. For many elements it walks through all descendants, so each node
/// counts once for each level above it.
const MAX_WALK: usize = 1 << 22;
const NODE_STEPS: usize = 2;
/// The additional steps for each ancestor that is a block which the finder may remove.
const BLOCK_STEPS: usize = 4;
/// The number of bytes of text that count as one step.
const STEP_BYTES: usize = 6;

/// The tree of a page, and the digest of all its text ([`AllText`]); `None` if it is too deep, too large or
/// too slow to build or to walk.
///
/// # Errors
/// The error of `check`, which is called every few hundred tokens.
pub(super) fn tree_of(page: &str, check: Check<'_>) -> Result<Option<(Document, u64)>, Stop> {
    let mut growing = Growing::new();
    if !read(page, &mut growing, check)? {
        return Ok(None);
    }
    growing.pass(Token::EOFToken);
    growing.builder.end();
    let (document, digest) = (growing.builder.sink, growing.all.digest());
    if !is_walkable(&document.tree) {
        return Ok(None);
    }
    split_texts(&document.tree);
    Ok(Some((document, digest)))
}

/// A tree that is being built from the tokens of a page.
struct Growing {
    builder: TreeBuilder<NodeId, Document>,
    /// The start tag that is being read.
    open: Option<Tag>,
    /// Whether the last attribute of that tag accepts a value: false for a dropped attribute.
    takes_value: bool,
    names: HashMap<Box<[u8]>, LocalName>,
    state: Option<State>,
    /// Whether the content of a script or style is being read, which the finder does not need.
    within_script: bool,
    steps: usize,
    all: AllText,
}

impl Sink for Growing {
    fn take(&mut self, event: CallbackEvent<'_>) -> bool {
        self.all.take(&event);
        match event {
            CallbackEvent::OpenStartTag { name } => self.open_tag(name),
            CallbackEvent::AttributeName { name } => self.open_attribute(name),
            CallbackEvent::AttributeValue { value } => self.take_value(value),
            CallbackEvent::CloseStartTag { self_closing } => match self.open.take() {
                Some(tag) => self.pass_tag(Tag { self_closing, ..tag }),
                None => true,
            },
            CallbackEvent::EndTag { name } => match self.name(name) {
                Some(name) => self.pass_tag(tag(TagKind::EndTag, name)),
                None => false,
            },
            CallbackEvent::String { value } => self.within_script || self.pass_characters(value),
            CallbackEvent::Comment { .. } | CallbackEvent::Error(_) => true,
            CallbackEvent::Doctype { name, public_identifier, system_identifier, force_quirks } => {
                self.pass(Token::DoctypeToken(Doctype {
                    name: (!name.is_empty()).then(|| tendril(name)),
                    public_id: public_identifier.map(tendril),
                    system_id: system_identifier.map(tendril),
                    force_quirks,
                }))
            }
        }
    }

    fn state(&mut self) -> Option<State> {
        self.state.take()
    }

    fn is_foreign(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// A `bool` result is whether the page is still within the limits.
impl Growing {
    fn new() -> Growing {
        Growing {
            builder: TreeBuilder::new(Document::default(), TreeBuilderOpts::default()),
            open: None,
            takes_value: false,
            names: HashMap::new(),
            state: None,
            within_script: false,
            steps: 0,
            all: AllText::default(),
        }
    }

    /// The interned name of an element or attribute; `None` if the page has too many names.
    fn name(&mut self, name: &[u8]) -> Option<LocalName> {
        if let Some(known) = self.names.get(name) {
            return Some(known.clone());
        }
        if self.names.len() == MAX_NAMES {
            return None;
        }
        let new = LocalName::from(&*String::from_utf8_lossy(name));
        self.names.insert(name.into(), new.clone());
        Some(new)
    }

    fn open_tag(&mut self, name: &[u8]) -> bool {
        self.open = self.name(name).map(|name| tag(TagKind::StartTag, name));
        self.open.is_some()
    }

    /// Adds an attribute to the open tag, unless the tag has one of this name or the limit is reached.
    fn open_attribute(&mut self, name: &[u8]) -> bool {
        self.takes_value = false;
        let Some(mut tag) = self.open.take() else { return true };
        let is_there = |attribute: &Attribute| attribute.name.local.as_bytes() == name;
        if tag.attrs.len() < MAX_ATTRIBUTES && !tag.attrs.iter().any(is_there) {
            let Some(name) = self.name(name) else { return false };
            // The tree builder changes the namespace where necessary.
            let name = QualName::new(None, ns!(), name);
            tag.attrs.push(Attribute { name, value: StrTendril::new() });
            self.takes_value = true;
        }
        self.open = Some(tag);
        true
    }

    fn take_value(&mut self, value: &[u8]) -> bool {
        if self.takes_value
            && let Some(attribute) = self.open.as_mut().and_then(|tag| tag.attrs.last_mut())
        {
            attribute.value = tendril(&value[..value.len().min(PIECE)]);
        }
        true
    }

    fn pass_tag(&mut self, tag: Tag) -> bool {
        self.steps += self.steps_of(&tag);
        let is_script = matches!(tag.name, local_name!("script") | local_name!("style"));
        let is_within = self.steps <= MAX_STEPS && self.pass(Token::TagToken(tag));
        self.within_script = is_script && self.state.is_some();
        is_within
    }

    /// The steps of the tree builder for a tag: the open elements, and the attributes of all formatting
    /// elements.
    fn steps_of(&self, tag: &Tag) -> usize {
        let is_compared = tag.kind == TagKind::StartTag && !tag.attrs.is_empty() && is_formatting(&tag.name);
        let seen = Seen { tree: is_compared.then_some(&self.builder.sink.tree), ..Seen::default() };
        self.builder.trace_handles(&seen);
        seen.elements.get() + seen.formatting.get() * tag.attrs.len() * ATTRIBUTE_STEPS
    }

    /// Passes characters. Each zero byte is passed as a separate token.
    fn pass_characters(&mut self, characters: &[u8]) -> bool {
        let mut is_first = true;
        for part in characters.split(|&byte| byte == 0) {
            if !is_first && !self.pass(Token::NullCharacterToken) {
                return false;
            }
            is_first = false;
            if !part.is_empty() && !self.pass(Token::CharacterTokens(tendril(part))) {
                return false;
            }
        }
        true
    }

    fn pass(&mut self, token: Token) -> bool {
        self.state = match self.builder.process_token(token, 0) {
            TokenSinkResult::Plaintext => Some(State::PlainText),
            TokenSinkResult::RawData(RawKind::Rcdata) => Some(State::RcData),
            TokenSinkResult::RawData(RawKind::Rawtext) => Some(State::RawText),
            TokenSinkResult::RawData(_) => Some(State::ScriptData),
            // Scripts are not run, and the page is already decoded.
            TokenSinkResult::Script(_)
            | TokenSinkResult::EncodingIndicator(_)
            | TokenSinkResult::Continue => None,
        };
        self.builder.sink.tree.len() <= MAX_NODES
    }
}

/// Counts the entries of the tree builder's lists: open elements, and active formatting elements, open or
/// not.
#[derive(Default)]
struct Seen<'a> {
    elements: Cell<usize>,
    /// The tree; `None` if formatting elements need not be counted.
    tree: Option<&'a Tree>,
    formatting: Cell<usize>,
}

impl Tracer for Seen<'_> {
    type Handle = NodeId;

    fn trace_handle(&self, node: &NodeId) {
        self.elements.set(self.elements.get() + 1);
        let name = self.tree.and_then(|tree| tree.get_name(node));
        if name.is_some_and(|name| is_formatting(&name.local)) {
            self.formatting.set(self.formatting.get() + 1);
        }
    }
}

/// The formatting elements of the specification, which the tree builder reopens in each block until their
/// end tag.
fn is_formatting(name: &LocalName) -> bool {
    matches!(
        *name,
        local_name!("a")
            | local_name!("b")
            | local_name!("big")
            | local_name!("code")
            | local_name!("em")
            | local_name!("font")
            | local_name!("i")
            | local_name!("nobr")
            | local_name!("s")
            | local_name!("small")
            | local_name!("strike")
            | local_name!("strong")
            | local_name!("tt")
            | local_name!("u")
    )
}

fn tag(kind: TagKind, name: LocalName) -> Tag {
    Tag { kind, name, self_closing: false, attrs: Vec::new(), had_duplicate_attributes: false }
}

fn tendril(bytes: &[u8]) -> StrTendril {
    StrTendril::from_slice(&String::from_utf8_lossy(bytes))
}

/// Whether the finder can walk a tree within the limits. Not recursive, because the tree may be too deep
/// for that.
fn is_walkable(tree: &Tree) -> bool {
    let mut open = vec![(tree.root(), 0, 0)];
    let mut steps = 0;
    while let Some((node, depth, blocks)) = open.pop() {
        let (bytes, is_block) = node.query_or((0, false), |node| match &node.data {
            NodeData::Text { contents } => (contents.len(), false),
            NodeData::Element(element) => (0, is_cleaned(&element.name.local)),
            _ => (0, false),
        });
        steps += depth * (NODE_STEPS + bytes / STEP_BYTES) + blocks * BLOCK_STEPS;
        if depth > MAX_DEPTH || steps > MAX_WALK {
            return false;
        }
        open.extend(node.next_sibling().map(|next| (next, depth, blocks)));
        let blocks = blocks + usize::from(is_block);
        open.extend(node.first_child().map(|child| (child, depth + 1, blocks)));
    }
    true
}

/// The blocks that the finder may remove because of their content.
fn is_cleaned(name: &LocalName) -> bool {
    matches!(
        *name,
        local_name!("div")
            | local_name!("fieldset")
            | local_name!("form")
            | local_name!("table")
            | local_name!("ul")
    )
}

/// Splits each long text into several nodes.
fn split_texts(tree: &Tree) {
    let long = |node: &TreeNode| match &node.data {
        NodeData::Text { contents } if contents.len() > PIECE => Some(contents.to_string()),
        _ => None,
    };
    let texts: Vec<_> =
        tree.root().descendants_it().filter_map(|node| Some((node, node.query(long)??))).collect();
    for (mut node, text) in texts {
        let mut rest = &*text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
            let new = tree.new_text(piece);
            node.insert_after(&new);
            if rest.len() == text.len() {
                node.remove_from_parent();
            }
            (node, rest) = (new, after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(page: &str) -> Option<Document> {
        crate::stop::whole(|check| tree_of(page, check)).map(|(document, _)| document)
    }

    #[test]
    fn a_tree_matches_the_specification() {
        let cases = [
            ("<p>a<b>b<p>c", "<p>a<b>b</b></p><p><b>c</b></p>"),
            ("<table>x<tr><td>y", "x<table><tbody><tr><td>y</td></tr></tbody></table>"),
            ("<p a=1 A=2 b=&amp;&copy=3>", "<p a=\"1\" b=\"&amp;&amp;copy=3\"></p>"),
            ("<textarea>\n<p>&lt;\0</textarea>", "<textarea>&lt;p&gt;&lt;\u{fffd}</textarea>"),
            ("<svg><![CDATA[<b>]]></svg><![CDATA[x]]>", "<svg>&lt;b&gt;</svg>"),
            ("a\0b\r\nc<plaintext></p>", "ab\nc<plaintext></p></plaintext>"),
            ("<script><!--<script></script>x</script>y", "<script></script>y"),
            (
                "a<!-- b --><style>p{}</style><svg><style>c</style></svg>",
                "a<style></style><svg><style>c</style></svg>",
            ),
        ];
        for (page, body) in cases {
            let document = tree(&format!("\u{feff}<!DOCTYPE html><title>t</title><body>{page}")).unwrap();
            assert_eq!(&*document.select("body").inner_html(), body, "{page}");
        }
    }

    #[test]
    fn attributes_and_their_values_are_kept_up_to_the_limits() {
        let many: String = (0..100).map(|n| format!(" a{n}={n}")).collect();
        let document = tree(&format!("<p{many} a0=x class=c><i title='{}'>", "字".repeat(PIECE))).unwrap();
        let attributes = document.select("p").nodes()[0].attrs();
        assert_eq!(attributes.len(), MAX_ATTRIBUTES);
        assert_eq!((&*attributes[0].value, &*attributes[63].value), ("0", "63"));
        let title = document.select("i").attr("title").unwrap();
        assert!(title.starts_with("字字") && title.len() < PIECE + 4, "{}", title.len());
    }

    #[test]
    fn a_long_text_is_unchanged_by_splitting() {
        let text = "字 & ©".repeat(3 * PIECE);
        let document = tree(&format!("<p>{}<b>{text}</b> end</p>", text.replace('&', "&amp;"))).unwrap();
        let paragraph = document.select("p");
        assert_eq!(&*paragraph.text(), &format!("{text}{text} end"));
        let nodes = paragraph.nodes()[0].descendants();
        let lengths: Vec<usize> =
            nodes.iter().filter(|node| node.is_text()).map(|node| node.text().len()).collect();
        assert!(lengths.len() > 40 && lengths.iter().all(|length| *length <= PIECE), "{lengths:?}");
    }

    #[test]
    fn a_page_that_exceeds_a_limit_has_no_tree() {
        let names = |count: usize| -> String { (0..count).map(|n| format!("<x-{n}>y</x-{n}>")).collect() };
        // html and body are two of these levels.
        let depth = |count: usize| format!("{}x{}", "<div>".repeat(count), "</div>".repeat(count));
        let missed = |count: usize| format!("{}{}", "<div>".repeat(200), "</b>".repeat(count));
        let compared = |count: usize| {
            let open: String = (0..100).map(|n| format!("<b a={n}>")).collect();
            format!("{open}{}", "<i a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8></i>".repeat(count))
        };
        let walked = |levels: usize| format!("{}{}", "<div>".repeat(levels), "x, ".repeat(300_000));
        let has_tree = |what: &str, page: String, expected: bool| {
            assert_eq!(tree(&page).is_some(), expected, "{what}");
        };
        for (count, expected) in [(MAX_NODES - 10, true), (MAX_NODES, false)] {
            has_tree("nodes", "<br>".repeat(count), expected);
        }
        for (count, expected) in [(MAX_DEPTH - 3, true), (MAX_DEPTH - 1, false)] {
            has_tree("depth", depth(count), expected);
        }
        for (count, expected) in [(MAX_NAMES - 10, true), (MAX_NAMES + 1, false)] {
            has_tree("names", names(count), expected);
        }
        for (count, expected) in [(70_000, true), (90_000, false)] {
            has_tree("steps", missed(count), expected);
        }
        for (count, expected) in [(1_000, true), (4_000, false)] {
            has_tree("attributes", compared(count), expected);
        }
        for (levels, expected) in [(20, true), (30, false)] {
            has_tree("walk", walked(levels), expected);
        }
    }
}
