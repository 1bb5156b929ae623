//! Tests of the file of users' profiles.

use super::*;

fn loaded(text: &str) -> Result<Profiles, String> {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("words.txt", "江大桥\n"),
        ("other.txt", "江大桥 5\n"),
        ("stop.txt", "的\n"),
        ("bad-words.txt", "a b\n"),
        ("bad-idf.txt", "x\n"),
    ];
    for (name, contents) in files {
        fs::write(dir.path().join(name), contents).unwrap();
    }
    let path = dir.path().join("profiles.toml");
    fs::write(&path, text).unwrap();
    load(Some(&path)).map_err(|error| error.to_string())
}

/// The profile `own` with these keys.
fn own(like: &str, keys: &str) -> Result<&'static Profile, String> {
    let profiles = loaded(&format!("[own]\nlike = \"{like}\"\n{keys}\n"))?;
    Ok(profiles.named("own").unwrap())
}

#[test]
fn a_file_defines_profiles() {
    let profiles = loaded(
        "[house]\nlike = \"copies-64\"\nk = 5\nuser_dictionary = \"words.txt\"\n\
         [pairs]\nwords = [2, 2]\nfeatures = \"words\"\nhash = \"md5\"\nbits = 128\nversion = 3\n\
         summary = \"x\"\n",
    )
    .unwrap();
    let house = profiles.named("house").unwrap();
    assert_eq!((house.default_k(), house.width().bits()), (5, 64));
    let explained = house.explain("江大桥讲话。");
    assert!(explained.features.iter().any(|feature| feature.text == "江大桥"));
    let pairs = profiles.named("pairs@3").unwrap();
    assert_eq!(pairs.explain("a b c").features.len(), 2);
    assert_eq!(pairs.summary(), "x");
}

#[test]
fn a_definition_without_keys_equals_its_base_profile() {
    for like in Profile::all() {
        let own = own(&like.id().to_string(), "").unwrap();
        for text in ["臺灣的電腦軟體", "Fish and chips is served hot.", ""] {
            assert_eq!(own.fingerprint(text), like.fingerprint(text));
        }
    }
}

#[test]
fn the_digest_distinguishes_recipes_and_nothing_else() {
    let like = |like: &str, keys: &str| own(like, keys).unwrap().id().to_string();
    let id = |keys: &str| like("copies-64", keys);
    let plain = id("");
    assert_eq!(plain, "own@1+254c612cadcd1d01", "the canonical form must not change");
    assert_eq!(like("shingles-64", "gram = 5"), plain);
    assert_eq!(like("pairs-64", "features = \"shingles\""), plain);
    assert_eq!(id("summary = \"x\"\nk = 5\ngram = 5"), plain);
    let others = [
        id("gram = 4"),
        id("gram_step = 2"),
        id("gram_weight = 90"),
        id("half = \"nothing\""),
        id("hash = \"md5\""),
        id("tie = \"zero\""),
        id("bits = 128"),
        id("user_dictionary = \"words.txt\""),
        id("user_dictionary = \"other.txt\""),
        id("features = \"words\""),
        id("features = \"words\"\nstop_words = \"stop.txt\""),
        plain,
    ];
    let distinct: std::collections::HashSet<_> = others.iter().collect();
    assert_eq!(distinct.len(), others.len());
}

#[test]
fn top_is_a_number_or_follows_the_length() {
    let text: String = (0..400).map(|n| format!("word{n} ")).collect();
    let count = |top: &str, text: &str| {
        own("cppjieba", &format!("top = {top}")).unwrap().explain(text).features.len()
    };
    assert_eq!([count("0", &text), count("7", &text), count("\"auto\"", &text)], [400, 7, 25]);
    assert_eq!([count("\"auto\"", &text[..700]), count("\"auto\"", &text.repeat(9))], [5, 200]);
    assert_ne!(own("cppjieba", "top = \"auto\"").unwrap().id(), own("cppjieba", "").unwrap().id());
}

#[test]
fn cells_bands_and_rows_shape_a_signature() {
    let shape = |keys: &str| {
        let profile = own("minhash", keys).unwrap();
        let shape = profile.signatures().unwrap();
        (
            shape.cells,
            shape.bands,
            shape.rows,
            profile.default_k(),
            profile.sign("abcdef").signature.unwrap().len(),
        )
    };
    assert_eq!(shape(""), (128, 16, 8, 25, 128));
    assert_eq!(shape("bands = 10\nrows = 10"), (100, 10, 10, 19, 100));
    assert_eq!(shape("bands = 10\nrows = 10\ncells = 120\nk = 30"), (120, 10, 10, 30, 120));
}

