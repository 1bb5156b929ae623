//! The page on which a person judges pairs of a dropped and a kept document: which pairs it has, and its
//! parts. The page itself counts the marks (`review.js`).

use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::super::Failure;
use super::evidence::Facts;
use super::page::{escaped, head};
use super::pairs::Pair;
use super::target::Target;
use lookalike_files::sha256;
use lookalike_text::{Change, word_diff};

const STYLE: &str = include_str!("review.css");
const SCRIPT: &str = include_str!("review.js");
/// The most characters that are shown of a stretch which both texts have, and of one that differs.
const EQUAL: usize = 600;
const DIFFERENT: usize = 4_000;

/// Pairs of a stratum: those whose documents have the smallest digests, and the number of all.
#[derive(Default)]
struct Stratum {
    seen: u64,
    chosen: BinaryHeap<(u64, u32)>,
    pairs: BTreeMap<u32, Pair>,
}

/// A sample that has the same number of pairs of each class of similarity, as far as there are so many. The
/// same pairs make the same sample.
pub(super) struct Sample {
    wanted: usize,
    strata: BTreeMap<u32, Stratum>,
}

/// A pair of a sample, with its class.
pub(super) struct Sampled {
    pub(super) pair: Pair,
    pub(super) class: u32,
}

impl Sample {
    pub(super) fn of(wanted: u32) -> Sample {
        Sample { wanted: wanted as usize, strata: BTreeMap::new() }
    }

    /// Offers the next pair.
    pub(super) fn offer(&mut self, class: u32, pair: Pair) {
        let stratum = self.strata.entry(class).or_default();
        stratum.seen += 1;
        stratum.chosen.push((xxh3_64(&pair.own.to_le_bytes()), pair.own));
        stratum.pairs.insert(pair.own, pair);
        if stratum.chosen.len() > self.wanted
            && let Some((_, own)) = stratum.chosen.pop()
        {
            stratum.pairs.remove(&own);
        }
    }

    /// The sample, and the number of all pairs of each class.
    pub(super) fn finish(self) -> (Vec<Sampled>, BTreeMap<u32, u64>) {
        let sizes = self.strata.iter().map(|(class, stratum)| (*class, stratum.seen)).collect();
        // Small classes give what they have, and the others share the rest.
        let mut strata: Vec<(u32, Stratum)> = self.strata.into_iter().collect();
        strata.sort_by_key(|(class, stratum)| (stratum.seen, *class));
        let (mut left, mut sampled) = (self.wanted, Vec::new());
        let mut others = strata.len();
        for (class, Stratum { chosen, pairs, .. }) in strata {
            let chosen = chosen.into_sorted_vec();
            let taken = chosen.len().min(left.div_ceil(others));
            sampled.extend(chosen[..taken].iter().map(|(_, own)| Sampled { pair: pairs[own], class }));
            (left, others) = (left - taken, others - 1);
        }
        (sampled, sizes)
    }
}

/// A pair on the page.
pub(super) struct Reviewed {
    /// Of the dropped document, and of the kept one.
    pub(super) names: [String; 2],
    pub(super) texts: [String; 2],
    pub(super) class: u32,
    pub(super) facts: Facts,
}

/// The other facts on the page.
pub(super) struct Whole {
    /// For each class its name, and the number of pairs.
    pub(super) classes: BTreeMap<u32, (String, u64)>,
    /// Pairs with equal texts, which are not judged.
    pub(super) exact: u64,
}

/// Writes the page with these pairs, the most similar first.
pub(super) fn write(path: &Path, mut pairs: Vec<Reviewed>, whole: &Whole) -> Result<(), Failure> {
    pairs.sort_by(|a, b| {
        let similarity = |pair: &Reviewed| pair.facts.overlap.similarity;
        similarity(b).total_cmp(&similarity(a)).then_with(|| a.names.cmp(&b.names))
    });
    let mut body = String::new();
    summary(&mut body, &pairs, whole);
    for (place, pair) in (1..).zip(&pairs) {
        article(&mut body, place, pair);
    }
    // No text on the page can have the digest of the page in it.
    let nonce = &sha256(body.as_bytes())[..32];
    let mut page = head("Review of removals", STYLE, nonce);
    let _ = write!(
        page,
        "<main data-page=\"{nonce}\">\n{body}</main>\n<script nonce=\"{nonce}\">\n{SCRIPT}</script>\n\
         </body></html>\n"
    );
    let mut file = Target::create(path)?;
    file.write_all(page.as_bytes()).map_err(|error| file.failed(&error))?;
    file.finish()
}

