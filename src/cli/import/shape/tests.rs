//! Records, the options for their fields, and the documents that they become.

use clap::Parser;
use serde_json::{Value, json};

use super::*;
use lookalike_files::{About, sha256};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    shape: Shape,
}

fn shape(arguments: &[&str]) -> Shape {
    Command::try_parse_from([&["test"], arguments].concat()).unwrap_or_else(|error| panic!("{error}")).shape
}

fn line_of(shape: &Shape, line: &str) -> Result<Line, String> {
    let raw = Raw::new(0, 1, Content::Line(line.to_owned().into()));
    let made = shape.line(&raw, &About::default(), "").unwrap();
    made.map_err(|unread| unread.detail)
}

fn made(arguments: &[&str], line: &str) -> Result<Value, String> {
    let line = line_of(&shape(arguments), line)?;
    let value: Value = serde_json::from_slice(&line.bytes).unwrap();
    assert!(line.id.is_none() || value["id"] == *line.id.as_ref().unwrap());
    Ok(value)
}

#[test]
fn lines_of_known_collections_need_no_options() {
    let c4 = json!({"text": "t", "timestamp": "2019-04-25T12:57:54Z", "url": "https://e.org/"});
    let rest = json!({"timestamp": "2019-04-25T12:57:54Z", "url": "https://e.org/"});
    assert_eq!(made(&[], &c4.to_string()).unwrap(), json!({"text": "t", "metadata": rest}));
    let dolma = json!({"id": "d", "text": "t", "source": "s", "added": "a", "metadata": {"url": "u"}});
    let expected = json!({"id": "d", "text": "t", "metadata": {"source": "s", "added": "a", "url": "u"}});
    assert_eq!(made(&[], &dolma.to_string()).unwrap(), expected);
    let pile = json!({"text": "t", "meta": {"pile_set_name": "Pile-CC"}});
    let expected = json!({"text": "t", "metadata": {"meta": {"pile_set_name": "Pile-CC"}}});
    assert_eq!(made(&[], &pile.to_string()).unwrap(), expected);
    let page = json!({"id": 7, "html": "<p>t", "lang": "de", "expires_in": "7d"});
    let expected = json!({"id": "7", "html": "<p>t", "expires_in": "7d", "metadata": {"lang": "de"}});
    assert_eq!(made(&[], &page.to_string()).unwrap(), expected);
}

#[test]
fn the_texts_of_a_path_are_one_document() {
    let line = r#"{"lang":"en","turns":[{"by":"a","say":"one"},{"by":"b","say":"two"}]}"#;
    let expected = json!({"text": "one\ntwo", "metadata": {"lang": "en"}});
    assert_eq!(made(&["--text-field", "turns[].say"], line).unwrap(), expected);
    let named = made(&["--text-field", "turns[].say", "--metadata", "turns"], line).unwrap();
    assert_eq!(named["metadata"]["turns"][1]["by"], "b");
    let error = made(&["--text-field", "turns[].said"], line).unwrap_err();
    assert!(error.contains("in turns[1], there is no field \"said\"; there are by, say"), "{error}");
}

#[test]
fn documents_are_sent_unchanged() {
    for line in [
        r#"{"id":"a", "text" : "t", "metadata":{"n":1.50}}"#,
        r#"{"hash":"00ff","expires_at":"2030-01-01T00:00:00Z"}"#,
        r#"{"id":"a","features":[["x",1]],"profile":"copies-64"}"#,
        "",
    ] {
        assert_eq!(line_of(&shape(&[]), line).unwrap().bytes, line.as_bytes());
    }
    let line = r#"{"id":12345678901234567890123,"hash":"ff","metadata":{"a":1,"b":2}}"#;
    let expected = json!({"id": "12345678901234567890123", "hash": "ff", "metadata": {"a": 1, "b": 2}});
    assert_eq!(made(&[], line).unwrap(), expected);
    assert_eq!(made(&["--metadata", "none"], line).unwrap()["metadata"], Value::Null);
    assert_eq!(made(&["--metadata", "b,c"], line).unwrap()["metadata"], json!({"b": 2}));
}

