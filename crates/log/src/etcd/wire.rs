//! The JSON of etcd's HTTP gateway.
//!
//! The gateway follows the JSON mapping of protocol buffers: 64-bit numbers are strings, bytes are base64,
//! and a field with the value zero is left out. Field names are those of etcd's `rpc.proto`.
//!
//! *Absent*: what the answers mean, and errors (`refusal`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes, as base64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Base64(pub(super) Bytes);

impl From<&str> for Base64 {
    fn from(text: &str) -> Base64 {
        Base64(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Base64, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Base64;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("base64")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Base64, E> {
                STANDARD.decode(text).map(|bytes| Base64(bytes.into())).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// A 64-bit number: a string in JSON. Other versions of the gateway may write a number.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Text(String),
        Plain(u64),
    }
    match Number::deserialize(deserializer)? {
        Number::Text(text) => text.parse().map_err(de::Error::custom),
        Number::Plain(number) => Ok(number),
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn as_text<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A read of one key, or of all keys from `key` to `end`.
#[derive(Debug, Serialize)]
pub(super) struct Range {
    pub(super) key: Base64,
    #[serde(rename = "range_end", skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<Base64>,
    /// The revision to read at; 0 for the newest one.
    #[serde(serialize_with = "as_text", skip_serializing_if = "is_zero")]
    pub(super) revision: u64,
    pub(super) keys_only: bool,
}

impl Range {
    /// What is known about a key, without its value.
    pub(super) fn keys_only(key: &str, revision: u64) -> Range {
        Range { key: key.into(), end: None, revision, keys_only: true }
    }

    /// The newest value of a key.
    pub(super) fn value(key: &str) -> Range {
        Range { key: key.into(), end: None, revision: 0, keys_only: false }
    }

    /// All keys that begin with a prefix, which ends in a slash, and their values.
    pub(super) fn below(prefix: &str) -> Range {
        let end = format!("{}0", prefix.trim_end_matches('/'));
        Range { end: Some(end.as_str().into()), ..Range::value(prefix) }
    }
}

/// A write of one key.
#[derive(Debug, Serialize)]
pub(super) struct Put {
    pub(super) key: Base64,
    pub(super) value: Base64,
    /// The lease that the key ends with; 0 for none.
    #[serde(serialize_with = "as_text", skip_serializing_if = "is_zero")]
    pub(super) lease: u64,
}

/// One operation of a transaction.
#[derive(Debug, Serialize)]
pub(super) enum Op {
    #[serde(rename = "request_put")]
    Put(Put),
    #[serde(rename = "request_range")]
    Range(Range),
}

/// A condition of a transaction: a property of a key has this value. An absent key has 0.
#[derive(Debug, Serialize)]
#[serde(tag = "target")]
pub(super) enum Compare {
    #[serde(rename = "VERSION")]
    Version {
        key: Base64,
        #[serde(serialize_with = "as_text")]
        version: u64,
    },
    #[serde(rename = "MOD")]
    Revision {
        key: Base64,
        #[serde(serialize_with = "as_text")]
        mod_revision: u64,
    },
    #[serde(rename = "LEASE")]
    Lease {
        key: Base64,
        #[serde(serialize_with = "as_text")]
        lease: u64,
    },
}

/// A transaction: `success` if the condition holds, otherwise `failure`.
#[derive(Debug, Serialize)]
pub(super) struct Txn {
    pub(super) compare: [Compare; 1],
    pub(super) success: Vec<Op>,
    pub(super) failure: Vec<Op>,
}

/// A request for a new lease.
#[derive(Debug, Serialize)]
pub(super) struct Grant {
    #[serde(rename = "TTL", serialize_with = "as_text")]
    pub(super) seconds: u64,
}

/// A request that names a lease: to renew it or to end it.
#[derive(Debug, Serialize)]
pub(super) struct LeaseId {
    #[serde(rename = "ID", serialize_with = "as_text")]
    pub(super) id: u64,
}

/// A request to remove what is older than a revision.
#[derive(Debug, Serialize)]
pub(super) struct Compaction {
    #[serde(serialize_with = "as_text")]
    pub(super) revision: u64,
}

/// A request to read or clear alarms.
#[derive(Debug, Serialize)]
pub(super) struct AlarmRequest {
    pub(super) action: &'static str,
    #[serde(rename = "memberID", serialize_with = "as_text", skip_serializing_if = "is_zero")]
    pub(super) member: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) alarm: Option<&'static str>,
}

/// A request for a token.
#[derive(Serialize)]
pub(super) struct Authenticate<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a str,
}

/// A request for the changes of a key.
#[derive(Debug, Serialize)]
pub(super) struct WatchRequest {
    pub(super) create_request: WatchCreate,
}

/// The changes to send. Without `fragment`, etcd puts up to 1,000 changes into one answer, whatever their
/// size.
#[derive(Debug, Serialize)]
pub(super) struct WatchCreate {
    pub(super) key: Base64,
    #[serde(serialize_with = "as_text")]
    pub(super) start_revision: u64,
    pub(super) fragment: bool,
}

/// A request without fields.
#[derive(Debug, Serialize)]
pub(super) struct Nothing {}

/// The header of every answer, except that to `alarm` and `defragment`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Header {
    #[serde(deserialize_with = "number")]
    pub(super) cluster_id: u64,
    #[serde(deserialize_with = "number")]
    pub(super) member_id: u64,
    #[serde(deserialize_with = "number")]
    pub(super) revision: u64,
}

/// An answer, of which only the header is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Headed {
    pub(super) header: Header,
}

