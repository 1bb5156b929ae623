//! The built-in profiles. A released profile must never change.
//!
//! Not here: the steps of a recipe (`recipe`), and the parameters of MinHash (`minhash`).

use super::minhash::MinHash;
use super::profile::{Profile, ProfileId};
use super::recipe::{Features, IdfChoice, Recipe, Top, Weights};
use super::vote::Tie;
use crate::Preparation;
use crate::features::{CodePlan, Cutter, HashFunction, ShinglePlan, StopWords, WordPlan};
use lookalike_hash::{SignatureShape, Width};

/// All built-in profiles; the versions of one name are in ascending order.
pub(super) fn profiles() -> Vec<Profile> {
    let mut all = simhashes();
    if !cfg!(feature = "zh") {
        // Recipes of keywords weigh every word by a table of Chinese.
        all.retain(|profile| !matches!(profile.recipe.weights, Weights::TfIdf { .. }));
    }
    for recipe in &MinHash::ALL {
        let of = all.iter().find(|profile| profile.id.name() == recipe.features);
        let mut features = of.expect("a profile above").recipe.clone();
        match &mut features.features {
            // A set without elements resembles no other, so short texts could not be found.
            Features::Characters { takes_short, .. } => *takes_short = true,
            Features::Code(plan) => *plan = CodePlan::SETS,
            _ => {}
        }
        let shape = recipe.shape();
        let k = shape.distance_for(recipe.threshold);
        let signed = Recipe { width: Width::Bits128, signature: Some(shape), k, ..features };
        all.push(named(recipe.name, recipe.summary, signed));
    }
    all.push(named(
        "noisy",
        "For dedupe: copies with wrong letters, as of scanned pages and typing, in any language. Features: \
         every five adjacent letters, or about three of Chinese and Japanese, without spaces; 255 minima, 85 \
         bands of 3. Texts that may be similar are aligned: three fifths of their letters must be the same \
         ones in the same order.",
        noisy(),
    ));
    all.push(named(
        "longest-sentences",
        "The three longest sentences, the method of early news searches: texts are similar if they share two \
         of them. Finds reprints that drop or move sentences without changing them. Does not find copies \
         that are edited throughout. Sentences of many texts are not compared.",
        longest_three(),
    ));
    all.push(named(
        "longest-sentences-md5",
        "The three longest sentences as one hash, as search engines are said to do it: texts are equal or \
         not. Any change in these sentences makes another hash.",
        longest_three_as_one(),
    ));
    all.extend(Width::ALL.map(supplied));
    all.extend(of_images());
    all
}

/// The profile of hashes of this width that the client makes. Its k is the same share of the bits as the 31
/// of 256 that the authors of PDQ recommend.
fn supplied(width: Width) -> Profile {
    let bits = width.bits();
    let summary = format!(
        "Hashes of {bits} bits that the client makes: perceptual hashes of images and videos such as PDQ \
         (256 bits), binary embeddings, hashes of other programs. Takes no texts."
    );
    let recipe =
        Recipe { preparation: Preparation::Nothing, ..recipe(width, bits / 8 - 1, Features::Supplied) };
    named(&format!("hashes-{bits}"), &summary, recipe)
}

fn of_images() -> [Profile; 2] {
    let of = |name, summary, width, k| {
        let recipe = Recipe { preparation: Preparation::Nothing, ..recipe(width, k, Features::Images) };
        named(name, summary, recipe)
    };
    let pdq = "Images: PDQ, 256 bits. Finds copies that were compressed, scaled, recoloured or slightly \
               cropped. Flat images are short. Takes JPEG, PNG, WebP and GIF, and no texts.";
    let phash = "Images: the 64 lowest frequencies of a cosine transform. Takes a quarter of the memory of \
                 pdq, and finds more unlike images. Takes JPEG, PNG, WebP and GIF, and no texts.";
    [of("pdq", pdq, Width::Bits256, 31), of("phash-64", phash, Width::Bits64, 8)]
}

fn simhashes() -> Vec<Profile> {
    vec![
        named(
            "copies-64",
            "Finds copies and edited copies in any language, fast. Features: words and pairs of words in \
             Chinese and Japanese, pairs of letter clusters in Thai and related scripts, elsewhere \
             5-character grams from every third letter of a word. Weight 1 + ln count, 64 bits.",
            shingled(Width::Bits64, 7, ShinglePlan::COPIES_64),
        ),
        named(
            "copies-128",
            "Like copies-64 with 128 bits and the full weight for words of one character: finds more \
             heavily edited copies at the same precision, for three to four times the memory.",
            shingled(Width::Bits128, 23, ShinglePlan::COPIES_128),
        ),
        named(
            "short-128",
            "For texts of 8 to 50 words in any language: messages, headlines, reviews. Features: words and \
             pairs of words, elsewhere syllables or adjacent characters, so that one changed word moves \
             about as many bits in every script. Each feature counts once, 128 bits. k depends on the text, \
             23 to 31, unless it is given.",
            short_128(),
        ),
        named(
            "code-128",
            "Finds copies of source code whose comments, identifiers and line breaks were changed. Features: \
             ten adjacent tokens without comments, identifiers in one form. Weight 1 + ln count, 128 bits. \
             Not for prose.",
            code_128(),
        ),
        named(
            "pairs-64",
            "Pairs of adjacent words, 64 bits: fills an index most evenly, and finds less than copies-64 at \
             the same k. Its features are suited to a second check and to MinHash.",
            pairs(),
        ),
        named(
            "shingles-64",
            "Words and pairs of words in Chinese and Japanese, three letter clusters in Thai and related \
             scripts, elsewhere 8-character grams from every third letter of a word, 64 bits. Its \
             features are suited best to MinHash, with one threshold for all languages.",
            shingled(Width::Bits64, 7, ShinglePlan::SETS),
        ),
        named(
            "keywords-zh",
            "The classic recipe for Chinese: the 20 words with the greatest TF-IDF. It finds texts on the \
             same topic and not copies: many of its hits are independent texts about the same thing.",
            keywords_zh(),
        ),
        named(
            "cppjieba",
            "The hash of yanyiwu/simhash: the 20 keywords of cppjieba, hashed by lookup3. For comparison \
             with hashes of that program. Like every keyword recipe it finds topics and not copies.",
            cppjieba(20),
        ),
        named(
            "fnv-zh",
            "A common recipe of services for Chinese: every word of two characters or more that is no stop \
             word, weighted by TF-IDF and hashed by FNV-1a over UTF-16 units. It finds topics rather than \
             copies.",
            fnv_zh(),
        ),
        named(
            "shingle-md5-128",
            "Every three adjacent characters in lower case, each distinct gram once, hashed by MD5, 128 \
             bits. Other programs can compute it easily. It ignores words and the counts of features.",
            shingle_md5_128(),
        ),
        named(
            "python-simhash",
            "The default hash of the Python package simhash: four adjacent letters with their counts, hashed \
             by MD5, 64 bits. For comparison with hashes of that package.",
            python_simhash(),
        ),
    ]
}

