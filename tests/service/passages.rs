//! Collections with passages: parts of texts are found inside other texts, on every route. Every answer is
//! compared with a comparison of all stored texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use lookalike_text::features::sampled_grams;
use lookalike_text::fingerprint::Containment;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, command, directory, is_replicated};

/// Sentences of invented words. Articles of other numbers share none.
fn article(number: u64, sentences: u64) -> String {
    let word = |number: u64| -> String {
        let seed = (number ^ 0x51ed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seed = (seed ^ (seed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let seed = seed ^ (seed >> 32);
        let syllable = |at: u64| {
            let pick = |letters: &'static str, from: u64| {
                let at = (seed >> from) as usize % letters.len();
                &letters[at..=at]
            };
            pick("bdfghjklmnprstvz", 6 * at).to_owned() + pick("aeio", 6 * at + 4)
        };
        (0..2 + (seed >> 40) % 3).map(syllable).collect()
    };
    let sentence = |at: u64| {
        let first = (number * 1_000 + at) * 14;
        (first..first + 14).map(word).collect::<Vec<_>>().join(" ") + ". "
    };
    (0..sentences).map(sentence).collect()
}

/// A page with an article between two others.
fn page(number: u64, article: &str) -> String {
    format!("{}\n{article}\n{}", self::article(50_000 + number, 40), self::article(90_000 + number, 40))
}

async fn create(server: &Server, name: &str, settings: Value) {
    let (status, answer) = server.put(&format!("/collections/{name}"), settings).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
}

async fn add(server: &Server, route: &str, id: &str, text: &str) {
    let (status, answer) = server.post(route, json!({"id": id, "text": text})).await;
    assert!(status.is_success(), "{answer}");
}

fn found(answer: &Value) -> Vec<String> {
    let documents = answer["passages"]["documents"].as_array().unwrap_or_else(|| panic!("{answer}"));
    documents.iter().map(|document| document["id"].as_str().unwrap().to_owned()).collect()
}

fn part(text: &str, range: &Value) -> String {
    let [from, to] = [0, 1].map(|at| range[at].as_u64().unwrap() as usize);
    text.chars().skip(from).take(to - from).collect()
}

/// The ids of the stored texts that share passages with `text`, by a comparison with each of them.
fn expected(stored: &BTreeMap<String, String>, text: &str, least: f64) -> BTreeSet<String> {
    let own = sampled_grams(text);
    let all: BTreeMap<&String, Vec<_>> = stored.iter().map(|(id, text)| (id, sampled_grams(text))).collect();
    let has = |grams: &[lookalike_hash::Gram], hash: u64| grams.iter().any(|gram| gram.hash == hash);
    let is_found = |grams: &Vec<lookalike_hash::Gram>| {
        let shared = own.iter().filter(|gram| has(grams, gram.hash)).count();
        let found = Containment::of_grams(&own, grams, |_| false);
        Containment::shares_passage(shared, own.len(), grams.len()) && found.a_in_b.max(found.b_in_a) >= least
    };
    all.iter().filter(|(_, grams)| is_found(grams)).map(|(id, _)| (*id).clone()).collect()
}

#[tokio::test]
async fn an_article_is_found_in_a_page_and_a_page_by_its_article() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for (name, keeps_text) in [("kept", true), ("grams", false)] {
        let settings = json!({"passages": true, "keep_text": keeps_text, "clusters": {"keep": "first"}});
        create(&server, name, settings).await;
        let route = format!("/collections/{name}");
        let (own, documents) = (article(1, 25), format!("{route}/documents"));
        let (outer, others) = (page(1, &own), page(2, &article(2, 25)));
        add(&server, &documents, "page", &outer).await;
        add(&server, &documents, "other", &others).await;
        add(&server, &documents, "copy", &format!("{own} The end of it.")).await;
        let (_, answer) = server.post(&format!("{route}/similar"), json!({"text": own})).await;
        assert_eq!(found(&answer), ["copy", "page"], "whole copies come first: {answer}");
        assert!(answer["passages"]["grams"].as_u64().unwrap() > 20, "{answer}");
        let of_page = &answer["passages"]["documents"][1]["shared"];
        assert!(of_page["query_in_document"].as_f64().unwrap() > 0.95, "{answer}");
        let share = of_page["document_in_query"].as_f64().unwrap();
        assert!((0.15..0.4).contains(&share), "{answer}");
        let passage = &of_page["passages"][0];
        let same = [part(&own, &passage["query"]), part(&outer, &passage["document"])];
        assert_eq!(same[0].trim(), same[1].trim());
        let least = if keeps_text { own.len() - 20 } else { own.len() / 2 };
        assert!(same[0].len() > least, "{} of {}", same[0].len(), own.len());
        let is_placed = |near: &Value| {
            near["cluster"] == json!({"pending": true}) || {
                near["cluster"]["representative"] == near["id"] && near["cluster"]["distance"] == 0
            }
        };
        assert!(answer["passages"]["documents"].as_array().unwrap().iter().all(is_placed), "{answer}");
        // The other way: the page is the query.
        let by_page = server.json(&format!("{route}/documents/page/similar")).await;
        assert_eq!(found(&by_page), ["copy"], "{by_page}");
        let shared = &by_page["passages"]["documents"][0]["shared"];
        assert!(shared["document_in_query"].as_f64().unwrap() > 0.9, "{by_page}");
        // A hash has no passages.
        let hash = answer["hash"].as_str().unwrap();
        let by_hash = server.json(&format!("{route}/similar?hash={hash}&k=3")).await;
        assert!(by_hash["passages"].is_null() && by_hash["similar"].is_array(), "{by_hash}");
        let (_, batch) = server
            .post(&format!("{route}/batch/similar"), json!({"queries": [{"text": own}, {"hash": hash}]}))
            .await;
        assert_eq!(found(&batch["results"][0]), ["copy", "page"], "{batch}");
        assert!(batch["results"][1]["passages"].is_null());
    }
}

#[tokio::test]
async fn answers_equal_a_comparison_of_all_texts_while_documents_come_and_go() {
    let data = directory();
    let mut server = Server::start(data.path()).await;
    create(&server, "pages", json!({"passages": true, "boilerplate_documents": 1000, "k": 0})).await;
    let (menu, route) = (article(7_777, 12), "/collections/pages/documents");
    let mut stored: BTreeMap<String, String> = BTreeMap::new();
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for round in 0..12 {
        let mut lines = String::new();
        for _ in 0..10 {
            let id = format!("d{}", next(25));
            let articles: String = (0..=next(3)).map(|_| article(next(12), 8 + next(12))).collect();
            let text = if next(3) == 0 { format!("{menu}{articles}") } else { articles };
            if lines.contains(&format!("\"{id}\"")) {
                continue;
            }
            if next(4) == 0 {
                server.delete(&format!("{route}/{id}")).await;
                stored.remove(&id);
            } else if next(2) == 0 {
                add(&server, route, &id, &text).await;
                stored.insert(id, text);
            } else {
                let _ = writeln!(lines, "{}", json!({"id": id, "text": text}));
                stored.insert(id, text);
            }
        }
        let (_, summary) = server.stream(route, lines).await;
        assert_eq!(summary["errors"], 0, "{summary}");
        for _ in 0..6 {
            let text = match next(3) {
                0 => article(next(12), 15),
                1 => format!("{menu}{}", article(next(12), 15)),
                _ => page(next(12), &article(next(12), 9)),
            };
            let least = [0.2, 0.4, 0.9][next(3) as usize];
            let query = json!({"text": text, "min_containment": least, "limit": 100});
            let (_, answer) = server.post("/collections/pages/similar", query).await;
            let all: BTreeSet<String> = found(&answer).into_iter().collect();
            let wanted = expected(&stored, &text, least);
            assert_eq!(all, wanted, "round {round}: {answer}");
        }
        if round % 4 == 3 {
            server.kill();
            server = Server::start(data.path()).await;
        }
    }
}

#[tokio::test]
async fn a_document_that_a_stored_one_contains_is_not_stored() {
    let data = directory();
    let server = Server::start(data.path()).await;
    create(&server, "pages", json!({"passages": true, "k": 3})).await;
    let route = "/collections/pages/documents?on_duplicate=skip&min_containment=0.8";
    let own = article(1, 25);
    add(&server, route, "page", &page(1, &own)).await;
    let (status, answer) = server.post(route, json!({"id": "article", "text": own})).await;
    assert_eq!((status, &answer["outcome"]), (StatusCode::OK, &json!("contained_in")), "{answer}");
    assert_eq!(answer["similar"][0]["id"], "page");
    assert!(answer["similar"][0]["shared"]["query_in_document"].as_f64().unwrap() > 0.9, "{answer}");
    // Half of it is new.
    let half = format!("{}{}", article(1, 12), article(3, 12));
    let (status, answer) = server.post(route, json!({"id": "half", "text": half})).await;
    assert_eq!((status, &answer["outcome"]), (StatusCode::CREATED, &json!("created")), "{answer}");
    // A page that contains a stored article has more than the article.
    add(&server, route, "longer", &page(9, &article(4, 20))).await;
    // The first of a stream is stored, and found by the next one of the same group.
    let lines: String = (0..20)
        .map(|n| format!("{}\n", json!({"id": format!("s{n}"), "text": page(n, &article(6, 25))})))
        .chain((0..20).map(|n| format!("{}\n", json!({"id": format!("t{n}"), "text": article(6, 25)}))))
        .collect();
    let (results, summary) = server.stream(route, lines).await;
    assert_eq!((&summary["contained"], &summary["duplicates"]), (&json!(20), &json!(0)), "{summary}");
    assert!(results[20..].iter().all(|result| result["outcome"] == "contained_in"), "{results:?}");
    // A document is not a duplicate of its own version.
    let (_, answer) = server.post(route, json!({"id": "page", "text": page(1, &own)})).await;
    assert_eq!(answer["outcome"], "updated", "{answer}");
}

/// With kept texts the share decides that the letters have, not an estimate of it.
#[tokio::test]
async fn with_kept_texts_the_containment_is_exact() {
    let data = directory();
    let server = Server::start(data.path()).await;
    create(&server, "kept", json!({"passages": true, "keep_text": true, "k": 0})).await;
    let route = "/collections/kept/documents";
    let skip = format!("{route}?on_duplicate=skip&min_containment=0.8");
    let mut wrongly_estimated = 0;
    for number in 0..60 {
        let stored = article(number, 24);
        add(&server, route, &format!("a{number}"), &stored).await;
        for (kind, own) in [("most", 21), ("less", 17)] {
            // Most of it is the stored article; the rest is its own.
            let text = format!("{}{}", article(number, own), article(1_000 + number, 24 - own));
            let letters = Containment::of(&text, &stored, || Ok::<_, ()>(())).unwrap().a_in_b;
            let estimate = Containment::of_grams(&sampled_grams(&text), &sampled_grams(&stored), |_| false);
            wrongly_estimated += usize::from((letters >= 0.8) != (estimate.a_in_b >= 0.8));
            let id = format!("{kind}{number}");
            let (_, answer) = server.post(&skip, json!({"id": id, "text": text})).await;
            let expected = if letters >= 0.8 { "duplicate" } else { "created" };
            assert_eq!(answer["outcome"], expected, "{id}: {letters}: {answer}");
            if letters >= 0.8 {
                let shared = &answer["similar"][0]["shared"]["query_in_document"];
                assert!((shared.as_f64().unwrap() - letters).abs() < 1e-3, "{letters}: {answer}");
            } else {
                server.delete(&format!("{route}/{id}")).await;
            }
        }
    }
    assert!(wrongly_estimated >= 3, "{wrongly_estimated} estimates decide otherwise");
    // So it is for documents of one group.
    let lines: String = (100..130)
        .flat_map(|number| {
            let text = format!("{}{}", article(number, 21), article(1_000 + number, 3));
            [("a", article(number, 24)), ("b", text)].map(|(kind, text)| (format!("{kind}{number}"), text))
        })
        .map(|(id, text)| format!("{}\n", json!({"id": id, "text": text})))
        .collect();
    let (results, summary) = server.stream(&skip, lines).await;
    assert_eq!((&summary["created"], &summary["duplicates"]), (&json!(30), &json!(30)), "{results:?}");
}

#[tokio::test]
async fn what_unlike_documents_have_is_boilerplate() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for keeps_text in [true, false] {
        let name = format!("site-{keeps_text}");
        let settings = json!({"passages": true, "boilerplate_documents": 5, "keep_text": keeps_text});
        create(&server, &name, settings).await;
        let (menu, route) = (article(1, 20), format!("/collections/{name}/documents"));
        for number in 10..20 {
            add(&server, &route, &format!("p{number}"), &format!("{menu}{}", article(number, 20))).await;
        }
        let text = format!("{menu}{}", article(13, 20));
        let (_, answer) = server.post(&format!("/collections/{name}/similar"), json!({"text": text})).await;
        assert_eq!(found(&answer), ["p13"], "{answer}");
        let [boilerplate] = &answer["passages"]["boilerplate"].as_array().unwrap()[..] else {
            panic!("{answer}")
        };
        assert!(menu.contains(part(&text, boilerplate).trim()) && part(&text, boilerplate).len() > 800);
        let shared = &answer["passages"]["documents"][0]["shared"];
        assert!(shared["query_in_document"].as_f64().unwrap() > 0.9, "{answer}");
        // With a higher number the menu finds all of them.
        let (status, about) =
            server.put(&format!("/collections/{name}"), json!({"boilerplate_documents": 50})).await;
        assert_eq!((status, &about["boilerplate_documents"]), (StatusCode::OK, &json!(50)), "{about}");
        let (_, answer) = server.post(&format!("/collections/{name}/similar"), json!({"text": text})).await;
        assert_eq!(found(&answer).len(), 10, "{answer}");
        assert_eq!(answer["passages"]["boilerplate"], json!([]));
    }
}