fn summary(page: &mut String, pairs: &[Reviewed], whole: &Whole) {
    let all: u64 = whole.classes.values().map(|(_, size)| size).sum();
    let _ = write!(
        page,
        "<p>{} of {all} pairs of a dropped and a kept document, evenly over similarity. {} with equal text \
         are left out. Is the dropped one a copy, so that nothing is lost?</p>\n\
         <p class=\"keys\"><button data-key=\"k\">K previous</button> <button data-key=\"j\">J next</button> \
         <button data-key=\"y\">Y a copy</button> <button data-key=\"n\">N no copy</button> \
         <button data-key=\" \">Space unsure</button> <button data-key=\"e\">E export CSV</button> \
         <output id=\"progress\"></output></p>\n<p><output id=\"precision\"></output></p>\n",
        pairs.len(),
        whole.exact
    );
    page.push_str(
        "<details><summary>By class</summary><table id=\"classes\"><tr><th>estimated<th>pairs<th>copies\
         <th>no copies<th>precision (95 %)</tr>\n",
    );
    for (class, (name, size)) in &whole.classes {
        let _ = writeln!(
            page,
            "<tr data-class=\"{class}\" data-size=\"{size}\"><td>{name}<td>{size}<td><td><td></tr>"
        );
    }
    page.push_str("</table></details>\n");
}

fn article(page: &mut String, place: usize, pair: &Reviewed) {
    let overlap = pair.facts.overlap;
    let [dropped, kept] = pair.names.each_ref().map(|name| escaped(name));
    let [of_dropped, of_kept] = marked(&word_diff(&pair.texts[0], &pair.texts[1]));
    let percent = |share: f64| share * 100.0;
    let _ = writeln!(
        page,
        "<article hidden data-class=\"{}\" data-similarity=\"{:.4}\" data-dropped=\"{dropped}\" \
         data-kept=\"{kept}\"><h2>{place}: similarity {:.3}; the kept one has {:.0} % of the dropped one, \
         the dropped one {:.0} % of the kept one <output></output></h2>\n<div><section><h3>dropped: \
         {dropped}</h3><p dir=\"auto\">{of_dropped}</p></section>\n<section><h3>kept: {kept}</h3>\
         <p dir=\"auto\">{of_kept}</p></section></div></article>",
        pair.class,
        overlap.similarity,
        overlap.similarity,
        percent(overlap.contained_in),
        percent(overlap.contains),
    );
}

/// Both texts, with what only one of them has marked, and long stretches shortened.
fn marked(changes: &[Change]) -> [String; 2] {
    let (mut own, mut other) = (String::new(), String::new());
    for change in changes {
        match change {
            Change::Equal(text) => {
                let text = shortened(text, EQUAL);
                own.push_str(&text);
                other.push_str(&text);
            }
            Change::Removed(text) => _ = write!(own, "<del>{}</del>", shortened(text, DIFFERENT)),
            Change::Added(text) => _ = write!(other, "<ins>{}</ins>", shortened(text, DIFFERENT)),
        }
    }
    [own, other]
}

/// A stretch for the page, with the number of characters that are left out of its middle.
fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return escaped(text);
    }
    let place = |number: usize| text.char_indices().nth(number).map_or(text.len(), |(at, _)| at);
    let (start, end) = (place(most / 2), place(count - most / 2));
    format!(
        "{}<small> … {} characters … </small>{}",
        escaped(&text[..start]),
        count - most / 2 * 2,
        escaped(&text[end..])
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(wanted: u32, sizes: &[(u32, u32)]) -> (Vec<(u32, u32)>, BTreeMap<u32, u64>) {
        let mut sample = Sample::of(wanted);
        let mut own = 0;
        for (class, size) in sizes {
            for _ in 0..*size {
                sample.offer(*class, Pair { own, by: 0, distance: 0, is_exact: false });
                own += 1;
            }
        }
        let (sampled, sizes) = sample.finish();
        (sampled.iter().map(|one| (one.class, one.pair.own)).collect(), sizes)
    }

    #[test]
    fn a_sample_is_even_over_classes_and_always_the_same() {
        let classes = [(0, 1_000), (3, 7), (5, 60)];
        let (found, sizes) = sample(100, &classes);
        let of = |class: u32| found.iter().filter(|(own, _)| *own == class).count();
        assert_eq!((of(0), of(3), of(5)), (46, 7, 47));
        assert_eq!(sizes, BTreeMap::from([(0, 1_000), (3, 7), (5, 60)]));
        assert_eq!(found, sample(100, &classes).0);
        let chosen: Vec<u32> = found.iter().filter(|one| one.0 == 0).map(|one| one.1).collect();
        assert!(chosen.iter().any(|own| *own > 900) && chosen.iter().any(|own| *own < 100), "{chosen:?}");
        assert_eq!(sample(100, &[(1, 12)]).0.len(), 12);
        assert!(sample(5, &[]).0.is_empty());
    }

    #[test]
    fn texts_are_no_markup_and_long_stretches_are_counted() {
        let long = "字".repeat(1_000);
        let [own, other] = marked(&word_diff(&format!("{long} <b>渡轮"), &format!("{long} <b>汽车 & x")));
        assert!(own.contains("… 4") && own.contains("&lt;b&gt;<del>渡轮</del>"), "{own}");
        assert!(other.contains("<ins>汽车 &amp; x</ins>"), "{other}");
        assert!(own.chars().count() < 800);
    }
}
