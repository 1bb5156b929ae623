//! Filters of documents on the wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::few::Few;
use super::values::{Id, Timestamp};
use crate::parse::Object;
use lookalike_hash::seconds;
use lookalike_service::{Bound, FieldCondition, Filter, Relation, Strict};
use lookalike_wording::told;

/// Maximum bytes of the metadata of a filter.
const FILTER_BYTES: usize = 64 << 10;
/// What a condition can be, for messages.
const GRAMMAR: &str = "a condition is a value, an array of values of which one must be equal, or an object \
                       with gt, gte, lt, lte (a number, or a time such as 2026-11-21T09:30:00Z), exists \
                       (true or false) and not (a condition); a member of an object is written as its path, \
                       \"a.b\"";

/// Which documents are meant. All conditions must hold.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Filter)]
pub(super) struct FilterIn {
    /// Fields of the metadata, with their conditions. `a.b` is the member `b` of `a`. A condition is a value
    /// that the field must have; an array of values, one of which it must have; or an object with one or more
    /// of `gt`, `gte`, `lt`, `lte` (a number, or a time of RFC 3339), `exists` (whether the field is there
    /// and not null) and `not` (a condition that must not hold). For a field with an array, one element must
    /// satisfy it.
    #[serde(default, deserialize_with = "conditions")]
    #[schema(
        value_type = BTreeMap<String, Value>,
        example = json!({"source": ["rss", "web"], "year": {"gte": 2020, "lt": 2026}})
    )]
    metadata: BTreeMap<String, FieldCondition>,
    /// Ids of documents that are left out.
    #[serde(default)]
    #[schema(value_type = Vec<Id>, example = json!([]))]
    exclude: Few<Id>,
    /// Only documents whose ids begin with this. A list or a deletion reads no others.
    #[serde(default)]
    #[schema(example = "")]
    id_prefix: String,
    /// Only documents whose deletion is planned, or only the others.
    deletion_planned: Option<bool>,
    /// Only documents written at this time or later.
    #[schema(value_type = Option<Timestamp>, example = "2020-01-01T00:00:00Z")]
    written_from: Option<Timestamp>,
    /// Only documents written before this time.
    #[schema(value_type = Option<Timestamp>, example = "2100-01-01T00:00:00Z")]
    written_before: Option<Timestamp>,
}

impl From<FilterIn> for Filter {
    fn from(filter: FilterIn) -> Filter {
        Filter {
            exclude: Arc::new(filter.exclude.0.into_iter().map(|id| id.0).collect()),
            id_prefix: filter.id_prefix,
            is_planned: filter.deletion_planned,
            metadata: filter.metadata,
            written_from_ms: filter.written_from.map(|time| time.0),
            written_before_ms: filter.written_before.map(|time| time.0),
        }
    }
}

/// A filter in the query string: the JSON of [`FilterIn`].
#[derive(Debug)]
pub(super) struct FilterParam(pub Box<Filter>);

impl<'de> Deserialize<'de> for FilterParam {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FilterParam, D::Error> {
        let text = String::deserialize(deserializer)?;
        let read = serde_json::from_str::<Object<FilterIn>>(&text).map_err(|error| {
            let detail = format!(
                "filter is JSON such as {{\"metadata\": {{\"source\": \"rss\"}}}}, percent-encoded: {}",
                told(text.as_bytes(), &error).0
            );
            D::Error::custom(detail)
        });
        Ok(FilterParam(Box::new(read?.0.into())))
    }
}

/// Parses fields with distinct names, and with conditions that can be evaluated.
fn conditions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, FieldCondition>, D::Error> {
    // The length is checked before the values are parsed: a value may use many times its length in memory.
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    if raw.get().len() > FILTER_BYTES {
        let detail = format!(
            "the metadata of a filter has {} bytes; at most {FILTER_BYTES} are accepted: use fewer fields",
            raw.get().len()
        );
        return Err(D::Error::custom(detail));
    }
    let read = serde_json::from_str(raw.get());
    let Strict(value) = read.map_err(|error| D::Error::custom(told(raw.get().as_bytes(), &error).0))?;
    if Strict::has_huge_number(&value) {
        let detail = "a number past 2^64 cannot be compared exactly; store it and filter by it as a string";
        return Err(D::Error::custom(detail));
    }
    let Value::Object(members) = value else {
        return Err(D::Error::custom("expected an object of fields and conditions"));
    };
    let read = |(name, value)| {
        let condition = condition(value)
            .map_err(|detail| D::Error::custom(format!("the condition on {name:?}: {detail}; {GRAMMAR}")))?;
        Ok((name, condition))
    };
    members.into_iter().map(read).collect()
}