/// A key.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct KeyValue {
    pub(super) key: Base64,
    pub(super) value: Base64,
    #[serde(deserialize_with = "number")]
    pub(super) create_revision: u64,
    #[serde(deserialize_with = "number")]
    pub(super) mod_revision: u64,
    #[serde(deserialize_with = "number")]
    pub(super) version: u64,
}

/// The answer to a read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RangeAnswer {
    pub(super) header: Header,
    pub(super) kvs: Vec<KeyValue>,
}

/// The answer to a transaction.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TxnAnswer {
    pub(super) header: Header,
    pub(super) succeeded: bool,
    pub(super) responses: Vec<OpAnswer>,
}

impl TxnAnswer {
    /// The key that the read in `failure` found.
    pub(super) fn found(self) -> Option<KeyValue> {
        self.responses.into_iter().next()?.response_range?.kvs.into_iter().next()
    }
}

/// The answer to one operation of a transaction.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OpAnswer {
    pub(super) response_range: Option<RangeAnswer>,
}

/// The answer to a grant or a renewal. The time to live is 0 if the lease has ended.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lease {
    #[serde(rename = "ID", deserialize_with = "number")]
    pub(super) id: u64,
    #[serde(rename = "TTL", deserialize_with = "number")]
    pub(super) seconds: u64,
}

/// A token.
#[derive(Deserialize)]
pub(super) struct Token {
    pub(super) token: String,
}

/// The state of one server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StatusAnswer {
    pub(super) header: Header,
    pub(super) version: String,
    #[serde(rename = "dbSize", deserialize_with = "number")]
    pub(super) db_size: u64,
    #[serde(rename = "dbSizeInUse", deserialize_with = "number")]
    pub(super) db_size_in_use: u64,
    #[serde(deserialize_with = "number")]
    pub(super) leader: u64,
}

/// The alarms of an etcd cluster.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AlarmAnswer {
    pub(super) alarms: Vec<AlarmMember>,
}

/// An alarm of one server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AlarmMember {
    #[serde(rename = "memberID", deserialize_with = "number")]
    pub(super) member: u64,
    pub(super) alarm: String,
}

/// One line of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct Line<T> {
    pub(super) result: Option<T>,
    pub(super) error: Option<StreamError>,
}

/// The error that ends a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamError {
    #[serde(alias = "code")]
    pub(super) grpc_code: u32,
    pub(super) message: String,
}

/// Changes of a watched key.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WatchAnswer {
    pub(super) header: Header,
    pub(super) canceled: bool,
    pub(super) cancel_reason: String,
    #[serde(deserialize_with = "number")]
    pub(super) compact_revision: u64,
    pub(super) events: Vec<Event>,
}

/// A change of a key. The kind is left out for a write.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) kv: KeyValue,
}