/// A page of a site.
fn page_of(id: &str, text: &str, site: u64) -> Value {
    json!({"id": id, "text": text, "metadata": {"page": {"site": site}}})
}

/// An article that is half of its pages, on many sites, and the menu of one site.
#[tokio::test]
async fn boilerplate_is_counted_by_the_source_that_a_field_names() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (shared, menu) = (article(1, 20), article(2, 20));
    for keeps_text in [true, false] {
        let name = format!("sites-{keeps_text}");
        let settings =
            json!({"passages": true, "source_field": "page.site", "keep_text": keeps_text, "k": 0});
        create(&server, &name, settings).await;
        let line = |id: String, site: u64, text: String| format!("{}\n", page_of(&id, &text, site));
        let lines = (10..20).flat_map(|n| {
            [
                line(format!("s{n}"), n, format!("{shared}{}", article(n, 20))),
                line(format!("m{n}"), 1, format!("{menu}{}", article(100 + n, 20))),
            ]
        });
        server.stream(&format!("/collections/{name}/documents"), lines.collect()).await;
        let similar = format!("/collections/{name}/similar");
        let mut on_sites: Vec<String> = (10..20).map(|n| format!("s{n}")).collect();
        let text = format!("{shared}{menu}{}", article(50, 20));
        let (_, answer) =
            server.post(&similar, json!({"text": text, "limit": 50, "min_containment": 0.3})).await;
        let mut all = found(&answer);
        all.sort_unstable();
        assert_eq!(all, on_sites, "{answer}");
        assert!(!answer["passages"]["boilerplate"].as_array().unwrap().is_empty(), "{answer}");
        // A stored page finds those of other sites, and no page of its own by its menu.
        on_sites.remove(0);
        let answer = server.json(&format!("{similar}?id=s10&limit=50")).await;
        let mut others = found(&answer);
        others.sort_unstable();
        assert_eq!(others, on_sites, "{answer}");
        let answer = server.json(&format!("{similar}?id=m10")).await;
        assert!(found(&answer).is_empty(), "{answer}");
        // A new page of another site has the article, and of the same site only the menu.
        // A new page of another site has the article, and of the same site only the menu, of which one more
        // site has a copy. A dry run foresees it.
        let rule = "on_duplicate=skip&min_containment=0.4";
        let copy = page_of("v", &format!("{menu}{}", article(300, 20)), 500);
        server.post(&format!("/collections/{name}/documents"), copy).await;
        for (id, of, site, outcome) in [("t", &shared, 77, "contained_in"), ("u", &menu, 1, "created")] {
            let page = page_of(id, &format!("{of}{}", article(200 + site, 20)), site);
            let preview = format!("/collections/{name}/preview/documents?{rule}");
            let (_, foreseen) = server.post(&preview, json!([page])).await;
            assert_eq!(foreseen["new"], u64::from(outcome == "created"), "{id} {foreseen}");
            let (_, answer) = server.post(&format!("/collections/{name}/documents?{rule}"), page).await;
            assert_eq!(answer["outcome"], outcome, "{id} {answer}");
        }
        let about = server.put(&format!("/collections/{name}"), json!({"source_field": null})).await.1;
        assert!(about["source_field"].is_null(), "{about}");
        let answer = server.json(&format!("{similar}?id=s10")).await;
        assert!(found(&answer).is_empty(), "{answer}");
    }
}

