//! Filters in questions to other servers.
//!
//! *Guarantees*: a filter is read as it was written; a condition that is too deep is refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::engine::{AnyOf, Bound, FieldCondition, Filter, Relation};
use crate::ids::DocumentId;

/// How deep a condition on metadata may be: as deep as JSON is read.
const MAX_DEPTH: usize = 128;

#[derive(Serialize, Deserialize)]
pub(super) struct FilterLayout {
    exclude: Vec<String>,
    metadata: Vec<(String, Vec<ConditionLayout>)>,
    written: (Option<u64>, Option<u64>),
}

/// A part of a condition, which is written as a list: each part before those that it is made of. So bytes
/// from outside cannot make the reader use more of the stack than [`MAX_DEPTH`] allows.
#[derive(Serialize, Deserialize)]
enum ConditionLayout {
    AnyOf(Vec<ValueLayout>),
    Than(u8, Result<ValueLayout, f64>),
    Exists(bool),
    Not,
    All(usize),
}

/// A value of JSON. Numbers keep all bits, which their text may not.
#[derive(Serialize, Deserialize)]
enum ValueLayout {
    Natural(u64),
    Whole(i64),
    Real(f64),
    Other(String),
}

impl From<&Filter> for FilterLayout {
    fn from(filter: &Filter) -> FilterLayout {
        let condition = |(name, condition): (&String, &FieldCondition)| {
            let mut parts = Vec::new();
            write_condition(condition, &mut parts);
            (name.clone(), parts)
        };
        FilterLayout {
            exclude: filter.exclude.iter().map(|id| id.as_str().to_owned()).collect(),
            metadata: filter.metadata.iter().map(condition).collect(),
            written: (filter.written_from_ms, filter.written_before_ms),
        }
    }
}

/// `None` if it is damaged.
pub(super) fn read_filter(filter: FilterLayout) -> Option<Box<Filter>> {
    let FilterLayout { exclude, metadata, written } = filter;
    let exclude = exclude.iter().map(|id| DocumentId::new(id).ok()).collect::<Option<_>>()?;
    let metadata = metadata.into_iter().map(|(name, parts)| {
        let mut parts = parts.into_iter();
        let condition = read_condition(&mut parts, MAX_DEPTH)?;
        parts.next().is_none().then_some((name, condition))
    });
    let metadata = metadata.collect::<Option<BTreeMap<_, _>>>()?;
    let (written_from_ms, written_before_ms) = written;
    Some(Box::new(Filter { exclude, metadata, written_from_ms, written_before_ms, partitions: None }))
}

fn write_condition(condition: &FieldCondition, to: &mut Vec<ConditionLayout>) {
    match condition {
        FieldCondition::AnyOf(values) => {
            to.push(ConditionLayout::AnyOf(values.values().iter().map(ValueLayout::from).collect()));
        }
        FieldCondition::Than(relation, bound) => {
            let relation = match relation {
                Relation::Greater => 0,
                Relation::AtLeast => 1,
                Relation::Less => 2,
                Relation::AtMost => 3,
            };
            let bound = match bound {
                Bound::Number(number) => Ok(ValueLayout::from(&Value::Number(number.clone()))),
                Bound::Time(seconds) => Err(*seconds),
            };
            to.push(ConditionLayout::Than(relation, bound));
        }
        FieldCondition::Exists(wanted) => to.push(ConditionLayout::Exists(*wanted)),
        FieldCondition::Not(condition) => {
            to.push(ConditionLayout::Not);
            write_condition(condition, to);
        }
        FieldCondition::All(all) => {
            to.push(ConditionLayout::All(all.len()));
            all.iter().for_each(|one| write_condition(one, to));
        }
    }
}

/// `None` if it is damaged, or deeper than this.
fn read_condition(parts: &mut impl Iterator<Item = ConditionLayout>, depth: usize) -> Option<FieldCondition> {
    let within = depth.checked_sub(1)?;
    Some(match parts.next()? {
        ConditionLayout::AnyOf(values) => {
            let values = values.into_iter().map(ValueLayout::read).collect::<Option<Vec<_>>>()?;
            FieldCondition::AnyOf(AnyOf::from(values))
        }
        ConditionLayout::Than(relation, bound) => {
            let relations = [Relation::Greater, Relation::AtLeast, Relation::Less, Relation::AtMost];
            let bound = match bound {
                Ok(number) => match number.read()? {
                    Value::Number(number) => Bound::Number(number),
                    _ => return None,
                },
                Err(seconds) => Bound::Time(seconds),
            };
            FieldCondition::Than(*relations.get(usize::from(relation))?, bound)
        }
        ConditionLayout::Exists(wanted) => FieldCondition::Exists(wanted),
        ConditionLayout::Not => FieldCondition::Not(Box::new(read_condition(parts, within)?)),
        ConditionLayout::All(count) => {
            let all = (0..count).map(|_| read_condition(parts, within));
            FieldCondition::All(all.collect::<Option<_>>()?)
        }
    })
}

impl From<&Value> for ValueLayout {
    fn from(value: &Value) -> ValueLayout {
        let Value::Number(number) = value else { return ValueLayout::Other(value.to_string()) };
        let natural = number.as_u64().map(ValueLayout::Natural);
        let whole = || number.as_i64().map(ValueLayout::Whole);
        let real = || ValueLayout::Real(number.as_f64().unwrap_or(f64::NAN));
        natural.or_else(whole).unwrap_or_else(real)
    }
}

impl ValueLayout {
    fn read(self) -> Option<Value> {
        match self {
            ValueLayout::Natural(number) => Some(number.into()),
            ValueLayout::Whole(number) => Some(number.into()),
            ValueLayout::Real(number) => Number::from_f64(number).map(Value::Number),
            ValueLayout::Other(text) => serde_json::from_str(&text).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_deeper_than_json_is_refused() {
        let nested = |depth: usize| {
            let innermost = FieldCondition::Exists(true);
            let condition = (1..depth).fold(innermost, |within, _| FieldCondition::Not(Box::new(within)));
            let metadata = BTreeMap::from([("field".to_owned(), condition)]);
            let filter = Filter { metadata, ..Filter::default() };
            read_filter(FilterLayout::from(&filter))
        };
        assert!(nested(MAX_DEPTH).is_some());
        assert!(nested(MAX_DEPTH + 1).is_none());
        // As many parts as a question may have do not use up the stack.
        let parts: Vec<ConditionLayout> = (0..1_000_000).map(|_| ConditionLayout::Not).collect();
        assert!(read_condition(&mut parts.into_iter(), MAX_DEPTH).is_none());
    }
}
