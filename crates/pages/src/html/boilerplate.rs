//! Removes what surrounds an article from the tree of a page: notices, menus, captions, comments, related
//! articles.
//!
//! Guarantees: time proportional to the tree; something remains. A rule needs both a sign (the names of an
//! element, its words, its links) and a measure (its share of the text of the page), because a sign alone
//! is often wrong. Shares are of the text outside links. Not here: the choice of the article among what
//! remains, which is that of the finder.

use dom_query::{NodeData, NodeId, NodeRef, Tree};

use super::class_names::Named;
use super::measure::{Kind, Measured, characters, measured};
use super::notices::{Notice, notice_in};
use super::visible::visible_text;

/// The fewest characters outside links that must remain; otherwise only notices are removed.
const REMAINDER: usize = 100;
/// An article of fewer characters outside links is not preferred to other parts of the page.
const ARTICLE: usize = 250;
/// At least this many adjacent parts, each with a linked heading and less text than an article, are teasers.
const TEASERS: usize = 5;
/// The least percentage of the page in an element that is named as the text of the article.
const BODY_SHARE: usize = 30;
/// If an article is this many times as long as the next one, it is that of the page and others are teasers.
const DOMINANCE: usize = 3;
/// The largest percentage of the page that an element may have to be removed, for each kind of name.
const BESIDE_SHARE: usize = 50;
const ABOUT_SHARE: usize = 15;
const FIGURE_SHARE: usize = 25;
/// A part that is named as a notice is one if it has at most this many characters outside links, or a block
/// with the words of a notice. If it has more than half of the page, these blocks must have this percentage.
const NAMED_NOTICE: usize = 1_000;
const WORDED_SHARE: usize = 20;
/// The most characters outside links of lines about the article, and of a picture with its caption.
const ABOUT: usize = 1_000;
const FIGURE: usize = 400;
/// A block in which links have this percentage of the text is a menu, or points to other articles.
const LINKS_SHARE: usize = 80;
const LINKS: usize = 10;
/// A part of a table with fewer characters may have nothing but a link.
const CELL: usize = 40;
/// The characters of a block that is examined for the words of a notice.
const NOTICE: std::ops::RangeInclusive<usize> = 12..=1_500;
/// The block around a notice is removed with it if it has at most three times its characters, or this many
/// more, and at most this percentage of the page.
const AROUND: usize = 300;
const AROUND_SHARE: usize = 40;
/// A block among more paragraphs than these is a part of an article about consent.
const PARAGRAPHS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Everything that is not the article.
    All,
    /// Notices about cookies, consent and subscriptions only.
    Notices,
}

/// Removes from a tree what is not the article, as far as it can be recognized. Returns how much text the
/// page has.
pub(super) fn remove_boilerplate(tree: &Tree) -> Shown {
    let nodes = measured(tree);
    let in_fields: usize = nodes.iter().map(|node| text_of_field(tree, node)).sum();
    let shown = Shown { all: nodes[0].text + in_fields, unlinked: nodes[0].unlinked() + in_fields };
    let outside = outside_article(tree, &nodes);
    outside.iter().for_each(|node| tree.remove_from_parent(node));
    teasers(&measured(tree)).iter().for_each(|node| tree.remove_from_parent(node));
    let nodes = measured(tree);
    keep_embeds(tree, &nodes);
    let worded = Worded::of(tree, &nodes);
    let page = |extent| Page { tree, nodes: &nodes, worded: &worded, extent };
    let _ = page(Extent::All).remove(REMAINDER) || page(Extent::Notices).remove(1);
    shown
}

/// The characters of a text field, or of what is shown without scripts: the finder leaves both out.
fn text_of_field(tree: &Tree, node: &Measured) -> usize {
    let is_field = |name: &str| matches!(name, "textarea" | "noscript");
    if node.kind != Kind::Hidden || !tree.get_name(&node.node).is_some_and(|name| is_field(&name.local)) {
        return 0;
    }
    // The tree has the content of `noscript` as a text with tags.
    characters(&visible_text(&NodeRef::new(node.node, tree).text()))
}

/// The text that a page has, in characters that are not white space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) all: usize,
    /// Outside links.
    pub(super) unlinked: usize,
}

/// Removes notices about consent and subscriptions; `false` if there is none, or nothing else.
pub(super) fn remove_notices(tree: &Tree) -> bool {
    let nodes = measured(tree);
    let worded = Worded::of(tree, &nodes);
    Page { tree, nodes: &nodes, worded: &worded, extent: Extent::Notices }.remove(1)
}

