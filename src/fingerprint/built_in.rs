//! The built-in profiles. None of them may change once it is released.

use super::minhash::MinHash;
use super::profile::{Profile, ProfileId};
use super::recipe::{Features, IdfChoice, MIN_FEATURES, Recipe, Weights};
use super::vote::Tie;
use crate::features::{Cutter, HashFunction, ShinglePlan, StopWords, WordPlan};
use crate::ids::{SignatureShape, Width};
use crate::text::Preparation;

/// All of them; the versions of one name in rising order, the default profile first.
pub(super) fn profiles() -> Vec<Profile> {
    let mut all = simhashes();
    for recipe in &MinHash::ALL {
        let of = all.iter().find(|profile| profile.id.to_string() == recipe.features);
        let features = of.expect("a profile above").recipe.clone();
        let (name, version) = recipe.id.split_once('@').expect("an id");
        let shape = recipe.shape();
        let k = shape.distance_for(recipe.threshold);
        let signed = Recipe { width: Width::Bits128, signature: Some(shape), k, ..features };
        all.push(named(name, version.parse().expect("a number"), recipe.summary, signed));
    }
    all.push(named(
        "longest-sentences",
        1,
        "The three longest sentences, as news searches compared them first: texts are similar if they have one in \
         common. Finds reprints in which every sentence was cut or moved but not changed, and nothing that was \
         edited throughout.",
        longest_three(),
    ));
    all
}

fn simhashes() -> Vec<Profile> {
    let mut all = copies_of_all_versions();
    all.extend(others());
    all
}

fn copies_of_all_versions() -> Vec<Profile> {
    type Cut = fn(Width, u32) -> Recipe;
    let versions: [(u32, &str, Cut); 3] = [
        (
            1,
            "Finds copies and edited copies in any language, fast: words and pairs of words where words must be \
             found by dictionary, 5-character grams elsewhere, weight 1 + ln count, 64 bits.",
            |width, k| copies(width, k, ShinglePlan::MEASURED),
        ),
        (
            2,
            "Finds copies and edited copies in any language, fast: words and pairs of words where words must be \
             found by dictionary and in what stands between such words, 5-character grams elsewhere, weight 1 + ln \
             count, 64 bits.",
            |width, k| copies(width, k, ShinglePlan::WIDER),
        ),
        (
            3,
            "Finds copies and edited copies in any language, fast: words and pairs of words where words must be \
             found by dictionary, elsewhere 5-character grams from every third letter of a word, weight 1 + ln count, \
             64 bits.",
            |width, k| stepped(width, k, ShinglePlan::STEPPED),
        ),
    ];
    let wide = "Like copies-64 with 128 bits: finds more heavily edited copies at the same precision, for twice the memory.";
    let narrow = |&(version, summary, cut): &(u32, &str, Cut)| {
        named("copies-64", version, summary, cut(Width::Bits64, 7))
    };
    let wider =
        |&(version, _, cut): &(u32, &str, Cut)| named("copies-128", version, wide, cut(Width::Bits128, 23));
    let whole = "Like copies-64 with 128 bits, and words of one character weigh as much as others: finds more heavily edited \
                 copies at the same precision, for three to four times the memory.";
    let newest = named("copies-128", 4, whole, stepped(Width::Bits128, 23, ShinglePlan::STEPPED_WHOLE));
    versions.iter().map(narrow).chain(versions.iter().map(wider)).chain([newest]).collect()
}

fn others() -> Vec<Profile> {
    vec![
        named(
            "pairs-64",
            1,
            "Pairs of adjacent words, 64 bits: fills an index the most evenly, finds less than copies-64 at the same k, \
             and is what a second check and MinHash compare best by.",
            pairs(),
        ),
        named(
            "shingles-64",
            1,
            "Words and pairs of words in texts with a script that is cut by dictionary, 9-character grams in all others, \
             64 bits: its features are what MinHash compares best by, with one threshold for all languages.",
            copies(Width::Bits64, 7, ShinglePlan::OF_SETS),
        ),
        named(
            "shingles-64",
            2,
            "Words and pairs of words where words must be found by dictionary, elsewhere 8-character grams from every \
             third letter of a word, 64 bits: its features are what MinHash compares best by, with one threshold for all \
             languages.",
            stepped(Width::Bits64, 7, ShinglePlan::STEPPED_SETS),
        ),
        named(
            "keywords-zh",
            1,
            "The classic recipe for Chinese: the 20 words of the greatest TF-IDF. It finds texts on the same topic \
             and not copies: many of its hits are other texts about the same thing.",
            keywords_zh(),
        ),
        named(
            "cppjieba",
            1,
            "What yanyiwu/simhash computes: the 20 keywords of cppjieba, hashed by lookup3. For comparison with \
             hashes made there; like every recipe of keywords it finds topics and not copies.",
            cppjieba(20),
        ),
        named(
            "fnv-zh",
            1,
            "A recipe often met in services for Chinese: every word of two characters or more, weighed by TF-IDF and \
             hashed by FNV-1a over UTF-16 units. It finds topics rather than copies.",
            fnv_zh(),
        ),
        named(
            "shingle-md5-128",
            1,
            "Every three adjacent characters in lower case, once, hashed by MD5, 128 bits. Simple to compute \
             elsewhere; it knows no words and does not tell frequent features from rare ones.",
            shingle_md5_128(),
        ),
        named(
            "python-simhash",
            1,
            "What the Python package simhash computes by default: four adjacent letters with their counts, hashed by \
             MD5, 64 bits. For comparison with hashes made there.",
            python_simhash(),
        ),
    ]
}