#[tokio::test]
async fn any_number_of_copies_in_unlike_pages_is_found_and_not_stored_again() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let own = article(1, 25);
    let lines = |numbers: std::ops::Range<u64>| -> String {
        let line = |n: u64| format!("{}\n", json!({"id": format!("p{n:03}"), "text": page(n, &own)}));
        numbers.map(line).collect()
    };
    for keeps_text in [true, false] {
        let name = format!("copies-{keeps_text}");
        create(&server, &name, json!({"passages": true, "keep_text": keeps_text, "k": 0})).await;
        let route = format!("/collections/{name}/documents");
        let skip = format!("{route}?on_duplicate=skip&min_containment=0.8");
        for (numbers, finds) in [(0..100, 100), (100..101, 100), (101..300, 100)] {
            server.stream(&route, lines(numbers)).await;
            let query = json!({"text": own, "limit": 1000});
            let (_, answer) = server.post(&format!("/collections/{name}/similar"), query).await;
            assert_eq!(found(&answer).len(), finds, "{answer}");
            let (_, answer) = server.post(&skip, json!({"id": "new", "text": own})).await;
            assert_eq!(answer["outcome"], "contained_in", "{answer}");
            assert_eq!(answer["similar"].as_array().unwrap().len(), 10, "{answer}");
        }
    }
}

