//! Filters: which documents a query may return.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Number, Value};

use lookalike_hash::{DocumentId, seconds};
use lookalike_store::RowHead;

/// Conditions on documents. A document must satisfy all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Documents to exclude.
    pub exclude: Arc<BTreeSet<DocumentId>>,
    /// The beginning of the id; empty for any.
    pub id_prefix: String,
    /// Whether a deletion of the document is planned.
    pub is_planned: Option<bool>,
    /// Metadata fields and their conditions. `a.b` is the field of that name, or else `b` in the object `a`.
    pub metadata: BTreeMap<String, FieldCondition>,
    /// Written at this time or later, in milliseconds since 1970-01-01 UTC.
    pub written_from_ms: Option<u64>,
    /// Written before this time.
    pub written_before_ms: Option<u64>,
}

/// A condition on a metadata field. It holds for an array if it holds for one of its elements.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldCondition {
    /// The field has one of these values.
    AnyOf(AnyOf),
    /// The field is a number, or a time, that compares so.
    Than(Relation, Bound),
    /// Whether the document has the field with a value other than null.
    Exists(bool),
    /// The condition does not hold, also because the document does not have the field.
    Not(Box<FieldCondition>),
    /// All of these hold.
    All(Vec<FieldCondition>),
}

/// Values, one of which a field must have. Numbers are equal if their values are. They are sorted, because a
/// field may have thousands of elements, each of which is compared with thousands of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnyOf {
    strings: BTreeSet<String>,
    /// In ascending order.
    numbers: Vec<Number>,
    /// Without repetition, so these are few: there are only `null`, `true` and `false`.
    others: Vec<Value>,
}

impl From<Vec<Value>> for AnyOf {
    fn from(values: Vec<Value>) -> AnyOf {
        let mut all = AnyOf::default();
        for value in values {
            match value {
                Value::String(text) => {
                    all.strings.insert(text);
                }
                Value::Number(number) => all.numbers.push(number),
                other if all.others.contains(&other) => {}
                other => all.others.push(other),
            }
        }
        all.numbers.sort_by(|one, other| compare(one, other).unwrap_or(Ordering::Equal));
        all
    }
}

impl AnyOf {
    fn has(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.strings.contains(text),
            Value::Number(number) => {
                let order = |one: &Number| compare(one, number).unwrap_or(Ordering::Less);
                self.numbers.binary_search_by(order).is_ok()
            }
            other => self.others.contains(other),
        }
    }
}

/// How a field compares with a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It is greater.
    Greater,
    /// It is greater or equal.
    AtLeast,
    /// It is less.
    Less,
    /// It is less or equal.
    AtMost,
}

/// The bound of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// A number. Fields that are not numbers do not compare.
    Number(Number),
    /// A time, in seconds since 1970-01-01 UTC. Fields that are not strings with a time do not compare.
    Time(f64),
}

impl Filter {
    /// A filter that excludes only this document.
    pub fn without(id: DocumentId) -> Filter {
        Filter { exclude: Arc::new(BTreeSet::from([id])), ..Filter::default() }
    }

    /// Excludes this document, too.
    pub fn exclude(&mut self, id: DocumentId) {
        Arc::make_mut(&mut self.exclude).insert(id);
    }

    /// Whether the document is excluded by its id alone.
    pub(super) fn excludes(&self, id: &DocumentId) -> bool {
        self.exclude.contains(id) || !id.as_str().starts_with(&self.id_prefix)
    }

    /// Whether a row satisfies the conditions other than the id.
    pub(super) fn admits(&self, row: &RowHead) -> bool {
        let in_time = self.written_from_ms.is_none_or(|from| row.written_ms >= from)
            && self.written_before_ms.is_none_or(|before| row.written_ms < before);
        let is_planned = row.lifetime.deletion_ms().is_some();
        let has_plan = self.is_planned.is_none_or(|wanted| wanted == is_planned);
        in_time && has_plan && (self.metadata.is_empty() || self.admits_metadata(row.metadata.as_deref()))
    }

    /// Whether the row must be read to apply the filter.
    pub(super) fn needs_row(&self) -> bool {
        let has_times = self.written_from_ms.is_some() || self.written_before_ms.is_some();
        !self.metadata.is_empty() || has_times || self.is_planned.is_some()
    }

    fn admits_metadata(&self, metadata: Option<&str>) -> bool {
        let metadata: Value =
            metadata.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
        self.metadata.iter().all(|(name, condition)| condition.holds(member(&metadata, name)))
    }
}

impl FieldCondition {
    /// Whether it holds for a field; `None` if the document does not have it.
    fn holds(&self, field: Option<&Value>) -> bool {
        match self {
            FieldCondition::AnyOf(values) => any_element(field, |field| values.has(field)),
            FieldCondition::Than(relation, bound) => any_element(field, |field| {
                order(field, bound).is_some_and(|ordering| match relation {
                    Relation::Greater => ordering.is_gt(),
                    Relation::AtLeast => ordering.is_ge(),
                    Relation::Less => ordering.is_lt(),
                    Relation::AtMost => ordering.is_le(),
                })
            }),
            FieldCondition::Exists(wanted) => field.is_some_and(|field| !field.is_null()) == *wanted,
            FieldCondition::Not(condition) => !condition.holds(field),
            FieldCondition::All(conditions) => conditions.iter().all(|condition| condition.holds(field)),
        }
    }
}

