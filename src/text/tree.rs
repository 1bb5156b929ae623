//! The tree of a page for the article finder, if it is not too much for it.
//!
//! Promises: time in proportion to the page, and a tree on which the finder's own work is bounded; whatever exceeds a limit
//! here gives no tree. The limits are far from what articles have. Leaves out: what is done with a page without a tree.
//!
//! The tree builder is that of `html5ever`, which keeps to the specification: it looks through the open elements at many
//! tags, and at each tag of a formatting element through the others of its kind, attribute by attribute. The work is
//! counted in steps and not in time, since the text of a page must not depend on the machine.

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

use super::page::{Sink, read};

/// The deepest nesting for the article finder. Chromium stops nesting at 512, so that no page needs more.
const MAX_DEPTH: usize = 256;
/// The most nodes for the article finder; a long article has some thousands.
const MAX_NODES: usize = 50_000;
/// The most attributes of an element; others are left out.
const MAX_ATTRIBUTES: usize = 64;
/// The bytes that are read of the value of an attribute, and of a text that stands in one node. To write `&` the serializer
/// of `html5ever` looks for `<` up to the end of the node, each time.
const PIECE: usize = 4 << 10;
/// The most different names of elements and attributes in a page. Unusual ones stand in a table of the whole process, whose
/// chains become long if somebody chooses the names for it.
const MAX_NAMES: usize = 1_024;
/// The steps of the tree builder: elements and attributes that it looks at.
const MAX_STEPS: usize = 1 << 24;
/// How many steps it takes to compare an attribute of one formatting element with those of another.
const ATTRIBUTE_STEPS: usize = 8;
/// The steps of the article finder. For many elements it walks through all below them, so that each node counts for each level
/// above it.
const MAX_WALK: usize = 1 << 22;
const NODE_STEPS: usize = 2;
/// How many more a level is that is a block which the finder may clean away.
const BLOCK_STEPS: usize = 4;
/// How many bytes of text are a step.
const STEP_BYTES: usize = 6;

/// The tree of a page; `None` if it is too deep, too large or made to be slow.
pub(super) fn tree_of(page: &str) -> Option<Document> {
    let mut growing = Growing::new();
    if !read(page, &mut growing) {
        return None;
    }
    growing.pass(Token::EOFToken);
    growing.builder.end();
    let document = growing.builder.sink;
    if !is_walkable(&document.tree) {
        return None;
    }
    split_texts(&document.tree);
    Some(document)
}

/// A tree to which the tokens of a page are added.
struct Growing {
    builder: TreeBuilder<NodeId, Document>,
    /// The start tag that is being read.
    open: Option<Tag>,
    /// Whether the last attribute of that tag still takes its value.
    takes_value: bool,
    names: HashMap<Box<[u8]>, LocalName>,
    state: Option<State>,
    steps: usize,
}

impl Sink for Growing {
    fn take(&mut self, event: CallbackEvent<'_>) -> bool {
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
            CallbackEvent::String { value } => self.pass_characters(value),
            CallbackEvent::Comment { value } => self.pass(Token::CommentToken(tendril(value))),
            CallbackEvent::Doctype { name, public_identifier, system_identifier, force_quirks } => {
                self.pass(Token::DoctypeToken(Doctype {
                    name: (!name.is_empty()).then(|| tendril(name)),
                    public_id: public_identifier.map(tendril),
                    system_id: system_identifier.map(tendril),
                    force_quirks,
                }))
            }
            CallbackEvent::Error(_) => true,
        }
    }

    fn state(&mut self) -> Option<State> {
        self.state.take()
    }

    fn is_foreign(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// Each says whether the page keeps within the limits.
impl Growing {
    fn new() -> Growing {
        Growing {
            builder: TreeBuilder::new(Document::default(), TreeBuilderOpts::default()),
            open: None,
            takes_value: false,
            names: HashMap::new(),
            state: None,
            steps: 0,
        }
    }

    /// A name of an element or attribute; `None` if there are too many.
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

    /// Adds an attribute to the open tag, if it has none of this name and room for one.
    fn open_attribute(&mut self, name: &[u8]) -> bool {
        self.takes_value = false;
        let Some(mut tag) = self.open.take() else { return true };
        let is_there = |attribute: &Attribute| attribute.name.local.as_bytes() == name;
        if tag.attrs.len() < MAX_ATTRIBUTES && !tag.attrs.iter().any(is_there) {
            let Some(name) = self.name(name) else { return false };
            // The tree builder gives it another namespace where it needs one.
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
        self.steps <= MAX_STEPS && self.pass(Token::TagToken(tag))
    }

    /// How much the tree builder looks at for a tag: the open elements, and the attributes of all formatting elements.
    fn steps_of(&self, tag: &Tag) -> usize {
        let is_compared = tag.kind == TagKind::StartTag && !tag.attrs.is_empty() && is_formatting(&tag.name);
        let seen = Seen { tree: is_compared.then_some(&self.builder.sink.tree), ..Seen::default() };
        self.builder.trace_handles(&seen);
        seen.elements.get() + seen.formatting.get() * tag.attrs.len() * ATTRIBUTE_STEPS
    }

    /// Passes characters; zero bytes go one by one, as tokens of their own.
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
            // Scripts are not run, and the page is decoded already.
            TokenSinkResult::Script(_)
            | TokenSinkResult::EncodingIndicator(_)
            | TokenSinkResult::Continue => None,
        };
        self.builder.sink.tree.len() <= MAX_NODES
    }
}

