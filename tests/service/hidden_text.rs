//! Pages that differ only in what the main text leaves out: none is called equal to another one, and none is
//! dropped because it says that scripts are needed.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::dedupe::{done, json_lines};
use crate::server::{Server, command, directory};

/// A text of some of four hundred words.
fn text(seed: u64, words: usize) -> String {
    let mut of_all = fastrand::Rng::with_seed(1);
    let word = |_| (0..of_all.usize(3..9)).map(|_| of_all.lowercase()).collect();
    let all: Vec<String> = (0..400).map(word).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    let words: Vec<&str> = (0..words).map(|_| random.choice(&all).unwrap().as_str()).collect();
    words.chunks(12).map(|sentence| sentence.join(" ") + ". ").collect()
}

/// Runs `dedupe` over pages, and returns how many are kept, the lines of the dropped ones, and the summary.
fn deduped(folder: &Path, pages: &[String], options: &[&str]) -> (usize, Vec<Value>, String) {
    let line =
        |(number, page): (usize, &String)| json!({"id": format!("p{number}"), "html": page}).to_string();
    let lines: Vec<String> = pages.iter().enumerate().map(line).collect();
    fs::write(folder.join("pages.jsonl"), lines.join("\n")).unwrap();
    let all =
        ["pages.jsonl", "-o", "out", "--force", "--html", "--text-field", "html", "--duplicates", "dropped"];
    let summary = done(folder, &[&all, options].concat());
    (json_lines(&folder.join("out/pages.jsonl")).len(), json_lines(&folder.join("dropped")), summary)
}

#[test]
fn an_article_that_is_hidden_or_in_a_field_is_compared() {
    let data = directory();
    for profile in ["minhash-copies", "copies-128"] {
        for (name, before, after) in [
            (
                "by style",
                "<div style='display:none'><article><p>",
                "</p></article></div><p>Please enable JavaScript.</p>",
            ),
            ("by attribute", "<div id=app hidden><p>", "</p></div><p>Loading, please wait a moment.</p>"),
            ("for readers of screens", "<div aria-hidden=true><p>", "</p></div><p>Loading, please wait.</p>"),
            ("in a field", "<p>Paste your text below.</p><form><textarea name=t>", "</textarea></form>"),
            ("in a list", "<p>Choose one.</p><select><option>", "</option></select>"),
            ("without scripts", "<p>Wait.</p><noscript><p>", "</p></noscript>"),
            ("in details", "<p>Show the rest.</p><details><summary>More</summary><p>", "</p></details>"),
            ("in a dialog", "<p>Open it.</p><dialog><p>", "</p></dialog>"),
        ] {
            let page = |seed| format!("<html><body>{before}{}{after}</body></html>", text(seed, 200));
            let mut pages: Vec<String> = (0..6).map(page).collect();
            let (kept, dropped, summary) = deduped(data.path(), &pages, &["--profile", profile]);
            assert_eq!(kept, 6, "{name}, {profile}: {summary}{dropped:?}");
            pages.push(page(0));
            let (kept, dropped, summary) = deduped(data.path(), &pages, &["--profile", profile]);
            assert_eq!((kept, dropped.len()), (6, 1), "{name}, {profile}: {summary}");
            assert_eq!(dropped[0]["exact"], true, "{name}, {profile}: {dropped:?}");
            // The finder takes what is in details.
            if name != "in details" {
                assert_eq!(dropped[0]["page"], "visible", "{name}, {profile}: {dropped:?}");
                assert!(summary.contains("7 compared by all visible text"), "{name}: {summary}");
            }
        }
    }
}