/// The member of an object with this name, or by the path that its dots separate.
pub(super) fn member<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let by_path = || name.split('.').try_fold(object, |value, part| value.get(part));
    object.get(name).or_else(by_path)
}

/// Whether it is true for a field, or for an element of it if it is an array.
fn any_element(field: Option<&Value>, is: impl Fn(&Value) -> bool) -> bool {
    match field {
        None => false,
        Some(Value::Array(elements)) => elements.iter().any(is),
        Some(field) => is(field),
    }
}

/// The order of a field and a bound; `None` if they do not compare.
fn order(field: &Value, bound: &Bound) -> Option<Ordering> {
    match (field, bound) {
        (Value::Number(field), Bound::Number(bound)) => compare(field, bound),
        (Value::String(field), Bound::Time(bound)) => seconds(field.trim())?.partial_cmp(bound),
        _ => None,
    }
}

/// The order of two numbers, exact also for whole numbers above 2^53.
fn compare(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        (Some(one), None) => compare_whole(one, other.as_f64()?),
        (None, Some(other)) => compare_whole(other, one.as_f64()?).map(Ordering::reverse),
        (None, None) => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// The order of a whole number of 64 bits and another number.
#[allow(clippy::cast_possible_truncation, reason = "the floor of a number below 2^100 fits")]
fn compare_whole(one: i128, other: f64) -> Option<Ordering> {
    if other.abs() >= 2f64.powi(100) {
        return 0.0.partial_cmp(&other);
    }
    let floor = other.floor();
    Some(one.cmp(&(floor as i128)).then(if other > floor { Ordering::Less } else { Ordering::Equal }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn number(value: &Value) -> &Number {
        value.as_number().unwrap()
    }

    #[test]
    fn conditions_hold_for_fields_elements_and_paths() {
        let metadata = json!({"year": 2026, "tags": ["a", "b"], "at": "2026-11-25T10:00:00Z", "x.y": 1,
            "meta": {"set": "wiki", "none": null}, "big": 9_007_199_254_740_993u64});
        let any_of = |values: Value| FieldCondition::AnyOf(values.as_array().unwrap().clone().into());
        let than = |relation, bound| FieldCondition::Than(relation, bound);
        let of = |value: Value| Bound::Number(number(&value).clone());
        let time = |text: &str| Bound::Time(seconds(text).unwrap());
        let not = |condition| FieldCondition::Not(Box::new(condition));
        for (field, condition, expected) in [
            ("year", any_of(json!([2025, 2026.0])), true),
            ("year", any_of(json!(["2026"])), false),
            ("tags", any_of(json!(["c", "b"])), true),
            ("tags", not(any_of(json!(["b"]))), false),
            ("meta.set", any_of(json!(["wiki"])), true),
            ("x.y", any_of(json!([1])), true),
            ("year", than(Relation::Greater, of(json!(2025.5))), true),
            ("year", than(Relation::Less, of(json!(2026))), false),
            ("year", than(Relation::AtMost, of(json!(2026))), true),
            ("big", than(Relation::Greater, of(json!(9_007_199_254_740_992.0))), true),
            ("big", any_of(json!([9_007_199_254_740_992.0])), false),
            ("at", than(Relation::AtLeast, time("2026-11-25T11:00:00+01:00")), true),
            ("at", than(Relation::Less, time("2026-11-25")), false),
            ("at", than(Relation::Less, of(json!(1e300))), false),
            ("year", than(Relation::Less, time("2030-01-01")), false),
            ("meta.none", FieldCondition::Exists(true), false),
            ("meta.set", FieldCondition::Exists(true), true),
            ("meta.other", FieldCondition::Exists(false), true),
            ("meta.other", not(any_of(json!([1]))), true),
            ("meta.other", any_of(json!([null])), false),
            ("meta.none", any_of(json!([null])), true),
            ("year", FieldCondition::All(vec![FieldCondition::Exists(true), any_of(json!([1]))]), false),
        ] {
            assert_eq!(condition.holds(member(&metadata, field)), expected, "{field} {condition:?}");
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_compare_as_real_numbers_do(
            whole in any::<i64>(),
            off in -2i64..3,
            half in any::<bool>(),
        ) {
            let other = whole.saturating_add(off);
            prop_assert_eq!(compare(&whole.into(), &other.into()), Some(whole.cmp(&other)));
            // A number of 52 bits and a half is exact as a float.
            let (small, near) = (whole >> 12, (whole >> 12) + off);
            let float = near as f64 + if half { 0.5 } else { 0.0 };
            let expected = (2 * i128::from(small)).cmp(&(2 * i128::from(near) + i128::from(half)));
            let float = Number::from_f64(float).unwrap();
            prop_assert_eq!(compare(&small.into(), &float), Some(expected));
            prop_assert_eq!(compare(&float, &small.into()), Some(expected.reverse()));
        }
    }
}
