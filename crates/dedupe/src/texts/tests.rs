//! Deduplication of texts against its definition: a quadratic loop over their hashes.

use super::*;
use crate::{FeatureSet, Keep};
use lookalike_hash::Hash;

/// Texts of a few subjects in two languages, many of them copies with a changed word.
pub(crate) fn texts(count: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(7);
    let of_english = ["ferry", "library", "harbour", "festival"];
    let subjects = [of_english, ["地铁线路", "图书馆", "读者", "周末"]].concat();
    let mut made: Vec<String> = Vec::new();
    for number in 0..count {
        let earlier = (number > 0 && random.u8(..3) == 0).then(|| made[random.usize(..number)].clone());
        made.push(match earlier {
            Some(earlier) if random.bool() => earlier,
            Some(earlier) => {
                format!("{earlier} {}", random.choice(subjects.iter().copied()).unwrap_or_default())
            }
            None if random.u8(..20) == 0 => "。".to_owned(),
            None => (0..40)
                .map(|_| {
                    format!(
                        "{}{} ",
                        random.choice(subjects.iter().copied()).unwrap_or_default(),
                        random.u8(..)
                    )
                })
                .collect(),
        });
    }
    made
}

/// The definition: texts are visited in an order, and each is kept unless a kept one is within k.
fn expected(texts: &[&str], order: &[usize], k: u32) -> (Vec<u32>, Vec<(u32, u32, u32)>) {
    let profile = Profile::named("copies-64").unwrap();
    let made: Vec<_> = texts.iter().map(|text| profile.fingerprint(text)).collect();
    let (mut kept, mut compared, mut dropped): (Vec<u32>, Vec<(u32, Hash)>, _) = (vec![], vec![], vec![]);
    for number in order {
        let own = made[*number];
        let near = compared.iter().map(|(by, hash)| (own.hash.distance(*hash).unwrap(), *by)).min();
        let number = *number as u32;
        if let Some((distance, by)) = near.filter(|near| near.0 <= k && own.status != Status::Empty) {
            dropped.push((number, by, distance));
            continue;
        }
        kept.push(number);
        compared.extend((own.status != Status::Empty).then_some((number, own.hash)));
    }
    kept.sort_unstable();
    dropped.sort_unstable();
    (kept, dropped)
}

fn found(result: &Deduped) -> (Vec<u32>, Vec<(u32, u32, u32)>) {
    (result.kept.clone(), result.dropped.iter().map(|own| (own.number, own.by, own.distance)).collect())
}

#[test]
fn texts_are_kept_as_the_definition_says_for_any_number_of_threads() {
    let texts = texts(600);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let in_order: Vec<usize> = (0..texts.len()).collect();
    let mut longest = in_order.clone();
    longest.sort_by_key(|number| std::cmp::Reverse(texts[*number].chars().count()));
    let keep: Keep = "longest".parse().unwrap();
    let keys: Vec<u64> = texts.iter().map(|text| keep.key(None, text).unwrap()).collect();
    for threads in [1, 2, 5] {
        for k in [0, 3, 9] {
            let options = Options {
                profile: Profile::named("copies-64").unwrap(),
                radius: Radius::Distance(k),
                threads,
                ..Options::default()
            };
            let run = |keys: &[u64]| dedupe(&texts, keys, &options, &Watch::default()).unwrap();
            let (first, best) = (run(&[]), run(&keys));
            assert!(first.dropped.len() > 50 && first.without_features > 0);
            assert!(first.dropped.iter().any(|own| own.is_exact));
            assert!(first.dropped.iter().all(|own| !own.is_exact || own.distance == 0));
            assert_eq!(found(&first), expected(&texts, &in_order, k));
            assert_eq!(found(&best), expected(&texts, &longest, k));
        }
    }
}

