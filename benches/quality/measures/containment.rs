//! Containment: whether an article is found inside a page, by the share of the page that it makes up.
//!
//! A page is an article with parts of other articles of the set before and after it. The methods of this
//! project stand beside two of the literature, in simple form: winnowing (Schleimer, Wilkerson and Aiken,
//! SIGMOD 2003) and one of 32 shingles by hash (Broder 1997). An article counts as found if the page has
//! three of its hashes and two fifths of them; for sampled grams, by the estimate that lookups use. A hit is
//! false if the page has less than a tenth of the article by letters.
//!
//! Not here: files and arguments.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write;

use lookalike_eval::random::Random;
use lookalike_hash::{Gram, Hash};
use lookalike_text::features::sampled_grams;
use lookalike_text::fingerprint::{Containment, Profile, Status};

use super::sentences::sentences;
use super::unchecked;

/// The shares of the article in its page, in percent.
const SHARES: [usize; 5] = [90, 70, 50, 30, 10];
/// Percentages of the words that are replaced.
const RATES: [usize; 3] = [0, 2, 5];
/// The number of hashes of an article that must be in the page.
const LEAST: usize = 3;
/// The share of the hashes of an article that must be in the page.
const SHARE: f64 = 0.4;
/// Every article is compared with this many pages of others.
const OTHERS: usize = 100;
/// Letters of a gram of winnowing, and grams of its window.
const GRAM: usize = 12;
const WINDOW: usize = 24;
/// One of this many shingles is sampled.
const SAMPLED: u64 = 32;

/// A way to find an article in a page.
struct Method {
    name: &'static str,
    is_found: fn(&Prepared, &Prepared) -> bool,
}

const METHODS: [Method; 5] = [
    Method { name: "whole, 64 bits, k=7", is_found: |a, page| is_near(a.whole[0], page.whole[0], 7) },
    Method { name: "whole, 128 bits, k=23", is_found: |a, page| is_near(a.whole[1], page.whole[1], 23) },
    Method { name: "sampled grams", is_found: |a, page| has_passages(&a.grams, &page.grams) },
    Method { name: "winnowing", is_found: |a, page| is_in(&a.winnowed, &page.winnowed) },
    Method { name: "sampled shingles", is_found: |a, page| is_in(&a.shingles, &page.shingles) },
];

/// What the methods compare of a text.
struct Prepared {
    whole: [Option<Hash>; 2],
    grams: Vec<Gram>,
    winnowed: HashSet<u64>,
    shingles: HashSet<u64>,
}

impl Prepared {
    fn of(text: &str) -> Prepared {
        let named = |name| Profile::named(name).expect("a built-in profile");
        let whole = ["copies-64", "copies-128"].map(|name| {
            let made = named(name).fingerprint(text);
            (made.status != Status::Empty).then_some(made.hash)
        });
        let shingles = named("shingles-64").feature_set(text);
        Prepared {
            whole,
            grams: sampled_grams(text),
            winnowed: winnowed(text),
            shingles: shingles.into_iter().filter(|hash| hash % SAMPLED == 0).collect(),
        }
    }
}

fn is_near(a: Option<Hash>, b: Option<Hash>, k: u32) -> bool {
    a.zip(b).and_then(|(a, b)| a.distance(b)).is_some_and(|distance| distance <= k)
}

/// Whether a text is in another one: three of its hashes, and two fifths of them, are.
fn is_in(own: &HashSet<u64>, of: &HashSet<u64>) -> bool {
    let shared = own.intersection(of).count();
    shared >= LEAST.min(own.len()).max(1) && shared as f64 >= SHARE * own.len() as f64
}

/// Whether sampled grams share passages, by the estimate that lookups use.
fn has_passages(own: &[Gram], of: &[Gram]) -> bool {
    let others: HashSet<u64> = of.iter().map(|gram| gram.hash).collect();
    let shared = own.iter().filter(|gram| others.contains(&gram.hash)).count();
    Containment::shares_passage(shared, own.len(), of.len())
        && Containment::of_grams(own, of, |_| false).a_in_b >= SHARE
}

/// Whether a page of another article has a tenth of this one all the same: sets have copies too.
fn shares_passages(article: &str, page: &str) -> bool {
    let Ok(found) = Containment::of(article, page, unchecked);
    found.a_in_b >= 0.1
}

/// The fingerprints of winnowing: in each window of grams of letters, the smallest hash.
fn winnowed(text: &str) -> HashSet<u64> {
    let letters: Vec<char> =
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let hash = |gram: &[char]| {
        gram.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &c| {
            (hash ^ u64::from(c)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5)
        })
    };
    let mut window = VecDeque::new();
    let mut found = HashSet::new();
    for gram in letters.windows(GRAM) {
        window.push_back(hash(gram));
        if window.len() > WINDOW {
            window.pop_front();
        }
        if window.len() == WINDOW {
            found.extend(window.iter().min());
        }
    }
    if found.is_empty() {
        found.extend(window.iter().min());
    }
    found
}

