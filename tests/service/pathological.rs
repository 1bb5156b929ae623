//! Texts of 1 MiB and pages of 1 and 4 MiB that are constructed to be slow. No profile takes more than one
//! and a half seconds of processor time for one of them; a comparison takes at most that for each side. An
//! AMD EPYC of the Milan family takes 1.1 s for the slowest page.
//!
//! The tests measure thread time, so that they do not fail on a busy machine. `--nocapture` prints the
//! slowest inputs, and `LOOKALIKE_TEST_PATHOLOGICAL=1` uses all built-in profiles instead of one of each
//! kind.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lookalike_run::machine::thread_time;
use lookalike_text::fingerprint::Profile;
use lookalike_text::main_text;
use serde_json::json;

use crate::inputs::{self, Inputs};
use crate::server::{Server, directory};

/// The default of `limits.document_bytes`.
const INPUTS: Inputs = Inputs { bytes: 1 << 20 };
/// The default of `limits.page_bytes`.
const PAGES: Inputs = Inputs { bytes: 4 << 20 };
const LIMIT: Duration = Duration::from_millis(1_500);
/// One profile for each code path: the most expensive one of its kind.
const TEXT_PROFILES: [&str; 14] = [
    "every-letter-64",
    "every-letter-128",
    "copies-64",
    "code-128",
    "minhash-code",
    "noisy",
    "short-128",
    "pairs-64",
    "cppjieba",
    "fnv-zh",
    "shingle-md5-128",
    "python-simhash",
    "every-letter-sets",
    "longest-sentences",
];
/// The profiles with the most features, which have the longest explanations.
const EXPLAINED_PROFILES: [&str; 2] = ["every-letter-sets", "shingle-md5-128"];
/// The slowest profiles for the main texts of pages; the other profiles are covered by `TEXT_PROFILES`.
const PAGE_PROFILES: [&str; 3] = ["copies-64", "every-letter-128", "shingle-md5-128"];

/// The processor time of one case.
struct Timing {
    time: Duration,
    name: String,
}

/// Runs the cases on all processors. Returns the thread time of each, slowest first.
fn measure<T: Sync>(cases: &[T], run: impl Fn(&T) -> Vec<Timing> + Sync) -> Vec<Timing> {
    let (next, timings) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    timings.lock().unwrap().extend(run(case));
                }
            });
        }
    });
    let mut timings = timings.into_inner().unwrap();
    timings.sort_by_key(|timing| std::cmp::Reverse(timing.time));
    timings
}

fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let before = thread_time();
    let result = work();
    (thread_time().saturating_sub(before), result)
}

/// Prints the ten slowest cases and panics if one exceeds the limit.
fn check(what: &str, timings: &[Timing]) {
    println!("{what}: {} measured", timings.len());
    timings.iter().take(10).for_each(|timing| println!("{:>6} ms  {}", timing.time.as_millis(), timing.name));
    let slow = timings.iter().filter(|timing| timing.time > LIMIT).count();
    assert_eq!(slow, 0, "of {what} took more than {LIMIT:?}; the slowest: {}", timings[0].name);
}

/// The time of the slowest of these profiles, plus `before`.
fn slowest(name: &str, before: Duration, profiles: &[&str], work: impl Fn(&Profile)) -> Vec<Timing> {
    let known = inputs::profiles();
    let profiles = known.iter().filter(|profile| is_one_of(profile, profiles));
    let timings = profiles.map(|profile| (before + time(|| work(profile)).0, profile.id().to_string()));
    let slowest = timings.max();
    slowest.map(|(time, profile)| Timing { time, name: format!("{name}, {profile}") }).into_iter().collect()
}

fn is_one_of(profile: &Profile, names: &[&str]) -> bool {
    std::env::var_os("LOOKALIKE_TEST_PATHOLOGICAL").is_some() || names.contains(&profile.id().name())
}

/// Loads the dictionaries and tables, which would otherwise count for the first text of the process.
fn warm_up() {
    for profile in Profile::all() {
        profile.sign("臺灣的。word ภาษา。東京へ行く");
    }
}

