//! Measures of each node of a page's tree: how much text it has, how much of it in links, and what else is
//! within it.
//!
//! Guarantees: time and memory proportional to the nodes and to the text; not recursive. Not here: what
//! follows from the measures (see `boilerplate`).

use dom_query::{NodeData, NodeId, Tree, TreeNode};

/// A link of more characters counts as text: its end tag is missing, or it encloses a whole article.
const LINK: usize = 200;
/// A block with fewer characters of its own is not a paragraph.
const PARAGRAPH: usize = 80;

/// A node and the measures of its subtree. Characters are those that are not white space.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) node: NodeId,
    /// The number of the parent. The number of the root is 0, and it is its own parent.
    pub(super) parent: usize,
    /// The number after the last node of the subtree.
    pub(super) end: usize,
    pub(super) kind: Kind,
    /// Characters of text.
    pub(super) text: usize,
    /// Characters of text in links.
    pub(super) linked: usize,
    /// Characters of text outside nested blocks.
    pub(super) own: usize,
    /// The number of children that are paragraphs.
    pub(super) paragraphs: usize,
    pub(super) within: Within,
}

impl Measured {
    /// Characters of text outside links.
    pub(super) fn unlinked(&self) -> usize {
        self.text - self.linked
    }
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// A node whose content is not visible.
    Hidden,
    /// An element that leaves the words around it in one block.
    Inline,
    Link,
    Block,
    /// A block that holds an article: `body`, `main` or `article`.
    Holder,
    /// The document or `html`.
    Root,
}

/// Which kinds of elements a node contains.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Within {
    /// A block with text.
    pub(super) block: bool,
    /// The heading of the page, `h1`.
    pub(super) heading: bool,
    /// A heading below that of the page.
    pub(super) subheading: bool,
    /// Such a heading that is a link.
    pub(super) title_link: bool,
    /// An element that holds an article.
    pub(super) holder: bool,
    /// A table, a list, a quotation or preformatted text.
    pub(super) structure: bool,
    /// A quotation.
    pub(super) quotation: bool,
    /// A picture or a film.
    pub(super) media: bool,
}

/// The nodes of a tree in the order of the page.
pub(super) fn measured(tree: &Tree) -> Vec<Measured> {
    let mut nodes = listed(tree);
    for at in (1..nodes.len()).rev() {
        if nodes[at].kind == Kind::Link && nodes[at].text <= LINK {
            nodes[at].linked = nodes[at].text;
        }
        add_to_parent(&mut nodes, at);
    }
    nodes
}

/// The nodes with the measures of their own content only.
fn listed(tree: &Tree) -> Vec<Measured> {
    let mut nodes: Vec<Measured> = Vec::new();
    let mut open = vec![(tree.root(), 0)];
    while let Some((node, parent)) = open.pop() {
        let at = nodes.len();
        let (kind, text, within) = node.query_or((Kind::Hidden, 0, Within::default()), of_node);
        let (linked, own, paragraphs) = (0, 0, 0);
        nodes.push(Measured {
            node: node.id,
            parent,
            end: at + 1,
            kind,
            text,
            linked,
            own,
            paragraphs,
            within,
        });
        open.extend(node.next_sibling().map(|next| (next, parent)));
        if kind != Kind::Hidden {
            open.extend(node.first_child().map(|child| (child, at)));
        }
    }
    nodes
}

fn add_to_parent(nodes: &mut [Measured], at: usize) {
    let Measured { parent, end, kind, text, linked, own, within, .. } = nodes[at];
    let above = &mut nodes[parent];
    above.end = above.end.max(end);
    above.text += text;
    above.linked += linked;
    match kind {
        Kind::Text => above.own += text,
        Kind::Inline | Kind::Link => above.own += own,
        Kind::Block => above.paragraphs += usize::from(own >= PARAGRAPH),
        Kind::Hidden | Kind::Holder | Kind::Root => {}
    }
    let has = &mut above.within;
    has.block |= within.block || (kind == Kind::Block && text > 0);
    has.holder |= within.holder || kind == Kind::Holder;
    has.heading |= within.heading;
    has.subheading |= within.subheading;
    let is_linked = text > 0 && linked == text;
    has.title_link |= within.title_link || (within.subheading && (is_linked || kind == Kind::Link));
    has.structure |= within.structure;
    has.quotation |= within.quotation;
    has.media |= within.media;
}

/// The number of characters that are not white space.
pub(super) fn characters(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

fn of_node(node: &TreeNode) -> (Kind, usize, Within) {
    match &node.data {
        NodeData::Text { contents } => (Kind::Text, characters(contents), Within::default()),
        NodeData::Element(element) => {
            let name = &*element.name.local;
            let has_target = || element.attrs.iter().any(|attribute| &*attribute.name.local == "href");
            let kind = if name == "a" && has_target() { Kind::Link } else { kind_of(name) };
            (kind, 0, within_of(name))
        }
        NodeData::Document => (Kind::Root, 0, Within::default()),
        _ => (Kind::Hidden, 0, Within::default()),
    }
}

fn kind_of(name: &str) -> Kind {
    match name {
        "script" | "style" | "noscript" | "template" | "head" | "iframe" | "textarea" | "svg" => Kind::Hidden,
        "html" => Kind::Root,
        "body" | "main" | "article" => Kind::Holder,
        "br" => Kind::Inline,
        _ if super::visible::is_inline(name.as_bytes()) => Kind::Inline,
        _ => Kind::Block,
    }
}

fn within_of(name: &str) -> Within {
    Within {
        heading: name == "h1",
        subheading: matches!(name, "h2" | "h3" | "h4" | "h5" | "h6"),
        structure: matches!(name, "table" | "pre" | "blockquote" | "li" | "dl"),
        quotation: name == "blockquote",
        media: matches!(name, "img" | "picture" | "video" | "iframe"),
        ..Within::default()
    }
}

#[cfg(test)]
mod tests {
    use dom_query::Document;

    use super::*;

    #[test]
    fn the_measures_of_a_page() {
        let long = "x".repeat(LINK + 1);
        let page = format!(
            "<body><h1>ab <i>c</i></h1><p>de<a href=/>fgh</a> i<script>no</script></p><div>{}<p>j</p></div>\
             <a href=/>{long}</a>",
            "y".repeat(PARAGRAPH)
        );
        let nodes = measured(&Document::from(page).tree);
        let root = &nodes[0];
        assert_eq!((root.end, root.parent), (nodes.len(), 0));
        assert_eq!((root.text, root.linked), (10 + PARAGRAPH + LINK + 1, 3));
        assert!(root.within.heading && root.within.holder && !root.within.media);
        let blocks: Vec<_> = nodes.iter().filter(|node| node.kind == Kind::Block).collect();
        let counts: Vec<_> = blocks.iter().map(|node| (node.text, node.own, node.within.block)).collect();
        assert_eq!(counts, [(3, 3, false), (6, 6, false), (PARAGRAPH + 1, PARAGRAPH, true), (1, 1, false)]);
        let body = nodes.iter().find(|node| node.kind == Kind::Holder).unwrap();
        assert_eq!(body.paragraphs, 1);
    }
}