#[tokio::test]
async fn exact_passages_find_every_quotation() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let signs = |number: u32| -> String {
        let sign =
            |at: u32| char::from_u32(0x4e00 + (number * 7_919 + at * at * 31 + at * 17) % 20_000).unwrap();
        (0..600).map(sign).collect()
    };
    for keeps_text in [true, false] {
        let name = format!("exact-{keeps_text}");
        create(&server, &name, json!({"passages": "exact", "keep_text": keeps_text, "k": 0})).await;
        assert_eq!(server.json(&format!("/collections/{name}")).await["passages"], "exact");
        let (route, query) =
            (format!("/collections/{name}/documents"), format!("/collections/{name}/similar"));
        let texts: Vec<String> = (1..12).map(|n| article(n, 30)).chain((1..12).map(signs)).collect();
        for (at, text) in texts.iter().enumerate() {
            let (_, answer) = server.post(&route, json!({"id": format!("d{at}"), "text": text})).await;
            assert!(answer["without_passages"].is_null(), "{answer}");
        }
        for (at, text) in texts.iter().enumerate() {
            let letters: Vec<(usize, char)> =
                text.char_indices().filter(|(_, letter)| letter.is_alphanumeric()).collect();
            let run = if text.is_ascii() { 100 } else { 25 };
            for from in (0..letters.len() - run).step_by(97) {
                let quote = &text[letters[from].0..letters[from + run].0];
                let (_, answer) = server.post(&query, json!({"text": quote})).await;
                assert!(found(&answer).contains(&format!("d{at}")), "{quote}: {answer}");
                if keeps_text {
                    let inside = format!("{} {quote} {}", article(700, 9), article(701, 9));
                    let body = json!({"text": inside, "min_containment": 0.03});
                    let (_, answer) = server.post(&query, body).await;
                    assert!(found(&answer).contains(&format!("d{at}")), "{quote}: {answer}");
                }
            }
        }
        // Too short to be promised.
        let short = json!({"id": "short", "text": article(3, 1)});
        let (_, answer) = server.post(&route, short.clone()).await;
        assert_eq!(answer["without_passages"], true, "{answer}");
        let (results, _) = server.stream(&route, format!("{short}\n")).await;
        assert_eq!(results[0]["without_passages"], true, "{results:?}");
        if keeps_text {
            // As queries they have all their grams, sent or stored, and find some by chance.
            let mut sum = 0;
            for number in 1..12 {
                let short: String = article(number, 30).chars().take(90).collect();
                add(&server, &route, &format!("s{number}"), &short).await;
                let mut answers = Vec::new();
                for subject in [json!({"text": short}), json!({"id": format!("s{number}")})] {
                    let (_, answer) = server.post(&query, subject).await;
                    answers.push(found(&answer).into_iter().filter(|id| id.starts_with('d')).count());
                }
                assert_eq!(answers[0], answers[1], "{short}");
                sum += answers[1];
            }
            assert!(sum > 2, "{sum}");
        }
    }
    // Where texts are kept, a document that came without its text is decided by the estimate.
    create(&server, "moved", json!({"passages": "exact", "keep_text": true, "k": 0})).await;
    let export = server.get("/collections/exact-false/export").await.text().await.unwrap();
    server.stream("/collections/moved/documents", export).await;
    let quote: String = article(1, 30).chars().take(200).collect();
    let text = format!("{} {quote} {}", article(700, 40), article(701, 40));
    for (least, count) in [(0.9, 0), (0.02, 1)] {
        let body = json!({"text": text, "min_containment": least});
        let (_, answer) = server.post("/collections/moved/similar", body).await;
        assert_eq!(found(&answer).len(), count, "{answer}");
    }
}

