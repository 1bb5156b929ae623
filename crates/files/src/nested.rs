//! Texts in nested data: `conversations[].content` means the field `content` of all elements of the array
//! `conversations`, whose strings are joined with line breaks.
//!
//! Elements without the field, and `null`, are passed over; anything else that is no string is an error with
//! its place. *Absent*: single elements (`a[0]`), and names of inner fields with dots.

use std::io;

use serde_json::value::RawValue;

use super::fields::{lone_surrogate_in, members, missing};
use super::{Reason, Unread, Value, wrong};

/// A name with `[]`.
pub(crate) struct Path<'p> {
    name: &'p str,
    /// The field of the record.
    pub(crate) outer: &'p str,
    steps: Vec<Step<'p>>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Elements,
    Field(&'p str),
}

/// A value of nested data.
pub(crate) trait Node: Sized {
    /// The value, one level deep.
    fn open(self) -> Opened<Self>;
}

/// A value, one level deep.
pub(crate) enum Opened<N> {
    Null,
    Text(String),
    Elements(Vec<N>),
    Object(Vec<(String, N)>),
    /// What else it is, with an article.
    Other(String),
}

/// The field of a record in which a path with `[]` begins.
pub fn outer_of_path(name: &str) -> Option<&str> {
    Path::of(name).map(|path| path.outer)
}

/// The field of a record that a name begins with.
pub(crate) fn outer(name: &str) -> &str {
    name.split_once('.').map_or(name, |(outer, _)| outer).trim_end_matches("[]")
}

