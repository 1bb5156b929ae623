//! The kind of an element by its names: tag, `role`, classes and id.
//!
//! Guarantees: time proportional to the names. Not here: what is removed (see `boilerplate`).

use std::collections::HashMap;
use std::sync::LazyLock;

use dom_query::Element;

/// The most words of a name that are read.
const WORDS: usize = 64;

/// The kinds that the names of an element suggest. Each sign can be wrong: `body` with the class
/// `has-sidebar` is not a sidebar. Therefore a rule also needs measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a sign of its own")]
pub(super) struct Named {
    /// A notice about cookies, consent or subscriptions, or a dialogue.
    pub(super) notice: bool,
    /// A part of the page beside the article: menus, comments, related articles, advertisements, sharing.
    pub(super) beside: bool,
    /// A line about the article or a picture: caption, author, date, tags.
    pub(super) about: bool,
    /// A picture with its caption.
    pub(super) figure: bool,
    /// Foreign content that the article shows.
    pub(super) embed: bool,
    /// The text of the article.
    pub(super) body: bool,
    /// An element of a table.
    pub(super) cell: bool,
}

/// Words in the names of notices. A recipe for cookies has the first ones, too, so they alone do not say that
/// a part is beside the article.
const COOKIES: &str = "cookie cookies metering";
const NOTICE: &str = "consent gdpr ccpa dsgvo rgpd lgpd paywall regwall onetrust didomi cookiebot \
    usercentrics truste trustarc cmp cmpbox cookieconsent cookiebanner cookiebar cookienotice";
const BESIDE: &str = "comment comments commentlist disqus livefyre respond related relatedposts yarpp \
    recommended recommendation recommendations recirc recirculation outbrain taboola sidebar rail \
    breadcrumb breadcrumbs pagination pager postnav navbar nav navigation menu toolbar newsletter \
    newsletters signup subscribe subscription mailchimp optin donate donation login register survey poll \
    rating ratings feedback reactions promo promos promotion advert adverts advertisement ad ads sponsor \
    sponsored popup modal overlay trending teaser teasers mostread cta sharing share sharebar sharebox \
    sharedaddy social addthis whatsapp footer tagcloud authorbox noprint visuallyhidden";
const BESIDE_PAIRS: &str = "most read,most popular,most viewed,read more,read next,read also,also read,\
    also like,more stories,more on,more from,up next,see also,sign up,opt in,no print,print only,\
    screen reader,sr only,visually hidden,widget area";
const ABOUT: &str = "caption captions credit credits copyright attribution byline dateline timestamp \
    published pubdate posted author authors bio writer contributor contributors photographer tags topics \
    categories kicker eyebrow dek deck standfirst pullquote skip print follow disclaimer disclosure legal \
    views counter icons";
const ABOUT_PAIRS: &str = "tag list,pull quote,post meta,entry meta,article meta";
const FIGURE: &str = "image photo picture img gallery slideshow carousel video media lightbox figure";
const EMBED: &str = "embed embedded tweet twitter";
const BODY: &str = "articlebody storybody postcontent articlecontent";
const BODY_PAIRS: &str = "article body,article content,article text,article main,entry content,entry body,\
    post content,post body,story body,story content,content body";

static MEANINGS: LazyLock<HashMap<&'static str, Named>> = LazyLock::new(|| {
    type Set = fn(&mut Named);
    let mut meanings: HashMap<&str, Named> = HashMap::new();
    let lists: [(&str, &str, Set); 7] = [
        (COOKIES, "", |named| named.notice = true),
        (NOTICE, "", |named| (named.notice, named.beside) = (true, true)),
        (BESIDE, BESIDE_PAIRS, |named| named.beside = true),
        (ABOUT, ABOUT_PAIRS, |named| named.about = true),
        (FIGURE, "", |named| named.figure = true),
        (EMBED, "", |named| named.embed = true),
        (BODY, BODY_PAIRS, |named| named.body = true),
    ];
    for (words, pairs, set) in lists {
        let pairs = pairs.split(',').filter(|pair| !pair.is_empty());
        words.split_whitespace().chain(pairs).for_each(|name| set(meanings.entry(name).or_default()));
    }
    meanings
});