/// The text with this percentage of its words replaced by words of other texts. In texts without spaces, two
/// characters are a word.
fn with_words_replaced(text: &str, rate: usize, others: &[&str], random: &mut Random) -> String {
    let words = |text: &str| -> Vec<String> {
        let spaces = text.chars().filter(|c| *c == ' ').count();
        if spaces * 15 > text.chars().count() {
            return text.split_inclusive(' ').map(str::to_owned).collect();
        }
        let characters: Vec<char> = text.chars().collect();
        characters.chunks(2).map(|pair| pair.iter().collect()).collect()
    };
    let own = words(text);
    let foreign = words(others[random.below(others.len())]);
    own.into_iter()
        .map(
            |word| if random.below(100) < rate { foreign[random.below(foreign.len())].clone() } else { word },
        )
        .collect()
}

/// An article in a page, of which it makes up `share` percent.
fn page(article: &str, share: usize, others: &[&str], random: &mut Random) -> String {
    let rest = article.len() * (100 - share) / share;
    let filler = |bytes: usize, random: &mut Random| {
        let mut text = String::new();
        while text.len() < bytes {
            let other = sentences(others[random.below(others.len())]);
            let from = random.below(other.len());
            for sentence in other.iter().skip(from).take(12) {
                if text.len() < bytes {
                    text.push_str(sentence);
                    text.push(' ');
                }
            }
        }
        text
    };
    let before = random.below(rest.max(1));
    let (start, end) = (filler(before, random), filler(rest - before, random));
    format!("{start}{article}\n{end}")
}

/// A table of how many articles are found in their pages, and of false hits. Only texts of a thousand bytes
/// or more are articles, at most `most` of them.
pub fn containment_table(name: &str, texts: &[String], most: usize, seed: u64) -> String {
    let mut random = Random(seed);
    let articles: Vec<&str> = texts.iter().map(String::as_str).filter(|text| text.len() >= 1_000).collect();
    let (articles, others) = articles.split_at((articles.len() / 2).min(most));
    let mut out = format!("### {name}\n\n");
    if articles.is_empty() || others.is_empty() {
        out += "Fewer than two texts have 1,000 bytes.\n\n";
        return out;
    }
    let own: Vec<Prepared> = articles.iter().map(|text| Prepared::of(text)).collect();
    let mean = |count: fn(&Prepared) -> usize| own.iter().map(count).sum::<usize>() as f64 / own.len() as f64;
    let _ = writeln!(
        out,
        "{} articles in pages of {} other texts. Hashes an article: {:.1} grams, {:.1} of winnowing, {:.1} \
         shingles.\n",
        articles.len(),
        others.len(),
        mean(|prepared| prepared.grams.len()),
        mean(|prepared| prepared.winnowed.len()),
        mean(|prepared| prepared.shingles.len())
    );
    let _ = write!(out, "| share | words replaced |");
    METHODS.iter().for_each(|method| _ = write!(out, " {} |", method.name));
    out += "\n|--:|--:|";
    METHODS.iter().for_each(|_| out += "--:|");
    out.push('\n');
    let mut foreign: Vec<(String, Prepared)> = Vec::new();
    for rate in RATES {
        for share in SHARES {
            let mut right = [0usize; METHODS.len()];
            for (article, own) in articles.iter().zip(&own) {
                let edited = with_words_replaced(article, rate, others, &mut random);
                let text = page(&edited, share, others, &mut random);
                let page = Prepared::of(&text);
                for (right, method) in right.iter_mut().zip(&METHODS) {
                    *right += usize::from((method.is_found)(own, &page));
                }
                if share == SHARES[2] && rate == 0 {
                    foreign.push((text, page));
                }
            }
            let _ = write!(out, "| {share} % | {rate} % |");
            right.iter().for_each(|right| _ = write!(out, " {:.3} |", *right as f64 / articles.len() as f64));
            out.push('\n');
        }
    }
    let mut wrong = [0usize; METHODS.len()];
    let mut pairs = 0;
    for (at, own) in own.iter().enumerate() {
        for _ in 0..OTHERS.min(foreign.len() - 1) {
            let other = (at + 1 + random.below(foreign.len() - 1)) % foreign.len();
            pairs += 1;
            let (text, page) = &foreign[other];
            for (wrong, method) in wrong.iter_mut().zip(&METHODS) {
                *wrong += usize::from((method.is_found)(own, page) && !shares_passages(articles[at], text));
            }
        }
    }
    let _ = write!(out, "| false hits | in {pairs} |");
    wrong.iter().for_each(|wrong| _ = write!(out, " {wrong} |"));
    out.push_str("\n\n");
    out
}