fn named(name: &str, version: u32, summary: &str, recipe: Recipe) -> Profile {
    Profile { id: ProfileId::new(name, version, None), summary: summary.to_owned(), recipe }
}

fn copies(width: Width, k: u32, plan: ShinglePlan) -> Recipe {
    Recipe {
        preparation: Preparation::Normalise,
        features: Features::Shingles(plan),
        dictionary: None,
        weights: Weights::Logarithm,
        hash: HashFunction::Xxh3,
        tie: Tie::Smallest,
        width,
        signature: None,
        k,
        min_features: MIN_FEATURES,
    }
}

/// Fewer features of a text say as much, so that fewer are enough (docs/quality.md, "Short texts").
fn stepped(width: Width, k: u32, plan: ShinglePlan) -> Recipe {
    Recipe { min_features: 12, ..copies(width, k, plan) }
}

fn pairs() -> Recipe {
    let plan = WordPlan {
        cutter: Cutter::Split,
        least_characters: 1,
        drops_numbers: false,
        stop_words: StopWords::default(),
        shortest: 2,
        longest: 2,
    };
    Recipe { features: Features::Words(plan), ..copies(Width::Bits64, 9, ShinglePlan::WIDER) }
}

/// Single words of two characters or more.
fn words(cutter: Cutter, stop_words: StopWords, drops_numbers: bool) -> Features {
    Features::Words(WordPlan {
        cutter,
        least_characters: 2,
        drops_numbers,
        stop_words,
        shortest: 1,
        longest: 1,
    })
}

fn keywords_zh() -> Recipe {
    Recipe {
        features: words(Cutter::Guess, StopWords::built_in(), true),
        weights: Weights::TfIdf { idf: IdfChoice::BuiltIn, top: Some(20) },
        k: 3,
        min_features: 8,
        ..copies(Width::Bits64, 3, ShinglePlan::WIDER)
    }
}

/// `top` keywords; the profile has 20 of them, the golden values other numbers too.
pub(super) fn cppjieba(top: usize) -> Recipe {
    Recipe {
        preparation: Preparation::Nothing,
        features: words(Cutter::Cppjieba, StopWords::cppjieba(), false),
        weights: Weights::TfIdf { idf: IdfChoice::BuiltInWords, top: Some(top) },
        hash: HashFunction::Lookup3,
        tie: Tie::Zero,
        min_features: 8,
        ..copies(Width::Bits64, 3, ShinglePlan::WIDER)
    }
}

fn fnv_zh() -> Recipe {
    Recipe {
        features: words(Cutter::Guess, StopWords::default(), false),
        weights: Weights::TfIdf { idf: IdfChoice::BuiltInWords, top: None },
        hash: HashFunction::Fnv1aUtf16,
        tie: Tie::One,
        ..copies(Width::Bits64, 3, ShinglePlan::WIDER)
    }
}

fn shingle_md5_128() -> Recipe {
    Recipe {
        preparation: Preparation::LowerCase,
        features: Features::Characters(3),
        weights: Weights::One,
        hash: HashFunction::Md5,
        tie: Tie::One,
        ..copies(Width::Bits128, 15, ShinglePlan::WIDER)
    }
}

/// Two texts differ in two cells at most if they share a sentence.
fn longest_three() -> Recipe {
    let shape = SignatureShape { cells: 3, cell_bytes: 8, bands: 3, rows: 1, is_set: true };
    Recipe {
        features: Features::Sentences(3),
        weights: Weights::One,
        signature: Some(shape),
        min_features: 3,
        ..copies(Width::Bits128, 2, ShinglePlan::WIDER)
    }
}

fn python_simhash() -> Recipe {
    Recipe {
        preparation: Preparation::WordCharacters,
        features: Features::Characters(4),
        weights: Weights::Count,
        hash: HashFunction::Md5,
        tie: Tie::Zero,
        ..copies(Width::Bits64, 3, ShinglePlan::WIDER)
    }
}