/// What the tree builder has in its lists: open elements, and formatting elements, which may be open or not.
#[derive(Default)]
struct Seen<'a> {
    elements: Cell<usize>,
    /// The tree, if formatting elements are to be counted.
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

/// The specification's formatting elements, which are opened again in each block until their end comes.
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

/// Whether the finder can walk through a tree in time: without recursion, since a tree may be too deep for one.
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

/// The blocks that the finder may clean away for what is in them.
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

/// Makes several nodes of each long text.
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

    #[test]
    fn a_tree_is_that_of_the_specification() {
        let cases = [
            ("<p>a<b>b<p>c", "<p>a<b>b</b></p><p><b>c</b></p>"),
            ("<table>x<tr><td>y", "x<table><tbody><tr><td>y</td></tr></tbody></table>"),
            ("<p a=1 A=2 b=&amp;&copy=3>", "<p a=\"1\" b=\"&amp;&amp;copy=3\"></p>"),
            ("<textarea>\n<p>&lt;\0</textarea>", "<textarea>&lt;p&gt;&lt;\u{fffd}</textarea>"),
            ("<svg><![CDATA[<b>]]></svg><![CDATA[x]]>", "<svg>&lt;b&gt;</svg><!--[CDATA[x]]-->"),
            ("a\0b\r\nc<plaintext></p>", "ab\nc<plaintext></p></plaintext>"),
            ("<script><!--<script></script>x</script>y", "<script><!--<script></script>x</script>y"),
        ];
        for (page, body) in cases {
            let document = tree_of(&format!("\u{feff}<!DOCTYPE html><title>t</title><body>{page}")).unwrap();
            assert_eq!(&*document.select("body").inner_html(), body, "{page}");
        }
    }

    #[test]
    fn of_attributes_as_many_and_as_much_as_the_limits_say_are_kept() {
        let many: String = (0..100).map(|n| format!(" a{n}={n}")).collect();
        let document = tree_of(&format!("<p{many} a0=x class=c><i title='{}'>", "字".repeat(PIECE))).unwrap();
        let attributes = document.select("p").nodes()[0].attrs();
        assert_eq!(attributes.len(), MAX_ATTRIBUTES);
        assert_eq!((&*attributes[0].value, &*attributes[63].value), ("0", "63"));
        let title = document.select("i").attr("title").unwrap();
        assert!(title.starts_with("字字") && title.len() < PIECE + 4, "{}", title.len());
    }

    #[test]
    fn a_long_text_is_the_same_in_several_nodes() {
        let text = "字 & ©".repeat(3 * PIECE);
        let document = tree_of(&format!("<p>{}<b>{text}</b> end</p>", text.replace('&', "&amp;"))).unwrap();
        let paragraph = document.select("p");
        assert_eq!(&*paragraph.text(), &format!("{text}{text} end"));
        let nodes = paragraph.nodes()[0].descendants();
        let lengths: Vec<usize> =
            nodes.iter().filter(|node| node.is_text()).map(|node| node.text().len()).collect();
        assert!(lengths.len() > 40 && lengths.iter().all(|length| *length <= PIECE), "{lengths:?}");
    }

    #[test]
    fn what_exceeds_a_limit_has_no_tree() {
        let names = |count: usize| -> String { (0..count).map(|n| format!("<x-{n}>y</x-{n}>")).collect() };
        // html and body are two of the levels.
        let depth = |count: usize| format!("{}x{}", "<div>".repeat(count), "</div>".repeat(count));
        let missed = |count: usize| format!("{}{}", "<div>".repeat(200), "</b>".repeat(count));
        let compared = |count: usize| {
            let open: String = (0..100).map(|n| format!("<b a={n}>")).collect();
            format!("{open}{}", "<i a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8></i>".repeat(count))
        };
        let walked = |levels: usize| format!("{}{}", "<div>".repeat(levels), "x, ".repeat(300_000));
        let has_tree = |what: &str, page: String, expected: bool| {
            assert_eq!(tree_of(&page).is_some(), expected, "{what}");
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