#[tokio::test]
async fn passages_expire_and_are_deleted_with_their_document_and_with_the_collection() {
    let data = directory();
    let server = Server::start(data.path()).await;
    create(&server, "pages", json!({"passages": true})).await;
    let (own, route) = (article(1, 25), "/collections/pages/documents");
    for (id, seconds) in [("soon", Some(1)), ("late", None)] {
        let body = json!({"id": id, "text": page(1, &own), "expires_in": seconds});
        assert_eq!(server.post(route, body).await.0, StatusCode::CREATED);
    }
    let query = async || found(&server.post("/collections/pages/similar", json!({"text": own})).await.1);
    assert_eq!(query().await, ["late", "soon"]);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(query().await, ["late"]);
    // Another text with the same id.
    add(&server, route, "late", &page(2, &article(2, 25))).await;
    assert_eq!(query().await, [""; 0]);
    add(&server, route, "late", &page(2, &own)).await;
    assert_eq!(query().await, ["late"]);
    server.delete(&format!("{route}/late")).await;
    assert_eq!(query().await, [""; 0]);
    add(&server, route, "again", &page(3, &own)).await;
    server.delete("/collections/pages").await;
    create(&server, "pages", json!({"passages": true})).await;
    assert_eq!(query().await, [""; 0]);
}