/// The estimates of copies near the limit are wrong half of the time.
#[test]
fn no_text_is_dropped_below_the_stated_similarity() {
    let mut random = fastrand::Rng::with_seed(45);
    let mut words = |count: usize| -> Vec<String> {
        (0..count).map(|_| format!("{:x}", random.u32(1_000..1_000_000))).collect()
    };
    let mut texts: Vec<String> = Vec::new();
    for _ in 0..60 {
        let original = words(60);
        texts.push(original.join(" "));
        for place in 34..46 {
            texts.push([&original[..place], &words(60 - place)].concat().join(" "));
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let profile = Options::default().profile;
    let below = |radius: Radius| {
        let options = Options { radius, weights: Weights::None, ..Options::default() };
        let dropped = dedupe(&texts, &[], &options, &Watch::default()).unwrap().dropped;
        let similarity = |own: &Dropped| {
            let [a, b] =
                [own.number, own.by].map(|number| FeatureSet::of(profile, None, texts[number as usize]));
            a.overlap(&b).similarity
        };
        assert!(dropped.len() > 100, "{}", dropped.len());
        dropped.iter().filter(|own| similarity(own) < 0.5).count()
    };
    assert!(below(Radius::Distance(profile.default_k())) > 10);
    assert_eq!((below(Radius::OfProfile), below(Radius::Similarity(0.5))), (0, 0));
}

#[test]
fn learned_weights_are_the_same_for_any_number_of_threads() {
    let texts = texts(1_500);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let run = |threads, groups, is_central| {
        let options = Options { threads, groups, is_central, check: Some(0.2), ..Options::default() };
        dedupe(&texts, &[], &options, &Watch::default()).unwrap()
    };
    let one = run(1, Groups::Greedy, false);
    let table = one.weights.as_ref().unwrap();
    assert!(table.documents() > Lesson::LEAST && !one.dropped.is_empty());
    assert_eq!(one.k, Options::default().profile.weighted_k());
    assert!(one.dropped.iter().all(|own| own.similarity.is_some_and(|share| (0.0..=1.0).contains(&share))));
    for (groups, is_central) in [(Groups::Greedy, false), (Groups::Linked, false), (Groups::Greedy, true)] {
        let [one, three] = [1, 3].map(|threads| run(threads, groups, is_central));
        assert_eq!(one.weights.as_ref().unwrap().digest(), three.weights.as_ref().unwrap().digest());
        assert_eq!((one.kept, one.dropped), (three.kept, three.dropped));
    }
    let given =
        Options { weights: Weights::Table(Arc::clone(table)), check: Some(0.2), ..Options::default() };
    let again = dedupe(&texts, &[], &given, &Watch::default()).unwrap();
    assert_eq!((again.kept, again.dropped), (one.kept, one.dropped));
}

#[test]
fn options_that_do_not_suit_are_refused() {
    let error =
        |options: Options| dedupe(&["text"], &[], &options, &Watch::default()).unwrap_err().to_string();
    let of = |name: &str| Options { profile: Profile::named(name).unwrap(), ..Options::default() };
    assert!(error(Options { weights: Weights::Learned, ..Options::default() }).contains("at least 100"));
    assert!(error(Options { weights: Weights::Learned, ..of("copies-64") }).contains("minhash-copies"));
    assert!(error(Options { check: Some(2.0), ..Options::default() }).contains("0 to 1"));
    assert!(error(Options { radius: Radius::Distance(129), ..of("copies-128") }).contains("128"));
    assert!(error(of("hashes-64")).contains("takes no text"));
    let watch = Watch::default();
    watch.stop();
    let stopped = dedupe(&["text"], &[], &Options::default(), &watch).unwrap_err();
    assert!(matches!(stopped, DedupeError::Stopped(Stopped)));
}

/// A text with wrong letters, `share` of all: replaced, left out, or with another one after them.
fn with_wrong_letters(text: &str, share: f64, random: &mut fastrand::Rng) -> String {
    let others: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
    let other = |c: char, random: &mut fastrand::Rng| match random.u8(..6) {
        0 => vec![],
        1 => vec![c, others[random.usize(..others.len())]],
        _ => vec![others[random.usize(..others.len())]],
    };
    text.chars().flat_map(|c| if random.f64() < share { other(c, random) } else { vec![c] }).collect()
}

#[test]
fn copies_with_wrong_letters_are_found_and_nothing_else() {
    let mut random = fastrand::Rng::with_seed(11);
    let word = |alphabet: &[char], random: &mut fastrand::Rng| -> String {
        let length = random.usize(2..9);
        (0..length).map(|_| alphabet[random.usize(..alphabet.len())]).collect()
    };
    let alphabets: [Vec<char>; 2] = [('a'..='z').collect(), ('一'..='乿').collect()];
    let mut texts: Vec<String> = Vec::new();
    for alphabet in &alphabets {
        // Unlike texts have their words in common, and not the order of them.
        let words: Vec<String> = (0..300).map(|_| word(alphabet, &mut random)).collect();
        let text = |random: &mut fastrand::Rng| -> String {
            (0..120).map(|_| format!("{} ", words[random.usize(..words.len())])).collect()
        };
        texts.extend((0..150).map(|_| text(&mut random)));
    }
    let originals = texts.len();
    let copies: Vec<String> = texts.iter().map(|text| with_wrong_letters(text, 0.08, &mut random)).collect();
    texts.extend(copies);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let profile = Profile::named("noisy").unwrap();
    for threads in [1, 3] {
        let options = Options { profile, threads, ..Options::default() };
        let result = dedupe(&texts, &[], &options, &Watch::default()).unwrap();
        for own in &result.dropped {
            assert_eq!(own.number as usize, own.by as usize + originals);
        }
        assert!(result.dropped.len() >= originals * 97 / 100, "{}", result.dropped.len());
        let strict = Options { radius: Radius::Similarity(0.99), ..options };
        assert_eq!(dedupe(&texts, &[], &strict, &Watch::default()).unwrap().dropped.len(), 0);
    }
}

#[test]
fn what_is_contained_is_told_as_a_count_of_features_tells() {
    let texts = texts(300);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for name in ["minhash-copies", "copies-64"] {
        let profile = Profile::named(name).unwrap();
        let options = Options { profile, is_contained_told: true, threads: 2, ..Options::default() };
        let result = dedupe(&texts, &[], &options, &Watch::default()).unwrap();
        assert!(result.dropped.iter().any(|own| own.contained < Some(1.0)));
        for own in &result.dropped {
            let [a, b] = [own.number, own.by].map(|number| profile.feature_set(texts[number as usize]));
            let shared = a.iter().filter(|feature| b.contains(feature)).count();
            assert_eq!(own.contained, Some(shared as f64 / a.len() as f64));
        }
    }
}
