//! Marks on the wire.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::few::Few;
use super::values::{Count, Id, Timestamp};
use crate::error::{Code, Problem};
use lookalike_hash::{DocumentId, Mark};
use lookalike_service::{MarkList, Marked, WantedMarks};

/// The field of the marks in a body.
const LIST: &str = "marks";

/// Marks to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMarks)]
pub struct MarksIn {
    /// The marks, at most 1,000.
    #[schema(value_type = Vec<MarkIn>)]
    marks: Few<MarkIn>,
    /// Is ignored, so that a page of the list can be sent as it is.
    #[serde(default, rename = "next")]
    #[schema(value_type = Option<String>)]
    _next: Option<String>,
}

/// A mark to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMark)]
struct MarkIn {
    /// Two documents that are no duplicates of each other, or one that is no duplicate of any other.
    #[schema(value_type = Vec<Id>, min_items = 1, max_items = 2)]
    ids: Vec<Id>,
    /// When it was made. Default: now. A mark that exists keeps its time.
    #[schema(value_type = Option<Timestamp>)]
    marked_at: Option<Timestamp>,
}

impl MarkIn {
    fn mark(self) -> Result<(Mark, Option<u64>), Problem> {
        let mut ids = self.ids.into_iter().map(|id| id.0);
        let mark = match (ids.next(), ids.next(), ids.next()) {
            (Some(id), None, None) => Ok(Mark::of(id)),
            (Some(a), Some(b), None) => pair(a, b),
            _ => Err("a mark has one id or two".to_owned()),
        };
        let mark = mark.map_err(|detail| Problem::field(Code::InvalidField, "/ids", detail))?;
        Ok((mark, self.marked_at.map(|at| at.0)))
    }
}

fn pair(a: DocumentId, b: DocumentId) -> Result<Mark, String> {
    let name = a.clone();
    Mark::pair(a, b).ok_or_else(|| {
        format!(
            "{:?} is both documents of the pair; leave one out to mark the document itself",
            name.as_str()
        )
    })
}

impl MarksIn {
    /// The marks, each with the time at which it was put, if it was given.
    pub fn marks(self) -> Result<Vec<(Mark, Option<u64>)>, Problem> {
        let mark = |(at, mark): (usize, MarkIn)| {
            mark.mark().map_err(|problem| problem.within(&format!("/{LIST}/{at}")))
        };
        self.marks.0.into_iter().enumerate().map(mark).collect()
    }
}

/// The result of adding marks.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AddedMarks)]
pub struct MarkedOut {
    /// The number of new marks.
    added: usize,
    /// The number of marks that existed already.
    present: usize,
}

impl From<Marked> for MarkedOut {
    fn from(Marked { added, present }: Marked) -> MarkedOut {
        MarkedOut { added, present }
    }
}

/// Which marks are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MarkListParams {
    /// Only the marks of this document.
    #[param(value_type = Option<Id>)]
    id: Option<Id>,
    /// The most marks in the answer. Default: `limits.default_matches`.
    limit: Option<Count>,
    /// The `next` cursor of the previous page.
    cursor: Option<String>,
}

impl MarkListParams {
    /// The marks that are asked for.
    pub fn wanted(self) -> WantedMarks {
        let (id, limit) = (self.id.map(|id| id.0), self.limit.map(|limit| limit.0));
        WantedMarks { id, cursor: self.cursor, limit }
    }
}

/// The mark to remove.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MarkParams {
    /// The document, or one of the pair.
    #[param(value_type = Id)]
    id: Id,
    /// The other document of the pair.
    #[param(value_type = Option<Id>)]
    other: Option<Id>,
}

impl MarkParams {
    /// The mark that is meant.
    pub fn mark(self) -> Result<Mark, Problem> {
        match self.other {
            None => Ok(Mark::of(self.id.0)),
            Some(other) => pair(self.id.0, other.0)
                .map_err(|detail| Problem::parameter(Code::InvalidField, "other", detail)),
        }
    }
}

/// Marks in the order of their ids.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Marks)]
pub struct MarksOut {
    /// The marks.
    marks: Vec<MarkOut>,
    /// The cursor of the next page, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A mark.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Mark)]
struct MarkOut {
    /// The documents of the pair, the smaller id first; or the one document.
    #[schema(value_type = Vec<Id>)]
    ids: Vec<Id>,
    /// When it was made.
    #[schema(value_type = Timestamp)]
    marked_at: Timestamp,
}

impl From<MarkList> for MarksOut {
    fn from(list: MarkList) -> MarksOut {
        let mark = |(mark, marked_ms): (Mark, u64)| MarkOut {
            ids: std::iter::once(mark.id()).chain(mark.other()).cloned().map(Id).collect(),
            marked_at: Timestamp(marked_ms),
        };
        MarksOut { marks: list.marks.into_iter().map(mark).collect(), next: list.next }
    }
}