/// The body of a refusal. Versions differ in which field has the text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RefusalBody {
    pub(super) error: Option<String>,
    pub(super) message: Option<String>,
    pub(super) code: Option<u32>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, to_value};

    use super::*;

    fn base64(text: &str) -> String {
        STANDARD.encode(text)
    }

    #[test]
    fn requests_have_the_form_of_the_gateway() {
        let compare = Compare::Revision { key: "lane".into(), mod_revision: 7 };
        let put = Put { key: "log".into(), value: "v".into(), lease: 0 };
        let touch = Put { key: "lane".into(), value: Base64::default(), lease: u64::MAX };
        let failure = vec![Op::Range(Range::keys_only("lane", 0))];
        let txn = Txn { compare: [compare], success: vec![Op::Put(put), Op::Put(touch)], failure };
        let expected = json!({
            "compare": [{ "target": "MOD", "key": base64("lane"), "mod_revision": "7" }],
            "success": [
                { "request_put": { "key": base64("log"), "value": base64("v") } },
                { "request_put": { "key": base64("lane"), "value": "", "lease": "18446744073709551615" } },
            ],
            "failure": [{ "request_range": { "key": base64("lane"), "keys_only": true } }],
        });
        assert_eq!(to_value(txn).unwrap(), expected);
        let below = to_value(Range::below("/a/")).unwrap();
        assert_eq!(below["range_end"], base64("/a0"), "0 follows the slash");
        let at = to_value(Range::keys_only("log", 5)).unwrap();
        assert_eq!(at, json!({ "key": base64("log"), "revision": "5", "keys_only": true }));
        let lease = to_value(LeaseId { id: 5 }).unwrap();
        assert_eq!(lease, json!({ "ID": "5" }));
    }

    #[test]
    fn answers_of_etcd_3_4_are_read() {
        let applied = r#"{"header":{"cluster_id":"324952591200643719","member_id":"3319814642761637952",
            "revision":"2","raft_term":"2"},"succeeded":true,
            "responses":[{"response_put":{"header":{"revision":"2"}}}]}"#;
        let applied: TxnAnswer = serde_json::from_str(applied).unwrap();
        let found = (applied.succeeded, applied.header.revision, applied.header.cluster_id);
        assert_eq!(found, (true, 2, 324_952_591_200_643_719));
        assert!(applied.found().is_none());

        let refused = r#"{"header":{"revision":"9"},"responses":[{"response_range":{"header":{"revision":"2"},
            "kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"8","version":"4"}],"count":"1"}}]}"#;
        let refused: TxnAnswer = serde_json::from_str(refused).unwrap();
        assert!(!refused.succeeded, "false is left out");
        let found = refused.found().unwrap();
        assert_eq!((found.mod_revision, found.version, found.value.0.len()), (8, 4, 0));

        let absent: TxnAnswer =
            serde_json::from_str(r#"{"responses":[{"response_range":{"header":{"revision":"2"}}}]}"#)
                .unwrap();
        assert!(absent.found().is_none());

        let ended: Line<Lease> = serde_json::from_str(r#"{"result":{"header":{},"ID":"12345"}}"#).unwrap();
        assert_eq!(ended.result.unwrap().seconds, 0, "a lease that has ended has no time to live");
        let headless: Headed = serde_json::from_str("{}").unwrap();
        assert_eq!(headless.header.cluster_id, 0);
    }

    #[test]
    fn lines_of_a_watch_are_read() {
        let line = |text: &str| serde_json::from_str::<Line<WatchAnswer>>(text).unwrap();
        let event = r#"{"result":{"header":{"revision":"4"},"events":[{"kv":{"key":"YQ==","create_revision":
            "2","mod_revision":"4","version":"2","value":"aGk="}}],"fragment":true}}"#;
        let answer = line(event).result.unwrap();
        let kv = &answer.events[0].kv;
        assert_eq!((kv.mod_revision, kv.version, &kv.value.0[..]), (4, 2, &b"hi"[..]));
        assert!(answer.events[0].kind.is_none(), "a write has no type");
        let deleted = line(r#"{"result":{"events":[{"type":"DELETE","kv":{"mod_revision":"5"}}]}}"#);
        assert_eq!(deleted.result.unwrap().events[0].kind.as_deref(), Some("DELETE"));
        let compacted = line(r#"{"result":{"header":{},"canceled":true,"compact_revision":"2"}}"#);
        assert_eq!(compacted.result.unwrap().compact_revision, 2);
        let denied =
            line(r#"{"result":{"watch_id":"-1","created":true,"canceled":true,"cancel_reason":"x"}}"#);
        assert!(denied.result.unwrap().canceled);
        let error = line(r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}}"#);
        assert_eq!(error.error.unwrap().grpc_code, 14);
    }

    #[test]
    fn numbers_may_be_text_or_not() {
        let read = |revision: Value| serde_json::from_value::<Header>(json!({ "revision": revision }));
        assert_eq!(read(json!("18446744073709551615")).unwrap().revision, u64::MAX);
        assert_eq!(read(json!(5)).unwrap().revision, 5);
        assert!(read(json!("x")).is_err() && read(json!(-1)).is_err());
    }

    #[test]
    fn base64_that_is_none_is_refused() {
        assert!(serde_json::from_str::<Base64>(r#""!!""#).is_err());
        let bytes = Base64(Bytes::from((0..=255).collect::<Vec<u8>>()));
        let text = serde_json::to_string(&bytes).unwrap();
        assert_eq!(serde_json::from_str::<Base64>(&text).unwrap(), bytes);
    }
}