/// Makes sections of the blocks around quotations from other sites. The finder removes blocks that are named
/// after a social network, and short ones with links.
fn keep_embeds(tree: &Tree, nodes: &[Measured]) {
    let quotations = nodes.iter().filter(|node| node.kind == Kind::Block && node.within.quotation);
    for node in quotations.filter(|node| named(tree, node).embed) {
        let node = NodeRef::new(node.node, tree);
        node.remove_attrs(&["class", "id"]);
        node.rename("section");
    }
}

fn named(tree: &Tree, node: &Measured) -> Named {
    NodeRef::new(node.node, tree).query_or(Named::default(), |node| match &node.data {
        NodeData::Element(element) => Named::of(element),
        _ => Named::default(),
    })
}

/// The nodes outside the text of the article, if the page names an element so; else the articles beside the
/// one of the page, if it has one.
fn outside_article(tree: &Tree, nodes: &[Measured]) -> Vec<NodeId> {
    let is_body = |node: &Measured| {
        matches!(node.kind, Kind::Block | Kind::Holder) && node.text > 0 && named(tree, node).body
    };
    let body = (0..nodes.len()).filter(|&at| is_body(&nodes[at])).max_by_key(|&at| nodes[at].unlinked());
    let is_long = |at: &usize| {
        let unlinked = nodes[*at].unlinked();
        unlinked >= ARTICLE && 100 * unlinked >= BODY_SHARE * nodes[0].unlinked()
    };
    match body.filter(is_long) {
        Some(body) => around(nodes, body),
        None => other_articles(tree, nodes),
    }
}

/// The nodes beside a node and beside each of its ancestors.
fn around(nodes: &[Measured], kept: usize) -> Vec<NodeId> {
    let contains_kept = |at: usize| at < kept && kept < nodes[at].end;
    let is_beside = |at: usize| at != kept && !contains_kept(at) && contains_kept(nodes[at].parent);
    // The head has the title of the page, which the finder compares with headings.
    let is_visible = |at: &usize| nodes[*at].kind != Kind::Hidden;
    (1..nodes.len()).filter(is_visible).filter(|&at| is_beside(at)).map(|at| nodes[at].node).collect()
}

/// The `article` elements beside that of the page, which has the heading of the page or most of the text.
fn other_articles(tree: &Tree, nodes: &[Measured]) -> Vec<NodeId> {
    let mut articles = Vec::new();
    let mut at = 0;
    while at < nodes.len() {
        let node = &nodes[at];
        let is_article = node.kind == Kind::Holder
            && tree.get_name(&node.node).is_some_and(|name| &*name.local == "article");
        if is_article {
            articles.push(at);
        }
        at = if is_article { node.end } else { at + 1 };
    }
    articles.sort_by_key(|&at| std::cmp::Reverse(nodes[at].unlinked()));
    let is_long = |at: &usize| nodes[*at].unlinked() >= ARTICLE;
    let mut titled = articles.iter().copied().filter(|&at| nodes[at].within.heading);
    let only = titled.next().filter(|_| titled.next().is_none()).filter(is_long);
    let next = articles.get(1).map_or(0, |&at| nodes[at].unlinked());
    let longest = articles.first().copied().filter(is_long);
    let dominant = longest.filter(|&at| nodes[at].unlinked() >= DOMINANCE * next);
    match only.or(dominant) {
        Some(kept) => articles.iter().filter(|&&at| at != kept).map(|&at| nodes[at].node).collect(),
        None => Vec::new(),
    }
}

/// The teasers of other articles, if an article remains without them.
fn teasers(nodes: &[Measured]) -> Vec<NodeId> {
    let is_teaser = |node: &Measured| {
        matches!(node.kind, Kind::Block | Kind::Holder | Kind::Link)
            && node.within.title_link
            && !node.within.heading
            && node.unlinked() < ARTICLE
    };
    let mut beside = vec![0; nodes.len()];
    nodes[1..].iter().filter(|node| is_teaser(node)).for_each(|node| beside[node.parent] += 1);
    let is_one_of_many = |node: &&Measured| is_teaser(node) && beside[node.parent] >= TEASERS;
    let (mut found, mut unlinked, mut end) = (Vec::new(), 0, 0);
    for (at, node) in nodes.iter().enumerate().skip(1).filter(|(_, node)| is_one_of_many(node)) {
        if at >= end {
            found.push(node.node);
            unlinked += node.unlinked();
            end = node.end;
        }
    }
    if nodes[0].unlinked() >= unlinked + ARTICLE { found } else { Vec::new() }
}