#[tokio::test]
async fn backups_and_repairs_keep_passages() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let own = article(1, 25);
    let settings = json!({"passages": true, "boilerplate_documents": 9, "source_field": "site"});
    create(&server, "pages", settings).await;
    add(&server, "/collections/pages/documents", "page", &page(1, &own)).await;
    let tar = server.get("/collections/pages/backup").await.bytes().await.unwrap();
    let request = server.client.post(format!("{}/collections/again/restore", server.url));
    let response = request.header("content-type", "application/x-tar").body(tar).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED, "{}", response.text().await.unwrap());
    let about = server.json("/collections/again").await;
    assert_eq!((&about["passages"], &about["boilerplate_documents"]), (&json!(true), &json!(9)), "{about}");
    assert_eq!(about["source_field"], "site", "{about}");
    let (_, answer) = server.post("/collections/again/similar", json!({"text": own})).await;
    assert_eq!(found(&answer), ["page"]);
    server.stop();
    // `repair` is for the directory of one server.
    if is_replicated() {
        return;
    }
    let repaired = directory();
    let target = repaired.path().join("new");
    let paths = [data.path(), &target].map(|path| path.to_str().unwrap().to_owned());
    let repair = command(&["repair", &paths[0], "--to", &paths[1]]).output().unwrap();
    assert!(repair.status.success(), "{}", String::from_utf8_lossy(&repair.stderr));
    let server = Server::start(&target).await;
    let (_, answer) = server.post("/collections/pages/similar", json!({"text": own})).await;
    assert_eq!(found(&answer), ["page"], "{answer}");
}

