//! Tests of definitions.

use super::*;

fn named(name: &str) -> Value {
    Value::Text(name.to_owned())
}

fn define(name: &str, like: &str, keys: &[(&str, Value)]) -> Result<Profile, DefinitionError> {
    let mut definition = Definition::new(name, Some(like))?;
    let mut keys = keys.to_vec();
    keys.sort_by_key(|(key, _)| Definition::order(key));
    for (key, value) in keys {
        definition.set(key, value)?;
    }
    definition.finish()
}

#[test]
fn a_definition_without_keys_equals_its_base_profile() {
    for like in Profile::all() {
        let own = define("own", &like.id().to_string(), &[]).unwrap();
        for text in ["臺灣的電腦軟體", "Fish and chips is served hot.", ""] {
            assert_eq!(own.fingerprint(text), like.fingerprint(text));
        }
    }
}

#[test]
fn the_digest_distinguishes_recipes_and_nothing_else() {
    let like = |like: &str, keys: &[(&str, Value)]| define("own", like, keys).unwrap().id().to_string();
    let id = |keys: &[(&str, Value)]| like("copies-64", keys);
    let plain = id(&[]);
    assert_eq!(like("copies-64@2", &[]), "own@1+c04560130339cb7b", "the canonical form must not change");
    assert_eq!(plain, "own@1+533b960c67bd49d2", "the canonical form must not change");
    assert_eq!(like("shingles-64@2", &[("gram", Value::Number(5))]), plain);
    let older = [
        ("gram_step", Value::Number(1)),
        ("gram_share", Value::Number(100)),
        ("name_bytes", Value::Number(256)),
        ("half", named("grams")),
    ];
    assert_eq!(id(&older), like("copies-64@2", &[]));
    assert_eq!(like("pairs-64@1", &[("features", named("shingles"))]), like("copies-64@1", &[]));
    assert_eq!(id(&[("summary", named("x")), ("k", Value::Number(5)), ("gram", Value::Number(5))]), plain);
    let others = [
        id(&[("gram", Value::Number(4))]),
        id(&[("gram_step", Value::Number(2))]),
        id(&[("gram_share", Value::Number(90))]),
        id(&[("half", named("grams"))]),
        id(&[("name_bytes", Value::Number(9))]),
        id(&[("hash", named("md5"))]),
        id(&[("tie", named("zero"))]),
        id(&[("bits", Value::Number(128))]),
        id(&[("user_dictionary", Value::File("江大桥".into()))]),
        id(&[("user_dictionary", Value::File("江大桥 5".into()))]),
        id(&[("features", named("words"))]),
        id(&[("features", named("words")), ("stop_words", Value::File("的".into()))]),
        plain,
    ];
    let distinct: std::collections::HashSet<_> = others.iter().collect();
    assert_eq!(distinct.len(), others.len());
}

#[test]
fn other_features_have_the_default_bound_for_short_texts() {
    let bound = |keys: &[(&str, Value)]| define("own", "copies-64", keys).unwrap().min_features();
    let words = ("features", named("words"));
    assert_eq!((bound(&[]), bound(std::slice::from_ref(&words))), (12, 20));
    let step = |step| bound(&[("gram_step", Value::Number(step))]);
    assert_eq!((step(2), step(1)), (12, 20));
    assert_eq!(bound(&[words, ("min_features", Value::Number(5))]), 5);
}

#[test]
fn errors_name_the_fault() {
    type Case<'a> = (&'a str, &'a str, &'a [(&'a str, Value)], &'a str);
    let cases: &[Case<'_>] = &[
        ("No", "copies-64", &[], "cannot be called"),
        ("copies-64", "copies-64", &[], "not that of another profile"),
        ("own", "nothing", &[], "there is no built-in profile \"nothing\""),
        ("own", "copies-64", &[("colour", Value::Number(1))], "there is no key \"colour\""),
        ("own", "copies-64", &[("k", Value::Number(65))], "k takes 0 to 64"),
        ("own", "copies-64", &[("gram_step", Value::Number(0))], "gram_step takes a number from 1 to 16"),
        (
            "own",
            "copies-64",
            &[("half", named("words"))],
            "half takes one of \"grams\", \"single-characters\", \"nothing\"",
        ),
        (
            "own",
            "pairs-64",
            &[("gram_step", Value::Number(2))],
            "gram_step is valid only with features = \"shingles\"",
        ),
        ("own", "copies-64", &[("bits", Value::Number(96))], "bits takes 64 or 128"),
        ("own", "copies-128", &[("hash", named("lookup3"))], "bits takes 64 with this hash"),
        ("own", "copies-64", &[("hash", named("crc"))], "hash takes one of \"xxh3\""),
        ("own", "copies-64", &[("top", Value::Number(5))], "top is valid only with weights"),
        ("own", "copies-64", &[("words", Value::Span(1, 2))], "words is valid only with features"),
        ("own", "fnv-zh", &[("words", Value::Span(2, 1))], "words takes two numbers"),
        ("own", "fnv-zh", &[("words", Value::Span(1, 2))], "only with features = \"words\" and words"),
        ("own", "copies-64", &[("weights", named("tf-idf"))], "only with features = \"words\""),
        ("own", "fnv-zh", &[("idf", Value::File("x".into()))], "line 1 of the idf table"),
        ("own", "fnv-zh", &[("user_dictionary", Value::File("a b".into()))], "line 1 of the dictionary"),
    ];
    for (name, like, keys, expected) in cases {
        let error = define(name, like, keys).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_changed_definition_is_detected() {
    let [old, new] =
        ["xxh3", "md5"].map(|hash| define("own", "copies-64", &[("hash", named(hash))]).unwrap());
    let stored = old.id().to_string();
    let profiles = Profiles::with(vec![new]);
    assert!(profiles.named(&stored).is_none() && profiles.changed(&stored).is_some());
    assert!(profiles.named("own").is_some() && profiles.named("own@1").is_some());
    assert!(profiles.changed(&profiles.named("own").unwrap().id().to_string()).is_none());
    assert!(profiles.changed("gone@1+00").is_some_and(|now| now == "none"));
}