/// The blocks with the words of a notice.
struct Worded {
    /// The notice of each node, by its own words.
    notices: Vec<Option<Notice>>,
    /// For each node, the characters of notices about consent and subscriptions before it.
    before: Vec<usize>,
}

impl Worded {
    fn of(tree: &Tree, nodes: &[Measured]) -> Worded {
        let (mut notices, mut before, mut sum) = (Vec::new(), vec![0], 0);
        for (at, node) in nodes.iter().enumerate() {
            let is_examined = node.kind == Kind::Block && NOTICE.contains(&node.own);
            let notice = if is_examined { notice_in(&own_text(tree, nodes, at)) } else { None };
            if matches!(notice, Some(Notice::Consent | Notice::Paywall)) {
                sum += node.own;
            }
            notices.push(notice);
            before.push(sum);
        }
        Worded { notices, before }
    }

    /// The characters of notices about consent and subscriptions in a subtree.
    fn within(&self, nodes: &[Measured], at: usize) -> usize {
        self.before[nodes[at].end] - self.before[at]
    }
}

/// The text of a block without that of nested blocks.
fn own_text(tree: &Tree, nodes: &[Measured], block: usize) -> String {
    let mut text = String::new();
    let mut at = block + 1;
    while at < nodes[block].end {
        let inner = &nodes[at];
        at = match inner.kind {
            Kind::Inline | Kind::Link => at + 1,
            Kind::Text => {
                text.push_str(&NodeRef::new(inner.node, tree).text());
                at + 1
            }
            _ => {
                text.push(' ');
                inner.end
            }
        };
    }
    text
}

/// A page whose boilerplate is sought.
struct Page<'a> {
    tree: &'a Tree,
    nodes: &'a [Measured],
    worded: &'a Worded,
    extent: Extent,
}