#[test]
fn pathological_pages_take_no_longer_than_others() {
    warm_up();
    for inputs in [INPUTS, PAGES] {
        let timings = measure(&inputs.pages(), |(name, page)| {
            let (of_page, text) = time(|| main_text(page));
            let name = format!("{name} ({} ms alone)", of_page.as_millis());
            // A longer text is refused.
            let text = if text.len() <= INPUTS.bytes { &*text } else { "" };
            slowest(&name, of_page, &PAGE_PROFILES, |profile| drop(profile.sign(text)))
        });
        check(&format!("pages of {} bytes", inputs.bytes), &timings);
    }
}

#[test]
fn pathological_texts_take_no_longer_than_others() {
    warm_up();
    let timings = measure(&INPUTS.texts(), |(name, text)| {
        slowest(name, Duration::ZERO, &TEXT_PROFILES, |profile| drop(profile.sign(text)))
    });
    check("texts", &timings);
}

#[test]
fn pathological_texts_are_explained_in_time() {
    warm_up();
    let timings = measure(&INPUTS.texts(), |(name, text)| {
        slowest(name, Duration::ZERO, &EXPLAINED_PROFILES, |profile| drop(profile.explain(text)))
    });
    check("explanations", &timings);
}

/// The processor time that a server has used on all processors. The system counts it in units of 10 ms.
fn processor_time(server: &Server) -> Duration {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
    let fields = status.rsplit_once(')').unwrap().1.split_whitespace();
    Duration::from_millis(fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum())
}

/// `/compare` reads two texts and so may take one second for each. The word-by-word comparison takes most
/// time for texts of few different words, and for as many words as are compared without being divided.
#[tokio::test]
async fn pathological_requests_are_answered_in_time() {
    let data = directory();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_LIMITS__QUERY_MS", "60000")]).await;
    let different = |name: char| INPUTS.numbered("", |n| format!("{name}{n:07x} "));
    let few_words = |seed: u64| {
        fastrand::seed(seed);
        (0..4_000).map(|_| format!("{}{} ", "x".repeat(250), fastrand::u8(..16))).collect::<String>()
    };
    let two_words = |seed: u64| {
        fastrand::seed(seed);
        (0..INPUTS.bytes / 2).map(|_| ["a ", "b "][fastrand::usize(..2)]).collect::<String>()
    };
    let pages = INPUTS.pages();
    let page = |wanted: &str| pages.iter().find(|(name, _)| *name == wanted).unwrap().1.clone();
    let compare = |sides: [String; 2], kind: &str, profile: &str| {
        let [a, b] = sides;
        ("/compare", json!({"a": {kind: a}, "b": {kind: b}, "profile": profile}))
    };
    let requests = [
        ("warming up", compare(["a b".into(), "b c 臺灣".into()], "text", "minhash-copies")),
        ("texts with all features different", compare(['u', 'v'].map(different), "text", "minhash-copies")),
        ("texts with all votes different", compare(['u', 'v'].map(different), "text", "shingles-64")),
        ("texts of as many words as are not divided", compare([1, 2].map(few_words), "text", "copies-64")),
        ("texts of two words", compare([1, 2].map(two_words), "text", "copies-64")),
        ("pages", compare(["paragraphs in nested blocks", "cells"].map(page), "html", "copies-128@1")),
        (
            "an explanation",
            ("/fingerprint", json!({"text": different('u'), "profile": "shingles-64", "explain": true})),
        ),
    ];
    let mut timings = Vec::new();
    for (name, (path, body)) in requests {
        let before = processor_time(&server);
        let request = server.client.post(format!("{}{path}", server.url)).json(&body);
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{name}: {}", answer.text().await.unwrap());
        let bytes = answer.bytes().await.unwrap().len();
        // Both texts may be in the answer, as removed and added.
        assert!(bytes < 3 * INPUTS.bytes, "{name}: {bytes} bytes");
        let time = processor_time(&server).saturating_sub(before);
        println!("{:>6} ms, {bytes} bytes: {name}", time.as_millis());
        timings.push((time, name));
    }
    assert!(timings[1..].iter().all(|(time, _)| *time <= 2 * LIMIT), "{timings:?}");
}
