//! Boilerplate: what documents share that are otherwise unlike each other, such as a menu or a footer.
//!
//! Documents that have the same article are alike beside it, or the article is most of them or of the query.
//! So the documents that share grams with a query are grouped by their other grams, and a gram that several
//! groups have is boilerplate. It counts only in a pair of which it, with the rest that both have, is most of
//! one text.
//!
//! Where documents name their sources, such as sites, what groups of one source have is boilerplate of this
//! source, and counts in no pair with a document of it. So an article that many sites have once is none.
//!
//! Nothing of this is stored. The work is proportional to the grams of the documents.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::filter::member;
use lookalike_hash::{Gram, GramRule};
use lookalike_store::{CollectionSettings, Row};
use lookalike_text::fingerprint::Containment;

/// The number of documents, unlike each other, that make a gram boilerplate, unless a collection sets it.
pub(super) const BOILERPLATE: u32 = 5;
/// The share of one of two texts from which what they share is never boilerplate.
pub(super) const MOST: f64 = 0.7;
/// The same by grams, where letters will decide.
const LIKELY_MOST: f64 = 0.5;
/// The fewest grams beside those of the query by which documents are known to be unlike.
const FEWEST: usize = 3;
/// The most of them that are compared: the smallest, which like documents have both.
const BESIDE: usize = 64;
/// The most groups that are remembered for a gram beside those of the query. One that more have tells
/// nothing.
const GROUPS: usize = 16;
/// Bytes of metadata that are parsed in the time in which a gram is looked up.
const BYTES_PER_GRAM: usize = 16;
/// Approximate bytes of the groups of a gram.
const GROUPS_BYTES: usize = 96;

/// The grams of a text, and the number of its characters if it is known.
pub(super) type Of<'a> = (&'a [Gram], Option<u32>);

/// What names the source of a document in its metadata, as a hash. All documents without one have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Source(u64);

/// How documents name their sources, and the source of a query.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The field of the metadata, if the collection has one.
    field: Option<String>,
    /// The source of the document that the query is about, if it is about one.
    own: Option<Source>,
}

impl Sources {
    /// Those of a collection, for a query about this document, if it is about one.
    pub fn new(settings: &CollectionSettings, document: Option<&Row>) -> Sources {
        let mut sources = Sources { field: settings.source_field.clone(), own: None };
        sources.own = document.map(|row| sources.of(row.metadata.as_deref()));
        sources
    }

    /// The source of a document with this metadata.
    pub(super) fn of(&self, metadata: Option<&str>) -> Source {
        let (Some(metadata), Some(field)) = (metadata, &self.field) else { return Source::default() };
        let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
        match member(&metadata, field) {
            Some(Value::String(name)) => Source(xxh3_64(name.as_bytes())),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => {
                Source(xxh3_64(value.to_string().as_bytes()))
            }
            _ => Source::default(),
        }
    }

    /// The work of finding the source of a document with this metadata, in grams that are looked up.
    pub(super) fn work(&self, metadata: Option<&str>) -> usize {
        if self.field.is_some() { metadata.map_or(0, str::len) / BYTES_PER_GRAM } else { 0 }
    }
}

/// The grams of a query that are boilerplate, each of some sources.
#[derive(Clone, Debug, Default)]
pub struct Boilerplate {
    sources: Sources,
    /// Those of any source.
    grams: HashSet<u64, RandomState>,
    of: HashSet<(u64, Source), RandomState>,
}

impl Boilerplate {
    /// Whether a gram is boilerplate of any source.
    pub fn has(&self, gram: u64) -> bool {
        self.grams.contains(&gram)
    }

    /// Which grams do not count in the pair of the query and a document with this metadata.
    pub fn left_out(&self, metadata: Option<&str>) -> impl Fn(&Gram) -> bool {
        let source = self.sources.of(metadata);
        move |gram| self.is_left_out(gram.hash, source)
    }

    /// Whether a gram does not count in the pair of the query and a document of this source.
    pub(super) fn is_left_out(&self, gram: u64, of: Source) -> bool {
        let is_of = |source| self.of.contains(&(gram, source));
        is_of(of) || self.sources.own.is_some_and(is_of)
    }
}

/// The grams of a query and what the documents that share some of them tell about each.
pub(super) struct Compared<'a> {
    own: Of<'a>,
    rule: GramRule,
    /// The share by grams from which nothing is boilerplate.
    most: f64,
    /// The grams of the query.
    grams: HashSet<u64, RandomState>,
    /// For each gram of the query and each source, the groups of documents that have it.
    groups: HashMap<(u64, Source), Vec<usize>, RandomState>,
    /// For each gram beside them, the groups whose first document has it.
    beside: HashMap<u64, Vec<usize>, RandomState>,
    /// For each group, the number of grams beside those of the query that its first document has.
    sizes: Vec<usize>,
    boilerplate: Boilerplate,
}

