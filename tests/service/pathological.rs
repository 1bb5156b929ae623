//! Texts and pages of 1 MiB that are made to be slow: no profile takes more than a second of a processor's time for one, and
//! neither does a comparison.
//!
//! Measured is the time of the thread, so that a busy machine does not fail the test. `--nocapture` prints the slowest, and
//! `LOOKALIKE_TEST_PATHOLOGICAL=1` takes all built-in profiles and not one of each kind.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lookalike::fingerprint::Profile;
use lookalike::machine::thread_time;
use lookalike::text::main_text;
use serde_json::json;

use crate::inputs::Inputs;
use crate::server::{Server, directory};

/// What `limits.document_bytes` allows by default.
const INPUTS: Inputs = Inputs { bytes: 1 << 20 };
const LIMIT: Duration = Duration::from_secs(1);
/// One profile for each way through the code, the one with the most work of its kind.
const KINDS: [&str; 10] = [
    "copies-64@1",
    "copies-128@1",
    "copies-64@3",
    "pairs-64@1",
    "cppjieba@1",
    "fnv-zh@1",
    "shingle-md5-128@1",
    "python-simhash@1",
    "minhash-copies@2",
    "longest-sentences@1",
];
/// Those with the most features, which make explanations long.
const EXPLAINED: [&str; 2] = ["minhash-copies@2", "shingle-md5-128@1"];
/// Those that take the longest for the texts of pages, which are texts like others.
const OF_PAGES: [&str; 3] = ["copies-64@3", "copies-128@1", "shingle-md5-128@1"];

/// What each case took.
struct Taken {
    time: Duration,
    name: String,
}

/// Does the cases on all processors and says what each took of the time of its thread.
fn measure<T: Sync>(cases: &[T], run: impl Fn(&T) -> Vec<Taken> + Sync) -> Vec<Taken> {
    let (next, taken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    taken.lock().unwrap().extend(run(case));
                }
            });
        }
    });
    let mut taken = taken.into_inner().unwrap();
    taken.sort_by_key(|taken| std::cmp::Reverse(taken.time));
    taken
}

fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let before = thread_time();
    let result = work();
    (thread_time().saturating_sub(before), result)
}

/// Prints the slowest ten and fails if one took too long.
fn judge(what: &str, taken: &[Taken]) {
    println!("{what}: {} measured", taken.len());
    taken.iter().take(10).for_each(|taken| println!("{:>6} ms  {}", taken.time.as_millis(), taken.name));
    let slow = taken.iter().filter(|taken| taken.time > LIMIT).count();
    assert_eq!(slow, 0, "of {what} took more than {LIMIT:?}; the slowest: {}", taken[0].name);
}

/// What the slowest of these profiles took, after what was taken before.
fn slowest(name: &str, before: Duration, profiles: &[&str], work: impl Fn(&Profile)) -> Vec<Taken> {
    let profiles = Profile::all().iter().filter(|profile| is_one_of(profile, profiles));
    let taken = profiles.map(|profile| (before + time(|| work(profile)).0, profile.id().to_string()));
    let slowest = taken.max();
    slowest.map(|(time, profile)| Taken { time, name: format!("{name}, {profile}") }).into_iter().collect()
}

fn is_one_of(profile: &Profile, ids: &[&str]) -> bool {
    std::env::var_os("LOOKALIKE_TEST_PATHOLOGICAL").is_some() || ids.contains(&&*profile.id().to_string())
}

/// Loads dictionaries and tables, which the first text of a process has to wait for.
fn warm_up() {
    for profile in Profile::all() {
        profile.sign("臺灣的 word ภาษา あ 東京へ行く");
    }
}

#[test]
fn pathological_pages_take_no_longer_than_others() {
    warm_up();
    let taken = measure(&INPUTS.pages(), |(name, page)| {
        let (of_page, text) = time(|| main_text(page));
        slowest(&format!("{name} ({} ms alone)", of_page.as_millis()), of_page, &OF_PAGES, |profile| {
            drop(profile.sign(&text));
        })
    });
    judge("pages", &taken);
}

#[test]
fn pathological_texts_take_no_longer_than_others() {
    warm_up();
    let taken = measure(&INPUTS.texts(), |(name, text)| {
        slowest(name, Duration::ZERO, &KINDS, |profile| drop(profile.sign(text)))
    });
    judge("texts", &taken);
}

#[test]
fn pathological_texts_are_explained_in_time() {
    warm_up();
    let taken = measure(&INPUTS.texts(), |(name, text)| {
        slowest(name, Duration::ZERO, &EXPLAINED, |profile| drop(profile.explain(text)))
    });
    judge("explanations", &taken);
}

/// The time of all processors that a server has taken: the system counts it in hundredths of a second.
fn processor_time(server: &Server) -> Duration {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
    let fields = status.rsplit_once(')').unwrap().1.split_whitespace();
    Duration::from_millis(fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum())
}

/// `/compare` reads two texts, and so may take a second for each; what is compared word by word is as much as is taken for that.
#[tokio::test]
async fn pathological_requests_are_answered_in_time() {
    let data = directory();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_LIMITS__QUERY_MS", "60000")]).await;
    let different = |name: char| INPUTS.numbered("", |n| format!("{name}{n:07x} "));
    let few = |seed: u64| {
        fastrand::seed(seed);
        (0..2_500).map(|_| format!("{}{} ", "x".repeat(400), fastrand::u8(..16))).collect::<String>()
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
        ("texts of as many words as are compared", compare([1, 2].map(few), "text", "copies-64")),
        ("pages", compare(["paragraphs in nested blocks", "cells"].map(page), "html", "copies-128@1")),
        (
            "an explanation",
            ("/fingerprint", json!({"text": different('u'), "profile": "shingles-64", "explain": true})),
        ),
    ];
    let mut taken = Vec::new();
    for (name, (path, body)) in requests {
        let before = processor_time(&server);
        let request = server.client.post(format!("{}{path}", server.url)).json(&body);
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{name}: {}", answer.text().await.unwrap());
        let bytes = answer.bytes().await.unwrap().len();
        assert!(bytes < 2 * INPUTS.bytes, "{name}: {bytes} bytes");
        let time = processor_time(&server).saturating_sub(before);
        println!("{:>6} ms, {bytes} bytes: {name}", time.as_millis());
        taken.push((time, name));
    }
    assert!(taken[1..].iter().all(|(time, _)| *time <= 2 * LIMIT), "{taken:?}");
}