fn condition(value: Value) -> Result<FieldCondition, String> {
    match value {
        Value::Object(members) if members.is_empty() => Err("the object is empty".to_owned()),
        Value::Object(members) => {
            let mut all = members
                .into_iter()
                .map(|(operator, operand)| condition_of(&operator, operand))
                .collect::<Result<Vec<FieldCondition>, String>>()?;
            Ok(if all.len() == 1 { all.remove(0) } else { FieldCondition::All(all) })
        }
        Value::Array(values) if values.is_empty() => Err(
            "the array is empty, and no field is equal to one of no values; leave the field out to admit \
                 all documents"
                .to_owned(),
        ),
        Value::Array(values) if values.iter().any(|value| value.is_array() || value.is_object()) => {
            Err("the array has an array or an object, and no field can be equal to it".to_owned())
        }
        Value::Array(values) => Ok(FieldCondition::AnyOf(values.into())),
        value => Ok(FieldCondition::AnyOf(vec![value].into())),
    }
}

fn condition_of(operator: &str, operand: Value) -> Result<FieldCondition, String> {
    let than = |relation| Ok(FieldCondition::Than(relation, bound(operator, &operand)?));
    match operator {
        "gt" => than(Relation::Greater),
        "gte" => than(Relation::AtLeast),
        "lt" => than(Relation::Less),
        "lte" => than(Relation::AtMost),
        "exists" => match operand {
            Value::Bool(wanted) => Ok(FieldCondition::Exists(wanted)),
            _ => Err("exists is true or false".to_owned()),
        },
        "not" => Ok(FieldCondition::Not(Box::new(condition(operand)?))),
        _ => Err(format!("there is no operator {operator:?}")),
    }
}

fn bound(operator: &str, operand: &Value) -> Result<Bound, String> {
    let wrong = || format!("{operator} takes a number or a time such as 2026-11-21T09:30:00Z, not {operand}");
    match operand {
        Value::Number(number) => Ok(Bound::Number(number.clone())),
        Value::String(text) => seconds(text.trim()).map(Bound::Time).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(metadata: &str) -> Result<Filter, String> {
        let text = format!("{{\"metadata\":{metadata}}}");
        let read = serde_json::from_str::<Object<FilterIn>>(&text);
        read.map(|filter| filter.0.into()).map_err(|error| error.to_string())
    }

    #[test]
    fn conditions_are_read_and_others_are_refused_with_the_grammar() {
        for good in [
            "{}",
            r#"{"a":1,"b":"x","c":null,"d":true}"#,
            r#"{"a":[1,"x",null]}"#,
            r#"{"a":{"gt":1,"lte":2.5},"b":{"gte":"2026-11-21","lt":"2026-11-21T09:30:00+08:00"}}"#,
            r#"{"a":{"exists":false},"b":{"not":{"not":["x"]}},"c.d":{"not":null}}"#,
        ] {
            read(good).unwrap();
        }
        for (wrong, reason) in [
            (r#"{"a":{}}"#, "the object is empty"),
            (r#"{"a":[]}"#, "the array is empty"),
            (r#"{"a":{"not":[]}}"#, "leave the field out"),
            (r#"{"a":{"b":1}}"#, "no operator \"b\""),
            (r#"{"a":{"gt":"soon"}}"#, "gt takes a number or a time"),
            (r#"{"a":{"lt":[1]}}"#, "lt takes a number or a time"),
            (r#"{"a":{"exists":1}}"#, "exists is true or false"),
            (r#"{"a":[[1]]}"#, "the array has an array"),
            (r#"{"a":{"not":{"is":1}}}"#, "no operator \"is\""),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(reason) && error.contains(GRAMMAR), "{wrong}: {error}");
        }
        assert!(read("[1]").unwrap_err().contains("an object of fields and conditions"));
    }
}