impl Compared<'_> {
    /// `is_judged` if the letters of kept texts decide afterwards.
    pub(super) fn new(own: Of<'_>, sources: Sources, rule: GramRule, is_judged: bool) -> Compared<'_> {
        Compared {
            own,
            rule,
            most: if is_judged { LIKELY_MOST } else { MOST },
            grams: own.0.iter().map(|gram| gram.hash).collect(),
            groups: HashMap::default(),
            beside: HashMap::default(),
            sizes: Vec::new(),
            boilerplate: Boilerplate { sources, ..Boilerplate::default() },
        }
    }

    /// Adds a document of this source. The order of documents decides about groups that are alike in part.
    pub(super) fn add(&mut self, grams: &[Gram], source: Source) {
        let hashes = grams.iter().map(|gram| gram.hash);
        let (shared, mut beside): (Vec<u64>, Vec<u64>) = hashes.partition(|hash| self.grams.contains(hash));
        if beside.len() < FEWEST {
            return;
        }
        if beside.len() > BESIDE {
            beside.select_nth_unstable(BESIDE);
            beside.truncate(BESIDE);
        }
        let group = self.group(&beside);
        for gram in shared {
            let groups = self.groups.entry((gram, source)).or_default();
            let most = self.rule.boilerplate as usize;
            if groups.len() < most && !groups.contains(&group) {
                groups.push(group);
                if groups.len() == most {
                    self.boilerplate.grams.insert(gram);
                    self.boilerplate.of.insert((gram, source));
                }
            }
        }
    }

    /// The first group of which the first document has half of these grams, or the other way round; a new one
    /// if there is none.
    fn group(&mut self, beside: &[u64]) -> usize {
        let mut common: HashMap<usize, usize, RandomState> = HashMap::default();
        for group in beside.iter().filter_map(|hash| self.beside.get(hash)).flatten() {
            *common.entry(*group).or_default() += 1;
        }
        let is_alike = |(group, count): &(usize, usize)| count * 2 >= beside.len().min(self.sizes[*group]);
        if let Some((group, _)) = common.into_iter().filter(is_alike).min() {
            return group;
        }
        let group = self.sizes.len();
        self.sizes.push(beside.len());
        for &hash in beside {
            let groups = self.beside.entry(hash).or_default();
            if groups.len() < GROUPS {
                groups.push(group);
            }
        }
        group
    }

    /// About how many bytes it holds.
    pub(super) fn bytes(&self) -> usize {
        (self.groups.len() + self.beside.len()) * GROUPS_BYTES
    }

    /// How much of the query and of a document of this source is in the other one, after all documents were
    /// added; and whether so many grams are shared that they are a passage.
    pub(super) fn with(&self, of: Of<'_>, source: Source) -> (Containment, bool) {
        let (own, grams) = (self.own.0, of.0);
        let whole = Containment::of_grams(own, grams, |_| false);
        let is_whole = self.boilerplate.grams.is_empty() || share_by_place(self.own, of, &whole) >= self.most;
        let is_left_out = |hash: u64| !is_whole && self.boilerplate.is_left_out(hash, source);
        let counts = |gram: &&Gram| self.grams.contains(&gram.hash) && !is_left_out(gram.hash);
        let count = grams.iter().filter(counts).count();
        let is_enough = if self.rule.is_exact {
            count > 0
        } else {
            Containment::shares_passage(count, own.len(), grams.len())
        };
        let shared = if is_whole { whole } else { Containment::of_grams(own, grams, is_left_out) };
        (shared, is_enough)
    }

    /// The grams of the query that are boilerplate.
    pub(super) fn boilerplate(&self) -> &Boilerplate {
        &self.boilerplate
    }

    pub(super) fn into_boilerplate(self) -> Boilerplate {
        self.boilerplate
    }
}

/// The larger share of two texts that both have, by the characters between grams: the share of the grams
/// themselves is known to a tenth only. A passage ends with a gram, so the ends of a text count only if they
/// are longer than usual.
fn share_by_place(a: Of<'_>, b: Of<'_>, shared: &Containment) -> f64 {
    let share = |(grams, characters): Of<'_>, passages: usize| {
        let between = grams.last().map_or(1.0, |last| f64::from(last.to - grams[0].from));
        let without_ends = |all| f64::from(all) * (1.0 - 1.0 / grams.len() as f64);
        passages as f64 / characters.map_or(between, |all| between.max(without_ends(all)))
    };
    let a_passages = shared.shared.iter().map(|passage| passage.a.len()).sum();
    let b_passages = shared.shared.iter().map(|passage| passage.b.len()).sum();
    share(a, a_passages).max(share(b, b_passages))
}

