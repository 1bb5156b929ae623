//! A fast parser for the usual batch: queries with a hash, and perhaps a k and a limit.
//!
//! *Invariant*: it returns what serde returns, or `None`. serde then parses the body, and reports its errors.

use super::hashes::{HashFormat, form_of};
use super::similar::{Several, decimal};
use lookalike_hash::{Hash, HashForm};
use lookalike_service::Ask;

impl Several {
    /// Parses a body that has only `queries`, at most `most`, each with a hash and perhaps a k and a limit.
    /// `None` for any other body, also an invalid one, and for hashes in another form: serde parses it, which
    /// takes four times as long.
    pub fn plain(body: &[u8], most: usize, form: Option<HashFormat>) -> Option<Several> {
        if form_of(form) != HashForm::Hex {
            return None;
        }
        let mut rest = Plain(body);
        rest.byte(b'{')?;
        (rest.string()? == b"queries").then_some(())?;
        rest.byte(b':')?;
        rest.byte(b'[')?;
        let mut several = Several::default();
        // An empty list is left to serde.
        loop {
            let ask = rest.ask()?;
            if several.asks.len() == most {
                return None;
            }
            several.push(ask, false);
            if !rest.comma_or(b']')? {
                break;
            }
        }
        rest.byte(b'}')?;
        rest.space();
        rest.0.is_empty().then_some(several)
    }
}

/// The rest of a JSON text.
struct Plain<'a>(&'a [u8]);

impl<'a> Plain<'a> {
    fn space(&mut self) {
        while let [b' ' | b'\n' | b'\r' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    /// Parses this byte, after white space.
    fn byte(&mut self, wanted: u8) -> Option<()> {
        self.space();
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        (first == wanted).then_some(())
    }

    /// Parses a comma or `end`. Returns whether it is a comma.
    fn comma_or(&mut self, end: u8) -> Option<bool> {
        self.space();
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        (first == b',' || first == end).then_some(first == b',')
    }

    /// Parses a string of ASCII letters and digits that is at most as long as a hash.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.byte(b'"')?;
        let within = &self.0[..self.0.len().min(40)];
        let length = within.iter().position(|byte| *byte == b'"')?;
        let (string, rest) = self.0.split_at(length);
        self.0 = &rest[1..];
        string.iter().all(u8::is_ascii_alphanumeric).then_some(string)
    }

    /// Parses a whole number of JSON.
    fn number(&mut self) -> Option<u32> {
        self.space();
        let length = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(length);
        self.0 = rest;
        let is_json = length == 1 || length < 10 && !digits.starts_with(b"0");
        // A fraction or an exponent is refused afterwards, where a comma or an end is expected.
        decimal(std::str::from_utf8(digits).ok()?).filter(|_| is_json)
    }

    fn ask(&mut self) -> Option<Ask> {
        let (mut hash, mut k, mut limit) = (None::<Hash>, None, None);
        self.byte(b'{')?;
        loop {
            let name = self.string()?;
            self.byte(b':')?;
            match name {
                b"hash" if hash.is_none() => {
                    hash = Some(std::str::from_utf8(self.string()?).ok()?.parse().ok()?);
                }
                b"k" if k.is_none() => k = Some(self.number()?),
                b"limit" if limit.is_none() => limit = Some(usize::try_from(self.number()?).ok()?),
                _ => return None,
            }
            if !self.comma_or(b'}')? {
                return Some(Ask::of_hash(hash?, k, limit));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::similar::QueriesIn;
    use super::*;

    /// A member of a query, valid or invalid.
    fn members() -> impl Strategy<Value = String> {
        let names = prop_oneof![
            5 => Just("hash"), 3 => Just("k"), 3 => Just("limit"), 1 => Just("stats"), 1 => Just("text"),
            1 => Just("h\\u0061sh")
        ];
        let values = prop_oneof![
            5 => "\"[0-9a-fA-F]{16}\"",
            2 => "\"(0x)?[0-9a-fA-F]{15,17}\"",
            1 => "\"[0-9a-f]{32}\"",
            1 => "\"[0-9a-f]{64}\"",
            4 => "[1-9][0-9]{0,2}",
            2 => "-?[0-9]{0,12}(\\.[0-9]|e2)?",
            1 => "true|null|\"a\"|\"\\\\n\"|\\[\\]",
        ];
        (names, values).prop_map(|(name, value)| format!("\"{name}\":{value}"))
    }

    /// A body, perhaps with additional or missing white space, commas or brackets.
    fn bodies() -> impl Strategy<Value = String> {
        let hash = "\"hash\": ?\"[0-9a-f]{16}\"";
        let query = prop_oneof![
            3 => hash.prop_map(|hash| format!("{{{hash}}}")),
            3 => (hash, 0..70u32).prop_map(|(hash, k)| format!("{{{hash},\"k\":{k}}}")),
            2 => vec(members(), 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
        ];
        let separator = prop_oneof![9 => Just(","), 3 => Just(" ,\n"), 1 => Just(""), 1 => Just(",,")];
        let frame = prop_oneof![
            9 => Just(("{\"queries\":[", "]}")),
            3 => Just((" {\t\"queries\" : [ ", " ] }\r\n")),
            1 => Just(("{\"queries\":[", "],\"k\":3}")),
            1 => Just(("[", "]")),
            1 => Just(("{\"queries\":[", "]}}")),
        ];
        (vec(query, 0..4), separator, frame)
            .prop_map(|(queries, separator, (begin, end))| format!("{begin}{}{end}", queries.join(separator)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn a_plain_batch_is_parsed_as_serde_parses_it(body in bodies()) {
            if let Some(plain) = Several::plain(body.as_bytes(), 1_000, None) {
                let read: QueriesIn<'_> = serde_json::from_str(&body).unwrap();
                let read = Several::of(&read, 1_000, None).unwrap();
                prop_assert_eq!(format!("{plain:?}"), format!("{read:?}"), "{}", body);
            }
        }
    }

    #[test]
    fn most_batches_are_plain() {
        let one = r#"{"hash":"00000000000000ff","k":3}"#;
        let spaced = r#" { "k" : 0 , "hash" : "0x00000000000000FF", "limit": 5 } "#;
        for queries in [one, spaced, &[one, spaced, one].join(",\n")] {
            for body in [format!("{{\"queries\":[{queries}]}}"), format!("{{\"queries\" : [{queries}] }}\n")]
            {
                assert!(Several::plain(body.as_bytes(), 1_000, None).is_some(), "{body}");
            }
        }
        for other in [
            "",
            "{}",
            r#"{"hash":"00000000000000ff"}"#,
            r#"{"queries":[]}"#,
            r#"{"queries":[{"hash":"00000000000000ff"},]}"#,
            r#"{"queries":[{"hash":"00000000000000ff","k":03}]}"#,
            r#"{"queries":[{"hash":"00000000000000ff","k":3.0}]}"#,
            r#"{"queries":[{"hash":"00000000000000ff","k":3,"k":3}]}"#,
            r#"{"queries":[{"hash":"00000000000000ff","stats":true}]}"#,
            r#"{"queries":[{"hash":"00000000000000ff"}]} x"#,
            r#"{"queries":[{"k":3}]}"#,
        ] {
            assert!(Several::plain(other.as_bytes(), 1_000, None).is_none(), "{other}");
        }
    }
}