#[test]
fn errors_name_the_fault() {
    let cases = [
        ("house = 1", "expected a table of keys: write each profile as [name]"),
        ("[house", "line 1: "),
        ("[house]\nlike = 5", "expected a string"),
        ("[house]\nk = \"7\"", "string \"7\", expected a number from 0 to 255"),
        ("[house]\nk = 256", "integer `256`, expected a number from 0 to 255"),
        ("[house]\nuser_dictionary = 1", "expected a string"),
        ("[house]\nidf = 1979-05-27", "expected a string"),
        ("[house]\nstop_words = 1.5", "expected a string"),
        ("[house]\nhash = true", "expected one of"),
        ("[house]\nsummary = true", "boolean `true`, expected a string"),
        ("[house]\nsummary = [1, 2, 3]", "expected a string"),
        ("[house]\ncolour = 1.5", "unknown field `colour`, expected one of `like`, `version`"),
        ("[house]\ngram_step = 0", "expected a number from 1 to 16"),
        ("[house]\nhalf = \"words\"", "one of \"single-characters\", \"nothing\""),
        ("[house]\nhash = \"crc\"", "expected one of \"xxh3\""),
        ("[house]\nbits = 96", "expected 64, 128 or 256"),
        ("[house]\nbits = 256", "like = \"hashes-256\""),
        ("[house]\nlike = \"hashes-256\"\nfeatures = \"words\"", "bits takes 64 or 128"),
        ("[house]\nwords = [2, 1]", "two numbers from 1 to 16"),
        ("[house]\nwords = [1, 2, 3]", "two numbers from 1 to 16"),
        ("[house]\nlike = \"x\"", "profile house: like: there is no built-in profile \"x\""),
        ("[Copies]\n", "profile Copies: a profile cannot be called"),
        ("[copies-64]\n", "not that of another profile"),
        ("[house]\nlike = \"copies-64\"\nk = 65", "profile house: k takes 0 to 64"),
        ("[house]\nuser_dictionary = \"none.txt\"", "none.txt: No such file"),
        (
            "[house]\nlike = \"pairs-64\"\ngram_step = 2",
            "gram_step is valid only with features = \"shingles\"",
        ),
        ("[house]\nlike = \"copies-128\"\nhash = \"lookup3\"", "bits takes 64 with this hash"),
        ("[house]\ntop = 5", "top is valid only with weights"),
        ("[house]\ntop = \"all\"", "a number from 0 to 1048576, or \"auto\""),
        ("[house]\ntop = -1", "a number from 0 to 1048576, or \"auto\""),
        ("[house]\nidf = \"built-in\"", "idf is valid only with weights"),
        ("[house]\nwords = [1, 2]", "words is valid only with features"),
        ("[house]\nlike = \"fnv-zh\"\nwords = [1, 2]", "only with features = \"words\" and words"),
        ("[house]\nbands = 10", "bands is valid only with like = \"minhash\""),
        ("[house]\nlike = \"longest-sentences\"\ncells = 2", "cells is valid only with like = \"minhash\""),
        ("[house]\nlike = \"minhash\"\nbands = 32", "bands × rows takes 1 to 255"),
        ("[house]\nlike = \"minhash\"\nbands = 10\nrows = 10\ncells = 99", "bands × rows takes 1 to 255"),
        ("[house]\nlike = \"minhash\"\nk = 129", "k takes 0 to 128"),
        ("[house]\nweights = \"tf-idf\"", "only with features = \"words\""),
        ("[house]\nlike = \"fnv-zh\"\nidf = \"bad-idf.txt\"", "line 1 of the idf table"),
        ("[house]\nuser_dictionary = \"bad-words.txt\"", "line 1 of the dictionary"),
    ];
    for (text, expected) in cases {
        let error = loaded(text).unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("profiles.toml") || error.contains("none.txt"), "{error}");
    }
}

#[test]
fn a_changed_definition_is_detected() {
    let [old, new] = ["xxh3", "md5"].map(|hash| loaded(&format!("[own]\nhash = \"{hash}\"")).unwrap());
    let stored = old.named("own").unwrap().id().to_string();
    assert!(new.named(&stored).is_none() && new.changed(&stored).is_some());
    assert!(new.named("own").is_some() && new.named("own@1").is_some());
    assert!(new.changed(&new.named("own").unwrap().id().to_string()).is_none());
    assert!(new.changed("gone@1+00").is_some_and(|now| now == "none"));
}