#[tokio::test]
async fn bad_input_is_refused_with_the_way_out() {
    let data = directory();
    let server = Server::start(data.path()).await;
    create(&server, "pages", json!({"passages": true})).await;
    let cases = [
        ("/similar", json!({"text": "a text", "min_containment": 0.5}), "\"passages\": true"),
        ("/collections/pages/similar", json!({"text": "a text", "min_containment": 0}), "above 0"),
        ("/collections/pages/similar", json!({"text": "a text", "min_containment": 1.5}), "at most 1"),
        (
            "/collections/pages/similar",
            json!({"hash": "0000000000000000", "min_containment": 0.5}),
            "give a text",
        ),
        ("/documents?on_duplicate=skip&min_containment=0.5", json!({"text": "a text"}), "\"passages\": true"),
        ("/collections/pages/documents?min_containment=0.5", json!({"text": "a text"}), "on_duplicate=skip"),
    ];
    for (route, body, way_out) in cases {
        let (status, answer) = server.post(route, body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{route} {answer}");
        assert!(answer["detail"].as_str().unwrap().contains(way_out), "{route} {answer}");
    }
    for (settings, expected, way_out) in [
        (json!({"passages": false}), StatusCode::CONFLICT, "passages"),
        (json!({"passages": "exact"}), StatusCode::CONFLICT, "\"exact\""),
        (json!({"passages": "all"}), StatusCode::UNPROCESSABLE_ENTITY, "true, false or \"exact\""),
        (json!({"boilerplate_documents": 0}), StatusCode::UNPROCESSABLE_ENTITY, "1 to 1000"),
        (json!({"boilerplate_documents": 1_001}), StatusCode::UNPROCESSABLE_ENTITY, "1 to 1000"),
        (json!({"source_field": ""}), StatusCode::UNPROCESSABLE_ENTITY, "of 1 to 256"),
        (json!({"source_field": "a".repeat(257)}), StatusCode::UNPROCESSABLE_ENTITY, "of 1 to 256"),
    ] {
        let (status, answer) = server.put("/collections/pages", settings).await;
        assert_eq!(status, expected, "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains(way_out), "{answer}");
    }
    for settings in [json!({"boilerplate_documents": 5}), json!({"source_field": "site"})] {
        let (status, answer) = server.put("/collections/none", settings).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains("\"passages\": true"), "{answer}");
    }
    // A text that is too short to be found says so.
    add(&server, "/collections/pages/documents", "short", "a short text").await;
    let (_, answer) = server.post("/collections/pages/similar", json!({"text": "a short text"})).await;
    assert_eq!(answer["similar"][0]["id"], "short", "{answer}");
    assert!(answer["passages"]["grams"].as_u64().unwrap() < 3, "{answer}");
}