/// Whether what two texts share by their letters is most of one of them.
pub(super) fn is_most(shared: &Containment) -> bool {
    shared.a_in_b.max(shared.b_in_a) >= MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of these ranges of grams.
    fn text(parts: &[std::ops::Range<u64>]) -> Vec<Gram> {
        let grams = (0..).zip(parts.iter().cloned().flatten());
        grams.map(|(at, hash)| Gram { hash, from: at * 50, to: at * 50 + 16 }).collect()
    }

    /// The larger share of each document in percent; 0 if it shares no passage.
    fn compared(own: &[Gram], documents: &[Vec<Gram>]) -> Vec<u32> {
        of_sources(own, None, &documents.iter().map(|grams| (&grams[..], 0)).collect::<Vec<_>>())
    }

    /// The same of documents with sources.
    fn of_sources(own: &[Gram], source: Option<u64>, documents: &[(&[Gram], u64)]) -> Vec<u32> {
        let rule = GramRule { is_exact: false, boilerplate: 5 };
        let sources = Sources { field: None, own: source.map(Source) };
        let mut compared = Compared::new((own, None), sources, rule, false);
        documents.iter().for_each(|(grams, source)| compared.add(grams, Source(*source)));
        let share = |(grams, source): &(&[Gram], u64)| {
            let (shared, is_enough) = compared.with((grams, None), Source(*source));
            if is_enough { (shared.a_in_b.max(shared.b_in_a) * 100.0).round() as u32 } else { 0 }
        };
        documents.iter().map(share).collect()
    }

    #[test]
    fn what_unlike_documents_share_does_not_count_unless_it_is_most_of_one() {
        let body = |n: u64| n * 1_000..n * 1_000 + 10;
        let footer = 1..13;
        let page = |n: u64| text(&[body(n), footer.clone()]);
        let pages: Vec<Vec<Gram>> = (1..=20).map(page).collect();
        assert!(compared(&page(50), &pages).iter().all(|share| *share == 0));
        assert!(compared(&page(50), &pages[..4]).iter().all(|share| *share > 50));
        // A copy of the query is found, with its footer or another one.
        let mut copies = pages.clone();
        copies.push(text(&[body(50), footer.clone()]));
        copies.push(text(&[body(50), 500..512]));
        let shares = compared(&page(50), &copies);
        assert_eq!((shares[20], shares[21]), (100, 100));
        // The footer alone is asked for, or is a document of its own.
        assert!(compared(&text(std::slice::from_ref(&footer)), &pages).iter().all(|share| *share == 100));
        copies.push(text(std::slice::from_ref(&footer)));
        assert_eq!(compared(&page(50), &copies)[22], 100);
    }

    #[test]
    fn what_many_sources_have_once_is_no_boilerplate() {
        let page = |n: u64, shared| text(&[n * 1_000..n * 1_000 + 12, shared]);
        let (article, footer) = (1..13, 100..112);
        let own = page(50, article.clone());
        // Ten sites have the article, and one has it on four pages more.
        let pages: Vec<Vec<Gram>> = (1..=14).map(|n| page(n, article.clone())).collect();
        let by_site = |pages: &[Vec<Gram>], site: fn(u64) -> u64| -> Vec<u32> {
            let sited: Vec<(&[Gram], u64)> =
                pages.iter().zip(1..).map(|(page, n)| (&page[..], site(n))).collect();
            of_sources(&own, Some(99), &sited)
        };
        assert_eq!(by_site(&pages, |_| 1), [0; 14]);
        assert_eq!(by_site(&pages, |n| n.min(10)), [[50; 9].as_slice(), &[0; 5]].concat());
        // What is a footer of the query's site is one in pairs with others, too.
        let pages: Vec<Vec<Gram>> = (1..=7).map(|n| page(n, footer.clone())).collect();
        let sited: Vec<(&[Gram], u64)> =
            pages.iter().zip([1, 1, 1, 1, 1, 2, 3]).map(|(page, site)| (&page[..], site)).collect();
        assert_eq!(of_sources(&page(50, footer.clone()), Some(1), &sited), [0; 7]);
        assert_eq!(of_sources(&page(50, footer), Some(2), &sited), [0, 0, 0, 0, 0, 50, 50]);
    }

    #[test]
    fn a_source_is_what_a_field_says() {
        let by = |field: &str| Sources { field: Some(field.to_owned()), own: None };
        let of = |metadata| by("page.site").of(Some(metadata));
        let none = Source::default();
        assert_eq!(of(r#"{"page": {"site": "a"}}"#), of(r#"{"page.site": "a", "n": 1}"#));
        assert_ne!(of(r#"{"page.site": "a"}"#), of(r#"{"page.site": "b"}"#));
        assert_ne!(of(r#"{"page.site": 7}"#), none);
        assert_eq!((of(r#"{"page.site": null}"#), of(r#"{"page.site": ["a"]}"#)), (none, none));
        assert_eq!((by("a").of(None), Sources::default().of(Some(r#"{"a": 1}"#))), (none, none));
    }

    #[test]
    fn copies_of_an_article_in_like_pages_are_no_boilerplate() {
        let (article, layout) = (1..13, 100..112);
        let pages: Vec<Vec<Gram>> =
            (1..=200).map(|n| text(&[layout.clone(), article.clone(), n * 1_000..n * 1_000 + 4])).collect();
        let own = text(&[900..912, article]);
        assert!(compared(&own, &pages).iter().all(|share| *share == 50));
    }
}