fn named(name: &str, summary: &str, recipe: Recipe) -> Profile {
    Profile { id: ProfileId::new(name, 1, None), summary: summary.to_owned(), recipe }
}

/// A recipe with the values that most profiles share.
fn recipe(width: Width, k: u32, features: Features) -> Recipe {
    Recipe {
        preparation: Preparation::Folded,
        features,
        dictionary: None,
        weights: Weights::Logarithm,
        hash: HashFunction::Xxh3,
        tie: Tie::Smallest,
        width,
        signature: None,
        k,
        alignment: None,
        least_k: None,
    }
}

fn shingled(width: Width, k: u32, plan: ShinglePlan) -> Recipe {
    recipe(width, k, Features::Shingles(plan))
}

/// A feature counts once, or a word that is repeated, such as a name in a message, decides the hash.
fn short_128() -> Recipe {
    Recipe { weights: Weights::One, least_k: Some(23), ..recipe(Width::Bits128, 30, Features::ShortTexts) }
}

fn code_128() -> Recipe {
    Recipe { preparation: Preparation::Nothing, ..recipe(Width::Bits128, 23, Features::Code(CodePlan::BITS)) }
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
    recipe(Width::Bits64, 9, Features::Words(plan))
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
        preparation: Preparation::Normalise,
        weights: Weights::TfIdf { idf: IdfChoice::BuiltIn, top: Top::First(20) },
        ..recipe(Width::Bits64, 3, words(Cutter::Guess, StopWords::built_in(), true))
    }
}

/// The recipe with `top` keywords. The profile has 20; the golden values use other numbers, too.
pub(super) fn cppjieba(top: usize) -> Recipe {
    Recipe {
        preparation: Preparation::Nothing,
        weights: Weights::TfIdf { idf: IdfChoice::BuiltInWords, top: Top::First(top) },
        hash: HashFunction::Lookup3,
        tie: Tie::Zero,
        ..recipe(Width::Bits64, 3, words(Cutter::Cppjieba, StopWords::cppjieba(), false))
    }
}

fn fnv_zh() -> Recipe {
    Recipe {
        preparation: Preparation::Normalise,
        weights: Weights::TfIdf { idf: IdfChoice::BuiltInWords, top: Top::All },
        hash: HashFunction::Fnv1aUtf16,
        tie: Tie::One,
        ..recipe(Width::Bits64, 3, words(Cutter::Guess, StopWords::cppjieba(), false))
    }
}

fn shingle_md5_128() -> Recipe {
    Recipe {
        preparation: Preparation::LowerCase,
        weights: Weights::One,
        hash: HashFunction::Md5,
        tie: Tie::One,
        ..recipe(Width::Bits128, 15, Features::Characters { length: 3, takes_short: false })
    }
}

/// With k = 1, two texts are similar if at most one of the three cells differs, so they share two sentences.
/// Many different texts share one, such as a standing phrase (ADR 24).
fn longest_three() -> Recipe {
    let shape = SignatureShape { cells: 3, cell_bytes: 8, bands: 3, rows: 1, is_set: true };
    Recipe {
        preparation: Preparation::Normalise,
        weights: Weights::One,
        signature: Some(shape),
        ..recipe(Width::Bits128, 1, Features::Sentences { count: 3, as_one: false })
    }
}

/// The hash of a single feature is its digest.
fn longest_three_as_one() -> Recipe {
    Recipe {
        preparation: Preparation::Normalise,
        weights: Weights::One,
        hash: HashFunction::Md5,
        ..recipe(Width::Bits128, 0, Features::Sentences { count: 3, as_one: true })
    }
}

/// Unlike texts have up to a tenth of their sets of letters in common and at most four tenths of their
/// letters in one order; copies with every eighth letter wrong have a fifth, and eight tenths.
fn noisy() -> Recipe {
    let shape = SignatureShape { cells: 255, cell_bytes: 1, bands: 85, rows: 3, is_set: false };
    Recipe {
        weights: Weights::One,
        signature: Some(shape),
        alignment: Some(0.6),
        ..recipe(Width::Bits128, shape.distance_for(0.15), Features::Letters(5))
    }
}

fn python_simhash() -> Recipe {
    Recipe {
        preparation: Preparation::WordCharacters,
        weights: Weights::Count,
        hash: HashFunction::Md5,
        tie: Tie::Zero,
        ..recipe(Width::Bits64, 3, Features::Characters { length: 4, takes_short: true })
    }
}