impl Page<'_> {
    /// Removes the boilerplate if at least this many characters outside links remain. Returns whether it did.
    fn remove(&self, least: usize) -> bool {
        let removed = self.removed();
        let lost: usize = removed.iter().map(|&at| self.nodes[at].unlinked()).sum();
        let is_enough = self.nodes[0].unlinked() >= lost + least;
        if is_enough {
            removed.iter().for_each(|&at| self.tree.remove_from_parent(&self.nodes[at].node));
        }
        is_enough && !removed.is_empty()
    }

    /// The numbers of the nodes to remove, in order and none within another.
    fn removed(&self) -> Vec<usize> {
        let mut removed: Vec<usize> = Vec::new();
        let mut at = 0;
        while at < self.nodes.len() {
            let Some(top) = self.removed_at(at) else {
                at += 1;
                continue;
            };
            while removed.last().is_some_and(|&last| last >= top) {
                removed.pop();
            }
            removed.push(top);
            at = self.nodes[top].end;
        }
        removed
    }

    /// The node to remove because of this one: itself, or a small block around it.
    fn removed_at(&self, at: usize) -> Option<usize> {
        let node = &self.nodes[at];
        match node.kind {
            Kind::Text | Kind::Hidden | Kind::Root => None,
            _ if node.text == 0 => None,
            _ if self.is_removed_by_name(at) => Some(at),
            _ => self.removed_by_words(at),
        }
    }

    /// Whether a node has at most this percentage of the text of the page.
    fn has_at_most(&self, percent: usize, node: &Measured) -> bool {
        100 * node.unlinked() <= percent * self.nodes[0].unlinked()
    }

    /// Whether a part that is named as a notice is one.
    fn is_named_notice(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        let worded = self.worded.within(self.nodes, at);
        let is_worded = 100 * worded >= WORDED_SHARE * node.text && worded > 0;
        if self.has_at_most(BESIDE_SHARE, node) {
            is_worded || node.unlinked() < NAMED_NOTICE
        } else {
            is_worded && !node.within.heading
        }
    }

    fn is_removed_by_name(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        if node.kind == Kind::Holder || node.within.holder {
            return false;
        }
        let named = named(self.tree, node);
        if named.notice && self.is_named_notice(at) {
            return true;
        }
        if self.extent == Extent::Notices || node.within.heading || (named.embed && node.within.quotation) {
            return false;
        }
        let unlinked = node.unlinked();
        let is_figure = named.figure && node.within.media && !node.within.structure && node.paragraphs < 2;
        let is_links = node.kind == Kind::Block
            && node.text >= LINKS
            && 100 * node.linked >= LINKS_SHARE * node.text
            && (!named.cell || node.text >= CELL);
        is_links
            || named.beside && self.has_at_most(BESIDE_SHARE, node)
            || named.about && unlinked < ABOUT && self.has_at_most(ABOUT_SHARE, node)
            || is_figure && unlinked < FIGURE && self.has_at_most(FIGURE_SHARE, node)
    }

    fn removed_by_words(&self, at: usize) -> Option<usize> {
        let node = &self.nodes[at];
        match self.worded.notices[at]? {
            Notice::Consent if self.nodes[node.parent].paragraphs > PARAGRAPHS => None,
            Notice::Consent | Notice::Paywall => Some(self.with_surroundings(at)),
            Notice::Solicitation if self.extent == Extent::Notices || node.within.block => None,
            Notice::Solicitation => Some(at),
        }
    }

    /// The largest block around a notice that has little else: its title, further sentences, buttons.
    fn with_surroundings(&self, notice: usize) -> usize {
        let own = self.nodes[notice].own;
        let most = (3 * own).max(own + AROUND).min(*NOTICE.end());
        let mut top = notice;
        loop {
            let around = &self.nodes[self.nodes[top].parent];
            let is_small = around.text <= most && self.has_at_most(AROUND_SHARE, around);
            if around.kind != Kind::Block || around.within.holder || around.within.heading || !is_small {
                return top;
            }
            top = self.nodes[top].parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::main_text;

    /// Notices about consent and subscriptions.
    const NOTICES: [&str; 16] = [
        "We use cookies to improve your experience. We'll assume you're ok with this.",
        "We and our 214 partners store and read information on your device, with your consent.",
        "Wir verwenden Cookies, um Inhalte zu personalisieren und Zugriffe zu messen.",
        "Nous utilisons des cookies pour mesurer l'audience de ce site et de ses pages.",
        "Utilizamos cookies propias y de terceros para mejorar nuestros servicios.",
        "Questo sito utilizza i cookie, anche di terze parti, per i suoi servizi.",
        "Мы используем файлы cookie, чтобы сайт работал.",
        "本网站使用Cookie以改善您的体验。继续浏览即表示您同意。",
        "当サイトではクッキーを使用しています。",
        "이 사이트는 쿠키를 사용합니다. 계속 이용하면 동의합니다.",
        "Subscribe to continue reading this article. Already a subscriber? Log in.",
        "Dieser Artikel ist exklusiv für Abonnenten. Jetzt weiterlesen für 1 Euro.",
        "Cet article est réservé aux abonnés. Il vous reste 80 % de cet article à lire.",
        "Este contenido es exclusivo para suscriptores. Inicia sesión para seguir leyendo.",
        "Материал доступен подписчикам. Войдите.",
        "この記事は会員限定です。続きを読むには、ログインしてください。",
    ];

    fn sentences(article: &str) -> String {
        (0..6)
            .map(|n| format!("<p>{article} number {n} melts, and then the butter is added to it.</p>"))
            .collect()
    }

    /// Pages of different structures with an article and a notice.
    fn pages(article: &str, notice: &str) -> Vec<(&'static str, String)> {
        let text = sentences(article);
        let long = format!("<p>{notice}</p>").repeat(12);
        let buttons = "<button>OK</button> <a href=/more>Read more</a>";
        vec![
            (
                "by class",
                format!("<div class=cookie-bar><p>{notice}</p>{buttons}</div><article>{text}</article>"),
            ),
            ("long, by id", format!("<div id=paywallBox>{long}</div><div>{text}</div>")),
            ("as a dialogue", format!("<div>{text}</div><div role=dialog><h2>Hello</h2><p>{long}</p></div>")),
            ("modal", format!("<section aria-modal=true>{notice}{buttons}</section><main>{text}</main>")),
            ("without a name", format!("<div><div><h2>Hello</h2><p>{notice}</p></div>{buttons}</div>{text}")),
            ("as a paragraph", format!("<p>{notice}</p><div><h1>Title</h1>{text}</div>")),
            ("at the end", format!("<div class=x><h1>Title</h1>{text}<div>{notice} {buttons}</div></div>")),
            ("among tables", format!("<table><tr><td>{notice}<td>{text}</table>")),
            (
                "short",
                format!("<h1>Pie</h1><p>{article} melts, and then the butter is added.</p><p>{notice}</p>"),
            ),
        ]
    }

    #[test]
    fn notices_never_win() {
        for notice in NOTICES {
            for (structure, page) in pages("The sugar", notice) {
                let text = main_text(&format!("<html><title>T</title><body>{page}</body></html>"));
                assert!(text.contains("ugar") && text.contains("butter"), "{structure}: {text}");
                let start: String = notice.chars().take(12).collect();
                assert!(!text.contains(&start), "{structure}: {text}");
            }
        }
    }

    #[test]
    fn a_notice_remains_if_there_is_nothing_else() {
        for notice in NOTICES {
            let page = format!("<body><div class=cookie-bar><p>{notice}</p></div></body>");
            assert_eq!(main_text(&page).trim(), notice);
        }
    }

    #[test]
    fn an_article_about_cookies_remains() {
        let paragraph = "<p>Many pages say that the site uses cookies. The court ruled that a reader must be \
                         asked before, and that silence is no consent at all.</p>";
        let page = format!("<article><h1>The ruling</h1>{}</article>", paragraph.repeat(5));
        assert_eq!(main_text(&page).matches("uses cookies").count(), 5);
    }

    /// Parts of a page that are not its article, and parts that are.
    #[test]
    fn what_is_not_the_article_is_removed() {
        let text = sentences("The sugar");
        for part in [
            "<figure><img src=x><figcaption>Stray, on a plate.</figcaption></figure>",
            "<div class=image><img src=x><p>Stray, on a plate.</p></div>",
            "<p class=wp-caption-text>Stray, on a plate.</p>",
            "<aside>Stray reading, for a long evening.</aside>",
            "<div class='related-posts'><p>Stray reading, for a long evening.</p></div>",
            "<p><a href=x>Stray reading for a long evening</a></p>",
            "<ul><li><a href=x>Stray reading</a><li><a href=y>Further reading</a></ul>",
            "<div id=comments><p>Stray remark of a reader, who is long in doubt.</p></div>",
            "<div class=shareBar>Stray words for friends</div>",
            "<p>Stray news, in your inbox every day. Sign up for our newsletter.</p>",
            "<p>Stray news: follow us on Twitter.</p>",
        ] {
            let page = format!("<body><div><h1>Pie</h1>{text}{part}{text}</div></body>");
            let found = main_text(&page);
            assert!(!found.contains("Stray") && found.matches("sugar").count() == 12, "{part}: {found}");
        }
        for part in [
            "<h2>Kept here</h2>",
            "<ul><li>Kept flour, 200 grams<li>two eggs</ul>",
            "<blockquote>Kept words, said she.</blockquote>",
            "<div class=social-embed><blockquote class=twitter-tweet><p>Kept words, said she.</p>\
             <a href=x>3 May</a></blockquote></div>",
            "<table><tr><td>Kept flour<td>200</table>",
            "<pre>Kept lines</pre>",
            "<p>Kept, with a <a href=x>link to a page</a> in its long sentence.</p>",
        ] {
            let page = format!("<body><div><h1>Pie</h1>{text}{part}{text}</div></body>");
            assert!(main_text(&page).contains("Kept"), "{part}: {}", main_text(&page));
        }
    }

    #[test]
    fn the_named_text_and_the_main_article_are_preferred() {
        let (text, other) = (sentences("The sugar"), sentences("The stray"));
        for page in [
            format!("<div itemprop=articleBody>{text}</div><div>{other}</div>"),
            format!("<div><div class=entry-content>{text}</div><div>{other}</div></div>"),
            format!("<article><h1>Pie</h1>{text}</article><article><h2>Cake</h2>{other}</article>"),
            format!("<article>{text}{text}{text}</article><article>{other}</article>"),
        ] {
            let found = main_text(&format!("<body>{page}</body>"));
            assert!(found.contains("sugar") && !found.contains("stray"), "{page}: {found}");
        }
        let parts = format!("<body><article>{text}</article><article>{other}</article></body>");
        assert!(["sugar", "stray"].iter().all(|word| main_text(&parts).contains(word)));
    }
}