impl Named {
    /// The kinds of an element.
    pub(super) fn of(element: &Element) -> Named {
        let mut named = Named::default();
        match &*element.name.local {
            "dialog" => (named.notice, named.beside) = (true, true),
            "aside" | "nav" | "footer" => named.beside = true,
            "figcaption" | "form" | "button" => named.about = true,
            "figure" => named.figure = true,
            "table" | "tbody" | "tr" | "td" | "th" => named.cell = true,
            _ => {}
        }
        for attribute in &element.attrs {
            let value = &*attribute.value;
            match &*attribute.name.local {
                "role" => named.read_role(value),
                "aria-modal" => named.notice |= value == "true",
                "itemprop" => named.body |= value == "articleBody",
                "class" | "id" => named.read(value),
                _ => {}
            }
        }
        named
    }

    fn read_role(&mut self, role: &str) {
        match role {
            "dialog" | "alertdialog" => (self.notice, self.beside) = (true, true),
            "navigation" | "complementary" | "contentinfo" | "search" => self.beside = true,
            _ => {}
        }
    }

    /// Reads the words of a class or id, alone and in pairs.
    fn read(&mut self, value: &str) {
        let words = in_words(value);
        let mut before = None;
        let mut start = 0;
        for (number, part) in words.split(' ').enumerate() {
            let end = start + part.len();
            self.add(&words[start..end]);
            if let Some(before) = before.replace(start) {
                self.add(&words[before..end]);
            }
            start = end + 1;
            if number == WORDS {
                return;
            }
        }
    }

    fn add(&mut self, name: &str) {
        let Some(other) = MEANINGS.get(name) else { return };
        self.notice |= other.notice;
        self.beside |= other.beside;
        self.about |= other.about;
        self.figure |= other.figure;
        self.embed |= other.embed;
        self.body |= other.body;
    }
}

/// The words of a name in lower case, separated by single spaces: `readMore_box-2` is `read more box 2`.
fn in_words(name: &str) -> String {
    let mut words = String::with_capacity(name.len());
    let mut was_small = false;
    for c in name.chars() {
        let starts = !c.is_alphanumeric() || (c.is_uppercase() && was_small);
        if starts && !words.is_empty() && !words.ends_with(' ') {
            words.push(' ');
        }
        if c.is_alphanumeric() {
            words.extend(c.to_lowercase());
        }
        was_small = c.is_lowercase() || c.is_numeric();
    }
    words.truncate(words.trim_end().len());
    words
}

#[cfg(test)]
mod tests {
    use dom_query::{Document, NodeData};

    use super::*;

    fn named(tag: &str) -> Named {
        let document = Document::from(format!("<body>{tag}"));
        let nodes = document.select("body > *");
        nodes.nodes()[0].query_or(Named::default(), |node| match &node.data {
            NodeData::Element(element) => Named::of(element),
            _ => Named::default(),
        })
    }

    #[test]
    fn names_are_cut_into_words() {
        for (name, words) in [
            ("readMore_box-2", "read more box 2"),
            ("--A  bC", "a b c"),
            ("entry-content entry", "entry content entry"),
            ("", ""),
            ("ÜberUns", "über uns"),
        ] {
            assert_eq!(in_words(name), words, "{name}");
        }
    }

    #[test]
    fn names_say_what_an_element_is() {
        let none = Named::default();
        for (tag, expected) in [
            ("<div class=x>", none),
            ("<div class='x cookieBanner'>", Named { notice: true, ..none }),
            ("<div class='gdpr'>", Named { notice: true, beside: true, ..none }),
            ("<div id=x-cookie-bar>", Named { notice: true, ..none }),
            ("<dialog>", Named { notice: true, beside: true, ..none }),
            ("<div role=dialog>", Named { notice: true, beside: true, ..none }),
            ("<div aria-modal=true>", Named { notice: true, ..none }),
            ("<div class=most-read>", Named { beside: true, ..none }),
            ("<nav>", Named { beside: true, ..none }),
            ("<div class='thread download'>", none),
            ("<p class=wp-caption-text>", Named { about: true, ..none }),
            ("<figure>", Named { figure: true, ..none }),
            ("<div itemprop=articleBody>", Named { body: true, ..none }),
            ("<div class=entry-content>", Named { body: true, ..none }),
            ("<div class='entry'>", none),
        ] {
            assert_eq!(named(tag), expected, "{tag}");
        }
        assert_eq!(named(&format!("<p class='{}share'>", "x ".repeat(WORDS + 1))), none);
    }
}
