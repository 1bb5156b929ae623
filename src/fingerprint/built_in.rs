//! The built-in profiles. A released profile must never change.
//!
//! Not here: the steps of a recipe (`recipe`), and the parameters of MinHash (`minhash`).

use super::minhash::MinHash;
use super::profile::{Profile, ProfileId};
use super::recipe::{Features, IdfChoice, MIN_FEATURES, Recipe, Weights};
use super::vote::Tie;
use crate::features::{Cutter, HashFunction, ShinglePlan, StopWords, WordPlan};
use crate::ids::{SignatureShape, Width};
use crate::text::Preparation;

/// All built-in profiles; the versions of one name are in ascending order.
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
        "The three longest sentences, the method of early news searches: texts are similar if they share one \
         of them. Finds reprints that drop or move sentences without changing them. Does not find copies \
         that are edited throughout.",
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
            "Finds copies and edited copies in any language, fast. Features: words and pairs of words in \
             scripts that need a dictionary, 5-character grams elsewhere. Weight 1 + ln count, 64 bits.",
            |width, k| copies(width, k, ShinglePlan::MEASURED),
        ),
        (
            2,
            "Finds copies and edited copies in any language, fast. Features: words and pairs of words in \
             scripts that need a dictionary and in short text between them, 5-character grams elsewhere. \
             Weight 1 + ln count, 64 bits.",
            |width, k| copies(width, k, ShinglePlan::WIDER),
        ),
        (
            3,
            "Finds copies and edited copies in any language, fast. Features: words and pairs of words in \
             scripts that need a dictionary, elsewhere 5-character grams from every third letter of a word. \
             Weight 1 + ln count, 64 bits.",
            |width, k| stepped(width, k, ShinglePlan::STEPPED),
        ),
    ];
    let wide = "Like copies-64 with 128 bits: finds more heavily edited copies at the same precision, for \
                twice the memory.";
    let narrow = |&(version, summary, cut): &(u32, &str, Cut)| {
        named("copies-64", version, summary, cut(Width::Bits64, 7))
    };
    let wider =
        |&(version, _, cut): &(u32, &str, Cut)| named("copies-128", version, wide, cut(Width::Bits128, 23));
    let whole = "Like copies-64 with 128 bits and the full weight for words of one character: finds more \
                 heavily edited copies at the same precision, for three to four times the memory.";
    let newest = named("copies-128", 4, whole, stepped(Width::Bits128, 23, ShinglePlan::STEPPED_WHOLE));
    versions.iter().map(narrow).chain(versions.iter().map(wider)).chain([newest]).collect()
}

fn others() -> Vec<Profile> {
    vec![
        named(
            "pairs-64",
            1,
            "Pairs of adjacent words, 64 bits: fills an index most evenly, and finds less than copies-64 at \
             the same k. Its features are suited to a second check and to MinHash.",
            pairs(),
        ),
        named(
            "shingles-64",
            1,
            "Words and pairs of words in texts with a script that needs a dictionary, 9-character grams in \
             all other texts, 64 bits. Its features are suited to MinHash, with one threshold for all \
             languages.",
            copies(Width::Bits64, 7, ShinglePlan::OF_SETS),
        ),
        named(
            "shingles-64",
            2,
            "Words and pairs of words in scripts that need a dictionary, elsewhere 8-character grams from \
             every third letter of a word, 64 bits. Its features are suited best to MinHash, with one \
             threshold for all languages.",
            stepped(Width::Bits64, 7, ShinglePlan::STEPPED_SETS),
        ),
        named(
            "keywords-zh",
            1,
            "The classic recipe for Chinese: the 20 words with the greatest TF-IDF. It finds texts on the \
             same topic and not copies: many of its hits are independent texts about the same thing.",
            keywords_zh(),
        ),
        named(
            "cppjieba",
            1,
            "The hash of yanyiwu/simhash: the 20 keywords of cppjieba, hashed by lookup3. For comparison \
             with hashes of that program. Like every keyword recipe it finds topics and not copies.",
            cppjieba(20),
        ),
        named(
            "fnv-zh",
            1,
            "A common recipe of services for Chinese: every word of two characters or more, weighted by \
             TF-IDF and hashed by FNV-1a over UTF-16 units. It finds topics rather than copies.",
            fnv_zh(),
        ),
        named(
            "shingle-md5-128",
            1,
            "Every three adjacent characters in lower case, each distinct gram once, hashed by MD5, 128 \
             bits. Other programs can compute it easily. It ignores words and the counts of features.",
            shingle_md5_128(),
        ),
        named(
            "python-simhash",
            1,
            "The default hash of the Python package simhash: four adjacent letters with their counts, hashed \
             by MD5, 64 bits. For comparison with hashes of that package.",
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

/// A stepped plan takes fewer grams of a text for the same information, so fewer features are enough
/// (docs/quality.md, "Short texts").
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

/// The recipe with `top` keywords. The profile has 20; the golden values use other numbers, too.
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

/// With k = 2, two texts are similar if at most two of the three cells differ, so they share a sentence.
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