#[test]
fn pages_that_differ_anywhere_are_not_equal() {
    let data = directory();
    let article = text(1, 200);
    for (name, before, after) in [
        (
            "data of a search engine",
            "<script type='application/ld+json'>{\"articleBody\": \"",
            "\"}</script>",
        ),
        (
            "data of a program",
            "<script id=__NEXT_DATA__ type='application/json'>{\"text\": \"",
            "\"}</script>",
        ),
        ("a script", "<script>window.state = \"", "\"</script>"),
        ("a description", "<meta name=description content='", "'>"),
        ("a picture", "<img src=a alt='", "'>"),
        ("a value", "<input value='", "'>"),
        ("a hint", "<input placeholder='", "'>"),
        ("a title", "<a href=b title='", "'>b</a>"),
        ("an attribute for scripts", "<div data-text='", "'></div>"),
        ("a frame", "<iframe srcdoc='", "'></iframe>"),
        ("a drawing", "<svg><text>", "</text></svg>"),
        ("a template", "<template>", "</template>"),
        ("without scripts", "<noscript>", "</noscript>"),
        ("a table", "<table><tr><td>", "</td></tr></table>"),
        ("a caption", "<figure><img src=a><figcaption>", "</figcaption></figure>"),
        ("a comment", "<section class=comments><p>", "</p></section>"),
    ] {
        let page = |words: &str| {
            format!("<body><h1>e</h1><article><p>{article}</p></article>{before}{words}{after}</body>")
        };
        let pages = [page("mayor bridge"), page("mayor river"), page("mayor bridge")];
        let (kept, dropped, summary) = deduped(data.path(), &pages, &[]);
        let exact: Vec<&Value> = dropped.iter().map(|line| &line["exact"]).collect();
        assert_eq!((kept, exact), (1, vec![&json!(false), &json!(true)]), "{name}: {summary}");
        assert!(summary.contains("1  dropped, equal text"), "{name}: {summary}");
    }
    // Tags, addresses and spaces are no text.
    let tagged = |class: &str, space: &str| {
        format!(
            "<body><article class={class}><p>{article}{space}<b>x</b></p></article><!-- {class} --></body>"
        )
    };
    let (_, dropped, _) = deduped(data.path(), &[tagged("a", " "), tagged("b", "\n  ")], &[]);
    assert_eq!(dropped[0]["exact"], true);
}

#[test]
fn a_page_without_text_is_kept_and_counted() {
    let data = directory();
    let page = |n: usize| {
        format!(
            "<title>Shop</title><noscript>You need to enable JavaScript to run this app.</noscript>\
            <div id=root></div><script src=/{n}.js></script>"
        )
    };
    let pages: Vec<String> = (0..10).map(page).chain([page(0)]).collect();
    for page in ["main", "visible"] {
        let (kept, dropped, summary) = deduped(data.path(), &pages, &["--page", page]);
        assert!(kept == 11 && dropped.is_empty(), "{summary}");
        assert!(summary.contains("11 kept with too little text"), "{summary}");
    }
}

#[test]
fn an_article_among_many_teasers_is_the_main_text() {
    let data = directory();
    for (open, close) in [("<article>", "</article>"), ("<div class=card>", "</div>"), ("<li>", "</li>")] {
        let teaser = |seed: u64| {
            format!("{open}<h3><a href=x>{}</a></h3><p>{}</p>{close}", text(seed, 7), text(seed + 1, 12))
        };
        let teasers: String = (100..178).map(teaser).collect();
        let page = |seed| {
            format!("<html><body><div class=story><p>{}</p></div>{teasers}</body></html>", text(seed, 210))
        };
        let pages: Vec<String> = (0..4).map(page).collect();
        let (kept, dropped, summary) = deduped(data.path(), &pages, &[]);
        assert_eq!(kept, 4, "{open} {summary} {dropped:?}");
    }
}

#[tokio::test]
async fn the_server_says_which_text_it_used_and_stores_pages_without_text() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    server.put("/collections/c", json!({"keep_text": true})).await;
    let article = |seed| format!("<article><p>{}</p></article>", text(seed, 200));
    let shell = "<p>Please enable JavaScript to view this page.</p>";
    let hidden = format!("<div hidden>{}</div>{shell}", article(2));
    for (html, page) in [(article(1), "main"), (hidden, "visible"), (shell.to_owned(), "main")] {
        let (_, answer) = server.post("/fingerprint", json!({"html": html})).await;
        assert_eq!(answer["page"], page, "{answer}");
        let (_, answer) =
            server.post("/collections/c/documents?on_duplicate=skip", json!({"html": html})).await;
        assert!(answer["page"] == page && answer["outcome"] == "created", "{answer}");
        let (_, answer) =
            server.post("/collections/c/documents?on_duplicate=skip", json!({"html": html})).await;
        let expected = if html == shell { "created" } else { "duplicate" };
        assert_eq!(answer["outcome"], expected, "{answer}");
    }
    // The command asks for the text that is wanted.
    let lines =
        [json!({"id": "a", "html": article(3)}), json!({"id": "b", "html": article(4), "page": "main"})];
    fs::write(data.path().join("pages.jsonl"), lines.map(|line| line.to_string()).join("\n")).unwrap();
    let mut import =
        command(&["import", "--url", &server.url, "--collection", "c", "--page", "visible", "pages.jsonl"]);
    import.current_dir(data.path());
    let output = tokio::task::spawn_blocking(move || import.output().unwrap()).await.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("2 created") && stderr.contains("1 page compared by all visible text"),
        "{stderr}"
    );
}