#[test]
fn fields_are_those_that_the_options_name() {
    let line = r#"{"doc":{"body":"t","title":"x","key":5},"lang":"de","deep":{"n":1.50,"m":2}}"#;
    let options = ["--text-field", "doc.body", "--id-field", "doc.key"];
    let found = line_of(&shape(&options), line).unwrap();
    let metadata = r#"{"doc":{"title":"x","key":5},"lang":"de","deep":{"n":1.50,"m":2}}"#;
    let expected = format!(r#"{{"id":"5","text":"t","metadata":{metadata}}}"#);
    assert_eq!(String::from_utf8(found.bytes).unwrap(), expected);
    let some = [&options[..], &["--metadata", "lang,deep.n,none.such"]].concat();
    assert_eq!(made(&some, line).unwrap()["metadata"], json!({"lang": "de", "deep.n": 1.5}));
    let page = [&options[..], &["--html", "--metadata", "none"]].concat();
    assert_eq!(made(&page, line).unwrap(), json!({"id": "5", "html": "t"}));
    let hash = ["--hash-field", "h", "--hash-profile", "p"];
    assert_eq!(made(&hash, r#"{"h":" -5"}"#).unwrap(), json!({"hash": "-5", "profile": "p"}));
    assert_eq!(made(&hash, r#"{"h":-5}"#).unwrap(), json!({"hash": -5, "profile": "p"}));
    let inside = json!({"metadata": {"body": "t", "n": 1}, "m": 2}).to_string();
    let found = made(&["--text-field", "metadata.body"], &inside).unwrap();
    assert_eq!(found, json!({"text": "t", "metadata": {"n": 1, "m": 2}}));
    let none = made(&[], r#"{"id":1,"text":"t","metadata":null}"#).unwrap();
    assert_eq!(none, json!({"id": "1", "text": "t"}));
    let long = json!({"text": "t", "url": "u".repeat(300)}).to_string();
    let id = made(&["--id-field", "url"], &long).unwrap()["id"].clone();
    assert_eq!(id, format!("sha256-{}", sha256("u".repeat(300).as_bytes())));
}

#[test]
fn listed_metadata_that_no_line_has_is_named() {
    let shape = shape(&["--metadata", "lang,topic,meta.url"]);
    assert_eq!(shape.missing_metadata(), None, "no line was read");
    for line in [r#"{"text":"t","lang":"de","topics":["a"]}"#, r#"{"text":"t","url":"u","id":1}"#] {
        line_of(&shape, line).unwrap();
    }
    let expected = "no line has the fields topic, meta.url, which --metadata names; there are lang, \
                    topics, url";
    assert_eq!(shape.missing_metadata().as_deref(), Some(expected));
    line_of(&shape, r#"{"text":"t","topic":1,"meta":{"url":"u"}}"#).unwrap();
    assert_eq!(shape.missing_metadata(), None);
}

#[test]
fn what_makes_no_document_is_refused_with_a_remedy() {
    for (options, line, expected) in [
        (&[][..], r#"{"url":"u","content":"t"}"#, "no field \"text\"; there are url, content; --text-field"),
        (&[], r#"{"text":null,"url":"u"}"#, "there is no value in the field \"text\""),
        (&[], r#"{"id":1,"text":"t","metadata":7}"#, "the field \"metadata\" is no object"),
        (&[], r#"{"text":["t"],"url":"u"}"#, "the field \"text\" is not a string; --text-field"),
        (&[], r#"{"text":7}"#, "the field \"text\" is not a string; --text-field"),
        (&[], "oops", "oops is not JSON (column 1)"),
        (&[], "[1]", "a JSON array in place of an object"),
        (&[], r#"{"id":1.5,"text":"t"}"#, "is 1.5; an id is a text or an integer"),
        (&[], r#"{"id":true,"text":"t","x":1}"#, "is true; an id is a text or an integer"),
        (&["--id-field", "id"], r#"{"text":"t"}"#, "no field \"id\"; there are text"),
        (&["--id-field", "key"], r#"{"id":"a","text":"t"}"#, "no field \"key\"; there are id, text"),
        (&[], r#"{"text":"t","lang":"de","metadata":{"lang":"en"}}"#, "--metadata none leaves all out"),
        (&["--hash-field", "h"], r#"{"text":"t"}"#, "--hash-field names another one"),
    ] {
        let why = made(options, line).unwrap_err();
        assert!(why.contains(expected), "{line}: {why}");
    }
}
