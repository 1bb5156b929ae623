//! Batches of hashes as most of them are, read without a step for each kind of value that there could be.
//!
//! *Invariant*: what is read here is what serde reads; what is not, is left to it with all its messages.

use super::similar::{KEPT, SeveralIn, decimal};
use crate::ids::Hash;
use crate::service::Ask;

impl SeveralIn {
    /// Reads a body of `queries` alone, each a hash and perhaps k and a limit, as most batches are: `None` if
    /// there is anything else to it, be it a fault. That is for the usual way, which takes four times as
    /// long.
    pub(in crate::http) fn plain(body: &[u8]) -> Option<SeveralIn> {
        let mut rest = Plain(body);
        rest.byte(b'{')?;
        (rest.string()? == b"queries").then_some(())?;
        rest.byte(b':')?;
        rest.byte(b'[')?;
        let mut several = SeveralIn::default();
        // An empty list is for the usual way as well.
        loop {
            let ask = rest.ask()?;
            several.count += 1;
            if several.count > KEPT {
                return None;
            }
            several.asks.push(ask);
            several.stats.push(false);
            if !rest.goes_on(b']')? {
                break;
            }
        }
        rest.byte(b'}')?;
        rest.space();
        rest.0.is_empty().then_some(several)
    }
}

/// What is left of a text in JSON of which only the plainest is read.
struct Plain<'a>(&'a [u8]);

impl<'a> Plain<'a> {
    fn space(&mut self) {
        while let [b' ' | b'\n' | b'\r' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    /// This byte, after any space.
    fn byte(&mut self, wanted: u8) -> Option<()> {
        self.space();
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        (first == wanted).then_some(())
    }

    /// Whether a comma comes, and not the end of what is read.
    fn goes_on(&mut self, end: u8) -> Option<bool> {
        self.space();
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        (first == b',' || first == end).then_some(first == b',')
    }

    /// A string without anything that is escaped, and no longer than a hash.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.byte(b'"')?;
        let within = &self.0[..self.0.len().min(40)];
        let length = within.iter().position(|byte| *byte == b'"')?;
        let (string, rest) = self.0.split_at(length);
        self.0 = &rest[1..];
        string.iter().all(u8::is_ascii_alphanumeric).then_some(string)
    }

    /// A whole number as JSON has it.
    fn number(&mut self) -> Option<u32> {
        self.space();
        let length = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(length);
        self.0 = rest;
        let is_json = length == 1 || length < 10 && !digits.starts_with(b"0");
        // What follows decides whether that was all of it: a fraction is no comma.
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
            if !self.goes_on(b'}')? {
                return Some(Ask::of_hash(hash?, k, limit));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::similar::SimilarIn;
    use super::*;

    /// A member of a question, right or wrong.
    fn members() -> impl Strategy<Value = String> {
        let names = prop_oneof![
            5 => Just("hash"), 3 => Just("k"), 3 => Just("limit"), 1 => Just("stats"), 1 => Just("text"),
            1 => Just("h\\u0061sh")
        ];
        let values = prop_oneof![
            5 => "\"[0-9a-fA-F]{16}\"",
            2 => "\"(0x)?[0-9a-fA-F]{15,17}\"",
            1 => "\"[0-9a-f]{32}\"",
            4 => "[1-9][0-9]{0,2}",
            2 => "-?[0-9]{0,12}(\\.[0-9]|e2)?",
            1 => "true|null|\"a\"|\"\\\\n\"|\\[\\]",
        ];
        (names, values).prop_map(|(name, value)| format!("\"{name}\":{value}"))
    }

    /// A body with space, a comma or a bracket more or less here and there.
    fn bodies() -> impl Strategy<Value = String> {
        let hash = "\"hash\": ?\"[0-9a-f]{16}\"";
        let question = prop_oneof![
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
        (vec(question, 0..4), separator, frame).prop_map(|(questions, separator, (begin, end))| {
            format!("{begin}{}{end}", questions.join(separator))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn a_plain_batch_is_read_as_serde_reads_it(body in bodies()) {
            if let Some(plain) = SeveralIn::plain(body.as_bytes()) {
                let read: SimilarIn = serde_json::from_str(&body).unwrap();
                prop_assert!(!read.has_single(), "{}", body);
                prop_assert_eq!(format!("{plain:?}"), format!("{:?}", read.queries.unwrap()), "{}", body);
            }
        }
    }

    #[test]
    fn most_batches_are_plain() {
        let one = r#"{"hash":"00000000000000ff","k":3}"#;
        let spaced = r#" { "k" : 0 , "hash" : "0x00000000000000FF", "limit": 5 } "#;
        for questions in [one, spaced, &[one, spaced, one].join(",\n")] {
            for body in
                [format!("{{\"queries\":[{questions}]}}"), format!("{{\"queries\" : [{questions}] }}\n")]
            {
                assert!(SeveralIn::plain(body.as_bytes()).is_some(), "{body}");
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
            assert!(SeveralIn::plain(other.as_bytes()).is_none(), "{other}");
        }
    }
}