impl<'p> Path<'p> {
    /// The path; `None` if the name has no `[]`.
    pub(crate) fn of(name: &'p str) -> Option<Path<'p>> {
        let mut steps = Vec::new();
        for part in name.split('.') {
            let field = part.trim_end_matches("[]");
            if field.is_empty() {
                return None;
            }
            steps.push(Step::Field(field));
            steps.extend((0..(part.len() - field.len()) / 2).map(|_| Step::Elements));
        }
        let has_elements = steps.iter().any(|step| matches!(step, Step::Elements));
        has_elements.then(|| Path { name, outer: outer(name), steps: steps.split_off(1) })
    }

    /// The strings in the value of the outer field; `what` it is called in messages.
    ///
    /// # Errors
    /// The place of something else, and what it is; or that there is no string at all.
    pub(crate) fn text<N: Node>(&self, what: &str, node: N) -> Result<String, Unread> {
        let none = || Reason::Field.because(format!("there is no string in the {what} {:?}", self.name));
        self.strings(what, node)?.ok_or_else(none)
    }

    /// [`Path::text`] of a column; `None` if there is no string.
    pub(crate) fn value<N: Node>(&self, node: N) -> io::Result<Option<String>> {
        self.strings("column", node).map_err(|unread| wrong(unread.detail))
    }

    fn strings<N: Node>(&self, what: &str, node: N) -> Result<Option<String>, Unread> {
        let mut found = Found { texts: Vec::new(), place: self.outer.to_owned(), missing: None };
        let because = |reason: Reason, why| reason.because(format!("the {what} {:?}: {why}", self.name));
        found.gather(node, &self.steps).map_err(|why| because(Reason::Value, why))?;
        match (found.texts.is_empty(), found.missing) {
            (false, _) => Ok(Some(found.texts.join("\n"))),
            (true, None) => Ok(None),
            (true, Some(why)) => Err(because(Reason::Field, why)),
        }
    }
}

struct Found {
    texts: Vec<String>,
    place: String,
    /// A field that an object does not have, with those that it has.
    missing: Option<String>,
}

impl Found {
    fn gather<N: Node>(&mut self, node: N, steps: &[Step<'_>]) -> Result<(), String> {
        let length = self.place.len();
        match (node.open(), steps) {
            (Opened::Null, _) => {}
            (Opened::Text(text), []) => self.texts.push(text),
            (Opened::Elements(all), [Step::Elements, rest @ ..]) => {
                for (number, element) in all.into_iter().enumerate() {
                    self.place.extend(["[", &number.to_string(), "]"]);
                    self.gather(element, rest)?;
                    self.place.truncate(length);
                }
            }
            (Opened::Object(fields), [Step::Field(name), rest @ ..]) => {
                let at = fields.iter().position(|(own, _)| own == name);
                let Some(at) = at else {
                    let names = fields.iter().map(|(own, _)| own.as_str());
                    self.missing = Some(format!("in {}, {}", self.place, missing("field", name, names)));
                    return Ok(());
                };
                let field = fields.into_iter().nth(at).expect("its place was found").1;
                self.place.extend([".", name]);
                self.gather(field, rest)?;
                self.place.truncate(length);
            }
            (other, steps) => {
                let wanted = match steps.first() {
                    None => "a string",
                    Some(Step::Elements) => "an array",
                    Some(Step::Field(_)) => "an object",
                };
                return Err(format!("{} is {}, and not {wanted}", self.place, other.what()));
            }
        }
        Ok(())
    }
}

impl<N> Opened<N> {
    fn what(&self) -> &str {
        match self {
            Opened::Null => "null",
            Opened::Text(_) => "a string",
            Opened::Elements(_) => "an array",
            Opened::Object(_) => "an object",
            Opened::Other(what) => what,
        }
    }
}

/// Valid JSON.
impl Node for &str {
    fn open(self) -> Opened<Self> {
        match self.as_bytes().first() {
            Some(b'n') => Opened::Null,
            Some(b't' | b'f') => Opened::Other("true or false".to_owned()),
            Some(b'"') => Value::Json(self).string().map_or_else(
                |_| Opened::Other(lone_surrogate_in(self).unwrap_or("no valid string".to_owned())),
                |text| Opened::Text(text.into_owned()),
            ),
            Some(b'[') => {
                let all: Vec<&RawValue> = serde_json::from_str(self).unwrap_or_default();
                Opened::Elements(all.into_iter().map(RawValue::get).collect())
            }
            Some(b'{') => {
                let fields = members(self).unwrap_or_default().into_iter();
                Opened::Object(fields.map(|(name, value)| (name.into_owned(), value.raw())).collect())
            }
            _ => Opened::Other("a number".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, on a tree.
    fn by_definition(value: &serde_json::Value, path: &str) -> Vec<String> {
        let Some(first) = path.chars().next() else {
            return value.as_str().map(str::to_owned).into_iter().collect();
        };
        if let Some(rest) = path.strip_prefix("[]") {
            return value.as_array().into_iter().flatten().flat_map(|one| by_definition(one, rest)).collect();
        }
        let path = if first == '.' { &path[1..] } else { path };
        let end = path.find(['.', '[']).unwrap_or(path.len());
        value.get(&path[..end]).map_or_else(Vec::new, |inner| by_definition(inner, &path[end..]))
    }

    fn text(line: &str, name: &str) -> Result<String, String> {
        let path = Path::of(name).unwrap();
        let all = members(line).unwrap();
        let outer = all.iter().find(|(own, _)| own == path.outer).unwrap().1.raw();
        path.text("field", outer).map_err(|unread| unread.detail)
    }

    #[test]
    fn strings_of_all_elements_are_joined() {
        let line = r#"{"turns":[{"by":"a","say":"one"},{"by":"b","say":null},{"by":"c"},{"say":"t\"wo"}],
            "words":["x",null,"y"],"deep":[[{"a":{"b":["1","2"]}}],[],[{"a":{"b":["3"]}},{"a":null}]],
            "one":{"list":["z"]}}"#;
        let tree: serde_json::Value = serde_json::from_str(line).unwrap();
        for (name, expected) in [
            ("turns[].say", "one\nt\"wo"),
            ("words[]", "x\ny"),
            ("deep[][].a.b[]", "1\n2\n3"),
            ("one.list[]", "z"),
        ] {
            assert_eq!(text(line, name).as_deref(), Ok(expected), "{name}");
            assert_eq!(by_definition(&tree, name).join("\n"), expected, "{name}");
        }
        for name in ["text", "a.b", "[]", "a..b[]", "a.[]"] {
            assert!(Path::of(name).is_none(), "{name}");
        }
    }

    #[test]
    fn errors_have_the_place_and_what_is_there() {
        let line =
            r#"{"a":[{"b":"x"},{"b":7}],"t":[{"from":"u","value":"x"}],"o":{"p":[]},"s":"x","l":["\ud800"]}"#;
        for (name, expected) in [
            ("a[].b", "the field \"a[].b\": a[1].b is a number, and not a string"),
            ("a[]", "the field \"a[]\": a[0] is an object, and not a string"),
            ("s[].b", "the field \"s[].b\": s is a string, and not an array"),
            ("a.b[]", "the field \"a.b[]\": a is an array, and not an object"),
            ("o.p[]", "there is no string in the field \"o.p[]\""),
            (
                "t[].content",
                "the field \"t[].content\": in t[0], there is no field \"content\"; there are from, value",
            ),
            (
                "l[]",
                "the field \"l[]\": l[0] is half of a character, the lone surrogate \\ud800, and not a \
                 string",
            ),
        ] {
            assert_eq!(text(line, name).as_ref().map_err(String::as_str), Err(expected));
        }
    }
}
